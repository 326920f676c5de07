/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ONNX file leaves to its reader: data in other files, types of numbers, the order of
 * nodes, functions and branches, the sizes of the input, one output among several. */
#include "memory_storage.h"
#include "onnx_written.h"

#include "uwasa/half.h"

#include <math.h>

static const int64_t rows[2] = {0, 3};
static const int64_t square[2] = {3, 3};

/* [N][3] in, "y" out; the graph's nodes and constants are added by the test. */
static struct message dense(void)
{
    struct message g = {.n = 0};
    value(&g, 11, "x", 2, rows);
    value(&g, 12, "y", 2, rows);
    return g;
}

static int read_with(struct uw_convert_model *c, const struct message *g,
                     const struct uw_convert_options *o, struct uw_error *err)
{
    struct message m = file_of(g, 19);
    return uw_convert_read_with(c, o, m.bytes, m.n, "m", err);
}

/* Read it, or be refused with that sentence; NULL: it is read. Returns the code. */
static int reads(struct uw_convert_model *c, const struct message *g,
                 const struct uw_convert_options *o, const char *sentence)
{
    struct uw_error err = {.text = ""};
    int rc = read_with(c, g, o, &err);
    if (sentence == NULL) {
        assert_string_equal(err.text, "");
        assert_int_equal(rc, UW_OK);
    } else if (strstr(err.text, sentence) == NULL) {
        fail_msg("'%s' has no '%s'", err.text, sentence);
    } else {
        assert_true(rc < 0);
        assert_null(c->memory);
    }
    return rc;
}

static void expect_with(const struct message *g, const struct uw_convert_options *o, int code,
                        const char *sentence)
{
    struct uw_convert_model c;
    assert_int_equal(reads(&c, g, o, sentence), code);
}

static bool tells(const struct uw_convert_model *c, const char *sentence)
{
    bool told = false;
    for (uint32_t i = 0; i < c->notes_n; i++) {
        told = told || strstr(c->notes[i], sentence) != NULL;
    }
    return told;
}

/* A constant [3][3] of that type: its elements in one of the fields, or in another file. */
static struct message typed(int64_t type)
{
    struct message t = {.n = 0};
    number(&t, 1, 3);
    number(&t, 1, 3);
    number(&t, 2, type);
    text(&t, 8, "w");
    return t;
}

static void entry(struct message *t, const char *key, const char *what)
{
    struct message e = {.n = 0};
    text(&e, 1, key);
    text(&e, 2, what);
    inside(t, 13, &e);
}

static struct message product_with(const struct message *w)
{
    struct message g = dense();
    inside(&g, 5, w);
    add(&g, "MatMul", "x w", "y", "", 0, NULL);
    return g;
}

/* The weight [out][in] of a product with w [in][out] is its transpose. */
static void expect_weight(const struct message *w, const struct uw_convert_options *o,
                          const float *want)
{
    struct message g = product_with(w);
    struct uw_convert_model c;
    reads(&c, &g, o, NULL);
    assert_int_equal(c.tensors_n, 1);
    for (uint32_t i = 0; i < 9; i++) {
        assert_true(c.tensors[0].data[i] == want[i % 3 * 3 + i / 3]);
    }
    uw_convert_deinit(&c);
}

static const float ramp[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

static void test_half_precision_widens_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        double sign = bits >> 15 != 0 ? -1.0 : 1.0;
        double want = exponent == 0 ? ldexp(fraction, -24)
                                    : ldexp(1024 + fraction, (int)exponent - 25);
        float have = uw_float_of_half((uint16_t)bits);
        if (exponent == 31) {
            assert_true(fraction != 0 ? isnan(have) : isinf(have));
        } else {
            assert_true((double)have == sign * want);
        }
        assert_int_equal(signbit(have) != 0, bits >> 15);
        uint32_t word;
        have = uw_float_of_bfloat((uint16_t)bits);
        memcpy(&word, &have, sizeof word);
        assert_int_equal(word, bits << 16);
    }
}

