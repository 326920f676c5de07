/* SPDX-License-Identifier: Apache-2.0
 *
 * A node that keeps no snapshot: peers get its parameters as they are, chunk by chunk. */
#include "fault/gossip_world.h"

#include "uwasa/queries.h"

#define SIZE_N 20000u
#define MTU 400u                    /* a pull takes 213 chunks, and many steps */

static void up_live(struct world *w, uint32_t i)
{
    struct uw_node_config c = world_config(w, i);
    c.snapshot = NULL;
    c.window_bytes = 2000;
    world_up_with(w, i, c);
}

/* Cut node i off from 0 and 3, or heal it. */
static void cut(struct world *w, uint32_t i, unsigned directions)
{
    for (uint16_t other = 0; other < 4; other += 3) {
        assert_int_equal(uw_link_emulated_cut(&w->nodes[i].emulated, other, directions), UW_OK);
    }
}

/* Every parameter is the number of the step. */
static void count_steps(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] = (float)n->progress.step;
    }
}

static bool second_has_pulled(struct world *w)
{
    return world_counters(w, 1).pulls_done >= 3;
}

static void test_every_float_served_is_one_that_was_there(void **state)
{
    (void)state;
    struct world *w = world_new(2, SIZE_N, MTU);
    w->config.rule = &uw_mix_none;
    w->config.constants.weight = 1.0f;      /* what is pulled stays as it came */
    w->config.period_steps = 3;
    w->train_us = 1000;
    w->nodes[0].train = count_steps;
    w->nodes[1].progress.lr = 0.0f;
    up_live(w, 0);
    world_up(w, 1);
    uint32_t kinds_most = 0;
    while (!second_has_pulled(w)) {
        world_tick(w);
        assert_true(w->now_us < 60000000u);
        const float *x = w->nodes[1].x;
        uint32_t kinds = 1;
        for (uint32_t k = 1; world_counters(w, 1).pulls_done > 0 && k < SIZE_N; k++) {
            assert_true(x[k] == floorf(x[k]) && x[k] >= 0.0f);
            assert_true(x[k] <= (float)w->nodes[0].progress.step);
            kinds += x[k] != x[k - 1u];
        }
        kinds_most = kinds > kinds_most ? kinds : kinds_most;
    }
    assert_true(kinds_most > 1);            /* a pull spans steps */
    assert_int_equal(world_counters(w, 1).refused_corrupt, 0);
    world_free(w);
}

static bool two_have_mixed(struct world *w)
{
    return world_counters(w, 0).pulls_done > 3 && world_counters(w, 3).pulls_done > 3;
}

static bool second_shows(struct world *w)
{
    struct uw_node_member self;
    (void)uw_node_status(&w->nodes[1].node, w->now_us, &self, 1, NULL);
    return self.version != 0;
}

static bool second_pulls(struct world *w)
{
    return w->nodes[1].events[UW_NODE_PULL_STARTED] != 0;
}

static bool second_is_torn(const struct world *w)
{
    const float *x = w->nodes[1].x;
    for (uint32_t k = 1; k < w->size_n; k++) {
        if (x[k] != x[0]) {
            return true;
        }
    }
    return false;
}

/* 1 has begun alone and takes over the model of 0, which is further on; the newcomer 2 asks 1. */
static void test_half_of_a_model_that_is_taken_over_is_served_to_nobody(void **state)
{
    (void)state;
    struct world *w = world_new(4, SIZE_N, MTU);
    w->config.rule = &uw_mix_none;
    w->config.period_steps = 3;
    for (uint32_t k = 0; k < SIZE_N; k++) {
        w->nodes[3].x[k] = w->nodes[0].x[k];
    }
    world_up(w, 0);
    world_up(w, 3);
    world_until(w, two_have_mixed, 60000000);
    w->config.newcomer = true;
    up_live(w, 1);
    cut(w, 1, UW_EMULATED_BOTH);
    world_until(w, second_shows, 60000000);
    w->train_us = 20000;                    /* the window is small: it takes a second */
    cut(w, 1, 0);
    world_until(w, second_pulls, 60000000);
    struct uw_node_config c = world_config(w, 2);
    static const char *const first[] = {"1"};
    c.seeds = first;
    c.window_bytes = 2000;
    world_up_with(w, 2, c);
    cut(w, 2, UW_EMULATED_BOTH);
    uint32_t torn_n = 0;
    bool torn = false;
    while (w->nodes[1].events[UW_NODE_ADOPTED] == 0) {
        uint64_t served = world_counters(w, 1).served_bytes;
        world_tick(w);
        assert_true(w->now_us < 120000000u);
        bool before = torn;
        torn = second_is_torn(w);
        torn_n += torn;
        if (before && torn) {
            assert_int_equal(world_counters(w, 1).served_bytes, served);
        }
    }
    assert_true(torn_n > 3);
    assert_true(w->nodes[2].events[UW_NODE_PULL_REFUSED] != 0);
    world_free(w);
}

static bool agree(struct world *w)
{
    for (uint32_t k = 0; k < w->size_n; k++) {
        if (fabsf(w->nodes[0].x[k] - w->nodes[1].x[k]) > 1e-3f) {
            return false;
        }
    }
    return world_counters(w, 0).pulls_done > 0 && world_counters(w, 1).pulls_done > 0;
}

