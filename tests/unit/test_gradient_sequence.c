/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, embedding, recurrent layers and attention: every option, wherever it may stand in a
 * graph and whatever of it is trained, has the gradients of central differences in double. */
#include "test_support.h"

#include "gradient_check.h"

#define STEPS 5
#define FEATURES 4

static struct uw_model_def model_of(const char *name, const struct uw_layer_def *layers,
                                    uint32_t layers_n)
{
    return (struct uw_model_def){.name = name, .in_channels = STEPS, .in_w = FEATURES,
                                 .layers = layers, .layers_n = layers_n};
}

static void check_chain(const char *name, const struct uw_layer_def *layers, uint32_t layers_n,
                        const struct uw_adapt *adapt)
{
    const struct uw_model_def def = model_of(name, layers, layers_n);
    uint64_t seed = uw_test_seed(61);
    const struct uw_model_config config = {
        .def = &def, .kernels = &uw_kernels_ref, .adapt = *adapt};
    check_gradients_with(&config, 1, seed);
    check_gradients_with(&config, 3, seed + 1);
}

#define CHECK(name, adapt, ...) \
    do { \
        const struct uw_layer_def chain[] = {__VA_ARGS__}; \
        check_chain(name, chain, sizeof chain / sizeof *chain, adapt); \
    } while (0)

/* Ten steps, with and without a budget, must end in the same bits. */
static void check_recomputation(const struct uw_model_def *def)
{
    struct fixture f[2];
    struct uw_rng r;
    struct uw_step_result result;
    uint32_t label[3];
    float *x = NULL;

    for (int i = 0; i < 2; i++) {
        f[i] = (struct fixture){.config = {.def = def, .kernels = &uw_kernels_ref, .batch_n = 3,
                                           .optimizer = {.lr = 0.01f, .momentum = 0.9f}}};
        if (i == 1) {
            f[1].config.budget_bytes = 1;
            assert_int_equal(open_config(&f[1]), UW_ERR_NOMEM);
            uw_test_release(f[1].workspace);
            f[1].config.budget_bytes =
                (size_t)strtoul(strstr(f[1].err.text, "takes ") + 6, NULL, 10);
        }
        assert_int_equal(open_config(&f[i]), UW_OK);
        uw_model_init_weights(&f[i].m, 7);
    }
    assert_true(f[1].need.recomputed_n > 0 && f[0].need.recomputed_n == 0);
    assert_true(f[1].need.total_bytes < f[0].need.total_bytes);
    uw_rng_seed(&r, 8);
    x = uw_test_floats((size_t)3 * f[0].m.input_n);
    for (int step = 0; step < 10; step++) {
        random_batch(&r, &f[0].m, 3, x, label);
        const struct uw_minibatch b = {.x = x, .label = label, .n = 3};
        for (int i = 0; i < 2; i++) {
            if (uw_model_train_step(&f[i].m, &b, &result, &f[i].err) != UW_OK) {
                fail_msg("%s: %s", def->name, f[i].err.text);
            }
        }
    }
    assert_memory_equal(f[0].m.params.x, f[1].m.params.x,
                        f[0].m.params.size_n * sizeof(float));
    uw_test_release(x);
    close_model(&f[0]);
    close_model(&f[1]);
}

