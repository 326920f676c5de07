/* SPDX-License-Identifier: Apache-2.0
 *
 * Every promise of uwasa/link.h, over every link: each variant below makes two ends that know
 * each other, and the same tests run over all of them. */
#include "link_pair.h"

#define TRIES 4000

static const struct variant *variant;

/* Receive at end `at`, waiting a bounded time for it. */
static int receive(struct pair *p, size_t at, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < TRIES && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_recv(p->link[at], from, buf, cap_bytes);
        if (rc == UW_ERR_AGAIN) {
            pass_time(p);
        }
    }
    return rc;
}

/* Nothing arrives at an end, after time enough for what was on its way. */
static void expect_silence(struct pair *p, size_t at)
{
    uint8_t buf[MTU];
    uint16_t from;
    for (int i = 0; i < 8; i++) {
        pass_time(p);
        assert_int_equal(uw_link_recv(p->link[at], &from, buf, sizeof buf), UW_ERR_AGAIN);
    }
}

/* Nothing of others arrives: what was sent to all may come back, where radios carry it. */
static void expect_silence_but_echoes(struct pair *p, size_t at)
{
    uint8_t buf[MTU];
    uint16_t from;
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 8; i++) {
        pass_time(p);
        rc = uw_link_recv(p->link[at], &from, buf, sizeof buf);
        assert_true(rc == UW_ERR_AGAIN ||
                    (rc > 0 && p->link[at]->numbered && from == p->link[at]->own));
    }
    assert_int_equal(rc, UW_ERR_AGAIN);
}

static void send_now(struct pair *p, size_t at, const void *buf, uint32_t bytes)
{
    int rc = uw_link_send(p->link[at], p->to[at], buf, bytes);
    for (int i = 0; i < TRIES && p->waits && rc == UW_ERR_AGAIN; i++) {
        pass_time(p);
        rc = uw_link_send(p->link[at], p->to[at], buf, bytes);
    }
    assert_int_equal(rc, UW_OK);
}

static void fill(uint8_t *buf, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++) {
        buf[i] = (uint8_t)(seed * 31u + i * 7u + (i >> 8));
    }
}

/* Two ends, each of which has heard the other. */
static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    uint8_t byte = 42;
    uint16_t from;
    assert_non_null(p);
    p->udp[0].link.fd = p->udp[1].link.fd = -1;
    p->zsock[0].link.fd = p->zsock[1].link.fd = -1;
    p->tcp[0].link.fd = p->tcp[1].link.fd = -1;
    *state = p;
    if (variant->open(p) != NULL) {
        return 0;
    }
    pass_time(p);
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < TRIES && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_send(p->link[0], p->to[0], &byte, 1);
        for (size_t at = 0; at < 2 && rc == UW_ERR_AGAIN; at++) {
            assert_int_equal(uw_link_recv(p->link[at], &from, &byte, 1), UW_ERR_AGAIN);
        }
        pass_time(p);
    }
    assert_int_equal(rc, UW_OK);
    assert_int_equal(receive(p, 1, &p->to[1], &byte, 1), 1);
    assert_int_equal(byte, 42);
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < 2; i++) {
            uw_link_deinit(p->link[i]);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(p->lower[i]);
        uw_link_deinit(&p->udp[i].link);
        uw_link_deinit(&p->zsock[i].link);
        uw_link_deinit(&p->tcp[i].link);
        uw_radio_udp_deinit(&p->multicast[i]);
        uw_secure_stream_deinit(&p->tls[i]);
    }
    while (p->blocks_n != 0) {
        uw_test_release(p->blocks[--p->blocks_n]);
    }
    free(p);
    return 0;
}

static struct pair *opened(void **state)
{
    struct pair *p = *state;
    if (p->to[0] == p->to[1] && p->link[1] == NULL) {
        print_message("skipped: this machine has no ::1, or no multicast\n");
        skip();
    }
    return p;
}

