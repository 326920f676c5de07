/* SPDX-License-Identifier: Apache-2.0
 *
 * What uwasa/collective.h promises, over links that stream and links that must be asked again: all
 * ranks in one thread, stepped in turns. */
#include "test_support.h"

#include "uwasa/collective.h"
#include "uwasa/link_loopback.h"
#include "uwasa/link_tcp.h"
#include "uwasa/link_udp.h"

#include <time.h>

#define RANKS 5u
#define N_MAX 70000u
#define TURNS 2000000u

struct world {
    struct uw_loopback_hub hub;
    struct uw_link_loopback loopback[RANKS];
    struct uw_link_udp udp[RANKS];
    struct uw_link_tcp tcp[RANKS];
    struct uw_link *link[RANKS];
    uint16_t stations[RANKS][RANKS];
    struct uw_collective collective[RANKS];
    void *blocks[2 * RANKS + 1];
    size_t blocks_n;
    float x[RANKS][N_MAX];
};

static struct world w;

static void *block(size_t bytes)
{
    assert_true(bytes != SIZE_MAX);
    return w.blocks[w.blocks_n++] = uw_test_block(bytes);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void open_loopback(void)
{
    struct uw_loopback_config c = {.endpoints_n = RANKS, .mtu_bytes = 4096, .queue_n = 16};
    c.memory_bytes = uw_loopback_hub_bytes(&c);
    c.memory = block(c.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&w.hub, &c), UW_OK);
    for (uint16_t i = 0; i < RANKS; i++) {
        assert_int_equal(uw_link_loopback_init(&w.loopback[i], &w.hub, i), UW_OK);
        w.link[i] = &w.loopback[i].link;
    }
}

static void open_udp(void)
{
    for (size_t i = 0; i < RANKS; i++) {
        struct uw_error err;
        struct uw_link_udp_config c = {.bind = "127.0.0.1:0", .stations_n = RANKS};
        c.memory_bytes = uw_link_udp_bytes(&c);
        c.memory = block(c.memory_bytes);
        assert_int_equal(uw_link_udp_init(&w.udp[i], &c, &err), UW_OK);
        w.link[i] = &w.udp[i].link;
    }
}

static void open_tcp(void)
{
    for (size_t i = 0; i < RANKS; i++) {
        struct uw_error err;
        struct uw_link_tcp_config c = {.bind = "127.0.0.1:0", .stations_n = RANKS};
        c.memory_bytes = uw_link_tcp_bytes(&c);
        c.memory = block(c.memory_bytes);
        assert_int_equal(uw_link_tcp_init(&w.tcp[i], &c, &err), UW_OK);
        w.link[i] = &w.tcp[i].link;
    }
}

static void address_of(size_t i, char text[UW_LINK_ADDRESS_BYTES])
{
    if (w.link[i] == &w.udp[i].link) {
        assert_int_equal(uw_link_udp_local(&w.udp[i], text), UW_OK);
    } else if (w.link[i] == &w.tcp[i].link) {
        assert_int_equal(uw_link_tcp_local(&w.tcp[i], text), UW_OK);
    } else {
        snprintf(text, UW_LINK_ADDRESS_BYTES, "%zu", i);
    }
}

static void set_up(void (*open)(void), uint32_t stranger_run)
{
    memset(&w, 0, sizeof w);
    open();
    for (uint32_t i = 0; i < RANKS; i++) {
        for (size_t k = 0; k < RANKS; k++) {
            char text[UW_LINK_ADDRESS_BYTES];
            address_of(k, text);
            assert_int_equal(uw_link_resolve(w.link[i], text, &w.stations[i][k]), UW_OK);
        }
        struct uw_collective_config c = {.link = w.link[i], .stations = w.stations[i],
                                         .ranks = RANKS, .rank = i, .size_n = N_MAX,
                                         .run = i == RANKS - 1 ? stranger_run : 3};
        c.memory_bytes = uw_collective_bytes(&c);
        c.memory = block(c.memory_bytes);
        assert_int_equal(uw_collective_init(&w.collective[i], &c), UW_OK);
        assert_true(uw_collective_settled(&w.collective[i]));
    }
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANKS; i++) {
        uw_link_deinit(w.link[i]);
    }
    while (w.blocks_n > 0) {
        uw_test_release(w.blocks[--w.blocks_n]);
    }
    return 0;
}

