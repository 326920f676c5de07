/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks train a model with late updates, their gradients averaged fragment by fragment meanwhile,
 * on virtual time: as one model trains on all their samples. */
#include "test_support.h"

#include "model_fixture.h"
#include "overlap_net.h"

#define RANKS_N 4u
#define BATCH_N 4u
#define BUCKETS_MAX 8u
#define DEADLINE_NS 3000000000u

struct world;

struct rank {
    struct world *w;
    uint32_t rank;
    struct fixture f;
    struct uw_overlap o;
    void *memory;
    uint64_t next_ns;
    bool dead;
};

struct world {
    struct net net;
    struct rank ranks[RANKS_N];
    uint32_t p, group, given_up_n, culprit;
};

static const struct uw_layer_def layers[] = {
    CONV("c1", 4, 3, 1, 1), RELU("r1"), CONV("c2", 6, 3, 1, 1), RELU("r2"), POOL("p", 2, 2, 0),
    FLATTEN("f"), DENSE("d1", 20), RELU("r3"), DENSE("d2", 3)};
static const struct uw_model_def def = {"m", 1, 6, 6, layers, 9};

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    return net_send(&r->w->net, r->rank, rank, part);
}

/* Deliver, run, and move on to the next moment. */
static void pump(struct world *w)
{
    struct net *n = &w->net;
    uint64_t next_ns = UINT64_MAX;
    while (n->heap_n > 0 && n->heap[0].at_ns <= n->now_ns) {
        struct net_message m = net_pop(n);
        if (!w->ranks[m.to].dead) {
            uw_overlap_take(&w->ranks[m.to].o, m.from, &m.part, n->now_ns / 1000u);
        }
        free(m.floats);
    }
    for (uint32_t i = 0; i < w->p; i++) {
        struct rank *r = &w->ranks[i];
        uint64_t next_us = r->dead ? UINT64_MAX : uw_overlap_run(&r->o, n->now_ns / 1000u);
        r->next_ns = next_us < UINT64_MAX / 1000u ? next_us * 1000u : UINT64_MAX;
        next_ns = r->next_ns < next_ns ? r->next_ns : next_ns;
    }
    next_ns = n->heap_n > 0 && n->heap[0].at_ns < next_ns ? n->heap[0].at_ns : next_ns;
    assert_true(next_ns != UINT64_MAX);
    n->now_ns = next_ns > n->now_ns ? next_ns : n->now_ns + 1000u;
}

static int ready(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n, float *gradient)
{
    struct rank *r = arg;
    (void)offset_n;
    assert_int_equal(r->f.m.buckets[bucket].count_n, count_n);
    uw_overlap_ready(&r->o, bucket, gradient, r->w->net.now_ns / 1000u);
    return UW_OK;
}

/* Nobody answers for long: all give up. */
static void give_up(struct world *w)
{
    for (uint32_t i = 0; i < w->p; i++) {
        if (!w->ranks[i].dead) {
            uint32_t waits_for = UW_RANK_NONE;
            uw_overlap_progress(&w->ranks[i].o, &waits_for);
            w->culprit = waits_for != UW_RANK_NONE && w->ranks[waits_for].dead ? waits_for
                                                                              : w->culprit;
            uw_overlap_stop(&w->ranks[i].o);
        }
    }
    w->given_up_n++;
}

static int wait(void *arg, uint32_t bucket)
{
    struct rank *r = arg;
    uint64_t until_ns = r->w->net.now_ns + DEADLINE_NS;
    while (uw_overlap_state(&r->o, bucket) == UW_OVERLAP_RUNNING) {
        pump(r->w);
        if (r->w->net.now_ns > until_ns) {
            give_up(r->w);
        }
    }
    return uw_overlap_state(&r->o, bucket) == UW_OVERLAP_DONE ? UW_OK : UW_BUCKET_DROPPED;
}

