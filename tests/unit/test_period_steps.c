/* SPDX-License-Identifier: Apache-2.0
 *
 * How many local steps a round has, from what exchanges take. */
#include "test_support.h"

#include "gossip/period.h"

#include "uwasa/rng.h"

/* Exchanges of so many milliseconds, steps of 10 ms; T after n of them. */
static uint32_t learn(struct uw_period *p, uint32_t exchange_ms, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uw_period_learn(p, exchange_ms * 1000u, p->steps, p->steps * 10000u);
    }
    return p->steps;
}

static void test_period_is_the_exchange_in_steps_over_the_share(void **state)
{
    (void)state;
    struct uw_period p;
    uw_period_init(&p, 0.1f, UINT32_MAX);
    assert_int_equal(p.steps, 10);
    assert_int_equal(learn(&p, 500, 1), 500);       /* 50 steps at a tenth */
    assert_int_equal(learn(&p, 500, 20), 500);
    uw_period_init(&p, 0.25f, UINT32_MAX);
    assert_int_equal(learn(&p, 101, 1), 41);        /* 10.1 / 0.25 = 40.4 */
    uw_period_init(&p, 1.0f, UINT32_MAX);
    assert_int_equal(learn(&p, 1, 30), 1);          /* a tenth of a step */
    uw_period_init(&p, 0.1f, 7);
    assert_int_equal(p.steps, 7);
    assert_int_equal(learn(&p, 500, 5), 7);
}

static void test_period_without_steps_learns_nothing(void **state)
{
    (void)state;
    struct uw_period p;
    uw_period_init(&p, 0.1f, UINT32_MAX);
    assert_int_equal(uw_period_learn(&p, 1000000, 0, 5000), 10);
    assert_int_equal(uw_period_learn(&p, 1000000, 5, 0), 10);
    assert_int_equal(learn(&p, 500, 1), 500);
}

/* Up: 5000 ms count as four times 500, then as 5000, half each time: 1250, 3125, 4062.5. Down: a
 * quarter. */
static void test_period_follows_fast_upwards_and_slowly_downwards(void **state)
{
    (void)state;
    struct uw_period p;
    uw_period_init(&p, 0.1f, UINT32_MAX);
    learn(&p, 500, 8);
    assert_int_equal(learn(&p, 5000, 1), 1250);
    assert_int_equal(learn(&p, 5000, 1), 3125);
    assert_int_equal(learn(&p, 5000, 1), 4063);
    assert_in_range(learn(&p, 5000, 4), 4900, 5000);
    uint32_t before = p.steps;
    assert_true(learn(&p, 500, 1) > before / 2u);
    assert_in_range(learn(&p, 500, 40), 500, 667);  /* what is less than 4/3 of it may stay */
}

static void test_period_stays_while_exchanges_differ_a_little(void **state)
{
    (void)state;
    struct uw_period p;
    struct uw_rng r;
    uint32_t changes = 0, wanted = 0;
    uw_period_init(&p, 0.1f, UINT32_MAX);
    uw_rng_seed(&r, uw_test_seed(3));
    learn(&p, 500, 20);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t before = p.steps;
        learn(&p, 450u + uw_rng_below(&r, 101), 1);
        changes += p.steps != before;
        wanted += (uint32_t)(p.exchange / p.share) > p.steps;
    }
    assert_in_range(p.steps, 500, 550);
    assert_true(changes < 50);
    assert_int_equal(wanted, 0);        /* never too short */
}

static void test_period_one_mishap_is_forgotten(void **state)
{
    (void)state;
    struct uw_period p;
    uw_period_init(&p, 0.1f, UINT32_MAX);
    learn(&p, 500, 10);
    assert_int_equal(learn(&p, 500000, 1), 1250);
    assert_in_range(learn(&p, 500, 20), 500, 667);
}

/* Microseconds and steps as large as they come. */
static void test_period_has_a_bound_whatever_is_measured(void **state)
{
    (void)state;
    struct uw_period p;
    uw_period_init(&p, 1e-6f, UINT32_MAX);
    uint32_t t = uw_period_learn(&p, UINT64_MAX, UINT32_MAX, 1);
    assert_true(t > 3000000000u);
    t = uw_period_learn(&p, UINT64_MAX, UINT32_MAX, 1);
    assert_true(t > 3000000000u);
    uw_period_init(&p, 1.0f, UINT32_MAX);
    assert_int_equal(uw_period_learn(&p, 0, 1, UINT64_MAX), 1);
    assert_int_equal(uw_period_learn(&p, 0, 1, UINT64_MAX), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_period_is_the_exchange_in_steps_over_the_share),
        cmocka_unit_test(test_period_without_steps_learns_nothing),
        cmocka_unit_test(test_period_follows_fast_upwards_and_slowly_downwards),
        cmocka_unit_test(test_period_stays_while_exchanges_differ_a_little),
        cmocka_unit_test(test_period_one_mishap_is_forgotten),
        cmocka_unit_test(test_period_has_a_bound_whatever_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
