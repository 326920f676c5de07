/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever a plan saves, the numbers are those of the plain one. */
#include "test_support.h"

#include "random_graph.h"

#include <math.h>

#define BATCH 5u

static struct uw_model_config config_of(const struct uw_model_def *def)
{
    return (struct uw_model_config){.def = def, .kernels = &uw_kernels_ref, .batch_n = BATCH,
                                    .optimizer = {.lr = 0.05f}};
}

static void open_with(struct fixture *f, struct uw_model_config config)
{
    *f = (struct fixture){.config = config};
    if (open_config(f) != UW_OK) {
        fail_msg("%s", f->err.text);
    }
    uw_model_init_weights(&f->m, 7);
}

/* A few steps on the same random minibatches. */
static void train(struct fixture *f, uint32_t steps)
{
    struct uw_rng r;
    float *x = uw_test_floats((size_t)BATCH * f->m.input_n);
    uint32_t label[BATCH];

    uw_rng_seed(&r, 99);
    for (uint32_t i = 0; i < steps; i++) {
        struct uw_step_result result;
        random_batch(&r, &f->m, BATCH, x, label);
        const struct uw_minibatch b = {.x = x, .label = label, .n = BATCH};
        if (uw_model_train_step(&f->m, &b, &result, &f->err) != UW_OK) {
            fail_msg("%s", f->err.text);
        }
    }
    uw_test_release(x);
}

static void expect_equal(const struct fixture *a, const struct fixture *b)
{
    assert_memory_equal(a->m.params.x, b->m.params.x, a->m.params.size_n * sizeof(float));
}

