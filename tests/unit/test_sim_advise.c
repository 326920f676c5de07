/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates of an advice: their curves, who is better, and what closed costs rule out. */
#include "test_support.h"
#include "sim/sim_advise.h"

#include <math.h>
#include <string.h>

#define N UW_ADVICE_TESTS

static struct uw_advice_try tries[UW_ADVICE_MAX];
static struct uw_sim_options options;
static const struct uw_advice_asked nothing;

/* Runs of 324 s: test k is at k^2. */
static struct uw_advice make(uint32_t n)
{
    memset(tries, 0, sizeof tries);
    options = (struct uw_sim_options){.nodes = 4, .cell_nodes = 4,
                                      .exchange = UW_EXCHANGE_DEFAULTS};
    for (uint32_t i = 0; i < n; i++) {
        tries[i].mode = (struct uw_choice){"gossip", UW_NODE_GOSSIP};
    }
    return (struct uw_advice){.o = &options, .asked = &nothing, .length_s = N * N,
                              .wanted_s = N * N, .tries = tries, .tries_n = n};
}

static void put(const struct uw_advice *a, uint32_t i, double seconds, double accuracy,
                uint32_t *at, uint32_t most)
{
    const struct uw_sim_score score = {.accuracy = accuracy, .mean_model_accuracy = accuracy};
    const struct uw_sim_moment m = {.virtual_seconds = seconds, .bytes_sent = 4.0 * seconds,
                                    .score = &score};
    uw_advice_put(a, &tries[i], &m, at, most);
}

/* Of candidate i: a line from 0 that ends at `top`, which it has from test `from` on. */
static void draw(const struct uw_advice *a, uint32_t i, uint32_t tests, uint32_t from, double top)
{
    uint32_t at = 0;
    for (uint32_t k = 1; k <= tests; k++) {
        put(a, i, k * k, k < from ? top * k / from : top, &at, tests);
    }
    assert_int_equal(tries[i].tests, tests);
}

static void test_moments_that_were_jumped_over_have_what_was_before(void **state)
{
    (void)state;
    struct uw_advice a = make(1);
    uint32_t at = 0;
    tries[0].accuracy[0] = 0.1;
    put(&a, 0, 0.9, 0.7, &at, 7);       /* no test was due yet */
    assert_int_equal(at, 0);
    put(&a, 0, 4.0, 0.2, &at, 7);       /* 1 was jumped over */
    assert_int_equal(at, 2);
    put(&a, 0, 24.9, 0.4, &at, 7);      /* and 3 */
    assert_int_equal(at, 4);
    put(&a, 0, 81.0, 0.9, &at, 7);      /* past the end of 7 tests: what was there nobody knows */
    assert_int_equal(at, 7);
    const double want[] = {0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.4, 0.4};
    for (uint32_t k = 0; k < 8; k++) {
        assert_true(tries[0].accuracy[k] == want[k]);
    }
    assert_true(tries[0].bytes[4] == 24.9);
    assert_int_equal(tries[0].tests, 7);
    at = 0;
    put(&a, 0, 324.0, 0.9, &at, N);     /* the last moment itself counts */
    assert_int_equal(at, N);
    assert_true(tries[0].accuracy[N] == 0.9 && tries[0].accuracy[N - 1] == 0.1);
}

static void test_target_is_reached_between_tests(void **state)
{
    (void)state;
    struct uw_advice a = make(1);
    draw(&a, 0, N, 10, 1.0);
    assert_true(fabs(uw_advice_reached(&a, &tries[0], 0.35, N) - 12.5) < 1e-9);
    assert_true(fabs(uw_advice_reached(&a, &tries[0], 1.0, N) - 100.0) < 1e-9);
    assert_true(uw_advice_reached(&a, &tries[0], 0.35, 3) < 0.0);
    assert_true(uw_advice_reached(&a, &tries[0], 1.1, N) < 0.0);
}

