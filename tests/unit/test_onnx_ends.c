/* SPDX-License-Identifier: Apache-2.0
 *
 * Classifiers of ONNX files that give the class beside probabilities, linear models of
 * scikit-learn's domain, and outputs of one number a sample. */
#include "onnx_written.h"

static const int64_t features[2] = {0, 2}, one[2] = {0, 1}, three[2] = {0, 3}, labels[1] = {0};

static void floats_of(struct message *n, const char *name, uint32_t count, const float *v)
{
    struct message a = {.n = 0};
    text(&a, 1, name);
    bytes(&a, 7, v, count * sizeof *v);
    number(&a, 20, 6);
    inside(n, 5, &a);
}

static struct message classic(const char *op, const char *in, const char *out)
{
    struct message n = node(op, op, in, out);
    text(&n, 7, "ai.onnx.ml");
    return n;
}

/* An output of whole numbers. */
static void label(struct message *g, const char *name)
{
    struct message shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, info = {.n = 0};
    struct message d = {.n = 0};
    number(&d, 1, labels[0]);
    inside(&shape, 1, &d);
    number(&tensor, 1, 7);
    inside(&tensor, 2, &shape);
    inside(&type, 1, &tensor);
    text(&info, 1, name);
    inside(&info, 2, &type);
    inside(g, 12, &info);
}

static void read_graph(struct uw_convert_model *c, const struct message *g)
{
    struct uw_error err = {.text = ""};
    read_as(c, g, 17, &err);
    assert_string_equal(err.text, "");
}

static bool tells(const struct uw_convert_model *c, const char *words)
{
    bool told = false;
    for (uint32_t i = 0; i < c->notes_n; i++) {
        told = told || strstr(c->notes[i], words) != NULL;
    }
    return told;
}

/* Scaler, LinearClassifier of that many classes, Normalizer, ZipMap. */
static struct message linear(int64_t classes, const char *ends)
{
    static const float w[6] = {1, 2, -1, -2, 5, 6}, b[3] = {4, -4, 9}, offset[2] = {1, 2};
    static const int64_t names[3] = {0, 1, 2};
    struct message g = {.n = 0}, n = classic("Scaler", "x", "s");
    value(&g, 11, "x", 2, features);
    label(&g, "label");
    value(&g, 12, "y", 2, classes == 2 ? features : three);
    floats_of(&n, "offset", 2, offset);
    floats_of(&n, "scale", 2, offset);
    inside(&g, 1, &n);
    n = classic("LinearClassifier", "s", "label p");
    floats_of(&n, "coefficients", 2 * (uint32_t)classes, w);
    floats_of(&n, "intercepts", (uint32_t)classes, b);
    ints(&n, "classlabels_ints", (uint32_t)classes, names);
    words(&n, "post_transform", 1, &ends);
    inside(&g, 1, &n);
    n = classic("Normalizer", "p", "q");
    words(&n, "norm", 1, &(const char *){"L1"});
    inside(&g, 1, &n);
    n = classic("ZipMap", "q", "y");
    inside(&g, 1, &n);
    return g;
}

static void test_linear_classifier_is_a_dense_layer_and_a_softmax(void **state)
{
    (void)state;
    struct message g = linear(3, "SOFTMAX");
    struct uw_convert_model c;
    read_graph(&c, &g);
    const struct uw_layer_def *last = &c.def.layers[c.def.layers_n - 1];
    assert_int_equal(last->kind, UW_LAYER_DENSE);
    assert_int_equal(last->dense.out, 3);
    assert_int_equal(c.outputs_n, 1);
    assert_string_equal(c.output[0].name, "y");
    assert_string_equal(c.output[0].left_out, "Softmax");
    assert_true(tells(&c, "the class and have no gradient: outputs 'label'"));
    uint32_t trained = 0;
    for (uint32_t i = 0; i < c.def.layers_n; i++) {
        trained += c.def.layers[i].kind == UW_LAYER_PARAMETER &&
                   !c.def.layers[i].parameter.constant;
    }
    assert_int_equal(trained, 0); /* the scaler stays as it is */
    uw_convert_deinit(&c);
}

static void test_logistic_of_two_classes_is_a_softmax_of_halves(void **state)
{
    (void)state;
    struct message g = linear(2, "LOGISTIC");
    struct uw_convert_model c;
    read_graph(&c, &g);
    const struct uw_convert_tensor *w = &c.tensors[c.tensors_n - 2], *b = w + 1;
    static const float want[4] = {0.5f, 1, -0.5f, -1};
    assert_memory_equal(w->data, want, sizeof want);
    assert_true(b->data[0] == 2 && b->data[1] == -2);
    assert_string_equal(c.output[0].left_out, "Softmax");
    uw_convert_deinit(&c);
    g = linear(3, "LOGISTIC");
    expect(&g, 17, UW_ERR_UNSUPPORTED, "post_transform LOGISTIC only of two classes");
    g = linear(3, "PROBIT");
    expect(&g, 17, UW_ERR_UNSUPPORTED, "post_transform NONE, SOFTMAX or LOGISTIC");
}

