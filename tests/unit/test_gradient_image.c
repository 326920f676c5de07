/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, pools and LoRA: every option in every place of a graph, on every backend, against
 * central differences in double; and the sentences that refuse a shape. */
#include "test_support.h"

#include "gradient_check.h"

#include <string.h>

#define CONV1(n, co, k) {.kind = UW_LAYER_CONV1D, .name = n, \
    .conv1d = {.out_channels = co, .kernel = k}}

/* The layers under test; images are 4x7x6, signals 4x13. */
static const struct uw_layer_def images[] = {
    {.kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 4, .kernel_h = 3, .pad_h = 2, .pad_w = 2,
                                         .dilation_h = 2}},
    {.kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 6, .kernel_h = 3, .kernel_w = 2,
                                         .stride_h = 2, .stride_w = 1, .pad_h = 1,
                                         .dilation_h = 1, .dilation_w = 3, .groups = 2}},
    {.kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 4, .kernel_h = 3, .pad_h = 1, .pad_w = 1,
                                         .groups = 4}},
    {.kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 8, .kernel_h = 3, .stride_h = 2,
                                         .pad_h = 1, .pad_w = 0, .groups = 4, .no_bias = true}},
    {.kind = UW_LAYER_CONV2D, .conv2d = {.out_channels = 1, .kernel_h = 2, .stride_h = 3}},
    {.kind = UW_LAYER_CONV_TRANSPOSE2D, .conv_transpose2d = {.out_channels = 3, .kernel_h = 2,
                                                             .stride_h = 2}},
    {.kind = UW_LAYER_CONV_TRANSPOSE2D,
     .conv_transpose2d = {.out_channels = 4, .kernel_h = 3, .kernel_w = 2, .stride_h = 2,
                          .stride_w = 3, .pad_h = 1, .out_pad_h = 1, .out_pad_w = 2, .groups = 2}},
    {.kind = UW_LAYER_CONV_TRANSPOSE2D,
     .conv_transpose2d = {.out_channels = 4, .kernel_h = 3, .pad_h = 2, .pad_w = 1,
                          .dilation_h = 2, .out_pad_h = 1, .groups = 4, .no_bias = true}},
    {.kind = UW_LAYER_CONV_TRANSPOSE2D,
     .conv_transpose2d = {.out_channels = 12, .kernel_h = 1, .kernel_w = 3, .pad_w = 1}},
    {.kind = UW_LAYER_MAXPOOL2D, .pool2d = {.kernel_h = 2, .ceil_mode = true}},
    {.kind = UW_LAYER_MAXPOOL2D, .pool2d = {.kernel_h = 3, .kernel_w = 2, .stride_h = 2,
                                            .stride_w = 3, .pad_h = 1, .ceil_mode = true}},
    {.kind = UW_LAYER_AVGPOOL2D, .pool2d = {.kernel_h = 2}},
    {.kind = UW_LAYER_AVGPOOL2D, .pool2d = {.kernel_h = 3, .stride_h = 2, .pad_h = 1, .pad_w = 1,
                                            .ceil_mode = true}},
    {.kind = UW_LAYER_AVGPOOL2D, .pool2d = {.kernel_h = 3, .kernel_w = 4, .stride_h = 1,
                                            .stride_w = 3, .pad_h = 1, .pad_w = 2,
                                            .ceil_mode = true, .exclude_pad = true}},
    {.kind = UW_LAYER_GLOBAL_AVGPOOL},
};
static const struct uw_layer_def signals[] = {
    {.kind = UW_LAYER_CONV1D, .conv1d = {.out_channels = 3, .kernel = 3}},
    {.kind = UW_LAYER_CONV1D, .conv1d = {.out_channels = 6, .kernel = 3, .stride = 2, .pad = 2,
                                         .dilation = 2, .groups = 2, .no_bias = true}},
    {.kind = UW_LAYER_CONV1D, .conv1d = {.out_channels = 4, .kernel = 4, .pad = 3, .groups = 4}},
    {.kind = UW_LAYER_MAXPOOL1D, .pool1d = {.kernel = 3, .stride = 2, .pad = 1,
                                            .ceil_mode = true}},
    {.kind = UW_LAYER_MAXPOOL1D, .pool1d = {.kernel = 2}},
    {.kind = UW_LAYER_AVGPOOL1D, .pool1d = {.kernel = 4, .stride = 3, .pad = 2,
                                            .ceil_mode = true}},
    {.kind = UW_LAYER_AVGPOOL1D, .pool1d = {.kernel = 3, .pad = 1, .exclude_pad = true}},
    {.kind = UW_LAYER_GLOBAL_AVGPOOL},
};
#define IMAGES_N (sizeof images / sizeof *images)
#define CASES_N (IMAGES_N + sizeof signals / sizeof *signals)
#define PLACES_N 3u