static void test_every_type_of_numbers_is_read_raw_and_as_a_list(void **state)
{
    static const struct {
        int64_t type;
        uint32_t bytes, field;      /* field: of the list */
    } types[] = {{2, 1, 5}, {3, 1, 5}, {4, 2, 5}, {5, 2, 5}, {6, 4, 5}, {7, 8, 7}, {9, 1, 5},
                 {12, 4, 11}, {13, 8, 11}};
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        for (uint32_t listed = 0; listed < 2; listed++) {
            struct message w = typed(types[k].type), g = dense();
            uint8_t raw[72] = {0};
            for (uint32_t i = 0; i < 9; i++) {
                raw[i * types[k].bytes] = (uint8_t)i;
                if (listed == 1) {
                    number(&w, types[k].field, i);
                }
            }
            if (listed == 0) {
                bytes(&w, 9, raw, 9 * types[k].bytes);
            }
            struct message cast = node("Cast", "cast", "w", "f"), to = {.n = 0};
            text(&to, 1, "to");
            number(&to, 3, 1);
            inside(&cast, 5, &to);
            inside(&g, 5, &w);
            inside(&g, 1, &cast);
            add(&g, "MatMul", "x f", "y", "", 0, NULL);
            struct uw_convert_model c;
            reads(&c, &g, NULL, NULL);
            for (uint32_t i = 0; i < 9; i++) {
                assert_true(c.tensors[0].data[i] == ramp[i % 3 * 3 + i / 3]);
            }
            uw_convert_deinit(&c);
        }
    }
}

static void test_floats_of_other_widths_are_read(void **state)
{
    (void)state;
    double doubles[9];
    uint16_t halves[9], brains[9];
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t word;
        float f = ramp[i];
        memcpy(&word, &f, sizeof word);
        doubles[i] = (double)f;
        brains[i] = (uint16_t)(word >> 16);
        int exponent = 0;
        float share = frexpf(f, &exponent);
        halves[i] = f == 0.0f ? 0 : (uint16_t)((uint32_t)(exponent + 14) << 10 |
                                               ((uint32_t)(share * 2048.0f) & 1023));
    }
    struct message w = typed(11);
    bytes(&w, 9, doubles, sizeof doubles);
    expect_weight(&w, NULL, ramp);
    w = typed(10);
    bytes(&w, 9, halves, sizeof halves);
    expect_weight(&w, NULL, ramp);
    w = typed(16);
    for (uint32_t i = 0; i < 9; i++) {
        number(&w, 5, brains[i]);
    }
    expect_weight(&w, NULL, ramp);
}

static void test_tensor_that_cannot_be_read_is_refused_where_it_is_needed(void **state)
{
    (void)state;
    struct message strings = typed(8), small = typed(22), values = typed(1), sparse = {.n = 0};
    struct message g = product_with(&strings);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "tensor w: its element type string is not read");
    g = product_with(&small);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "tensor w: its element type, number 22, is not read");
    inside(&sparse, 1, &values);
    g = dense();
    inside(&g, 15, &sparse);
    add(&g, "MatMul", "x w", "y", "", 0, NULL);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "tensor w: is sparse");

    g = dense();
    inside(&g, 5, &strings);
    constant(&g, "v", 2, square, ramp, 0);
    add(&g, "MatMul", "x v", "y", "", 0, NULL);
    struct uw_convert_model c;
    reads(&c, &g, NULL, NULL);
    uw_convert_deinit(&c);
}

static void test_external_data_is_read_at_its_offset(void **state)
{
    (void)state;
    uint8_t file[64] = "head";
    memcpy(file + 4, ramp, sizeof ramp);
    struct memory_storage files = {.base = {&memory_storage_ops}, .bytes = file, .bytes_n = 40};
    const struct uw_convert_options o = {.files = &files.base};
    struct message w = typed(1);
    entry(&w, "location", "sub/w.bin");
    entry(&w, "offset", "4");
    entry(&w, "length", "36");
    entry(&w, "checksum", "anything");
    number(&w, 14, 1);
    expect_weight(&w, &o, ramp);

    struct message g = product_with(&w);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "lies in another file, 'sub/w.bin'");
    files.bytes_n = 39;
    expect_with(&g, &o, UW_ERR_CORRUPT, "'sub/w.bin' has 39 bytes, its data lies at 4 to 40");
    files.bytes = NULL;
    expect_with(&g, &o, UW_ERR_NOTFOUND, "its data lies in 'sub/w.bin': no such file");
    entry(&w, "length", "36");
    files = (struct memory_storage){.base = {&memory_storage_ops}, .bytes = file, .bytes_n = 40,
                                    .fail_in = 2};
    expect_with(&g, &o, UW_ERR_IO, "'sub/w.bin' cannot be read");
}

