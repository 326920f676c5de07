/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node says at its end of what came from others. */
#include "test_support.h"

#include "node/node_report.h"

#include <unistd.h>

static void expect_said(const struct uw_node_counters *counters, bool broadcasts, const char *line)
{
    struct uw_node_report r = {.broadcasts = broadcasts};
    const struct uw_node_summary s = {.step = 3, .counters = *counters};
    char text[1024];
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO);
    assert_non_null(file);
    assert_true(out >= 0);
    uw_node_report_init(&r);
    fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    uw_node_report_done(&r, &s);
    fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    close(out);
    rewind(file);
    size_t n = fread(text, 1, sizeof text - 1u, file);
    fclose(file);
    text[n] = '\0';
    if (strstr(text, line) == NULL) {
        fail_msg("%s does not say %s", text, line);
    }
    assert_int_equal(uw_node_report_close(&r, NULL), UW_OK);
}

static void test_end_tells_pulls_that_are_done_from_one_that_is_not(void **state)
{
    (void)state;
    struct uw_node_counters c = {.pulled_bytes = 19046};
    expect_said(&c, false, "\npulled         18.6 KiB of an unfinished pull\n");
    c.pulls_done = 1;
    expect_said(&c, false, "\npulled         18.6 KiB in 1 pull\naveraged       0 times\n");
    c = (struct uw_node_counters){.pulls_done = 0};
    expect_said(&c, false, "\npulled         0 B in 0 pulls\n");
}

static void test_end_tells_what_was_received_in_how_many_averages(void **state)
{
    (void)state;
    struct uw_node_counters c = {.pulled_bytes = 2048, .averages_done = 2, .averages_cut = 1};
    expect_said(&c, true, "\nreceived       2.0 KiB in 3 averages, 2 of them exact\n");
    c = (struct uw_node_counters){.pulled_bytes = 5, .averages_cut = 1};
    expect_said(&c, true, "\nreceived       5 B in 1 average, 0 of them exact\n");
}

/* Ten usual rounds, and half a minute. */
static void test_node_stands_still_after_ten_rounds_and_half_a_minute(void **state)
{
    (void)state;
    const uint64_t s = 1000000;
    assert_false(uw_node_report_is_still(29 * s, 100 * s, 1000, 10));
    assert_true(uw_node_report_is_still(30 * s, 100 * s, 1000, 10));      /* rounds of a second */
    assert_false(uw_node_report_is_still(99 * s, 100 * s, 100, 10));      /* of ten seconds */
    assert_true(uw_node_report_is_still(100 * s, 100 * s, 100, 10));
    assert_true(uw_node_report_is_still(30 * s, 0, 0, 10));               /* not one step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end_tells_pulls_that_are_done_from_one_that_is_not),
        cmocka_unit_test(test_node_stands_still_after_ten_rounds_and_half_a_minute),
        cmocka_unit_test(test_end_tells_what_was_received_in_how_many_averages),
    };
    return cmocka_run_group_tests_name("node_report", tests, NULL, NULL);
}