static void test_equal_accuracies_are_ranked_by_time_then_by_bytes(void **state)
{
    (void)state;
    struct uw_advice a = make(5);
    uint32_t list[5];
    draw(&a, 0, N, 12, 1.0);
    draw(&a, 1, N, 9, 1.0);
    draw(&a, 2, N, 3, 0.9);             /* early, but never there */
    draw(&a, 3, N, 9, 1.0);
    tries[3].bytes[N] -= 1.0;
    draw(&a, 4, 12, 3, 1.0);            /* has not come so far */
    assert_int_equal(uw_advice_rank(&a, N, list), 4);
    const uint32_t want[] = {3, 1, 0, 2};
    assert_memory_equal(list, want, sizeof want);
    uw_advice_order(&a);
    const uint32_t order[] = {3, 1, 0, 2, 4};
    assert_memory_equal(a.order, order, sizeof order);
    assert_true(fabs(a.target - 0.98) < 1e-12);
    options.until_accuracy = 0.5;       /* what is asked for may have another answer */
    uw_advice_order(&a);
    assert_int_equal(a.order[0], 2);
    assert_true(a.target == 0.5);
    options.until_accuracy = 1.5;       /* nobody: then as if nothing had been asked */
    uw_advice_order(&a);
    assert_int_equal(a.order[0], 3);
    assert_true(fabs(a.target - 0.98) < 1e-12);
}

/* Tests of 300 samples are good to about four points at 80 %. */
static void test_a_second_as_early_is_close_if_it_ends_as_well(void **state)
{
    (void)state;
    struct uw_advice a = make(2);
    a.tested_n = 300;
    options.until_accuracy = 0.4;
    for (int points = -10; points <= 10; points += 2) {
        draw(&a, 0, N, 12, 0.8);
        draw(&a, 1, N, 12, 0.8);
        tries[1].accuracy[N] += 0.01 * points;
        uw_advice_order(&a);
        a.order[0] = 0;
        a.order[1] = 1;
        assert_int_equal(uw_advice_close(&a), points > -5);
    }
    draw(&a, 1, N, 14, 0.8);            /* 36 % later at the target */
    uw_advice_order(&a);
    assert_int_equal(a.order[0], 0);
    assert_false(uw_advice_close(&a));
    options.until_accuracy = 0.79;      /* which the second never reaches, at 144 and 324 s */
    draw(&a, 1, N, 12, 0.78);
    uw_advice_order(&a);
    assert_true(a.target == 0.79);
    assert_false(uw_advice_close(&a));
    draw(&a, 0, N, 17, 0.8);            /* now the best does at 286 s: the end is later */
    draw(&a, 1, N, 17, 0.78);
    assert_false(uw_advice_close(&a));
    draw(&a, 0, N, N, 0.8);             /* and at 320: the end is hardly later */
    draw(&a, 1, N, N, 0.78);
    assert_true(uw_advice_close(&a));
}

static void test_who_failed_comes_after_who_ran(void **state)
{
    (void)state;
    struct uw_advice a = make(4);
    draw(&a, 1, 7, 5, 0.3);
    draw(&a, 2, N, 5, 0.9);
    tries[0].end = UW_ADVICE_COSTLY;
    tries[2].end = UW_ADVICE_FAILED;
    uw_advice_order(&a);
    const uint32_t order[] = {1, 2, 0, 3};
    assert_memory_equal(a.order, order, sizeof order);
}

/* ---- the space ---- */

static struct uw_sim_device devices[8];
static struct uw_sim_group group;
static struct uw_sim_scenario scenario;

static struct uw_sim_fleet make_fleet(struct uw_advice *a, uint64_t bits_per_s)
{
    struct uw_sim_fleet f = {.devices = devices, .devices_n = 8};
    for (uint32_t i = 0; i < 8; i++) {
        devices[i] = (struct uw_sim_device){.up_bits_per_s = bits_per_s, .latency_us = 500,
                                            .step_us = 10000, .cell = UW_SIM_NO_CELL};
    }
    group.count = 8;
    scenario = (struct uw_sim_scenario){.groups = &group, .groups_n = 1, .cells = {.nodes = 4}};
    options.scenario = &scenario;
    options.nodes = 8;
    a->celled = scenario;
    return f;
}

static const struct uw_advice_try *find(const struct uw_advice *a, const char *exchange,
                                        uint32_t period, const char *rule)
{
    for (uint32_t i = 0; i < a->tries_n; i++) {
        if (tries[i].period == period && strcmp(tries[i].mode.word, exchange) == 0 &&
            tries[i].rule == uw_mix_find(rule)) {
            return &tries[i];
        }
    }
    return NULL;
}

