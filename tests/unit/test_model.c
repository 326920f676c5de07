/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "model_fixture.h"

/* Every optimizer option: mode immediate must do what mode full does. */
#define NAME_32 "0123456789abcdef0123456789abcdef"
#define LONG_NAME NAME_32 NAME_32 NAME_32

static void open_planned(struct fixture *f, const struct uw_model_def *def,
                         const struct uw_kernels *k, uint32_t batch_n, enum uw_plan_mode mode,
                         const struct uw_optimizer *o)
{
    *f = (struct fixture){.config = {.def = def, .kernels = k, .batch_n = batch_n,
                                     .mode = mode, .optimizer = *o,
                                     .mixing_velocity = o->frozen}};
    assert_int_equal(open_config(f), UW_OK);
}

static void check_immediate_follows_full(const struct uw_model_def *def,
                                         const struct uw_kernels *k, uint32_t batch_n,
                                         const struct uw_optimizer *o)
{
    uint64_t seed = uw_test_seed(51);
    struct fixture a, b;
    struct uw_rng r;
    float x[6 * 64];
    uint32_t label[6];
    bool momentum = o->momentum != 0.0f && !o->frozen;

    open_planned(&a, def, k, batch_n, UW_PLAN_FULL, o);
    open_planned(&b, def, k, batch_n, UW_PLAN_IMMEDIATE, o);
    assert_true(b.need.total_bytes < a.need.total_bytes);
    uw_model_init_weights(&a.m, seed);
    uw_model_init_weights(&b.m, seed);
    uw_rng_seed(&r, seed);
    for (uint32_t i = 0; o->frozen && i < a.m.params.size_n; i++) {
        a.m.velocity[i] = b.m.velocity[i] = 0.1f * uw_rng_normal(&r);
    }
    for (int step = 0; step < 10; step++) {
        struct uw_step_result ra, rb;
        random_batch(&r, &a.m, batch_n, x, label);
        assert_int_equal(train_step(&a.m, x, label, batch_n, o, &ra, NULL), UW_OK);
        assert_int_equal(train_step(&b.m, x, label, batch_n, o, &rb, NULL), UW_OK);
        assert_true(fabs(ra.loss - rb.loss) < 1e-4);
    }
    for (uint32_t i = 0; i < a.m.params.size_n; i++) {
        assert_true(fabsf(a.m.params.x[i] - b.m.params.x[i]) < 2e-5f);
        assert_true(!momentum || fabsf(a.m.state[0][i] - b.m.state[0][i]) < 2e-5f);
    }
    close_model(&a);
    close_model(&b);
}

static void test_train_step_immediate_follows_full(void **state)
{
    (void)state;
    static const struct uw_optimizer options[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.01f},
        {.lr = 0.05f, .momentum = 0.9f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = true},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f, .frozen = true},
    };
    const struct uw_model_def def = {"m", 1, 8, 8,
        LAYERS(CONV("c", 4, 3, 1, 1), RELU("r"), POOL("p", 2, 2, 0), FLATTEN("f"), DENSE("d", 5)),
        5};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        check_immediate_follows_full(&def, &uw_kernels_ref, 6, &options[o]);
    }
}

/* Dense layers whose gradients are updated in one pass, beside some that may not be: one adds to
 * what another branch left in the gradient of its input, one has no bias. */
static void test_train_step_dense_in_one_pass_follows_full(void **state)
{
    (void)state;
    static const struct uw_optimizer options[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.01f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f},
    };
    const struct uw_model_def def = {"m", 1, 8, 8,
        LAYERS(FLATTEN("f"), DENSE("d0", 23), RELU("r"),
               {.kind = UW_LAYER_DENSE, .name = "d1", .dense = {.out = 23, .no_bias = true}},
               {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"r", "d1"}}, DENSE("d2", 5)),
        6};
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
            check_immediate_follows_full(&def, uw_kernels_at(i), 1, &options[o]);
            check_immediate_follows_full(&def, uw_kernels_at(i), 5, &options[o]);
        }
    }
}

static void test_train_step_repeated_lowers_the_loss(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 6, 1, 1, LAYERS(DENSE("a", 16), RELU("r"), DENSE("b", 3)),
                                     3};
    struct fixture f;
    struct uw_rng r;
    struct uw_optimizer sgd = {.lr = 0.2f};
    struct uw_step_result first, last;
    float x[8 * 6];
    uint32_t label[8];

    assert_int_equal(open_model(&f, &def, 8, UW_PLAN_IMMEDIATE, false), UW_OK);
    uw_model_init_weights(&f.m, 1);
    uw_rng_seed(&r, uw_test_seed(61));
    random_batch(&r, &f.m, 8, x, label);
    assert_int_equal(train_step(&f.m, x, label, 8, &sgd, &first, NULL), UW_OK);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(train_step(&f.m, x, label, 8, &sgd, &last, NULL), UW_OK);
    }
    assert_true(last.loss < 0.1 * first.loss && last.correct_n == 8);
    close_model(&f);
}

