/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that look like a layer and compute something else are not taken for it: their nodes stay
 * layers of their own. */
#include "onnx_message.h"

/* Read the graph. Returns how many of its layers are of that kind. */
static uint32_t count_with(const struct message *g, int64_t opset, bool unfused,
                           enum uw_layer_kind kind)
{
    const struct uw_convert_options o = {.unfused = unfused};
    const struct message m = file_of(g, opset);
    struct uw_convert_model c;
    struct uw_error err;
    uint32_t n = 0;
    int rc = uw_convert_read_with(&c, &o, m.bytes, m.n, "m", &err);
    if (rc != UW_OK) {
        fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < c.def.layers_n; i++) {
        n += c.def.layers[i].kind == kind ? 1 : 0;
    }
    uw_convert_deinit(&c);
    return n;
}

static uint32_t count_of(const struct message *g, int64_t opset, enum uw_layer_kind kind)
{
    return count_with(g, opset, false, kind);
}

static void test_node_without_an_output_does_no_harm(void **state)
{
    static const int64_t one[1] = {1};
    (void)state;
    struct message g = begin();
    struct uw_convert_model c;
    struct uw_error err;
    weight(&g, "at", 1, one, 0);
    add(&g, "Slice", "x at at", "", "", 0, NULL);
    add(&g, "Conv", "x conv.weight", "y", "", 0, NULL);
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    uw_convert_deinit(&c);
}

static void test_parts_that_leave_elements_out_are_refused(void **state)
{
    static const int64_t dim[3] = {0, 6, 7};
    (void)state;
    struct message g = {.n = 0};
    struct message n = node("Split", "s", "x", "a y");
    struct message a = {.n = 0};
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "z", 3, dim);
    text(&a, 1, "axis");
    number(&a, 3, 2);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    add(&g, "Relu", "y", "z", "", 0, NULL);
    expect(&g, 13, UW_ERR_SHAPE, "its parts have 6 of 7 elements");
}

/* The product of rows that are 1 at an index has an embedding in front, which takes no index that
 * the weight has no row for; it does not train, and no line speaks of it. */
static void test_tied_embedding_takes_only_its_vocabulary(void **state)
{
    static const int64_t dim[2] = {0, 4}, matrix[2] = {5, 3}, turn[2] = {1, 0};
    static const int64_t scores[3] = {0, 4, 5};
    (void)state;
    struct message g = {.n = 0}, n = node("Cast", "c", "x", "at"), a = {.n = 0};
    struct uw_convert_model c;
    struct uw_error err;
    value(&g, 11, "x", 2, dim);
    value(&g, 12, "y", 3, scores);
    weight(&g, "e.weight", 2, matrix, 0);
    text(&a, 1, "to");
    number(&a, 3, 7);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    add(&g, "Gather", "e.weight at", "h", "", 0, NULL);
    add(&g, "Transpose", "e.weight", "head", "perm", 2, turn);
    add(&g, "MatMul", "h head", "y", "", 0, NULL);
    assert_int_equal(read_as(&c, &g, 17, &err), UW_OK);
    const struct uw_layer_def *first = NULL;
    for (uint32_t i = c.def.layers_n; i-- > 0;) {
        first = c.def.layers[i].kind == UW_LAYER_EMBEDDING ? &c.def.layers[i] : first;
    }
    assert_non_null(first);
    assert_int_equal(first->embedding.vocabulary, 5);
    assert_true(first->frozen);
    for (uint32_t i = 0; i < c.notes_n; i++) {
        assert_null(strstr(c.notes[i], "not trained"));
    }
    uw_convert_deinit(&c);
}