/* A layer named "t" that reads [STEPS][FEATURES], in every place. */
static void check_places(const char *name, struct uw_layer_def t)
{
    const struct uw_adapt all = {0}, biases = {.bias_only = true}, top = {.last_n = 2};
    struct uw_layer_def frozen = t, again = t, side = t;

    frozen.frozen = true;
    again.name = "again";
    side.inputs[0] = "d";
    CHECK(name, &all, t, FLATTEN("f"), DENSE("e", 3));
    CHECK(name, &all, DENSE("d", FEATURES), t, FLATTEN("f"), DENSE("e", 3));
    CHECK(name, &all, DENSE("d", FEATURES), RELU("r"), t, RELU("s"), FLATTEN("f"), DENSE("e", 3));
    CHECK(name, &all, DENSE("d", FEATURES), frozen, FLATTEN("f"), DENSE("e", 3));
    CHECK(name, &top, DENSE("d", FEATURES), t, FLATTEN("f"), DENSE("e", 3));
    CHECK(name, &all, DENSE("d", FEATURES), side, FLATTEN("f"),
          {.kind = UW_LAYER_FLATTEN, .name = "g", .inputs = {"d"}},
          {.kind = UW_LAYER_CONCAT, .name = "c", .inputs = {"f", "g"}}, DENSE("e", 3));
    CHECK(name, &biases, DENSE("d", FEATURES), t, FLATTEN("f"), DENSE("e", 3));

    const struct uw_layer_def twice[] = {DENSE("a", 24), RELU("ra"), DENSE("b", 24), RELU("rb"),
        DENSE("c", 24), RELU("rc"), DENSE("m", 24), RELU("rm"), DENSE("n", 24), RELU("rn"),
        DENSE("d", FEATURES), t, FLATTEN("f"),
        {.kind = UW_LAYER_DENSE, .name = "w", .dense = {.out = STEPS * FEATURES}},
        {.kind = UW_LAYER_RESHAPE, .name = "v", .reshape = {{STEPS, FEATURES}, 2}},
        again, FLATTEN("h"), DENSE("e", 30), RELU("s"), DENSE("o", 3)};
    const struct uw_model_def def = model_of(name, twice, sizeof twice / sizeof *twice);
    check_gradients(&def, 2, 5);
    check_recomputation(&def);
}

static void test_gradient_recurrent_every_option_everywhere(void **state)
{
    (void)state;
    static const char *const names[] = {"rnn", "gru", "lstm"};
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t way = 0; way < (kind == 0 ? 16u : 8u); way++) {
            struct uw_layer_def t = {
                .kind = (enum uw_layer_kind)(UW_LAYER_RNN + kind), .name = "t",
                .recurrent = {.hidden = 3, .reverse = (way & 1u) != 0, .last = (way & 2u) != 0,
                              .no_bias = (way & 4u) != 0, .relu = (way & 8u) != 0}};
            char name[32];
            snprintf(name, sizeof name, "%s, way %u", names[kind], (unsigned)way);
            check_places(name, t);
        }
    }
}

/* Hidden as wide as the input: a residual around it, and states that feed themselves. */
static void test_gradient_recurrent_in_residuals(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct uw_layer_def t = {.kind = (enum uw_layer_kind)(UW_LAYER_RNN + kind), .name = "t",
                                 .recurrent = {.hidden = FEATURES}};
        struct uw_layer_def u = t;
        u.name = "u";
        u.recurrent.reverse = true;
        u.inputs[0] = "d";
        CHECK("residual", &(struct uw_adapt){0}, DENSE("d", FEATURES), t, u,
              {.kind = UW_LAYER_ADD, .name = "a", .inputs = {"t", "u", "d"}}, RELU("r"),
              FLATTEN("f"), DENSE("e", 3));
        CHECK("bidirectional", &(struct uw_adapt){0}, DENSE("d", FEATURES), t, u,
              {.kind = UW_LAYER_CONCAT, .name = "c", .inputs = {"t", "u"}, .concat = {1}},
              FLATTEN("f"), DENSE("e", 3));
        CHECK("states are logits", &(struct uw_adapt){0}, DENSE("d", FEATURES),
              {.kind = t.kind, .name = "t", .recurrent = {.hidden = 3, .last = true}});
        const struct uw_model_def one = {
            .name = "one step", .in_channels = 1, .in_w = 3,
            .layers = LAYERS(DENSE("d", FEATURES), t, FLATTEN("f"), DENSE("e", 2)),
            .layers_n = 4};
        check_gradients(&one, 2, 3);
    }
}

