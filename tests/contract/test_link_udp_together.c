/* SPDX-License-Identifier: Apache-2.0
 *
 * The UDP link with messages that wait for each other: what goes to the system together arrives as
 * if each had gone alone, and nothing waits longer than the caller's next step. */
#include "udp_ends.h"

#include "uwasa/rng.h"

#include <sys/socket.h>

#define MTU 9000u
#define MESSAGES 400u
#define WAIT_MS 2000

static struct uw_link *open_end(size_t i, uint32_t mtu, bool together)
{
    const struct uw_link_udp_config c = {.bind = "127.0.0.1:0", .stations_n = 4, .mtu_bytes = mtu,
                                         .together = together,
                                         .socket_buffer_bytes = 4u << 20};
    assert_int_equal(udp_end_open(&ends[i], c, NULL), UW_OK);
    return &ends[i].udp.link;
}

static uint16_t station_of(struct uw_link *at, size_t other)
{
    uint16_t station;
    assert_int_equal(uw_link_resolve(at, ends[other].address, &station), UW_OK);
    return station;
}

static int receive(struct uw_link *l, uint8_t *buf)
{
    uint16_t from;
    int rc = uw_link_recv(l, &from, buf, MTU);
    while (rc == UW_ERR_AGAIN && is_readable(l, WAIT_MS)) {
        rc = uw_link_recv(l, &from, buf, MTU);
    }
    return rc;
}

/* Sizes as a node has them, most of them alike, and all others: 1, 0, the largest. */
static uint32_t size_of(uint64_t seed, uint32_t i)
{
    uint32_t r = (uint32_t)(uw_rng_mix(seed, i) >> 8);
    return r % 4u != 0 ? 1232u : r % 7u == 0 ? 0 : r % 11u == 0 ? MTU : r % 1500u + 1u;
}

static void make(uint8_t *buf, uint64_t seed, uint32_t i)
{
    for (uint32_t k = 0; k < size_of(seed, i); k++) {
        buf[k] = (uint8_t)(i * 31u + k * 7u + (k >> 8));
    }
}

static void expect_message(struct uw_link *l, uint64_t seed, uint32_t i)
{
    static uint8_t buf[MTU], want[MTU];
    make(want, seed, i);
    assert_int_equal(receive(l, buf), size_of(seed, i));
    assert_memory_equal(buf, want, size_of(seed, i));
}

/* Two stations by turns, sometimes a step between; every third message is for the other one. */
static void talk(uint64_t seed)
{
    static uint8_t buf[MTU];
    struct uw_link *a = &ends[0].udp.link;
    const uint16_t to[2] = {station_of(a, 1), station_of(a, 2)};
    for (uint32_t i = 0, heard = 0; i < MESSAGES; i++) {
        make(buf, seed, i);
        assert_int_equal(uw_link_send(a, to[i % 3u == 0], buf, size_of(seed, i)), UW_OK);
        if (uw_rng_mix(seed, 1000u + i) % 40u != 0 && i + 1u != MESSAGES) {
            continue;
        }
        (void)uw_link_step(a, i);
        for (; heard <= i; heard++) {
            expect_message(&ends[heard % 3u == 0 ? 2 : 1].udp.link, seed, heard);
        }
    }
    assert_int_equal(a->stats.sent_n, MESSAGES);
    assert_int_equal(a->stats.dropped_n, 0);
}

static void test_together_every_message_arrives_whole_and_in_order(void **state)
{
    (void)state;
    open_end(0, MTU, true);
    open_end(1, MTU, true);
    open_end(2, MTU, false);    /* who knows nothing of it takes them as well */
    talk(uw_test_seed(1));
}