static void test_closed_costs_rule_out_what_waits_and_what_is_the_same(void **state)
{
    (void)state;
    struct uw_error err;
    struct uw_advice a = make(0);
    struct uw_sim_fleet f = make_fleet(&a, 8000000);    /* 1 MB: a second; 100 steps */
    assert_int_equal(uw_advice_open_space(&a, &f, 400e3, &err), UW_OK);
    assert_true(fabs(a.pull_s - 0.402) < 1e-9);
    assert_true(fabs(a.step_s - 0.01) < 1e-9);
    const struct uw_advice_try *t = find(&a, "gossip", 10, "qg");
    assert_non_null(t);
    assert_int_equal(t->end, UW_ADVICE_COSTLY);         /* 20 steps fit in a pull */
    assert_non_null(strstr(t->why, "20"));
    assert_int_equal(find(&a, "gossip", 20, "qg")->end, UW_ADVICE_RAN);
    assert_int_equal(find(&a, "gossip", 100, "qg")->end, UW_ADVICE_RAN);
    assert_int_equal(find(&a, "allreduce", 1, "qg")->end, UW_ADVICE_COSTLY);
    assert_int_equal(find(&a, "allreduce", 100, "qg")->end, UW_ADVICE_RAN);
    assert_int_equal(find(&a, "gossip", 100, "kgt")->end, UW_ADVICE_RAN);
    assert_null(find(&a, "auto", 100, "qg"));           /* there are no cells to find */
    assert_int_equal(tries[0].mode.at, UW_NODE_GOSSIP); /* where costs balance comes first */
    assert_int_equal(tries[0].period, 50);
    a.length_s = 2.0;                   /* not two rounds of 100 steps and an average */
    uw_advice_rule_out(&a);
    assert_int_equal(find(&a, "allreduce", 100, "qg")->end, UW_ADVICE_COSTLY);
    assert_int_equal(find(&a, "gossip", 100, "qg")->end, UW_ADVICE_RAN);
}

/* Eight 64 kbit/s devices: an average of a cell moves at least its model once over the slowest. */
static double cost_of_cells(uint32_t cells_n, const uint32_t *cell_of)
{
    static struct uw_sim_cell cells[4];
    struct uw_error err;
    struct uw_advice a = make(0);
    struct uw_sim_fleet f = make_fleet(&a, 64000);
    f.cells = cells;
    f.cells_n = cells_n;
    for (uint32_t i = 0; i < 8; i++) {
        devices[i].cell = cell_of[i];
        devices[i].up_bits_per_s = i == 5 ? 32000 : 64000;
    }
    assert_int_equal(uw_advice_open_space(&a, &f, 4e3, &err), UW_OK);
    return find(&a, "hierarchical", 1, "qg")->exchange_s;
}

static void test_the_least_run_sees_an_exchange_and_a_share_of_the_whole(void **state)
{
    (void)state;
    struct uw_advice a = make(2);
    a.step_s = 2.0;
    a.slowest_s = 5.0;
    tries[0].period = tries[1].period = 4;
    tries[0].exchange_s = tries[1].exchange_s = 1.0;
    tries[1].mode = (struct uw_choice){"allreduce", UW_NODE_ALLREDUCE};
    assert_true(uw_advice_least(&a, 0.01) == 9.0);
    assert_true(uw_advice_least(&a, 0.5) == 0.5 * N * N);
    tries[0].end = UW_ADVICE_COSTLY;
    assert_true(uw_advice_least(&a, 0.01) == 21.0);
    tries[1].end = UW_ADVICE_FAILED;
    assert_true(uw_advice_least(&a, 0.01) == 0.0);
}

