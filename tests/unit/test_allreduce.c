/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks on virtual time, the test in the place of the network. */
#include "test_support.h"

#include "collective/allreduce_priv.h"

#include "uwasa/rng.h"

#include <math.h>
#include <stdlib.h>

#define RANKS_MAX 12u
#define N_MAX 20000u
#define CHUNK_N 300u
#define MESSAGES_MAX 20000u
#define ARENA_BYTES (4u << 20)

struct in_flight {
    uint64_t at_us;
    uint32_t from, to;
    struct uw_part part;
    float *floats;
};

struct network {
    double loss, twice, full;   /* full: no room now */
    uint64_t latency_us, jitter_us;
    float floats_per_us;        /* told to the engine */
    struct in_flight *flight;
    uint32_t flight_n;
    uint64_t now_us, messages_n, bytes;
    struct uw_rng rng;
};

struct rank {
    struct network *net;
    uint32_t rank;
    struct uw_allreduce a;
    float *x;
    void *memory;
    uint64_t next_us, begin_us;
    uint32_t round;
};

struct world {
    struct network net;
    struct rank ranks[RANKS_MAX];
    uint32_t p, first_round[3];
};

static void post(struct network *n, uint32_t from, uint32_t to, const struct uw_part *part)
{
    assert_true(n->flight_n < MESSAGES_MAX);
    struct in_flight *f = &n->flight[n->flight_n++];
    *f = (struct in_flight){.from = from, .to = to, .part = *part};
    f->at_us = n->now_us + n->latency_us +
               (n->jitter_us != 0 ? uw_rng_below(&n->rng, (uint32_t)n->jitter_us) : 0);
    if (part->type == UW_PART_DATA) {
        f->floats = malloc(part->count_n * sizeof(float));
        memcpy(f->floats, part->floats, part->count_n * sizeof(float));
        f->part.floats = f->floats;
    }
}

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    struct network *n = r->net;
    if (n->full > 0.0 && (double)uw_rng_uniform(&n->rng) < n->full) {
        return UW_ERR_AGAIN;
    }
    n->messages_n++;
    n->bytes += part->type == UW_PART_DATA ? part->count_n * sizeof(float) : 0;
    if ((double)uw_rng_uniform(&n->rng) >= n->loss) {
        post(n, r->rank, rank, part);
    }
    if ((double)uw_rng_uniform(&n->rng) < n->twice) {
        post(n, r->rank, rank, part);
    }
    return UW_OK;
}

static void set_up(struct world *w, uint32_t p, uint64_t seed)
{
    *w = (struct world){.p = p};
    uw_rng_seed(&w->net.rng, seed);
    w->net.latency_us = 1000;
    w->net.flight = malloc(MESSAGES_MAX * sizeof *w->net.flight);
    for (uint32_t i = 0; i < p; i++) {
        struct rank *r = &w->ranks[i];
        struct uw_arena arena;
        *r = (struct rank){.net = &w->net, .rank = i, .x = malloc(N_MAX * sizeof(float)),
                           .memory = malloc(ARENA_BYTES)};
        const struct uw_allreduce_config c = {.size_n = N_MAX, .ranks_max = RANKS_MAX,
                                              .chunk_n = CHUNK_N, .window_chunks = 256,
                                              .send = send, .arg = r};
        uw_arena_init(&arena, r->memory, ARENA_BYTES);
        assert_int_equal(uw_allreduce_place(&r->a, &arena, &c), UW_OK);
    }
}

static void tear_down(struct world *w)
{
    for (uint32_t i = 0; i < w->net.flight_n; i++) {
        free(w->net.flight[i].floats);
    }
    free(w->net.flight);
    for (uint32_t i = 0; i < w->p; i++) {
        free(w->ranks[i].x);
        free(w->ranks[i].memory);
    }
}

static float value(uint32_t rank, uint32_t round, uint32_t i)
{
    return (float)((rank * 7919u + round * 104729u + i * 31u) % 1000u) * 0.001f;
}

static void deliver(struct world *w)
{
    struct network *n = &w->net;
    for (uint32_t i = 0; i < n->flight_n;) {
        struct in_flight f = n->flight[i];
        if (f.at_us > n->now_us) {
            i++;
            continue;
        }
        n->flight[i] = n->flight[--n->flight_n];
        uw_allreduce_take(&w->ranks[f.to].a, f.from, &f.part, n->now_us);
        w->ranks[f.to].next_us = n->now_us;
        free(f.floats);
    }
}

static void begin(struct world *w, struct rank *r, enum uw_allreduce_kind kind, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        r->x[i] = value(r->rank, r->round, i);
    }
    const struct uw_allreduce_round round = {
        .group = 5, .round = r->round + 1, .kind = kind, .average = true, .ranks = w->p,
        .rank = r->rank, .size_n = n, .x = r->x, .rtt_us = 2 * w->net.latency_us,
        .floats_per_us = w->net.floats_per_us};
    uw_allreduce_begin(&r->a, &round, w->net.now_us);
    r->round++;
    r->next_us = w->net.now_us;
}

