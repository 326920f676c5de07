/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "model/model_json.h"

#include "uwasa/parts.h"

static int parse(struct uw_model_file *m, const char *text, struct uw_error *err)
{
    return uw_model_parse(m, "m.json", text, strlen(text), err);
}

static void test_builtins_all_parse(void **state)
{
    (void)state;
    assert_true(uw_model_builtins_n >= 4);
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_model_load(&m, uw_model_builtins[i].name, &err), UW_OK);
        assert_string_equal(m.def.name, uw_model_builtins[i].name);
        uw_model_file_deinit(&m);
        uw_model_file_deinit(&m);
    }
}

static void test_model_every_key_is_read(void **state)
{
    (void)state;
    struct uw_model_file m;
    struct uw_error err;
    assert_int_equal(
        parse(&m,
              "{\"name\": \"t\", \"input\": [3, 8, 9], \"layers\": [\n"
              "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 4, \"kernel\": [3, 5],"
              " \"stride\": 2, \"padding\": [1, 0], \"bias\": false},\n"
              "{\"name\": \"p\", \"type\": \"maxpool2d\", \"kernel\": 2, \"stride\": [1, 2]},\n"
              "{\"name\": \"r\", \"type\": \"relu\", \"inputs\": [\"c\"]},\n"
              "{\"name\": \"a\", \"type\": \"add\", \"inputs\": [\"r\", \"c\"]},\n"
              "{\"name\": \"f\", \"type\": \"flatten\"},\n"
              "{\"name\": \"d\", \"type\": \"dense\", \"out\": 2, \"bias\": true}]}",
              &err),
        UW_OK);
    assert_int_equal(m.def.in_channels, 3);
    assert_int_equal(m.def.in_h, 8);
    assert_int_equal(m.def.in_w, 9);
    assert_int_equal(m.def.layers_n, 6);
    const struct uw_layer_def *l = m.def.layers;
    assert_int_equal(l[0].kind, UW_LAYER_CONV2D);
    assert_int_equal(l[0].conv2d.kernel_h, 3);
    assert_int_equal(l[0].conv2d.kernel_w, 5);
    assert_int_equal(l[0].conv2d.stride_w, 2);
    assert_int_equal(l[0].conv2d.pad_h, 1);
    assert_int_equal(l[0].conv2d.pad_w, 0);
    assert_true(l[0].conv2d.no_bias);
    assert_int_equal(l[1].pool2d.stride_h, 1);
    assert_int_equal(l[1].pool2d.stride_w, 2);
    assert_string_equal(l[2].inputs[0], "c");
    assert_null(l[2].inputs[1]);
    assert_string_equal(l[3].inputs[1], "c");
    assert_int_equal(l[5].dense.out, 2);
    assert_false(l[5].dense.no_bias);
    uw_model_file_deinit(&m);
}