static void test_gradient_attention_every_option_everywhere(void **state)
{
    (void)state;
    const uint32_t heads[] = {1, 2, FEATURES};
    for (uint32_t way = 0; way < 12; way++) {
        struct uw_layer_def t = {.kind = UW_LAYER_ATTENTION, .name = "t",
                                 .attention = {.heads = heads[way / 4], .causal = (way & 1u) != 0,
                                               .no_bias = (way & 2u) != 0}};
        char name[32];
        snprintf(name, sizeof name, "attention, way %u", (unsigned)way);
        check_places(name, t);
        CHECK(name, &(struct uw_adapt){0}, DENSE("d", FEATURES), t,
              {.kind = UW_LAYER_ADD, .name = "a", .inputs = {"t", "d"}}, RELU("r"), FLATTEN("f"),
              DENSE("e", 3));
    }
}

static void test_gradient_copies_everywhere(void **state)
{
    (void)state;
    const struct uw_layer_def copies[] = {
        {.kind = UW_LAYER_RESHAPE, .name = "t", .reshape = {{2, 5, 2}, 3}},
        {.kind = UW_LAYER_RESHAPE, .name = "t", .reshape = {{10, 0}, 2}},
        {.kind = UW_LAYER_RESHAPE, .name = "t", .reshape = {{0}, 1}},
        {.kind = UW_LAYER_TRANSPOSE, .name = "t", .transpose = {{1, 0}}},
        {.kind = UW_LAYER_TRANSPOSE, .name = "t", .transpose = {{0, 1}}},
        {.kind = UW_LAYER_SLICE, .name = "t", .slice = {.axis = 0, .start = 1, .length = 3}},
        {.kind = UW_LAYER_SLICE, .name = "t", .slice = {.axis = 1, .start = 2}},
        {.kind = UW_LAYER_SLICE, .name = "t", .slice = {.axis = 1, .start = -3, .length = 2}},
        {.kind = UW_LAYER_SLICE, .name = "t",
         .slice = {.axis = 0, .start = -1, .length = 1, .squeeze = true}},
        {.kind = UW_LAYER_SLICE, .name = "t",
         .slice = {.axis = 1, .start = 1, .length = 1, .squeeze = true}},
    };
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        char name[32];
        snprintf(name, sizeof name, "copy %u", (unsigned)i);
        check_places(name, copies[i]);
    }
}

static void test_gradient_images_sliced_permuted_and_joined_along_every_axis(void **state)
{
    (void)state;
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t axis = 0; axis < 3; axis++) {
        for (uint32_t o = 0; o < 12; o++) {
            const uint32_t *order = orders[o % 6];
            const struct uw_layer_def layers[] = {
                CONV("c", 3, 3, 1, 1),
                RELU("r"),
                {.kind = UW_LAYER_SLICE, .name = "low", .inputs = {"r"},
                 .slice = {.axis = axis, .start = 0, .length = 2}},
                {.kind = UW_LAYER_SLICE, .name = "high", .inputs = {"r"},
                 .slice = {.axis = axis, .start = -1}},
                {.kind = UW_LAYER_CONCAT, .name = "j", .inputs = {"high", "r", "low", "low"},
                 .concat = {axis}},
                {.kind = UW_LAYER_TRANSPOSE, .name = "p",
                 .transpose = {{order[0], order[1], order[2]}}},
                {.kind = UW_LAYER_SLICE, .name = "s",
                 .slice = {.axis = axis, .start = 1, .length = 1, .squeeze = o >= 6}},
                FLATTEN("f"), DENSE("e", 3)};
            const struct uw_model_def def = {"image", 2, 4, 5, layers,
                                             sizeof layers / sizeof *layers};
            check_gradients(&def, 2, uw_test_seed(71) + o);
        }
    }
}

