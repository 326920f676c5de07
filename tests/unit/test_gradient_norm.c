/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization, activations and dropout: gradients against central differences in double, in
 * every place of a graph; and the same bits with recomputation, micro-batches and partial
 * training. */
#include "test_support.h"

#include "gradient_check.h"

#define NORM(k, n, ...) {.kind = UW_LAYER_##k, .name = n, .norm = {__VA_ARGS__}}
#define ACTIVATION(k, n, ...) {.kind = UW_LAYER_##k, .name = n, .activation = {__VA_ARGS__}}

static const struct uw_layer_def subjects[] = {
    NORM(BATCHNORM, "x", .epsilon = 0.0f),
    NORM(BATCHNORM, "x", .epsilon = 1e-2f, .momentum = 0.3f),
    NORM(BATCHNORM, "x", .no_affine = true),
    NORM(GROUPNORM, "x", .groups = 1),
    NORM(GROUPNORM, "x", .groups = 2, .epsilon = 1e-3f),
    NORM(GROUPNORM, "x", .groups = 4),
    NORM(GROUPNORM, "x", .groups = 2, .no_affine = true),
    NORM(LAYERNORM, "x", .epsilon = 0.0f),
    NORM(LAYERNORM, "x", .axes = 1, .no_affine = true),
    NORM(LAYERNORM, "x", .axes = 2),
    NORM(LAYERNORM, "x", .axes = 3, .epsilon = 1e-3f),
    {.kind = UW_LAYER_LRN, .name = "x", .lrn = {.size = 5}},
    {.kind = UW_LAYER_LRN, .name = "x", .lrn = {.size = 2, .alpha = 0.9f, .beta = 0.6f,
                                                .k = 2.0f}},
    {.kind = UW_LAYER_LRN, .name = "x", .lrn = {.size = 9, .alpha = 3.0f}},
    ACTIVATION(RELU6, "x", .slope = 0.0f),
    ACTIVATION(LEAKY_RELU, "x", .slope = 0.0f),
    ACTIVATION(LEAKY_RELU, "x", .slope = 0.3f),
    ACTIVATION(SIGMOID, "x", .slope = 0.0f),
    ACTIVATION(TANH, "x", .slope = 0.0f),
    ACTIVATION(GELU, "x", .slope = 0.0f),
    ACTIVATION(GELU, "x", .tanh = true),
    ACTIVATION(SILU, "x", .slope = 0.0f),
    {.kind = UW_LAYER_DROPOUT, .name = "x", .dropout = {.rate = 0.0f}},
    {.kind = UW_LAYER_DROPOUT, .name = "x", .dropout = {.rate = 0.4f}},
};
#define SUBJECTS_N (sizeof subjects / sizeof subjects[0])
#define PLACES_N 7u
#define LAYERS_MAX 12u

static uint32_t put(struct uw_layer_def *out, const struct uw_layer_def *layers, uint32_t n)
{
    memcpy(out, layers, n * sizeof *out);
    return n;
}
#define PUT(...) put(layers, LAYERS(__VA_ARGS__), sizeof LAYERS(__VA_ARGS__) / sizeof *layers)

/* A small network with the subject at one of PLACES_N places. */
static struct uw_model_def place(const struct uw_layer_def *subject, uint32_t where,
                                 struct uw_layer_def layers[LAYERS_MAX])
{
    const struct uw_layer_def x = *subject;
    struct uw_layer_def second = x, frozen = x;
    const struct uw_layer_def sum = {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"x", "c"}};
    const struct uw_layer_def twice = {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"x", "x"}};
    uint32_t n;

    second.name = "x2";
    frozen.frozen = true;
    switch (where) {
    case 0: /* in the middle */
        n = PUT(CONV("c", 4, 3, 1, 1), x, FLATTEN("f"), DENSE("d", 3));
        break;
    case 1: /* first */
        n = PUT(x, CONV("c", 3, 3, 1, 0), FLATTEN("f"), DENSE("d", 3));
        break;
    case 2: /* inside a residual: its input is read twice */
        n = PUT(CONV("c", 4, 3, 1, 1), x, sum, RELU("r"), FLATTEN("f"), DENSE("d", 3));
        break;
    case 3: /* between layers that work in place */
        n = PUT(CONV("c", 4, 3, 1, 1), RELU("r"), x, ACTIVATION(TANH, "t", .slope = 0.0f),
                FLATTEN("f"), DENSE("d", 3));
        break;
    case 4: /* two in a row, the output read twice */
        n = PUT(CONV("c", 4, 3, 1, 1), second, x, twice, FLATTEN("f"), DENSE("d", 3));
        break;
    case 5:
        n = PUT(CONV("c", 4, 3, 1, 1), frozen, FLATTEN("f"), DENSE("d", 3));
        break;
    default: /* last, behind a view */
        n = PUT(CONV("c", 4, 3, 1, 1), x, FLATTEN("f"));
    }
    return (struct uw_model_def){"place", 4, 4, 3, layers, n};
}

