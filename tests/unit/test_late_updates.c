/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates that come in the next forward pass have the bits of those that come at once. Between, the
 * gradient is elsewhere, and what stands in its place is NaN. */
#include "test_support.h"

#include "memory_storage.h"
#include "random_graph.h"

#include "uwasa/checkpoint.h"

#define BATCH 5u
#define BUCKETS_MAX 32u

/* Takes the gradients away, and gives them back when it is asked. */
struct averager {
    struct uw_model *m;
    float *away;                    /* [trainable_n] */
    float *before;                  /* [params.size_n] parameters when the last bucket was ready */
    struct uw_bucket bucket[BUCKETS_MAX];
    float *at[BUCKETS_MAX];
    bool out[BUCKETS_MAX];
    uint32_t ready_n, waits_n, last;
    uint32_t drop;                  /* this one comes back unusable; UINT32_MAX: none */
    uint32_t fail;                  /* this one fails once; UINT32_MAX: none */
    bool again;                     /* forward passes of one step may follow each other */
};

static int ready(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n, float *gradient)
{
    struct averager *a = arg;
    assert_true(bucket < a->m->buckets_n && a->m->buckets_n <= BUCKETS_MAX && !a->out[bucket]);
    assert_int_equal(a->m->buckets[bucket].offset_n, offset_n);
    assert_int_equal(a->m->buckets[bucket].count_n, count_n);
    assert_int_equal(bucket, a->m->buckets_n - 1 - a->ready_n % a->m->buckets_n); /* from the top */
    a->out[bucket] = true;
    a->ready_n++;
    a->at[bucket] = gradient;
    memcpy(a->away + offset_n, gradient, count_n * sizeof(float));
    memset(gradient, 0xff, count_n * sizeof(float));
    memcpy(a->before, a->m->params.x, a->m->params.size_n * sizeof(float));
    return UW_OK;
}

/* Parameters of buckets that are still out have not changed. */
static void check_untouched(const struct averager *a)
{
    for (uint32_t i = 0; i < a->m->buckets_n; i++) {
        const struct uw_bucket *b = &a->m->buckets[i];
        for (uint32_t k = b->segments; k < b->segments_end && a->out[i]; k++) {
            const struct uw_segment *s = &a->m->params.segments[k];
            if (s->state_n != UINT32_MAX) {
                assert_memory_equal(a->before + s->offset_n, a->m->params.x + s->offset_n,
                                    s->size_n * sizeof(float));
            }
        }
    }
}

static int wait(void *arg, uint32_t bucket)
{
    struct averager *a = arg;
    const struct uw_bucket *b = &a->m->buckets[bucket];
    assert_true(a->out[bucket] && b->pending);
    check_untouched(a);
    if (a->fail == bucket) {
        a->fail = UINT32_MAX;
        return UW_ERR_TIMEOUT;
    }
    a->out[bucket] = false;
    a->waits_n++;
    if (a->drop == bucket) {
        return UW_BUCKET_DROPPED;
    }
    memcpy(a->at[bucket], a->away + b->offset_n, b->count_n * sizeof(float));
    return UW_OK;
}

static void open_with(struct fixture *f, const struct uw_model_config *config)
{
    *f = (struct fixture){.config = *config};
    if (open_config(f) != UW_OK) {
        fail_msg("%s", f->err.text);
    }
    uw_model_init_weights(&f->m, 7);
    for (uint32_t i = 0; f->m.velocity != NULL && i < f->m.params.size_n; i++) {
        f->m.velocity[i] = 0.01f * (float)(i % 13);
    }
}

static void open_late(struct fixture *f, struct averager *a, struct uw_model_config config)
{
    config.late_updates = true;
    open_with(f, &config);
    *a = (struct averager){.m = &f->m, .drop = UINT32_MAX, .fail = UINT32_MAX,
                           .away = uw_test_floats(f->m.trainable_n),
                           .before = uw_test_floats(f->m.params.size_n)};
    assert_int_equal(f->m.gradients_n, f->m.trainable_n);
    assert_int_equal(f->need.gradients_bytes,
                     uw_arena_padded(f->m.trainable_n * sizeof(float)));
    f->m.bucket_ready = ready;
    f->m.bucket_wait = wait;
    f->m.bucket_arg = a;
}

