/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices whose clocks leap, and devices that are much slower than the others. */
#include "fault/gossip_world.h"

#define SECOND 1000000u
#define DAY (86400u * (uint64_t)SECOND)
#define RARE_PINGS 16u              /* bytes a second of membership */

static uint32_t events(const struct world *w, enum uw_node_event_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        n += w->nodes[i].events[kind];
    }
    return n;
}

static bool b_is_pulling(struct world *w)
{
    const struct uw_pull *t = &w->nodes[1].node.state->pull.first.transfer;
    return t->active && t->have_chunks > t->chunks / 4u && t->have_chunks < t->chunks / 2u;
}

/* Three nodes on a slow path, b in the middle of a pull; membership_rate 0: the usual. */
static struct world *pulling(uint32_t membership_rate)
{
    struct world *w = world_new(3, 4000, 300);
    w->now_us = 3u * DAY;
    w->config.membership_rate = membership_rate;
    w->train_us = 20000;
    w->impairment.rate_bits_per_s = 400000;
    world_start(w);
    world_until(w, world_all_know_all, 10u * SECOND);
    world_run(w, membership_rate != 0 ? 60u * SECOND : 5u * SECOND);
    world_until(w, b_is_pulling, 20u * SECOND);
    memset(w->nodes[1].events, 0, sizeof w->nodes[1].events);
    return w;
}

/* Nobody was lost, nothing was given up, and pulls go on at the usual pace. */
static void expect_no_harm(struct world *w)
{
    uint32_t done[3];
    for (uint32_t i = 0; i < 3; i++) {
        done[i] = world_counters(w, i).pulls_done;
    }
    uint32_t cut = events(w, UW_NODE_PULL_CUT);
    world_run(w, 10u * SECOND);
    assert_int_equal(events(w, UW_NODE_SUSPECT), 0);
    assert_int_equal(events(w, UW_NODE_DEAD), 0);
    assert_int_equal(events(w, UW_NODE_PULL_CUT), cut);
    assert_int_equal(cut, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(world_counters(w, i).pulls_done >= done[i] + 4u);
        assert_true(world_state(w, i, "b") == UW_MEMBER_ALIVE);
    }
    struct uw_node_member rows[4];
    assert_int_equal(uw_node_status(&w->nodes[1].node, w->now_us + w->nodes[1].clock_us, rows, 4,
                                    NULL), 3);
    assert_true(rows[1].silent_us < 3u * SECOND && rows[2].silent_us < 3u * SECOND);
}

static void test_clock_of_one_device_that_leaps_ahead_by_a_day_harms_nobody(void **state)
{
    (void)state;
    struct world *w = pulling(0);
    w->nodes[1].clock_us += DAY;
    expect_no_harm(w);
    world_free(w);
}

static void test_clock_of_one_device_that_goes_back_by_a_day_harms_nobody(void **state)
{
    (void)state;
    struct world *w = pulling(0);
    w->nodes[1].clock_us -= DAY;
    expect_no_harm(w);
    w->nodes[1].clock_us -= SECOND;     /* and once more, by a little */
    expect_no_harm(w);
    uw_node_leave(&w->nodes[1].node, w->now_us - DAY);
    world_run(w, SECOND);
    assert_int_equal(world_state(w, 0, "b"), UW_MEMBER_LEFT);
    world_free(w);
}

static void test_clocks_of_all_that_leap_together_harm_nobody(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        struct world *w = pulling(0);
        for (uint32_t i = 0; i < w->n; i++) {
            w->nodes[i].clock_us += back != 0 ? 0u - DAY : DAY;
        }
        expect_no_harm(w);
        world_free(w);
    }
}

static bool b_is_pulling_and_pings_nobody_soon(struct world *w)
{
    const struct uw_node_state *b = w->nodes[1].node.state;
    return b_is_pulling(w) && uw_membership_next_us(&b->membership) > b->now_us + 4u * SECOND;
}

/* Nobody is called for seconds: it is the pull that wants a step every few milliseconds. */
static void test_sleep_shorter_than_the_pause_between_pings_harms_no_pull(void **state)
{
    (void)state;
    struct world *w = pulling(RARE_PINGS);
    world_until(w, b_is_pulling_and_pings_nobody_soon, 60u * SECOND);
    w->nodes[1].clock_us += 9u * SECOND / 2u;
    world_run(w, 2u * SECOND);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
    assert_int_equal(w->nodes[1].events[UW_NODE_PULL_MOVED], 0);
    assert_true(w->nodes[1].events[UW_NODE_PULL_DONE] > 0);
    world_free(w);
}

static bool b_knows_that_c_is_dead(struct world *w)
{
    return world_state(w, 1, "c") == UW_MEMBER_DEAD;
}

