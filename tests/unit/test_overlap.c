/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets averaged by ranks that come to them in their own order and time, on virtual time. */
#include "test_support.h"

#include "overlap_net.h"

#define BUCKETS_N 6u
#define CHUNK_N 16u

static const uint32_t sizes[BUCKETS_N] = {1, 7, 300, 2500, 16, 4099};

struct rank {
    struct net *net;
    uint32_t rank;
    struct uw_overlap o;
    void *memory;
    size_t bytes;
    float *x[BUCKETS_N];
    uint32_t round[BUCKETS_N];          /* times made ready */
    uint64_t ready_ns[BUCKETS_N];       /* when next; UINT64_MAX: runs, or no more */
    bool runs[BUCKETS_N];
    uint64_t next_ns;
    bool heard;                         /* something has arrived */
    uint32_t over;                      /* buckets with nothing more to do */
    uint32_t first_done;                /* bucket that was averaged first; BUCKETS_N: none yet */
    uint32_t begun_n, ended_n;          /* fragments, as traced */
};

struct world {
    struct net net;
    struct rank ranks[NET_RANKS_MAX];
    uint32_t p, rounds, group;
    float *first[3][BUCKETS_N];         /* of the first rank that had round % 3 */
    uint32_t first_round[BUCKETS_N];
};

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    return net_send(r->net, r->rank, rank, part);
}

static void traced(void *arg, uint32_t bucket, uint32_t fragment, bool end, uint64_t now_us)
{
    struct rank *r = arg;
    assert_true(bucket < BUCKETS_N && fragment < r->o.buckets[bucket].fragments_n);
    assert_true(now_us == r->net->now_ns / 1000u);
    r->begun_n += !end;
    r->ended_n += end;
}

static void set_up(struct world *w, uint32_t p, const struct uw_overlap_config *config,
                   uint64_t seed)
{
    *w = (struct world){.p = p};
    uw_rng_seed(&w->net.rng, seed);
    w->net.latency_ns = 500000;
    for (uint32_t i = 0; i < p; i++) {
        struct rank *r = &w->ranks[i];
        struct uw_overlap_config c = *config;
        struct uw_arena arena;
        *r = (struct rank){.net = &w->net, .rank = i};
        c.bucket_n = sizes;
        c.buckets_n = BUCKETS_N;
        c.ranks_max = NET_RANKS_MAX;
        c.chunk_n = CHUNK_N;
        c.send = send;
        c.trace = traced;
        c.arg = r;
        r->bytes = net_overlap_bytes(&c);
        r->memory = uw_test_block(r->bytes);
        uw_arena_init(&arena, r->memory, r->bytes);
        assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
        assert_int_equal(arena.used_bytes, r->bytes);
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            r->x[b] = uw_test_floats(sizes[b]);
        }
    }
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        for (uint32_t k = 0; k < 3; k++) {
            w->first[k][b] = uw_test_floats(sizes[b]);
        }
    }
}

static void tear_down(struct world *w)
{
    net_close(&w->net);
    for (uint32_t i = 0; i < w->p; i++) {
        uw_test_release(w->ranks[i].memory);
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            uw_test_release(w->ranks[i].x[b]);
        }
    }
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        for (uint32_t k = 0; k < 3; k++) {
            uw_test_release(w->first[k][b]);
        }
    }
}

static float value(uint32_t rank, uint32_t round, uint32_t bucket, uint32_t i)
{
    return (float)((rank * 7919u + round * 104729u + bucket * 331u + i * 31u) % 1000u) * 0.001f;
}

/* The mean of all ranks' values, the same bits on all ranks. */
static void check_bucket(struct world *w, const struct rank *r, uint32_t b)
{
    uint32_t round = r->round[b];
    float *first = w->first[round % 3][b];
    for (uint32_t i = 0; i < sizes[b]; i++) {
        double mean = 0.0;
        for (uint32_t k = 0; k < w->p; k++) {
            mean += (double)value(k, round, b, i) / w->p;
        }
        if (!(fabs((double)r->x[b][i] - mean) < 2e-6)) {
            fail_msg("%u ranks, rank %u, round %u, bucket %u, element %u: %g, not %g", w->p,
                     r->rank, round, b, i, (double)r->x[b][i], mean);
        }
    }
    if (w->first_round[b] < round) {
        memcpy(first, r->x[b], sizes[b] * sizeof(float));
        w->first_round[b] = round;
    }
    assert_memory_equal(first, r->x[b], sizes[b] * sizeof(float));
}

