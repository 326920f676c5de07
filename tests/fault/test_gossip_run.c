/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole runs: nodes that come, go, stop, return, lie, and do not belong. */
#include "fault/gossip_world.h"

#include "uwasa/status_client.h"

static float lowest(const struct world *w)
{
    float v = w->nodes[0].x[0];
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; w->nodes[i].up && k < w->size_n; k++) {
            v = w->nodes[i].x[k] < v ? w->nodes[i].x[k] : v;
        }
    }
    return v;
}

static float highest(const struct world *w)
{
    float v = w->nodes[0].x[0];
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; w->nodes[i].up && k < w->size_n; k++) {
            v = w->nodes[i].x[k] > v ? w->nodes[i].x[k] : v;
        }
    }
    return v;
}

/* Element by element: chunks are mixed with different versions, so elements agree on different
 * values between the lowest and the highest start. */
static bool agreed(struct world *w)
{
    for (uint32_t k = 0; k < w->size_n; k++) {
        for (uint32_t i = 1; i < w->n; i++) {
            if (w->nodes[i].up && fabsf(w->nodes[i].x[k] - w->nodes[0].x[k]) > 1e-3f) {
                return false;
            }
        }
    }
    return true;
}

static void test_nodes_find_each_other_from_one_seed_and_agree(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n += 3) {
        for (uint32_t lr = 0; lr < 2; lr++) {
            struct world *w = world_new(n, 500, 0);
            w->impairment.loss = 0.2f;
            for (uint32_t i = 0; i < n; i++) {
                w->nodes[i].progress.lr = lr != 0 ? 0.1f : 0.0f;
            }
            world_start(w);
            world_until(w, world_all_know_all, 30000000);
            world_until(w, agreed, 60000000);
            assert_true(lowest(w) >= 1.0f && highest(w) <= (float)n);
            world_free(w);
        }
    }
}

static bool b_thinks_a_dead(struct world *w)
{
    return world_state(w, 1, "a") == UW_MEMBER_DEAD;
}

static bool ab_alive(struct world *w)
{
    return world_state(w, 1, "a") == UW_MEMBER_ALIVE && world_state(w, 0, "b") == UW_MEMBER_ALIVE;
}

static void test_round_trips_of_three_seconds_are_known_with_a_ping_every_second(void **state)
{
    (void)state;
    struct world *w = world_new(3, 50, 0);
    struct uw_node_member rows[WORLD_MAX];
    w->config.ping_us = 1000000;
    w->impairment.delay_us = 1500000;
    world_start(w);
    world_until(w, world_all_know_all, 30000000);
    world_run(w, 30000000);
    for (uint32_t i = 0; i < w->n; i++) {
        assert_int_equal(uw_node_status(&w->nodes[i].node, w->now_us, rows, WORLD_MAX, NULL), w->n);
        for (uint32_t k = 1; k < w->n; k++) {
            assert_in_range(rows[k].rtt_us, 3000000, 3010000);
            assert_int_equal(rows[k].state, UW_MEMBER_ALIVE);
        }
        assert_int_equal(w->nodes[i].events[UW_NODE_SUSPECT], 0);
    }
    world_free(w);
}

static void test_partition_is_noticed_and_heals_by_itself(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_start(w);
    world_until(w, world_all_know_all, 5000000);
    uw_link_emulated_cut(&w->nodes[0].emulated, 1, UW_EMULATED_BOTH);
    world_until(w, b_thinks_a_dead, 20000000);
    assert_int_equal(world_state(w, 1, "c"), UW_MEMBER_ALIVE);
    assert_non_null(strstr(w->nodes[1].text[UW_NODE_SUSPECT], "peer a (0) silent for "));
    assert_non_null(strstr(w->nodes[1].text[UW_NODE_SUSPECT], "suspected, pulls go to 1 other"));
    world_run(w, 100000000);
    uw_link_emulated_cut(&w->nodes[0].emulated, 1, 0);
    world_until(w, ab_alive, 8000000);
    assert_true(w->nodes[1].events[UW_NODE_REJOINED] != 0);
    world_free(w);
}