static void test_link_every_size_arrives_whole(void **state)
{
    struct pair *p = opened(state);
    uint32_t mtu = p->link[0]->mtu_bytes;
    uint8_t *out = uw_test_block(mtu);
    uint8_t *in = uw_test_block(mtu);
    for (uint32_t bytes = 0; bytes <= mtu; bytes++) {
        size_t at = bytes % 2;
        uint16_t from = UW_LINK_STATION_NONE;
        fill(out, bytes, bytes);
        memset(in, 0, mtu);
        send_now(p, at, out, bytes);
        assert_int_equal(receive(p, 1 - at, &from, in, mtu), bytes);
        assert_int_equal(from, p->to[1 - at]);
        assert_memory_equal(in, out, bytes);
    }
    uw_test_release(in);
    uw_test_release(out);
}

static void test_link_several_messages_keep_their_boundaries(void **state)
{
    struct pair *p = opened(state);
    uint8_t out[64], in[64];
    uint16_t from;
    for (uint32_t bytes = 0; bytes < 6; bytes++) {
        fill(out, bytes, bytes);
        send_now(p, 0, out, bytes);
    }
    for (uint32_t bytes = 0; bytes < 6; bytes++) {
        fill(out, bytes, bytes);
        assert_int_equal(receive(p, 1, &from, in, sizeof in), bytes);
        assert_memory_equal(in, out, bytes);
    }
    expect_silence(p, 1);
}

static void test_link_above_mtu_is_refused_and_sends_nothing(void **state)
{
    struct pair *p = opened(state);
    uint32_t mtu = p->link[0]->mtu_bytes;
    uint8_t *out = uw_test_block(mtu + 1u);
    assert_int_equal(uw_link_send(p->link[0], p->to[0], out, mtu + 1u), UW_ERR_TOOBIG);
    expect_silence(p, 1);
    uw_test_release(out);
}

static void test_link_small_buffer_drops_the_message_and_stays_untouched(void **state)
{
    struct pair *p = opened(state);
    uint8_t out[40], in[39];
    uint16_t from;
    fill(out, sizeof out, 1);
    memset(in, 0x5a, sizeof in);
    send_now(p, 0, out, sizeof out);
    send_now(p, 0, out, 3);
    uint64_t dropped = p->link[1]->stats.dropped_n;
    assert_int_equal(receive(p, 1, &from, in, sizeof in), UW_ERR_TOOBIG);
    for (size_t i = 0; i < sizeof in; i++) {
        assert_int_equal(in[i], 0x5a);
    }
    assert_int_equal(p->link[1]->stats.dropped_n, dropped + 1);
    assert_int_equal(receive(p, 1, &from, in, sizeof in), 3);
    assert_memory_equal(in, out, 3);
    expect_silence(p, 1);
}

static void test_link_without_arrivals_answers_again_and_touches_nothing(void **state)
{
    struct pair *p = opened(state);
    uint8_t in[8];
    uint16_t from;
    memset(in, 0x5a, sizeof in);
    expect_silence(p, 0);
    assert_int_equal(uw_link_recv(p->link[0], &from, in, sizeof in), UW_ERR_AGAIN);
    assert_int_equal(in[0], 0x5a);
    assert_int_equal(uw_link_recv(p->link[0], &from, NULL, 0), UW_ERR_AGAIN);
}

static void test_link_unknown_station_is_not_found(void **state)
{
    struct pair *p = opened(state);
    char text[UW_LINK_ADDRESS_BYTES];
    uint8_t byte = 0;
    uint16_t unknown = p->all_exist ? UW_LINK_STATION_NONE : 999;
    assert_int_equal(uw_link_send(p->link[0], unknown, &byte, 1), UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_send(p->link[0], UW_LINK_STATION_NONE, &byte, 1), UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_describe(p->link[0], unknown, text), UW_ERR_NOTFOUND);
    assert_false(uw_link_hold(p->link[0], unknown, true));
}