static void test_external_data_outside_the_folder_is_refused(void **state)
{
    static const char *const paths[] = {"/etc/passwd", "../w.bin", "sub/../../w.bin", "..", "",
                                        "c:w.bin", "sub\\w.bin"};
    static const char *const numbers[] = {"-1", "1x", "", "99999999999999999999999999"};
    (void)state;
    uint8_t file[36] = {0};
    struct memory_storage files = {.base = {&memory_storage_ops}, .bytes = file, .bytes_n = 36};
    const struct uw_convert_options o = {.files = &files.base};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct message w = typed(1);
        entry(&w, "location", paths[i]);
        number(&w, 14, 1);
        struct message g = product_with(&w);
        expect_with(&g, &o, UW_ERR_UNSUPPORTED, "outside the model's folder");
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct message w = typed(1);
        entry(&w, "location", "..w.bin");
        entry(&w, "offset", numbers[i]);
        struct message g = product_with(&w);
        expect_with(&g, &o, UW_ERR_CORRUPT, "an offset or length that is no number");
    }
    struct message w = typed(1);
    entry(&w, "location", "w.bin");
    entry(&w, "length", "35");
    struct message g = product_with(&w);
    expect_with(&g, &o, UW_ERR_CORRUPT, "has 35 bytes in 'w.bin', its shape needs 36");
}

static void test_nodes_are_sorted_and_branches_too(void **state)
{
    static const bool yes = true;
    (void)state;
    for (uint32_t chosen = 0; chosen < 2; chosen++) {
        struct message g = dense(), flag = {.n = 0}, branch = {.n = 0}, a = {.n = 0};
        struct message choice = node("If", "choice", "flag", "c");
        constant(&g, "w", 2, square, ramp, 0);
        number(&flag, 2, 9);
        text(&flag, 8, "flag");
        bytes(&flag, 9, &yes, 1);
        inside(&g, 5, &flag);
        value(&branch, 12, "b", 2, rows);
        add(&branch, "Tanh", "r", "b", "", 0, NULL);
        add(&branch, "Relu", "h", "r", "", 0, NULL);
        text(&a, 1, chosen == 0 ? "then_branch" : "else_branch");
        inside(&a, 6, &branch);
        inside(&choice, 5, &a);
        add(&g, "Identity", "c", "y", "", 0, NULL);
        inside(&g, 1, &choice);
        add(&g, "MatMul", "x w", "h", "", 0, NULL);
        struct uw_convert_model c;
        if (chosen == 1) {
            expect_with(&g, NULL, UW_ERR_CORRUPT, "its branch has no graph");
            continue;
        }
        reads(&c, &g, NULL, NULL);
        assert_int_equal(c.def.layers_n, 3);
        assert_int_equal(c.def.layers[1].kind, UW_LAYER_RELU);
        assert_int_equal(c.def.layers[2].kind, UW_LAYER_TANH);
        uw_convert_deinit(&c);
    }
    struct message g = dense();
    struct message choice = node("If", "choice", "x", "y");
    inside(&g, 1, &choice);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "its condition depends on the sample");
}

static void test_function_that_calls_itself_is_refused(void **state)
{
    (void)state;
    for (uint32_t calls = 1; calls <= 2; calls++) {
        struct message g = dense(), f = {.n = 0};
        struct message first = node("F", "outer", "x", "y");
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        text(&first, 7, "mine");
        inside(&g, 1, &first);
        text(&f, 1, "F");
        text(&f, 4, "a");
        text(&f, 5, "b");
        text(&f, 10, "mine");
        for (uint32_t i = 0; i < calls; i++) {
            struct message again = node("F", "inner", "a", i == 0 ? "b" : "c");
            text(&again, 7, "mine");
            inside(&f, 7, &again);
        }
        struct message m = file_of(&g, 19);
        inside(&m, 25, &f);
        assert_int_equal(uw_convert_read(&c, m.bytes, m.n, "m", &err), UW_ERR_TOOBIG);
        assert_non_null(strstr(err.text, "its functions call themselves"));
    }
}