/* As recommenders have it: column 0 is a user, and each sample has one. */
static void test_embedding_of_one_index_a_sample_is_a_row(void **state)
{
    static const int64_t dim[2] = {0, 2}, matrix[2] = {5, 3}, out[2] = {0, 3};
    static const float zero = 0.0f;
    (void)state;
    struct message g = {.n = 0}, n = node("Gather", "c", "x user", "column"), a = {.n = 0};
    struct uw_convert_model c;
    struct uw_error err;
    value(&g, 11, "x", 2, dim);
    value(&g, 12, "y", 2, out);
    constant(&g, "user", 0, NULL, &zero, 0);
    weight(&g, "e.weight", 2, matrix, 0);
    text(&a, 1, "axis");
    number(&a, 3, 1);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    add(&g, "Gather", "e.weight column", "y", "", 0, NULL);
    int rc = read_as(&c, &g, 17, &err);
    assert_string_equal(rc < 0 ? err.text : "", "");
    assert_int_equal(c.output[0].rank, 2);
    assert_int_equal(c.output[0].dim[1], 3);
    uw_convert_deinit(&c);
}

/* As PyTorch's older exporter leaves a layer with weight_norm. */
static void test_weight_that_was_computed_in_advance_is_told(void **state)
{
    static const int64_t dim[3] = {0, 2, 6}, w[3] = {3, 2, 2}, out[3] = {0, 3, 5}, b[1] = {3};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "onnx::Conv_19" : "conv.weight";
        struct message g = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err;
        bool told = false;
        value(&g, 11, "x", 3, dim);
        value(&g, 12, "y", 3, out);
        weight(&g, name, 3, w, 0);
        weight(&g, "conv.bias", 1, b, 0);
        add(&g, "Conv", i == 0 ? "x onnx::Conv_19 conv.bias" : "x conv.weight conv.bias", "y", "",
            0, NULL);
        assert_int_equal(read_as(&c, &g, 17, &err), UW_OK);
        for (uint32_t k = 0; k < c.notes_n; k++) {
            told = told || strstr(c.notes[k], "do_constant_folding=False") != NULL;
        }
        assert_int_equal(told, i == 0);
        uw_convert_deinit(&c);
    }
}

/* chunk(2) of one value, as PyTorch's older exporter writes it. */
static void test_part_without_elements_is_no_harm_until_it_is_read(void **state)
{
    static const int64_t dim[2] = {0, 1}, two[1] = {2}, scalar[1] = {1};
    static const float sizes[2] = {1, 0}, place[2] = {0, 1};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct message g = {.n = 0};
        struct message n = node("SplitToSequence", "s", "x sizes", "list"), a = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err;
        value(&g, 11, "x", 2, dim);
        value(&g, 12, "y", 2, dim);
        constant(&g, "sizes", 1, two, sizes, 0);
        constant(&g, "at", 1, scalar, &place[i], 0);
        text(&a, 1, "axis");
        number(&a, 3, 1);
        inside(&n, 5, &a);
        inside(&g, 1, &n);
        add(&g, "SequenceAt", "list at", "part", "", 0, NULL);
        add(&g, "Relu", "part", "y", "", 0, NULL);
        if (i == 0) {
            assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
            uw_convert_deinit(&c);
        } else {
            expect(&g, 13, UW_ERR_SHAPE, "node 's' (SplitToSequence): a part that is read is "
                                         "empty");
        }
    }
}

/* An axis of 7 columns of 8 rows is cut into 2 and 28 once it is in order. */
static void test_axes_that_were_joined_are_cut_elsewhere(void **state)
{
    static const int64_t dim[3] = {0, 8, 7}, exchange[3] = {0, 2, 1}, joined[2] = {0, 56},
                         cut[3] = {0, 2, 28};
    (void)state;
    struct message g = {.n = 0};
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "y", 3, cut);
    add(&g, "Transpose", "x", "t", "perm", 3, exchange);
    add(&g, "Reshape", "t", "row", "shape", 2, joined);
    add(&g, "Reshape", "row", "parts", "shape", 3, cut);
    add(&g, "Relu", "parts", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 13, UW_LAYER_TRANSPOSE), 1);
}

