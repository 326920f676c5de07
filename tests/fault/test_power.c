/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that spare their batteries. */
#include "fault/radio_world.h"

#define SECOND 1000000u

/* ---- charge ---- */

/* Of what all serve, the part of a node that has little charge left. */
static double share_of_the_drained(bool alike)
{
    struct world *w = world_new(6, 200, 0);
    w->config.batteries_alike = alike;
    w->nodes[1].progress.vitals.battery_percent = 10;
    world_start(w);
    world_run(w, 30 * SECOND);
    uint64_t drained = world_counters(w, 1).served_bytes, sum = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        sum += world_counters(w, i).served_bytes;
    }
    print_message("%.3f of what all serve\n", (double)drained / (double)sum);
    world_free(w);
    return (double)drained / (double)sum;
}

/* Each of the five others draws it 10 times in 410, it never draws itself. */
static void test_a_drained_node_serves_fewer_pulls(void **state)
{
    (void)state;
    double expected = 5.0 / 6.0 * 10.0 / 410.0;
    double share = share_of_the_drained(false);
    assert_true(share > 0.7 * expected && share < 1.6 * expected);
    share = share_of_the_drained(true);
    assert_true(share > 0.8 / 6.0 && share < 1.2 / 6.0);
}

/* ---- sleep ---- */

static uint32_t alive_n(struct world *w, uint32_t i)
{
    return uw_membership_alive(&w->nodes[i].node.state->membership);
}

static bool all_know_all(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->nodes[i].up || alive_n(w, i) != w->n - 1u) {
            return false;
        }
    }
    return true;
}

/* Nodes on a radio that are awake for a tenth of the time, start one after the other and whose
 * clocks are up to 100 ppm wrong; the last `awake_n` of them never sleep. */
static struct radio_world *sleepers_new(uint32_t n, uint32_t awake_n, uint32_t size_n, float loss)
{
    struct radio_world *r = radio_world_new(n, size_n, loss);
    struct world *w = r->w;
    w->train_us = 20000;
    for (uint32_t i = 0; i < n; i++) {
        w->nodes[i].drift_ppm = (int32_t)(200u * i / (n - 1u)) - 100;
        w->nodes[i].progress.lr = 0.0f;
        w->config.sleep = (struct uw_node_sleep){.period_us = 4 * SECOND,
                                                 .awake_us = 4 * SECOND / 10};
        if (i + awake_n >= n) {
            w->config.sleep = (struct uw_node_sleep){.period_us = 0};
        }
        world_up(w, i);
        world_run(w, 700000);
    }
    return r;
}

/* How far apart nodes are in an element, at most: elements agree on different values. */
static double spread_of(const struct world *w)
{
    float most = 0.0f;
    for (uint32_t k = 0; k < w->size_n; k++) {
        float low = w->nodes[0].x[k], high = low;
        for (uint32_t i = 1; i < w->n; i++) {
            low = fminf(low, w->nodes[i].x[k]);
            high = fmaxf(high, w->nodes[i].x[k]);
        }
        most = fmaxf(most, high - low);
    }
    return (double)most;
}

/* Nobody is ever blamed, all make rounds and come to agree; returns the largest share of the time
 * that a sleeper listens. */
static double live_asleep(uint32_t n, uint32_t awake_n, float loss)
{
    struct radio_world *r = sleepers_new(n, awake_n, 400, loss);
    struct world *w = r->w;
    double most = 0.0;
    world_until(w, all_know_all, 60 * SECOND);
    world_run(w, 20 * SECOND);
    uint64_t began_us = w->now_us, on_us[WORLD_MAX];
    uint32_t rounds[WORLD_MAX];
    for (uint32_t i = 0; i < n; i++) {
        on_us[i] = w->nodes[i].on_us;
        rounds[i] = w->nodes[i].rounds;
    }
    world_run(w, 300 * SECOND);
    for (uint32_t i = 0; i < n; i++) {
        struct world_node *it = &w->nodes[i];
        double share = (double)(it->on_us - on_us[i]) / (double)(w->now_us - began_us);
        struct uw_node_counters c = world_counters(w, i);
        print_message("%s: on %.3f of the time, %u rounds, %u pulls, %u cut\n", it->name, share,
                      (unsigned)(it->rounds - rounds[i]), (unsigned)c.pulls_done,
                      (unsigned)c.pulls_cut);
        most = i + awake_n < n && share > most ? share : most;
        assert_int_equal(it->events[UW_NODE_DEAD], 0);
        assert_int_equal(it->events[UW_NODE_SUSPECT], 0);
        assert_true(it->rounds - rounds[i] >= 15);
        assert_int_equal(alive_n(w, i), n - 1u);
    }
    print_message("spread %.3g\n", spread_of(w));
    assert_true(spread_of(w) < 0.05);
    radio_world_free(r);
    return most;
}

static void test_sleepers_keep_their_windows_together_and_learn(void **state)
{
    (void)state;
    const double most = 0.1 + 0.9 * 2.0 / 75.0 + 0.005;     /* of 75 windows 2 search at most */
    assert_true(live_asleep(5, 0, 0.0f) < most);
    assert_true(live_asleep(4, 0, 0.2f) < most);
    assert_true(live_asleep(5, 2, 0.05f) < most);
}