static void close_late(struct fixture *f, struct averager *a)
{
    uw_test_release(a->away);
    uw_test_release(a->before);
    close_model(f);
}

static int step(struct fixture *f, uint32_t number)
{
    struct uw_rng r;
    struct uw_step_result result;
    uint32_t label[BATCH], n = BATCH - number % 2;
    float *x = uw_test_floats((size_t)BATCH * f->m.input_n);
    uw_rng_seed(&r, 1000 + number);
    random_batch(&r, &f->m, BATCH, x, label);
    const struct uw_minibatch b = {.x = x, .label = label, .n = n};
    f->m.optimizer.lr = f->config.optimizer.lr * (1.0f - 0.1f * (float)number);
    int rc = uw_model_train_step(&f->m, &b, &result, &f->err);
    uw_test_release(x);
    return rc;
}

static double evaluated(struct fixture *f)
{
    struct uw_rng r;
    uint32_t label[BATCH], correct = 0;
    double loss = 0.0;
    float *x = uw_test_floats((size_t)BATCH * f->m.input_n);
    uw_rng_seed(&r, 5);
    random_batch(&r, &f->m, BATCH, x, label);
    const struct uw_minibatch b = {.x = x, .label = label, .n = BATCH};
    assert_int_equal(uw_model_evaluate(&f->m, &b, &loss, &correct), UW_OK);
    uw_test_release(x);
    return loss;
}

static void expect_equal(const struct fixture *a, const struct fixture *b)
{
    assert_memory_equal(a->m.params.x, b->m.params.x, a->m.params.size_n * sizeof(float));
    for (uint32_t v = 0; v < uw_optimizer_vectors(&a->config.optimizer); v++) {
        assert_memory_equal(a->m.state[v], b->m.state[v], a->m.trainable_n * sizeof(float));
    }
    assert_true(a->m.updates == b->m.updates);
}

/* Train `at_once` as it is and `late` with deferred updates; equal bits after every step. */
static void check_pair(const struct uw_model_config *at_once, const struct uw_model_config *late)
{
    struct fixture a, b;
    struct averager averager;
    open_with(&a, at_once);
    open_late(&b, &averager, *late);
    for (uint32_t i = 0; i < 6; i++) {
        if (step(&a, i) != UW_OK || step(&b, i) != UW_OK) {
            fail_msg("%s%s", a.err.text, b.err.text);
        }
        assert_true(uw_model_updates_pending(&b.m));
        assert_int_equal(averager.ready_n, (i + 1) * b.m.buckets_n);
        if (i % 3 == 1) {
            assert_true(evaluated(&a) == evaluated(&b));
        }
        if (i % 3 == 2) {
            assert_int_equal(uw_model_finish_updates(&b.m, &b.err), UW_OK);
            assert_false(uw_model_updates_pending(&b.m));
            expect_equal(&a, &b);
        }
    }
    assert_int_equal(averager.waits_n, averager.ready_n);
    close_model(&a);
    close_late(&b, &averager);
}

static struct uw_model_config config_of(const struct uw_model_def *def)
{
    return (struct uw_model_config){.def = def, .kernels = &uw_kernels_ref, .batch_n = BATCH,
                                    .mode = UW_PLAN_BUCKETS, .optimizer = {.lr = 0.05f}};
}

static const struct uw_layer_def plain_layers[] = {
    CONV("c1", 4, 3, 1, 1), RELU("r1"), CONV("c2", 4, 3, 1, 1), RELU("r2"), POOL("p", 2, 2, 0),
    FLATTEN("f"), DENSE("d1", 9), RELU("r3"), DENSE("d2", 3)};
