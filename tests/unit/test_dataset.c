/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV files, parts of a set, and names that are no dataset. */
#include "dataset_files.h"

/* ---- CSV ---- */

static const char *csv_spec(void)
{
    static char spec[200];
    snprintf(spec, sizeof spec, "csv:%s", at("a.csv"));
    return spec;
}

static void test_csv_header_spaces_and_empty_lines_are_skipped(void **state)
{
    (void)state;
    static const char *const same[] = {
        "1,2,0\n-3.5,4e2,2\n",
        "1,2,0\n-3.5,4e2,2",
        ("\xef\xbb\xbf" "1,2,0\n-3.5,4e2,2\n"),
        "width,height,kind\n1,2,0\n-3.5,4e2,2\n",
        "0,1,kind\n1,2,0\n-3.5,4e2,2\n",
        "width,\"a, b\",kind\r\n1,2,0\r\n\r\n-3.5,4e2,2\r\n\r\n",
        "\n 1 , 2,\t0 \n  \n-3.5,4e2,2.0\n\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        write_text("a.csv", same[i]);
        struct uw_data d = open_good(csv_spec(), NULL);
        assert_int_equal(d.base->samples_n, 2);
        assert_int_equal(d.base->channels, 2);
        assert_int_equal(d.base->height, 1);
        assert_int_equal(d.base->classes, 3);
        expect_sample(&d, 0, (float[]){1.0f, 2.0f}, 0);
        expect_sample(&d, 1, (float[]){-3.5f, 400.0f}, 2);
        uw_data_close(&d);
    }
}

static void test_csv_rows_are_images_of_the_models_shape(void **state)
{
    (void)state;
    const struct uw_data_config image = {.channels = 1, .height = 2, .width = 2};
    write_text("a.csv", "1,2,3,4,0\n5,6,7,8,1\n9,8,7,6,1\n");
    struct uw_data d = open_good(csv_spec(), &image);
    assert_int_equal(d.base->channels, 1);
    assert_int_equal(d.base->height, 2);
    assert_int_equal(d.base->width, 2);
    expect_sample(&d, 0, (float[]){1.0f, 2.0f, 3.0f, 4.0f}, 0);
    expect_sample(&d, 2, (float[]){9.0f, 8.0f, 7.0f, 6.0f}, 1);
    uw_data_close(&d);
}

static void test_csv_errors_name_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "no line of numbers"},
        {"\n\n", "no line of numbers"},
        {"a,b\n", "a.csv:1: no samples: a line of words"},
        {"1,2,0\n1,-Inf,0\n", "a.csv:2:3: \"-Inf\": not finite; a value is needed"},
        {"1,2,0\n1,1e99,0\n", "a.csv:2:3: \"1e99\": not finite"},
        {"1,2,0\n1,x,0\n", "a.csv:2:3: \"x\": not a number"},
        {"1,x,0\n", "a.csv:1:3: \"x\": not a number"},
        {"1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n7,0\n8,1\n9,0\n10,1\n11,y\n",
         "a.csv:11:4: \"y\": a word among labels that are numbers"},
        {"1,2,0\n1,,0\n", "a.csv:2:3: \"\": the value of column 2 is missing; missing=drop"},
        {"1,2,0\n1,nan,0\n", "a.csv:2:3: \"nan\": the value of column 2 is missing"},
        {"1,2,0\n1,?,0\n", "a.csv:2:3"},
        {"1,2,0\n1,inf,0\n", "a.csv:2:3"},
        {"1,2,0\n1,0x10,0\n", "a.csv:2:3"},
        {"1,2,0\n1,1e999,0\n", "a.csv:2:3"},
        {"1,2,0\n1,1-2,0\n", "a.csv:2:3"},
        {"1,2,0\n1,2,3,0\n", "a.csv:1:1: 3 cells between commas; most lines have 4"},
        {"1,2,0\n1,2,0\n2,0\n", "a.csv:3:1: 2 cells between commas; most lines have 3"},
        {"5\n", "a.csv:1:1: a line has one feature or more"},
        {"1,2,0\n1,2,1\n1,2;0\n", "a.csv:3:1: 2 cells"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text("a.csv", bad[i].text);
        expect_error(csv_spec(), UW_ERR_CORRUPT, bad[i].part);
    }
    write_file("a.csv", "1,2\0,0\n", 7);
    expect_error(csv_spec(), UW_ERR_CORRUPT, "byte 3 is zero");
    expect_error("csv:", UW_ERR_INVALID, "csv:FILE");
}