static void test_linear_regressor_is_a_dense_layer(void **state)
{
    static const float w[2] = {3, 4}, b[1] = {5};
    (void)state;
    struct message g = {.n = 0}, n = classic("LinearRegressor", "x", "y");
    struct uw_convert_model c;
    value(&g, 11, "x", 2, features);
    value(&g, 12, "y", 2, one);
    floats_of(&n, "coefficients", 2, w);
    floats_of(&n, "intercepts", 1, b);
    inside(&g, 1, &n);
    read_graph(&c, &g);
    assert_int_equal(c.def.layers_n, 1);
    assert_int_equal(c.tensors_n, 2);
    assert_memory_equal(c.tensors[0].data, w, sizeof w);
    assert_true(c.tensors[1].data[0] == 5);
    uw_convert_deinit(&c);
}

/* [1 - p, p] of a sigmoid p, and the class: the bias of one output trains, too. */
static void test_pair_of_a_sigmoid_is_a_softmax(void **state)
{
    static const int64_t column[2] = {2, 1}, single[2] = {1, 1};
    static const float w[2] = {3, 4}, b[1] = {5}, unity[1] = {1};
    static const int64_t axis[1] = {1};
    (void)state;
    for (uint32_t other = 0; other < 2; other++) { /* a number other than 1 makes no pair */
        const float two[1] = {2};
        struct message g = {.n = 0};
        struct uw_convert_model c;
        value(&g, 11, "x", 2, features);
        label(&g, "label");
        value(&g, 12, "y", 2, features);
        constant(&g, "coefficient", 2, column, w, 0);
        constant(&g, "intercepts", 2, single, b, 0);
        constant(&g, "unity", 0, NULL, other == 1 ? two : unity, 0);
        add(&g, "MatMul", "x coefficient", "h", "", 0, NULL);
        add(&g, "Add", "h intercepts", "z", "", 0, NULL);
        add(&g, "Sigmoid", "z", "p", "", 0, NULL);
        add(&g, "Sub", "unity p", "r", "", 0, NULL);
        struct message join = node("Concat", "join", "r p", "both"), a = {.n = 0};
        text(&a, 1, "axis");
        number(&a, 3, axis[0]);
        number(&a, 20, 2);
        inside(&join, 5, &a);
        inside(&g, 1, &join);
        add(&g, "ArgMax", "both", "label", "", 0, NULL);
        struct message n = classic("ZipMap", "both", "y");
        inside(&g, 1, &n);
        read_graph(&c, &g);
        assert_int_equal(c.output[0].left_out != NULL, other == 0);
        assert_int_equal(c.def.layers[0].kind, UW_LAYER_DENSE);
        assert_false(c.def.layers[0].dense.no_bias);
        uw_convert_deinit(&c);
    }
}

/* A dense layer whose output [N][1] the operator changes into the output y. */
static struct message dense_and(const char *op, const char *attribute, uint32_t n,
                                const int64_t *v, uint32_t rank, const int64_t *dim)
{
    static const int64_t column[2] = {2, 1};
    struct message g = {.n = 0};
    value(&g, 11, "x", 2, features);
    value(&g, 12, "y", rank, dim);
    weight(&g, "w", 2, column, 0);
    add(&g, "MatMul", "x w", "h", "", 0, NULL);
    add(&g, op, "h", "y", attribute, n, v);
    return g;
}

static void test_one_number_a_sample_is_trained_and_written_without_its_axis(void **state)
{
    static const int64_t axis[1] = {1}, turned[2] = {1, 0}, sideways[2] = {1, 0}, all[1] = {0};
    (void)state;
    struct message g = dense_and("Squeeze", "axes", 1, axis, 1, all);
    struct message m = file_of(&g, 12);
    for (uint32_t time = 0; time < 2; time++) {
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_convert_read(&c, m.bytes, m.n, "m", &err), UW_OK);
        assert_int_equal(c.output[0].rank, 1);
        assert_int_equal(c.def.layers[c.def.layers_n - 1].dense.out, 1);
        m = written(&c);
        uw_convert_deinit(&c);
    }
    g = dense_and("Transpose", "perm", 2, turned, 2, sideways);
    expect(&g, 12, UW_ERR_UNSUPPORTED, "the minibatch is not the first axis");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_classifier_is_a_dense_layer_and_a_softmax),
        cmocka_unit_test(test_logistic_of_two_classes_is_a_softmax_of_halves),
        cmocka_unit_test(test_linear_regressor_is_a_dense_layer),
        cmocka_unit_test(test_pair_of_a_sigmoid_is_a_softmax),
        cmocka_unit_test(test_one_number_a_sample_is_trained_and_written_without_its_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