static void test_train_step_nan_names_the_layer_and_changes_nothing(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 4, 1, 1, LAYERS(DENSE("a", 5), RELU("r"), DENSE("b", 3)),
                                     3};
    struct fixture f;
    struct uw_optimizer sgd = {.lr = 0.1f};
    struct uw_step_result result = {.loss = 7.0};
    float x[4] = {1, 2, 3, 4}, before[64];
    uint32_t label = 0;

    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    uw_model_init_weights(&f.m, 1);
    memcpy(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    x[2] = NAN;
    assert_int_equal(train_step(&f.m, x, &label, 1, &sgd, &result, &f.err),
                     UW_ERR_NONFINITE);
    assert_non_null(strstr(f.err.text, "input"));
    assert_memory_equal(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    x[2] = 3;
    f.m.params.x[f.m.params.segments[2].offset_n] = INFINITY;
    before[f.m.params.segments[2].offset_n] = INFINITY;
    assert_int_equal(train_step(&f.m, x, &label, 1, &sgd, &result, &f.err),
                     UW_ERR_NONFINITE);
    assert_non_null(strstr(f.err.text, "b.weight holds a NaN"));
    assert_memory_equal(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    assert_true(result.loss == 7.0);
    f.m.params.x[f.m.params.segments[2].offset_n] = 3e38f;
    for (uint32_t i = 0; i < f.m.params.segments[0].size_n; i++) {
        f.m.params.x[i] = 3e38f; /* finite weights, an output that is not */
    }
    assert_int_equal(train_step(&f.m, x, &label, 1, &sgd, &result, &f.err),
                     UW_ERR_NONFINITE);
    assert_non_null(strstr(f.err.text, "layer 'a': its output"));
    close_model(&f);
}

static void expect_refusal(const struct uw_model_def *def, int code, const char *part)
{
    struct fixture f;
    int rc = open_model(&f, def, 2, UW_PLAN_IMMEDIATE, false);
    if (rc != code || strstr(f.err.text, part) == NULL) {
        fail_msg("%s: got %s \"%s\", wanted \"%s\"", def->name, uw_status_name(rc), f.err.text,
                 part);
    }
    close_model(&f);
}

static void test_measure_bad_definitions_are_refused_by_name(void **state)
{
    (void)state;
    const struct uw_layer_def self = {.kind = UW_LAYER_RELU, .name = "r", .inputs = {"r"}};
    const struct uw_layer_def later = {.kind = UW_LAYER_RELU, .name = "r", .inputs = {"d"}};
    const struct uw_layer_def one = {.kind = UW_LAYER_ADD, .name = "s", .inputs = {"input"}};
    const struct uw_layer_def unequal = {.kind = UW_LAYER_ADD, .name = "s",
                                         .inputs = {"input", "c"}};
    const struct uw_layer_def skip = {.kind = UW_LAYER_DENSE, .name = "d", .inputs = {"input"},
                                      .dense = {.out = 2}};
    const struct uw_layer_def own = {.kind = UW_LAYER_PARAMETER, .name = "p",
                                     .parameter = {.dim = {4}, .rank = 1}};
    const struct uw_layer_def three = {.kind = UW_LAYER_ADD, .name = "s",
                                       .inputs = {"d", "p", "d"}};
    const struct {
        struct uw_model_def def;
        int code;
        const char *part;
    } cases[] = {
        {{"none", 1, 1, 1, NULL, 0}, UW_ERR_INVALID, "no layers"},
        {{"input", 0, 1, 1, LAYERS(RELU("r")), 1}, UW_ERR_INVALID, "0 channels"},
        {{"huge", 70000, 70000, 1, LAYERS(RELU("r")), 1}, UW_ERR_TOOBIG, "input"},
        {{"unnamed", 1, 1, 1, LAYERS(RELU("")), 1}, UW_ERR_INVALID, "layer 1 has no name"},
        {{"twice", 1, 1, 1, LAYERS(RELU("r"), RELU("r")), 2}, UW_ERR_INVALID, "'r' is taken"},
        {{"reserved", 1, 1, 1, LAYERS(RELU("input")), 1}, UW_ERR_INVALID, "reserved"},
        {{"long", 1, 1, 1, LAYERS(RELU(LONG_NAME "x")), 1}, UW_ERR_TOOBIG, "longer than 96"},
        {{"velocity", 1, 1, 1, LAYERS(RELU("optimizer.velocity.a")), 1}, UW_ERR_INVALID,
         "reserved"},
        {{"tensor", 4, 0, 4, LAYERS({.kind = UW_LAYER_ATTENTION, .name = "a",
                                     .attention = {.heads = 1}}, DENSE("a.out_proj", 4)), 2},
         UW_ERR_INVALID, "'a' and 'a.out_proj'"},
        {{"kind", 1, 1, 1, LAYERS({.name = "x"}), 1}, UW_ERR_INVALID, "'x': unknown kind"},
        {{"self", 1, 1, 1, LAYERS(self), 1}, UW_ERR_NOTFOUND, "input 'r' is no earlier layer"},
        {{"cycle", 1, 1, 1, LAYERS(later, DENSE("d", 2)), 2}, UW_ERR_NOTFOUND, "'d'"},
        {{"one", 3, 1, 1, LAYERS(one), 1}, UW_ERR_INVALID, "1 inputs, needs 2"},
        {{"unequal", 3, 4, 4, LAYERS(CONV("c", 3, 3, 1, 0), unequal), 2}, UW_ERR_SHAPE, "'s'"},
        {{"mixed", 3, 1, 1, LAYERS(DENSE("d", 4), own, three), 3}, UW_ERR_INVALID,
         "'s' (add): an input is a parameter"},
        {{"shared", 3, 1, 1, LAYERS(own, FLATTEN("f")), 2}, UW_ERR_INVALID,
         "loss of layer 'f', which does not depend on the sample"},
        {{"unread", 3, 1, 1, LAYERS(DENSE("lost", 4), skip), 2}, UW_ERR_INVALID, "'lost'"},
        {{"kernel", 1, 4, 4, LAYERS(CONV("c", 3, 7, 1, 1)), 1}, UW_ERR_SHAPE, "kernel 7x7"},
        {{"no out", 1, 4, 4, LAYERS(CONV("c", 0, 3, 1, 1)), 1}, UW_ERR_INVALID, "out_channels"},
        {{"image", 1, 4, 4, LAYERS(DENSE("d", 3)), 1}, UW_ERR_SHAPE, "flatten"},
        {{"map", 1, 4, 4, LAYERS(CONV("c", 3, 3, 1, 1)), 1}, UW_ERR_SHAPE, "one row of logits"},
        {{"pool", 1, 40, 40, LAYERS(POOL("p", 16, 1, 0)), 1}, UW_ERR_INVALID, "255"},
        {{"pad", 1, 4, 4, LAYERS(POOL("p", 2, 1, 2)), 1}, UW_ERR_INVALID, "half"},
        {{"wide", 65536, 1, 1, LAYERS(DENSE("d", 65536)), 1}, UW_ERR_TOOBIG, "'d'"},
        {{"big map", 1, 60000, 60000, LAYERS(CONV("c", 2, 1, 1, 0), FLATTEN("f")), 2},
         UW_ERR_TOOBIG, "'c'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refusal(&cases[i].def, cases[i].code, cases[i].part);
    }
}

static void test_measure_too_many_losses_are_refused(void **state)
{
    (void)state;
    const struct uw_model_def def = {
        .name = "losses", .in_channels = 1, .in_h = 4, .in_w = 4,
        .layers = LAYERS(RELU("r"), POOL("p", 2, 2, 0), FLATTEN("f")), .layers_n = 3,
        .losses = &(const struct uw_loss_def){.layer = "f"}, .losses_n = 60000};
    expect_refusal(&def, UW_ERR_INVALID, "60000 losses: needs 1 to 4");
}

/* The input alone is 2^64 bytes and a little more, the rest of the model is small. */
static void test_measure_a_minibatch_beyond_all_memory_is_refused(void **state)
{
    (void)state;
    const struct uw_model_def def = {
        .name = "wide", .in_channels = 1, .in_h = 32768, .in_w = 65536,
        .layers = LAYERS({.kind = UW_LAYER_GLOBAL_AVGPOOL, .name = "g"}, DENSE("d", 2)),
        .layers_n = 2};
    struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref,
                                   .batch_n = UINT32_MAX, .mode = UW_PLAN_INFERENCE,
                                   .micro_n = 1, .input = true}};
    assert_int_equal(open_config(&f), UW_ERR_TOOBIG);
    close_model(&f);
}

static void test_measure_small_workspace_or_arena_is_refused(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 4, 1, 1, LAYERS(DENSE("a", 5)), 1};
    struct fixture f;
    struct uw_model m;
    struct uw_arena arena;

    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    uw_arena_init(&arena, f.memory, f.need.total_bytes - 1);
    assert_int_equal(uw_model_bind(&m, &f.config, &arena, &f.err), UW_ERR_NOMEM);
    assert_int_equal(uw_model_bind(&m, &f.config, &f.arena, &f.err), UW_ERR_SEALED);
    f.config.workspace_bytes--;
    assert_int_equal(uw_model_measure(&f.config, &f.need, &f.err), UW_ERR_NOMEM);
    f.config.batch_n = 0;
    assert_int_equal(uw_model_measure(&f.config, &f.need, &f.err), UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "batch 0"));
    close_model(&f);
}