/* A zero repeated to 2^63 elements has no strides that an integer could hold, and needs none. */
static void test_more_elements_than_integers_count_are_reshaped(void **state)
{
    static const float sizes[3] = {0x1p31f, 0x1p31f, 2.0f};
    static const int64_t three[1] = {3};
    (void)state;
    struct message g = begin();
    struct uw_convert_model c;
    struct uw_error err;
    constant(&g, "sizes", 1, three, sizes, 0);
    add(&g, "ConstantOfShape", "sizes", "zeros", "", 0, NULL);
    add(&g, "Reshape", "zeros sizes", "again", "", 0, NULL);
    add(&g, "Conv", "x conv.weight", "y", "", 0, NULL);
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    uw_convert_deinit(&c);
}

/* [N][6][6] in, so that an exchanged axis has the size of the right one. */
static struct message square(void)
{
    static const int64_t dim[3] = {0, 6, 6};
    struct message g = {.n = 0};
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "y", 3, dim);
    weight(&g, "w", 1, dim + 1, 0);
    return g;
}

static void test_weight_is_a_normalization_s_only_along_its_axes(void **state)
{
    static const int64_t exchange[3] = {0, 2, 1};
    (void)state;
    struct message g = square();
    add(&g, "Add", "x w", "z", "", 0, NULL);
    add(&g, "LayerNormalization", "z", "n", "", 0, NULL);
    add(&g, "Transpose", "n", "t", "perm", 3, exchange);
    add(&g, "Mul", "t w", "m", "", 0, NULL);
    add(&g, "Add", "m w", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 17, UW_LAYER_LAYERNORM), 1);
    assert_int_equal(count_of(&g, 17, UW_LAYER_PARAMETER), 3);
    g = square();
    add(&g, "Add", "x w", "z", "", 0, NULL);
    add(&g, "LayerNormalization", "z", "n", "", 0, NULL);
    add(&g, "Mul", "n w", "m", "", 0, NULL);
    add(&g, "Add", "m w", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 17, UW_LAYER_PARAMETER), 1);
}

static void test_weight_behind_a_second_reader_is_not_the_normalization_s(void **state)
{
    (void)state;
    struct message g = square();
    add(&g, "LayerNormalization", "x", "n", "", 0, NULL);
    add(&g, "Identity", "n", "i", "", 0, NULL);
    add(&g, "Mul", "i w", "m", "", 0, NULL);
    add(&g, "Add", "m w", "a", "", 0, NULL);
    add(&g, "Add", "n a", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 17, UW_LAYER_PARAMETER), 2);
}

static void test_mean_and_spread_over_different_axes_are_no_layer_norm(void **state)
{
    static const int64_t axis[2] = {1, 2};
    static const float two = 2.0f;
    static const float epsilon = 1e-5f;
    (void)state;
    for (uint32_t same = 0; same < 2; same++) {
        struct message g = square();
        constant(&g, "two", 0, NULL, &two, 0);
        constant(&g, "epsilon", 0, NULL, &epsilon, 0);
        add(&g, "ReduceMean", "x", "mean", "axes", 1, axis + 1);
        add(&g, "Sub", "x mean", "d", "", 0, NULL);
        add(&g, "Pow", "d two", "square", "", 0, NULL);
        add(&g, "ReduceMean", "square", "spread", "axes", 1, axis + same);
        add(&g, "Add", "spread epsilon", "sum", "", 0, NULL);
        add(&g, "Sqrt", "sum", "root", "", 0, NULL);
        add(&g, "Div", "d root", "y", "", 0, NULL);
        assert_int_equal(count_of(&g, 13, UW_LAYER_LAYERNORM), same);
        assert_int_equal(count_with(&g, 13, true, UW_LAYER_LAYERNORM), 0);
    }
}