static void test_link_flooded_answers_again_or_loses_but_delivers_no_wrong_byte(void **state)
{
    struct pair *p = opened(state);
    uint8_t out[200], in[200];
    uint16_t from;
    uint32_t accepted = 0, arrived = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        fill(out, sizeof out, i);
        int rc = uw_link_send(p->link[0], p->to[0], out, sizeof out);
        assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
        accepted += rc == UW_OK;
    }
    for (int quiet = 0; quiet < 20;) {
        int rc = uw_link_recv(p->link[1], &from, in, sizeof in);
        if (rc == UW_ERR_AGAIN) {
            pass_time(p);
            quiet++;
            continue;
        }
        quiet = 0;
        assert_int_equal(rc, sizeof in);
        for (uint32_t i = 0; i < sizeof in; i++) {
            assert_int_equal((uint8_t)(in[i] - in[0]), (uint8_t)(i * 7u + (i >> 8)));
        }
        arrived++;
    }
    assert_true(arrived > 0 && arrived <= accepted);
    if (p->link[0]->reliable) {
        assert_int_equal(arrived, accepted);
    }
    fill(out, 5, 1);
    send_now(p, 0, out, 5);
    assert_int_equal(receive(p, 1, &from, in, sizeof in), 5);
    assert_memory_equal(in, out, 5);
}

static void test_link_address_text_leads_back_to_the_station(void **state)
{
    struct pair *p = opened(state);
    for (size_t at = 0; at < 2; at++) {
        char text[UW_LINK_ADDRESS_BYTES];
        uint16_t station = UW_LINK_STATION_NONE;
        assert_int_equal(uw_link_describe(p->link[at], p->to[at], text), UW_OK);
        assert_true(strlen(text) > 0 && strlen(text) < sizeof text);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(uw_link_resolve(p->link[at], text, &station), UW_OK);
            assert_int_equal(station, p->to[at]);
        }
    }
}

static void test_link_malformed_address_is_invalid(void **state)
{
    struct pair *p = opened(state);
    const char *bad[] = {"",  ":",  "7x",     " 3", "[::1", "127.0.0.1:", "127.0.0.1:70000",
                         "-", ":::", "1:2:3:4", "3 ", "::1:80", "127.0.0.1:80x", "+1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint16_t station = 77;
        assert_int_equal(uw_link_resolve(p->link[0], bad[i], &station), UW_ERR_INVALID);
        assert_int_equal(station, 77);
    }
}

static void test_link_hold_returns_what_was_and_resolve_holds(void **state)
{
    struct pair *p = opened(state);
    char text[UW_LINK_ADDRESS_BYTES];
    uint16_t station;
    uw_link_hold(p->link[1], p->to[1], true);
    assert_true(uw_link_hold(p->link[1], p->to[1], false));
    (void)uw_link_hold(p->link[1], p->to[1], false);
    assert_int_equal(uw_link_describe(p->link[1], p->to[1], text), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[1], text, &station), UW_OK);
    assert_true(uw_link_hold(p->link[1], station, true));
}

static void test_link_counts_what_it_carries(void **state)
{
    struct pair *p = opened(state);
    struct uw_link_stats before[2] = {p->link[0]->stats, p->link[1]->stats};
    uint8_t buf[30] = {0};
    uint16_t from;
    send_now(p, 0, buf, 30);
    send_now(p, 0, buf, 0);
    assert_int_equal(receive(p, 1, &from, buf, 30), 30);
    assert_int_equal(receive(p, 1, &from, buf, 30), 0);
    assert_int_equal(p->link[0]->stats.sent_n - before[0].sent_n, 2);
    assert_int_equal(p->link[0]->stats.sent_bytes - before[0].sent_bytes, 30);
    assert_int_equal(p->link[1]->stats.received_n - before[1].received_n, 2);
    assert_int_equal(p->link[1]->stats.received_bytes - before[1].received_bytes, 30);
}

static void test_link_broadcast_arrives_or_is_unsupported(void **state)
{
    struct pair *p = opened(state);
    uint8_t byte = 9, in = 0;
    uint16_t from;
    int rc = uw_link_send(p->link[0], UW_LINK_STATION_BROADCAST, &byte, 1);
    if (rc != UW_ERR_UNSUPPORTED) {
        assert_int_equal(rc, UW_OK);
        assert_int_equal(receive(p, 1, &from, &in, 1), 1);
        assert_int_equal(in, 9);
        assert_int_equal(from, p->to[1]);
        expect_silence_but_echoes(p, 0);
    }
}