static void test_open_takes_one_block_and_refuses_a_smaller_one(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 3, 0, 0,
                                     LAYERS(DENSE("fc1", 8), RELU("relu1"), DENSE("fc2", 4)), 3};
    struct fixture f;
    assert_int_equal(open_model(&f, &def, 5, UW_PLAN_IMMEDIATE, true), UW_OK);
    uw_model_init_weights(&f.m, 7);
    struct uw_model_config config = f.config;
    size_t least = f.need.total_bytes + UW_MODEL_WORKSPACE_BYTES(def.layers_n);
    config.workspace = NULL;
    config.workspace_bytes = 0;
    size_t refused_n = 0;
    for (size_t bytes = 0; bytes <= least; bytes++) {
        void *memory = uw_test_block(bytes > 0 ? bytes : 1);
        struct uw_model m;
        struct uw_error err = {.text = ""};
        int rc = uw_model_open(&m, &config, memory, bytes, 7, &err);
        if (rc == UW_OK) {
            assert_int_equal(m.params.size_n, f.m.params.size_n);
            assert_memory_equal(m.params.x, f.m.params.x, m.params.size_n * sizeof(float));
        } else {
            assert_int_equal(rc, UW_ERR_NOMEM);
            assert_string_not_equal(err.text, "");
            refused_n++;
        }
        uw_test_release(memory);
    }
    assert_int_equal(refused_n, least); /* a block that is aligned needs no slack */
    close_model(&f);
}