/* A socket that computes no checksums is one that Linux refuses to cut blocks for. */
static void test_together_a_path_that_takes_no_blocks_gets_them_one_by_one(void **state)
{
    (void)state;
    const int on = 1;
    struct uw_link *a = open_end(0, MTU, true);
    open_end(1, MTU, true);
    open_end(2, MTU, true);
#ifdef SO_NO_CHECK
    assert_int_equal(setsockopt(a->fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
#endif
    (void)a;
    (void)on;
    talk(uw_test_seed(2));
}

static void test_together_messages_wait_for_step_recv_or_deinit(void **state)
{
    (void)state;
    uint8_t byte = 7, in[MTU];
    uint16_t from;
    struct uw_link *a = open_end(0, MTU, true), *b = open_end(1, MTU, true);
    uint16_t to = station_of(a, 1);
    for (int how = 0; how < 3; how++) {
        assert_int_equal(uw_link_send(a, to, &byte, 1), UW_OK);
        assert_int_equal(uw_link_send(a, to, &byte, 1), UW_OK);
        assert_false(is_readable(b, 0));
        if (how == 0) {
            assert_true(uw_link_step(a, 5) == UINT64_MAX);
        } else if (how == 1) {
            assert_int_equal(uw_link_recv(a, &from, in, MTU), UW_ERR_AGAIN);
        } else {
            uw_link_deinit(a);
        }
        assert_int_equal(receive(b, in), 1);
        assert_int_equal(receive(b, in), 1);
        assert_int_equal(uw_link_recv(b, &from, in, MTU), UW_ERR_AGAIN);
    }
}

/* More than one block takes goes at once; none is lost for it. */
static void test_together_a_full_block_goes_by_itself(void **state)
{
    (void)state;
    static uint8_t buf[1000], in[MTU];
    struct uw_link *a = open_end(0, MTU, true), *b = open_end(1, MTU, true);
    uint16_t to = station_of(a, 1);
    for (uint32_t i = 0; i < 66u; i++) {
        assert_int_equal(uw_link_send(a, to, buf, sizeof buf), UW_OK);
    }
    assert_true(is_readable(b, WAIT_MS));
    (void)uw_link_step(a, 5);
    for (uint32_t i = 0; i < 66u; i++) {
        assert_int_equal(receive(b, in), sizeof buf);
    }
    assert_false(is_readable(b, 0));
}

/* What lies in the link is not seen by who waits for its socket: step says so. */
static void test_together_step_tells_what_is_left_to_take(void **state)
{
    (void)state;
    uint8_t byte = 7, in[MTU];
    uint16_t from;
    struct uw_link *a = open_end(0, MTU, true), *b = open_end(1, MTU, true);
    uint16_t to = station_of(a, 1);
    for (uint32_t i = 0; i < 3u; i++) {
        assert_int_equal(uw_link_send(a, to, &byte, 1), UW_OK);
    }
    (void)uw_link_step(a, 5);
    for (uint32_t i = 0; i < 3u; i++) {
        assert_int_equal(receive(b, in), 1);
        bool more = uw_link_step(b, 9) == 9;
        assert_true(i == 2u ? !more : more || is_readable(b, WAIT_MS));
    }
    assert_int_equal(uw_link_recv(b, &from, in, MTU), UW_ERR_AGAIN);
}

static void test_together_each_oversized_message_is_reported_once(void **state)
{
    (void)state;
    static uint8_t buf[101], in[MTU];
    struct uw_link *a = open_end(0, 101, true), *b = open_end(1, 100, true);
    uint16_t to = station_of(a, 1);
    for (uint32_t i = 0; i < 3u; i++) {
        assert_int_equal(uw_link_send(a, to, buf, 101), UW_OK);
    }
    assert_int_equal(uw_link_send(a, to, buf, 100), UW_OK);
    (void)uw_link_step(a, 5);
    for (uint32_t i = 0; i < 3u; i++) {
        assert_int_equal(receive(b, in), UW_ERR_TOOBIG);
    }
    assert_int_equal(receive(b, in), 100);
    assert_int_equal(b->stats.dropped_n, 3);
}

static void test_together_nobody_listening_is_no_error(void **state)
{
    (void)state;
    uint8_t byte = 7;
    struct uw_link *a = open_end(0, MTU, true);
    open_end(1, MTU, true);
    uint16_t from, to = station_of(a, 1);
    uw_link_deinit(&ends[1].udp.link);
    for (uint32_t i = 0; i < 100u; i++) {
        assert_int_equal(uw_link_send(a, to, &byte, 1), UW_OK);
        if (i % 3u == 0) {
            (void)uw_link_step(a, i);
            assert_int_equal(uw_link_recv(a, &from, &byte, 1), UW_ERR_AGAIN);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_together_every_message_arrives_whole_and_in_order,
                                  teardown),
        cmocka_unit_test_teardown(
            test_together_a_path_that_takes_no_blocks_gets_them_one_by_one, teardown),
        cmocka_unit_test_teardown(test_together_messages_wait_for_step_recv_or_deinit, teardown),
        cmocka_unit_test_teardown(test_together_a_full_block_goes_by_itself, teardown),
        cmocka_unit_test_teardown(test_together_step_tells_what_is_left_to_take, teardown),
        cmocka_unit_test_teardown(test_together_each_oversized_message_is_reported_once, teardown),
        cmocka_unit_test_teardown(test_together_nobody_listening_is_no_error, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