static void test_link_parts_arrive_as_one_message(void **state)
{
    struct pair *p = opened(state);
    uint32_t mtu = p->link[0]->mtu_bytes;
    uint8_t *out = uw_test_block(mtu), *scratch = uw_test_block(mtu), *in = uw_test_block(mtu);
    const uint32_t heads[] = {0, 1, 28, 31};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        for (uint32_t body = 0; body <= mtu - heads[i]; body += body < 9 ? 1 : 97) {
            uint32_t bytes = heads[i] + body;
            uint16_t from;
            void *view = NULL;
            fill(out, bytes, bytes);
            int rc = UW_ERR_AGAIN;
            for (int k = 0; k < TRIES && rc == UW_ERR_AGAIN; k++) {
                rc = uw_link_send_parts(p->link[0], p->to[0], out, heads[i], out + heads[i], body,
                                        scratch);
                if (rc == UW_ERR_AGAIN && p->waits) {
                    pass_time(p);
                }
            }
            assert_int_equal(rc, UW_OK);
            rc = UW_ERR_AGAIN;
            for (int k = 0; k < TRIES && rc == UW_ERR_AGAIN; k++) {
                rc = uw_link_recv_view(p->link[1], &from, in, mtu, &view);
                if (rc == UW_ERR_AGAIN) {
                    pass_time(p);
                }
            }
            assert_int_equal(rc, bytes);
            assert_int_equal(from, p->to[1]);
            assert_int_equal((uintptr_t)view % 4u, 0);
            assert_memory_equal(view, out, bytes);
        }
    }
    assert_int_equal(uw_link_send_parts(p->link[0], p->to[0], out, mtu, out, 1, scratch),
                     UW_ERR_TOOBIG);
    expect_silence(p, 1);
    uw_test_release(in);
    uw_test_release(scratch);
    uw_test_release(out);
}

static void test_link_deferred_messages_wait_in_order(void **state)
{
    struct pair *p = opened(state);
    uint8_t out[64], in[64];
    uint16_t from;
    void *view;
    assert_int_not_equal(uw_link_defer(p->link[1]), UW_OK);
    if (!uw_link_defers(p->link[1])) {
        assert_int_equal(uw_link_defer(p->link[1]), UW_ERR_UNSUPPORTED);
        return;
    }
    for (uint32_t bytes = 0; bytes < 6; bytes++) {
        fill(out, bytes, bytes);
        send_now(p, 0, out, bytes);
    }
    for (uint32_t bytes = 0; bytes < 6; bytes++) {
        for (int again = 0; again < 3; again++) {
            int rc = UW_ERR_AGAIN;
            uint64_t received = p->link[1]->stats.received_n;
            for (int i = 0; i < TRIES && rc == UW_ERR_AGAIN; i++) {
                rc = uw_link_recv_view(p->link[1], &from, in, sizeof in, &view);
                if (rc == UW_ERR_AGAIN) {
                    pass_time(p);
                }
            }
            fill(out, bytes, bytes);
            assert_int_equal(rc, bytes);
            assert_memory_equal(view, out, bytes);
            if (again < 2) {
                assert_int_equal(uw_link_defer(p->link[1]), UW_OK);
                assert_int_equal(uw_link_defer(p->link[1]), UW_ERR_INVALID);
                assert_int_equal(p->link[1]->stats.received_n, received);
                expect_silence(p, 1);
                uw_link_resume(p->link[1]);
            }
        }
    }
    expect_silence(p, 1);
}

static void test_link_survives_the_other_end_going_away(void **state)
{
    struct pair *p = opened(state);
    uint8_t byte = 1;
    uint16_t from;
    uw_link_deinit(p->link[1]);
    uw_link_deinit(p->lower[1]);
    for (int i = 0; i < 20; i++) {
        int rc = uw_link_send(p->link[0], p->to[0], &byte, 1);
        assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
        assert_int_equal(uw_link_recv(p->link[0], &from, &byte, 1), UW_ERR_AGAIN);
        uw_link_step(p->link[0], p->now_us += 1000);
    }
}

