/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer that shows nothing new is not mixed in again: a straggler pulled twenty times for each of
 * its rounds would hold back all that are faster. */
#include "fault/gossip_world.h"

#define SIZE_N 600u

/* a trains, but shows nothing new for hours; b ends a round every 20 ms. Neither learns. */
static struct world *still(enum uw_node_mode mode)
{
    struct world *w = world_new(3, SIZE_N, 300);
    w->config.mode = mode;
    w->config.head_weight = 1;
    w->nodes[0].slowness = 1000000;
    for (uint32_t i = 0; i < 2; i++) {
        world_up(w, i);
    }
    return w;
}

static void assert_mixed_once(const struct world *w, float before, float other)
{
    for (uint32_t k = 0; k < SIZE_N; k++) {
        assert_float_equal(w->nodes[1].x[k], 0.5f * (before + other), 1e-5);
    }
}

static void test_what_a_peer_shows_is_mixed_in_once(void **state)
{
    static const enum uw_node_mode modes[] = {UW_NODE_GOSSIP, UW_NODE_HIERARCHICAL};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world *w = still(modes[i]);
        world_run(w, 3000000);
        struct uw_node_counters c = world_counters(w, 1);
        assert_true(c.pulls_stale > 2u);
        assert_int_equal(c.pulls_done, 1);
        assert_mixed_once(w, 2.0f, 1.0f);
        world_free(w);
    }
}

/* It counts its versions from 1 again. */
static void test_a_peer_that_was_restarted_is_new(void **state)
{
    (void)state;
    struct world *w = still(UW_NODE_GOSSIP);
    world_run(w, 3000000);
    world_down(w, 0);
    w->nodes[0].snapshot.version = 0;
    for (uint32_t k = 0; k < SIZE_N; k++) {
        w->nodes[0].x[k] = 3.0f;
    }
    world_up(w, 0);
    world_run(w, 20000000);
    assert_int_equal(world_counters(w, 1).pulls_done, 2);
    assert_mixed_once(w, 1.5f, 3.0f);
    world_free(w);
}

/* Momentum over averages carries it on for many rounds, and not further than it should; running
 * statistics, here the second half, it does not carry. */
static void test_what_is_pulled_comes_to_its_share_under_outer_momentum(void **state)
{
    static const struct uw_mix_rule *const rules[] = {&uw_mix_slowmo, &uw_mix_diloco};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world *w = world_new(2, SIZE_N, 300);
        float *spare[2];
        w->config.mode = UW_NODE_HIERARCHICAL;
        w->config.head_weight = 1;
        w->config.rule = rules[i];
        w->segments[1].statistic = true;
        w->nodes[0].slowness = 1000000;
        for (uint32_t k = 0; k < 2; k++) {
            spare[k] = w->nodes[k].spare = uw_test_floats(SIZE_N);
            world_up(w, k);
        }
        world_run(w, 5000000);
        assert_int_equal(world_counters(w, 1).pulls_done, 1);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            assert_float_equal(w->nodes[1].x[k], 1.5f, 1e-3);
        }
        world_free(w);
        uw_test_release(spare[0]);
        uw_test_release(spare[1]);
    }
}

/* Who else is there is asked in its place, in the same round. */
static void test_another_peer_is_asked_at_once(void **state)
{
    (void)state;
    struct world *w = still(UW_NODE_GOSSIP);
    world_up(w, 2);
    w->nodes[2].slowness = 20;      /* a round every 100 ms: rarer than those of b */
    world_run(w, 5000000);
    uint32_t stale_n = world_counters(w, 1).pulls_stale, rounds = w->nodes[1].rounds;
    uint32_t done_n = world_counters(w, 1).pulls_done;
    world_run(w, 10000000);
    assert_true(world_counters(w, 1).pulls_stale - stale_n > 50u);
    assert_true(world_counters(w, 1).pulls_done - done_n > 60u);     /* of 100 that are new */
    assert_true(w->nodes[1].rounds - rounds > 200u);
    assert_true(fabsf(w->nodes[1].x[7] - w->nodes[2].x[7]) < 0.1f);
    world_free(w);
}

/* What a cell of one hands over is what it gets back: shown again, it would pass for new. */
static void test_a_cell_of_one_shows_a_round_once(void **state)
{
    (void)state;
    struct world *w = world_new(2, SIZE_N, 300);
    w->config.mode = UW_NODE_HIERARCHICAL;
    w->config.head_weight = 1;
    world_start(w);
    world_run(w, 3000000);
    for (uint32_t i = 0; i < 2; i++) {
        const struct world_node *n = &w->nodes[i];
        uint32_t rounds = n->progress.step / w->config.period_steps;
        assert_true(n->rounds > 20u);
        assert_in_range(n->snapshot.version, rounds, rounds + 2u);
    }
    world_free(w);
}

/* b has mixed in what each of eight shows, and may ask any of them at any time: round trips to all
 * would add up. */
static void test_a_round_asks_few_that_have_nothing_new(void **state)
{
    (void)state;
    struct world *w = world_new(9, SIZE_N, 300);
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].slowness = i != 1 ? 1000000 : 1;
    }
    world_start(w);
    world_run(w, 10000000);
    const struct uw_node_state *s = w->nodes[1].node.state;
    assert_int_equal(world_counters(w, 1).pulls_done, 8);
    uint32_t round = 0, before = 0, most = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        for (uint32_t k = 1; k < s->membership.members_n; k++) {
            s->peers[k].avoid_until_us = 0;
        }
        if (s->pull.round != round) {
            round = s->pull.round;
            before = world_counters(w, 1).pulls_stale;
        }
        world_tick(w);
        uint32_t asked = s->pull.round == round ? world_counters(w, 1).pulls_stale - before : 0;
        most = asked > most ? asked : most;
    }
    assert_int_equal(most, 4);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_peer_shows_is_mixed_in_once),
        cmocka_unit_test(test_a_peer_that_was_restarted_is_new),
        cmocka_unit_test(test_what_is_pulled_comes_to_its_share_under_outer_momentum),
        cmocka_unit_test(test_another_peer_is_asked_at_once),
        cmocka_unit_test(test_a_cell_of_one_shows_a_round_once),
        cmocka_unit_test(test_a_round_asks_few_that_have_nothing_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
