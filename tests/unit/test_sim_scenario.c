/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing the devices of a fleet from what a scenario says of them. */
#include "uwasa/sim_scenario.h"
#include "test_support.h"

#define MANY 4000u

static const struct uw_sim_cost cost = {.measured_us = 1500, .multiply_adds = 30000000};

static struct uw_sim_group plain(uint32_t count)
{
    return (struct uw_sim_group){.count = count, .one_rate = true, .up = {.a = 1e6},
                                 .latency = {.a = 0.01}, .speed = {.a = 1.0},
                                 .step = UW_SIM_STEP_SECONDS, .seconds = {.a = 0.1}};
}

static void draw(struct uw_sim_draw *d, const struct uw_sim_scenario *s)
{
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_sim_draw_open(d, s, &cost, &err), UW_OK);
    assert_int_equal(d->fleet.devices_n, uw_sim_scenario_devices(s));
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The share p of the rates lies below the answer. */
static double percentile(const struct uw_sim_draw *d, double p)
{
    static double x[MANY];
    for (uint32_t i = 0; i < d->fleet.devices_n; i++) {
        x[i] = (double)d->fleet.devices[i].up_bits_per_s;
    }
    qsort(x, d->fleet.devices_n, sizeof x[0], by_size);
    return x[(uint32_t)(p * (double)(d->fleet.devices_n - 1u) + 0.5)];
}

/* Bounds: four standard errors of a percentile of 4000 draws. */
static void test_spreads_have_the_percentiles_they_say(void **state)
{
    (void)state;
    struct uw_sim_group g = plain(MANY);
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = &g, .groups_n = 1};
    struct uw_sim_draw d;

    g.up = (struct uw_sim_spread){.kind = UW_SIM_UNIFORM, .a = 1e6, .b = 3e6};
    draw(&d, &s);
    assert_true(fabs(percentile(&d, 0.5) - 2e6) < 0.064e6);
    assert_true(percentile(&d, 0.0) >= 1e6 && percentile(&d, 1.0) <= 3e6);
    assert_true(percentile(&d, 0.0) < 1.01e6 && percentile(&d, 1.0) > 2.99e6);
    uw_sim_draw_close(&d);

    g.up = (struct uw_sim_spread){.kind = UW_SIM_LOG_NORMAL, .a = 1e8,
                                  .b = uw_sim_sigma_of_decades(2.0)};
    draw(&d, &s);
    double low = log10(percentile(&d, 0.05)), high = log10(percentile(&d, 0.95));
    assert_true(fabs(log10(percentile(&d, 0.5)) - 8.0) < 0.05);
    assert_true(fabs(low - 7.0) < 0.09 && fabs(high - 9.0) < 0.09);
    uw_sim_draw_close(&d);

    g.up = (struct uw_sim_spread){.kind = UW_SIM_VALUES, .value = {2e6, 5e6, 0.0}, .values_n = 3};
    draw(&d, &s);
    uint32_t count[3] = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t bits = d.fleet.devices[i].up_bits_per_s;
        assert_true(bits == 2000000 || bits == 5000000 || bits == 0);
        assert_int_equal(d.fleet.devices[i].down_bits_per_s, bits);
        count[bits == 2000000 ? 0 : bits == 5000000 ? 1 : 2]++;
    }
    for (int v = 0; v < 3; v++) {
        assert_true(fabs((double)count[v] - MANY / 3.0) < 4.0 * sqrt(MANY * 2.0 / 9.0));
    }
    uw_sim_draw_close(&d);
}