static void test_link_step_twice_at_one_time_changes_nothing(void **state)
{
    struct pair *p = opened(state);
    uint8_t byte = 3;
    uint16_t from;
    send_now(p, 0, &byte, 1);
    for (int i = 0; i < 3; i++) {
        uw_link_step(p->link[0], p->now_us);
    }
    assert_int_equal(receive(p, 1, &from, &byte, 1), 1);
    expect_silence(p, 1);
}

static void test_link_after_deinit_is_closed_and_checks_arguments(void **state)
{
    struct pair *p = opened(state);
    struct uw_link zero;
    char text[UW_LINK_ADDRESS_BYTES];
    uint16_t station;
    uint8_t byte = 0;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(uw_link_send(p->link[0], p->to[0], NULL, 1), UW_ERR_INVALID);
    assert_int_equal(uw_link_recv(p->link[0], NULL, &byte, 1), UW_ERR_INVALID);
    assert_int_equal(uw_link_recv(p->link[0], &station, NULL, 1), UW_ERR_INVALID);
    assert_int_equal(uw_link_resolve(p->link[0], NULL, &station), UW_ERR_INVALID);
    assert_int_equal(uw_link_describe(p->link[0], p->to[0], NULL), UW_ERR_INVALID);
    uw_link_deinit(p->link[0]);
    struct uw_link *closed[2] = {p->link[0], &zero};
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(closed[i]);
        uw_link_deinit(closed[i]);
        assert_int_equal(uw_link_send(closed[i], 0, &byte, 1), UW_ERR_CLOSED);
        assert_int_equal(uw_link_recv(closed[i], &station, &byte, 1), UW_ERR_CLOSED);
        assert_int_equal(uw_link_resolve(closed[i], "1", &station), UW_ERR_CLOSED);
        assert_int_equal(uw_link_describe(closed[i], 0, text), UW_ERR_CLOSED);
        assert_true(uw_link_step(closed[i], 1) == UINT64_MAX);
        assert_false(uw_link_hold(closed[i], 0, true));
    }
    assert_int_equal(uw_link_send(NULL, 0, &byte, 1), UW_ERR_INVALID);
    uw_link_deinit(NULL);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int uw_test_link_suite(const struct variant *variants, size_t variants_n)
{
    const struct CMUnitTest tests[] = {
        PROMISE(test_link_every_size_arrives_whole),
        PROMISE(test_link_several_messages_keep_their_boundaries),
        PROMISE(test_link_above_mtu_is_refused_and_sends_nothing),
        PROMISE(test_link_small_buffer_drops_the_message_and_stays_untouched),
        PROMISE(test_link_without_arrivals_answers_again_and_touches_nothing),
        PROMISE(test_link_unknown_station_is_not_found),
        PROMISE(test_link_flooded_answers_again_or_loses_but_delivers_no_wrong_byte),
        PROMISE(test_link_address_text_leads_back_to_the_station),
        PROMISE(test_link_malformed_address_is_invalid),
        PROMISE(test_link_hold_returns_what_was_and_resolve_holds),
        PROMISE(test_link_counts_what_it_carries),
        PROMISE(test_link_broadcast_arrives_or_is_unsupported),
        PROMISE(test_link_parts_arrive_as_one_message),
        PROMISE(test_link_deferred_messages_wait_in_order),
        PROMISE(test_link_survives_the_other_end_going_away),
        PROMISE(test_link_step_twice_at_one_time_changes_nothing),
        PROMISE(test_link_after_deinit_is_closed_and_checks_arguments),
    };
    int failed = 0;
    for (size_t i = 0; i < variants_n; i++) {
        variant = &variants[i];
        failed += cmocka_run_group_tests_name(variant->name, tests, NULL, NULL);
    }
    return failed;
}