/* Attention over [N][3][4]; the softmax over its scores is `softmax`, of "scores" to "p". */
static struct message attention(const struct message *softmax)
{
    static const int64_t dim[3] = {0, 3, 4};
    static const int64_t matrix[2] = {4, 4};
    static const int64_t exchange[3] = {0, 2, 1};
    static const float half = 0.5f;
    struct message g = {.n = 0};
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "y", 3, dim);
    weight(&g, "wq", 2, matrix, 0);
    weight(&g, "wk", 2, matrix, 0);
    weight(&g, "wv", 2, matrix, 0);
    weight(&g, "wo", 2, matrix, 0);
    constant(&g, "half", 0, NULL, &half, 0);
    add(&g, "MatMul", "x wq", "q", "", 0, NULL);
    add(&g, "MatMul", "x wk", "k", "", 0, NULL);
    add(&g, "MatMul", "x wv", "v", "", 0, NULL);
    add(&g, "Transpose", "k", "kt", "perm", 3, exchange);
    add(&g, "MatMul", "q kt", "qk", "", 0, NULL);
    add(&g, "Mul", "qk half", "scores", "", 0, NULL);
    inside(&g, 1, softmax);
    add(&g, "MatMul", "p v", "mixed", "", 0, NULL);
    add(&g, "MatMul", "mixed wo", "y", "", 0, NULL);
    return g;
}

/* Up to opset 12 a softmax without an axis runs over all axes but the first. */
static void test_attention_weights_add_up_to_one_over_the_keys(void **state)
{
    (void)state;
    struct message softmax = node("Softmax", "s", "scores", "p");
    struct message g = attention(&softmax);
    assert_int_equal(count_of(&g, 13, UW_LAYER_ATTENTION), 1);
    assert_int_equal(count_of(&g, 12, UW_LAYER_ATTENTION), 0);
}

static void test_attention_s_softmax_is_over_the_last_axis(void **state)
{
    static const int64_t axes[] = {2, -1, 1, -2, 3, INT64_MAX, INT64_MIN};
    (void)state;
    for (uint32_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        struct message softmax = node("Softmax", "s", "scores", "p");
        struct message a = {.n = 0};
        text(&a, 1, "axis");
        number(&a, 3, axes[i]);
        inside(&softmax, 5, &a);
        struct message g = attention(&softmax);
        if (i < 4) {
            assert_int_equal(count_of(&g, 13, UW_LAYER_ATTENTION), i < 2);
        } else {
            expect(&g, 13, UW_ERR_SHAPE, "axis");
        }
    }
}

static void test_recurrent_activation_of_another_gate_is_refused(void **state)
{
    static const int64_t dim[3] = {2, 0, 3};
    static const int64_t w_dim[3] = {1, 8, 3};
    static const int64_t r_dim[3] = {1, 8, 2};
    static const char *const all_tanh[3] = {"Tanh", "Tanh", "Tanh"};
    (void)state;
    struct message g = {.n = 0};
    struct message n = node("LSTM", "l", "x w r", "all y");
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "y", 3, dim);
    weight(&g, "w", 3, w_dim, 0);
    weight(&g, "r", 3, r_dim, 0);
    words(&n, "activations", 3, all_tanh);
    inside(&g, 1, &n);
    expect(&g, 13, UW_ERR_UNSUPPORTED, "only PyTorch's form: usual activations");
}

/* An LSTM node of hidden size 2 in the module that PyTorch's newer exporter notes. */
static void add_lstm(struct message *g, const char *name, const char *in, const char *out,
                     const char *scopes)
{
    struct message n = node("LSTM", name, in, out), e = {.n = 0};
    text(&e, 1, "pkg.torch.onnx.name_scopes");
    text(&e, 2, scopes);
    if (scopes[0] != '\0') {
        inside(&n, 9, &e);
    }
    inside(g, 1, &n);
}