static void test_draws_stay_within_the_limits(void **state)
{
    (void)state;
    struct uw_sim_group g = plain(MANY);
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = &g, .groups_n = 1};
    struct uw_sim_draw d;
    g.up = (struct uw_sim_spread){.kind = UW_SIM_LOG_NORMAL, .a = 1e6, .b = 10.0};
    g.latency = g.seconds = g.speed = (struct uw_sim_spread){
        .kind = UW_SIM_LOG_NORMAL, .a = 1.0, .b = 10.0};
    draw(&d, &s);
    bool least = false, most = false, late = false, quick = false;
    for (uint32_t i = 0; i < MANY; i++) {
        const struct uw_sim_device *v = &d.fleet.devices[i];
        assert_true(v->up_bits_per_s >= 100 && v->up_bits_per_s <= 1000000000000u);
        assert_true(v->latency_us <= 1800000000u && v->step_us >= 1 &&
                    v->step_us <= 10000000000000u);
        least = least || v->up_bits_per_s == 100;
        most = most || v->up_bits_per_s == 1000000000000u;
        late = late || v->latency_us == 1800000000u;
        quick = quick || v->step_us == 1;
    }
    assert_true(least && most && late && quick);
    uw_sim_draw_close(&d);
}

static void test_a_step_takes_what_the_scenario_says(void **state)
{
    (void)state;
    struct uw_sim_group g[3] = {plain(1), plain(1), plain(1)};
    struct uw_sim_scenario s = {.seed = 1, .groups = g, .groups_n = 3};
    struct uw_sim_draw d;
    g[1].step = UW_SIM_STEP_MEASURED;
    g[1].speed.a = 0.5;
    g[2].step = UW_SIM_STEP_KIND;
    g[2].kind = uw_sim_kind_find("cortex-m7");
    draw(&d, &s);
    assert_int_equal(d.fleet.devices[0].step_us, 100000);
    assert_int_equal(d.fleet.devices[1].step_us, 3000);
    double seconds = 30e6 / (480e6 / 1.5625 * 0.6);
    assert_true(fabs(1e-6 * (double)d.fleet.devices[2].step_us - seconds) < 1e-6);
    assert_true(uw_sim_scenario_uses(&s, UW_SIM_STEP_MEASURED));
    s.groups_n = 1;
    assert_false(uw_sim_scenario_uses(&s, UW_SIM_STEP_MEASURED));
    s.groups_n = 3;
    uw_sim_draw_close(&d);
    uw_sim_draw_close(&d);
}

static void test_two_devices_are_a_latency_apart(void **state)
{
    (void)state;
    struct uw_sim_group g[2] = {plain(1), plain(1)};
    struct uw_sim_scenario s = {.seed = 1, .groups = g, .groups_n = 2};
    struct uw_sim_draw d;
    g[1].latency.a = 0.03;
    s.cells = (struct uw_sim_cells){.nodes = 2};
    draw(&d, &s);
    assert_int_equal(d.fleet.devices[0].latency_us, 5000);
    assert_int_equal(d.fleet.devices[1].latency_us, 15000);
    assert_int_equal(d.fleet.cells[0].latency_us, 20000);   /* as outside */
    uw_sim_draw_close(&d);
}

static void test_stragglers_are_as_many_as_said_and_chosen_by_the_seed(void **state)
{
    (void)state;
    struct uw_sim_group g = plain(200);
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = &g, .groups_n = 1};
    struct uw_sim_draw d, other;
    for (uint32_t slow = 0; slow <= 20; slow += 5) {
        s.stragglers = (struct uw_sim_stragglers){.share = (double)slow / 200.0, .factor = 10.0};
        draw(&d, &s);
        s.seed++;
        draw(&other, &s);
        s.seed--;
        uint32_t n = 0, differ = 0;
        for (uint32_t i = 0; i < 200; i++) {
            n += d.straggler[i];
            differ += d.straggler[i] != other.straggler[i];
            assert_int_equal(d.fleet.devices[i].step_us, d.straggler[i] ? 1000000 : 100000);
        }
        assert_int_equal(n, slow);
        assert_true(differ != 0 || slow == 0);
        uw_sim_draw_close(&d);
        uw_sim_draw_close(&other);
    }
}

