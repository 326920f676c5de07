/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of steps against the closed formulas of the literature, and against the table of times
 * for 1 Gbit/s, 5 ms and 1,663,370 parameters. */
#include "test_support.h"

#include "uwasa/allreduce_cost.h"

#include <math.h>

#define P_MAX 64u

static double at[2 * P_MAX];

static void assert_near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * want)) {
        fail_msg("%.6g, wanted %.6g", got, want);
    }
}

/* Vectors that every p here divides: no window is larger than another. */
static void test_powers_of_two_follow_the_closed_formulas(void **state)
{
    const struct uw_network_cost c = {.latency_s = 3e-3, .byte_s = 8e-9, .reduce_s = 1e-9};
    const uint32_t n = 1u << 20;
    const double wire = 4.0 * n * c.byte_s, adds = 4.0 * n * c.reduce_s;
    (void)state;
    for (uint32_t p = 2, log = 1; p <= P_MAX; p *= 2, log++) {
        double share = (p - 1.0) / p;
        assert_near(uw_allreduce_seconds(UW_ALLREDUCE_TREE, p, n, &c, at),
                    2.0 * log * (c.latency_s + wire) + log * adds, 1e-9);
        assert_near(uw_allreduce_seconds(UW_ALLREDUCE_DOUBLING, p, n, &c, at),
                    log * (c.latency_s + wire + adds), 1e-9);
        assert_near(uw_allreduce_seconds(UW_ALLREDUCE_HALVING, p, n, &c, at),
                    2.0 * log * c.latency_s + 2.0 * share * wire + share * adds, 1e-9);
        assert_near(uw_allreduce_seconds(UW_ALLREDUCE_RING, p, n, &c, at),
                    2.0 * (p - 1) * c.latency_s + 2.0 * share * wire + share * adds, 1e-9);
        assert_near(uw_allreduce_seconds(UW_ALLREDUCE_SWEEP, p, n, &c, at),
                    log * (c.latency_s + wire + adds), 1e-9);
    }
}

/* Milliseconds by the closed formulas: tree, doubling, halving, ring, sweep. Where p is no power of
 * two they wait for ranks that are not there. */
static void test_wide_area_times(void **state)
{
    static const struct {
        uint32_t p;
        double ms[UW_ALLREDUCE_KINDS_N];
    } rows[] = {
        {8, {349, 175, 123, 163, 175}},   {12, {466, 291, 245, 208, 291}},
        {16, {466, 233, 140, 250, 233}},  {24, {582, 349, 261, 332, 349}},
        {32, {582, 291, 153, 413, 291}},  {64, {699, 349, 165, 735, 349}},
    };
    const struct uw_network_cost c = {.latency_s = 5e-3, .byte_s = 8e-9};
    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int k = 0; k < UW_ALLREDUCE_KINDS_N; k++) {
            double s = uw_allreduce_seconds((enum uw_allreduce_kind)k, rows[i].p, 1663370, &c, at);
            assert_near(1e3 * s, rows[i].ms[k], (rows[i].p & (rows[i].p - 1)) != 0 ? 0.03 : 0.01);
        }
    }
}

static void test_on_a_shared_medium_bytes_add_up(void **state)
{
    const struct uw_network_cost c = {.byte_s = 32e-6, .shared = true, .access_s = 1e-3};
    const uint32_t n = 8 * 1250;
    const double model = 4.0 * n * c.byte_s;
    (void)state;
    assert_near(uw_allreduce_seconds(UW_ALLREDUCE_RING, 8, n, &c, at),
                2 * 7 * model + 2 * 7 * 8 * c.access_s, 1e-9);
    assert_near(uw_allreduce_seconds(UW_ALLREDUCE_TREE, 8, n, &c, at),
                2 * 7 * (model + c.access_s), 1e-9);
    assert_near(uw_allreduce_seconds(UW_ALLREDUCE_DOUBLING, 8, n, &c, at),
                3 * 8 * (model + c.access_s), 1e-9);
}

static void test_the_choice_is_the_cheapest(void **state)
{
    const struct uw_network_cost wide = {.latency_s = 5e-3, .byte_s = 8e-9};
    double seconds = 0.0;
    (void)state;
    assert_int_equal(uw_allreduce_choose(16, 13258, true, &wide, at, &seconds),
                     UW_ALLREDUCE_DOUBLING);
    assert_true(seconds > 0.0);
    assert_int_equal(uw_allreduce_choose(16, 1663370, true, &wide, at, NULL), UW_ALLREDUCE_HALVING);
    assert_int_equal(uw_allreduce_choose(12, 1663370, true, &wide, at, NULL), UW_ALLREDUCE_RING);
    uw_allreduce_choose(1, 1000, true, &wide, at, &seconds);
    assert_true(seconds == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers_of_two_follow_the_closed_formulas),
        cmocka_unit_test(test_wide_area_times),
        cmocka_unit_test(test_on_a_shared_medium_bytes_add_up),
        cmocka_unit_test(test_the_choice_is_the_cheapest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