static const struct uw_model_def plain = {"plain", 2, 6, 6, plain_layers, 9};

static const struct uw_optimizer optimizers[] = {
    {.lr = 0.1f},
    {.lr = 0.1f, .weight_decay = 0.01f},
    {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f},
    {.lr = 0.05f, .momentum = 0.9f, .nesterov = true},
    {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f, .frozen = true},
    {.kind = UW_OPTIMIZER_ADAM, .lr = 0.02f, .weight_decay = 0.01f},
    {.kind = UW_OPTIMIZER_ADAMW, .lr = 0.02f, .weight_decay = 0.1f},
    {.kind = UW_OPTIMIZER_RMSPROP, .lr = 0.01f},
    {.kind = UW_OPTIMIZER_RMSPROP, .lr = 0.01f, .momentum = 0.9f, .weight_decay = 0.01f},
    {.kind = UW_OPTIMIZER_ADAM, .lr = 0.02f, .clip_tensor = 0.1f},
    {.lr = 0.1f, .momentum = 0.9f, .clip_tensor = 0.1f},
};
#define OPTIMIZERS_N (sizeof optimizers / sizeof *optimizers)

static void test_late_updates_with_every_optimizer_have_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t bucket_n[] = {0, 150, 100000};
    for (size_t o = 0; o < OPTIMIZERS_N; o++) {
        for (size_t i = 0; i < sizeof bucket_n / sizeof *bucket_n; i++) {
            struct uw_model_config c = config_of(&plain);
            c.optimizer = optimizers[o];
            c.mixing_velocity = c.optimizer.frozen;
            c.bucket_n = bucket_n[i];
            check_pair(&c, &c);
        }
    }
}

/* The smallest plan, from the sentence of the refusal. */
static unsigned long smallest(struct uw_model_config config)
{
    struct fixture f = {.config = config};
    unsigned long bytes = 0;
    f.config.budget_bytes = 1;
    assert_int_equal(open_config(&f), UW_ERR_NOMEM);
    assert_int_equal(sscanf(strstr(f.err.text, "takes "), "takes %lu", &bytes), 1);
    close_model(&f);
    return bytes;
}

static void test_late_updates_of_random_graphs_within_a_budget_have_the_same_bits(void **state)
{
    (void)state;
    struct uw_rng r;
    uint32_t recomputed = 0;
    uw_rng_seed(&r, uw_test_seed(81));
    for (int trial = 0; trial < 60; trial++) {
        struct random_graph g;
        struct fixture f;
        random_graph(&g, &r);
        struct uw_model_config c = config_of(&g.def), tight = c;
        tight.late_updates = true;
        tight.budget_bytes = smallest(tight);
        open_with(&f, &tight);
        assert_int_equal(f.need.total_bytes, tight.budget_bytes);
        recomputed += f.need.recomputed_n;
        close_model(&f);
        check_pair(&c, &tight);
    }
    assert_true(recomputed > 20);
}

static void test_late_updates_accumulate_micro_batches_as_plan_mode_full(void **state)
{
    (void)state;
    for (uint32_t micro_n = 1; micro_n < BATCH; micro_n++) {
        struct uw_model_config c = config_of(&plain), full = c;
        c.micro_n = full.micro_n = micro_n;
        full.mode = UW_PLAN_FULL;
        check_pair(&full, &c);
        check_pair(&full, &full);
    }
}

static void test_late_updates_clip_the_global_norm_in_one_bucket_only(void **state)
{
    (void)state;
    struct uw_model_config c = config_of(&plain);
    struct fixture f = {.config = c};
    c.mode = UW_PLAN_FULL;
    c.optimizer = (struct uw_optimizer){.lr = 0.1f, .momentum = 0.9f, .clip_global = 0.1f};
    check_pair(&c, &c);
    f.config.late_updates = true;
    f.config.optimizer = c.optimizer;
    assert_int_equal(open_config(&f), UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "clipping by the global norm needs plan mode full"));
    close_model(&f);
    f = (struct fixture){.config = config_of(&plain)};
    f.config.late_updates = true;
    f.config.mode = UW_PLAN_IMMEDIATE;
    assert_int_equal(open_config(&f), UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "deferred updates need plan mode buckets or full"));
    close_model(&f);
}