static void test_node_stopped_for_thirty_seconds_blames_nobody_and_returns(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_start(w);
    world_until(w, world_all_know_all, 5000000);
    w->nodes[1].paused = true;
    world_run(w, 30000000);
    assert_int_equal(world_state(w, 0, "b"), UW_MEMBER_DEAD);
    uint32_t suspected = w->nodes[1].events[UW_NODE_SUSPECT];
    w->nodes[1].paused = false;
    world_until(w, world_all_know_all, 8000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_SUSPECT], suspected);
    assert_int_equal(w->nodes[1].events[UW_NODE_DEAD], 0);
    world_free(w);
}

static void test_killed_node_returns_with_a_new_incarnation(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_start(w);
    world_until(w, world_all_know_all, 5000000);
    world_down(w, 0);                       /* the seed itself */
    world_run(w, 20000000);
    assert_int_equal(world_state(w, 1, "a"), UW_MEMBER_DEAD);
    world_up(w, 0);                         /* dials only itself: the others must call it */
    world_until(w, world_all_know_all, 8000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_RESTARTED], 1);
    world_down(w, 2);
    world_up(w, 2);                         /* so fast that nobody noticed */
    world_until(w, world_all_know_all, 5000000);
    world_run(w, 5000000);
    assert_int_equal(w->nodes[1].events[UW_NODE_RESTARTED], 2);
    assert_int_equal(w->nodes[1].events[UW_NODE_NAME_TAKEN], 0);
    world_free(w);
}

static void test_restart_with_a_stopped_clock_is_let_in(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_start(w);
    world_until(w, world_all_know_all, 5000000);
    world_down(w, 1);
    struct uw_node_config c = world_config(w, 1);
    c.incarnation = 1;
    world_up_with(w, 1, c);
    world_until(w, world_all_know_all, 8000000);
    world_free(w);
}

static void test_mass_restart_heals(void **state)
{
    (void)state;
    struct world *w = world_new(4, 100, 0);
    w->train_us = 20000;
    w->impairment.loss = 0.1f;
    world_start(w);
    world_until(w, world_all_know_all, 10000000);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < w->n; i++) {
            world_down(w, i);
        }
        w->now_us += 10000000;
        world_start(w);
        world_until(w, world_all_know_all, 10000000);
    }
    world_free(w);
}

static void test_wrong_model_and_wrong_run_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    w->nodes[1].params.hash = 0x42;
    world_up(w, 0);
    world_up(w, 1);
    struct uw_node_config c = world_config(w, 2);
    c.run = "another";
    world_up_with(w, 2, c);
    world_run(w, 8000000);
    assert_string_equal(w->nodes[0].text[UW_NODE_WRONG_MODEL],
                        "peer b (1) trains another model (hash 0000000000000042, ours "
                        "1234567890abcdef): no pulls between us");
    assert_string_equal(w->nodes[0].text[UW_NODE_WRONG_RUN],
                        "2 belongs to another run, ours is \"world\": refused");
    assert_string_equal(w->nodes[2].text[UW_NODE_WRONG_RUN],
                        "0 belongs to another run, ours is \"another\": refused");
    assert_true(world_counters(w, 0).refused_run > 0 && world_counters(w, 0).refused_model > 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w->nodes[i].events[UW_NODE_PULL_STARTED], 0);
        assert_float_equal(w->nodes[i].x[7], (float)(i + 1), 0.0);
    }
    /* Once in ten seconds is enough, whatever arrives. */
    assert_true(w->nodes[0].events[UW_NODE_WRONG_MODEL] <= 2);
    world_free(w);
}

static void poison(struct world_node *n)
{
    n->x[17] = (float)NAN;
}

static void enlarge(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] = 1e6f;
    }
}