/* Layers of one module count up where one reads the other; what does not fit has no name. */
static void test_recurrent_layers_have_their_names_in_pytorch(void **state)
{
    static const int64_t dim[3] = {2, 0, 3}, first[3] = {1, 8, 3}, r_dim[3] = {1, 8, 2};
    static const int64_t y_dim[2] = {0, 2}, axis[2] = {0, 1};
    static const struct {
        const char *node, *scopes, *first, *second;
    } cases[] = {
        {"l", "['', 'net', 'net.lstm', 'lstm']", "net.lstm.weight_ih_l0", "net.lstm.weight_ih_l1"},
        {"l", "['', 'lstm']", "weight_ih_l0", "weight_ih_l1"},
        {"/net/net.1/LSTM", "", "net.1.weight_ih_l0", "net.1.weight_ih_l1"},
        {"/LSTM", "", "weight_ih_l0", "weight_ih_l1"},
        {"l", "", NULL, NULL},
        {"l", "lstm", NULL, NULL},
        {"l", ",", NULL, NULL},
        {"l", "',", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message g = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err;
        value(&g, 11, "x", 3, dim);
        value(&g, 12, "y", 2, y_dim);
        weight(&g, "w", 3, first, 0);
        weight(&g, "r", 3, r_dim, 0);
        weight(&g, "w2", 3, r_dim, 0);
        weight(&g, "r2", 3, r_dim, 0);
        add_lstm(&g, cases[i].node, "x w r", "all", cases[i].scopes);
        add(&g, "Squeeze", "all", "h", "axes", 1, axis + 1);
        add_lstm(&g, cases[i].node, "h w2 r2", "all2 last", cases[i].scopes);
        add(&g, "Squeeze", "last", "y", "axes", 1, axis);
        if (read_as(&c, &g, 11, &err) != UW_OK) {
            fail_msg("%s", err.text);
        }
        const char *want[2] = {cases[i].first, cases[i].second};
        uint32_t found = 0;
        for (uint32_t k = 0; k < c.tensors_n; k++) {
            if (strstr(c.tensors[k].name, "weight_ih") != NULL) {
                const struct uw_convert_tensor *t = &c.tensors[k];
                const char *have = t->torch_n > 0 ? t->torch[0].name : NULL;
                const char *wanted = want[found++ == 1];
                assert_string_equal(have != NULL ? have : "none",
                                    wanted != NULL ? wanted : "none");
            }
        }
        assert_int_equal(found, 2);
        uw_convert_deinit(&c);
    }
}

/* in * stride comes out: 5 * 2 with 3 x 3 takes one zero, which is cut off behind. */
static void test_same_padding_of_a_transposed_convolution_is_its_own(void **state)
{
    static const int64_t dim[4] = {0, 1, 5, 5};
    static const int64_t weight_dim[2][4] = {{1, 1, 3, 3}, {1, 1, 4, 4}};
    static const int64_t stride[2] = {2, 2};
    static const char *const same = "SAME_UPPER";
    (void)state;
    for (uint32_t even = 0; even < 2; even++) {
        struct message g = {.n = 0};
        struct message n = node("ConvTranspose", "t", "x w", "y");
        struct uw_convert_model c;
        struct uw_error err;
        value(&g, 11, "x", 4, dim);
        value(&g, 12, "y", 4, dim);
        weight(&g, "w", 4, weight_dim[even], 0);
        ints(&n, "strides", 2, stride);
        words(&n, "auto_pad", 1, &same);
        inside(&g, 1, &n);
        if (even == 0) {
            assert_int_equal(count_of(&g, 13, UW_LAYER_TAKE), 2);
            continue;
        }
        assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
        assert_int_equal(c.def.layers[0].conv_transpose2d.pad_h, 1);
        uw_convert_deinit(&c);
    }
}

/* Zeros that count, of a Pad, and padding that does not: two layers. */
static void test_average_of_two_kinds_of_padding_keeps_them_apart(void **state)
{
    static const int64_t eight[1] = {8};
    static const int64_t five[2] = {5, 5};
    static const int64_t one[4] = {1, 1, 1, 1};
    static const float pads[8] = {0, 0, 1, 1, 0, 0, 1, 1};
    (void)state;
    struct message g = begin();
    struct message n = node("AveragePool", "a", "p", "y");
    constant(&g, "pads", 1, eight, pads, 0);
    add(&g, "Pad", "x pads", "p", "", 0, NULL);
    ints(&n, "kernel_shape", 2, five);
    ints(&n, "pads", 4, one);
    inside(&g, 1, &n);
    assert_int_equal(count_of(&g, 13, UW_LAYER_TAKE), 2);
}

/* A definition would take them for the usual values. */
static void test_zero_epsilon_and_response_norm_of_zero_are_refused(void **state)
{
    (void)state;
    struct message g = begin();
    struct message h = square();
    struct message zero = {.n = 0};
    struct message n = node("LRN", "n", "x", "y");
    struct message a = {.n = 0};
    text(&a, 1, "size");
    number(&a, 3, 3);
    inside(&n, 5, &a);
    text(&zero, 1, "bias");
    number(&zero, 20, 1);
    inside(&n, 5, &zero);
    inside(&g, 1, &n);
    expect(&g, 13, UW_ERR_UNSUPPORTED, "bias 0: need to be above 0");

    n = node("LayerNormalization", "n", "x", "y");
    zero.n = 0;
    text(&zero, 1, "epsilon");
    number(&zero, 20, 1);
    inside(&n, 5, &zero);
    inside(&h, 1, &n);
    expect(&h, 17, UW_ERR_UNSUPPORTED, "epsilon 0: needs to be above 0");
}

/* Not a constant that the input is scaled by. */
static void test_weight_of_a_normalization_of_the_input_is_its_own(void **state)
{
    static const float one[6] = {1, 1, 1, 1, 1, 1};
    static const int64_t column[2] = {6, 1};
    (void)state;
    struct message g = square();
    constant(&g, "ones", 1, column, one, 0);
    weight(&g, "zeros", 1, column, 0);
    weight(&g, "norm.weight", 2, column, 0);
    weight(&g, "norm.bias", 2, column, 0);
    add(&g, "InstanceNormalization", "x ones zeros", "n", "", 0, NULL);
    add(&g, "Mul", "n norm.weight", "m", "", 0, NULL);
    add(&g, "Add", "m norm.bias", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 17, UW_LAYER_GROUPNORM), 1);
    assert_int_equal(count_of(&g, 17, UW_LAYER_PARAMETER), 0);
}

