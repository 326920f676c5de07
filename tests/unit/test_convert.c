/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ONNX import refuses, in its own words, on files that are built here byte by byte; and
 * the model as C source, which was compiled into this program. */
#include "onnx_message.h"

#include "uwasa/backends.h"

extern const struct uw_model_def residual_def;
extern const struct uw_constant residual_constants[6];

static void test_operator_that_cannot_be_trained_is_refused_by_name(void **state)
{
    (void)state;
    struct message g = begin();
    struct message n = node("NonMaxSuppression", "/nms/NMS", "x", "y");
    inside(&g, 1, &n);
    expect(&g, 14, UW_ERR_UNSUPPORTED,
           "m: node '/nms/NMS' (NonMaxSuppression): cannot be trained here");
    assert_non_null(strstr(uw_convert_operators(), "ConvTranspose"));
    assert_null(strstr(uw_convert_operators(), "NonMaxSuppression"));
}

static void test_padding_of_one_side_is_a_layer_of_its_own(void **state)
{
    static const int64_t pads[4] = {0, 1, 2, 1};
    (void)state;
    struct message g = begin();
    struct message n = node("Conv", "c", "x conv.weight", "y");
    ints(&n, "pads", 4, pads);
    inside(&g, 1, &n);
    struct uw_convert_model c;
    struct uw_error err;
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    assert_int_equal(c.def.layers_n, 2);
    assert_int_equal(c.def.layers[0].kind, UW_LAYER_TAKE);
    assert_int_equal(c.def.layers[0].take.n, 8);
    assert_int_equal(c.def.layers[0].take.index[7], -1);
    assert_int_equal(c.def.layers[1].conv2d.pad_h, 0);
    assert_int_equal(c.def.layers[1].conv2d.pad_w, 1);
    uw_convert_deinit(&c);
}

static void test_external_data_without_a_place_is_refused_by_tensor(void **state)
{
    (void)state;
    struct message g = begin();
    struct message n = node("Conv", "r", "x fc.weight", "y");
    inside(&g, 1, &n);
    weight(&g, "fc.weight", 4, kernel, 1);
    expect(&g, 13, UW_ERR_CORRUPT, "tensor fc.weight: its external data has no location");
}

static void test_cycle_is_refused(void **state)
{
    (void)state;
    struct message g = begin();
    struct message a = node("Add", "a", "x z", "y");
    struct message b = node("Relu", "b", "y", "z");
    inside(&g, 1, &a);
    inside(&g, 1, &b);
    expect(&g, 13, UW_ERR_CORRUPT, "node 'b' (Relu): reads what it makes itself");
}

static void test_opset_and_inputs_are_checked(void **state)
{
    static const int64_t two_symbols[4] = {0, 1, 0, 6};
    (void)state;
    struct message g = begin();
    struct message n = node("Relu", "r", "x", "y");
    inside(&g, 1, &n);
    expect(&g, 6, UW_ERR_UNSUPPORTED, "opset 6: opsets 7 to 28 are read: export the model again");
    expect(&g, 29, UW_ERR_UNSUPPORTED, "opset 29: opsets 7 to 28 are read");
    struct uw_convert_model both;
    struct uw_error err;
    value(&g, 11, "mask", 4, image);
    assert_int_equal(read_as(&both, &g, 13, &err), UW_OK);      /* nothing reads it */
    assert_int_equal(both.def.in_channels, image[1]);
    uw_convert_deinit(&both);
    struct message k = begin(), m = node("Add", "a", "x mask", "y");
    inside(&k, 1, &m);
    value(&k, 11, "mask", 4, image);
    assert_int_equal(read_as(&both, &k, 13, &err), UW_OK);
    assert_int_equal(both.def.in_channels, 2 * image[1] * image[2] * image[3]);
    assert_non_null(strstr(both.notes[0], "2 inputs: a row of the data has the values of 'x'"));
    uw_convert_deinit(&both);

    struct message h = {.n = 0};
    value(&h, 11, "x", 4, two_symbols);
    value(&h, 12, "y", 4, image);
    inside(&h, 1, &n);
    expect(&h, 13, UW_ERR_UNSUPPORTED, "input 'x': axis 2 has no fixed size");
}

static void test_dead_branch_with_an_unknown_operator_does_no_harm(void **state)
{
    (void)state;
    struct message g = begin();
    struct message dead = node("NonZero", "d", "x", "unused");
    struct message n = node("Conv", "c", "x conv.weight", "y");
    struct uw_convert_model c;
    struct uw_error err;
    inside(&g, 1, &dead);
    inside(&g, 1, &n);
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    assert_string_equal(err.text, "");
    assert_int_equal(c.def.layers_n, 1);
    assert_int_equal(c.def.layers[0].kind, UW_LAYER_CONV2D);
    assert_string_equal(c.def.layers[0].name, "conv");
    assert_true(c.def.layers[0].conv2d.no_bias);
    assert_string_equal(c.tensors[0].name, "conv.weight");
    uw_convert_deinit(&c);
    uw_convert_deinit(&c);
}