static void test_cells_have_the_sizes_they_say(void **state)
{
    (void)state;
    static const struct {
        struct uw_sim_cells cells;
        uint32_t sizes[4], n;
    } cases[] = {{{.nodes = 4}, {4, 4, 3}, 3},
                 {{.cells = 4}, {3, 3, 3, 2}, 4},
                 {{.size = {5, 1, 5}, .sizes_n = 3}, {5, 1, 5}, 3},
                 {{.cells = 3, .in_turns = true}, {4, 4, 3}, 3},
                 {{.nodes = 6, .in_turns = true}, {6, 5}, 2},
                 {{.nodes = 100}, {11}, 1}};
    struct uw_sim_group g[2] = {plain(9), plain(2)};
    struct uw_sim_scenario s = {.seed = 1, .groups = g, .groups_n = 2};
    g[1].latency.a = 0.03;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct uw_sim_draw d;
        uint32_t count[4] = {0}, counted[4], largest = 0;
        uint64_t apart_us[4] = {0};
        s.cells = cases[k].cells;
        s.cells.shared = true;
        s.cells.bits.a = 2e6;
        s.cells.out_latency.a = 0.5;
        draw(&d, &s);
        assert_int_equal(d.fleet.cells_n, cases[k].n);
        uw_sim_fleet_count(&d.fleet, counted);
        for (uint32_t i = 0; i < 11; i++) {
            uint32_t cell = d.fleet.devices[i].cell;
            count[cell]++;
            apart_us[cell] += 2u * d.fleet.devices[i].latency_us;
            assert_true(s.cells.in_turns ? cell == i % cases[k].n
                                         : i == 0 || cell >= d.fleet.devices[i - 1u].cell);
        }
        for (uint32_t c = 0; c < cases[k].n; c++) {
            largest = count[c] > largest ? count[c] : largest;
            assert_int_equal(count[c], cases[k].sizes[c]);
            assert_int_equal(counted[c], count[c]);
            assert_int_equal(d.fleet.cells[c].latency_us, apart_us[c] / count[c]);
            assert_true(d.fleet.cells[c].shared && d.fleet.cells[c].bits_per_s == 2000000);
            assert_int_equal(d.fleet.cells[c].out_latency_us, 500000);
        }
        assert_int_equal(uw_sim_scenario_largest_cell(&s), largest);
        uw_sim_draw_close(&d);
    }
}

static void test_a_group_has_cells_of_its_own(void **state)
{
    (void)state;
    struct uw_sim_group g[3] = {plain(3), plain(4), plain(2)};
    struct uw_sim_scenario s = {.seed = 1, .groups = g, .groups_n = 3};
    struct uw_sim_draw d;
    struct uw_error err = {.text = ""};
    g[0].cells.nodes = 2;
    g[2].cells.cells = 5;
    draw(&d, &s);
    static const uint32_t expected[] = {0, 0, 1, UW_SIM_NO_CELL, UW_SIM_NO_CELL, UW_SIM_NO_CELL,
                                        UW_SIM_NO_CELL, 2, 3};
    assert_int_equal(d.fleet.cells_n, 4);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(d.fleet.devices[i].cell, expected[i]);
    }
    uint32_t counted[4];
    uw_sim_fleet_count(&d.fleet, counted);
    for (uint32_t c = 0; c < 4; c++) {
        assert_int_equal(counted[c], c == 0 ? 2 : 1);
    }
    uw_sim_draw_close(&d);
    g[1].cells.sizes_n = 2;
    g[1].cells.size[0] = g[1].cells.size[1] = 3;
    assert_int_equal(uw_sim_draw_open(&d, &s, &cost, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "do not add up to 4 nodes"));
    uw_sim_draw_close(&d);
}

static void check_apart(const struct uw_sim_device *v)
{
    for (uint32_t a = 0; a < v->absences_n; a++) {
        assert_true(v->absences[a].from_us < v->absences[a].to_us);
        assert_true(a == 0 || v->absences[a].from_us > v->absences[a - 1u].to_us);
    }
}

