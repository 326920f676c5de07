/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors of an ONNX file train: what the file tells, what the user names, what is told. */
#include "onnx_message.h"

static const int64_t row[1] = {3}, square[2] = {3, 3}, features[2] = {0, 3};
static const float ramp[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

/* What PyTorch's newer exporter notes of a constant. */
static void tell_kind(struct message *g, const char *name, const char *kind)
{
    struct message e = {.n = 0}, info = {.n = 0};
    text(&e, 1, "pkg.torch.export.graph_signature.InputSpec.kind");
    text(&e, 2, kind);
    text(&info, 1, name);
    inside(&info, 4, &e);
    inside(g, 13, &info);
}

/* What it notes of a constant that it computed, and which parameters the program has. */
static void tell_origin(struct message *g, const char *name, const char *from)
{
    struct message e = {.n = 0}, info = {.n = 0}, signature = {.n = 0};
    text(&e, 1, "pkg.onnxscript.optimizer.folded_from");
    text(&e, 2, from);
    text(&info, 1, name);
    inside(&info, 4, &e);
    inside(g, 13, &info);
    text(&signature, 1, "pkg.torch.export.ExportedProgram.graph_signature");
    text(&signature, 2, "\n# inputs\np_w: PARAMETER target='w'\np_q: PARAMETER target='q'\n"
                        "b_c: BUFFER target='c' persistent=True\nx: USER_INPUT\n");
    inside(g, 16, &signature);
}

/* y = (x w + p) v */
static struct message graph(const char *kind_of_p, const char *kind_of_v)
{
    struct message g = {.n = 0};
    value(&g, 11, "x", 2, features);
    value(&g, 12, "y", 2, features);
    constant(&g, "w", 2, square, ramp, 0);
    constant(&g, "p.x", 1, row, ramp, 0);
    constant(&g, "v", 2, square, ramp, 0);
    add(&g, "MatMul", "x w", "h", "", 0, NULL);
    add(&g, "Relu", "h", "r", "", 0, NULL);
    add(&g, "Add", "r p.x", "s", "", 0, NULL);
    add(&g, "MatMul", "s v", "y", "", 0, NULL);
    if (kind_of_p != NULL) {
        tell_kind(&g, "p.x", kind_of_p);
    }
    if (kind_of_v != NULL) {
        tell_kind(&g, "v", kind_of_v);
    }
    return g;
}

struct outcome {
    bool p_trains, v_trains;
    const char *told;               /* part of a note; NULL: no note speaks of p.x */
};

static void check(const struct message *g, const struct uw_convert_options *o,
                  const struct outcome *want)
{
    struct uw_convert_model c;
    struct uw_error err = {.text = ""};
    struct message m = file_of(g, 17);
    bool told = false, spoken = false;
    int rc = uw_convert_read_with(&c, o, m.bytes, m.n, "m", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
    for (uint32_t i = 0; i < c.def.layers_n; i++) {
        const struct uw_layer_def *l = &c.def.layers[i];
        if (l->kind == UW_LAYER_PARAMETER) {
            assert_int_equal(!l->parameter.constant, want->p_trains);
        }
    }
    assert_int_equal(!c.def.layers[c.def.layers_n - 1].frozen, want->v_trains);
    for (uint32_t i = 0; i < c.notes_n; i++) {
        told = told || (want->told != NULL && strstr(c.notes[i], want->told) != NULL);
        spoken = spoken || strstr(c.notes[i], "p.x") != NULL;
    }
    assert_int_equal(told, want->told != NULL);
    assert_true(want->told != NULL || !spoken);
    uw_convert_deinit(&c);
}

static void test_file_that_tells_nothing_has_a_line_about_lone_tensors(void **state)
{
    (void)state;
    struct message g = graph(NULL, NULL);
    check(&g, NULL, &(struct outcome){true, true, "tensor 'p.x', which is no layer's weight, "
                                      "trains: the file does not tell parameters from constants; "
                                      "--constant NAME keeps it"});
}

static void test_file_tells_parameters_from_buffers(void **state)
{
    (void)state;
    struct message g = graph("PARAMETER", NULL);
    check(&g, NULL, &(struct outcome){true, true, NULL});
    g = graph("BUFFER", NULL);
    check(&g, NULL, &(struct outcome){false, true, NULL});
    g = graph("CONSTANT_TENSOR", "BUFFER");
    check(&g, NULL, &(struct outcome){false, false, "no parameters: "});
}

static void test_constant_that_is_computed_from_none_of_the_parameters_does_not_train(void **state)
{
    static const struct {
        const char *from;
        bool trains;
    } cases[] = {{"['arange', 'val_0']", false}, {"['c', 'mul']", false}, {"[]", false},
                 {"['c', 'mul', 'q']", true}, {"['view', 'val_3', 'q']", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message g = graph(NULL, NULL);
        tell_origin(&g, "p.x", cases[i].from);
        check(&g, NULL, &(struct outcome){cases[i].trains, true,
                                          i == 3   ? "in advance: 'p.x' from 'q': they train as "
                                                     "plain weights"
                                          : i == 4 ? "tensor 'p.x'" : NULL});
    }
}

/* y = x p w, where p may be a parameter or scale the input. */
static void test_factor_of_the_input_trains_where_the_file_or_the_user_says_so(void **state)
{
    static const struct {
        const char *name, *from, *trained;
        bool trains, told;
    } cases[] = {
        {"onnx::Mul_3", NULL, NULL, false, true},
        {"onnx::Mul_3", NULL, "onnx::Mul_3", true, false},
        {"unsqueeze", "['q', 'val_1']", NULL, true, false},
        {"unsqueeze", "['c', 'val_1']", NULL, false, false},
        {"scale", NULL, NULL, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct uw_convert_options o = {.trained = cases[i].trained};
        char in[40];
        struct message g = {.n = 0}, m;
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        bool trains = false, told = false;
        value(&g, 11, "x", 2, features);
        value(&g, 12, "y", 2, features);
        constant(&g, cases[i].name, 1, row, ramp + 1, 0);
        constant(&g, "w", 2, square, ramp, 0);
        snprintf(in, sizeof in, "x %s", cases[i].name);
        add(&g, "Mul", in, "h", "", 0, NULL);
        add(&g, "MatMul", "h w", "y", "", 0, NULL);
        if (cases[i].from != NULL) {
            tell_origin(&g, cases[i].name, cases[i].from);
        }
        m = file_of(&g, 17);
        int rc = uw_convert_read_with(&c, &o, m.bytes, m.n, "m", &err);
        assert_string_equal(rc < 0 ? err.text : "", "");
        for (uint32_t k = 0; k < c.def.layers_n; k++) {
            const struct uw_layer_def *l = &c.def.layers[k];
            trains = trains || (l->kind == UW_LAYER_PARAMETER && !l->parameter.constant);
        }
        for (uint32_t k = 0; k < c.notes_n; k++) {
            told = told || strstr(c.notes[k], "--trained onnx::Mul_3 trains it") != NULL;
        }
        assert_int_equal(trains, cases[i].trains);
        assert_int_equal(told, cases[i].told);
        uw_convert_deinit(&c);
    }
}

static void test_names_of_the_user_decide(void **state)
{
    static const struct {
        const char *constant, *trained, *kind_of_p;
        struct outcome want;
    } cases[] = {
        {"p.x", NULL, NULL, {false, true, NULL}},
        {"p", NULL, NULL, {false, true, NULL}},        /* the module of p.x */
        {"p", "p.x", NULL, {true, true, NULL}},        /* a part is as its own list says */
        {"p.x", "p", NULL, {false, true, NULL}},
        {"all", NULL, NULL, {false, true, NULL}},
        {"p.x,v", NULL, NULL, {false, false, "no parameters: "}},
        {"v", NULL, NULL, {true, false, "tensor 'p.x'"}},
        {NULL, "p.x", NULL, {true, true, NULL}},
        {NULL, "p.x", "BUFFER", {true, true, NULL}},
        {"all", "p.x", NULL, {true, true, NULL}},
        {"p.x", NULL, "PARAMETER", {false, true, NULL}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct uw_convert_options o = {.constant = cases[i].constant,
                                             .trained = cases[i].trained};
        struct message g = graph(cases[i].kind_of_p, NULL);
        check(&g, &o, &cases[i].want);
    }
}

static void test_transposed_copy_of_a_constant_is_one(void **state)
{
    static const float turned[9] = {0, 3, 6, 1, 4, 7, 2, 5, 8};
    (void)state;
    struct message g = {.n = 0};
    value(&g, 11, "x", 2, features);
    value(&g, 12, "y", 2, features);
    constant(&g, "w", 2, square, ramp, 0);
    constant(&g, "onnx::MatMul_3", 2, square, turned, 0);
    add(&g, "MatMul", "x w", "h", "", 0, NULL);
    add(&g, "MatMul", "h onnx::MatMul_3", "y", "", 0, NULL);
    check(&g, &(struct uw_convert_options){.constant = "w"},
          &(struct outcome){false, false, "no parameters: "});
    check(&g, NULL, &(struct outcome){false, true, NULL});
}

static void test_biases_that_tf2onnx_leaves_out_are_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        struct message g = graph(NULL, NULL), m = file_of(&g, 17);
        bool told = false;
        text(&m, 2, i == 0 ? "tf2onnx" : "keras2onnx");
        uw_convert_read(&c, m.bytes, m.n, "m", &err);
        assert_string_equal(err.text, "");
        for (uint32_t k = 0; k < c.notes_n; k++) {
            told = told || strstr(c.notes[k], "layers without a bias: ") != NULL;
        }
        assert_int_equal(told, i == 0);
        uw_convert_deinit(&c);
    }
}

/* The bias of an operator over a weight, as PyTorch's newer exporter computes it where a layer has
 * none, or of the file. */
static void read_zeros(struct uw_convert_model *c, const char *op, uint32_t rank,
                       const int64_t *dim, int64_t out, bool computed)
{
    static const float zero[6] = {0};
    const int64_t x_dim[4] = {0, 3, 6, 6};
    struct message g = {.n = 0}, shape = node("Shape", "s", "w.weight", "all"), a = {.n = 0};
    struct message n = node(op, "n", "x w.weight bias", "y");
    struct uw_error err = {.text = ""};
    value(&g, 11, "x", rank, x_dim);
    value(&g, 12, "y", rank, x_dim);
    weight(&g, "w.weight", rank, dim, 0);
    if (computed) {
        text(&a, 1, rank == 2 ? "start" : "end"); /* the outputs: dim[1] of a dense layer here */
        number(&a, 3, 1);
        number(&a, 20, 2);
        inside(&shape, 5, &a);
        inside(&g, 1, &shape);
        constant(&g, "val_0", 0, NULL, zero, 0);
        add(&g, "CastLike", "val_0 x", "like", "", 0, NULL);
        add(&g, "Expand", "like all", "bias", "", 0, NULL);
    } else {
        constant(&g, "bias", 1, &out, zero, 0);
    }
    inside(&g, 1, &n);
    read_as(c, &g, 18, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(c->def.layers_n, 1);
    assert_int_equal(c->notes_n, 0);
}

static void test_zeros_that_the_file_computes_are_no_bias(void **state)
{
    static const int64_t conv[4] = {3, 3, 3, 3}, dense[2] = {3, 4};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct uw_convert_model c;
        read_zeros(&c, "Conv", 4, conv, 3, i == 1);
        assert_int_equal(c.def.layers[0].kind, UW_LAYER_CONV2D);
        assert_int_equal(c.def.layers[0].conv2d.no_bias, i == 1);
        uw_convert_deinit(&c);
        read_zeros(&c, "ConvTranspose", 4, conv, 3, i == 1);
        assert_int_equal(c.def.layers[0].kind, UW_LAYER_CONV_TRANSPOSE2D);
        assert_int_equal(c.def.layers[0].conv_transpose2d.no_bias, i == 1);
        uw_convert_deinit(&c);
        read_zeros(&c, "Gemm", 2, dense, 4, i == 1);
        assert_int_equal(c.def.layers[0].kind, UW_LAYER_DENSE);
        assert_int_equal(c.def.layers[0].dense.no_bias, i == 1);
        uw_convert_deinit(&c);
    }
}

/* One that names the modules of its nodes tells where it dropped a bias of zeros. */
static void test_bias_that_the_exporter_dropped_is_there_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct message g = {.n = 0}, n = node("Gemm", "node_linear", "x fc.weight", "y");
        struct message scopes = {.n = 0}, rule = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        value(&g, 11, "x", 2, features);
        value(&g, 12, "y", 2, features);
        constant(&g, "fc.weight", 2, square, ramp, 0);
        text(&scopes, 1, "pkg.torch.onnx.name_scopes");
        text(&scopes, 2, "['', 'fc', 'linear']");
        text(&rule, 1, "pkg.onnxscript.rewriter.rule_name");
        text(&rule, 2, "Other, RemoveOptionalBiasFromGemm");
        if (i > 0) {
            inside(&n, 9, &scopes);
        }
        if (i > 1) {
            inside(&n, 9, &rule);
        }
        inside(&g, 1, &n);
        read_as(&c, &g, 18, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(c.def.layers[0].dense.no_bias, i == 1);
        uw_convert_deinit(&c);
    }
}

static void test_name_that_is_nowhere_is_refused_with_those_that_are(void **state)
{
    struct uw_convert_model c;
    struct uw_error err = {.text = ""};
    (void)state;
    struct message g = graph(NULL, NULL), m = file_of(&g, 17);
    static const struct {
        const char *constant, *trained, *says;
    } cases[] = {{"v,q", NULL, "--constant q: no tensor and no layer"},
                 {NULL, "all", "--trained all: no tensor and no layer"},
                 {"v", "w,v", "v is in --constant and in --trained"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct uw_convert_options o = {.constant = cases[i].constant,
                                             .trained = cases[i].trained};
        assert_int_equal(uw_convert_read_with(&c, &o, m.bytes, m.n, "m", &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_true(i == 2 || strstr(err.text, "no layer's weight: 'p.x'") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_that_tells_nothing_has_a_line_about_lone_tensors),
        cmocka_unit_test(test_file_tells_parameters_from_buffers),
        cmocka_unit_test(
            test_constant_that_is_computed_from_none_of_the_parameters_does_not_train),
        cmocka_unit_test(test_factor_of_the_input_trains_where_the_file_or_the_user_says_so),
        cmocka_unit_test(test_names_of_the_user_decide),
        cmocka_unit_test(test_transposed_copy_of_a_constant_is_one),
        cmocka_unit_test(test_biases_that_tf2onnx_leaves_out_are_told),
        cmocka_unit_test(test_zeros_that_the_file_computes_are_no_bias),
        cmocka_unit_test(test_bias_that_the_exporter_dropped_is_there_again),
        cmocka_unit_test(test_name_that_is_nowhere_is_refused_with_those_that_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