struct small {
    struct uw_layer_def layers[20];
    char names[12][8];
    struct uw_model_def def;
};

/* Case i as the first layer, between two ReLUs, or twice in a branch that is summed up. */
static void make(struct small *m, size_t i, uint32_t place)
{
    bool image = i < IMAGES_N;
    struct uw_layer_def x = image ? images[i] : signals[i - IMAGES_N];
    struct uw_layer_def stem = CONV("stem", 4, 1, 1, 0), flat_stem = CONV1("stem", 4, 1);
    uint32_t n = 0;

    x.name = "x";
    stem = image ? stem : flat_stem;
    m->def = (struct uw_model_def){.name = "small", .in_channels = place == 0 ? 4 : 2,
                                   .in_h = image ? 7 : 0, .in_w = image ? 6 : 13,
                                   .layers = m->layers};
    if (place > 0) {
        m->layers[n++] = stem;
        m->layers[n++] = (struct uw_layer_def)RELU("r0");
    }
    m->layers[n++] = x;
    if (place == 2) {
        m->layers[n] = x;
        m->layers[n].name = "again";
        m->layers[n++].inputs[0] = "r0";
        m->layers[n++] = (struct uw_layer_def){.kind = UW_LAYER_ADD, .name = "sum",
                                               .inputs = {"x", "again"}};
    }
    if (place > 0) {
        m->layers[n++] = (struct uw_layer_def)RELU("r1");
    }
    m->layers[n++] = (struct uw_layer_def)FLATTEN("f");
    m->layers[n++] = (struct uw_layer_def)DENSE("d", 3);
    m->def.layers_n = n;
}

static void test_gradient_image_layers_match_central_differences(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(51);

    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        for (uint32_t i = 0; i < CASES_N * PLACES_N; i++) {
            struct small m;
            make(&m, i / PLACES_N, i % PLACES_N);
            const struct uw_model_config config = {.def = &m.def, .kernels = uw_kernels_at(k)};
            check_gradients_with(&config, 1, seed + i);
            check_gradients_with(&config, 3, seed + i);
        }
    }
}

static void test_gradient_image_layers_frozen_and_bias_only(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(52);

    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        for (size_t i = 0; i < CASES_N; i++) {
            struct small m;
            make(&m, i, 2);
            struct uw_model_config config = {.def = &m.def, .kernels = uw_kernels_at(k),
                                             .adapt = {.bias_only = true}};
            check_gradients_with(&config, 2, seed + i);
            m.layers[2].frozen = true;
            config.adapt.bias_only = false;
            check_gradients_with(&config, 2, seed + i);
            m.layers[0].frozen = true;
            check_gradients_with(&config, 2, seed + i);
        }
    }
}

