/* SPDX-License-Identifier: Apache-2.0
 *
 * The secure channel as boards have it: all sessions of a program in one fixed buffer, with one
 * pair of record buffers. Here the nodes of a world are one program. */
#include "secure_world.h"

#define PEERS 6u
#define STEP_BYTES 256u

static struct world world;
static const struct node_config plain_node;

static void test_sessions_that_share_record_buffers_talk_at_once(void **state)
{
    (void)state;
    const struct node_config c = {.sessions_n = PEERS, .handshakes_n = PEERS,
                                  .send = {.loss = 0.1f, .duplicate = 0.1f, .reorder = 0.2f,
                                           .delay_us = 5000, .jitter_us = 5000}};
    world_open(&world, uw_test_seed(1));
    for (uint16_t i = 0; i < PEERS; i++) {
        (void)node_open(&world, i, &c);
    }
    for (uint32_t round = 0; round < 1500; round++) {
        for (uint16_t i = 0; i < PEERS; i++) {
            (void)node_say(&world.node[i], (uint16_t)((i + 1u + round % (PEERS - 1u)) % PEERS),
                           (uint8_t)round);
        }
        world_run(&world, 10000);
    }
    for (uint16_t i = 0; i < PEERS; i++) {
        for (uint16_t k = 0; k < PEERS; k++) {
            assert_true(i == k || world.node[i].received[k] > 100);
        }
        assert_int_equal(world.node[i].events[UW_SECURE_PEER_REFUSED], 0);
        assert_int_equal(world.node[i].events[UW_SECURE_PEER_CLOSED], 0);
    }
    world_close(&world);
}

/* A world of three in so little memory. */
static struct node *open_in(size_t bytes)
{
    world_open(&world, uw_test_seed(2));
    uw_secure_memory_init(world.tls, bytes);
    struct node *a = node_open(&world, 0, &plain_node);
    (void)node_open(&world, 1, &plain_node);
    (void)node_open(&world, 2, &plain_node);
    return a;
}

static void test_handshake_without_memory_fails_and_is_tried_again(void **state)
{
    (void)state;
    world_open(&world, uw_test_seed(2));
    for (uint16_t i = 0; i < 3; i++) {
        (void)node_open(&world, i, &plain_node);
    }
    size_t bytes = uw_secure_memory_peak_bytes() + sizeof(max_align_t);
    world_close(&world);

    uint32_t failed_n = 0;
    for (bool first = false, second = false; !second; bytes += STEP_BYTES) {
        assert_true(bytes < WORLD_TLS_BYTES);
        struct node *a = open_in(bytes);
        bool had = first;
        first = world_connect(&world, a, 1, 3000000) != UINT64_MAX;
        assert_true(first || !had);
        failed_n += first ? 0 : 1u;
        if (first) {
            second = world_connect(&world, a, 2, 3000000) != UINT64_MAX;
            expect_talk(&world, a, &world.node[1]);     /* and the other lost nothing by it */
        }
        if (first && !second) {
            failed_n++;
            uw_secure_dtls_reset(&a->dtls, 1);
            assert_true(world_connect(&world, a, 2, 20000000) != UINT64_MAX);
            expect_talk(&world, a, &world.node[2]);
        }
        assert_true(uw_secure_memory_peak_bytes() <= bytes);
        world_close(&world);
    }
    assert_true(failed_n > 8);      /* at one of its requests after the other */
}

static void test_memory_given_back_is_taken_again(void **state)
{
    (void)state;
    world_open(&world, uw_test_seed(3));
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &plain_node);
    size_t peak = 0;
    for (uint32_t i = 0; i < 50; i++) {
        assert_true(world_connect(&world, a, 1, 20000000) != UINT64_MAX);
        expect_talk(&world, a, b);
        peak = i == 3 ? uw_secure_memory_peak_bytes() : peak;
        uw_secure_dtls_reset(&a->dtls, 1);
        world_run(&world, 50000);
    }
    assert_int_equal(uw_secure_memory_peak_bytes(), peak);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions_that_share_record_buffers_talk_at_once),
        cmocka_unit_test(test_handshake_without_memory_fails_and_is_tried_again),
        cmocka_unit_test(test_memory_given_back_is_taken_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
