/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes whose peers are a list: nobody is pinged, everybody learns from those of the list. */
#include "fault/gossip_world.h"

#define SECOND UINT64_C(1000000)

static const char *const all[] = {"0", "1", "2"};

static struct world *listed_world(uint32_t n)
{
    struct world *w = world_new(n, 64, 256);
    w->listed = true;
    w->config.seeds = all;
    w->config.seeds_n = n;          /* each one's own address is among them */
    return w;
}

static float spread(const struct world *w)
{
    float least = w->nodes[0].x[0], most = least;
    for (uint32_t i = 1; i < w->n; i++) {
        float x = w->nodes[i].x[0];
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    return most - least;
}

static void test_listed_nodes_mix_and_ping_nobody(void **state)
{
    (void)state;
    struct world *w = listed_world(3);
    world_start(w);
    world_run(w, 20 * SECOND);
    assert_true(spread(w) < 1e-3f);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_node_counters c = world_counters(w, i);
        assert_int_equal(c.membership_bytes, 0);
        assert_int_equal(c.pulls_cut, 0);
        assert_true(c.pulls_done > 100);
        assert_int_equal(w->nodes[i].events[UW_NODE_ALIVE], 2);
        assert_int_equal(w->nodes[i].node.state->membership.members_n, 3);
    }
    world_free(w);
}

/* b is silent for two minutes: a asks it a dozen times at most, and learns from it once more. */
static void test_silent_peer_is_asked_rarely_and_comes_back(void **state)
{
    (void)state;
    struct world *w = listed_world(2);
    world_start(w);
    world_run(w, 5 * SECOND);
    world_down(w, 1);
    uint32_t started = w->nodes[0].events[UW_NODE_PULL_STARTED];
    world_run(w, 120 * SECOND);
    assert_int_equal(w->nodes[0].events[UW_NODE_SUSPECT], 1);
    assert_in_range(w->nodes[0].events[UW_NODE_PULL_STARTED] - started, 3, 12);
    world_up(w, 1);
    uint64_t done = world_counters(w, 0).pulls_done;
    world_run(w, 90 * SECOND);
    assert_int_equal(w->nodes[0].events[UW_NODE_REJOINED], 1);
    assert_true(world_counters(w, 0).pulls_done > done + 100);
    world_free(w);
}

static void test_newcomer_takes_over_the_model_of_a_listed_peer(void **state)
{
    (void)state;
    struct world *w = listed_world(2);
    world_up(w, 0);
    world_run(w, 2 * SECOND);
    w->nodes[0].trains = false;
    struct uw_node_config c = world_config(w, 1);
    c.newcomer = true;
    world_up_with(w, 1, c);
    world_run(w, 2 * SECOND);
    assert_int_equal(w->nodes[1].events[UW_NODE_ADOPTED], 1);
    assert_float_equal(w->nodes[1].x[5], w->nodes[0].x[5], 0.0);
    world_free(w);
}

/* A node of the list is served by, and serves, one that finds its peers. */
static void test_listed_node_pulls_from_one_that_finds_its_peers(void **state)
{
    (void)state;
    struct world *w = listed_world(2);
    world_up(w, 0);
    w->listed = false;
    world_up(w, 1);
    world_run(w, 10 * SECOND);
    assert_true(world_counters(w, 0).pulls_done > 50);
    assert_int_equal(world_counters(w, 1).pulls_done, 0);      /* it answers no ping */
    world_free(w);
}

static void test_what_needs_membership_is_refused_with_a_sentence(void **state)
{
    (void)state;
    struct world *w = listed_world(2);
    struct uw_error err = {.text = ""};
    size_t bytes;
    world_up(w, 0);
    struct uw_node_config c = world_config(w, 1);
    c.link = &w->nodes[0].emulated.link;
    assert_int_equal(uw_node_measure_listed(&c, &bytes, &err), UW_OK);
    c.agree = true;
    assert_int_equal(uw_node_measure_listed(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "agree is not for static membership"));
    c.agree = false;
    c.members_max = 2;
    assert_int_equal(uw_node_measure_listed(&c, &bytes, &err), UW_ERR_INVALID);
    c.members_max = 0;
    c.seeds_n = 0;
    assert_int_equal(uw_node_measure_listed(&c, &bytes, &err), UW_ERR_INVALID);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listed_nodes_mix_and_ping_nobody),
        cmocka_unit_test(test_silent_peer_is_asked_rarely_and_comes_back),
        cmocka_unit_test(test_newcomer_takes_over_the_model_of_a_listed_peer),
        cmocka_unit_test(test_listed_node_pulls_from_one_that_finds_its_peers),
        cmocka_unit_test(test_what_needs_membership_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