/* A transpose that moves axes of size 1 only is a view, and so costs no memory. */
static void test_transpose_of_single_axes_is_a_view(void **state)
{
    (void)state;
    struct fixture f;
    const struct uw_layer_def layers[] = {
        CONV("c", 4, 3, 1, 0), /* [4][1][3] */
        {.kind = UW_LAYER_TRANSPOSE, .name = "t", .transpose = {{1, 0, 2}}}, RELU("r"),
        {.kind = UW_LAYER_TRANSPOSE, .name = "u", .transpose = {{1, 2, 0}}},
        FLATTEN("f"), DENSE("e", 3)};
    const struct uw_model_def def = {"views", 2, 3, 5, layers, 6};
    check_gradients(&def, 2, 5);
    assert_int_equal(open_model(&f, &def, 2, UW_PLAN_FULL, false), UW_OK);
    assert_true(f.m.layers[1].view && f.m.layers[3].view);
    close_model(&f);
}

/* Words that come twice in a sample get both gradients. */
static void test_gradient_embedding(void **state)
{
    (void)state;
    struct uw_layer_def gru = {.kind = UW_LAYER_GRU, .name = "g",
                               .recurrent = {.hidden = 4, .last = true}};
    struct uw_layer_def words = {.kind = UW_LAYER_EMBEDDING, .name = "w", .embedding = {3, 4}};
    struct uw_layer_def frozen = words;
    frozen.frozen = true;
    const struct uw_layer_def with_gru[] = {words, gru, DENSE("e", 3)};
    const struct uw_layer_def plain[] = {words, RELU("r"), FLATTEN("f"), DENSE("e", 3)};
    const struct uw_layer_def still[] = {frozen, gru, DENSE("e", 3)};
    for (uint32_t n = 1; n <= 3; n += 2) {
        check_gradients(&(struct uw_model_def){"words", 7, 0, 0, with_gru, 3, NULL, 0}, n, 5);
        check_gradients(&(struct uw_model_def){"rows", 7, 0, 0, plain, 4, NULL, 0}, n, 6);
        check_gradients(&(struct uw_model_def){"still", 7, 0, 0, still, 3, NULL, 0}, n, 7);
    }
}

static void test_embedding_refuses_what_is_no_index(void **state)
{
    (void)state;
    struct fixture f;
    const float bad[] = {3.0f, -1.0f, 0.5f, NAN, INFINITY, 1e20f};
    const struct uw_layer_def layers[] = {
        {.kind = UW_LAYER_EMBEDDING, .name = "w", .embedding = {3, 2}}, FLATTEN("f"),
        DENSE("e", 2)};
    const struct uw_model_def def = {.name = "words", .in_channels = 2, .layers = layers,
                                     .layers_n = 3};
    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    uw_model_init_weights(&f.m, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const float x[2] = {2.0f, bad[i]};
        assert_int_equal(uw_model_forward(&f.m, x, 1, NULL), UW_ERR_INVALID);
    }
    assert_int_equal(uw_model_forward(&f.m, (float[]){0.0f, 2.0f}, 1, NULL), UW_OK);
    const uint32_t label = 0;
    struct uw_step_result result;
    struct uw_error err;
    assert_int_equal(uw_model_train_step(&f.m, &(struct uw_minibatch){.x = (float[]){0.0f, 3.0f},
                                                                      .label = &label, .n = 1},
                                         &result, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "layer 'w' (embedding): takes only whole numbers from 0 to below "
                                  "its vocabulary");
    close_model(&f);
    const struct uw_layer_def below[] = {DENSE("d", 2), layers[0], FLATTEN("f"), DENSE("e", 2)};
    const struct uw_model_def no_way = {.name = "words", .in_channels = 2, .layers = below,
                                        .layers_n = 4};
    assert_int_equal(open_model(&f, &no_way, 1, UW_PLAN_FULL, false), UW_ERR_UNSUPPORTED);
    close_model(&f);
}

/* Inference keeps nothing and computes what training computes. */
static void test_inference_equals_training_forward(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 14; way++) {
        struct uw_layer_def t = {
            .kind = way < 12 ? (enum uw_layer_kind)(UW_LAYER_RNN + way / 4) : UW_LAYER_ATTENTION,
            .name = "t", .recurrent = {.hidden = 3, .reverse = (way & 1u) != 0,
                                       .last = (way & 2u) != 0}};
        if (way >= 12) {
            t.attention = (struct uw_attention_def){.heads = 2, .causal = way == 13};
        }
        const struct uw_layer_def layers[] = {t, FLATTEN("f"), DENSE("e", 3)};
        const struct uw_model_def def = model_of("both", layers, 3);
        struct fixture train, infer;
        struct uw_step_result result;
        struct uw_rng r;
        uint32_t label[2];
        float x[2 * STEPS * FEATURES];
        double loss = 0.0;
        uint32_t correct = 0;
        assert_int_equal(open_model(&train, &def, 2, UW_PLAN_FULL, false), UW_OK);
        assert_int_equal(open_model(&infer, &def, 2, UW_PLAN_INFERENCE, false), UW_OK);
        assert_true(infer.need.activations_bytes < train.need.activations_bytes);
        uw_model_init_weights(&train.m, 3);
        uw_model_init_weights(&infer.m, 3);
        uw_rng_seed(&r, way);
        random_batch(&r, &train.m, 2, x, label);
        const struct uw_minibatch b = {.x = x, .label = label, .n = 2};
        assert_int_equal(uw_model_evaluate(&infer.m, &b, &loss, &correct), UW_OK);
        assert_int_equal(uw_model_train_step(&train.m, &b, &result, NULL), UW_OK);
        assert_true(fabs(loss / 2 - result.loss) < 1e-6);
        close_model(&train);
        close_model(&infer);
    }
}