/* The mean of all ranks' values, and the same bits on all ranks. A rank is at most one round ahead
 * of another. */
static void check(struct world *w, const struct rank *r, enum uw_allreduce_kind kind, uint32_t n)
{
    static float first[3][N_MAX];
    uint32_t place = r->round % 3;
    for (uint32_t i = 0; i < n; i++) {
        double mean = 0.0;
        for (uint32_t k = 0; k < w->p; k++) {
            mean += (double)value(k, r->round - 1, i) / w->p;
        }
        if (fabs((double)r->x[i] - mean) > 2e-6) {
            fail_msg("%s, %u ranks, rank %u, round %u, element %u of %u: %g, not %g",
                     uw_allreduce_name(kind), w->p, r->rank, r->round, i, n, (double)r->x[i], mean);
        }
    }
    if (w->first_round[place] != r->round) {
        memcpy(first[place], r->x, n * sizeof(float));
        w->first_round[place] = r->round;
    } else if (kind != UW_ALLREDUCE_SWEEP) {
        assert_memory_equal(first[place], r->x, n * sizeof(float));
    }
}

/* Some rounds; ranks begin each of them at moments of their own. Returns the virtual time taken. */
static uint64_t run(struct world *w, enum uw_allreduce_kind kind, uint32_t n, uint32_t rounds)
{
    const uint64_t limit_us = w->net.now_us + 600000000u;
    uint64_t from_us = w->net.now_us;
    uint32_t last = w->ranks[0].round + rounds, left = w->p;
    bool waits[RANKS_MAX] = {false};
    for (uint32_t i = 0; i < w->p; i++) {
        w->ranks[i].begin_us = w->net.now_us + uw_rng_below(&w->net.rng, 3000);
        waits[i] = true;
    }
    while (left > 0) {
        uint64_t next_us = UINT64_MAX;
        deliver(w);
        for (uint32_t i = 0; i < w->p; i++) {
            struct rank *r = &w->ranks[i];
            if (waits[i] && w->net.now_us >= r->begin_us && uw_allreduce_settled(&r->a)) {
                begin(w, r, kind, n);
                waits[i] = false;
            }
            r->next_us = uw_allreduce_run(&r->a, w->net.now_us);
            if (!waits[i] && r->a.state == UW_ALLREDUCE_DONE && r->begin_us != UINT64_MAX) {
                check(w, r, kind, n);
                left -= r->round == last;
                waits[i] = r->round != last;
                r->begin_us = waits[i] ? w->net.now_us + uw_rng_below(&w->net.rng, 2000)
                                       : UINT64_MAX;
            }
            uint64_t own_us = waits[i] && r->begin_us > w->net.now_us ? r->begin_us : r->next_us;
            own_us = own_us < r->next_us ? own_us : r->next_us;
            next_us = own_us < next_us ? own_us : next_us;
        }
        for (uint32_t i = 0; i < w->net.flight_n; i++) {
            next_us = w->net.flight[i].at_us < next_us ? w->net.flight[i].at_us : next_us;
        }
        if (left > 0 && (next_us == UINT64_MAX || w->net.now_us > limit_us)) {
            fail_msg("%s, %u ranks, %u floats: hangs", uw_allreduce_name(kind), w->p, n);
        }
        w->net.now_us = left == 0 ? w->net.now_us
                        : next_us > w->net.now_us ? next_us : w->net.now_us + 1;
    }
    return w->net.now_us - from_us;
}

static const uint32_t sizes[] = {1, 7, 299, 301, 5000, 20000};
#define SIZES_N (sizeof sizes / sizeof sizes[0])

/* Whole messages are pushed where the rate is known, else the first chunks. */
static void run_all(double loss, double twice, uint64_t jitter_us, float floats_per_us,
                    uint32_t rounds)
{
    for (uint32_t p = 1; p <= RANKS_MAX; p += uw_test_slow() ? 3 : p < 8 ? 1 : 2) {
        for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
            for (size_t i = 0; i < SIZES_N; i++) {
                struct world w;
                set_up(&w, p, 1000 * p + i);
                w.net.loss = loss;
                w.net.twice = twice;
                w.net.jitter_us = jitter_us;
                w.net.floats_per_us = floats_per_us;
                run(&w, (enum uw_allreduce_kind)kind, sizes[i], rounds);
                tear_down(&w);
            }
        }
    }
}

static void test_rounds_follow_each_other(void **state)
{
    (void)state;
    run_all(0.0, 0.0, 0, 0.0f, 3);
    run_all(0.0, 0.0, 0, 10.0f, 3);
}

/* Two steps of one to two latencies a round: nobody may wait for news that a rank which has begun
 * anew never gave. */