/* [N][6][6] as one channel: the weight is a number, and the rows are no channels. */
static void test_instance_norm_of_one_channel_has_a_weight(void **state)
{
    static const int64_t axis[1] = {1};
    (void)state;
    struct message g = square();
    weight(&g, "norm.weight", 1, axis, 0);
    weight(&g, "norm.bias", 1, axis, 0);
    add(&g, "Unsqueeze", "x", "u", "axes", 1, axis);
    add(&g, "InstanceNormalization", "u norm.weight norm.bias", "y", "", 0, NULL);
    assert_int_equal(count_of(&g, 11, UW_LAYER_GROUPNORM), 1);
}

/* exp of large numbers overflows, of their distance to the largest it does not. */
static void test_log_of_a_sum_of_exp_takes_the_maximum_off(void **state)
{
    static const int64_t axis[1] = {2};
    (void)state;
    struct message g = square();
    add(&g, "ReduceLogSumExp", "x", "y", "axes", 1, axis);
    assert_int_equal(count_of(&g, 13, UW_LAYER_REDUCE), 2);
    assert_int_equal(count_of(&g, 13, UW_LAYER_ARITHMETIC), 1);
}

/* Files of a fixed minibatch have constants of its size. */
static void test_constant_that_is_equal_for_all_samples_is_one(void **state)
{
    static const int64_t rows[2] = {2, 3}, row[1] = {3};
    static const float equal[6] = {1, 2, 3, 1, 2, 3}, others[6] = {1, 2, 3, 1, 5, 3};
    static const float keep[3] = {1, 0, 1};
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        struct message g = {.n = 0};
        value(&g, 11, "x", 2, rows);
        value(&g, 12, "y", 2, rows);
        constant(&g, "fill", 2, rows, k == 0 ? equal : others, 0);
        constant(&g, "keep", 1, row, keep, 0);
        add(&g, "Where", "keep x fill", "y", "", 0, NULL);
        if (k == 0) {
            assert_int_equal(count_of(&g, 13, UW_LAYER_PARAMETER), 2);
        } else {
            expect(&g, 13, UW_ERR_UNSUPPORTED, "a value of its own for each of 2 samples");
        }
    }
}

