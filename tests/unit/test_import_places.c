/* SPDX-License-Identifier: Apache-2.0
 *
 * Indices that a graph computes: what is not the same place of every sample is refused, and so is
 * what would take far more time or memory than the file is worth. */
#include "onnx_message.h"

static const int64_t four[2] = {0, 4}, pair[2] = {1, 2}, one_n[1] = {1}, two_n[1] = {2};
static const int64_t ones[6] = {1, 1, 1, 1, 1, 1};

static void integer(struct message *g, const char *name, uint32_t rank, int64_t v)
{
    integers(g, name, rank, one_n, &v);
}

/* x [N][4], its samples' numbers r, and numbers by name. */
static struct message begin_samples(void)
{
    static const int64_t before[2] = {0, -1}, back[2] = {-1, 1}, rows[2] = {2, 1};
    struct message g = {.n = 0};
    value(&g, 11, "x", 2, four);
    value(&g, 12, "y", 2, four);
    integer(&g, "zero", 0, 0);
    integer(&g, "one", 0, 1);
    integer(&g, "four", 0, 4);
    integer(&g, "first", 1, 0);
    integer(&g, "last", 1, -1);
    integer(&g, "least", 1, INT64_MIN);
    integer(&g, "two", 1, 2);
    integers(&g, "before", 1, two_n, before);
    integers(&g, "back", 1, two_n, back);
    integers(&g, "rows", 2, rows, before);
    add(&g, "Shape", "x", "sizes", "", 0, NULL);
    add(&g, "Gather", "sizes zero", "n", "", 0, NULL);
    add(&g, "Range", "zero n one", "r", "", 0, NULL);
    add(&g, "Reshape", "r back", "column", "", 0, NULL);
    add(&g, "Reshape", "x last", "all", "", 0, NULL);
    return g;
}

/* As PyTorch's newer exporter begins as_strided: only as a place it is the same for all samples. */
static void test_number_for_each_sample_is_refused_as_a_value(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct message g = begin_samples();
        add(&g, "Mul", i == 0 ? "x r" : "r r", i == 0 ? "y" : "squares", "", 0, NULL);
        if (i == 1) {
            add(&g, "Gather", "x squares", "y", "", 0, NULL);
        }
        expect(&g, 17, UW_ERR_UNSUPPORTED, "(Mul): a number for each sample of the minibatch: its "
                                           "layers see one sample");
    }
}

/* Element -1 of a sample is the last one of the sample before it; the samples of a turned minibatch
 * are others; samples along another axis are not those of axis 0. */
static void test_places_of_other_samples_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct message g = begin_samples();
        if (i == 0) {
            add(&g, "Mul", "column four", "starts", "", 0, NULL);
            add(&g, "Add", "starts before", "at", "", 0, NULL);
        } else if (i == 1) {
            add(&g, "Slice", "column last least first last", "at", "", 0, NULL);
        } else if (i == 2) {
            add(&g, "Add", "r rows", "at", "", 0, NULL);
        } else {
            add(&g, "Add", "r column", "at", "", 0, NULL);
        }
        add(&g, "Gather", "all at", "y", "", 0, NULL);
        expect(&g, 17, UW_ERR_UNSUPPORTED, "a number for each sample of the minibatch");
    }
}

/* x[i - k, ..]: of k 0 the sample itself, of others another one. */
static void test_index_of_another_sample_is_refused(void **state)
{
    static const int64_t three[1] = {3}, shape[2][3] = {{-1, 2, 1}, {-1, 1, 1}};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct message g = begin_samples(), n = node("Concat", "c", i == 0 ? "turned column3"
                                                     : "column3 column3 turned", "at");
        struct message a = {.n = 0};
        integers(&g, "shape3", 1, three, shape[i]);
        add(&g, "Add", "column before", "others", "", 0, NULL);
        add(&g, "Reshape", i == 0 ? "others shape3" : "column shape3", "turned", "", 0, NULL);
        add(&g, "Shape", "turned", "sizes3", "", 0, NULL);
        add(&g, "Expand", "zero sizes3", "column3", "", 0, NULL);
        text(&a, 1, "axis");
        number(&a, 3, -1);
        inside(&n, 5, &a);
        inside(&g, 1, &n);
        add(&g, "GatherND", "x at", "y", "", 0, NULL);
        expect(&g, 17, UW_ERR_UNSUPPORTED, i == 0 ? "its indices mix samples"
                                                  : "a number for each sample");
    }
}

/* index_add, as PyTorch's older exporter writes it without its reduction. */
static void test_place_that_gets_two_updates_without_a_reduction_is_refused(void **state)
{
    static const int64_t places[2] = {1, 1};
    (void)state;
    struct message g = begin_samples(), n = node("ScatterElements", "s", "x at part", "y");
    struct message a = {.n = 0};
    integers(&g, "places", 2, pair, places);
    integer(&g, "step", 1, 1);
    add(&g, "Slice", "x first two step", "part", "", 0, NULL);
    add(&g, "Shape", "part", "sizes2", "", 0, NULL);
    add(&g, "Expand", "places sizes2", "at", "", 0, NULL);
    text(&a, 1, "axis");
    number(&a, 3, 1);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    expect(&g, 17, UW_ERR_UNSUPPORTED, "which update stays is not defined");
}