static void make_ready(struct world *w, struct rank *r, uint32_t b)
{
    r->round[b]++;
    for (uint32_t i = 0; i < sizes[b]; i++) {
        r->x[b][i] = value(r->rank, r->round[b], b, i);
    }
    r->ready_ns[b] = UINT64_MAX;
    r->runs[b] = true;
    uw_overlap_ready(&r->o, b, r->x[b], w->net.now_ns / 1000u);
}

/* What is averaged is made ready again some time later. */
static void attend(struct world *w, struct rank *r)
{
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        if (r->ready_ns[b] <= w->net.now_ns) {
            make_ready(w, r, b);
        }
    }
    r->next_ns = uw_overlap_run(&r->o, w->net.now_ns / 1000u);
    r->next_ns = r->next_ns < UINT64_MAX / 1000u ? r->next_ns * 1000u : UINT64_MAX;
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        if (r->runs[b] && uw_overlap_state(&r->o, b) == UW_OVERLAP_DONE) {
            check_bucket(w, r, b);
            r->runs[b] = false;
            r->first_done = r->first_done < BUCKETS_N ? r->first_done : b;
            r->over += r->round[b] == w->rounds;
            r->ready_ns[b] = r->round[b] < w->rounds
                                 ? w->net.now_ns + uw_rng_below(&w->net.rng, 3000000)
                                 : UINT64_MAX;
        }
    }
}

/* When a rank has something to do next. */
static uint64_t next_of(const struct rank *r)
{
    uint64_t next_ns = r->next_ns;
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        next_ns = r->ready_ns[b] < next_ns ? r->ready_ns[b] : next_ns;
    }
    return next_ns;
}

static void begin_group(struct world *w)
{
    w->group++;
    for (uint32_t i = 0; i < w->p; i++) {
        const struct uw_overlap_group g = {.group = w->group, .ranks = w->p, .rank = i,
                                           .rtt_us = w->net.latency_ns / 500u};
        uw_overlap_begin(&w->ranks[i].o, &g, w->net.now_ns / 1000u);
        w->ranks[i].first_done = BUCKETS_N;
    }
}

static void deliver(struct world *w)
{
    struct net *n = &w->net;
    while (n->heap_n > 0 && n->heap[0].at_ns <= n->now_ns) {
        struct net_message m = net_pop(n);
        uw_overlap_take(&w->ranks[m.to].o, m.from, &m.part, n->now_ns / 1000u);
        w->ranks[m.to].heard = true;
        free(m.floats);
    }
}

/* Until all is averaged so often, or until `until_ns`. */
static void run(struct world *w, uint64_t until_ns)
{
    uint64_t limit_ns = w->net.now_ns + 600000000000u;
    for (uint32_t over = 0; over < w->p * BUCKETS_N && w->net.now_ns < until_ns;) {
        uint64_t next_ns = UINT64_MAX;
        deliver(w);
        over = 0;
        for (uint32_t i = 0; i < w->p; i++) {
            struct rank *r = &w->ranks[i];
            if (r->heard || next_of(r) <= w->net.now_ns) {
                r->heard = false;
                attend(w, r);
            }
            over += r->over;
            next_ns = next_of(r) < next_ns ? next_of(r) : next_ns;
        }
        if (w->net.heap_n > 0 && w->net.heap[0].at_ns < next_ns) {
            next_ns = w->net.heap[0].at_ns;
        }
        if (over < w->p * BUCKETS_N && (next_ns == UINT64_MAX || w->net.now_ns > limit_ns)) {
            fail_msg("%u ranks: hangs at %g s", w->p, (double)w->net.now_ns * 1e-9);
        }
        w->net.now_ns = next_ns > w->net.now_ns ? next_ns : w->net.now_ns + 1000u;
    }
}

static void run_rounds(struct world *w, uint32_t rounds)
{
    w->rounds += rounds;
    for (uint32_t i = 0; i < w->p; i++) {
        w->ranks[i].over = 0;
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            w->ranks[i].ready_ns[b] = w->net.now_ns + uw_rng_below(&w->net.rng, 5000000);
        }
    }
    run(w, UINT64_MAX);
}

static const enum uw_allreduce_kind kinds[] = {UW_ALLREDUCE_TREE, UW_ALLREDUCE_HALVING,
                                               UW_ALLREDUCE_RING};