/* One layer of each type, every key of it, none at its default, as uw_model_write writes it. */
static const char *const layers[] = {
    "\"conv2d\", \"out_channels\": 4, \"kernel\": [3, 5], \"stride\": 2, \"padding\": [1, 0], "
    "\"dilation\": [1, 2], \"groups\": 3, \"bias\": false",
    "\"conv2d\", \"out_channels\": 1, \"kernel\": 1, \"padding\": [0, 2]",
    "\"conv_transpose2d\", \"out_channels\": 4, \"kernel\": 3, \"stride\": [2, 3], \"padding\": 1, "
    "\"dilation\": 2, \"groups\": 2, \"bias\": false, \"output_padding\": [1, 0]",
    "\"conv1d\", \"out_channels\": 4, \"kernel\": 3, \"stride\": 2, \"padding\": 1, "
    "\"dilation\": 2, \"groups\": 2, \"bias\": false",
    "\"dense\", \"out\": 16777216, \"bias\": false",
    "\"maxpool2d\", \"kernel\": [2, 3], \"stride\": [1, 2], \"padding\": [1, 0], "
    "\"ceil_mode\": true",
    "\"avgpool2d\", \"kernel\": 65535, \"stride\": 1, \"padding\": 1, \"ceil_mode\": true, "
    "\"count_include_pad\": false",
    "\"maxpool1d\", \"kernel\": 3, \"stride\": 2, \"padding\": 1, \"ceil_mode\": true",
    "\"avgpool1d\", \"kernel\": 3, \"stride\": 2, \"padding\": 1, \"ceil_mode\": true, "
    "\"count_include_pad\": false",
    "\"global_avgpool\"",
    "\"batchnorm\", \"eps\": 0.001, \"momentum\": 0.3, \"affine\": false",
    "\"groupnorm\", \"num_groups\": 4, \"eps\": 1e-06, \"affine\": false",
    "\"layernorm\", \"axes\": 2, \"eps\": 1.1754944e-38, \"affine\": false",
    "\"lrn\", \"size\": 5, \"alpha\": 0.0002, \"beta\": 0.5, \"k\": 2",
    "\"relu\"",
    "\"relu6\"",
    "\"leaky_relu\", \"negative_slope\": 0.2",
    "\"sigmoid\"",
    "\"tanh\"",
    "\"gelu\", \"approximate\": \"tanh\"",
    "\"silu\"",
    "\"dropout\", \"p\": 0.99999994",
    "\"add\", \"inputs\": [\"input\", \"b\"]",
    "\"concat\", \"inputs\": [\"a\", \"b\", \"c\"], \"axis\": 2",
    "\"flatten\"",
    "\"reshape\", \"shape\": [4, -1, 2]",
    "\"reshape\", \"shape\": [7]",
    "\"transpose\", \"order\": [1, 0, 2]",
    "\"transpose\", \"order\": [1, 0]",
    "\"transpose\", \"order\": [0, 1]",
    "\"transpose\", \"order\": [0]",
    "\"slice\", \"axis\": 1, \"start\": -3, \"length\": 1, \"squeeze\": true",
    "\"embedding\", \"vocabulary\": 1000, \"size\": 16",
    "\"rnn\", \"hidden\": 8, \"bias\": false, \"reverse\": true, \"last\": true, "
    "\"nonlinearity\": \"relu\"",
    "\"gru\", \"hidden\": 8, \"bias\": false, \"reverse\": true, \"last\": true",
    "\"lstm\", \"hidden\": 8, \"bias\": false, \"reverse\": true, \"last\": true",
    "\"attention\", \"heads\": 2, \"causal\": true, \"bias\": false",
    "\"layernorm\", \"axes\": 4",
    "\"concat\", \"inputs\": [\"a\", \"b\"], \"axis\": 3",
    "\"reshape\", \"shape\": [4, 5, -1, 2]",
    "\"transpose\", \"order\": [0, 2, 1, 3]",
    "\"slice\", \"axis\": 3, \"start\": 1",
    "\"parameter\", \"shape\": [4, 1, 2, 3], \"value\": -0.5, \"deviation\": 0.02, "
    "\"constant\": true",
    "\"parameter\", \"shape\": [7]",
    "\"scale\", \"factor\": 0.5, \"offset\": -3",
    "\"scale\", \"factor\": 0, \"offset\": 2",
    "\"scale\", \"offset\": 2",
    "\"scale\"",
    "\"abs\"",
    "\"exp\"",
    "\"log\"",
    "\"sqrt\"",
    "\"reciprocal\"",
    "\"square\"",
    "\"power\", \"exponent\": -1.5",
    "\"power\", \"exponent\": 0",
    "\"erf\"",
    "\"clip\", \"min\": 0, \"max\": 6",
    "\"clip\", \"min\": -2, \"max\": 0",
    "\"clip\", \"max\": 3.4028235e+38",
    "\"elu\", \"alpha\": 0.5",
    "\"selu\", \"alpha\": 1.5, \"scale\": 1.25",
    "\"selu\"",
    "\"celu\", \"alpha\": 0.5",
    "\"softplus\", \"beta\": 2",
    "\"softsign\"",
    "\"mish\"",
    "\"hardsigmoid\", \"slope\": 0.2",
    "\"hardsigmoid\", \"offset\": 0",
    "\"hardswish\"",
    "\"threshold\", \"threshold\": 0.1, \"value\": -2",
    "\"quick_gelu\", \"alpha\": 1.5",
    "\"sin\"",
    "\"cos\"",
    "\"sign\"",
    "\"step\", \"threshold\": 0.1",
    "\"sub\", \"inputs\": [\"a\", \"b\"]",
    "\"mul\", \"inputs\": [\"a\", \"b\"]",
    "\"div\", \"inputs\": [\"a\", \"b\"]",
    "\"pow\", \"inputs\": [\"a\", \"b\"]",
    "\"min\", \"inputs\": [\"a\", \"b\"]",
    "\"max\", \"inputs\": [\"a\", \"b\"]",
    "\"mask\", \"inputs\": [\"a\", \"b\"]",
    "\"matmul\", \"inputs\": [\"a\", \"b\"], \"transpose_a\": true, \"transpose_b\": true, "
    "\"scale\": -0.125",
    "\"reduce_mean\", \"axis\": 1, \"axes\": 2, \"keep\": true",
    "\"reduce_sum\", \"axis\": 3",
    "\"reduce_max\", \"axes\": 4",
    "\"reduce_min\"",
    "\"reduce_norm\", \"axis\": 2",
    "\"softmax\", \"log\": true",
    "\"take\", \"axis\": 3, \"index\": [-1, 0, 2]",
    "\"take\", \"taps\": 2, \"index\": [0, 1, 1, 16777216], \"weight\": [0.25, 0.75, 0, -1e-06]",
};
#define LAYERS_N (sizeof layers / sizeof layers[0])