static void test_minibatch_is_told_from_an_axis_of_its_size_by_the_other_operand(void **state)
{
    static const int64_t dim[3] = {4, 4, 6}, three[1] = {3}, exchange[3] = {1, 0, 2};
    static const float sizes[3] = {4, 4, 6}, keep[6] = {1, 0, 1, 1, 1, 1};
    (void)state;
    for (uint32_t turned = 0; turned < 2; turned++) {
        struct message g = {.n = 0};
        value(&g, 11, "x", 3, dim);
        value(&g, 12, "y", 3, dim);
        constant(&g, "sizes", 1, three, sizes, 0);
        constant(&g, "keep", 1, dim + 2, keep, 0);
        add(&g, "ConstantOfShape", "sizes", "zeros", "", 0, NULL);
        add(&g, "Transpose", "x", "t", "perm", 3, exchange);
        add(&g, "Where", turned != 0 ? "keep t zeros" : "keep x zeros", "z", "", 0, NULL);
        add(&g, turned != 0 ? "Transpose" : "Identity", "z", "y", "perm", turned != 0 ? 3 : 0,
            exchange);
        assert_int_equal(count_of(&g, 13, UW_LAYER_ARITHMETIC), 2);
    }
}

/* The minibatch is in one input only, and so no product of matrices. */
static void test_einsum_of_rows_by_rows_is_a_sum_of_products(void **state)
{
    static const char *const equation[1] = {"btf,tf->bt"};
    static const int64_t dim[2] = {6, 6};
    (void)state;
    struct message g = square(), n = node("Einsum", "e", "x p.w", "y");
    weight(&g, "p.w", 2, dim, 0);
    words(&n, "equation", 1, equation);
    inside(&g, 1, &n);
    assert_int_equal(count_of(&g, 13, UW_LAYER_MATMUL), 0);
    assert_int_equal(count_of(&g, 13, UW_LAYER_REDUCE), 1);
}

/* Else a square one would be read into the framework the wrong way round. A dense layer's weight
 * is transposed in its kernel. */