static void test_gradient_lora_matches_central_differences(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(53);
    struct uw_layer_def no_bias = {.kind = UW_LAYER_DENSE, .name = "b",
                                   .dense = {.out = 5, .no_bias = true}};
    struct uw_layer_def frozen = DENSE("z", 4);
    frozen.frozen = true;
    const struct uw_model_def models[] = {
        {"dense", 7, 0, 0, LAYERS(DENSE("a", 6), RELU("r"), no_bias, RELU("s"), DENSE("c", 3)), 5,
         NULL, 0},
        {"steps", 4, 0, 7, LAYERS(DENSE("a", 6), RELU("r"), no_bias, FLATTEN("f"), DENSE("c", 3)),
         5, NULL, 0},
        {"below a convolution", 2, 5, 5, LAYERS(CONV("x", 3, 3, 1, 0), FLATTEN("f"), DENSE("a", 6),
                                                RELU("r"), frozen, DENSE("c", 3)), 6, NULL, 0},
    };
    const struct uw_adapt adapt[] = {{.lora_rank = 1}, {.lora_rank = 2, .lora_alpha = 7.0f},
                                     {.lora_rank = 8, .lora_alpha = 1.0f, .last_n = 2}};
    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        for (size_t i = 0; i < 3; i++) {
            for (size_t a = 0; a < 3; a++) {
                const struct uw_model_config config = {
                    .def = &models[i], .kernels = uw_kernels_at(k), .adapt = adapt[a]};
                check_gradients_with(&config, 1, seed + i);
                check_gradients_with(&config, 3, seed + i);
            }
        }
    }
}

/* The same bits; of a GPU's library rounded otherwise where weights are aligned otherwise, which is
 * a matter of the models' other weights. */
static void assert_alike(const struct uw_kernels *k, size_t n, const float *a, const float *b)
{
    if (strcmp(k->name, "cuda") != 0) {
        assert_memory_equal(a, b, n * sizeof *a);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(fabs((double)a[i] - (double)b[i]) <= 2e-6 * (1.0 + fabs((double)b[i])));
    }
}

/* The low-rank part adds nothing at first, moves alone, and inference without any room for
 * gradients gives what the training plan gives. */
static void test_lora_trains_only_its_matrices_and_infers_alike(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 5, 0, 0, LAYERS(DENSE("a", 6), RELU("r"), DENSE("b", 3)),
                                     3, NULL, 0};
    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        struct fixture train = {.config = {.def = &def, .kernels = uw_kernels_at(k), .batch_n = 4,
                                           .adapt = {.lora_rank = 2}}};
        struct fixture infer = train, plain = train;
        struct uw_optimizer sgd = {.lr = 0.1f};
        struct uw_step_result result;
        struct uw_rng r;
        float x[20], y[12];
        uint32_t label[4];
        const float *logits;

        infer.config.mode = UW_PLAN_INFERENCE;
        plain.config.mode = UW_PLAN_INFERENCE;
        plain.config.adapt.lora_rank = 0;
        assert_int_equal(open_config(&train), UW_OK);
        assert_int_equal(open_config(&infer), UW_OK);
        assert_int_equal(open_config(&plain), UW_OK);
        uw_model_init_weights(&train.m, 5);
        uw_rng_seed(&r, 5);
        random_batch(&r, &train.m, 4, x, label);
        for (uint32_t s = 0, t = 0; s < train.m.params.segments_n; s++) {
            const struct uw_segment *from = &train.m.params.segments[s];
            if (strstr(from->name, "lora") == NULL) {
                const struct uw_segment *to = &plain.m.params.segments[t++];
                assert_string_equal(from->name, to->name);
                memcpy(plain.m.params.x + to->offset_n, train.m.params.x + from->offset_n,
                       from->size_n * sizeof(float));
            }
        }
        uw_model_forward(&plain.m, x, 4, &logits);
        memcpy(y, logits, sizeof y);
        uw_model_forward(&train.m, x, 4, &logits);
        assert_alike(train.config.kernels, 12, logits, y);
        assert_int_equal(train.m.trainable_n, 2 * (5 + 6) + 2 * (6 + 3));
        for (uint32_t step = 0; step < 3; step++) {
            assert_int_equal(train_step(&train.m, x, label, 4, &sgd, &result, &train.err), UW_OK);
        }
        for (uint32_t s = 0, t = 0; s < train.m.params.segments_n; s++) {
            const struct uw_segment *at = &train.m.params.segments[s];
            if (strstr(at->name, "lora") == NULL) {
                assert_memory_equal(plain.m.params.x + plain.m.params.segments[t++].offset_n,
                                    train.m.params.x + at->offset_n, at->size_n * sizeof(float));
            }
        }
        memcpy(infer.m.params.x, train.m.params.x, train.m.params.size_n * sizeof(float));
        uw_model_forward(&train.m, x, 4, &logits);
        assert_memory_not_equal(y, logits, sizeof y);
        memcpy(y, logits, sizeof y);
        uw_model_forward(&infer.m, x, 4, &logits);
        assert_alike(train.config.kernels, 12, logits, y);
        close_model(&train);
        close_model(&infer);
        close_model(&plain);
    }
}