static void expect_written(const struct uw_model_def *def, const char *want)
{
    size_t want_n = strlen(want);
    char *got = uw_test_block(want_n + 1u);
    int n = uw_model_write(def, got, want_n + 1u);
    assert_string_equal(got, want);
    assert_int_equal(n, want_n);
    assert_int_equal(uw_model_write(def, NULL, 0), want_n);
    memset(got, 'x', want_n + 1u);
    assert_int_equal(uw_model_write(def, got, want_n / 2u), want_n);    /* cut, never beyond */
    assert_memory_equal(got, want, want_n / 2u - 1u);
    assert_int_equal(got[want_n / 2u - 1u], '\0');
    assert_int_equal(got[want_n / 2u], 'x');
    uw_test_release(got);
}

static void test_every_layer_type_and_key_is_written_as_it_was_read(void **state)
{
    (void)state;
    unsigned seen[256] = {0}, kinds = 0;
    assert_in_range(uw_layer_types_n, UW_LAYER_KINDS_N, 256);
    for (size_t i = 0; i < LAYERS_N; i++) {
        for (int frozen = 0; frozen < 2; frozen++) {
            struct uw_model_file m;
            struct uw_error err = {.text = ""};
            char text[512];
            snprintf(text, sizeof text,
                     "{\n  \"name\": \"t\",\n  \"input\": [4],\n  \"layers\": [\n"
                     "    {\"name\": \"a \\\"b\\\\\\u000a\xc3\xa9\", \"type\": %s%s}\n  ]\n}\n",
                     layers[i], frozen != 0 ? ", \"frozen\": true" : "");
            if (parse(&m, text, &err) != UW_OK) {
                fail_msg("%s: %s", layers[i], err.text);
            }
            assert_string_equal(m.def.layers[0].name, "a \"b\\\n\xc3\xa9");
            assert_int_equal(m.def.layers[0].frozen, frozen);
            expect_written(&m.def, text);
            const struct uw_layer_type *type = uw_layer_type_of(&m.def.layers[0]);
            assert_int_equal(strncmp(layers[i] + 1, type->name, strlen(type->name)), 0);
            seen[type - uw_layer_types]++;
            uw_model_file_deinit(&m);
        }
    }
    for (size_t i = 0; i < uw_layer_types_n; i++) {
        if (seen[i] < 2) {
            fail_msg("type %s has no row", uw_layer_types[i].name);
        }
        kinds += i == 0 || uw_layer_types[i].kind != uw_layer_types[i - 1].kind ? 1 : 0;
    }
    assert_int_equal(kinds, UW_LAYER_KINDS_N - 1);
}

static void test_defaults_are_not_written(void **state)
{
    (void)state;
    const struct uw_layer_def defs[] = {
        {.kind = UW_LAYER_CONV2D, .name = "c", .conv2d = {.out_channels = 2, .kernel_h = 3,
         .stride_h = 1, .stride_w = 1, .dilation_w = 1, .groups = 1}},
        {.kind = UW_LAYER_CONV2D, .name = "d", .conv2d = {.out_channels = 2, .kernel_h = 3,
         .stride_h = 2, .stride_w = 1, .dilation_h = 2}},
        {.kind = UW_LAYER_MAXPOOL2D, .name = "p", .pool2d = {.kernel_h = 3, .stride_w = 2}},
        {.kind = UW_LAYER_GELU, .name = "g"},
        {.kind = UW_LAYER_BATCHNORM, .name = "b"},
        {.kind = UW_LAYER_DROPOUT, .name = "o"},
        {.kind = UW_LAYER_FUNCTION, .name = "k", .function = {.function = UW_FUNCTION_CLIP}},
        {.kind = UW_LAYER_FUNCTION, .name = "h", .function = {.function = UW_FUNCTION_HARDSIGMOID,
         .a = 0.25f}},
        {.kind = UW_LAYER_ARITHMETIC, .name = "a", .inputs = {"k", "h"}},
    };
    expect_written(&(struct uw_model_def){.name = "m", .in_channels = 3, .in_w = 8, .layers = defs,
                                          .layers_n = sizeof defs / sizeof defs[0]},
                   "{\n  \"name\": \"m\",\n  \"input\": [3, 8],\n  \"layers\": [\n"
                   "    {\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 2, "
                   "\"kernel\": 3},\n"
                   "    {\"name\": \"d\", \"type\": \"conv2d\", \"out_channels\": 2, "
                   "\"kernel\": 3, \"stride\": [2, 1], \"dilation\": 2},\n"
                   "    {\"name\": \"p\", \"type\": \"maxpool2d\", \"kernel\": 3, "
                   "\"stride\": [3, 2]},\n"
                   "    {\"name\": \"g\", \"type\": \"gelu\"},\n"
                   "    {\"name\": \"b\", \"type\": \"batchnorm\"},\n"
                   "    {\"name\": \"o\", \"type\": \"dropout\", \"p\": 0},\n"
                   "    {\"name\": \"k\", \"type\": \"clip\"},\n"
                   "    {\"name\": \"h\", \"type\": \"hardsigmoid\", \"slope\": 0.25, "
                   "\"offset\": 0},\n"
                   "    {\"name\": \"a\", \"type\": \"add\", \"inputs\": [\"k\", "
                   "\"h\"]}\n  ]\n}\n");
}

