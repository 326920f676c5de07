/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of the averaging is hidden behind the computing, on virtual time: AlexNet's gradients
 * and multiply-adds, layer by layer, 1 Gbit/s and 0.1 ms to a switch, message after message.
 *
 * A float in memory stands for SCALE on the wire. A layer takes its multiply-adds, forward once,
 * backward for what it computes there (inputs, weights), at a rate that makes a step's computing
 * 0.5, 1 or 2 times the averaging alone; layers without products take no time. The model of
 * uwasa/sim_step_time.h is told the same, and has to say the same.
 *
 * The quick part (UWASA_TEST_QUICK) has both algorithms, but not 8 ranks; emulated, 2 ranks. */
#include "test_support.h"

#include "overlap_net.h"
#include "model/model_json.h"

#include "uwasa/backends.h"
#include "uwasa/describe.h"
#include "uwasa/sim_step_time.h"

#include <math.h>

#define SCALE 16u
#define CHUNK_N (16384u / SCALE)    /* 64 KiB */
#define FRAGMENT_N (262144u / SCALE)
#define LAYERS_MAX 32u
#define STEPS_N 3u                  /* the first one is not counted */
#define BATCH_N 256.0

struct shape {
    uint32_t layers_n, buckets_n;
    double forward[LAYERS_MAX], backward[LAYERS_MAX];   /* multiply-adds of a sample */
    uint32_t bucket[LAYERS_MAX];    /* buckets_n or more: none */
    uint32_t bucket_n[LAYERS_MAX];
    double all, floats;
};

/* A rank computes layer after layer: forward 0 .. layers_n - 1, then backward. */
struct rank {
    struct net *net;
    uint32_t rank;
    struct uw_overlap o;
    void *memory;
    float *x[LAYERS_MAX];
    bool used[LAYERS_MAX];          /* made ready once at least */
    uint32_t at, step;
    bool computing, heard;
    uint64_t until_ns, next_ns, begun_ns[STEPS_N + 1];
};

struct world {
    struct net net;
    const struct shape *shape;
    struct rank ranks[NET_RANKS_MAX];
    uint32_t p, steps_n;
    double product_ns;              /* of BATCH_N multiply-adds */
};

static void add_layer(void *arg, const struct uw_layer_info *l)
{
    struct shape *s = arg;
    uint32_t i = s->layers_n++;
    assert_true(i < LAYERS_MAX);
    s->forward[i] = (double)l->multiply_adds;
    s->backward[i] = (double)(l->passes - 1) * (double)l->multiply_adds;
    s->all += s->forward[i] + s->backward[i];
    s->floats += l->trained_n;
    s->bucket[i] = l->trained_n != 0 ? s->buckets_n : LAYERS_MAX;
    if (l->trained_n != 0) {
        s->bucket_n[s->buckets_n++] = (l->trained_n + SCALE - 1) / SCALE;
    }
}

static void read_shape(struct shape *s, const char *name)
{
    struct uw_model_file file;
    struct uw_error err = {.text = ""};
    const struct uw_visitor v = {.layer = add_layer, .arg = s};
    *s = (struct shape){0};
    assert_int_equal(uw_model_load(&file, name, &err), UW_OK);
    size_t bytes = UW_MODEL_WORKSPACE_BYTES(file.def.layers_n);
    void *workspace = uw_test_block(bytes);
    const struct uw_model_config config = {.def = &file.def, .kernels = &uw_kernels_ref,
                                           .batch_n = 1, .mode = UW_PLAN_BUCKETS,
                                           .workspace = workspace, .workspace_bytes = bytes};
    assert_int_equal(uw_model_describe(&config, &v, &err), UW_OK);
    uw_test_release(workspace);
    uw_model_file_deinit(&file);
}

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    return net_send(r->net, r->rank, rank, part);
}

/* What is tried: an algorithm and a number of ranks. */
struct run {
    enum uw_allreduce_kind kind;
    uint32_t p;
};