static void test_gradient_norm_everywhere_matches_central_differences(void **state)
{
    (void)state;
    struct uw_layer_def layers[LAYERS_MAX];
    uint64_t seed = uw_test_seed(81);

    for (size_t i = 0; i < SUBJECTS_N; i++) {
        for (uint32_t where = 0; where < PLACES_N; where++) {
            for (uint32_t n = 1; n <= 3; n += 2) {
                const struct uw_model_def def = place(&subjects[i], where, layers);
                check_gradients(&def, n, seed + i);
            }
        }
    }
}

/* A ReLU behind a batch norm is left to it, unless somebody else reads the batch norm. */
static void test_gradient_of_a_relu_left_to_batchnorm_matches_central_differences(void **state)
{
    (void)state;
    const struct uw_layer_def x = NORM(BATCHNORM, "x", .epsilon = 0.0f);
    const struct uw_layer_def plain = NORM(BATCHNORM, "x", .no_affine = true);
    const struct uw_layer_def six = ACTIVATION(RELU6, "r", .slope = 0.0f);
    const struct uw_layer_def sum = {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"x", "r"}};
    const struct uw_layer_def twice = {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"r", "c"}};
    struct uw_layer_def frozen = x;
    uint64_t seed = uw_test_seed(85);

    frozen.frozen = true;
    const struct {
        struct uw_model_def def;
        uint32_t relu;
        bool left;
    } cases[] = {
        {{"middle", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), x, RELU("r"), FLATTEN("f"),
                                    DENSE("d", 3)), 5}, 2, true},
        {{"six", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), plain, six, FLATTEN("f"),
                                 DENSE("d", 3)), 5}, 2, true},
        {{"first", 4, 4, 3, LAYERS(x, six, CONV("c", 3, 3, 1, 0), FLATTEN("f"),
                                   DENSE("d", 3)), 5}, 1, true},
        {{"frozen", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), frozen, RELU("r"), FLATTEN("f"),
                                    DENSE("d", 3)), 5}, 2, true},
        {{"residual", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), x, RELU("r"), twice, FLATTEN("f"),
                                      DENSE("d", 3)), 6}, 2, true},
        {{"last", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), x, RELU("r"), FLATTEN("f")), 4}, 2, true},
        {{"read", 4, 4, 3, LAYERS(CONV("c", 4, 3, 1, 1), x, RELU("r"), sum, FLATTEN("f"),
                                  DENSE("d", 3)), 6}, 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        assert_int_equal(open_model(&f, &cases[i].def, 3, UW_PLAN_FULL, false), UW_OK);
        assert_int_equal(f.m.layers[cases[i].relu].view, cases[i].left);
        close_model(&f);
        check_gradients(&cases[i].def, 1, seed + i);
        check_gradients(&cases[i].def, 3, seed + i);
    }
}

/* Samples of rank 1 and 2. */
static void test_gradient_norm_of_rows_and_sequences_matches_central_differences(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(82);

    for (size_t i = 0; i < SUBJECTS_N; i++) {
        const struct uw_layer_def x = subjects[i];
        for (uint32_t rank = 1; rank <= 2; rank++) {
            if (x.kind == UW_LAYER_LAYERNORM && x.norm.axes > rank) {
                continue;
            }
            const struct uw_model_def def = {
                "rows", rank == 1 ? 5 : 4, 0, rank == 1 ? 0 : 6,
                LAYERS(DENSE("a", 4), x, FLATTEN("f"), DENSE("d", 3)), 4};
            check_gradients(&def, 3, seed + i);
        }
    }
}

/* Three steps of a model; x and label are the fixture's own random ones. */
static void train_three(struct fixture *f, uint64_t seed)
{
    struct uw_step_result result;
    struct uw_rng r;
    uint32_t label[6];
    float *x = uw_test_floats((size_t)6 * f->m.input_n);

    uw_model_init_weights(&f->m, seed);
    uw_rng_seed(&r, seed);
    for (int step = 0; step < 3; step++) {
        random_batch(&r, &f->m, 6, x, label);
        int rc = uw_model_train_step(&f->m, &(struct uw_minibatch){.x = x, .label = label, .n = 6},
                                     &result, &f->err);
        if (rc != UW_OK) {
            fail_msg("%s", f->err.text);
        }
    }
    uw_test_release(x);
}