static void test_diurnal_devices_are_there_a_share_of_each_period(void **state)
{
    (void)state;
    struct uw_sim_group g = plain(400);
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = &g, .groups_n = 1};
    struct uw_sim_draw d;
    g.there = (struct uw_sim_availability){.kind = UW_SIM_DIURNAL, .period = 100.0, .up = 0.4,
                                           .spread = 100.0};
    draw(&d, &s);
    uint32_t there = 0;
    for (uint32_t i = 0; i < 400; i++) {
        check_apart(&d.fleet.devices[i]);
        assert_true(fabs(uw_sim_draw_there(&d, i, 1000000000u) - 0.4) < 1e-6);
        there += d.fleet.devices[i].absences[0].from_us != 0;
    }
    assert_true(fabs(there - 160.0) < 4.0 * sqrt(400 * 0.4 * 0.6));
    assert_true(d.until_us > 1000000000u && d.until_us < UINT64_MAX);
    uw_sim_draw_close(&d);

    g.there.spread = 0.0;                       /* all at once, from the beginning */
    draw(&d, &s);
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(d.fleet.devices[i].absences[0].from_us, 40000000);
        assert_int_equal(d.fleet.devices[i].absences[0].to_us, 100000000);
        assert_int_equal(d.fleet.devices[i].absences[1].from_us, 140000000);
    }
    uw_sim_draw_close(&d);

    for (int k = 0; k < 2; k++) {               /* 0.6 us away are nothing */
        g.there.up = k == 0 ? 1.0 : 0.9994;
        g.there.period = g.there.spread = k == 0 ? 100.0 : 0.001;
        draw(&d, &s);
        assert_int_equal(d.fleet.devices[0].absences_n, 0);
        assert_true(d.until_us == UINT64_MAX);
        uw_sim_draw_close(&d);
    }
}

/* Bounds: four standard errors, of exponential times too. */
static void test_churn_has_the_means_it_says(void **state)
{
    (void)state;
    struct uw_sim_group g = plain(500);
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = &g, .groups_n = 1};
    struct uw_sim_draw d;
    g.there = (struct uw_sim_availability){.kind = UW_SIM_CHURN, .up = 60.0, .down = 20.0,
                                           .forgets = 0.25};
    draw(&d, &s);
    double away = 0.0, between = 0.0, n = 0.0, forgets = 0.0, absent = 0.0;
    for (uint32_t i = 0; i < 500; i++) {
        const struct uw_sim_device *v = &d.fleet.devices[i];
        check_apart(v);
        absent += v->absences[0].from_us == 0;
        for (uint32_t a = 1; a < v->absences_n; a++) {
            away += 1e-6 * (double)(v->absences[a].to_us - v->absences[a].from_us);
            between += 1e-6 * (double)(v->absences[a].from_us - v->absences[a - 1u].to_us);
            forgets += v->absences[a].forgets;
            n += 1.0;
        }
    }
    assert_true(n > 100000.0);
    assert_true(fabs(away / n - 20.0) < 4.0 * 20.0 / sqrt(n));
    assert_true(fabs(between / n - 60.0) < 4.0 * 60.0 / sqrt(n));
    assert_true(fabs(forgets / n - 0.25) < 4.0 * sqrt(0.25 * 0.75 / n));
    assert_true(fabs(absent - 125.0) < 4.0 * sqrt(500 * 0.25 * 0.75));
    assert_true(d.until_us > 100000000000u && d.until_us < UINT64_MAX);
    uw_sim_draw_close(&d);
}