static void test_every_prefix_of_a_file_is_refused_or_read_without_harm(void **state)
{
    (void)state;
    struct message g = begin();
    struct message n = node("Conv", "c", "x conv.weight", "y");
    inside(&g, 1, &n);
    for (size_t cut = 0; cut < g.n; cut++) {
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        struct message part = g;
        part.n = cut;
        int rc = read_as(&c, &part, 13, &err);
        assert_true(rc == UW_OK || err.text[0] != '\0');
        uw_convert_deinit(&c);
    }
}

/* A model bound in memory that the test releases. */
static void *bind(struct uw_model *m, const struct uw_model_def *def)
{
    static uint64_t workspace[4096];
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_error err = {.text = ""};
    struct uw_model_config config = {.def = def, .kernels = &uw_kernels_ref, .batch_n = 2,
                                     .mode = UW_PLAN_INFERENCE, .workspace = workspace,
                                     .workspace_bytes = sizeof workspace};
    int rc = uw_model_measure(&config, &need, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
    size_t bytes_n = (need.total_bytes + 127u) / 64u * 64u;
    void *memory = aligned_alloc(64, bytes_n);
    uw_arena_init(&arena, memory, bytes_n);
    assert_int_equal(uw_model_bind(m, &config, &arena, &err), UW_OK);
    return memory;
}

static void test_mismatch_names_the_tensor_and_both_shapes(void **state)
{
    static const struct uw_layer_def other[] = {
        {UW_LAYER_CONV2D, "conv", .conv2d = {.out_channels = 2, .kernel_h = 5, .no_bias = true}}};
    static const struct uw_loss_def loss = {.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    static const struct uw_model_def def = {.name = "other", .in_channels = 1, .in_h = 6,
                                            .in_w = 6, .layers = other, .layers_n = 1,
                                            .losses = &loss, .losses_n = 1};
    (void)state;
    struct message g = begin();
    struct message n = node("Conv", "c", "x conv.weight", "y");
    struct uw_convert_model c;
    struct uw_model m;
    struct uw_error err;
    inside(&g, 1, &n);
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    void *memory = bind(&m, &def);
    assert_int_equal(uw_convert_apply(&c, &m, &err), UW_ERR_MISMATCH);
    assert_string_equal(err.text,
                        "m: tensor conv.weight is [2,1,3,3], the model needs [2,1,5,5]");
    free(memory);
    uw_convert_deinit(&c);
}

static void test_c_source_computes_what_the_file_computes(void **state)
{
    static _Alignas(64) uint8_t memory[65536];
    const struct uw_model_config config = {
        .def = &residual_def, .kernels = &uw_kernels_ref, .batch_n = 2,
        .constants = residual_constants, .constants_n = 6, .optimizer = {.lr = 0.1f}};
    struct uw_convert_model c;
    struct uw_model from_file, in_flash, trained;
    struct uw_error err;
    const float *a, *b;
    float x[2 * 72];
    (void)state;
    assert_int_equal(uw_convert_load(&c, UWASA_ONNX "/residual.onnx", &err), UW_OK);
    void *first = bind(&from_file, &c.def);
    assert_int_equal(uw_convert_apply(&c, &from_file, &err), UW_OK);
    for (uint32_t i = 0; i < 2 * 72; i++) {
        x[i] = (float)(i % 17) / 8.0f - 1.0f;
    }
    assert_int_equal(uw_model_forward(&from_file, x, 2, &a), UW_OK);
    assert_int_equal(from_file.classes, 5);
    assert_true(a[0] != 0.0f);

    struct uw_model_config inference = config;
    inference.mode = UW_PLAN_INFERENCE;
    assert_int_equal(uw_model_open(&in_flash, &inference, memory, sizeof memory, 1, &err), UW_OK);
    assert_int_equal(in_flash.params.size_n, 0); /* every table is used where it is */
    assert_int_equal(uw_model_forward(&in_flash, x, 2, &b), UW_OK);
    assert_memory_equal(a, b, 10 * sizeof(float));

    assert_int_equal(uw_model_open(&trained, &config, memory, sizeof memory, 1, &err), UW_OK);
    assert_int_equal(trained.params.hash, from_file.params.hash);
    assert_memory_equal(trained.params.x, from_file.params.x,
                        trained.params.size_n * sizeof(float));
    free(first);
    uw_convert_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operator_that_cannot_be_trained_is_refused_by_name),
        cmocka_unit_test(test_padding_of_one_side_is_a_layer_of_its_own),
        cmocka_unit_test(test_external_data_without_a_place_is_refused_by_tensor),
        cmocka_unit_test(test_cycle_is_refused),
        cmocka_unit_test(test_opset_and_inputs_are_checked),
        cmocka_unit_test(test_dead_branch_with_an_unknown_operator_does_no_harm),
        cmocka_unit_test(test_every_prefix_of_a_file_is_refused_or_read_without_harm),
        cmocka_unit_test(test_mismatch_names_the_tensor_and_both_shapes),
        cmocka_unit_test(test_c_source_computes_what_the_file_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