static void begin_group(struct world *w)
{
    w->group++;
    for (uint32_t i = 0; i < w->p; i++) {
        const struct uw_overlap_group g = {.group = w->group, .ranks = w->p, .rank = i,
                                           .rtt_us = 1000};
        uw_overlap_begin(&w->ranks[i].o, &g, w->net.now_ns / 1000u);
    }
}

static void open_rank(struct rank *r, const struct uw_optimizer *o)
{
    uint32_t sizes[BUCKETS_MAX];
    struct uw_arena arena;
    r->f = (struct fixture){.config = {.def = &def, .kernels = &uw_kernels_ref,
                                       .batch_n = BATCH_N, .mode = UW_PLAN_BUCKETS,
                                       .optimizer = *o, .late_updates = true}};
    assert_int_equal(open_config(&r->f), UW_OK);
    uw_model_init_weights(&r->f.m, 7);
    for (uint32_t b = 0; b < r->f.m.buckets_n; b++) {
        sizes[b] = r->f.m.buckets[b].count_n;
    }
    const struct uw_overlap_config c = {
        .kind = UW_ALLREDUCE_HALVING, .bucket_n = sizes, .buckets_n = r->f.m.buckets_n,
        .ranks_max = RANKS_N, .chunk_n = 32, .fragment_n = 200, .reliable = true,
        .send = send, .arg = r};
    size_t bytes = net_overlap_bytes(&c);
    r->memory = uw_test_block(bytes);
    uw_arena_init(&arena, r->memory, bytes);
    assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
    r->f.m.bucket_ready = ready;
    r->f.m.bucket_wait = wait;
    r->f.m.bucket_arg = r;
}

static void set_up(struct world *w, const struct uw_optimizer *o)
{
    *w = (struct world){.p = RANKS_N, .culprit = UW_RANK_NONE};
    uw_rng_seed(&w->net.rng, 1);
    w->net.latency_ns = 500000;
    w->net.byte_ns = 100.0;
    w->net.scale = 1.0;
    w->net.queue_ns = 50000;
    for (uint32_t i = 0; i < w->p; i++) {
        w->ranks[i].w = w;
        w->ranks[i].rank = i;
        open_rank(&w->ranks[i], o);
    }
    begin_group(w);
}

static void tear_down(struct world *w)
{
    net_close(&w->net);
    for (uint32_t i = 0; i < RANKS_N; i++) {
        uw_test_release(w->ranks[i].memory);
        close_model(&w->ranks[i].f);
    }
}

/* Samples of a step; rank i's are BATCH_N of them. */
static void batch_of(uint32_t step, const struct uw_model *m, float *x, uint32_t *label)
{
    struct uw_rng r;
    uw_rng_seed(&r, 100 + step);
    random_batch(&r, m, RANKS_N * BATCH_N, x, label);
}

static void train(struct world *w, uint32_t from, uint32_t until)
{
    float x[RANKS_N * BATCH_N * 36];
    uint32_t label[RANKS_N * BATCH_N];
    for (uint32_t step = from; step < until; step++) {
        for (uint32_t i = 0; i < w->p; i++) {
            struct uw_step_result result;
            struct fixture *f = &w->ranks[i].f;
            batch_of(step, &f->m, x, label);
            const struct uw_minibatch b = {.x = x + i * BATCH_N * 36, .label = label + i * BATCH_N,
                                           .n = BATCH_N};
            if (!w->ranks[i].dead &&
                uw_model_train_step(&f->m, &b, &result, &f->err) != UW_OK) {
                fail_msg("%s", f->err.text);
            }
        }
    }
}

static void finish(struct world *w)
{
    for (uint32_t i = 0; i < w->p; i++) {
        struct fixture *f = &w->ranks[i].f;
        assert_int_equal(w->ranks[i].dead ? UW_OK : uw_model_finish_updates(&f->m, &f->err),
                         UW_OK);
    }
}

static void expect_equal_ranks(const struct world *w)
{
    const struct uw_params *first = &w->ranks[0].f.m.params;
    for (uint32_t i = 1; i < w->p; i++) {
        assert_memory_equal(first->x, w->ranks[i].f.m.params.x, first->size_n * sizeof(float));
    }
}