static void test_csv_that_is_no_text_is_told_before_it_is_read(void **state)
{
    (void)state;
    struct uw_data d;
    struct uw_error err;
    write_file("a.csv", "1,2,0\n", 6);
    assert_int_equal(truncate(at("a.csv"), (off_t)1 << 42), 0); /* more than there is memory */
    assert_int_equal(uw_data_open(&d, csv_spec(), NULL, &err), UW_ERR_CORRUPT);
    assert_non_null(strstr(err.text, "byte 6 is zero"));
}

/* Every line is in one of the sets, whatever their order; a sixth of each class is for testing. */
static void test_csv_splits_a_sixth_off_as_test_set(void **state)
{
    (void)state;
    for (uint32_t rows_n = 1; rows_n <= 120; rows_n += rows_n < 20 ? 1 : 20) {
        FILE *f = fopen(at("a.csv"), "w");
        for (uint32_t i = 0; i < rows_n; i++) {
            fprintf(f, "%u,%u\n", i, i % 2);
        }
        fclose(f);
        uint32_t seen[120] = {0}, together = 0, of_class[2] = {0, 0};
        for (int test = 0; test <= 1; test++) {
            struct uw_data d = open_good(csv_spec(), &(struct uw_data_config){.test = test});
            together += d.base->samples_n;
            for (uint32_t i = 0; i < d.base->samples_n; i++) {
                float x;
                uint32_t label;
                assert_int_equal(d.base->ops->read(d.base, i, &x, &label), UW_OK);
                assert_int_equal((uint32_t)x % 2, label);
                seen[(uint32_t)x]++;
                of_class[label] += test == 1;
            }
            uw_data_close(&d);
        }
        for (uint32_t i = 0; i < rows_n; i++) {
            assert_true(seen[i] == 1 || (rows_n < 8 && seen[i] == 2));
        }
        assert_true(together == rows_n || (rows_n < 8 && together == 2 * rows_n));
        assert_true(rows_n < 20 || (of_class[0] > 0 && of_class[0] - of_class[1] + 1u <= 2u));
    }
}

static void test_csv_second_file_is_the_test_set(void **state)
{
    (void)state;
    char spec[400];
    write_text("a.csv", "1,0\n2,1\n");
    write_text("b.csv", "5,3\n");
    snprintf(spec, sizeof spec, "%s,%s", csv_spec(), at("b.csv"));
    for (int test = 0; test <= 1; test++) {
        struct uw_data d = open_good(spec, &(struct uw_data_config){.test = test});
        assert_int_equal(d.base->samples_n, test ? 1 : 2);
        assert_int_equal(d.base->classes, 4);
        uw_data_close(&d);
    }
    write_text("b.csv", "5,6,3\n");
    expect_error(spec, UW_ERR_MISMATCH, "differ in shape");
}

/* ---- parts of a set ---- */

static void write_rows_of_four_classes(uint32_t rows_n)
{
    FILE *f = fopen(at("a.csv"), "w");
    for (uint32_t i = 0; i < rows_n; i++) {
        fprintf(f, "%u,%u\n", i, i % 4);
    }
    fclose(f);
    write_text("b.csv", "0,0\n");
}

static void test_parts_classes_and_shards_partition_the_set(void **state)
{
    (void)state;
    char spec[400];
    write_rows_of_four_classes(30);
    snprintf(spec, sizeof spec, "%s,%s", csv_spec(), at("b.csv"));
    for (uint32_t mask = 0; mask < 16; mask++) {
        for (uint32_t shards_n = 1; shards_n <= 7; shards_n++) {
            uint32_t seen = 0, expected = 0;
            for (uint32_t i = 0; i < 30; i++) {
                expected |= mask == 0 || (mask >> (i % 4) & 1u) != 0 ? 1u << i : 0;
            }
            for (uint32_t shard = 0; shard < shards_n; shard++) {
                struct uw_data d = open_good(spec, &(struct uw_data_config){.classes_mask = mask,
                                                                            .shard = shard,
                                                                            .shards_n = shards_n});
                assert_int_equal(d.base->classes, 4);
                for (uint32_t i = 0; i < d.base->samples_n; i++) {
                    float x;
                    uint32_t label;
                    assert_int_equal(d.base->ops->read(d.base, i, &x, &label), UW_OK);
                    assert_int_equal(seen >> (uint32_t)x & 1u, 0);
                    seen |= 1u << (uint32_t)x;
                }
                uw_data_close(&d);
            }
            assert_int_equal(seen, expected);
        }
    }
}