static void test_what_no_file_has_is_not_written(void **state)
{
    (void)state;
    struct uw_layer_def layer = {.kind = UW_LAYER_RELU, .name = "r"};
    struct uw_loss_def loss = {.kind = UW_LOSS_MSE};
    struct uw_model_def def = {.name = "m", .in_channels = 3, .layers = &layer, .layers_n = 1,
                               .losses = &loss, .losses_n = 1};
    assert_in_range(uw_model_write(&def, NULL, 0), 50, 200);
    layer.kind = (enum uw_layer_kind)99;
    assert_int_equal(uw_model_write(&def, NULL, 0), UW_ERR_INVALID);
    layer = (struct uw_layer_def){.kind = UW_LAYER_RELU};
    assert_int_equal(uw_model_write(&def, NULL, 0), UW_ERR_INVALID);
    layer.name = "r";
    loss.kind = (enum uw_loss_kind)99;
    assert_int_equal(uw_model_write(&def, NULL, 0), UW_ERR_INVALID);
    loss.kind = UW_LOSS_L1;
    def.name = NULL;
    assert_int_equal(uw_model_write(&def, NULL, 0), UW_ERR_INVALID);
}

static void test_losses_are_written_as_they_were_read(void **state)
{
    (void)state;
    static const char *const losses[] = {
        "\"loss\": {\"type\": \"cross_entropy\", \"weight\": 0.5, \"label_smoothing\": 0.1}",
        "\"loss\": {\"type\": \"binary_cross_entropy\", \"target\": \"values\"}",
        "\"losses\": [\n    {\"type\": \"mse\", \"layer\": \"r\", \"target\": \"input\"},\n"
        "    {\"type\": \"l1\", \"layer\": \"q\"},\n"
        "    {\"type\": \"huber\", \"layer\": \"s\", \"weight\": 3, \"delta\": 0.25}\n  ]",
        ("\"loss\": {\"type\": \"cross_entropy\", \"target\": \"values\", \"first\": 2, "
         "\"weight\": 1, \"classes_last\": true}"),
    };
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        char text[512];
        snprintf(text, sizeof text,
                 "{\n  \"name\": \"t\",\n  \"input\": [4, 5, 6],\n  \"layers\": [\n"
                 "    {\"name\": \"r\", \"type\": \"relu\"}\n  ],\n  %s\n}\n", losses[i]);
        if (parse(&m, text, &err) != UW_OK) {
            fail_msg("%s: %s", losses[i], err.text);
        }
        expect_written(&m.def, text);
        assert_int_equal(m.def.losses_n, i == 2 ? 3 : 1);
        assert_int_equal(m.def.losses[0].kind, i % 3);
        uw_model_file_deinit(&m);
        assert_null(m.def.losses);
    }
}

static void test_input_of_every_rank_is_read(void **state)
{
    (void)state;
    static const struct { const char *text; uint32_t c, h, w; } inputs[] = {
        {"[4]", 4, 0, 0}, {"[4, 9]", 4, 0, 9}, {"[4, 9, 1]", 4, 9, 1}};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        struct uw_model_file m;
        struct uw_error err;
        char text[256];
        snprintf(text, sizeof text,
                 "{\"about\": \"something\", \"name\": \"t\", \"input\": %s, \"layers\": ["
                 "{\"name\": \"r\", \"type\": \"relu\"}]}", inputs[i].text);
        assert_int_equal(parse(&m, text, &err), UW_OK);
        assert_int_equal(m.def.in_channels, inputs[i].c);
        assert_int_equal(m.def.in_h, inputs[i].h);
        assert_int_equal(m.def.in_w, inputs[i].w);
        assert_string_equal(m.about, "something");
        assert_null(m.def.losses);
        uw_model_file_deinit(&m);
    }
}

/* A built-in model's text is what the writer gives, but for its "about". */
static void test_builtins_are_written_as_they_are(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        const char *text = uw_model_builtins[i].text;
        const char *about = strstr(text, "  \"about\": ");
        assert_non_null(about);
        char *want = uw_test_block(strlen(text) + 1u);
        snprintf(want, strlen(text) + 1u, "%.*s%s", (int)(about - text), text,
                 strchr(about, '\n') + 1);
        assert_int_equal(uw_model_load(&m, uw_model_builtins[i].name, &err), UW_OK);
        expect_written(&m.def, want);
        uw_model_file_deinit(&m);
        uw_test_release(want);
    }
}

