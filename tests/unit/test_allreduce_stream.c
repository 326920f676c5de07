/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds over reliable links: queues between ranks keep the order and are short, so that senders
 * are refused all the time; who moves next is drawn. */
#include "test_support.h"

#include "collective/allreduce.h"

#include "uwasa/rng.h"

#define RANKS_MAX 33u
#define N_MAX 5003u
#define CHUNK_N 64u
#define QUEUE_MAX 3u
#define ROUNDS 3u
#define STORE_MESSAGES_N 6000u      /* floats of a small message: room for whatever comes early */
#define SLOW 50u                    /* times as rarely */

struct queued {
    struct uw_part part;
    float floats[CHUNK_N];
};

struct queue {
    struct queued item[QUEUE_MAX];
    uint32_t first, n;
};

struct rank {
    uint32_t rank, round;
    struct uw_allreduce a;
    void *memory;
    float x[N_MAX];
};

struct world {
    struct queue queue[RANKS_MAX][RANKS_MAX];   /* [to][from] */
    struct rank ranks[RANKS_MAX];
    float first[ROUNDS][N_MAX];
    bool known[ROUNDS];
    struct uw_rng rng;
    uint32_t p, n, segment_n, depth, refused_n;
    bool keeps;                     /* ranks keep what comes early; one is slow */
    uint64_t floats_n;
    enum uw_allreduce_kind kind;
};

static struct world w;

static int send(void *arg, uint32_t to, const struct uw_part *part)
{
    struct rank *r = arg;
    struct queue *q = &w.queue[to][r->rank];
    assert_int_equal(part->type, UW_PART_DATA);
    assert_true(part->count_n > 0 && part->count_n <= CHUNK_N);
    if (q->n == w.depth) {
        w.refused_n++;
        return UW_ERR_AGAIN;
    }
    if (w.keeps && uw_rng_below(&w.rng, 64) == 0) {     /* a rank that is not known yet */
        return UW_ERR_NOTFOUND;
    }
    struct queued *i = &q->item[(q->first + q->n++) % QUEUE_MAX];
    i->part = *part;
    memcpy(i->floats, part->floats, part->count_n * sizeof(float));
    i->part.floats = i->floats;
    w.floats_n += part->count_n;
    return UW_OK;
}

static float value(uint32_t rank, uint32_t round, uint32_t i)
{
    return (float)((rank * 7919u + round * 104729u + i * 31u) % 1000u) * 0.001f;
}

static void begin(struct rank *r)
{
    for (uint32_t i = 0; i < w.n; i++) {
        r->x[i] = value(r->rank, r->round, i);
    }
    const struct uw_allreduce_round round = {
        .group = 5, .round = ++r->round, .kind = w.kind, .average = r->round % 2 == 1, .ranks = w.p,
        .rank = r->rank, .size_n = w.n, .x = r->x, .chunk_n = CHUNK_N,
        .segment_n = w.segment_n != 0 ? w.segment_n : UINT32_MAX};
    uw_allreduce_begin(&r->a, &round, 0);
}

static void check(const struct rank *r)
{
    uint32_t at = r->round - 1;
    double share = r->round % 2 == 1 || w.kind == UW_ALLREDUCE_SWEEP ? 1.0 / w.p : 1.0;
    for (uint32_t i = 0; i < w.n; i++) {
        double sum = 0.0;
        for (uint32_t k = 0; k < w.p; k++) {
            sum += (double)value(k, at, i);
        }
        if (fabs((double)r->x[i] - sum * share) > 4e-7 * w.p) {
            fail_msg("%s, %u ranks, rank %u, round %u, element %u of %u: %g, not %g",
                     uw_allreduce_name(w.kind), w.p, r->rank, r->round, i, w.n, (double)r->x[i],
                     sum * share);
        }
    }
    if (!w.known[at]) {
        w.known[at] = true;
        memcpy(w.first[at], r->x, w.n * sizeof(float));
    } else if (w.kind != UW_ALLREDUCE_SWEEP) {
        assert_memory_equal(w.first[at], r->x, w.n * sizeof(float));
    }
}

/* Give a rank what lies at the front of its queues, each as far as it takes it. */
static bool deliver(struct rank *r)
{
    bool moved = false;
    for (uint32_t from = 0; from < w.p; from++) {
        struct queue *q = &w.queue[r->rank][from];
        while (q->n > 0) {
            struct queued *i = &q->item[q->first];
            int rc = uw_allreduce_take(&r->a, from, &i->part, 0);
            assert_true(rc == UW_OK || (!w.keeps && rc == UW_ERR_AGAIN));
            if (rc == UW_ERR_AGAIN) {
                break;
            }
            moved = true;
            q->first = (q->first + 1u) % QUEUE_MAX;
            q->n--;
            if (uw_rng_below(&w.rng, 3) == 0) {
                break;
            }
        }
    }
    return moved;
}