static void begin(enum uw_allreduce_kind kind, bool average, uint32_t n)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        for (uint32_t k = 0; k < n; k++) {
            w.x[i][k] = (float)((i + 1u) * (k % 13u + 1u));
        }
        assert_int_equal(uw_collective_begin(&w.collective[i], kind, average, w.x[i], n, now()),
                         UW_OK);
    }
}

/* Step all ranks, until all are settled or for so many turns. */
static bool run(uint32_t turns)
{
    for (uint32_t turn = 0; turn < turns; turn++) {
        bool all = true;
        for (uint32_t i = 0; i < RANKS; i++) {
            (void)uw_collective_step(&w.collective[i], now());
            all = all && uw_collective_done(&w.collective[i]) &&
                  uw_collective_settled(&w.collective[i]);
        }
        if (all) {
            return true;
        }
    }
    return false;
}

static void rounds(void (*open)(void))
{
    const uint32_t sizes[] = {1, 4, 1000, N_MAX};
    set_up(open, 3);
    for (size_t s = 0; s < 4; s++) {
        for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
            bool average = (kind + (int)s) % 2 == 0 || kind == UW_ALLREDUCE_SWEEP;
            begin((enum uw_allreduce_kind)kind, average, sizes[s]);
            assert_true(run(TURNS));
            for (uint32_t i = 0; i < RANKS; i++) {
                for (uint32_t k = 0; k < sizes[s]; k++) {
                    float sum = 15.0f * (float)(k % 13u + 1u), off;
                    off = w.x[i][k] - (average ? sum / 5.0f : sum);
                    assert_true(off >= -1e-4f && off <= 1e-4f);
                }
            }
        }
    }
}

static void test_collective_over_memory(void **state)
{
    (void)state;
    rounds(open_loopback);
}

static void test_collective_over_udp(void **state)
{
    (void)state;
    rounds(open_udp);
}

static void test_collective_over_tcp(void **state)
{
    (void)state;
    rounds(open_tcp);
}

/* A rank of another run is not heard, so the round cannot end; it may not begin another one. */
static void test_collective_messages_of_another_run_are_dropped(void **state)
{
    (void)state;
    set_up(open_tcp, 4);
    begin(UW_ALLREDUCE_TREE, false, 10);
    assert_false(run(2000));
    assert_false(uw_collective_done(&w.collective[0]));
    assert_int_equal(uw_collective_begin(&w.collective[0], UW_ALLREDUCE_TREE, false, w.x[0], 10,
                                         now()),
                     UW_ERR_AGAIN);
}

static void test_collective_configurations_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct uw_collective c;
    set_up(open_loopback, 3);
    struct uw_collective_config good = w.collective[0].config;
    struct uw_collective_config bad[] = {good, good, good, good, good, good, good, good};
    bad[0].link = NULL;
    bad[1].rank = RANKS;
    bad[2].size_n = 0;
    bad[3].stations = NULL;
    bad[4].ranks = 0;
    bad[5].ranks = 32769;
    bad[6].chunk_n = 1;
    bad[7].chunk_n = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_true(uw_collective_bytes(&bad[i]) == SIZE_MAX);
        assert_int_equal(uw_collective_init(&c, &bad[i]), UW_ERR_INVALID);
    }
    struct uw_collective_config most = good, least = good;
    most.ranks = 32768;
    least.chunk_n = 8;
    assert_true(uw_collective_bytes(&most) != SIZE_MAX);
    assert_true(uw_collective_bytes(&least) != SIZE_MAX);
    struct uw_collective_config small = good;
    small.memory_bytes = 100;
    assert_int_equal(uw_collective_init(&c, &small), UW_ERR_NOMEM);
    small.memory = NULL;
    assert_int_equal(uw_collective_init(&c, &small), UW_ERR_NOMEM);
    assert_int_equal(uw_collective_begin(&w.collective[0], UW_ALLREDUCE_TREE, false, w.x[0],
                                         N_MAX + 1u, now()),
                     UW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_collective_over_memory, teardown),
        cmocka_unit_test_teardown(test_collective_over_udp, teardown),
        cmocka_unit_test_teardown(test_collective_over_tcp, teardown),
        cmocka_unit_test_teardown(test_collective_messages_of_another_run_are_dropped, teardown),
        cmocka_unit_test_teardown(test_collective_configurations_that_make_no_sense_are_refused,
                                  teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