static void run_all(const struct uw_overlap_config *config, const struct net *faults)
{
    for (uint32_t p = 1; p <= NET_RANKS_MAX; p++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            struct world w;
            struct uw_overlap_config c = *config;
            c.kind = kinds[k];
            set_up(&w, p, &c, 100 * p + k);
            w.net.loss = faults->loss;
            w.net.twice = faults->twice;
            w.net.refuse = faults->refuse;
            w.net.jitter_ns = faults->jitter_ns;
            begin_group(&w);
            run_rounds(&w, 3);
            for (uint32_t i = 0; i < p; i++) {
                assert_int_equal(w.ranks[i].begun_n, 3 * w.ranks[i].o.fragments_n);
                assert_int_equal(w.ranks[i].ended_n, w.ranks[i].begun_n);
            }
            tear_down(&w);
        }
    }
}

static void test_ranks_reach_buckets_in_any_order(void **state)
{
    (void)state;
    const struct uw_overlap_config whole = {.reliable = true}, small = {.reliable = true,
                                                                       .fragment_n = 100},
                                   narrow = {.reliable = true, .fragment_n = 100,
                                            .window_chunks = 20};
    const struct net refuses = {.refuse = 0.3}, none = {0};
    run_all(&whole, &none);
    run_all(&small, &refuses);
    run_all(&narrow, &refuses);
}

static void test_messages_are_lost_and_come_twice(void **state)
{
    (void)state;
    const struct uw_overlap_config config = {.fragment_n = 200, .window_chunks = 100};
    const struct net faults = {.loss = 0.2, .twice = 0.05, .refuse = 0.05, .jitter_ns = 2000000};
    run_all(&config, &faults);
}

/* Two ranks, a slow line, everything ready at once. */
static uint32_t first_averaged(void)
{
    struct world w;
    const struct uw_overlap_config c = {.kind = UW_ALLREDUCE_HALVING, .reliable = true,
                                        .small_n = 1, .fragment_n = 100};
    set_up(&w, 2, &c, 3);
    w.net.byte_ns = 1000.0;
    w.net.scale = 1.0;
    w.net.queue_ns = 200000;
    begin_group(&w);
    w.rounds = 1;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t b = 1; b < BUCKETS_N; b++) {
            w.ranks[i].ready_ns[b] = 0;
        }
        w.ranks[i].ready_ns[0] = 10000000; /* long before the large ones are through */
    }
    run(&w, UINT64_MAX);
    uint32_t first = w.ranks[0].first_done;
    tear_down(&w);
    return first;
}

static void test_lower_buckets_overtake(void **state)
{
    (void)state;
    assert_int_equal(first_averaged(), 1);
}

/* What is given up says so, what was averaged stays, and a new group begins anew. */
static void test_given_up_buckets_are_told_from_averaged_ones(void **state)
{
    (void)state;
    struct world w;
    const struct uw_overlap_config c = {.kind = UW_ALLREDUCE_HALVING, .reliable = true,
                                        .fragment_n = 100};
    uint32_t done = 0, stopped = 0;
    set_up(&w, 4, &c, 4);
    w.net.byte_ns = 500.0;
    w.net.scale = 1.0;
    w.net.queue_ns = 200000;
    begin_group(&w);
    run_rounds(&w, 1);
    w.rounds = 2;
    for (uint32_t i = 0; i < w.p; i++) {
        w.ranks[i].over = 0;
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            w.ranks[i].ready_ns[b] = w.net.now_ns;
        }
    }
    run(&w, w.net.now_ns + 15000000);
    for (uint32_t i = 0; i < w.p; i++) {
        uw_overlap_stop(&w.ranks[i].o);
        assert_true(uw_overlap_run(&w.ranks[i].o, w.net.now_ns / 1000u) == UINT64_MAX);
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            enum uw_overlap_state s = uw_overlap_state(&w.ranks[i].o, b);
            assert_true(s == UW_OVERLAP_DONE || s == UW_OVERLAP_STOPPED);
            done += s == UW_OVERLAP_DONE;
            stopped += s == UW_OVERLAP_STOPPED;
            if (s == UW_OVERLAP_DONE) {
                check_bucket(&w, &w.ranks[i], b);
            }
            w.ranks[i].runs[b] = false;
            uw_overlap_ready(&w.ranks[i].o, b, w.ranks[i].x[b], w.net.now_ns / 1000u);
            assert_int_equal(uw_overlap_state(&w.ranks[i].o, b), UW_OVERLAP_STOPPED);
            w.first_round[b] = 2;
        }
    }
    assert_true(done > 0 && stopped > 0);
    begin_group(&w);    /* messages of the old one are still on their way */
    run_rounds(&w, 2);
    tear_down(&w);
}