/* The input x, whose axes have a name or, without one, a size (0: neither); rank 0: no shape. */
static void open_input(struct message *g, uint32_t rank, const char *const *names,
                       const int64_t *dim)
{
    struct message shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, info = {.n = 0};
    for (uint32_t a = 0; a < rank; a++) {
        struct message d = {.n = 0};
        if (names[a] != NULL) {
            text(&d, 2, names[a]);
        } else {
            number(&d, 1, dim[a]);
        }
        inside(&shape, 1, &d);
    }
    number(&tensor, 1, 1);
    if (rank > 0) {
        inside(&tensor, 2, &shape);
    }
    inside(&type, 1, &tensor);
    text(&info, 1, "x");
    inside(&info, 2, &type);
    inside(g, 11, &info);
}

/* [seq][batch_size][3] through a layer norm. */
static struct message sequence(void)
{
    static const char *const names[3] = {"seq", "batch_size", NULL};
    static const int64_t exchange[3] = {1, 0, 2}, out[2] = {0, 0}, dim[3] = {0, 0, 3};
    struct message g = {.n = 0}, turn = node("Transpose", "turn", "x", "t");
    open_input(&g, 3, names, dim);
    value(&g, 12, "y", 2, out);
    ints(&turn, "perm", 3, exchange);
    inside(&g, 1, &turn);
    add(&g, "LayerNormalization", "t", "n", "", 0, NULL);
    add(&g, "Flatten", "n", "y", "", 0, NULL);
    return g;
}

static void test_minibatch_is_the_axis_so_named_or_the_only_open_one_or_the_first(void **state)
{
    static const struct {
        uint32_t rank;
        const char *names[4];
        int64_t dim[4];
        const char *shape, *said;   /* said: the refusal, or NULL */
        uint32_t fixed;             /* size of the minibatch */
    } cases[] = {
        {4, {NULL, NULL, "height", "width"}, {1, 3, 0, 0}, NULL,
         "--shape height=SIZE,width=SIZE", 0},
        {4, {NULL, NULL, NULL, NULL}, {0, 3, 0, 0}, NULL, "--shape 1,3,SIZE,SIZE", 0},
        {4, {NULL, NULL, "height", "width"}, {1, 3, 0, 0}, "height=4,width=5", NULL, 1},
        {4, {NULL, NULL, "height", "width"}, {1, 3, 0, 0}, "3,4,5", NULL, 1},
        {4, {"N", NULL, "height", "width"}, {0, 3, 0, 0}, "8,3,4,5", NULL, 0},
        {2, {"s77", NULL}, {0, 5}, NULL, NULL, 0},
        {0, {NULL}, {0}, "3,4,5", NULL, 0},
        {0, {NULL}, {0}, NULL, "input 'x' has 0 axes", 0},
        {0, {NULL}, {0}, "1,3,4,5", "a sample of more than 3 axes", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const int64_t out[2] = {0, 0};
        struct message g = {.n = 0};
        const struct uw_convert_options o = {.shape = cases[i].shape};
        struct uw_convert_model c;
        open_input(&g, cases[i].rank, cases[i].names, cases[i].dim);
        value(&g, 12, "y", 2, out);
        add(&g, "Relu", "x", "r", "", 0, NULL);
        add(&g, "Flatten", "r", "y", "", 0, NULL);
        if (reads(&c, &g, &o, cases[i].said) < 0) {
            continue;
        }
        assert_int_equal(c.input.batch, 0);
        assert_int_equal(c.input.dim[0], cases[i].fixed);
        assert_int_equal(c.def.in_h, cases[i].rank == 2 ? 0 : 4);
        uw_convert_deinit(&c);
    }
}

static void test_shape_gives_the_sizes_that_the_input_leaves_open(void **state)
{
    static const struct {
        const char *shape;
        uint32_t steps;             /* 0: refused, with ... */
        const char *sentence;       /* ... this */
    } cases[] = {
        {NULL, 0, "axis 0 has no fixed size, beside the minibatch at axis 1: give it with "
                  "--shape seq=SIZE"},
        {"seq=5", 5, NULL},
        {"5,3", 5, NULL},
        {"7,1,3", 7, NULL},
        {"seq=0", 0, "--shape seq=0: no size"},
        {"seq", 0, "--shape seq: no size: needs NAME=SIZE,.. or all sizes"},
        {"length=5", 0, "input 'x' has no axis named length"},
        {"5", 0, "--shape 5: 1 sizes; input 'x' has 3 axes"},
        {"5,1,4", 0, "axis 2 of input 'x' is 3 in the file, not 4"},
        {"5,1,3,1,1,1,1,1,1", 0, "more than 8 axes"},
        {"5,,3", 0, "no size"},
        {"seq=99999999999", 0, "no size"},
    };
    (void)state;
    struct message g = sequence();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct uw_convert_options o = {.shape = cases[i].shape};
        struct uw_convert_model c;
        if (reads(&c, &g, &o, cases[i].sentence) < 0) {
            continue;
        }
        assert_int_equal(c.def.in_channels, cases[i].steps);
        assert_int_equal(c.def.in_w, 3);
        assert_int_equal(c.input.batch, 1);
        assert_string_equal(c.input.symbol, "batch_size");
        uw_convert_deinit(&c);
    }
}