static void expect_near(const struct fixture *a, const struct fixture *b)
{
    for (uint32_t i = 0; i < a->m.params.size_n; i++) {
        if (fabsf(a->m.params.x[i] - b->m.params.x[i]) >= 1e-5f) {
            fail_msg("parameter %u is %g, %g in %lu bytes with micro-batches of %u", (unsigned)i,
                     (double)a->m.params.x[i], (double)b->m.params.x[i],
                     (unsigned long)b->need.activations_bytes, (unsigned)b->config.micro_n);
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
    const char *at = strstr(f.err.text, "takes ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "takes %lu", &bytes), 1);
    close_model(&f);
    return bytes;
}

static void test_plan_within_a_budget_trains_bit_for_bit_the_same(void **state)
{
    (void)state;
    const uint32_t trials_n = uw_test_slow() ? 15 : 60;
    struct uw_rng r;
    uint32_t recomputed = 0;

    uw_rng_seed(&r, uw_test_seed(81));
    for (uint32_t trial = 0; trial < trials_n; trial++) {
        struct random_graph g;
        struct fixture a, b;
        random_graph(&g, &r);
        open_with(&a, config_of(&g.def));
        struct uw_model_config tight = config_of(&g.def);
        unsigned long least = smallest(tight);
        assert_true(least <= a.need.total_bytes);
        tight.budget_bytes = least + uw_rng_below(&r, (uint32_t)(a.need.total_bytes - least) + 1u);
        open_with(&b, tight);
        assert_true(b.need.total_bytes <= tight.budget_bytes);
        recomputed += b.need.recomputed_n;
        train(&a, 3);
        train(&b, 3);
        expect_equal(&a, &b);
        close_model(&a);
        close_model(&b);
    }
    assert_true(recomputed > trials_n / 3u);
}

static const struct uw_layer_def deep_layers[] = {
    CONV("c1", 8, 3, 1, 1), RELU("r1"), CONV("c2", 8, 3, 1, 1), RELU("r2"),
    CONV("c3", 8, 3, 1, 1), RELU("r3"), CONV("c4", 8, 3, 1, 1), RELU("r4"),
    CONV("c5", 8, 3, 1, 1), RELU("r5"), CONV("c6", 8, 3, 1, 1), RELU("r6"),
    POOL("p", 2, 2, 0), FLATTEN("f"), DENSE("d1", 12), RELU("r7"), DENSE("d2", 3),
};
static const struct uw_model_def deep = {
    "deep", 2, 16, 16, deep_layers, sizeof deep_layers / sizeof deep_layers[0]};

static void test_plan_recomputation_saves_a_quarter_of_a_deep_chain(void **state)
{
    (void)state;
    struct fixture a, b;

    open_with(&a, config_of(&deep));
    struct uw_model_config tight = config_of(&deep);
    tight.budget_bytes = smallest(tight);
    open_with(&b, tight);
    assert_true(b.need.activations_bytes <= a.need.activations_bytes * 3 / 4);
    train(&a, 4);
    train(&b, 4);
    expect_equal(&a, &b);
    close_model(&a);
    close_model(&b);
}

static void test_plan_micro_batches_give_the_minibatch_result_in_less_memory(void **state)
{
    (void)state;
    static const struct {
        enum uw_plan_mode mode;
        struct uw_optimizer optimizer;
    } cases[] = {
        {UW_PLAN_FULL, {.lr = 0.05f}},
        {UW_PLAN_IMMEDIATE, {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f}},
        {UW_PLAN_FULL, {.lr = 0.05f, .momentum = 0.9f, .nesterov = true}},
        {UW_PLAN_FULL, {.kind = UW_OPTIMIZER_ADAM, .lr = 0.001f, .epsilon = 1e-3f}},
        {UW_PLAN_FULL, {.lr = 0.05f, .clip_global = 0.1f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t micro = 1; micro <= 3; micro += uw_test_slow() ? 2 : 1) {
            struct uw_model_config config = config_of(&deep);
            struct fixture a, b;
            config.mode = cases[i].mode;
            config.optimizer = cases[i].optimizer;
            open_with(&a, config);
            config.micro_n = micro;
            open_with(&b, config);
            assert_true(b.need.total_bytes < a.need.total_bytes);
            assert_true(b.need.gradients_bytes == a.need.gradients_bytes);
            train(&a, 4);
            train(&b, 4);
            expect_near(&a, &b);
            close_model(&a);
            close_model(&b);
        }
    }
}

static void test_plan_micro_batches_without_room_to_accumulate_are_refused(void **state)
{
    (void)state;
    struct fixture f = {.config = config_of(&deep)};

    f.config.micro_n = 2;
    assert_int_equal(open_config(&f), UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "plan mode full"));
    uw_test_release(f.workspace);
    f.config.optimizer = (struct uw_optimizer){.momentum = 0.9f, .nesterov = true};
    assert_int_equal(open_config(&f), UW_ERR_INVALID); /* it moves the weights too early */
    close_model(&f);
}

struct seen {
    uint32_t next, calls;
};

static int note_bucket(void *arg, uint32_t offset_n, uint32_t count_n, float *gradient)
{
    struct seen *s = arg;
    assert_int_equal(offset_n + count_n, s->next);
    assert_true(gradient[0] == gradient[0]);
    s->next = offset_n;
    s->calls++;
    return UW_OK;
}

static void test_plan_buckets_cover_every_gradient_once_and_follow_full(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 300, 600, 1000000};
    struct fixture full;
    struct uw_model_config config = config_of(&deep);

    config.mode = UW_PLAN_FULL;
    config.optimizer = (struct uw_optimizer){.lr = 0.02f, .momentum = 0.9f};
    open_with(&full, config);
    train(&full, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct fixture f;
        config.mode = UW_PLAN_BUCKETS;
        config.bucket_n = sizes[i];
        open_with(&f, config);
        struct seen seen = {.next = f.m.trainable_n};
        f.m.bucket = note_bucket;
        f.m.bucket_arg = &seen;
        train(&f, 1);
        assert_int_equal(seen.next, 0);
        assert_int_equal(seen.calls, sizes[i] <= 1 ? 8 : sizes[i] == 1000000 ? 1 : seen.calls);
        assert_true(f.need.gradients_bytes <= full.need.gradients_bytes);
        expect_equal(&full, &f);
        close_model(&f);
    }
    close_model(&full);
}

/* What is not trained stays, what is trained follows the full run's first step. */
static void expect_only(const struct fixture *before, const struct fixture *f, const char *suffix,
                        uint32_t from_segment)
{
    for (uint32_t i = 0; i < f->m.params.segments_n; i++) {
        const struct uw_segment *s = &f->m.params.segments[i];
        size_t bytes = s->size_n * sizeof(float);
        const float *x = f->m.params.x + s->offset_n;
        bool same = memcmp(x, before->m.params.x + s->offset_n, bytes) == 0;
        bool trained = i >= from_segment && strstr(s->name, suffix) != NULL;
        assert_int_equal(trained, s->state_n != UINT32_MAX);
        assert_true(same != trained);
    }
}

static void test_plan_partial_training_needs_less_and_moves_only_its_part(void **state)
{
    (void)state;
    struct fixture all, biases, last, frozen;
    struct uw_model_config config = config_of(&deep);
    struct uw_layer_def layers[sizeof deep_layers / sizeof deep_layers[0]];
    struct uw_model_def def = deep;

    config.optimizer = (struct uw_optimizer){.kind = UW_OPTIMIZER_ADAM, .lr = 0.01f};
    open_with(&all, config);
    config.adapt = (struct uw_adapt){.bias_only = true};
    open_with(&biases, config);
    config.adapt = (struct uw_adapt){.last_n = 2};
    open_with(&last, config);
    memcpy(layers, deep_layers, sizeof layers);
    for (uint32_t i = 0; i < 10; i++) {
        layers[i].frozen = true;
    }
    def.layers = layers;
    config.def = &def;
    config.adapt = (struct uw_adapt){.last_n = 0};
    open_with(&frozen, config);
    assert_true(biases.need.optimizer_bytes < all.need.optimizer_bytes / 10);
    assert_true(last.need.activations_bytes < all.need.activations_bytes / 2);
    assert_true(frozen.need.activations_bytes < all.need.activations_bytes);
    assert_int_equal(last.need.parameters_n, all.need.parameters_n);
    train(&biases, 1);
    train(&last, 1);
    train(&frozen, 1);
    expect_only(&all, &biases, ".bias", 0);
    expect_only(&all, &last, ".", 12);
    expect_only(&all, &frozen, ".", 10);
    close_model(&all);
    close_model(&biases);
    close_model(&last);
    close_model(&frozen);
}

/* Nothing reads the inputs of these layers once the weights stay. */
static void test_plan_of_biases_keeps_no_inputs_of_products(void **state)
{
    (void)state;
    static const struct uw_layer_def layers[] = {
        {.kind = UW_LAYER_DENSE, .name = "d1", .dense = {.out = 64}},
        {.kind = UW_LAYER_DENSE, .name = "d2", .dense = {.out = 64}},
        {.kind = UW_LAYER_DENSE, .name = "d3", .dense = {.out = 64}},
        {.kind = UW_LAYER_DENSE, .name = "d4", .dense = {.out = 64}},
    };
    static const struct uw_model_def linear = {"linear", .in_channels = 64, .layers = layers,
                                               .layers_n = 4};
    struct fixture all, biases;
    struct uw_model_config config = config_of(&linear);

    open_with(&all, config);
    config.adapt = (struct uw_adapt){.bias_only = true};
    open_with(&biases, config);
    size_t value_bytes = (size_t)config.batch_n * 64 * sizeof(float);
    assert_true(all.need.activations_bytes >= 5 * value_bytes);
    assert_int_equal(biases.need.activations_bytes, 2 * value_bytes);
    train(&biases, 1);
    expect_only(&all, &biases, ".bias", 0);
    train(&all, 1);
    for (uint32_t i = 1; i < all.m.params.segments_n; i += 2) {
        const struct uw_segment *s = &all.m.params.segments[i];
        assert_memory_equal(all.m.params.x + s->offset_n, biases.m.params.x + s->offset_n,
                            s->size_n * sizeof(float));
    }
    close_model(&all);
    close_model(&biases);
}

#define NORM(n) {.kind = UW_LAYER_BATCHNORM, .name = n}
#define DEPTHWISE(n, co, s) {.kind = UW_LAYER_CONV2D, .name = n, \
    .conv2d = {.out_channels = co, .kernel_h = 3, .stride_h = s, .pad_h = 1, .pad_w = 1, \
               .groups = co}}

/* The norms n1, n2, n4 and n5 are read by one convolution each, n3 by two layers. */
static const struct uw_layer_def normed_layers[] = {
    CONV("c1", 12, 3, 1, 1), NORM("n1"), {.kind = UW_LAYER_RELU6, .name = "r1"},
    DEPTHWISE("c2", 12, 1), NORM("n2"), RELU("r2"), CONV("c3", 6, 1, 1, 0), NORM("n3"),
    CONV("c4", 20, 1, 1, 0), NORM("n4"), CONV("c5", 20, 1, 1, 0), NORM("n5"), RELU("r5"),
    DEPTHWISE("c6", 20, 2), NORM("n6"), CONV("c7", 6, 1, 1, 0),
    {.kind = UW_LAYER_CONV2D, .name = "c8", .inputs = {"n3"},
     .conv2d = {.out_channels = 6, .kernel_h = 1, .stride_h = 2}},
    {.kind = UW_LAYER_ADD, .name = "a", .inputs = {"c7", "c8"}}, FLATTEN("f"), DENSE("d", 3),
};
static const struct uw_model_def normed = {
    "normed", 2, 9, 9, normed_layers, sizeof normed_layers / sizeof normed_layers[0]};

static bool takes_none(const struct uw_kernels *k, const struct uw_conv2d *c, uint32_t batch_n)
{
    (void)k;
    (void)c;
    (void)batch_n;
    return false;
}

static double evaluated(struct fixture *f)
{
    struct uw_rng r;
    float *x = uw_test_floats((size_t)BATCH * f->m.input_n);
    uint32_t label[BATCH], correct = 0;
    double loss = 0.0;

    uw_rng_seed(&r, 5);
    random_batch(&r, &f->m, BATCH, x, label);
    const struct uw_minibatch b = {.x = x, .label = label, .n = BATCH - 1};
    assert_int_equal(uw_model_evaluate(&f->m, &b, &loss, &correct), UW_OK);
    uw_test_release(x);
    return loss;
}

/* With every table of this machine, and with a budget that only recomputation meets. */
static void test_plan_with_norms_left_to_convolutions_trains_the_same_in_less_memory(void **state)
{
    (void)state;
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        struct uw_kernels apart = *uw_kernels_at(i);
        struct fixture a, b, c;
        struct uw_model_config config = config_of(&normed);
        bool can = uw_kernels_at(i)->tile != NULL && !apart.exact;

        apart.conv2d_takes_norm = takes_none;
        config.kernels = uw_kernels_at(i);
        open_with(&a, config);
        config.budget_bytes = smallest(config);
        open_with(&c, config);
        config.budget_bytes = 0;
        config.kernels = &apart;
        open_with(&b, config);
        assert_int_equal(a.need.activations_bytes < b.need.activations_bytes * 4 / 5, can);
        train(&a, 4);
        train(&b, 4);
        train(&c, 4);
        expect_near(&b, &a);
        expect_near(&b, &c);
        assert_true(fabs(evaluated(&a) - evaluated(&b)) < 1e-4);
        assert_true(fabs(evaluated(&c) - evaluated(&b)) < 1e-4);
        close_model(&a);
        close_model(&b);
        close_model(&c);
    }
}