static void test_parts_that_are_empty_are_refused(void **state)
{
    (void)state;
    struct uw_data d;
    struct uw_error err;
    write_rows_of_four_classes(4);
    struct uw_data_config none = {.classes_mask = 1u << 9};
    assert_int_equal(uw_data_open(&d, csv_spec(), &none, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "no sample is left"));
    struct uw_data_config beyond = {.shard = 3, .shards_n = 3};
    assert_int_equal(uw_data_open(&d, csv_spec(), &beyond, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "0 .. 2 are allowed"));
    struct uw_data_config thin = {.shard = 4, .shards_n = 5};
    assert_int_equal(uw_data_open(&d, csv_spec(), &thin, &err), UW_ERR_INVALID);
    assert_int_equal(uw_data_open(&d, "digits", &none, NULL), UW_OK);
    uw_data_close(&d);
    none.classes_mask = 1u << 10;
    assert_int_equal(uw_data_open(&d, "digits", &none, &err), UW_ERR_INVALID);
}

static void test_parts_of_digits_interleave_the_endless_stream(void **state)
{
    (void)state;
    struct uw_data whole = open_good("digits", &(struct uw_data_config){.seed = 5});
    struct uw_data part =
        open_good("digits", &(struct uw_data_config){.seed = 5, .shard = 1, .shards_n = 4});
    assert_true(part.base->endless);
    assert_int_equal(part.base->samples_n, 15000);
    float a[784];
    uint32_t label;
    for (uint64_t i = 14990; i < 15010; i++) {
        assert_int_equal(whole.base->ops->read(whole.base, 4 * i + 1, a, &label), UW_OK);
        expect_sample(&part, i, a, label);
    }
    uw_data_close(&whole);
    uw_data_close(&part);
}

static void test_names_that_are_no_dataset_list_the_allowed_ones(void **state)
{
    (void)state;
    expect_error("", UW_ERR_INVALID, "allowed are digits, keywords, mnist:DIR");
    expect_error("minst:x", UW_ERR_INVALID, "allowed are digits, keywords, mnist:DIR");
    expect_error("digits:7", UW_ERR_INVALID, "takes nothing after it");
    expect_error("csv:/dev/zero", UW_ERR_INVALID, "not a regular file");
    expect_error("csv:/", UW_ERR_INVALID, "not a regular file");
    char longer[3000];
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "csv:", 4);
    longer[sizeof longer - 1] = '\0';
    expect_error(longer, UW_ERR_INVALID, "");
    memcpy(longer, "mnist:", 6);
    expect_error(longer, UW_ERR_INVALID, "path longer");
    memcpy(longer, "cifar10:", 8);
    expect_error(longer, UW_ERR_INVALID, "path longer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_csv_header_spaces_and_empty_lines_are_skipped, empty_folder),
        cmocka_unit_test_teardown(test_csv_rows_are_images_of_the_models_shape, empty_folder),
        cmocka_unit_test_teardown(test_csv_errors_name_line_and_column, empty_folder),
        cmocka_unit_test_teardown(test_csv_that_is_no_text_is_told_before_it_is_read, empty_folder),
        cmocka_unit_test_teardown(test_csv_splits_a_sixth_off_as_test_set, empty_folder),
        cmocka_unit_test_teardown(test_csv_second_file_is_the_test_set, empty_folder),
        cmocka_unit_test_teardown(test_parts_classes_and_shards_partition_the_set, empty_folder),
        cmocka_unit_test_teardown(test_parts_that_are_empty_are_refused, empty_folder),
        cmocka_unit_test_teardown(test_parts_of_digits_interleave_the_endless_stream, empty_folder),
        cmocka_unit_test_teardown(test_names_that_are_no_dataset_list_the_allowed_ones,
                                  empty_folder),
    };
    return cmocka_run_group_tests_name("dataset", tests, make_folder, remove_folder);
}