static void test_ranks_train_as_one_model_on_all_samples(void **state)
{
    (void)state;
    static const struct uw_optimizer optimizers[] = {
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f},
        {.kind = UW_OPTIMIZER_ADAM, .lr = 0.001f}};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        struct world w;
        float x[RANKS_N * BATCH_N * 36];
        uint32_t label[RANKS_N * BATCH_N];
        struct fixture one = {.config = {.def = &def, .kernels = &uw_kernels_ref,
                                         .batch_n = RANKS_N * BATCH_N, .mode = UW_PLAN_BUCKETS,
                                         .optimizer = optimizers[o]}};
        set_up(&w, &optimizers[o]);
        assert_int_equal(open_config(&one), UW_OK);
        uw_model_init_weights(&one.m, 7);
        train(&w, 0, 8);
        finish(&w);
        expect_equal_ranks(&w);
        for (uint32_t step = 0; step < 8; step++) {
            struct uw_step_result result;
            batch_of(step, &one.m, x, label);
            const struct uw_minibatch b = {.x = x, .label = label, .n = RANKS_N * BATCH_N};
            assert_int_equal(uw_model_train_step(&one.m, &b, &result, &one.err), UW_OK);
        }
        for (uint32_t i = 0; i < one.m.params.size_n; i++) {
            assert_true(fabsf(one.m.params.x[i] - w.ranks[0].f.m.params.x[i]) < 1e-5f);
        }
        assert_int_equal(w.given_up_n, 0);
        close_model(&one);
        tear_down(&w);
    }
}

/* One dies in the middle of a step: some buckets are averaged, others are not, and not the same
 * everywhere. Who is left averages the parameters once and goes on. */
static void test_rank_dies_and_the_others_go_on_together(void **state)
{
    (void)state;
    struct world w;
    uint32_t left = 0, updated = 0;
    set_up(&w, &(struct uw_optimizer){.lr = 0.05f});
    train(&w, 0, 3);
    for (int i = 0; i < 200; i++) {
        pump(&w);
    }
    w.ranks[RANKS_N - 1].dead = true;
    struct uw_params *first = &w.ranks[0].f.m.params;
    float before[2000];
    assert_true(first->size_n < 2000);
    memcpy(before, first->x, first->size_n * sizeof(float));
    finish(&w);
    assert_int_equal(w.given_up_n, 1);
    assert_int_equal(w.culprit, RANKS_N - 1);
    for (uint32_t b = 0; b < w.ranks[0].f.m.buckets_n; b++) {
        enum uw_overlap_state s = uw_overlap_state(&w.ranks[0].o, b);
        const struct uw_segment *weight =
            &first->segments[w.ranks[0].f.m.buckets[b].segments];
        bool same = memcmp(before + weight->offset_n, first->x + weight->offset_n,
                           weight->size_n * sizeof(float)) == 0;
        assert_int_equal(same, s == UW_OVERLAP_STOPPED);
        left += s == UW_OVERLAP_STOPPED;
        updated += s == UW_OVERLAP_DONE;
    }
    assert_true(left > 0 && updated > 0 && updated + left == w.ranks[0].f.m.buckets_n);
    w.p--;
    for (uint32_t i = 0; i < first->size_n; i++) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < w.p; k++) {
            sum += w.ranks[k].f.m.params.x[i];
        }
        for (uint32_t k = 0; k < w.p; k++) {
            w.ranks[k].f.m.params.x[i] = sum / (float)w.p;
        }
    }
    begin_group(&w);
    train(&w, 3, 8);
    finish(&w);
    expect_equal_ranks(&w);
    assert_int_equal(w.given_up_n, 1);
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_train_as_one_model_on_all_samples),
        cmocka_unit_test(test_rank_dies_and_the_others_go_on_together),
    };
    return cmocka_run_group_tests_name("overlap_train", tests, NULL, NULL);
}
