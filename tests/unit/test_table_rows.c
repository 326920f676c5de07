/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples from the lines of a table, one by one, by what is known of the training data. */
#include "dataset_files.h"

#include "uwasa/table_rows.h"

static struct uw_table_rows open_rows(const char *text, uint32_t n,
                                      const struct uw_data_columns *columns)
{
    struct uw_table_rows r;
    struct uw_error err = {.text = ""};
    write_text("a.csv", text);
    FILE *f = fopen(at("a.csv"), "rb");
    assert_non_null(f);
    assert_int_equal(uw_table_rows_open(&r, f, "rows.csv", &err), UW_OK);
    assert_false(r.arrives);
    uw_table_rows_expect(&r, n, columns);
    return r;
}

/* Every line of the text is this sample. */
static void expect_rows(const char *text, const struct uw_data_columns *columns, uint32_t n,
                        const float *want, int rows_n)
{
    struct uw_error err = {.text = ""};
    struct uw_table_rows r = open_rows(text, n, columns);
    float x[8];
    for (int row = 0; row < rows_n; row++) {
        if (uw_table_rows_next(&r, x, &err) != 1) {
            fail_msg("%s: %s", text, err.text);
        }
        for (uint32_t k = 0; k < n; k++) {
            if (!(fabsf(x[k] - want[k]) <= 1e-6f)) {
                fail_msg("%s: number %u is %g, not %g", text, (unsigned)k, (double)x[k],
                         (double)want[k]);
            }
        }
    }
    assert_int_equal(uw_table_rows_next(&r, x, &err), 0);
    uw_table_rows_close(&r);
    uw_table_rows_close(&r);
}

static void expect_mistake(const char *text, const struct uw_data_columns *columns, uint32_t n,
                           const char *says)
{
    struct uw_error err = {.text = ""};
    struct uw_table_rows r = open_rows(text, n, columns);
    float x[8];
    int rc = 1;
    while (rc == 1) {
        rc = uw_table_rows_next(&r, x, &err);
    }
    if (rc >= 0 || strstr(err.text, says) == NULL) {
        fail_msg("%s gives %d: %s", text, rc, err.text);
    }
    uw_table_rows_close(&r);
}

static void test_rows_every_delimiter_gives_the_same_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1,-2.5,3e2\n\n# more\n1, -2.5 ,300", "a,b,c\n1,-2.5,3e2\n1,-2.5,300\n",
        "1;-2.5;3e2\n1; -2,5 ;300\n", "\"1\",\"-2.5\",\"3e2\"\n1,'-2.5',3e2\n",
        "1\t-2.5\t3e2\r\n1\t-2.5\t300\r\n", "1\t\t-2.5\t3e2\n1\t-2.5\t\t300\n",
        "1\t-2.5\t3e2\n1\t\t-2.5\t3e2\n", "  1 -2.5   3e2  \r\n1 -2.5 300\r\n",
        "\xef\xbb\xbf 1, -2.5, 3e2\n1,-2.5,300\n"};
    const float want[3] = {1.0f, -2.5f, 300.0f};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_rows(texts[i], NULL, 3, want, 2);
    }
}

static void test_rows_mistakes_name_line_and_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"1,2\n3,x\n", ":2:3: \"x\": not a number"},
        {"1,2\n3,\n", ":2:3: \"\": the value is missing"},
        {"1,2\n3\n", ":2: 1 cells, the lines before have 2"},
        {"\n3,4,0\n", ":2: 3 cells, the model takes 2 numbers; a table with labels goes with"},
        {"1,nan\n", ":1:3: \"nan\": the value is missing; a row has 2"},
        {"1,inf\n", ":1:3: \"inf\": not finite"},
        {"1;2,3,4\n", "\"2,3,4\": not a number"},
        {"a,b\nc,d\n", ":2:1: \"c\": not a number"},
        {"1,2\r3,4\r", ":1: lines end with a carriage return alone"},
        {"+1 1:0.5 2:3\n", ":1: lines of a label and INDEX:VALUE go with --data csv:FILE"},
        {"1,2,3,4\n", ":1: 4 cells, the model takes 2 numbers"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_mistake(cases[i].text, NULL, 2, cases[i].says);
    }
}