static void check_bad_peer(void (*train)(struct world_node *), enum uw_node_event_kind kind)
{
    struct world *w = world_new(3, 1000, 0);
    w->train_us = 20000;
    w->nodes[2].train = train;
    train(&w->nodes[2]);
    world_start(w);
    world_run(w, 60000000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w->nodes[i].events[kind] >= 1);
        /* Left alone for 5, 10, 20, ... s: a handful of tries in a minute, but not none. */
        assert_true(w->nodes[i].events[kind] <= 6);
        for (uint32_t k = 0; k < w->size_n; k++) {
            assert_true(w->nodes[i].x[k] >= 1.0f && w->nodes[i].x[k] <= 3.0f);
        }
    }
    struct uw_node_counters c = world_counters(w, 0);
    assert_true((kind == UW_NODE_CHUNK_OUTLIER ? c.refused_outlier : c.refused_nonfinite) > 0);
    world_free(w);
}

static void test_peer_with_nan_spoils_nobody(void **state)
{
    (void)state;
    check_bad_peer(poison, UW_NODE_CHUNK_NONFINITE);
}

static void test_peer_with_outliers_spoils_nobody(void **state)
{
    (void)state;
    check_bad_peer(enlarge, UW_NODE_CHUNK_OUTLIER);
}

static void hold_still(struct world_node *n, int flags)
{
    /* What the contract asks: no steps on a model that is half taken over. */
    n->progress.lr = (flags & UW_NODE_ADOPTING) != 0 ? 0.0f : 0.1f;
}

static void test_newcomer_adopts_and_spoils_nobody(void **state)
{
    (void)state;
    struct world *w = world_new(3, 5000, 127);
    w->impairment.rate_bits_per_s = 4000000;
    world_up(w, 0);
    world_up(w, 1);
    world_run(w, 10000000);
    assert_true(w->nodes[0].rounds >= 2 && agreed(w));
    float low = lowest(w);
    float high = 0.0f;
    for (uint32_t k = 0; k < w->size_n; k++) {
        high = w->nodes[0].x[k] > high ? w->nodes[0].x[k] : high;
    }
    for (uint32_t k = 0; k < w->size_n; k++) {
        w->nodes[2].x[k] = 1e9f;        /* further away than any guard would let through */
    }
    struct uw_node_config c = world_config(w, 2);
    c.newcomer = true;
    w->nodes[2].after = hold_still;
    world_up_with(w, 2, c);
    world_run(w, 10000000);
    assert_int_equal(w->nodes[2].events[UW_NODE_ADOPTED], 1);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < w->size_n; k++) {
            assert_true(w->nodes[i].x[k] >= low - 1e-3f && w->nodes[i].x[k] <= high + 1e-3f);
        }
    }
    world_free(w);
}

/* A device that starts again from a checkpoint of so many of the others' steps, in percent. */
static void check_restarted(uint32_t percent, uint32_t adopted)
{
    struct world *w = world_new(3, 500, 0);
    w->train_us = 20000;
    world_up(w, 0);
    world_up(w, 1);
    world_run(w, 20000000);
    assert_true(w->nodes[0].progress.step > 100);
    struct uw_node_config c = world_config(w, 2);
    c.newcomer = true;
    c.trained_steps = w->nodes[0].progress.step * percent / 100u;
    w->nodes[2].after = hold_still;
    world_up_with(w, 2, c);
    world_run(w, 10000000);
    assert_int_equal(w->nodes[2].events[UW_NODE_ADOPTED], adopted);
    assert_true(agreed(w));
    assert_true(adopted == 0 || highest(w) < 2.0f);     /* nobody mixed its values, which are 3 */
    world_free(w);
}

static void test_device_that_restarts_far_behind_takes_over_a_model(void **state)
{
    (void)state;
    check_restarted(0, 1);
    check_restarted(40, 1);
    check_restarted(90, 0);
}