static void test_the_slowest_cell_counts_whatever_the_order_of_devices(void **state)
{
    (void)state;
    const uint32_t no = UW_SIM_NO_CELL;
    const uint32_t blocks[] = {0, 0, 1, 1, 2, 2, 3, 3}, turns[] = {0, 1, 2, 3, 0, 2, 1, 3};
    const uint32_t alone[] = {0, 0, 1, 1, 2, 3, 2, 3}, outside[] = {0, 0, 0, 0, 0, no, no, no};
    const uint32_t single[] = {0, 0, 1, 1, 3, 2, 3, 3};
    double pair = cost_of_cells(4, blocks);
    assert_true(pair > 0.99);                               /* 4 kB twice over 64 kbit/s */
    assert_true(cost_of_cells(4, turns) == pair);           /* 5 is one of a pair again */
    assert_true(cost_of_cells(4, alone) == pair);
    assert_true(cost_of_cells(1, outside) < pair);          /* 5 is in no cell */
    double fast = cost_of_cells(4, single);                 /* 5 has nobody to average with */
    assert_true(fast > 0.0 && fast < pair);
    const uint32_t none[8] = {0};
    assert_true(cost_of_cells(0, none) > pair);             /* neighbours: four each */
}

static void test_variations_differ_in_one_thing_and_are_new(void **state)
{
    (void)state;
    struct uw_error err;
    struct uw_advice a = make(0);
    struct uw_sim_fleet f = make_fleet(&a, 0);
    uint32_t list[UW_ADVICE_MAX], n = 0;
    assert_int_equal(uw_advice_open_space(&a, &f, 400e3, &err), UW_OK);
    uint32_t before = a.tries_n, of = (uint32_t)(find(&a, "gossip", 10, "qg") - tries);
    uw_advice_vary(&a, of, list, &n, 3);
    assert_int_equal(n, 3);
    uw_advice_vary(&a, of, list, &n, UW_ADVICE_MAX);
    assert_int_equal(n, 4);             /* none, noloco; exponential, base2; 5 and 20 are there */
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_advice_try *t = &tries[list[i]];
        assert_in_range(list[i], before, a.tries_n - 1u);
        assert_int_equal(t->mode.at, UW_NODE_GOSSIP);
        assert_int_equal(t->period, 10);
        assert_true((t->rule == &uw_mix_qg) != (t->peers == &uw_peer_schedule_random));
    }
    uw_advice_vary(&a, of, list, &n, UW_ADVICE_MAX);
    assert_int_equal(n, 4);
}

static void test_what_was_asked_for_stays(void **state)
{
    (void)state;
    struct uw_error err;
    struct uw_advice a = make(0);
    struct uw_sim_fleet f = make_fleet(&a, 0);
    const struct uw_advice_asked slowmo = {.rule = &uw_mix_slowmo, .period = 7},
                                 none = {.mode = {"gossip", UW_NODE_GOSSIP},
                                         .rule = &uw_mix_slowmo};
    uint32_t list[UW_ADVICE_MAX], n = 0;
    a.asked = &slowmo;
    assert_int_equal(uw_advice_open_space(&a, &f, 400e3, &err), UW_OK);
    assert_int_equal(a.tries_n, 2);     /* over averages only: allreduce and hierarchical */
    uw_advice_vary(&a, 0, list, &n, UW_ADVICE_MAX);
    assert_int_equal(n, 0);
    assert_int_equal(tries[0].period, 7);
    a.tries_n = 0;
    a.asked = &none;
    assert_int_equal(uw_advice_open_space(&a, &f, 400e3, &err), UW_OK);
    assert_int_equal(a.tries_n, 0);
    assert_int_equal(uw_advice_first(&a, &tries[0], &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "--momentum-rule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments_that_were_jumped_over_have_what_was_before),
        cmocka_unit_test(test_target_is_reached_between_tests),
        cmocka_unit_test(test_equal_accuracies_are_ranked_by_time_then_by_bytes),
        cmocka_unit_test(test_a_second_as_early_is_close_if_it_ends_as_well),
        cmocka_unit_test(test_who_failed_comes_after_who_ran),
        cmocka_unit_test(test_closed_costs_rule_out_what_waits_and_what_is_the_same),
        cmocka_unit_test(test_the_least_run_sees_an_exchange_and_a_share_of_the_whole),
        cmocka_unit_test(test_the_slowest_cell_counts_whatever_the_order_of_devices),
        cmocka_unit_test(test_variations_differ_in_one_thing_and_are_new),
        cmocka_unit_test(test_what_was_asked_for_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