static void place(struct rank *r, struct uw_allreduce_config *c)
{
    struct uw_arena arena;
    if (!w.keeps) {
        assert_int_equal(uw_allreduce_place(&r->a, NULL, c), UW_OK);
        return;
    }
    c->small_n = c->chunk_n = STORE_MESSAGES_N;
    c->scratch_n = c->window_chunks = 1;
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_allreduce_place(&r->a, &arena, c), UW_OK);
    size_t bytes = arena.used_bytes + uw_arena_slack_bytes();
    r->memory = malloc(bytes);
    uw_arena_init(&arena, r->memory, bytes);
    assert_int_equal(uw_allreduce_place(&r->a, &arena, c), UW_OK);
}

/* With one segment of room more than that nothing is lost. */
static void check_ahead(const struct rank *r)
{
    uint32_t segment_n = w.segment_n != 0 && w.segment_n < w.n ? w.segment_n : w.n;
    const struct uw_part_store *s = &r->a.early;
    uint32_t floats_n = 0;
    for (uint32_t at = 0, next; s->parts_n > 0 && at < s->used_n; at = next) {
        struct uw_part_kept e;
        memcpy(&e, s->x + at, sizeof e);
        next = uw_part_after(s, at);
        floats_n += e.round != 0 ? next - at : 0;
    }
    assert_true(!w.keeps || floats_n <= segment_n * uw_allreduce_ahead_segments(w.kind, w.p));
}

static void run(enum uw_allreduce_kind kind, uint32_t p, uint32_t n, uint32_t segment_n)
{
    static const struct uw_rng no_rng;
    uint32_t left = p * ROUNDS, idle = 0;
    w.p = p;
    w.n = n;
    w.segment_n = segment_n;
    w.kind = kind;
    w.depth = 1 + n % QUEUE_MAX;
    w.rng = no_rng;
    uw_rng_seed(&w.rng, p * 1000u + n);
    memset(w.known, 0, sizeof w.known);
    for (uint32_t i = 0; i < p; i++) {
        struct rank *r = &w.ranks[i];
        struct uw_allreduce_config c = {.size_n = N_MAX, .ranks_max = RANKS_MAX,
                                              .chunk_n = CHUNK_N, .streams_only = !w.keeps,
                                              .send = send, .arg = r};
        *r = (struct rank){.rank = i};
        place(r, &c);
        begin(r);
    }
    while (left > 0) {
        struct rank *r = &w.ranks[uw_rng_below(&w.rng, p)];
        if (w.keeps && r->rank == n % p && uw_rng_below(&w.rng, SLOW) != 0) {
            continue;
        }
        check_ahead(r);
        uint64_t floats_n = w.floats_n;
        uint64_t next_us = uw_allreduce_run(&r->a, 0);
        bool moved = deliver(r) || next_us == 0 || w.floats_n != floats_n;
        if (r->a.state == UW_ALLREDUCE_DONE && r->round > 0) {
            assert_true(uw_allreduce_settled(&r->a));
            check(r);
            left--;
            moved = true;
            if (r->round < ROUNDS) {
                begin(r);
            } else {
                r->round = 0;
            }
        }
        idle = moved ? 0 : idle + 1;
        if (idle > 200u * RANKS_MAX * (w.keeps ? SLOW : 1u)) {
            fail_msg("%s, %u ranks, %u floats: hangs", uw_allreduce_name(kind), p, n);
        }
    }
    for (uint32_t i = 0; i < p; i++) {
        free(w.ranks[i].memory);
        for (uint32_t k = 0; k < p; k++) {
            assert_int_equal(w.queue[i][k].n, 0);
        }
    }
}

static void test_stream_every_kind_and_number_of_ranks_gives_the_sum(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= RANKS_MAX; p += uw_test_slow() && p > 3 ? 9 : 1) {
        const uint32_t sizes[] = {0, 1, p - 1, p, p + 1, 700, p <= 8 ? N_MAX : 1300u};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
                run((enum uw_allreduce_kind)kind, p, sizes[i], 0);
                run((enum uw_allreduce_kind)kind, p, sizes[i], 301);
            }
        }
    }
    assert_true(w.refused_n > 1000);
}