static void test_newcomers_alone_start_together(void **state)
{
    (void)state;
    struct world *w = world_new(4, 500, 0);
    w->config.newcomer = true;
    world_start(w);
    world_until(w, world_all_know_all, 10000000);
    world_until(w, agreed, 30000000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(w->nodes[i].rounds > 0);
    }
    world_free(w);
}

static void test_full_member_table_is_told_and_the_dead_make_room(void **state)
{
    (void)state;
    struct world *w = world_new(4, 100, 0);
    w->train_us = 20000;
    w->config.members_max = 3;
    world_up(w, 0);
    world_up(w, 1);
    world_up(w, 2);
    world_run(w, 3000000);
    world_up(w, 3);
    world_run(w, 3000000);
    assert_true(w->nodes[0].events[UW_NODE_MEMBERS_FULL] >= 1);
    assert_int_equal(world_state(w, 0, "d"), UW_MEMBER_UNKNOWN);
    world_down(w, 1);
    world_run(w, 30000000);
    assert_int_equal(world_state(w, 0, "d"), UW_MEMBER_ALIVE);
    world_free(w);
}

static void test_one_name_for_two_devices_is_told_to_the_older(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_up(w, 0);
    world_up(w, 1);
    world_run(w, 3000000);
    strcpy(w->nodes[2].name, "b");
    world_up(w, 2);
    world_run(w, 10000000);
    assert_true(w->nodes[1].events[UW_NODE_NAME_TAKEN] >= 1);
    assert_non_null(strstr(w->nodes[1].text[UW_NODE_NAME_TAKEN], "has the name b, too"));
    world_free(w);
}

static void test_leaving_is_told_and_ends_the_calls(void **state)
{
    (void)state;
    struct world *w = world_new(3, 100, 0);
    w->train_us = 20000;
    world_start(w);
    world_until(w, world_all_know_all, 5000000);
    uw_node_leave(&w->nodes[1].node, w->now_us);
    world_run(w, 100000);
    assert_int_equal(world_state(w, 0, "b"), UW_MEMBER_LEFT);
    assert_int_equal(world_state(w, 2, "b"), UW_MEMBER_LEFT);
    assert_string_equal(w->nodes[0].text[UW_NODE_LEFT], "peer b (1) left the run: 1 peer alive");
    world_down(w, 1);
    world_run(w, 20000000);
    assert_int_equal(world_state(w, 0, "b"), UW_MEMBER_LEFT);
    world_up(w, 1);
    world_until(w, world_all_know_all, 5000000);
    world_free(w);
}

static void test_status_client_reads_the_whole_table(void **state)
{
    (void)state;
    struct world *w = world_new(8, 100, 300);
    struct uw_node_config first = world_config(w, 0);
    first.kernels = "cuda: a GPU whose name is longer than anybody wants to read";
    world_up_with(w, 0, first);
    for (uint32_t i = 1; i < 7; i++) {
        world_up(w, i);
    }
    w->n = 7;
    world_until(w, world_all_know_all, 10000000);
    world_run(w, 1000000);
    struct uw_link_loopback l;
    assert_int_equal(uw_link_loopback_init(&l, &w->hub, 7), UW_OK);
    struct uw_status_client c;
    assert_int_equal(uw_status_client_init(&c, &l.link, "0"), UW_OK);
    struct uw_node_member rows[16];
    struct uw_node_counters counters;
    int rc = UW_ERR_AGAIN;
    for (uint32_t i = 0; i < 1000 && rc == UW_ERR_AGAIN; i++) {
        rc = uw_status_client_step(&c, w->now_us, rows, 16, &counters);
        world_tick(w);
    }
    assert_int_equal(rc, 7);
    assert_string_equal(c.kernels, "cuda: a GPU whose name is longer than anybody w");
    assert_string_equal(rows[0].name, "a");
    for (int i = 0; i < 7; i++) {
        assert_int_equal(rows[i].state, UW_MEMBER_ALIVE);
        assert_true(rows[i].step > 0 && rows[i].same_model);
    }
    assert_true(counters.pulls_done > 0 && counters.pulled_bytes > 0);
    world_down(w, 0);
    do {
        rc = uw_status_client_step(&c, w->now_us, rows, 16, &counters);
        w->now_us += 100000;
    } while (rc == UW_ERR_AGAIN);
    assert_int_equal(rc, UW_ERR_TIMEOUT);
    uw_link_deinit(&l.link);
    w->n = 8;
    world_free(w);
}