/* A rank that begins the group late has lost the first questions. */
static void test_group_begun_late_catches_up(void **state)
{
    (void)state;
    struct world w;
    const struct uw_overlap_config c = {.kind = UW_ALLREDUCE_RING, .reliable = true};
    set_up(&w, 3, &c, 5);
    begin_group(&w);
    uw_overlap_stop(&w.ranks[1].o);
    w.rounds = 1;
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        w.ranks[1].ready_ns[b] = 31000000;
    }
    run(&w, 30000000);
    const struct uw_overlap_group g = {.group = w.group, .ranks = 3, .rank = 1, .rtt_us = 1000};
    uw_overlap_begin(&w.ranks[1].o, &g, 30000);
    run(&w, UINT64_MAX);
    tear_down(&w);
}

/* Whatever a message claims, nothing outside the gradients is read or written. */
static void test_any_message_is_harmless(void **state)
{
    (void)state;
    struct uw_rng r;
    static const float floats[CHUNK_N] = {1.0f};
    uw_rng_seed(&r, uw_test_seed(17));
    for (uint32_t p = 2; p <= NET_RANKS_MAX; p += 3) {
        struct world w;
        const struct uw_overlap_config c = {.kind = kinds[p % 3], .fragment_n = 100};
        set_up(&w, p, &c, p);
        begin_group(&w);
        for (uint32_t i = 0; i < 40000; i++) {
            struct rank *to = &w.ranks[uw_rng_below(&r, p)];
            uint32_t b = uw_rng_below(&r, BUCKETS_N);
            w.net.now_ns = i * 1000u;
            if (uw_overlap_state(&to->o, b) != UW_OVERLAP_RUNNING) {
                uw_overlap_ready(&to->o, b, to->x[b], i);
            }
            const struct uw_part part = {
                .type = (enum uw_part_type)uw_rng_below(&r, 7),
                .group = 1 + uw_rng_below(&r, 50) / 49,
                .round = uw_rng_below(&r, 4), .step = (uint16_t)uw_rng_below(&r, 20),
                .op = (uint16_t)(uw_rng_below(&r, 8) != 0 ? uw_rng_below(&r, 80)
                                                          : uw_rng_below(&r, 65536)),
                .offset_n = uw_rng_below(&r, 6) * CHUNK_N / (1 + uw_rng_below(&r, 2)),
                .count_n = uw_rng_below(&r, CHUNK_N + 1), .floats = floats,
                .want = {.chunk_n = CHUNK_N, .wanted = uw_rng_mix(i, 3)}};
            uw_overlap_take(&to->o, uw_rng_below(&r, p + 2), &part, i);
            if (i % 16 == 0) {
                uw_overlap_run(&to->o, i);
            }
        }
        tear_down(&w);
    }
}

static void test_config_that_cannot_work_is_refused(void **state)
{
    (void)state;
    const uint32_t empty[] = {3, 0};
    struct uw_overlap o;
    struct uw_arena arena;
    struct uw_overlap_config c = {.kind = UW_ALLREDUCE_DOUBLING, .bucket_n = sizes,
                                  .buckets_n = BUCKETS_N, .ranks_max = 4, .chunk_n = 1};
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_overlap_place(&o, &arena, &c), UW_ERR_UNSUPPORTED);
    c.kind = UW_ALLREDUCE_RING;
    assert_int_equal(uw_overlap_place(&o, &arena, &c), UW_OK);
    c.buckets_n = 0;
    assert_int_equal(uw_overlap_place(&o, &arena, &c), UW_ERR_INVALID);
    c.bucket_n = empty;
    c.buckets_n = 2;
    assert_int_equal(uw_overlap_place(&o, &arena, &c), UW_ERR_INVALID);
    c.bucket_n = (const uint32_t[]){UINT32_MAX, UINT32_MAX};
    assert_int_equal(uw_overlap_place(&o, &arena, &c), UW_ERR_TOOBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_reach_buckets_in_any_order),
        cmocka_unit_test(test_messages_are_lost_and_come_twice),
        cmocka_unit_test(test_lower_buckets_overtake),
        cmocka_unit_test(test_given_up_buckets_are_told_from_averaged_ones),
        cmocka_unit_test(test_group_begun_late_catches_up),
        cmocka_unit_test(test_any_message_is_harmless),
        cmocka_unit_test(test_config_that_cannot_work_is_refused),
    };
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