/* A minibatch of every size up to the one that was planned, seen and trained on. Emulated, an
 * eighth of them, the largest too. */
static void check_sizes(const struct uw_kernels *k, const struct uw_model_def *def, uint32_t least,
                        uint32_t most)
{
    struct fixture f = {.config = {.def = def, .kernels = k, .batch_n = most,
                                   .optimizer = {.lr = 0.01f}}};
    struct uw_rng r;
    uint32_t correct = 0;
    double loss = 0.0;
    assert_int_equal(open_config(&f), UW_OK);
    uw_model_init_weights(&f.m, 7);
    float *x = uw_test_floats((size_t)most * f.m.input_n);
    uint32_t *label = uw_test_block(most * sizeof *label);
    uw_rng_seed(&r, 99);
    random_batch(&r, &f.m, most, x, label);
    uint32_t step = uw_test_slow() && most - least >= 8 ? 8 : 1;
    for (uint32_t n = least + (most - least) % step; n <= most; n += step) {
        struct uw_step_result result;
        const struct uw_minibatch b = {.x = x, .label = label, .n = n};
        if (uw_model_train_step(&f.m, &b, &result, &f.err) != UW_OK ||
            uw_model_evaluate(&f.m, &b, &loss, &correct) != UW_OK) {
            fail_msg("%s, minibatch of %u, planned for %u: %s", k->name, (unsigned)n,
                     (unsigned)most, f.err.text);
        }
    }
    uw_test_release(label);
    uw_test_release(x);
    close_model(&f);
}