/* Layers large enough for packed products, with every minibatch up to the planned one: scratch
 * suffices, and a backend goes where ref goes. */
static void test_every_backend_trains_every_minibatch(void **state)
{
    (void)state;
    enum { BATCH = 9, WIDE = 40 };
    for (uint32_t kind = 0; kind < 4; kind++) {
        struct uw_layer_def t = {.kind = (enum uw_layer_kind)(UW_LAYER_RNN + kind), .name = "t",
                                 .recurrent = {.hidden = 33}};
        if (kind == 3) {
            t.attention = (struct uw_attention_def){.heads = 4};
        }
        const struct uw_layer_def layers[] = {DENSE("d", WIDE), t, FLATTEN("f"), DENSE("e", 4)};
        const struct uw_model_def def = {.name = "wide", .in_channels = 19, .in_w = 24,
                                         .layers = layers, .layers_n = 4};
        double want[BATCH];
        float *x = uw_test_floats((size_t)BATCH * 19 * 24);
        uint32_t label[BATCH];
        for (uint32_t i = 0, ref = 1; i < 8; i++, ref = 0) {
            const struct uw_kernels *k = ref ? &uw_kernels_ref : uw_kernels_at(i - 1);
            struct fixture f = {.config = {.def = &def, .kernels = k, .batch_n = BATCH,
                                           .optimizer = {.lr = 0.01f}}};
            if (k == NULL) {
                break;
            }
            assert_int_equal(open_config(&f), UW_OK);
            uw_model_init_weights(&f.m, 3);
            for (uint32_t n = 1; n <= BATCH; n++) {
                struct uw_step_result result;
                struct uw_rng r;
                uw_rng_seed(&r, n);
                random_batch(&r, &f.m, n, x, label);
                const struct uw_minibatch b = {.x = x, .label = label, .n = n};
                double loss = 0.0;
                uint32_t correct = 0;
                assert_int_equal(uw_model_evaluate(&f.m, &b, &loss, &correct), UW_OK);
                assert_int_equal(uw_model_train_step(&f.m, &b, &result, &f.err), UW_OK);
                assert_true(fabs(loss / n - result.loss) < 1e-5);
                want[n - 1] = ref ? result.loss : want[n - 1];
                assert_true(fabs(want[n - 1] - result.loss) < 1e-4 * (1.0 + want[n - 1]));
            }
            close_model(&f);
        }
        uw_test_release(x);
    }
}