static void test_transposed_parameter_has_another_name(void **state)
{
    static const int64_t exchange[2] = {1, 0}, dim[2] = {6, 6};
    static const struct {
        const char *op, *in, *name;
    } cases[] = {
        {"Add", "x p.weight", "p.weight"},      {"Add", "x t", "p.weight_transposed"},
        {"MatMul", "x t", "p.weight"},          {"MatMul", "x p.weight", "p_transposed.weight"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message g = square();
        struct uw_convert_model c;
        struct uw_error err;
        weight(&g, "p.weight", 2, dim, 0);
        if (strcmp(cases[i].in, "x t") == 0) {
            add(&g, "Transpose", "p.weight", "t", "perm", 2, exchange);
        }
        add(&g, cases[i].op, cases[i].in, "y", "", 0, NULL);
        assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
        assert_int_equal(c.tensors_n, 1);
        assert_string_equal(c.tensors[0].name, cases[i].name);
        uw_convert_deinit(&c);
    }
}

static void test_input_that_nothing_reads_is_left_out(void **state)
{
    (void)state;
    struct message g = begin();
    struct uw_convert_model c;
    struct uw_error err;
    value(&g, 11, "unread", 1, kernel);
    add(&g, "Conv", "x conv.weight", "y", "", 0, NULL);
    assert_int_equal(read_as(&c, &g, 13, &err), UW_OK);
    assert_int_equal(c.notes_n, 1);
    assert_string_equal(c.notes[0], "input 'unread' is left out: nothing reads it");
    uw_convert_deinit(&c);
}

static void test_first_state_of_another_size_is_refused(void **state)
{
    static const char *const in[6] = {"x", "w", "r", "b", "", "h"};
    static const int64_t dim[4][3] = {{6, 0, 3}, {1, 2, 3}, {1, 2, 2}, {1, 4}};
    static const int64_t hidden[2][3] = {{1, 1, 3}, {2, 1, 2}};
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        struct message g = {.n = 0}, n = {.n = 0};
        value(&g, 11, "x", 3, dim[0]);
        value(&g, 12, "y", 3, dim[0]);
        weight(&g, "w", 3, dim[1], 0);
        weight(&g, "r", 3, dim[2], 0);
        weight(&g, "b", 2, dim[3], 0);
        weight(&g, "h", 3, hidden[k], 0);
        for (uint32_t i = 0; i < 6; i++) {
            text(&n, 1, in[i]);
        }
        text(&n, 2, "y");
        text(&n, 4, "RNN");
        inside(&g, 1, &n);
        expect(&g, 14, UW_ERR_SHAPE, "its first state is of another size than [1][N][2]");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_without_an_output_does_no_harm),
        cmocka_unit_test(test_parts_that_leave_elements_out_are_refused),
        cmocka_unit_test(test_tied_embedding_takes_only_its_vocabulary),
        cmocka_unit_test(test_embedding_of_one_index_a_sample_is_a_row),
        cmocka_unit_test(test_weight_that_was_computed_in_advance_is_told),
        cmocka_unit_test(test_part_without_elements_is_no_harm_until_it_is_read),
        cmocka_unit_test(test_axes_that_were_joined_are_cut_elsewhere),
        cmocka_unit_test(test_more_elements_than_integers_count_are_reshaped),
        cmocka_unit_test(test_weight_is_a_normalization_s_only_along_its_axes),
        cmocka_unit_test(test_weight_behind_a_second_reader_is_not_the_normalization_s),
        cmocka_unit_test(test_mean_and_spread_over_different_axes_are_no_layer_norm),
        cmocka_unit_test(test_attention_weights_add_up_to_one_over_the_keys),
        cmocka_unit_test(test_attention_s_softmax_is_over_the_last_axis),
        cmocka_unit_test(test_recurrent_activation_of_another_gate_is_refused),
        cmocka_unit_test(test_recurrent_layers_have_their_names_in_pytorch),
        cmocka_unit_test(test_same_padding_of_a_transposed_convolution_is_its_own),
        cmocka_unit_test(test_average_of_two_kinds_of_padding_keeps_them_apart),
        cmocka_unit_test(test_zero_epsilon_and_response_norm_of_zero_are_refused),
        cmocka_unit_test(test_weight_of_a_normalization_of_the_input_is_its_own),
        cmocka_unit_test(test_instance_norm_of_one_channel_has_a_weight),
        cmocka_unit_test(test_log_of_a_sum_of_exp_takes_the_maximum_off),
        cmocka_unit_test(test_constant_that_is_equal_for_all_samples_is_one),
        cmocka_unit_test(test_minibatch_is_told_from_an_axis_of_its_size_by_the_other_operand),
        cmocka_unit_test(test_einsum_of_rows_by_rows_is_a_sum_of_products),
        cmocka_unit_test(test_transposed_parameter_has_another_name),
        cmocka_unit_test(test_input_that_nothing_reads_is_left_out),
        cmocka_unit_test(test_first_state_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