/* Frozen layers, biases only, the last layers, low-rank additions, an auxiliary head. */
static void test_late_updates_of_a_part_have_the_same_bits(void **state)
{
    (void)state;
    static const struct uw_adapt adapts[] = {
        {.bias_only = true}, {.last_n = 2}, {.lora_rank = 2, .lora_alpha = 3.0f}};
    struct uw_layer_def layers[10];
    static const struct uw_loss_def losses[] = {{.layer = "d2"}, {.layer = "aux", .weight = 0.3f}};
    for (size_t i = 0; i < sizeof adapts / sizeof *adapts; i++) {
        struct uw_model_config c = config_of(&plain);
        c.adapt = adapts[i];
        check_pair(&c, &c);
    }
    memcpy(layers, plain_layers, sizeof plain_layers);
    layers[2].frozen = true;
    layers[9] = (struct uw_layer_def){.kind = UW_LAYER_DENSE, .name = "aux", .inputs = {"f"},
                                      .dense = {.out = 3}};
    const struct uw_model_def def = {.name = "heads", .in_channels = 2, .in_h = 6, .in_w = 6,
                                     .layers = layers, .layers_n = 10, .losses = losses,
                                     .losses_n = 2};
    struct uw_model_config c = config_of(&def);
    check_pair(&c, &c);
}

/* Batch norms that convolutions do: their parameters are needed by the convolution. */
static void test_late_updates_of_norms_with_every_table_have_the_same_bits(void **state)
{
    (void)state;
#define NORM(n) {.kind = UW_LAYER_BATCHNORM, .name = n}
    static const struct uw_layer_def layers[] = {
        CONV("c1", 16, 3, 1, 1), NORM("n1"), RELU("r1"), CONV("c2", 16, 1, 1, 0), NORM("n2"),
        RELU("r2"), CONV("c3", 16, 1, 1, 0), FLATTEN("f"), DENSE("d", 3)};
    static const struct uw_model_def def = {"normed", 3, 8, 8, layers, 9};
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        struct uw_model_config c = config_of(&def);
        c.kernels = uw_kernels_at(i);
        check_pair(&c, &c);
    }
}

/* What is dropped leaves the bucket's parameters as they are. */
static void test_late_update_dropped_changes_nothing_of_its_bucket(void **state)
{
    (void)state;
    struct fixture f;
    struct averager a;
    struct uw_model_config c = config_of(&plain);
    c.optimizer.momentum = 0.9f;
    open_late(&f, &a, c);
    assert_int_equal(step(&f, 0), UW_OK);
    assert_int_equal(f.m.buckets_n, 4);
    a.drop = 2;
    assert_int_equal(uw_model_finish_updates(&f.m, &f.err), UW_OK);
    assert_false(uw_model_updates_pending(&f.m));
    for (uint32_t k = 0; k < f.m.params.segments_n; k++) {
        const struct uw_segment *s = &f.m.params.segments[k];
        bool dropped = k >= f.m.buckets[2].segments && k < f.m.buckets[2].segments_end;
        bool same = memcmp(a.before + s->offset_n, f.m.params.x + s->offset_n,
                           s->size_n * sizeof(float)) == 0;
        assert_int_equal(same, dropped);
        for (uint32_t i = 0; i < s->size_n && dropped; i++) {
            assert_true(f.m.state[0][s->state_n + i] == 0.0f);
        }
    }
    close_late(&f, &a);
}