static void set_up(struct world *w, const struct shape *s, const struct run *run, bool in_order)
{
    uint32_t p = run->p;
    *w = (struct world){.shape = s, .p = p, .steps_n = STEPS_N};
    uw_rng_seed(&w->net.rng, p);
    w->net.byte_ns = 8.0;
    w->net.scale = SCALE;
    w->net.latency_ns = 100000;
    w->net.queue_ns = 1000000;      /* 125 KB */
    for (uint32_t i = 0; i < p; i++) {
        struct rank *r = &w->ranks[i];
        struct uw_arena arena;
        *r = (struct rank){.net = &w->net, .rank = i};
        const struct uw_overlap_config c = {
            .kind = run->kind, .bucket_n = s->bucket_n, .buckets_n = s->buckets_n,
            .ranks_max = p, .chunk_n = CHUNK_N, .fragment_n = FRAGMENT_N,
            .small_n = in_order ? 1 : 0, .reliable = true, .send = send, .arg = r};
        size_t bytes = net_overlap_bytes(&c);
        r->memory = uw_test_block(bytes);
        uw_arena_init(&arena, r->memory, bytes);
        assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
        const struct uw_overlap_group g = {.group = 1, .ranks = p, .rank = i, .rtt_us = 200};
        uw_overlap_begin(&r->o, &g, 0);
        r->until_ns = uw_rng_below(&w->net.rng, 3000000);   /* not all in the same moment */
        r->computing = true;
        r->at = 2 * s->layers_n;
        r->step = UINT32_MAX;
        for (uint32_t b = 0; b < s->buckets_n; b++) {
            r->x[b] = uw_test_floats(s->bucket_n[b]);
            for (uint32_t k = 0; k < s->bucket_n[b]; k++) {
                r->x[b][k] = (float)(1 + i);
            }
        }
    }
}

/* After a step, and then for ever, everybody has the mean. */
static void tear_down(struct world *w)
{
    for (uint32_t i = 0; i < w->p; i++) {
        for (uint32_t b = 0; b < w->shape->buckets_n; b++) {
            for (uint32_t k = 0; k < w->shape->bucket_n[b]; k++) {
                assert_true(w->ranks[i].x[b][k] == 0.5f * (float)(w->p + 1));
            }
            uw_test_release(w->ranks[i].x[b]);
        }
        uw_test_release(w->ranks[i].memory);
    }
    net_close(&w->net);
}

static bool is_averaged(const struct rank *r, uint32_t bucket)
{
    return !r->used[bucket] || uw_overlap_state(&r->o, bucket) == UW_OVERLAP_DONE;
}

/* Go on computing as far as the time and the averaging allow. */
static void compute(struct world *w, struct rank *r)
{
    const struct shape *s = w->shape;
    uint32_t n = s->layers_n;
    while (r->step == UINT32_MAX || r->step < w->steps_n) {
        bool backward = r->at >= n;
        uint32_t layer = backward ? 2 * n - 1 - r->at : r->at, bucket = LAYERS_MAX;
        if (r->computing && r->until_ns > w->net.now_ns) {
            return;
        }
        if (r->at == 2 * n) {
            r->begun_ns[++r->step] = w->net.now_ns;
            r->at = 0;
            r->computing = false;
            continue;
        }
        bucket = s->bucket[layer];
        if (r->computing) {
            if (backward && bucket < s->buckets_n) {
                r->used[bucket] = true;
                uw_overlap_ready(&r->o, bucket, r->x[bucket], w->net.now_ns / 1000u);
            }
            r->computing = false;
            r->at++;
        } else if (backward || bucket >= s->buckets_n || is_averaged(r, bucket)) {
            double products = backward ? s->backward[layer] : s->forward[layer];
            r->until_ns = w->net.now_ns + (uint64_t)(products * w->product_ns);
            r->computing = true;
        } else {
            return;
        }
    }
}