static void expect_error(int code, const char *sentence, struct uw_layer_def t)
{
    struct fixture f;
    const struct uw_layer_def layers[] = {t, FLATTEN("f"), DENSE("e", 2)};
    const struct uw_model_def def = model_of("wrong", layers, 3);
    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_FULL, false), code);
    assert_string_equal(f.err.text, sentence);
    close_model(&f);
}

static void test_wrong_definitions_are_told_what_is_allowed(void **state)
{
    (void)state;
    struct uw_layer_def t = {.kind = UW_LAYER_GRU, .name = "t"};
    expect_error(UW_ERR_INVALID, "layer 't' (gru): hidden needs 1 or more", t);
    t.recurrent = (struct uw_recurrent_def){.hidden = 2, .relu = true};
    expect_error(UW_ERR_INVALID, "layer 't' (gru): relu is an option of rnn only", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_ATTENTION, .name = "t", .attention = {.heads = 3}};
    expect_error(UW_ERR_INVALID,
                 "layer 't' (attention): 3 heads: needs a divisor of the 4 features", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_RESHAPE, .name = "t", .reshape = {{3, 0}, 2}};
    expect_error(UW_ERR_SHAPE, "layer 't' (reshape): its input 5x4 has 20 values: they do not "
                 "make 3 times a whole number", t);
    t.reshape = (struct uw_reshape_def){{0, 0}, 2};
    expect_error(UW_ERR_INVALID, "layer 't' (reshape): sizes 1 and 2 are 0: at most one may be "
                 "0", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_TRANSPOSE, .name = "t"};
    expect_error(UW_ERR_INVALID, "layer 't' (transpose): order names axis 0 at place 2: needs "
                 "each of 0 to 1 once", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_SLICE, .name = "t", .slice = {.axis = 2}};
    expect_error(UW_ERR_INVALID, "layer 't' (slice): axis 2: its input has axes 0 to 1", t);
    t.slice = (struct uw_slice_def){.axis = 1, .start = 2, .length = 3};
    expect_error(UW_ERR_SHAPE, "layer 't' (slice): start 2, length 3: the axis has 4 values", t);
    t.slice = (struct uw_slice_def){.axis = 1, .length = 2, .squeeze = true};
    expect_error(UW_ERR_INVALID, "layer 't' (slice): squeeze needs length 1", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_CONCAT, .name = "t", .inputs = {"input", "input"},
                              .concat = {2}};
    expect_error(UW_ERR_INVALID, "layer 't' (concat): axis 2: its inputs have axes 0 to 1", t);
    t = (struct uw_layer_def){.kind = UW_LAYER_EMBEDDING, .name = "t", .embedding = {3, 2}};
    expect_error(UW_ERR_SHAPE, "layer 't' (embedding): its input is 5x4: needs one row of indices",
                 t);
    t.embedding.vocabulary = (1u << 24) + 1;
    expect_error(UW_ERR_INVALID, "layer 't' (embedding): vocabulary needs 1 to 16777216", t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_recurrent_every_option_everywhere),
        cmocka_unit_test(test_gradient_recurrent_in_residuals),
        cmocka_unit_test(test_gradient_attention_every_option_everywhere),
        cmocka_unit_test(test_gradient_copies_everywhere),
        cmocka_unit_test(test_gradient_images_sliced_permuted_and_joined_along_every_axis),
        cmocka_unit_test(test_transpose_of_single_axes_is_a_view),
        cmocka_unit_test(test_gradient_embedding),
        cmocka_unit_test(test_embedding_refuses_what_is_no_index),
        cmocka_unit_test(test_inference_equals_training_forward),
        cmocka_unit_test(test_every_backend_trains_every_minibatch),
        cmocka_unit_test(test_wrong_definitions_are_told_what_is_allowed),
    };
    return cmocka_run_group_tests_name("gradient_sequence", tests, NULL, NULL);
}