static void test_nodes_without_snapshot_agree_with_those_that_have_one(void **state)
{
    (void)state;
    for (uint32_t both = 0; both < 2; both++) {
        struct world *w = world_new(2, 3000, 0);
        w->impairment.loss = 0.1f;
        w->config.rule = &uw_mix_none;
        w->config.period_steps = 2;
        float low = 1e9f, high = -1e9f;
        for (uint32_t k = 0; k < 2u * w->size_n; k++) {
            float v = w->nodes[k & 1u].x[k / 2u];
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        up_live(w, 0);
        if (both != 0) {
            up_live(w, 1);
        } else {
            world_up(w, 1);
        }
        world_until(w, agree, 120000000);
        for (uint32_t k = 0; k < w->size_n; k++) {
            assert_true(w->nodes[0].x[k] >= low && w->nodes[0].x[k] <= high);
        }
        assert_true(world_counters(w, 0).served_bytes > 0);
        world_free(w);
    }
}

static void test_what_needs_a_snapshot_is_refused_without_one(void **state)
{
    (void)state;
    struct world *w = world_new(2, 100, 0);
    struct uw_error err;
    size_t bytes;
    struct uw_node_config c = world_config(w, 0);
    assert_int_equal(uw_link_loopback_init(&w->nodes[0].loopback, &w->hub, 0), UW_OK);
    c.link = &w->nodes[0].loopback.link;
    c.rule = &uw_mix_none;
    c.snapshot = NULL;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    size_t least = bytes;
    c.snapshot = &w->nodes[0].snapshot;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    assert_true(bytes > least);
    c.snapshot = NULL;
    c.rule = &uw_mix_qg;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "config.snapshot is missing"));
    c.rule = &uw_mix_none;
    c.mode = UW_NODE_ALLREDUCE;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    c.mode = UW_NODE_GOSSIP;
    c.agree = true;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    uw_link_deinit(&w->nodes[0].loopback.link);
    world_free(w);
}

static void test_what_the_program_lacks_is_refused(void **state)
{
    (void)state;
    struct world *w = world_new(2, 100, 0);
    struct uw_error err;
    size_t bytes;
    struct uw_node_config c = world_config(w, 0);
    assert_int_equal(uw_link_loopback_init(&w->nodes[0].loopback, &w->hub, 0), UW_OK);
    c.link = &w->nodes[0].loopback.link;
    c.parts = NULL;
    c.rule = &uw_mix_qg;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    const enum uw_node_mode modes[] = {UW_NODE_ALLREDUCE, UW_NODE_HIERARCHICAL, UW_NODE_AUTO};
    for (uint32_t i = 0; i < 3; i++) {
        c.mode = modes[i];
        assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, "config.parts lacks averages"));
    }
    c.mode = UW_NODE_GOSSIP;
    c.rule = &uw_mix_kgt;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    struct uw_sample_pool pool = {0};
    c.rule = &uw_mix_none;
    c.samples = &pool;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "config.parts lacks samples"));
    struct uw_queries queries = {.sample_n = 1, .numbers_n = 1};
    c.samples = NULL;
    c.queries = &queries;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "config.parts lacks queries"));
    uw_link_deinit(&w->nodes[0].loopback.link);
    world_free(w);
}

static bool both_alive_and_mixed(struct world *w)
{
    return w->nodes[0].events[UW_NODE_ALIVE] != 0 && world_counters(w, 0).pulls_done > 1;
}

/* A node of an older program, or on a larger device, averages and asks for status beside it. */
static void test_node_without_parts_gossips_and_tells_events_without_sentences(void **state)
{
    (void)state;
    struct world *w = world_new(2, 500, 0);
    struct uw_node_config c = world_config(w, 0);
    c.parts = NULL;
    world_up_with(w, 0, c);
    c = world_config(w, 1);
    c.agree = true;
    world_up_with(w, 1, c);
    world_until(w, both_alive_and_mixed, 60000000);
    assert_string_equal(w->nodes[0].text[UW_NODE_ALIVE], "");
    assert_string_not_equal(w->nodes[1].text[UW_NODE_ALIVE], "");
    uw_node_agree(&w->nodes[0].node);       /* no such thing here: training goes on */
    uw_node_agree(&w->nodes[1].node);
    w->nodes[1].progress.lr = 0.0f;
    world_run(w, 20000000);
    assert_false(uw_node_owes(&w->nodes[0].node));
    assert_true(w->nodes[0].trains && !w->nodes[0].averaging);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_float_served_is_one_that_was_there),
        cmocka_unit_test(test_half_of_a_model_that_is_taken_over_is_served_to_nobody),
        cmocka_unit_test(test_nodes_without_snapshot_agree_with_those_that_have_one),
        cmocka_unit_test(test_what_needs_a_snapshot_is_refused_without_one),
        cmocka_unit_test(test_what_the_program_lacks_is_refused),
        cmocka_unit_test(test_node_without_parts_gossips_and_tells_events_without_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