static bool is_over(const struct world *w, const struct rank *r)
{
    bool over = r->step != UINT32_MAX && r->step == w->steps_n;
    for (uint32_t b = 0; b < w->shape->buckets_n; b++) {
        over = over && is_averaged(r, b);
    }
    return over;
}

static void attend(struct world *w, struct rank *r)
{
    r->heard = false;
    compute(w, r);
    r->next_ns = uw_overlap_run(&r->o, w->net.now_ns / 1000u);
    r->next_ns = r->next_ns < UINT64_MAX / 1000u ? r->next_ns * 1000u : UINT64_MAX;
    compute(w, r);
    uint64_t room_ns = net_room_ns(&w->net, r->rank);
    r->next_ns = room_ns != 0 && room_ns < r->next_ns ? room_ns : r->next_ns;
    r->next_ns = r->computing && r->until_ns > w->net.now_ns && r->until_ns < r->next_ns
                     ? r->until_ns : r->next_ns;
}

/* Until all steps are done and all is averaged. Returns the seconds of it. */
static double run_all(struct world *w)
{
    for (uint32_t over = 0; over < w->p;) {
        struct net *n = &w->net;
        uint64_t next_ns = UINT64_MAX;
        while (n->heap_n > 0 && n->heap[0].at_ns <= n->now_ns) {
            struct net_message m = net_pop(n);
            uw_overlap_take(&w->ranks[m.to].o, m.from, &m.part, n->now_ns / 1000u);
            w->ranks[m.to].heard = true;
            free(m.floats);
        }
        over = 0;
        for (uint32_t i = 0; i < w->p; i++) {
            struct rank *r = &w->ranks[i];
            if (r->heard || r->next_ns <= n->now_ns) {
                attend(w, r);
            }
            next_ns = r->next_ns < next_ns ? r->next_ns : next_ns;
            over += is_over(w, r);
        }
        if (n->heap_n > 0 && n->heap[0].at_ns < next_ns) {
            next_ns = n->heap[0].at_ns;
        }
        assert_true(over == w->p || (next_ns != UINT64_MAX && n->now_ns < 4000000000000u));
        n->now_ns = over == w->p ? n->now_ns : next_ns > n->now_ns ? next_ns : n->now_ns + 1000u;
    }
    return (double)w->net.now_ns * 1e-9;
}

/* Seconds of the averaging alone. */
static double averaging_s(const struct shape *s, const struct run *run)
{
    struct world w;
    set_up(&w, s, run, false);
    w.steps_n = 1;
    double seconds = run_all(&w);
    double least = 2.0 * (run->p - 1) / run->p * s->floats * 4.0 * 8e-9;
    print_message("%u ranks, %s: averaging alone %.3f s, the lines need %.3f s, %u fragments, "
                  "%lu bytes of state\n", run->p, uw_allreduce_name(run->kind), seconds, least,
                  w.ranks[0].o.fragments_n,
                  (unsigned long)(w.ranks[0].o.fragments_n * sizeof(struct uw_fragment)));
    assert_true(seconds < 1.05 * least);
    tear_down(&w);
    return seconds;
}

/* Seconds of a step, the mean of all but the first one, of the slowest rank. */
static double step_s(const struct shape *s, const struct run *run, double compute_s,
                     bool in_order)
{
    struct world w;
    struct shape reversed = *s;     /* buckets are averaged as they come: the last layer's first */
    double slowest = 0.0;
    for (uint32_t i = 0; i < s->layers_n; i++) {
        if (s->bucket[i] < s->buckets_n) {
            reversed.bucket[i] = s->buckets_n - 1 - s->bucket[i];
            reversed.bucket_n[reversed.bucket[i]] = s->bucket_n[s->bucket[i]];
        }
    }
    set_up(&w, in_order ? &reversed : s, run, in_order);
    w.product_ns = compute_s / s->all * 1e9;
    run_all(&w);
    for (uint32_t i = 0; i < run->p; i++) {
        const uint64_t *begun_ns = w.ranks[i].begun_ns;
        double mean = (double)(begun_ns[STEPS_N] - begun_ns[1]) * 1e-9 / (STEPS_N - 1);
        slowest = mean > slowest ? mean : slowest;
    }
    tear_down(&w);
    return slowest;
}