/* Case i amid narrow convolutions, so that keeping every map is worth avoiding. */
static void make_deep(struct small *m, size_t i)
{
    bool image = i < IMAGES_N;
    uint32_t n = 0, names = 0;

    make(m, i, 1);
    struct uw_layer_def x = m->layers[2];
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t j = 0; j < 3; j++) {
            char *conv = m->names[names++], *relu = m->names[names++];
            snprintf(conv, sizeof m->names[0], "c%u", names);
            snprintf(relu, sizeof m->names[0], "r%u", names);
            struct uw_layer_def of_image = CONV(conv, 4, 1, 1, 0), of_signal = CONV1(conv, 4, 1);
            struct uw_layer_def of_row = DENSE(conv, 4);
            bool row = part == 1 && x.kind == UW_LAYER_GLOBAL_AVGPOOL;
            m->layers[n++] = row ? of_row : image ? of_image : of_signal;
            m->layers[n++] = (struct uw_layer_def)RELU(relu);
        }
        if (part == 0) {
            m->layers[n++] = x;
        }
    }
    m->layers[n++] = (struct uw_layer_def)FLATTEN("f");
    m->layers[n++] = (struct uw_layer_def)DENSE("d", 3);
    m->def.layers_n = n;
}

/* Three steps within the smallest budget and without one: the same bits. */
static void check_recomputation(const struct uw_model_config *config, uint64_t seed,
                                uint32_t *recomputed)
{
    struct fixture f[2] = {{.config = *config}, {.config = *config}};
    struct uw_optimizer sgd = {.lr = 0.05f};
    struct uw_step_result result;
    struct uw_model_need need;
    struct uw_error err = {0};
    unsigned long least = 0;

    assert_int_equal(open_config(&f[0]), UW_OK);
    struct uw_model_config tight = f[0].config;
    tight.budget_bytes = 1;
    assert_int_equal(uw_model_measure(&tight, &need, &err), UW_ERR_NOMEM);
    const char *number = strstr(err.text, "takes ");
    assert_non_null(number);
    least = strtoul(number + 6, NULL, 10);
    f[1].config.budget_bytes = least;
    assert_int_equal(open_config(&f[1]), UW_OK);
    *recomputed += f[1].need.recomputed_n;
    for (uint32_t i = 0; i < 2; i++) {
        struct uw_rng r;
        float *x = uw_test_floats((size_t)3 * f[i].m.input_n);
        uint32_t label[3];
        uw_rng_seed(&r, seed);
        uw_model_init_weights(&f[i].m, seed);
        for (uint32_t step = 0; step < 3; step++) {
            random_batch(&r, &f[i].m, 3, x, label);
            assert_int_equal(train_step(&f[i].m, x, label, 3, &sgd, &result, &f[i].err), UW_OK);
        }
        uw_test_release(x);
    }
    assert_memory_equal(f[0].m.params.x, f[1].m.params.x, f[0].m.params.size_n * sizeof(float));
    close_model(&f[0]);
    close_model(&f[1]);
}