static void test_one_of_several_outputs_is_chosen(void **state)
{
    static const int64_t two[2] = {0, 2}, narrow[2] = {3, 2};
    (void)state;
    struct message g = dense();
    value(&g, 12, "z", 2, two);
    constant(&g, "w", 2, square, ramp, 0);
    constant(&g, "v", 2, narrow, ramp, 0);
    add(&g, "MatMul", "x w", "h", "", 0, NULL);
    add(&g, "Softmax", "h", "y", "", 0, NULL);
    add(&g, "MatMul", "h v", "z", "", 0, NULL);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "--output y trains that one");
    expect_with(&g, &(struct uw_convert_options){.output = "h"}, UW_ERR_INVALID,
                "--output h: no such output: it has 'y', 'z'");
    for (uint32_t i = 0; i < 2; i++) {
        const struct uw_convert_options o = {.output = i == 0 ? "y" : "z"};
        struct uw_convert_model c;
        reads(&c, &g, &o, NULL);
        assert_int_equal(c.def.layers_n, 1 + i);
        assert_int_equal(c.outputs_n, 1);
        assert_string_equal(c.output[0].name, o.output);
        assert_true((c.output[0].left_out != NULL) == (i == 0));
        assert_true(tells(&c, i == 0 ? "'z' is left out" : "'y' is left out"));
        uw_convert_deinit(&c);
    }
}

static bool holds(const struct message *m, const char *word)
{
    for (size_t i = 0; i + strlen(word) <= m->n; i++) {
        if (memcmp(m->bytes + i, word, strlen(word)) == 0) {
            return true;
        }
    }
    return false;
}

static void test_minibatch_behind_another_axis_is_written_there_again(void **state)
{
    (void)state;
    struct message g = sequence();
    struct uw_convert_model c, again;
    struct uw_error err = {.text = ""};
    assert_int_equal(read_with(&c, &g, &(struct uw_convert_options){.shape = "seq=5"}, &err),
                     UW_OK);
    struct message m = written(&c);
    assert_int_equal(uw_convert_read(&again, m.bytes, m.n, "m", &err), UW_OK);
    assert_int_equal(again.input.batch, 1);
    assert_int_equal(again.input.rank, 3);
    assert_int_equal(again.input.dim[0], 5);
    assert_int_equal(again.input.dim[1], 0);
    assert_string_equal(again.input.symbol, "batch_size");
    assert_int_equal(again.output[0].batch, 0);
    uw_convert_deinit(&again);
    uw_convert_deinit(&c);
}

static void test_names_of_weights_and_ends_and_the_softmax_come_back(void **state)
{
    static const int64_t three[1] = {3};
    (void)state;
    for (uint32_t end = 0; end < 2; end++) {
        struct message g = {.n = 0}, n = node("Gemm", "fc", "sensor kernel shift", "h");
        struct message a = {.n = 0};
        struct uw_convert_model c, again;
        struct uw_error err = {.text = ""};
        value(&g, 11, "sensor", 2, rows);
        value(&g, 12, "odds", 2, rows);
        constant(&g, "kernel", 2, square, ramp, 0);
        constant(&g, "shift", 1, three, ramp, 0);
        text(&a, 1, "transB");
        number(&a, 3, 1);
        inside(&n, 5, &a);
        inside(&g, 1, &n);
        add(&g, end == 0 ? "LogSoftmax" : "Softmax", "h", "odds", "", 0, NULL);
        assert_int_equal(read_with(&c, &g, NULL, &err), UW_OK);
        struct message m = written(&c);
        assert_true(holds(&m, "kernel") && holds(&m, "shift") && holds(&m, "sensor"));
        assert_int_equal(uw_convert_read(&again, m.bytes, m.n, "m", &err), UW_OK);
        assert_string_equal(again.input.name, "sensor");
        assert_string_equal(again.output[0].name, "odds");
        assert_string_equal(again.output[0].left_out, end == 0 ? "LogSoftmax" : "Softmax");
        uw_convert_deinit(&again);
        uw_convert_deinit(&c);
    }
}