static struct fixture opened(struct uw_model_config config)
{
    struct fixture f = {.config = config};
    int rc = open_config(&f);
    if (rc != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    return f;
}

static struct uw_model_config config_of(const struct uw_model_def *def)
{
    return (struct uw_model_config){.def = def, .kernels = &uw_kernels_ref, .batch_n = 6,
                                    .mode = UW_PLAN_FULL, .optimizer = {.lr = 0.1f}};
}

/* The smallest budget that can be met: the sentence of one that cannot says it. */
static size_t smallest(struct uw_model_config config)
{
    struct fixture f = {.config = config};
    unsigned long least = 0;
    f.config.budget_bytes = 1;
    assert_int_equal(open_config(&f), UW_ERR_NOMEM);
    const char *takes = strstr(f.err.text, "takes ");
    assert_non_null(takes);
    assert_int_equal(sscanf(takes, "takes %lu", &least), 1);
    close_model(&f);
    return least;
}

/* How far rounding takes a model: what the reference's kernels make of it lies so far off. 0 for
 * the reference itself; a GPU rounds in another order for another number of samples, and a layer
 * norm over three values that are nearly the same makes much of that. */
static float distance_to_reference(const struct fixture *f, uint64_t seed)
{
    struct uw_model_config config = f->config;
    float most = 0.0f;
    config.kernels = uw_kernels_find("ref");
    struct fixture reference = opened(config);
    train_three(&reference, seed);
    for (uint32_t p = 0; p < f->m.params.size_n; p++) {
        most = fmaxf(most, fabsf(f->m.params.x[p] - reference.m.params.x[p]));
    }
    close_model(&reference);
    return most;
}

static void test_norm_recomputed_or_in_micro_batches_is_the_same(void **state)
{
    (void)state;
    uint32_t recomputed = 0;
    uint64_t seed = uw_test_seed(83);

    for (size_t i = 0; i < SUBJECTS_N; i++) {
        struct uw_layer_def x = subjects[i], y = subjects[i];
        y.name = "x2";
        const struct uw_model_def def = {
            "deep", 4, 4, 3,
            LAYERS(CONV("a", 8, 3, 1, 1), x, ACTIVATION(SILU, "s", .slope = 0.0f),
                   CONV("b", 4, 3, 1, 1), RELU("r"), CONV("c", 8, 3, 1, 1), y,
                   CONV("e", 4, 3, 1, 1), FLATTEN("f"), DENSE("d", 3)), 10};
        struct uw_model_config config = config_of(&def);
        struct fixture plain = opened(config);
        config.budget_bytes = smallest(config);
        struct fixture tight = opened(config);
        bool again = tight.m.layers[1].recomputed || tight.m.layers[6].recomputed;
        assert_true(again || x.kind != UW_LAYER_BATCHNORM);
        recomputed += again;
        train_three(&plain, seed + i);
        train_three(&tight, seed + i);
        size_t bytes = plain.m.params.size_n * sizeof(float);
        assert_memory_equal(plain.m.params.x, tight.m.params.x, bytes);
        close_model(&tight);
        if (x.kind != UW_LAYER_BATCHNORM) {
            config.budget_bytes = 0;
            config.micro_n = 2;
            struct fixture micro = opened(config);
            train_three(&micro, seed + i);
            float most = fmaxf(2e-5f, distance_to_reference(&plain, seed + i));
            for (uint32_t p = 0; p < plain.m.params.size_n; p++) {
                assert_true(fabsf(plain.m.params.x[p] - micro.m.params.x[p]) < most);
            }
            close_model(&micro);
        }
        close_model(&plain);
    }
    assert_true(recomputed >= SUBJECTS_N / 2); /* how many is the plan's to say */
}

/* Bias-only: the first step moves biases as full training does, and nothing else but running
 * statistics. Frozen: not even those. */
static void test_norm_bias_only_and_frozen_touch_nothing_else(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(84);

    for (size_t i = 0; i < SUBJECTS_N; i++) {
        struct uw_layer_def x = subjects[i], frozen = subjects[i];
        if (x.kind > UW_LAYER_LAYERNORM) {
            break;
        }
        frozen.frozen = true;
        const struct uw_model_def def = {"bias", 4, 4, 3,
            LAYERS(CONV("a", 4, 3, 1, 1), x, FLATTEN("f"), DENSE("d", 3)), 4};
        const struct uw_model_def def_frozen = {"frozen", 4, 4, 3,
            LAYERS(CONV("a", 4, 3, 1, 1), frozen, FLATTEN("f"), DENSE("d", 3)), 4};
        struct uw_model_config config = config_of(&def);
        struct fixture full = opened(config);
        config.adapt.bias_only = true;
        struct fixture bias = opened(config);
        struct fixture still = opened(config_of(&def_frozen));
        struct fixture *all[] = {&full, &bias, &still};
        struct uw_step_result result;
        struct uw_rng r;
        uint32_t label[6];
        float data[6 * 48];
        uw_rng_seed(&r, seed);
        random_batch(&r, &full.m, 6, data, label);
        for (size_t k = 0; k < 3; k++) {
            uw_model_init_weights(&all[k]->m, seed);
            assert_int_equal(uw_model_train_step(&all[k]->m, &(struct uw_minibatch){.x = data,
                .label = label, .n = 6}, &result, &all[k]->err), UW_OK);
        }
        struct fixture fresh = opened(config);
        uw_model_init_weights(&fresh.m, seed);
        for (uint32_t s = 0; s < full.m.params.segments_n; s++) {
            const struct uw_segment *g = &full.m.params.segments[s];
            bool moves = strstr(g->name, "bias") != NULL || g->statistic;
            const float *want = (moves ? full.m.params.x : fresh.m.params.x) + g->offset_n;
            size_t bytes = g->size_n * sizeof(float);
            assert_memory_equal(bias.m.params.x + g->offset_n, want, bytes);
            if (strncmp(g->name, "x.", 2) == 0) {
                assert_memory_equal(still.m.params.x + g->offset_n,
                                    fresh.m.params.x + g->offset_n, bytes);
                assert_true(memcmp(full.m.params.x + g->offset_n, fresh.m.params.x + g->offset_n,
                                   bytes) != 0);
            }
        }
        close_model(&fresh);
        close_model(&still);
        close_model(&bias);
        close_model(&full);
    }
}

static void test_norm_bad_options_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        struct uw_layer_def layer;
        int code;
        const char *says;
    } bad[] = {
        {NORM(BATCHNORM, "x", .epsilon = -1.0f), UW_ERR_INVALID, "epsilon needs"},
        {NORM(BATCHNORM, "x", .momentum = 1.5f), UW_ERR_INVALID, "momentum above 0"},
        {NORM(GROUPNORM, "x", .groups = 0), UW_ERR_INVALID, "groups 0: needs 1 or more"},
        {NORM(GROUPNORM, "x", .groups = 3), UW_ERR_SHAPE, "groups 3: needs 1 or more that divide"},
        {NORM(LAYERNORM, "x", .axes = 4), UW_ERR_SHAPE, "axes 4: its input has 3"},
        {{.kind = UW_LAYER_LRN, .name = "x"}, UW_ERR_INVALID, "size 0: needs 1"},
        {{.kind = UW_LAYER_LRN, .name = "x", .lrn = {.size = 3, .k = -1.0f}}, UW_ERR_INVALID,
         "need to be above 0"},
        {ACTIVATION(LEAKY_RELU, "x", .slope = -0.5f), UW_ERR_INVALID, "slope -0.5: needs"},
        {{.kind = UW_LAYER_DROPOUT, .name = "x", .dropout = {.rate = 1.0f}}, UW_ERR_INVALID,
         "rate 1: needs 0 to below 1"},
        {{.kind = UW_LAYER_DROPOUT, .name = "x", .dropout = {.rate = NAN}}, UW_ERR_INVALID,
         "needs 0 to below 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct uw_model_def def = {"bad", 4, 4, 3,
            LAYERS(bad[i].layer, FLATTEN("f"), DENSE("d", 3)), 3};
        struct fixture f = {.config = config_of(&def)};
        assert_int_equal(open_config(&f), bad[i].code);
        if (strstr(f.err.text, bad[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", f.err.text, bad[i].says);
        }
        close_model(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_norm_everywhere_matches_central_differences),
        cmocka_unit_test(test_gradient_of_a_relu_left_to_batchnorm_matches_central_differences),
        cmocka_unit_test(test_gradient_norm_of_rows_and_sequences_matches_central_differences),
        cmocka_unit_test(test_norm_recomputed_or_in_micro_batches_is_the_same),
        cmocka_unit_test(test_norm_bias_only_and_frozen_touch_nothing_else),
        cmocka_unit_test(test_norm_bad_options_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