static void test_a_trace_is_taken_as_it_is(void **state)
{
    (void)state;
    static const char text[] = "# who,from,to\n3,1.5,2\n0, 10,20.25 ,1\r\n\n3,2,2.5\n3,0,0.5,0\n";
    struct uw_sim_group g[2] = {plain(1), plain(3)};
    struct uw_sim_scenario s = {.seed = 1, .groups = g, .groups_n = 2};
    struct uw_sim_draw d;
    struct uw_sim_away *away;
    uint32_t n;
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_sim_trace_read("t.csv", text, sizeof text - 1u, &away, &n, &err), UW_OK);
    assert_int_equal(n, 4);
    g[0].there = g[1].there = (struct uw_sim_availability){
        .kind = UW_SIM_TRACE, .whole = true, .away = away, .away_n = n};
    draw(&d, &s);
    const struct uw_sim_device *last = &d.fleet.devices[3];
    assert_int_equal(d.fleet.devices[0].absences_n, 1);
    assert_true(d.fleet.devices[0].absences[0].forgets);
    assert_int_equal(d.fleet.devices[0].absences[0].to_us, 20250000);
    assert_int_equal(d.fleet.devices[1].absences_n, 0);
    assert_int_equal(last->absences_n, 2);      /* those that touch are one */
    assert_int_equal(last->absences[1].from_us, 1500000);
    assert_int_equal(last->absences[1].to_us, 2500000);
    assert_true(d.until_us == UINT64_MAX);
    assert_int_equal(uw_sim_fleet_first_away_us(&d.fleet), 0);
    for (uint32_t i = 0; i < 4; i++) {
        d.fleet.devices[i].step_us = 1000000;
    }
    assert_true(fabs(uw_sim_fleet_trained_us(&d.fleet, 10.0) - 10e6) < 1.0);
    d.fleet.devices[1].step_us = d.fleet.devices[2].step_us = 3000000;
    assert_true(fabs(uw_sim_fleet_trained_us(&d.fleet, 10.0) - 11.5e6) < 1.0);
    assert_true(fabs(uw_sim_fleet_trained_us(&d.fleet, 11.0) - 21.25e6) < 1.0);
    d.fleet.devices[3].step_us = UINT64_C(100000000000000);     /* nobody waits for that one */
    assert_true(fabs(uw_sim_fleet_trained_us(&d.fleet, 10.0) - 30e6) < 1.0);
    d.fleet.devices[3].absences_n = 0;
    assert_int_equal(uw_sim_fleet_first_away_us(&d.fleet), 10000000);
    d.fleet.devices[0].absences_n = 0;
    assert_true(uw_sim_fleet_first_away_us(&d.fleet) == UINT64_MAX);
    uw_sim_draw_close(&d);

    g[0].there = g[1].there = (struct uw_sim_availability){
        .kind = UW_SIM_TRACE, .away = away, .away_n = n};
    assert_int_equal(uw_sim_draw_open(&d, &s, &cost, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "line 6 of the trace is about node 3, and there are 0 to 0");
    uw_sim_draw_close(&d);
    free(away);
}

static void test_mistakes_in_a_trace_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {"0,1", "0,2,1", "0,1,1", "a,1,2", "0.5,1,2", "-1,1,2",
                                      "0,1,2,3", "0,1,2,0.5", "0,1,2,1,", "0,nan,2", "0,1,1e99",
                                      "0,1,2 3", ",1,2"};
    struct uw_sim_away *away;
    uint32_t n;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_error err = {.text = ""};
        char text[64];
        snprintf(text, sizeof text, "0,5,6\n%s\n", bad[i]);
        assert_int_equal(uw_sim_trace_read("t.csv", text, strlen(text), &away, &n, &err),
                         UW_ERR_CORRUPT);
        assert_null(away);
        assert_non_null(strstr(err.text, "t.csv:2: needs node,from,to"));
    }
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_sim_trace_read("t.csv", "1,5,6\n0,1,9\n1,3,5.5\n", 20, &away, &n, &err),
                     UW_ERR_CORRUPT);
    assert_string_equal(err.text, "t.csv:1: node 1 is away already, since line 3");
    assert_int_equal(uw_sim_trace_read("t.csv", "# nobody\n", 9, &away, &n, &err), UW_OK);
    assert_true(away == NULL && n == 0);
}