static char *feature_names[] = {"width", "height"};
static uint32_t places[] = {3, 1};
static float mean[] = {10.0f, 20.0f}, inverse[] = {0.5f, 0.25f};
static const struct uw_data_columns known = {
    .features_n = 2, .features = feature_names, .mean = mean, .inverse = inverse, .columns_n = 4,
    .places = places};

static void test_rows_features_are_found_by_name_or_place_and_scaled(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "12,24\n", "width,height\n12,24\n",                      /* the features alone */
        "id,height,kind,width\n7,24,oak,12\n", "7,24,oak,12\n",  /* every column of training */
        "height;Width;more\n24;12;x\n", "kind,width,height\n,12,24\n",
        "a,b\n12,24\n"};
    const float want[2] = {1.0f, 1.0f};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_rows(texts[i], &known, 2, want, 1);
    }
    expect_mistake("width,depth\n1,2\n", &known, 2, ":1: no column \"height\"");
    expect_mistake("1,2,3\n", &known, 2,
                   "3 cells, the model takes 2 numbers, or all 4 columns of the training data");
}

static void test_rows_header_may_have_numbers_for_names(void **state)
{
    (void)state;
    static char *names[] = {"width", "2019"};
    const struct uw_data_columns years = {.features_n = 2, .features = names};
    const float want[2] = {3.0f, 4.0f};
    expect_rows("2019,kind,width\n4,7,3\n", &years, 2, want, 1);
    expect_rows("3,4\n", &years, 2, want, 1);
    expect_mistake("2020,width\n4,3\n", &years, 2, ":1: no column \"2019\"");
}

static void test_rows_may_have_breaks_of_lines_between_quotes(void **state)
{
    (void)state;
    const float want[2] = {1.0f, 1.0f};
    expect_rows("kind,\"width\",height\n\"oak\n\"\"old\"\"\n\",12,24\nelm,12,24\n", &known, 2,
                want, 2);
    expect_rows("\"the\nkind\",height,width\r\r\nx,24,12\r\r\n", &known, 2, want, 1);
    expect_mistake("kind,width,height\n\"a\nb\",12,24\nc,12,x\n", &known, 2, ":4:6: \"x\": not");
    expect_mistake("1,2\n\"3,4\n5,6\n", NULL, 2, ":2:1: \"\"3");
}

static void test_rows_tell_how_they_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *note;
    } cases[] = {{"12,24\n", ""},
                 {"kind;width;height\nx;12;24\n",
                  "cells are between semicolons; columns are taken by their names, 2 of 3"},
                 {"7,24,oak,12\n", "of 4 columns, as the training data, 2 are features"},
                 {"a,b\n12,24\n", "the header has none of the training data's names"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_error err = {.text = ""};
        struct uw_table_rows r = open_rows(cases[i].text, 2, &known);
        float x[2];
        assert_int_equal(uw_table_rows_next(&r, x, &err), 1);
        if (cases[i].note[0] == '\0' ? r.note[0] != '\0'
                                     : strstr(r.note, cases[i].note) == NULL) {
            fail_msg("told: %s", r.note);
        }
        uw_table_rows_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_every_delimiter_gives_the_same_numbers),
        cmocka_unit_test(test_rows_mistakes_name_line_and_byte),
        cmocka_unit_test(test_rows_features_are_found_by_name_or_place_and_scaled),
        cmocka_unit_test(test_rows_header_may_have_numbers_for_names),
        cmocka_unit_test(test_rows_may_have_breaks_of_lines_between_quotes),
        cmocka_unit_test(test_rows_tell_how_they_are_read),
    };
    return cmocka_run_group_tests_name("table_rows", tests, make_folder, remove_folder);
}