/* Between its steps the device is busy, not asleep. */
static void test_device_that_always_comes_late_notices_who_dies(void **state)
{
    (void)state;
    struct world *w = world_new(3, 4000, 300);
    w->train_us = 20000;
    w->nodes[1].pause_us = 3u * SECOND / 2u;
    world_start(w);
    world_until(w, world_all_know_all, 20u * SECOND);
    world_run(w, 20u * SECOND);
    world_down(w, 2);
    world_until(w, b_knows_that_c_is_dead, 40u * SECOND);
    assert_true(world_state(w, 1, "a") == UW_MEMBER_ALIVE);
    world_free(w);
}

/* The rounds that three devices end in 20 s beside one that computes and answers `slowness` times
 * as slowly; *own: its. */
static uint32_t rounds_beside(uint32_t slowness, uint32_t *own)
{
    struct world *w = world_new(4, 4000, 300);
    w->train_us = 20000;
    w->nodes[3].slowness = slowness;
    w->nodes[3].pause_us = slowness > 1u ? slowness * 5000u : 0;
    world_start(w);
    world_until(w, world_all_know_all, 10u * SECOND);
    world_run(w, 20u * SECOND);
    assert_int_equal(events(w, UW_NODE_SUSPECT), 0);
    assert_int_equal(events(w, UW_NODE_PULL_CUT), 0);
    assert_int_equal(events(w, UW_NODE_PULL_REFUSED), 0);
    /* It takes part: the others pulled from it, and it agrees with them. */
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < w->size_n; k += 97u) {
            assert_float_equal(w->nodes[i].x[k], w->nodes[3].x[k], 0.05);
        }
    }
    assert_true(world_counters(w, 3).served_bytes > 4u * w->size_n);
    *own = w->nodes[3].rounds;
    uint32_t rounds = (w->nodes[0].rounds + w->nodes[1].rounds + w->nodes[2].rounds) / 3u;
    print_message("slowness %u: %u rounds, the others %u\n", (unsigned)slowness, (unsigned)*own,
                  (unsigned)rounds);
    world_free(w);
    return rounds;
}

static void test_device_ten_times_slower_takes_part_and_holds_up_nobody(void **state)
{
    (void)state;
    uint32_t alike;
    uint32_t slow;
    uint32_t usual = rounds_beside(1, &alike);
    uint32_t beside = rounds_beside(10, &slow);
    assert_true(slow >= alike / 15u && slow <= alike / 5u);
    /* A third of their pulls goes to it, and those take longer: rounds grow, steps do not wait. */
    assert_true(beside >= usual / 3u);
}

/* As over a satellite, or a queue that is full: an answer takes longer than a pull usually outlives
 * of silence. */
static void test_pulls_succeed_where_a_round_trip_takes_seconds(void **state)
{
    (void)state;
    for (uint32_t peers = 1; peers <= 2; peers++) {
        struct world *w = world_new(3, 4000, 300);
        w->config.pull_peers = peers;
        w->train_us = 100000;
        w->queue_n = 2000;
        w->impairment.delay_us = 5u * SECOND / 2u;
        world_start(w);
        world_until(w, world_all_know_all, 120u * SECOND);
        world_run(w, 30u * SECOND);         /* until round trips are known */
        for (uint32_t i = 0; i < w->n; i++) {
            w->nodes[i].text[UW_NODE_PULL_CUT][0] = '\0';
        }
        world_run(w, 300u * SECOND);
        for (uint32_t i = 0; i < w->n; i++) {
            struct uw_node_counters c = world_counters(w, i);
            print_message("pulls: %u done, %u cut\n", (unsigned)c.pulls_done,
                          (unsigned)c.pulls_cut);
            assert_true(c.pulls_done >= 15u);
            /* Some take far longer than those before, none is taken for silent. */
            assert_true(c.pulls_cut <= c.pulls_done / 8u);
            assert_null(strstr(w->nodes[i].text[UW_NODE_PULL_CUT], "silent"));
        }
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_of_one_device_that_leaps_ahead_by_a_day_harms_nobody),
        cmocka_unit_test(test_clock_of_one_device_that_goes_back_by_a_day_harms_nobody),
        cmocka_unit_test(test_clocks_of_all_that_leap_together_harm_nobody),
        cmocka_unit_test(test_sleep_shorter_than_the_pause_between_pings_harms_no_pull),
        cmocka_unit_test(test_device_that_always_comes_late_notices_who_dies),
        cmocka_unit_test(test_device_ten_times_slower_takes_part_and_holds_up_nobody),
        cmocka_unit_test(test_pulls_succeed_where_a_round_trip_takes_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