static void test_several_inputs_come_back_under_their_names(void **state)
{
    static const char *const names[2] = {"n", "width"};
    static const int64_t five[2] = {0, 5}, out[2] = {0, 8};
    (void)state;
    struct message g = {.n = 0}, n = node("Concat", "join", "x wave", "y"), a = {.n = 0};
    struct uw_convert_model c, again;
    struct uw_error err = {.text = ""};
    open_input(&g, 2, names, five);
    value(&g, 11, "wave", 2, five);
    value(&g, 12, "y", 2, out);
    text(&a, 1, "axis");
    number(&a, 3, 1);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    assert_int_equal(read_with(&c, &g, &(struct uw_convert_options){.shape = "width=3"}, &err),
                     UW_OK);
    assert_int_equal(c.def.in_channels, 8);
    struct message m = written(&c);
    assert_int_equal(uw_convert_read(&again, m.bytes, m.n, "m", &err), UW_OK);
    assert_int_equal(again.columns_n, 2);
    assert_string_equal(again.columns[0].name, "x");
    assert_string_equal(again.columns[1].name, "wave");
    assert_int_equal(again.columns[0].dim[1], 3);
    assert_int_equal(again.columns[1].dim[1], 5);
    uw_convert_deinit(&again);
    uw_convert_deinit(&c);
}

static void test_group_norm_up_to_opset_20_has_a_weight_for_each_group(void **state)
{
    static const int64_t dim[3] = {0, 4, 5}, two[1] = {2};
    static const float weight_of_group[2] = {2, 3}, bias_of_group[2] = {0.5f, -1};
    (void)state;
    struct message g = {.n = 0}, n = node("GroupNormalization", "gn", "x w b", "y"), a = {.n = 0};
    struct uw_convert_model c;
    value(&g, 11, "x", 3, dim);
    value(&g, 12, "y", 3, dim);
    constant(&g, "w", 1, two, weight_of_group, 0);
    constant(&g, "b", 1, two, bias_of_group, 0);
    text(&a, 1, "num_groups");
    number(&a, 3, 2);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    reads(&c, &g, NULL, NULL);
    assert_int_equal(c.def.layers[0].kind, UW_LAYER_GROUPNORM);
    assert_int_equal(c.tensors_n, 2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(c.tensors[0].data[i] == weight_of_group[i / 2]);
        assert_true(c.tensors[1].data[i] == bias_of_group[i / 2]);
    }
    uw_convert_deinit(&c);
}

static void test_attention_has_a_mask_and_no_cache(void **state)
{
    static const int64_t dim[4] = {0, 2, 3, 4}, mask_dim[2] = {3, 3};
    (void)state;
    struct message g = {.n = 0};
    struct uw_convert_model c;
    struct uw_error err;
    value(&g, 11, "x", 4, dim);
    value(&g, 12, "y", 4, dim);
    constant(&g, "mask", 2, mask_dim, ramp, 0);
    struct message cached = g;
    add(&g, "Attention", "x x x mask", "y", "", 0, NULL);
    assert_int_equal(read_as(&c, &g, 23, &err), UW_OK);
    uw_convert_deinit(&c);
    g = cached;
    add(&g, "Attention", "x x x mask x", "y", "", 0, NULL);
    expect(&g, 23, UW_ERR_UNSUPPORTED, "node 'y' (Attention): only Q, K and V of");
}

/* A node with up to two attributes more, of whole numbers; a name of NULL: none. */
static void add_with(struct message *g, const char *op, const char *in, const char *a, int64_t a_is,
                     const char *b, int64_t b_is)
{
    struct message n = node(op, "y", in, "y");
    const char *name[2] = {a, b};
    const int64_t is[2] = {a_is, b_is};
    for (uint32_t i = 0; i < 2 && name[i] != NULL; i++) {
        struct message e = {.n = 0};
        text(&e, 1, name[i]);
        number(&e, 3, is[i]);
        inside(&n, 5, &e);
    }
    inside(g, 1, &n);
}

