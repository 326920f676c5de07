/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of tables that are easily taken wrong: with points of thousands, or too large. */
#include "dataset_files.h"

static void test_table_points_among_decimal_commas_are_refused(void **state)
{
    (void)state;
    write_text("a.csv", "1,5;76.600;0\n2;545;1\n3;7,5;1\n");
    expect_refused(csv(",test=0"), NULL, UW_ERR_CORRUPT, "a.csv:1:5: \"76.600\": a point, where "
                   "other numbers have decimal commas");
    write_text("a.csv", "1.5;76.600;0\n2;545;1\n3;7.5;1\n");
    struct uw_data d = open_good(csv(",test=0"), NULL);
    expect_sample(&d, 0, (float[]){1.5f, 76.6f}, 0);
    uw_data_close(&d);
}

static void test_table_large_numbers_are_told(void **state)
{
    (void)state;
    struct uw_data_config config = {.wanted = UW_DATA_WANT_VALUES, .outputs = 1};
    write_text("a.csv", "1700000001,1\n1700000002,2\n1700000900,3\n");
    struct uw_data d = open_good(csv(",test=0,scale=standard"), &config);
    expect_told(&d, "numbers from 16777216 on are rounded to single precision");
    uw_data_close(&d);
}

static void test_table_numbers_are_places_among_names(void **state)
{
    (void)state;
    write_text("a.csv", "5,1\n6,0\n7,yes\n");
    struct uw_data d = open_good(csv(",test=0,classes=no+yes"), NULL);
    expect_sample(&d, 0, (float[]){5.0f}, 1);
    expect_sample(&d, 1, (float[]){6.0f}, 0);
    expect_sample(&d, 2, (float[]){7.0f}, 1);
    uw_data_close(&d);
    write_text("a.csv", "5,1\n6,2\n");
    expect_refused(csv(",test=0,classes=no+yes"), NULL, UW_ERR_CORRUPT, "\"2\" is none of the 2");
    expect_refused(csv(",test=0,classes=1+no"), NULL, UW_ERR_CORRUPT, "\"2\" is none of the 2");
}

static void test_table_small_numbers_are_scaled(void **state)
{
    (void)state;
    write_text("a.csv", "1e-14,7,0\n3e-14,7,1\n");
    struct uw_data d = open_good(csv(",test=0,scale=standard"), NULL);
    expect_sample(&d, 0, (float[]){-1.0f, 0.0f}, 0);
    uw_data_close(&d);
}

static void test_table_header_of_other_length(void **state)
{
    (void)state;
    write_text("a.csv", "temp,load,state,\n1,2,0\n3,4,1\n");
    struct uw_data d = open_good(csv(",test=0"), NULL);
    expect_told(&d, "features: temp, load; label in column 3 \"state\"");
    uw_data_close(&d);
    write_text("a.csv", "temp,load,state,more\n1,2,0\n3,4,1\n");
    d = open_good(csv(",test=0"), NULL);
    expect_told(&d, "the header has 4 names and lines have 3 cells");
    uw_data_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_table_points_among_decimal_commas_are_refused, empty_folder),
        cmocka_unit_test_teardown(test_table_large_numbers_are_told, empty_folder),
        cmocka_unit_test_teardown(test_table_small_numbers_are_scaled, empty_folder),
        cmocka_unit_test_teardown(test_table_header_of_other_length, empty_folder),
        cmocka_unit_test_teardown(test_table_numbers_are_places_among_names, empty_folder),
    };
    return cmocka_run_group_tests_name("table_numbers", tests, make_folder, remove_folder);
}