static void test_who_begins_anew_at_once_holds_up_nobody(void **state)
{
    (void)state;
    struct world w;
    set_up(&w, 4, 1);
    w.net.jitter_us = w.net.latency_us;
    for (uint32_t done = 0; done < w.p; w.net.now_us += 100) {
        deliver(&w);
        done = 0;
        for (uint32_t i = 0; i < w.p; i++) {
            struct rank *r = &w.ranks[i];
            bool over = r->round == 0 || r->a.state == UW_ALLREDUCE_DONE;
            if (over && r->round > 0) {
                check(&w, r, UW_ALLREDUCE_DOUBLING, 1);
            }
            done += over && r->round == 40u;
            if (over && r->round < 40u && uw_allreduce_settled(&r->a)) {
                begin(&w, r, UW_ALLREDUCE_DOUBLING, 1);
            } else {
                (void)uw_allreduce_run(&r->a, w.net.now_us);
            }
        }
    }
    assert_true(w.net.now_us < 40u * 4u * w.net.latency_us);
    tear_down(&w);
}

static void test_messages_overtake_and_come_twice(void **state)
{
    (void)state;
    run_all(0.0, 0.1, 4000, 0.0f, 3);
    run_all(0.0, 0.1, 4000, 10.0f, 3);
}

static void test_a_fifth_is_lost(void **state)
{
    (void)state;
    run_all(0.2, 0.02, 1500, 0.0f, 2);
    run_all(0.2, 0.02, 1500, 10.0f, 2);
}

static void test_a_link_is_often_full(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= RANKS_MAX; p++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct world w;
            set_up(&w, p, 9 * p + i);
            w.net.full = i < 2 ? 0.3 : 0.8;
            w.net.loss = i % 2 == 0 ? 0.0 : 0.1;
            for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
                w.net.floats_per_us = (kind + (int)p) % 2 == 0 ? 0.0f : 10.0f;
                run(&w, (enum uw_allreduce_kind)kind, sizes[(p + i) % SIZES_N], 2);
            }
            tear_down(&w);
        }
    }
}

/* Who is asked whether a round is over may have no part in the next one. */
static void test_the_algorithm_changes_from_round_to_round(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= RANKS_MAX; p++) {
        struct world w;
        set_up(&w, p, 77 * p);
        w.net.loss = 0.2;
        for (uint32_t i = 0; i < 40; i++) {
            w.net.floats_per_us = i % 3 == 0 ? 0.0f : 10.0f;
            run(&w, (enum uw_allreduce_kind)((i * i + i / 5) % UW_ALLREDUCE_KINDS_N),
                i % 4 == 0 ? 5000 : 16, 1);
        }
        tear_down(&w);
    }
}

static struct uw_part got_with(uint32_t measured)
{
    return (struct uw_part){.type = UW_PART_GOT, .group = 5, .round = 1, .step = 0,
                            .offset_n = measured};
}

/* Networks repeat messages; a GOT that was asked for once more tells no rate. */
static void test_what_a_got_tells_is_learned_once(void **state)
{
    (void)state;
    static const uint32_t told[] = {4000000, UW_MEASURED_LOSS};
    for (uint32_t i = 0; i < 4; i++) {
        struct world w;
        set_up(&w, 2, 1);
        begin(&w, &w.ranks[0], UW_ALLREDUCE_RING, 5000);
        struct uw_allreduce *a = &w.ranks[0].a;
        struct uw_part bare = got_with(UW_MEASURED_NOTHING), got = got_with(told[i % 2]);
        const float rate = i % 2 == 0 ? 8.0f : 16.0f;
        a->ways[1].to = 16.0f;
        if (i >= 2) {           /* overtaken by the answer to a question for it */
            assert_int_equal(uw_allreduce_take(a, 1, &bare, w.net.now_us), UW_OK);
        }
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(uw_allreduce_take(a, 1, &got, w.net.now_us), UW_OK);
            assert_int_equal(uw_allreduce_take(a, 1, &bare, w.net.now_us), UW_OK);
        }
        assert_float_equal(a->ways[1].to, rate, 1e-3);
        assert_int_equal(a->ways[1].wary, i % 2);
        tear_down(&w);
    }
}

static void test_a_got_that_waits_for_room_keeps_its_rate(void **state)
{
    (void)state;
    struct world w;
    set_up(&w, 2, 1);
    w.net.full = 1.0;
    begin(&w, &w.ranks[0], UW_ALLREDUCE_RING, 5000);
    struct uw_allreduce *a = &w.ranks[0].a;
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_part got = got_with(i == 1 ? 8000000 : UW_MEASURED_NOTHING);
        assert_int_equal(uw_allreduce_send(a, 1, &got), UW_OK);
        assert_int_equal(a->queue.n, 1);
        assert_int_equal(a->queue.queued[0].part.offset_n, i >= 1 ? 8000000 : UW_MEASURED_NOTHING);
    }
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_follow_each_other),
        cmocka_unit_test(test_who_begins_anew_at_once_holds_up_nobody),
        cmocka_unit_test(test_messages_overtake_and_come_twice),
        cmocka_unit_test(test_a_fifth_is_lost),
        cmocka_unit_test(test_a_link_is_often_full),
        cmocka_unit_test(test_the_algorithm_changes_from_round_to_round),
        cmocka_unit_test(test_what_a_got_tells_is_learned_once),
        cmocka_unit_test(test_a_got_that_waits_for_room_keeps_its_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
