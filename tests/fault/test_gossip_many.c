/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with more nodes than a node's table has places. Node k's steps add to element k of its own
 * vector and to no other: what is in the other elements came from the others. */
#include "even_fleet.h"
#include "test_support.h"

#include "uwasa/sim_world.h"

#define NODES 40u
#define MEMBERS 8u
#define STEP_US 10000u

static struct uw_segment segment = {.name = "w", .size_n = NODES};
static const char *const first[] = {"0"};

struct many {
    struct uw_sim_fleet fleet;
    struct uw_world world;
    struct uw_params params;
    float x[NODES];
    uint32_t done[NODES];
};

static void set_up(struct many *m, const struct uw_node_config *node)
{
    const struct even_fleet even = {.devices_n = NODES, .up_bits_per_s = 10000000,
                                    .latency_us = 2000, .step_us = STEP_US};
    struct uw_error err = {.text = ""};
    memset(m, 0, sizeof *m);
    even_fleet_open(&m->fleet, &even);
    m->params = (struct uw_params){
        .x = m->x, .size_n = NODES, .segments = &segment, .segments_n = 1, .hash = 7};
    const struct uw_world_config config = {.fleet = &m->fleet, .params = &m->params, .node = *node,
                                           .mtu_bytes = 1232, .members_max = MEMBERS};
    if (uw_world_open(&m->world, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void tear_down(struct many *m)
{
    uw_world_close(&m->world);
    even_fleet_close(&m->fleet);
}

static void train(struct many *m, uint32_t steps)
{
    struct uw_world_node *n;
    while ((n = uw_world_next(&m->world)) != NULL) {
        m->done[n->place] += !n->waits;
        n->x[n->place] += n->waits ? 0.0f : 1.0f;
        const struct uw_node_progress p = {.step = m->done[n->place],
                                           .lr = n->waits ? 0.0f : 0.1f};
        assert_true(uw_world_trained(&m->world, n, &p, 0) >= 0);
        n->train_at_us = m->done[n->place] == steps ? UINT64_MAX : n->train_at_us;
    }
}

/* The smallest share that any node has of what any other learned, of what it would have if all
 * were averaged every step. */
static double least_share(const struct many *m, uint32_t steps)
{
    double least = 1.0;
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t k = 0; k < NODES; k++) {
            double share = (double)m->world.nodes[i].x[k] * NODES / steps;
            least = share < least ? share : least;
        }
    }
    return least;
}

/* Each is given the one address that is given to all: the first eight tables fill with each other,
 * and who comes later knows only them. */
static void test_all_learn_from_all_though_the_first_tables_are_full_of_each_other(void **state)
{
    (void)state;
    static struct many m;
    for (int agree = 0; agree < 2; agree++) {
        /* To have an exact average to come at the end changes nothing before. */
        const struct uw_node_config node = {.run = "many", .seeds = first, .seeds_n = 1,
                                            .period_steps = 5, .agree = agree != 0,
                                            .seed = uw_test_seed(1)};
        set_up(&m, &node);
        assert_int_equal(uw_world_meet(&m.world, 60000000u), UW_OK);
        train(&m, 20000);
        struct uw_node_counters c = uw_world_counters(&m.world);
        assert_true(c.pulls_done > 0.9 * NODES * 20000 / 5);
        assert_true(least_share(&m, 20000) > 0.15);
        tear_down(&m);
    }
}

/* With addresses of some others, as the world gives them, tables are a random choice at once. */
static void test_all_learn_from_all_with_seeds_of_their_own(void **state)
{
    (void)state;
    static struct many m;
    const struct uw_node_config node = {.run = "many", .period_steps = 5, .seed = uw_test_seed(1)};
    set_up(&m, &node);
    assert_int_equal(uw_world_meet(&m.world, 60000000u), UW_OK);
    train(&m, 8000);
    assert_true(least_share(&m, 8000) > 0.15);
    tear_down(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_all_learn_from_all_though_the_first_tables_are_full_of_each_other),
        cmocka_unit_test(test_all_learn_from_all_with_seeds_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