/* x + f(x) and f(x) + x: f(x) alone has no other reader, and the sum takes its place. */
static void test_plan_of_a_sum_does_not_depend_on_the_order(void **state)
{
    (void)state;
    struct uw_layer_def layers[] = {
        {.name = "a", .kind = UW_LAYER_DENSE, .dense = {.out = 24}},
        {.name = "b", .kind = UW_LAYER_DENSE, .dense = {.out = 24}},
        {.name = "sum", .kind = UW_LAYER_ADD, .inputs = {"a", "b"}},
        {.name = "c", .kind = UW_LAYER_DENSE, .dense = {.out = 24}},
        {.name = "next", .kind = UW_LAYER_ADD, .inputs = {"sum", "c"}},
        {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 3}}};
    const struct uw_model_def def = {.name = "sums", .in_channels = 7, .layers = layers,
                                     .layers_n = sizeof layers / sizeof *layers};
    struct fixture f, turned;
    open_with(&f, config_of(&def));
    train(&f, 3);
    layers[2].inputs[0] = "b";
    layers[2].inputs[1] = "a";
    layers[4].inputs[0] = "c";
    layers[4].inputs[1] = "sum";
    open_with(&turned, config_of(&def));
    train(&turned, 3);
    assert_int_equal(f.need.total_bytes, turned.need.total_bytes);
    expect_equal(&f, &turned);
    close_model(&f);
    close_model(&turned);
}