static void test_train_step_bad_arguments_are_refused(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 2, 1, 1, LAYERS(DENSE("a", 3)), 1};
    struct fixture f, inference;
    struct uw_optimizer sgd = {.lr = 0.1f};
    struct uw_step_result result;
    float x[4] = {0};
    uint32_t label[2] = {0, 3};
    const struct uw_minibatch two = {.x = x, .label = label, .n = 2};
    double loss = 0;
    uint32_t correct = 0;

    assert_int_equal(open_model(&f, &def, 2, UW_PLAN_IMMEDIATE, false), UW_OK);
    assert_int_equal(open_model(&inference, &def, 2, UW_PLAN_INFERENCE, false), UW_OK);
    assert_int_equal(train_step(&f.m, x, label, 0, &sgd, &result, &f.err),
                     UW_ERR_INVALID);
    assert_int_equal(train_step(&f.m, x, label, 3, &sgd, &result, &f.err),
                     UW_ERR_INVALID);
    assert_int_equal(train_step(&f.m, x, label, 2, &sgd, &result, &f.err),
                     UW_ERR_INVALID);
    assert_non_null(strstr(f.err.text, "label 3"));
    assert_int_equal(uw_model_evaluate(&f.m, &two, &loss, &correct), UW_ERR_INVALID);
    label[1] = 0;
    sgd.momentum = 0.9f;
    assert_int_equal(train_step(&f.m, x, label, 2, &sgd, &result, &f.err),
                     UW_ERR_INVALID);
    sgd.momentum = 0.0f;
    assert_int_equal(train_step(&inference.m, x, label, 2, &sgd, &result, &f.err),
                     UW_ERR_INVALID);
    assert_int_equal(uw_model_evaluate(&inference.m, &two, &loss, &correct), UW_OK);
    assert_true(fabs(loss - 2 * log(3.0)) < 1e-5); /* zero weights: even odds over 3 classes */
    close_model(&f);
    close_model(&inference);
}