static void test_stream_what_comes_early_is_bounded(void **state)
{
    static const uint32_t ranks[] = {2, 3, 5, 8, 13, 24, 33};
    (void)state;
    w.keeps = true;
    for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0];
             i += uw_test_slow() ? 3 : 1) {
            run((enum uw_allreduce_kind)kind, ranks[i], N_MAX, 1003);
            run((enum uw_allreduce_kind)kind, ranks[i], 1200, 301);
        }
    }
    w.keeps = false;
}

static void test_stream_segments_never_outgrow_the_step_number(void **state)
{
    (void)state;
    run(UW_ALLREDUCE_RING, 33, N_MAX, 1);
    run(UW_ALLREDUCE_HALVING, 4, N_MAX, 1);
}

static void test_stream_sends_each_float_once(void **state)
{
    (void)state;
    w.floats_n = 0;
    run(UW_ALLREDUCE_HALVING, 4, 1000, 0);
    assert_int_equal(w.floats_n, ROUNDS * 4 * 2 * 750);
    w.floats_n = 0;
    run(UW_ALLREDUCE_RING, 5, 1000, 250);
    assert_int_equal(w.floats_n, ROUNDS * 5 * 2 * 800);
}

static int swallow(void *arg, uint32_t to, const struct uw_part *part)
{
    (void)arg;
    (void)to;
    (void)part;
    return UW_OK;
}

/* The round fails, and takes nothing more. It begins again. */
static void check_fails(struct uw_allreduce *a, const struct uw_allreduce_round *round,
                        uint32_t from, struct uw_part *p)
{
    struct uw_part next = *p;
    next.offset_n = 0;
    next.count_n = CHUNK_N;
    assert_int_equal(uw_allreduce_take(a, from, p, 0), UW_ERR_CORRUPT);
    assert_int_equal(a->state, UW_ALLREDUCE_FAILED);
    assert_int_equal(uw_allreduce_take(a, 1, &next, 0), UW_ERR_CORRUPT);
    assert_int_equal(a->stream.taken_n, 0);
    uw_allreduce_begin(a, round, 0);
}

/* What is early waits, what is old or of another group changes nothing, a gap is told. */
static void test_stream_takes_only_what_is_next(void **state)
{
    (void)state;
    static float x[1000], in[CHUNK_N];
    struct uw_allreduce a;
    const struct uw_allreduce_config c = {.size_n = 1000, .ranks_max = 4, .chunk_n = CHUNK_N,
                                          .streams_only = true, .send = swallow};
    const struct uw_allreduce_round round = {.group = 5, .round = 2, .ranks = 4, .rank = 0,
                                             .segment_n = 1000, .kind = UW_ALLREDUCE_HALVING,
                                             .size_n = 1000, .x = x};
    struct uw_part p = {.type = UW_PART_DATA, .group = 5, .round = 2, .count_n = CHUNK_N,
                        .floats = in};
    assert_int_equal(uw_allreduce_place(&a, NULL, &c), UW_OK);
    assert_int_equal(uw_allreduce_take(&a, 1, &p, 0), UW_ERR_MISMATCH);
    uw_allreduce_begin(&a, &round, 0);
    p.group = 6;
    assert_int_equal(uw_allreduce_take(&a, 1, &p, 0), UW_ERR_MISMATCH);
    p.group = 5;
    p.round = 3;
    assert_int_equal(uw_allreduce_take(&a, 1, &p, 0), UW_ERR_AGAIN);
    p.round = 1;
    assert_int_equal(uw_allreduce_take(&a, 1, &p, 0), UW_OK);
    p.round = 2;
    p.step = 1;
    assert_int_equal(uw_allreduce_take(&a, 2, &p, 0), UW_ERR_AGAIN);
    p.step = 0;
    check_fails(&a, &round, 2, &p);
    assert_int_equal(uw_allreduce_take(&a, 9, &p, 0), UW_ERR_MISMATCH);
    p.offset_n = CHUNK_N;
    check_fails(&a, &round, 1, &p);
    p.offset_n = 0;
    p.count_n = 501;
    check_fails(&a, &round, 1, &p);
    p.count_n = CHUNK_N;
    assert_int_equal(uw_allreduce_take(&a, 1, &p, 0), UW_OK);
    assert_int_equal(a.stream.taken_n, CHUNK_N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_every_kind_and_number_of_ranks_gives_the_sum),
        cmocka_unit_test(test_stream_what_comes_early_is_bounded),
        cmocka_unit_test(test_stream_segments_never_outgrow_the_step_number),
        cmocka_unit_test(test_stream_sends_each_float_once),
        cmocka_unit_test(test_stream_takes_only_what_is_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