static bool same(const struct uw_sim_draw *a, const struct uw_sim_draw *b, uint32_t n)
{
    bool equal = true;
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_sim_device *x = &a->fleet.devices[i], *y = &b->fleet.devices[i];
        equal = equal && x->up_bits_per_s == y->up_bits_per_s && x->latency_us == y->latency_us &&
                x->down_bits_per_s == y->down_bits_per_s && x->step_us == y->step_us &&
                x->absences_n == y->absences_n &&
                x->absences[0].from_us == y->absences[0].from_us;
    }
    return equal;
}

static void test_the_seed_makes_the_fleet_and_nothing_else_moves_it(void **state)
{
    (void)state;
    struct uw_sim_group g[2] = {plain(40), plain(10)};
    struct uw_sim_scenario s = {.seed = uw_test_seed(1), .groups = g, .groups_n = 2};
    struct uw_sim_draw a, b;
    g[0].one_rate = false;
    g[0].up = g[0].down = g[0].latency =
        (struct uw_sim_spread){.kind = UW_SIM_UNIFORM, .a = 1000.0, .b = 2000.0};
    g[0].there = g[1].there = (struct uw_sim_availability){
        .kind = UW_SIM_CHURN, .up = 60.0, .down = 20.0};
    draw(&a, &s);
    draw(&b, &s);
    assert_true(same(&a, &b, 50));
    assert_true(a.fleet.devices[0].up_bits_per_s != a.fleet.devices[0].down_bits_per_s);
    uw_sim_draw_close(&b);
    g[1].up.kind = UW_SIM_UNIFORM;              /* another group, another value, more devices */
    g[1].up.b = 5e6;
    g[1].count = 20;
    draw(&b, &s);
    assert_true(same(&a, &b, 40));
    assert_false(same(&a, &b, 50));
    uw_sim_draw_close(&b);
    s.seed++;
    draw(&b, &s);
    assert_false(same(&a, &b, 40));
    uw_sim_draw_close(&b);
    uw_sim_draw_close(&a);
}

static void test_every_kind_of_device_says_where_its_speed_is_from(void **state)
{
    (void)state;
    const struct uw_sim_kind *k;
    double before = 0.0;
    for (uint32_t i = 0; (k = uw_sim_kind_at(i)) != NULL; i++) {
        assert_ptr_equal(uw_sim_kind_find(k->name), k);
        assert_true(uw_sim_kind_rate(k) > before && k->efficiency > 0.0 && k->efficiency < 1.0);
        assert_true(k->source != NULL && k->what != NULL);
        assert_true((k->link_bits_per_s != 0) == (k->link_source != NULL));
        before = uw_sim_kind_rate(k);
    }
    assert_null(uw_sim_kind_find("abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spreads_have_the_percentiles_they_say),
        cmocka_unit_test(test_draws_stay_within_the_limits),
        cmocka_unit_test(test_a_step_takes_what_the_scenario_says),
        cmocka_unit_test(test_two_devices_are_a_latency_apart),
        cmocka_unit_test(test_stragglers_are_as_many_as_said_and_chosen_by_the_seed),
        cmocka_unit_test(test_cells_have_the_sizes_they_say),
        cmocka_unit_test(test_a_group_has_cells_of_its_own),
        cmocka_unit_test(test_diurnal_devices_are_there_a_share_of_each_period),
        cmocka_unit_test(test_churn_has_the_means_it_says),
        cmocka_unit_test(test_a_trace_is_taken_as_it_is),
        cmocka_unit_test(test_mistakes_in_a_trace_are_named),
        cmocka_unit_test(test_the_seed_makes_the_fleet_and_nothing_else_moves_it),
        cmocka_unit_test(test_every_kind_of_device_says_where_its_speed_is_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