#define HEAD "{\"name\": \"t\", \"input\": [4],\n \"layers\": [\n  "

#define ONE(type) HEAD "{\"name\": \"a\", \"type\": \"" type "\"}]}"
#define LOSS(loss) HEAD "{\"name\": \"a\", \"type\": \"relu\"}],\n" loss "}"

static const char *const bad[][2] = {
    {"[]", "m.json:1: a model needs an object {...} with name|about|input|layers|loss|losses"},
    {"{\"name\": \"t\",\n\"input\": [4]}", "m.json:1: key \"layers\" is missing here"},
    {"{\"name\": \"t\", \"layer\": []}",
     "m.json:1: unknown key \"layer\" in a model, did you mean \"layers\"?"},
    {"{\"name\": \"t\", \"input\": [4],\n\"layers\": []}",
     "m.json:2: \"layers\" needs an array of 1 to 4096 layers"},
    {"{\"name\": \"t\",\n \"input\": [4, 4, 4, 4], \"layers\": [1]}",
     "m.json:2: \"input\" needs [channels, height, width], [channels, length] or [features]"},
    {"{\"name\": \"t\",\n \"input\": [0], \"layers\": [1]}",
     "m.json:2: \"input\" needs a whole number from 1 to 16777216"},
    {HEAD "7]}", "m.json:3: a layer needs an object {...}"},
    {HEAD "{\"type\": \"relu\"}]}", "m.json:3: key \"name\" is missing here"},
    {HEAD "{\"name\": \"d\",\n   \"type\": \"dens\"}]}",
     "m.json:4: unknown layer type \"dens\", did you mean \"dense\"?"},
    {HEAD "{\"name\": \"d\", \"type\": \"transformer\"}]}",
     "m.json:3: unknown layer type \"transformer\", uwasa models --help lists them"},
    {HEAD "{\"name\": \"d\", \"type\": \"dense\"}]}",
     "m.json:3: key \"out\" is missing here"},
    {HEAD "{\"name\": \"d\", \"type\": \"dense\",\n   \"out\": 2.5}]}",
     "m.json:4: \"out\" needs a whole number from 1 to 16777216"},
    {HEAD "{\"name\": \"d\", \"type\": \"dense\",\n \"out\": 2, \"bais\": true}]}",
     "m.json:4: unknown key \"bais\" in a layer of type dense, did you mean \"bias\"?"},
    {HEAD "{\"name\": \"d\", \"type\": \"dense\", \"out\": 2,\n \"bias\": 1}]}",
     "m.json:4: \"bias\" needs true or false"},
    {HEAD "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 2,\n\"kernel\": [1]}]}",
     "m.json:4: \"kernel\" needs one number or [height, width]"},
    {HEAD "{\"name\": \"r\", \"type\": \"relu\",\n\"inputs\": []}]}",
     "m.json:4: \"inputs\" needs an array of 1 to 8 layer names"},
    {HEAD "{\"name\": \"r\", \"type\": \"relu\", \"inputs\": [\"a\",\n2]}]}",
     "m.json:4: \"inputs\" needs names of layers"},
    {HEAD "{\"name\": \"r\", \"type\": \"relu\",\n\"name\": \"r\"}]}",
     "m.json:4: key \"name\" comes twice"},
    {HEAD "{\"name\": \"a\", \"type\": \"add\"}]}",
     "m.json:3: key \"inputs\" is missing here"},
    {ONE("concat"), "m.json:3: key \"inputs\" is missing here"},
    {ONE("maxpool2d\", \"kernel\": 2, \"count_include_pad\": true, \"_\": \""),
     "m.json:3: unknown key \"count_include_pad\" in a layer of type maxpool2d; allowed: name|"
     "type|inputs|frozen|kernel|stride|padding|ceil_mode"},
    {ONE("conv1d\", \"out_channels\": 2, \"kernel\": [1, 1], \"name\": \""),
     "m.json:3: key \"name\" comes twice"},
    {ONE("dropout"), "m.json:3: key \"p\" is missing here"},
    {HEAD "{\"name\": \"a\", \"type\": \"dropout\",\n\"p\": 1}]}",
     "m.json:4: \"p\" needs a number from 0 to below 1"},
    {HEAD "{\"name\": \"a\", \"type\": \"dropout\",\n\"p\": 0.999999999}]}",
     "m.json:4: \"p\" needs a number from 0 to below 1"},
    {HEAD "{\"name\": \"a\", \"type\": \"batchnorm\",\n\"eps\": 1e-60}]}",
     "m.json:4: \"eps\" needs a number above 0"},
    {HEAD "{\"name\": \"a\", \"type\": \"batchnorm\",\n\"eps\": 1e60}]}",
     "m.json:4: \"eps\" needs a number above 0"},
    {HEAD "{\"name\": \"a\", \"type\": \"batchnorm\",\n\"momentum\": 1.5}]}",
     "m.json:4: \"momentum\" needs a number above 0, at most 1"},
    {HEAD "{\"name\": \"a\", \"type\": \"gelu\",\n\"approximate\": \"tan\"}]}",
     "m.json:4: unknown approximate \"tan\", did you mean \"tanh\"?"},
    {HEAD "{\"name\": \"a\", \"type\": \"gelu\",\n\"approximate\": true}]}",
     "m.json:4: \"approximate\" needs one of none|tanh"},
    {HEAD "{\"name\": \"a\", \"type\": \"reshape\",\n\"shape\": []}]}",
     "m.json:4: \"shape\" needs an array of 1 to 4 sizes"},
    {HEAD "{\"name\": \"a\", \"type\": \"reshape\",\n\"shape\": [-1, -1]}]}",
     "m.json:4: \"shape\" needs sizes of 1 or more; one may be -1: what is left"},
    {HEAD "{\"name\": \"a\", \"type\": \"reshape\",\n\"shape\": [0]}]}",
     "m.json:4: \"shape\" needs sizes of 1 or more; one may be -1: what is left"},
    {HEAD "{\"name\": \"a\", \"type\": \"reshape\",\n\"shape\": [-2]}]}",
     "m.json:4: \"shape\" needs a whole number from -1 to 16777216"},
    {HEAD "{\"name\": \"a\", \"type\": \"transpose\",\n\"order\": [1, 1]}]}",
     "m.json:4: \"order\" needs every axis from 0 to 1 once"},
    {HEAD "{\"name\": \"a\", \"type\": \"transpose\",\n\"order\": [0, 2]}]}",
     "m.json:4: \"order\" needs a whole number from 0 to 1"},
    {HEAD "{\"name\": \"a\", \"type\": \"transpose\",\n\"order\": [0, 1, 2, 3, 4]}]}",
     "m.json:4: \"order\" needs an array of 1 to 4 axes"},
    {HEAD "{\"name\": \"a\", \"type\": \"parameter\",\n\"shape\": [2, -1]}]}",
     "m.json:4: \"shape\" needs a whole number from 1 to 16777216"},
    {HEAD "{\"name\": \"a\", \"type\": \"parameter\", \"shape\": [2],\n\"inputs\": [\"b\"]}]}",
     "m.json:4: unknown key \"inputs\" in a layer of type parameter; allowed: name|type|frozen|"
     "shape|value|deviation|constant"},
    {HEAD "{\"name\": \"a\", \"type\": \"parameter\", \"shape\": [2],\n\"deviation\": -1}]}",
     "m.json:4: \"deviation\" needs a number of 0 or above"},
    {HEAD "{\"name\": \"a\", \"type\": \"parameter\", \"shape\": [2],\n\"value\": 1e39}]}",
     "m.json:4: \"value\" needs a number that a float holds"},
    {ONE("mul"), "m.json:3: key \"inputs\" is missing here"},
    {HEAD "{\"name\": \"a\", \"type\": \"sub\",\n\"inputs\": [\"b\", \"c\", \"d\"]}]}",
     "m.json:4: \"inputs\" needs an array of 2 layer names"},
    {HEAD "{\"name\": \"a\", \"type\": \"matmul\", \"inputs\": [\"b\", \"c\"],\n\"scale\": 0}]}",
     "m.json:4: \"scale\" needs a number other than 0"},
    {HEAD "{\"name\": \"a\", \"type\": \"clip\", \"min\": 0, \"max\": 0}]}",
     "m.json:3: \"min\" and \"max\" are both 0: the layer would give 0 only"},
    {HEAD "{\"name\": \"a\", \"type\": \"clip\", \"min\": 2}]}",
     "m.json:3: \"min\" is above \"max\""},
    {HEAD "{\"name\": \"a\", \"type\": \"elu\",\n\"alpha\": 0}]}",
     "m.json:4: \"alpha\" needs a number above 0"},
    {ONE("power"), "m.json:3: key \"exponent\" is missing here"},
    {ONE("take"), "m.json:3: key \"index\" is missing here"},
    {HEAD "{\"name\": \"a\", \"type\": \"take\",\n\"index\": []}]}",
     "m.json:4: \"index\" needs an array of 1 to 65536 whole numbers"},
    {HEAD "{\"name\": \"a\", \"type\": \"take\",\n\"index\": [0, -2]}]}",
     "m.json:4: \"index\" needs a whole number from -1 to 16777216"},
    {HEAD "{\"name\": \"a\", \"type\": \"take\", \"taps\": 2,\n\"index\": [0, 1, 2]}]}",
     "m.json:4: \"index\" has 3 numbers, which \"taps\" 2 does not divide"},
    {HEAD "{\"name\": \"a\", \"type\": \"take\", \"index\": [0, 1],\n\"weight\": [0.5]}]}",
     "m.json:4: \"weight\" has 1 numbers, \"index\" has 2"},
    {HEAD "{\"name\": \"a\", \"type\": \"softplu\"}]}",
     "m.json:3: unknown layer type \"softplu\", did you mean \"softplus\"?"},
    {HEAD "{\"name\": \"a\", \"type\": \"slice\",\n\"start\": 0.5}]}",
     "m.json:4: \"start\" needs a whole number from -16777216 to 16777216"},
    {HEAD "{\"name\": \"a\", \"type\": \"gru\", \"hidden\": 1,\n\"nonlinearity\": 1}]}",
     "m.json:4: unknown key \"nonlinearity\" in a layer of type gru; allowed: name|type|inputs|"
     "frozen|hidden|bias|reverse|last"},
    {HEAD "{\"name\": \"a\", \"type\": \"upsample\",\n\"scale\": 0}]}",
     "m.json:4: \"scale\" needs a whole number from 1 to 1024"},
    {HEAD "{\"name\": \"a\", \"type\": \"upsample\",\n\"scale\": [2]}]}",
     "m.json:4: \"scale\" needs one number or [height, width]"},
    {HEAD "{\"name\": \"a\", \"type\": \"upsample\", \"scale\": [2, 1]}]}",
     "m.json:3: its input has 1 axes: rows are an axis of 3 or more"},
    {HEAD "{\"name\": \"a\", \"type\": \"upsample\", \"scale\": 2, \"inputs\": [\"b\"]}]}",
     "m.json:3: input 'b' is no earlier layer (and not \"input\")"},
    {HEAD "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 1, \"kernel\": 1},\n"
          "{\"name\": \"a\", \"type\": \"upsample\", \"scale\": 2}]}",
     "m.json:4: its input has no size: layer 'c' (conv2d): its input is 4: needs channels x height "
     "x width"},
    {HEAD "{\"name\": \"a\", \"type\": \"upsampel\", \"scale\": 2}]}",
     "m.json:3: unknown layer type \"upsampel\", did you mean \"upsample\"?"},
    {HEAD "{\"name\": \"a\", \"type\": \"pad\", \"padding\": [4, 0], \"mode\": \"reflect\"}]}",
     "m.json:3: \"padding\" needs to be below the size of the axis, 4, to reflect"},
    {HEAD "{\"name\": \"a\", \"type\": \"pad\",\n\"padding\": [4, 0, 1]}]}",
     "m.json:4: \"padding\" needs one number, [left, right] or [left, right, top, bottom]"},
    {HEAD "{\"name\": \"a\", \"type\": \"pad\", \"padding\": 40000}]}",
     "m.json:3: an axis of 4 becomes longer than 65536"},
    {LOSS("\"loss\": {}"), "m.json:4: key \"type\" is missing here"},
    {LOSS("\"loss\": 1"), "m.json:4: a loss needs an object {...}"},
    {LOSS("\"loss\": {\"type\": \"ms\"}"),
     "m.json:4: unknown loss \"ms\", did you mean \"mse\"?"},
    {LOSS("\"loss\": {\"type\": \"hinge\"}"),
     "m.json:4: unknown loss \"hinge\"; allowed: "
     "cross_entropy|binary_cross_entropy|mse|l1|huber"},
    {LOSS("\"loss\": {\"type\": \"mse\", \"delta\": 1}"),
     "m.json:4: unknown key \"delta\" in a loss of type mse; allowed: "
     "type|layer|target|first|weight"},
    {LOSS("\"loss\": {\"type\": \"mse\", \"weight\": 0}"),
     "m.json:4: \"weight\" needs a number above 0"},
    {LOSS("\"loss\": {\"type\": \"mse\", \"target\": \"inputs\"}"),
     "m.json:4: unknown target \"inputs\", did you mean \"input\"?"},
    {LOSS("\"loss\": {\"type\": \"mse\", \"layer\": \"\"}"),
     "m.json:4: \"layer\" needs a text that is not empty"},
    {LOSS("\"losses\": []"), "m.json:4: \"losses\" needs an array of 1 to 4 losses"},
    {LOSS("\"losses\": [1]"), "m.json:4: a loss needs an object {...}"},
    {LOSS("\"losses\": [], \"loss\": {}"),
     "m.json:4: \"loss\" and \"losses\": only one of them"},
};