/* What does not fit into a window goes on in the next one. */
static void test_pulls_go_on_in_the_next_window(void **state)
{
    (void)state;
    struct radio_world *r = sleepers_new(2, 0, 3000, 0.0f);     /* half a second of air each */
    struct world *w = r->w;
    world_run(w, 120 * SECOND);
    for (uint32_t i = 0; i < 2; i++) {
        struct uw_node_counters c = world_counters(w, i);
        print_message("%u pulls, %u cut, %u chunks asked again\n", (unsigned)c.pulls_done,
                      (unsigned)c.pulls_cut, (unsigned)c.chunks_again);
        assert_true(c.pulls_done >= 4 && c.pulls_cut == 0);
        assert_int_equal(w->nodes[i].events[UW_NODE_PULL_MOVED], 0);
    }
    radio_world_free(r);
}

/* Ten seconds of silence within its windows: a hundred in all. */
static void test_a_sleeper_that_dies_is_found_dead(void **state)
{
    (void)state;
    struct radio_world *r = sleepers_new(4, 1, 100, 0.1f);
    struct world *w = r->w;
    world_until(w, all_know_all, 60 * SECOND);
    world_run(w, 20 * SECOND);
    world_down(w, 0);
    world_run(w, 60 * SECOND);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_not_equal(world_state(w, i, "a"), UW_MEMBER_DEAD);
    }
    world_run(w, 140 * SECOND);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(world_state(w, i, "a"), UW_MEMBER_DEAD);
        assert_int_equal(w->nodes[i].events[UW_NODE_DEAD], 1);
    }
    radio_world_free(r);
}

/* Does node i hear the nodes from `first` on, up to `end`? */
static void set_hearing(struct world *w, uint32_t i, uint16_t first, uint16_t end, bool hears)
{
    for (uint16_t k = first; k < end; k++) {
        assert_int_equal(uw_link_emulated_cut(&w->nodes[i].emulated, k,
                                              hears ? 0 : UW_EMULATED_IN), UW_OK);
    }
}

/* Two pairs that are out of each other's reach until both have their windows. */
static void test_groups_with_other_windows_find_each_other(void **state)
{
    (void)state;
    struct radio_world *r = radio_world_new(4, 100, 0.0f);
    struct world *w = r->w;
    w->train_us = 20000;
    w->config.sleep = (struct uw_node_sleep){.period_us = 4 * SECOND, .awake_us = SECOND / 2};
    for (uint32_t i = 0; i < 4; i++) {
        world_up(w, i);
        w->nodes[i].drift_ppm = 50 * (int32_t)i;
        set_hearing(w, i, i < 2 ? 2 : 0, i < 2 ? 4 : 2, false);
        world_run(w, i == 1 ? 2300000 : 100000);
    }
    world_run(w, 60 * SECOND);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(alive_n(w, i), 1);
        set_hearing(w, i, 0, 4, true);
    }
    uint64_t began_us = w->now_us;
    world_until(w, all_know_all, (UW_NODE_SLEEP_SEARCH + 4) * 4 * SECOND);
    print_message("together after %.1f s\n", (double)(w->now_us - began_us) / SECOND);
    world_run(w, 100 * SECOND);
    assert_true(all_know_all(w));
    radio_world_free(r);
}

/* Who does not sleep averages all the time, and with sleepers while they listen. */
static void test_broadcast_averages_go_without_who_sleeps(void **state)
{
    (void)state;
    struct radio_world *r = radio_world_new(4, 200, 0.0f);
    struct world *w = r->w;
    w->train_us = 20000;
    w->config.mode = UW_NODE_BROADCAST;
    for (uint32_t i = 0; i < 4; i++) {
        const struct uw_node_sleep quarter = {.period_us = 4 * SECOND, .awake_us = SECOND};
        w->config.sleep = i < 2 ? quarter : (struct uw_node_sleep){.period_us = 0};
        w->nodes[i].progress.lr = 0.0f;
        world_up(w, i);
    }
    world_run(w, 200 * SECOND);
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_node_counters c = world_counters(w, i);
        print_message("%u averages, %u cut\n", (unsigned)c.averages_done,
                      (unsigned)c.averages_cut);
        assert_true(c.averages_done >= (i < 2 ? 20u : 200u));
    }
    assert_true(spread_of(w) < 1e-3);
    radio_world_free(r);
}

static void test_sleep_that_makes_no_sense_is_refused(void **state)
{
    static const struct uw_node_sleep none[] = {
        {SECOND, SECOND}, {SECOND, 0}, {UW_NODE_SLEEP_MOST_US + 1000u, SECOND}};
    static const struct uw_node_parts few = {.sentences = &uw_node_sentences};
    (void)state;
    struct radio_world *r = radio_world_new(2, 100, 0.0f);
    struct uw_node_config c = world_config(r->w, 0);
    struct uw_error err;
    size_t bytes;
    c.link = &r->w->nodes[0].emulated.link;
    c.link->mtu_bytes = 1200;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        c.sleep = none[i];
        assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, "sleep"));
    }
    c.sleep = (struct uw_node_sleep){.period_us = SECOND, .awake_us = SECOND / 2};
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    c.agree = true;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    c.agree = false;
    c.parts = &few;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "sleeps"));
    c.sleep = (struct uw_node_sleep){0};        /* the radio needs a part, too */
    c.link->shared = true;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "frames"));
    radio_world_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_drained_node_serves_fewer_pulls),
        cmocka_unit_test(test_sleepers_keep_their_windows_together_and_learn),
        cmocka_unit_test(test_pulls_go_on_in_the_next_window),
        cmocka_unit_test(test_a_sleeper_that_dies_is_found_dead),
        cmocka_unit_test(test_groups_with_other_windows_find_each_other),
        cmocka_unit_test(test_broadcast_averages_go_without_who_sleeps),
        cmocka_unit_test(test_sleep_that_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