static void test_recomputation_of_image_layers_gives_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(54);
    uint32_t recomputed = 0;

    for (size_t i = 0; i < CASES_N; i++) {
        struct small m;
        make_deep(&m, i);
        struct uw_model_config config = {.def = &m.def, .kernels = uw_kernels_best(),
                                         .batch_n = 3};
        check_recomputation(&config, seed + i, &recomputed);
        config.adapt.lora_rank = 2;
        check_recomputation(&config, seed + i, &recomputed);
    }
    assert_true(recomputed > CASES_N);
}

/* The sentence that refuses layer x on an input of c, h, w. */
static void expect_refusal(struct uw_layer_def x, uint32_t c, uint32_t h, uint32_t w,
                           const char *sentence)
{
    x.name = "x";
    const struct uw_model_def def = {"m", c, h, w, LAYERS(x, FLATTEN("f"), DENSE("d", 2)), 3,
                                     NULL, 0};
    struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 1}};
    assert_true(open_config(&f) < 0);
    if (strstr(f.err.text, sentence) == NULL) {
        fail_msg("'%s' does not say '%s'", f.err.text, sentence);
    }
    close_model(&f);
}

static void test_image_layers_refuse_what_does_not_fit(void **state)
{
    (void)state;
    struct uw_layer_def x = images[0];

    expect_refusal(x, 4, 0, 9, "its input is 4x9: needs channels x height x width");
    expect_refusal(x, 4, 0, 0, "its input is 4: needs channels x height x width");
    expect_refusal(images[4], 4, 7, 1, "does not fit its input 7x1");
    expect_refusal(images[1], 3, 7, 6, "2 groups: must divide the input's 3 channels and "
                                       "out_channels 6");
    x.conv2d.dilation_h = UINT32_MAX;
    expect_refusal(x, 4, 7, 6, "does not fit");
    expect_refusal(signals[0], 4, 7, 6, "its input is 4x7x6: needs channels x length");
    expect_refusal(signals[0], 4, 0, 2, "does not fit");
    x = images[5];
    expect_refusal(x, 4, 0, 0, "its input is 4: needs channels x height x width");
    x.conv_transpose2d.out_pad_h = 2;
    expect_refusal(x, 4, 7, 6, "output padding 2x0: must be below stride or dilation");
    x.conv_transpose2d.out_pad_h = 0;
    x.conv_transpose2d.pad_h = 7;
    expect_refusal(x, 4, 7, 6, "padding 7x0 makes its output empty");
    x.conv_transpose2d.pad_h = 0;
    x.conv_transpose2d.stride_h = UINT32_MAX;
    expect_refusal(x, 4, 7, 6, "does not fit 32 bits");
    for (size_t i = 9; i < 14; i++) {
        expect_refusal(images[i], 4, 0, 9, "its input is 4x9: needs channels x height x width");
    }
    expect_refusal(images[14], 4, 0, 0, "its input is 4: needs channels x height x width or");
    for (size_t i = 3; i < 7; i++) {
        expect_refusal(signals[i], 4, 7, 6, "its input is 4x7x6: needs channels x length");
    }
    x = images[11];
    x.pool2d.pad_h = 2;
    expect_refusal(x, 4, 7, 6, "padding 2x0: at most half of the kernel 2x2");
    x = images[9];
    x.pool2d.kernel_h = 16;
    expect_refusal(x, 4, 7, 6, "kernel 16x16: at most 255 taps");
    x = images[11];
    x.pool2d.kernel_h = 9;
    expect_refusal(x, 4, 2, 2, "kernel 9x9 does not fit its input 2x2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_image_layers_match_central_differences),
        cmocka_unit_test(test_gradient_image_layers_frozen_and_bias_only),
        cmocka_unit_test(test_gradient_lora_matches_central_differences),
        cmocka_unit_test(test_lora_trains_only_its_matrices_and_infers_alike),
        cmocka_unit_test(test_recomputation_of_image_layers_gives_the_same_bits),
        cmocka_unit_test(test_image_layers_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