static void test_how_a_device_fares_reaches_other_tables_where_it_is_told(void **state)
{
    (void)state;
    const struct uw_vitals fares = {.power_mw = 7350, .temperature_mc = -20500,
                                    .battery_percent = 83};
    struct world *w = world_new(3, 100, 300);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_node_config c = world_config(w, i);
        w->nodes[i].progress.vitals = fares;
        c.vitals = i == 1;
        world_up_with(w, i, c);
    }
    world_until(w, world_all_know_all, 10000000);
    world_run(w, 2000000);
    struct uw_node_member rows[4];
    assert_int_equal(uw_node_status(&w->nodes[0].node, w->now_us, rows, 4, NULL), 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_vitals want = strcmp(rows[i].name, "b") == 0 ? fares : (struct uw_vitals){0};
        assert_int_equal(rows[i].vitals.power_mw, want.power_mw);
        assert_int_equal(rows[i].vitals.temperature_mc, want.temperature_mc);
        assert_int_equal(rows[i].vitals.battery_percent, fares.battery_percent);
    }
    world_free(w);
}

static void test_bind_refuses_what_is_not_allowed_with_a_sentence(void **state)
{
    (void)state;
    struct world *w = world_new(2, 100, 60);
    struct uw_error err;
    size_t bytes;
    struct uw_node_config c = world_config(w, 0);
    assert_int_equal(uw_link_loopback_init(&w->nodes[0].loopback, &w->hub, 0), UW_OK);
    c.link = &w->nodes[0].loopback.link;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_TOOBIG);
    c.name = "with space";
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "config.name needs 1 to 31 printable characters without spaces");
    c.name = "";
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    c.name = "a_name_of_more_than_thirty_one_bytes";
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    c.name = "a";
    c.members_max = 1;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    uw_link_deinit(&w->nodes[0].loopback.link);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_find_each_other_from_one_seed_and_agree),
        cmocka_unit_test(test_round_trips_of_three_seconds_are_known_with_a_ping_every_second),
        cmocka_unit_test(test_partition_is_noticed_and_heals_by_itself),
        cmocka_unit_test(test_node_stopped_for_thirty_seconds_blames_nobody_and_returns),
        cmocka_unit_test(test_killed_node_returns_with_a_new_incarnation),
        cmocka_unit_test(test_restart_with_a_stopped_clock_is_let_in),
        cmocka_unit_test(test_mass_restart_heals),
        cmocka_unit_test(test_wrong_model_and_wrong_run_are_refused_with_a_sentence),
        cmocka_unit_test(test_peer_with_nan_spoils_nobody),
        cmocka_unit_test(test_peer_with_outliers_spoils_nobody),
        cmocka_unit_test(test_newcomer_adopts_and_spoils_nobody),
        cmocka_unit_test(test_device_that_restarts_far_behind_takes_over_a_model),
        cmocka_unit_test(test_newcomers_alone_start_together),
        cmocka_unit_test(test_full_member_table_is_told_and_the_dead_make_room),
        cmocka_unit_test(test_one_name_for_two_devices_is_told_to_the_older),
        cmocka_unit_test(test_leaving_is_told_and_ends_the_calls),
        cmocka_unit_test(test_status_client_reads_the_whole_table),
        cmocka_unit_test(test_how_a_device_fares_reaches_other_tables_where_it_is_told),
        cmocka_unit_test(test_bind_refuses_what_is_not_allowed_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
