/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets averaged over real connections on this machine, in their form on the wire. */
#include "test_support.h"

#include "overlap_net.h"
#include "collective/overlap.h"
#include "wire/part.h"

#include "uwasa/link_tcp.h"

#include <time.h>

#define RANKS_N 3u
#define BUCKETS_N 4u
#define SIZE_N 60000u
#define CHUNK_N 2048u
#define RUN 77u
#define PATIENCE_US 20000000u

static const uint32_t sizes[BUCKETS_N] = {5, 3000, 60000, 20000};

struct rank {
    struct uw_link_tcp tcp;
    struct uw_overlap o;
    void *memory, *link_memory;
    uint16_t station[RANKS_N];
    float x[BUCKETS_N][SIZE_N];
    bool dead;
};

static struct rank ranks[RANKS_N];

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    uint8_t bytes[UW_PART_WANT_BYTES];
    const struct uw_part_sender sender = {&r->tcp.link, RUN, bytes, sizeof bytes};
    int rc = uw_part_send(&sender, r->station[rank], part, false);
    return rc < 0 ? rc : UW_OK;
}

static void open_ranks(void)
{
    char address[RANKS_N][UW_LINK_ADDRESS_BYTES];
    for (uint32_t i = 0; i < RANKS_N; i++) {
        struct rank *r = &ranks[i];
        struct uw_arena arena;
        struct uw_link_tcp_config tcp = {.bind = "127.0.0.1:0"};
        const struct uw_overlap_config c = {
            .kind = UW_ALLREDUCE_RING, .bucket_n = sizes, .buckets_n = BUCKETS_N,
            .ranks_max = RANKS_N, .chunk_n = CHUNK_N, .fragment_n = 8 * CHUNK_N, .reliable = true,
            .send = send, .arg = r};
        tcp.memory_bytes = uw_link_tcp_bytes(&tcp);
        tcp.memory = r->link_memory = uw_test_block(tcp.memory_bytes);
        assert_int_equal(uw_link_tcp_init(&r->tcp, &tcp, NULL), UW_OK);
        assert_true(r->tcp.link.reliable);
        assert_int_equal(uw_link_tcp_local(&r->tcp, address[i]), UW_OK);
        uw_link_step(&r->tcp.link, now_us());
        r->memory = uw_test_block(net_overlap_bytes(&c));
        uw_arena_init(&arena, r->memory, net_overlap_bytes(&c));
        assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
    }
    for (uint32_t i = 0; i < RANKS_N; i++) {
        for (uint32_t k = 0; k < RANKS_N; k++) {
            if (k != i) {
                assert_int_equal(uw_link_resolve(&ranks[i].tcp.link, address[k],
                                                 &ranks[i].station[k]), UW_OK);
            }
        }
    }
}

static void begin_group(uint32_t group, uint32_t p)
{
    for (uint32_t i = 0; i < p; i++) {
        const struct uw_overlap_group g = {.group = group, .ranks = p, .rank = i, .rtt_us = 200};
        uw_overlap_begin(&ranks[i].o, &g, now_us());
    }
}

static void take_all(struct rank *r)
{
    struct uw_part part;
    uint16_t from;
    uint32_t run;
    void *view;
    int bytes;
    while ((bytes = uw_link_recv_view(&r->tcp.link, &from, NULL, 0, &view)) >= 0) {
        assert_int_equal(uw_part_decode(view, (uint32_t)bytes, false, &run, &part), UW_OK);
        assert_int_equal(run, RUN);
        for (uint32_t k = 0; k < RANKS_N; k++) {
            if (&ranks[k] != r && r->station[k] == from) {
                uw_overlap_take(&r->o, k, &part, now_us());
            }
        }
    }
}

static bool is_waited_for(uint32_t rank)
{
    uint32_t waits_for = UW_RANK_NONE;
    uw_overlap_progress(&ranks[0].o, &waits_for);
    return waits_for == rank;
}

/* All buckets of all ranks, the upper ones first, until that is done or the first rank waits for
 * the missing one; returns whether it is done. */
static bool average(uint32_t p, uint32_t step, uint32_t missing)
{
    uint64_t until_us = now_us() + PATIENCE_US;
    uint32_t ready = 0, done = 0;
    bool stuck = false;
    while (done < p * BUCKETS_N && !stuck && now_us() < until_us) {
        done = 0;
        for (uint32_t i = 0; i < p; i++) {
            struct rank *r = &ranks[i];
            if (r->dead) {
                continue;
            }
            if (ready < p * BUCKETS_N && ready % p == i) {
                uint32_t b = BUCKETS_N - 1 - ready / p;
                for (uint32_t k = 0; k < sizes[b]; k++) {
                    r->x[b][k] = (float)(i + step + k % 97);
                }
                uw_overlap_ready(&r->o, b, r->x[b], now_us());
                ready++;
            }
            uw_link_step(&r->tcp.link, now_us());
            uw_overlap_run(&r->o, now_us());
            take_all(r);
            for (uint32_t b = 0; b < BUCKETS_N && ready == p * BUCKETS_N; b++) {
                done += uw_overlap_state(&r->o, b) == UW_OVERLAP_DONE;
            }
        }
        ready += ready < p * BUCKETS_N && ranks[ready % p].dead ? 1 : 0;
        stuck = missing != UW_RANK_NONE && ready == p * BUCKETS_N && is_waited_for(missing);
    }
    return done == p * BUCKETS_N;
}

static void check(uint32_t p, uint32_t step)
{
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        for (uint32_t k = 0; k < sizes[b]; k++) {
            float mean = (float)(p - 1) / 2.0f + (float)(step + k % 97);
            assert_true(fabsf(ranks[0].x[b][k] - mean) < 1e-4f);
        }
        for (uint32_t i = 1; i < p; i++) {
            assert_memory_equal(ranks[0].x[b], ranks[i].x[b], sizes[b] * sizeof(float));
        }
    }
}

/* Then the last rank dies in the middle of a step: the others see who is missing, and go on. */
static void test_buckets_are_averaged_over_tcp(void **state)
{
    (void)state;
    open_ranks();
    begin_group(1, RANKS_N);
    for (uint32_t step = 0; step < 4; step++) {
        assert_true(average(RANKS_N, step, UW_RANK_NONE));
        check(RANKS_N, step);
    }
    ranks[RANKS_N - 1].dead = true;
    uw_link_deinit(&ranks[RANKS_N - 1].tcp.link);
    (void)average(RANKS_N, 4, RANKS_N - 1);
    assert_true(is_waited_for(RANKS_N - 1));
    for (uint32_t i = 0; i < RANKS_N - 1; i++) {
        uw_overlap_stop(&ranks[i].o);
        assert_int_equal(uw_overlap_state(&ranks[i].o, 2), UW_OVERLAP_STOPPED);
    }
    begin_group(2, RANKS_N - 1);
    for (uint32_t step = 5; step < 8; step++) {
        assert_true(average(RANKS_N - 1, step, UW_RANK_NONE));
        check(RANKS_N - 1, step);
    }
    for (uint32_t i = 0; i < RANKS_N; i++) {
        uw_link_deinit(&ranks[i].tcp.link);
        uw_test_release(ranks[i].memory);
        uw_test_release(ranks[i].link_memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_are_averaged_over_tcp),
    };
    return cmocka_run_group_tests_name("overlap_tcp", tests, NULL, NULL);
}