static void test_plan_holds_for_every_smaller_minibatch(void **state)
{
    (void)state;
    static const struct uw_layer_def dense[] = {DENSE("d", 11)};
    static const struct uw_layer_def narrow[] = {DENSE("d", 4)};
    static const struct uw_layer_def point[] = {CONV("c", 64, 1, 1, 0), FLATTEN("f"),
                                                DENSE("d", 3)};
    static const struct uw_layer_def strided[] = {CONV("c", 53, 3, 3, 2), FLATTEN("f"),
                                                  DENSE("d", 3)};
    static const struct uw_layer_def square[] = {CONV("c", 48, 3, 1, 1), FLATTEN("f"),
                                                 DENSE("d", 3)};
    static const struct uw_model_def defs[] = {
        {"dense", 1, 0, 0, dense, 1}, {"point", 1, 14, 14, point, 3},
        {"strided", 7, 23, 17, strided, 3}, {"square", 32, 9, 9, square, 3}};
    static const struct uw_model_def large = {"narrow", 10, 0, 0, narrow, 1};
    static const uint32_t most[][2] = {{257, 300}, {6, 9}, {5, 13}, {7, 11}};
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        for (size_t d = 0; d < sizeof defs / sizeof *defs; d++) {
            check_sizes(uw_kernels_at(i), &defs[d], 1, most[d][0]);
            check_sizes(uw_kernels_at(i), &defs[d], 1, most[d][1]);
        }
        check_sizes(uw_kernels_at(i), &large, 3300, 3727);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_within_a_budget_trains_bit_for_bit_the_same),
        cmocka_unit_test(test_plan_recomputation_saves_a_quarter_of_a_deep_chain),
        cmocka_unit_test(test_plan_micro_batches_give_the_minibatch_result_in_less_memory),
        cmocka_unit_test(test_plan_micro_batches_without_room_to_accumulate_are_refused),
        cmocka_unit_test(test_plan_buckets_cover_every_gradient_once_and_follow_full),
        cmocka_unit_test(test_plan_partial_training_needs_less_and_moves_only_its_part),
        cmocka_unit_test(test_plan_of_biases_keeps_no_inputs_of_products),
        cmocka_unit_test(test_plan_with_norms_left_to_convolutions_trains_the_same_in_less_memory),
        cmocka_unit_test(test_plan_of_a_sum_does_not_depend_on_the_order),
        cmocka_unit_test(test_plan_holds_for_every_smaller_minibatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