static void test_causal_mask_has_up_to_2048_tokens(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t dim[4] = {0, 1, i == 0 ? 2048 : 2049, 2};
        struct message g = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err;
        value(&g, 11, "x", 4, dim);
        value(&g, 12, "y", 4, dim);
        add_with(&g, "Attention", "x x x", "is_causal", 1, NULL, 0);
        if (i == 0) {
            assert_int_equal(read_as(&c, &g, 23, &err), UW_OK);
            uw_convert_deinit(&c);
        } else {
            expect(&g, 23, UW_ERR_UNSUPPORTED, "a computed constant of more than 4194304");
        }
    }
}

/* (That they compute what they should: tests/parity/gen_forms.py.) */
static void test_heads_and_angles_that_do_not_fit_are_refused(void **state)
{
    static const int64_t three[3] = {0, 3, 8}, heads[4] = {0, 2, 3, 4}, angles[3] = {1, 3, 2},
                         each[3] = {2, 2, 2}, steps[3] = {1, 2, 2}, table[2] = {3, 2},
                         places[2] = {1, 3};
    static const float far[3] = {0, 1, 3};
    static const struct {
        const int64_t *x;
        const char *op, *in, *a;
        int64_t a_is;
        const char *b;
        int64_t b_is;
        const char *says;
    } cases[] = {
        {three, "Attention", "x x x", "q_num_heads", 2, NULL, 0, "only Q, K and V of"},
        {three, "Attention", "x x x", "q_num_heads", 3, "kv_num_heads", 3, "does not hold"},
        {three, "Attention", "x x x", "q_num_heads", 2, "kv_num_heads", 4, "does not hold"},
        {heads, "Attention", "x x x", "q_num_heads", 2, "kv_num_heads", 2, "(Transpose)"},
        {heads, "Attention", "x x x", "softcap", 0, "left_window_size", 1, "only Q, K and V of"},
        {three, "RotaryEmbedding", "x c c", "num_heads", 0, NULL, 0, "needs [N][heads]"},
        {three, "RotaryEmbedding", "x c c", "num_heads", 3, NULL, 0, "needs [N][heads]"},
        {heads, "RotaryEmbedding", "x c c", "rotary_embedding_dim", 3, NULL, 0, "even part"},
        {heads, "RotaryEmbedding", "x c c", "rotary_embedding_dim", 6, NULL, 0, "even part"},
        {heads, "RotaryEmbedding", "x c c", "rotary_embedding_dim", 2, NULL, 0,
         "needs 1 angles for each of 3 steps"},
        {heads, "RotaryEmbedding", "x c each", NULL, 0, NULL, 0, "the same for all samples"},
        {heads, "RotaryEmbedding", "x steps c", NULL, 0, NULL, 0, "for each of 3 steps"},
        {heads, "RotaryEmbedding", "x table table far", NULL, 0, NULL, 0, "position 3 of 3"},
        {heads, "RotaryEmbedding", "x c c far", NULL, 0, NULL, 0, "needs 2 angles"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message g = {.n = 0};
        value(&g, 11, "x", cases[i].x == three ? 3 : 4, cases[i].x);
        value(&g, 12, "y", cases[i].x == three ? 3 : 4, cases[i].x);
        constant(&g, "c", 3, angles, ramp, 0);
        constant(&g, "each", 3, each, ramp, 0);
        constant(&g, "steps", 3, steps, ramp, 0);
        constant(&g, "table", 2, table, ramp, 0);
        constant(&g, "far", 2, places, far, 0);
        add_with(&g, cases[i].op, cases[i].in, cases[i].a, cases[i].a_is, cases[i].b,
                 cases[i].b_is);
        struct message m = file_of(&g, 23);
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        assert_true(uw_convert_read_with(&c, NULL, m.bytes, m.n, "m", &err) < 0);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
}

static void test_loop_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct message g = dense(), n = node("Scan", "l", "x x x", "y");
    inside(&g, 1, &n);
    expect_with(&g, NULL, UW_ERR_UNSUPPORTED, "a loop over an axis: export the model");
}

static void test_folded_batch_norm_is_told(void **state)
{
    (void)state;
    struct message g = dense(), n = node("Gemm", "fc", "x w", "y"), e = {.n = 0};
    constant(&g, "w", 2, square, ramp, 0);
    text(&e, 1, "pkg.onnxscript.rewriter.rule_name");
    text(&e, 2, "RemoveOptionalBiasFromGemm, FuseBatchNormIntoGemm, RemoveOptionalBiasFromGemm");
    inside(&n, 9, &e);
    inside(&g, 1, &n);
    struct uw_convert_model c;
    reads(&c, &g, NULL, NULL);
    assert_true(tells(&c, "batch norm was folded"));
    assert_true(tells(&c, "rule FuseBatchNormIntoGemm), "));
    uw_convert_deinit(&c);
}

/* Of one convolution with these names; the batch norm of another may still be there. */
static void test_batch_norm_that_an_older_exporter_folded_is_told(void **state)
{
    static const int64_t kernel1[4] = {3, 3, 1, 1}, three[1] = {3};
    static const struct {
        const char *weight, *bias, *other, *made;
        bool kept, told;
    } cases[] = {
        {"onnx::Conv_19", "onnx::Conv_20", "fc.weight", "/conv1/Conv_output_0", false, true},
        {"onnx::Conv_19", "onnx::Conv_20", "fc.weight", "/conv1/Conv_output_0", true, true},
        {"onnx::Conv_19", "conv1.bias", "fc.weight", "/conv1/Conv_output_0", true, false},
        {"19", "20", "fc.weight", "21", false, true},
        {"19", "20", "18", "21", false, false}, /* by a program that numbers all tensors */
        {"c.weight", "c.bias", "fc.weight", "/bn/BatchNormalization_output_0", false, true},
        {"c.weight", "c.bias", "fc.weight", "/batch_norms/c/Conv_output_0", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char in[80];
        struct message g = {.n = 0};
        struct uw_convert_model c;
        value(&g, 11, "x", 4, (const int64_t[]){0, 3, 1, 1});
        value(&g, 12, "y", 4, (const int64_t[]){0, 3, 1, 1});
        constant(&g, cases[i].weight, 4, kernel1, ramp, 0);
        constant(&g, cases[i].bias, 1, three, ramp, 0);
        constant(&g, cases[i].other, 1, three, ramp + 1, 0);
        snprintf(in, sizeof in, "x %s %s", cases[i].weight, cases[i].bias);
        add(&g, "Conv", in, cases[i].made, "", 0, NULL);
        snprintf(in, sizeof in, "%s %s %s %s %s", cases[i].made, cases[i].other, cases[i].other,
                 cases[i].other, cases[i].other);
        add(&g, cases[i].kept ? "BatchNormalization" : "Relu", cases[i].kept ? in
            : cases[i].made, "y", "", 0, NULL);
        reads(&c, &g, NULL, NULL);
        assert_int_equal(tells(&c, "batch norm was folded"), cases[i].told);
        uw_convert_deinit(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_precision_widens_exactly),
        cmocka_unit_test(test_every_type_of_numbers_is_read_raw_and_as_a_list),
        cmocka_unit_test(test_floats_of_other_widths_are_read),
        cmocka_unit_test(test_tensor_that_cannot_be_read_is_refused_where_it_is_needed),
        cmocka_unit_test(test_external_data_is_read_at_its_offset),
        cmocka_unit_test(test_external_data_outside_the_folder_is_refused),
        cmocka_unit_test(test_nodes_are_sorted_and_branches_too),
        cmocka_unit_test(test_function_that_calls_itself_is_refused),
        cmocka_unit_test(test_minibatch_is_the_axis_so_named_or_the_only_open_one_or_the_first),
        cmocka_unit_test(test_shape_gives_the_sizes_that_the_input_leaves_open),
        cmocka_unit_test(test_one_of_several_outputs_is_chosen),
        cmocka_unit_test(test_minibatch_behind_another_axis_is_written_there_again),
        cmocka_unit_test(test_names_of_weights_and_ends_and_the_softmax_come_back),
        cmocka_unit_test(test_several_inputs_come_back_under_their_names),
        cmocka_unit_test(test_group_norm_up_to_opset_20_has_a_weight_for_each_group),
        cmocka_unit_test(test_attention_has_a_mask_and_no_cache),
        cmocka_unit_test(test_causal_mask_has_up_to_2048_tokens),
        cmocka_unit_test(test_heads_and_angles_that_do_not_fit_are_refused),
        cmocka_unit_test(test_loop_is_refused_with_what_to_do),
        cmocka_unit_test(test_folded_batch_norm_is_told),
        cmocka_unit_test(test_batch_norm_that_an_older_exporter_folded_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