static void test_model_mistakes_name_line_and_what_is_allowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_true(parse(&m, bad[i][0], &err) < 0);
        assert_string_equal(err.text, bad[i][1]);
        uw_model_file_deinit(&m);
    }
}

static void expect_take(const struct uw_layer_def *l, const char *name, const char *input,
                        uint32_t axis, uint32_t n, const int32_t *index)
{
    assert_int_equal(l->kind, UW_LAYER_TAKE);
    assert_string_equal(l->name, name);
    assert_string_equal(l->inputs[0], input);
    assert_int_equal(l->take.axis, axis);
    assert_int_equal(l->take.n, n);
    assert_memory_equal(l->take.index, index, n * (l->take.taps != 0 ? 2u : 1u) * sizeof *index);
}

/* The sizes come from the layers before: one of them is nobody's input. */
static void test_upsample_and_pad_become_takes(void **state)
{
    (void)state;
    struct uw_model_file m;
    struct uw_error err = {.text = ""};
    static const int32_t twice[] = {0, 0, 1, 1, 2, 2}, edge[] = {0, 0, 1, 2, 3, 4, 5, 5, 5};
    static const int32_t zeros[] = {-1, 0, 1, 2, -1}, mirror[] = {2, 1, 0, 1, 2, 1};
    static const int32_t linear[] = {0, 1, 0, 1, 0, 1, 1, 2, 1, 2, 2, 2};
    static const float weight[] = {1.0f, 0.0f, 0.75f, 0.25f, 0.25f, 0.75f, 0.75f, 0.25f,
                                   0.25f, 0.75f, 0.75f, 0.25f};
    const char *text =
        "{\"name\": \"t\", \"input\": [2, 5, 3], \"layers\": [\n"
        "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 4, \"kernel\": [3, 1]},\n"
        "{\"name\": \"u\", \"type\": \"upsample\", \"scale\": 2},\n"
        "{\"name\": \"p\", \"type\": \"pad\", \"padding\": [0, 0, 1, 2],\n"
        " \"mode\": \"replicate\"},\n"
        "{\"name\": \"q\", \"type\": \"pad\", \"padding\": 1, \"inputs\": [\"c\"]},\n"
        "{\"name\": \"s\", \"type\": \"reduce_sum\", \"inputs\": [\"c\"]},\n"
        "{\"name\": \"l\", \"type\": \"upsample\", \"scale\": 2, \"mode\": \"linear\"},\n"
        "{\"name\": \"r\", \"type\": \"pad\", \"padding\": [2, 1], \"mode\": \"reflect\",\n"
        " \"inputs\": [\"s\"]}]}";
    assert_int_equal(parse(&m, text, &err), UW_OK);
    const struct uw_layer_def *l = m.def.layers;
    assert_int_equal(m.def.layers_n, 9);
    expect_take(&l[1], "u.rows", "c", 1, 6, twice);
    expect_take(&l[2], "u", "u.rows", 2, 6, twice);
    expect_take(&l[3], "p", "u", 1, 9, edge);
    expect_take(&l[4], "q.rows", "c", 1, 5, zeros);
    expect_take(&l[5], "q", "q.rows", 2, 5, zeros);
    assert_int_equal(l[6].kind, UW_LAYER_REDUCE);
    expect_take(&l[7], "l", "s", 1, 6, linear);
    assert_memory_equal(l[7].take.weight, weight, sizeof weight);
    expect_take(&l[8], "r", "s", 1, 6, mirror);
    uw_model_file_deinit(&m);
}