/* Places are counted from the end, once: -4 is 0 and -5 is none. */
static void test_places_below_zero_are_counted_from_the_end(void **state)
{
    static const char *const op[2] = {"GatherElements", "ScatterElements"};
    (void)state;
    for (int64_t i = 0; i < 4; i++) {
        struct message g = begin_samples(), n = node(op[i / 2], "p", i < 2 ? "x at" : "x at u",
                                                     "y"), a = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err;
        integer(&g, "step", 1, 1);
        integers(&g, "from_end", 2, ones, (const int64_t[]){-4 - i % 2});
        add(&g, "Slice", "x first step step", "u", "", 0, NULL);
        add(&g, "Shape", "u", "sizes_u", "", 0, NULL);
        add(&g, "Expand", "from_end sizes_u", "at", "", 0, NULL);
        text(&a, 1, "axis");
        number(&a, 3, 1);
        inside(&n, 5, &a);
        inside(&g, 1, &n);
        if (i % 2 == 1) {
            expect(&g, 17, UW_ERR_SHAPE, " of 4 values");
            continue;
        }
        int rc = read_as(&c, &g, 17, &err);
        assert_string_equal(rc < 0 ? err.text : "", "");
        uw_convert_deinit(&c);
    }
}

/* x[:] = u of another size; an axis that constants lack; more places than integers count; more axes
 * of indices than the updates have. */
static void test_updates_that_do_not_fit_are_refused(void **state)
{
    static const int64_t many[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 4}, dim[2] = {1, 3};
    static const int64_t at[3] = {1, 1, 1}, four_n[1] = {4};
    (void)state;
    struct message g = begin_samples();
    add(&g, "Slice", "x first two last", "u", "", 0, NULL);
    add(&g, "ScatterND", "x column u", "y", "", 0, NULL);
    expect(&g, 17, UW_ERR_SHAPE, "its updates do not fit its indices");

    g = begin_samples();
    struct message n = node("ScatterElements", "s", "before back back", "k"), a = {.n = 0};
    text(&a, 1, "axis");
    number(&a, 3, 7);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    add(&g, "Gather", "x k", "y", "", 0, NULL);
    expect(&g, 17, UW_ERR_SHAPE, "axis 7");

    g = begin_samples();
    integers(&g, "many", 1, four_n, many);
    integers(&g, "at", 2, dim, at);
    add(&g, "Expand", "zero many", "c", "", 0, NULL);
    add(&g, "ScatterND", "c at x", "y", "", 0, NULL);
    expect(&g, 17, UW_ERR_TOOBIG, "its axes are too large");

    g = begin_samples();
    integers(&g, "deep", 6, ones, at);
    add(&g, "ScatterND", "x deep x", "y", "", 0, NULL);
    expect(&g, 17, UW_ERR_SHAPE, "2 axes are too few for its indices");
}

/* A weight that is computed: of each output the inputs are listed. */
static void test_huge_output_of_a_computed_transposed_convolution_is_refused(void **state)
{
    static const int64_t wide[4] = {1, 1, 16, 16}, far[2] = {300, 300}, most[2] = {65535, 65535};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct message g = begin(), n = node("ConvTranspose", "t", "x v", "y");
        weight(&g, "w", 4, wide, 0);
        add(&g, "Tanh", "w", "v", "", 0, NULL);
        ints(&n, i == 0 ? "dilations" : "strides", 2, i == 0 ? far : most);
        inside(&g, 1, &n);
        expect(&g, 17, i == 0 ? UW_ERR_UNSUPPORTED : UW_ERR_TOOBIG,
               i == 0 ? "grow far beyond the file" : "its output is too large");
    }
}

/* Lists of an average along one axis that are no list of its axes, or say more than a kernel. */
static void test_average_along_an_axis_is_plain(void **state)
{
    static const int64_t dim[4] = {0, 2, 3, 4}, wide[3] = {1, 1, 2};
    static const char *const same = "SAME_UPPER";
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct message g = {.n = 0}, n = node("AveragePool", "a", "v", "y");
        value(&g, 11, "x", 4, dim);
        value(&g, 12, "y", 4, dim);
        integer(&g, "one", 1, 1);
        add(&g, "Unsqueeze", "x one", "v", "", 0, NULL);
        ints(&n, "kernel_shape", 3, wide);
        if (i == 0) {
            ints(&n, "strides", 1, one_n);
        } else if (i == 1) {
            ints(&n, "dilations", 3, wide);
        } else {
            words(&n, "auto_pad", 1, &same);
        }
        inside(&g, 1, &n);
        expect(&g, 19, UW_ERR_UNSUPPORTED, "over 3 axes: only 1 or 2 are trained");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_for_each_sample_is_refused_as_a_value),
        cmocka_unit_test(test_places_of_other_samples_are_refused),
        cmocka_unit_test(test_index_of_another_sample_is_refused),
        cmocka_unit_test(test_place_that_gets_two_updates_without_a_reduction_is_refused),
        cmocka_unit_test(test_places_below_zero_are_counted_from_the_end),
        cmocka_unit_test(test_updates_that_do_not_fit_are_refused),
        cmocka_unit_test(test_huge_output_of_a_computed_transposed_convolution_is_refused),
        cmocka_unit_test(test_average_along_an_axis_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