static void test_init_weights_uses_he_and_glorot_and_zero_biases(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 300, 1, 1,
                                     LAYERS(DENSE("a", 200), RELU("r"), DENSE("b", 100)), 3};
    struct fixture f;
    double want[4] = {2.0 / 300, 0, 2.0 / 300, 0};

    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    uw_model_init_weights(&f.m, uw_test_seed(71));
    for (uint32_t s = 0; s < 4; s++) {
        const struct uw_segment *segment = &f.m.params.segments[s];
        double square = 0;
        for (uint32_t i = 0; i < segment->size_n; i++) {
            double w = (double)f.m.params.x[segment->offset_n + i];
            square += w * w;
        }
        assert_true(fabs(square / segment->size_n - want[s]) <= 0.05 * want[s]);
    }
    assert_string_equal(f.m.params.segments[2].name, "b.weight");
    assert_ptr_equal(uw_params_find(&f.m.params, "a.bias"), &f.m.params.segments[1]);
    assert_null(uw_params_find(&f.m.params, "c.bias"));
    close_model(&f);
}

/* Every fork doubles the paths from the first layer to the last. */
static void test_init_weights_of_many_forks_takes_no_time(void **state)
{
    (void)state;
    enum { FORKS = 40, LAYERS_N = 2 + 3 * FORKS };
    static struct uw_layer_def layers[LAYERS_N];
    static char names[LAYERS_N][8];
    const struct uw_model_def def = {.name = "forks", .in_channels = 4, .layers = layers,
                                     .layers_n = LAYERS_N};
    struct fixture f;

    for (uint32_t i = 0; i < LAYERS_N; i++) {
        snprintf(names[i], sizeof names[i], "n%u", (unsigned)i);
        layers[i] = (struct uw_layer_def){.kind = UW_LAYER_TANH, .name = names[i]};
        if (i % 3 == 2 && i < LAYERS_N - 1) {
            layers[i].inputs[0] = names[i - 2];
        } else if (i % 3 == 0 && i > 0) {
            layers[i].kind = UW_LAYER_ADD;
            layers[i].inputs[0] = names[i - 2];
            layers[i].inputs[1] = names[i - 1];
        }
    }
    layers[0] = layers[LAYERS_N - 1] = (struct uw_layer_def)DENSE(names[0], 4);
    layers[LAYERS_N - 1].name = names[LAYERS_N - 1];
    if (open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false) != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    uw_model_init_weights(&f.m, 1);
    close_model(&f);
}

static void test_snapshot_publish_and_read_give_one_version(void **state)
{
    (void)state;
    float data[8], x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out[4];
    struct uw_snapshot s = {.data = data, .size_n = 8, .busy = ATOMIC_FLAG_INIT};
    struct uw_snapshot_info info;

    assert_int_equal(uw_snapshot_read(&s, 0, 4, out, &info), UW_ERR_AGAIN);
    assert_int_equal(uw_snapshot_publish(&s, x, 10), UW_OK);
    assert_int_equal(uw_snapshot_read(&s, 4, 4, out, &info), UW_OK);
    assert_memory_equal(out, x + 4, sizeof out);
    assert_int_equal(info.version, 1);
    assert_int_equal(info.step, 10);
    assert_int_equal(uw_snapshot_read(&s, 5, 4, out, &info), UW_ERR_INVALID);
    assert_int_equal(uw_snapshot_read(&s, UINT32_MAX, 2, out, &info), UW_ERR_INVALID);
    assert_false(atomic_flag_test_and_set(&s.busy)); /* somebody is inside */
    assert_int_equal(uw_snapshot_read(&s, 0, 4, out, &info), UW_ERR_AGAIN);
    assert_int_equal(uw_snapshot_publish(&s, x, 11), UW_ERR_AGAIN);
    s.data = NULL;
    assert_int_equal(uw_snapshot_publish(&s, x, 11), UW_ERR_UNSUPPORTED);
    assert_int_equal(uw_snapshot_read(&s, 0, 4, out, &info), UW_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_step_immediate_follows_full),
        cmocka_unit_test(test_train_step_dense_in_one_pass_follows_full),
        cmocka_unit_test(test_train_step_repeated_lowers_the_loss),
        cmocka_unit_test(test_train_step_nan_names_the_layer_and_changes_nothing),
        cmocka_unit_test(test_measure_bad_definitions_are_refused_by_name),
        cmocka_unit_test(test_measure_too_many_losses_are_refused),
        cmocka_unit_test(test_measure_a_minibatch_beyond_all_memory_is_refused),
        cmocka_unit_test(test_measure_small_workspace_or_arena_is_refused),
        cmocka_unit_test(test_open_takes_one_block_and_refuses_a_smaller_one),
        cmocka_unit_test(test_train_step_bad_arguments_are_refused),
        cmocka_unit_test(test_init_weights_uses_he_and_glorot_and_zero_biases),
        cmocka_unit_test(test_init_weights_of_many_forks_takes_no_time),
        cmocka_unit_test(test_snapshot_publish_and_read_give_one_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