static void test_model_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const char *text = uw_model_builtin_find("lenet5")->text;
    size_t end = strlen(text);
    while (text[end - 1u] != '}') {
        end--;
    }
    for (size_t n = 0; n < end; n++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_model_parse(&m, "m.json", text, n, &err), UW_ERR_CORRUPT);
        assert_memory_equal(err.text, "m.json:", 7);
    }
}

static void test_model_unknown_name_suggests_the_nearest(void **state)
{
    (void)state;
    struct uw_model_file m;
    struct uw_error err;
    assert_int_equal(uw_model_load(&m, "lennet5", &err), UW_ERR_NOTFOUND);
    assert_string_equal(err.text,
                        "lennet5: no such file and no built-in model, did you mean lenet5?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtins_all_parse),
        cmocka_unit_test(test_model_every_key_is_read),
        cmocka_unit_test(test_every_layer_type_and_key_is_written_as_it_was_read),
        cmocka_unit_test(test_defaults_are_not_written),
        cmocka_unit_test(test_what_no_file_has_is_not_written),
        cmocka_unit_test(test_losses_are_written_as_they_were_read),
        cmocka_unit_test(test_input_of_every_rank_is_read),
        cmocka_unit_test(test_builtins_are_written_as_they_are),
        cmocka_unit_test(test_model_mistakes_name_line_and_what_is_allowed),
        cmocka_unit_test(test_upsample_and_pad_become_takes),
        cmocka_unit_test(test_model_cut_anywhere_is_refused),
        cmocka_unit_test(test_model_unknown_name_suggests_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