/* A wait that fails stops the step before the layer; the update is there for the next one. */
static void test_late_update_that_fails_stays_pending(void **state)
{
    (void)state;
    struct fixture f, g;
    struct averager a;
    const struct uw_model_config c = config_of(&plain);
    open_late(&f, &a, c);
    open_with(&g, &c);
    assert_int_equal(step(&f, 0), UW_OK);
    a.fail = 2;
    assert_int_equal(step(&f, 1), UW_ERR_TIMEOUT);
    assert_non_null(strstr(f.err.text, "layer 'd1'"));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(f.m.buckets[i].pending, i >= 2);
    }
    assert_true(f.m.updates == 1);
    a.fail = 3;
    assert_int_equal(uw_model_finish_updates(&f.m, &f.err), UW_ERR_TIMEOUT);
    assert_int_equal(step(&f, 1), UW_OK);
    assert_int_equal(uw_model_finish_updates(&f.m, &f.err), UW_OK);
    assert_int_equal(step(&g, 0), UW_OK);
    assert_int_equal(step(&g, 1), UW_OK);
    expect_equal(&g, &f);
    close_model(&g);
    close_late(&f, &a);
}

static void test_late_update_of_a_nan_names_the_gradient_and_is_left_out(void **state)
{
    (void)state;
    struct fixture f;
    struct averager a;
    open_late(&f, &a, config_of(&plain));
    assert_int_equal(step(&f, 0), UW_OK);
    a.away[f.m.buckets[1].offset_n + 1] = NAN;
    assert_int_equal(step(&f, 1), UW_ERR_NONFINITE);
    assert_non_null(strstr(f.err.text, "the gradient of c2.weight"));
    const struct uw_segment *s = &f.m.params.segments[f.m.buckets[1].segments];
    assert_memory_equal(a.before + s->offset_n, f.m.params.x + s->offset_n,
                        s->size_n * sizeof(float));
    assert_int_equal(step(&f, 1), UW_OK);
    close_late(&f, &a);
}

static void test_checkpoint_waits_for_pending_updates(void **state)
{
    (void)state;
    struct memory_storage storage = {.base = {&memory_storage_ops}};
    const struct uw_checkpoint at = {.step = 1, .batch_n = BATCH};
    struct uw_checkpoint loaded;
    struct fixture f;
    struct averager a;
    open_late(&f, &a, config_of(&plain));
    assert_int_equal(step(&f, 0), UW_OK);
    assert_int_equal(uw_checkpoint_save(&f.m, &at, &storage.base, "c", &f.err), UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "pending"));
    assert_int_equal(uw_model_finish_updates(&f.m, &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_save(&f.m, &at, &storage.base, "c", &f.err), UW_OK);
    assert_int_equal(step(&f, 1), UW_OK);
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &storage.base, "c", &f.err),
                     UW_ERR_INVALID);
    uw_model_init_weights(&f.m, 3);     /* forgets them */
    assert_false(uw_model_updates_pending(&f.m));
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &storage.base, "c", &f.err), UW_OK);
    memory_storage_release(&storage);
    close_late(&f, &a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_updates_with_every_optimizer_have_the_same_bits),
        cmocka_unit_test(test_late_updates_of_random_graphs_within_a_budget_have_the_same_bits),
        cmocka_unit_test(test_late_updates_accumulate_micro_batches_as_plan_mode_full),
        cmocka_unit_test(test_late_updates_clip_the_global_norm_in_one_bucket_only),
        cmocka_unit_test(test_late_updates_of_a_part_have_the_same_bits),
        cmocka_unit_test(test_late_updates_of_norms_with_every_table_have_the_same_bits),
        cmocka_unit_test(test_late_update_dropped_changes_nothing_of_its_bucket),
        cmocka_unit_test(test_late_update_that_fails_stays_pending),
        cmocka_unit_test(test_late_update_of_a_nan_names_the_gradient_and_is_left_out),
        cmocka_unit_test(test_checkpoint_waits_for_pending_updates),
    };
    return cmocka_run_group_tests_name("late_updates", tests, NULL, NULL);
}