/* Seconds of a step, as the model has it. */
static double modelled_s(const struct shape *s, const struct run *run, double compute_s,
                         bool in_order)
{
    struct uw_step_layer layers[LAYERS_MAX];
    struct uw_step_time t;
    for (uint32_t i = 0; i < s->layers_n; i++) {
        uint32_t bucket = s->bucket[i];
        layers[i] = (struct uw_step_layer){
            .forward = s->forward[i], .backward = s->backward[i],
            .params_n = bucket < s->buckets_n ? s->bucket_n[bucket] * SCALE : 0};
    }
    const struct uw_step_config c = {
        .layers = layers, .layers_n = s->layers_n, .nodes_n = run->p, .batch_n = 1,
        .macs_per_s = s->all / compute_s, .exchange = UW_STEP_ALLREDUCE, .kind = run->kind,
        .network = {.latency_s = 1e-4, .byte_s = 8e-9, .chunk_n = CHUNK_N * SCALE,
                    .head_bytes = NET_HEAD_BYTES},
        .overlap = true, .asked = true, .in_order = in_order,
        .fragment_n = FRAGMENT_N * SCALE};
    assert_int_equal(uw_step_time(&c, &t), UW_OK);
    return t.step_s;
}

static void check_overlap(const struct shape *s, const struct run *run)
{
    static const double ratios[] = {0.5, 1.0, 2.0};
    double averaging = averaging_s(s, run);
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        double computing = ratios[i] * averaging;
        double longer = computing > averaging ? computing : averaging;
        double step = step_s(s, run, computing, false);
        double plain = step_s(s, run, computing, true);
        double hidden = 1.0 - (step - computing) / averaging;
        double could = computing < averaging ? computing / averaging : 1.0;
        double model = modelled_s(s, run, computing, false);
        double model_plain = modelled_s(s, run, computing, true);
        print_message("  computing %.3f s (batch %.0f at %.0f GFLOP/s): step %.3f s = %.3f x max, "
                      "hidden %.1f %%; in order %.3f s, %.3f x max; modelled %.3f s, %.3f s\n",
                      computing, BATCH_N, 2e-9 * s->all * BATCH_N / computing, step,
                      step / longer, 100.0 * hidden, plain, plain / longer, model, model_plain);
        assert_true(fabs(model - step) < 0.05 * step);
        assert_true(fabs(model_plain - plain) < 0.05 * plain);
        assert_true(step < 1.1 * longer);
        assert_true(hidden > 0.8 * could);
        assert_true(hidden > 0.8 || ratios[i] < 1.0);
        assert_true(plain > (ratios[i] > 1.0 ? 0.999 : 1.05) * step);
    }
}

static void test_alexnet_averaging_is_hidden_behind_computing(void **state)
{
    (void)state;
    static const struct run runs[] = {
        {UW_ALLREDUCE_HALVING, 2}, {UW_ALLREDUCE_HALVING, 4}, {UW_ALLREDUCE_RING, 6},
        {UW_ALLREDUCE_HALVING, 8}, {UW_ALLREDUCE_RING, 8}};
    size_t runs_n = uw_test_slow()                   ? 1
                    : getenv("UWASA_TEST_QUICK") != NULL ? 3
                                                         : sizeof runs / sizeof runs[0];
    struct shape s;
    read_shape(&s, "alexnet");
    assert_true(s.floats == 60965224.0);
    for (size_t i = 0; i < runs_n; i++) {
        check_overlap(&s, &runs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alexnet_averaging_is_hidden_behind_computing),
    };
    return cmocka_run_group_tests_name("overlap_time", tests, NULL, NULL);
}
