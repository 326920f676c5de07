/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages in runs with more nodes than a round takes, or than a node's table has places, on
 * virtual time. Node k's steps add to element k of its own vector and to no other: what is in the
 * other elements came from the others. */
#include "even_fleet.h"
#include "test_support.h"

#include "uwasa/sim_world.h"

#include <string.h>

#define NODES_MAX 100u
#define STEP_US 10000u
#define PERIOD 10u
#define SMALL_MTU 200u
#define SECOND UINT64_C(1000000)
#define AWAY_US (20u * SECOND)

static struct uw_segment segment = {.name = "w", .size_n = NODES_MAX};
static const char *const first[] = {"0"};

struct many {
    struct uw_sim_fleet fleet;
    struct uw_world world;
    struct uw_params params;
    float x[NODES_MAX];
    uint32_t nodes, done[NODES_MAX];
    uint64_t waits_since_us[NODES_MAX], longest_us;
    uint32_t told_full[NODES_MAX], averaged[NODES_MAX];
    uint32_t last_n[NODES_MAX];                                 /* nodes of the last average */
    char full[UW_NODE_TEXT_BYTES], head[UW_NODE_TEXT_BYTES];    /* the last sentences */
};

static void take(void *arg, uint32_t place, const struct uw_node_event *e)
{
    struct many *m = arg;
    if (e->kind == UW_NODE_MEMBERS_FULL) {
        m->told_full[place]++;
        snprintf(m->full, sizeof m->full, "%s", e->text);
    } else if (e->kind == UW_NODE_HEAD) {
        snprintf(m->head, sizeof m->head, "%s", e->text);
    } else if (e->kind == UW_NODE_AVERAGED) {
        m->averaged[place]++;
        m->last_n[place] = e->chunks_n;
    }
}

/* What a test chooses; cell_n 0: no cells. */
struct choice {
    enum uw_node_mode mode;
    uint32_t nodes, members, cell_n, mtu_bytes;
    bool agree;
    uint32_t leave_n;               /* the first nodes but one, at AWAY_US for good */
};

static void set_up(struct many *m, const struct choice *of)
{
    static const struct uw_sim_absence away = {.from_us = AWAY_US, .to_us = 1000u * SECOND};
    const struct even_fleet even = {.devices_n = of->nodes, .cell_n = of->cell_n,
                                    .up_bits_per_s = 100000000, .latency_us = 500,
                                    .step_us = STEP_US};
    const struct uw_node_config node = {.run = "many", .seeds = first, .seeds_n = 1,
                                        .mode = of->mode, .head_weight = 1, .agree = of->agree,
                                        .period_steps = PERIOD, .seed = uw_test_seed(1)};
    struct uw_error err = {.text = ""};
    memset(m, 0, sizeof *m);
    even_fleet_open(&m->fleet, &even);
    m->nodes = of->nodes;
    for (uint32_t i = 1; i <= of->leave_n; i++) {
        m->fleet.devices[i].absences = &away;
        m->fleet.devices[i].absences_n = 1;
    }
    m->params = (struct uw_params){
        .x = m->x, .size_n = NODES_MAX, .segments = &segment, .segments_n = 1, .hash = 7};
    const struct uw_world_config config = {.fleet = &m->fleet, .params = &m->params, .node = node,
                                           .mtu_bytes = of->mtu_bytes,
                                           .members_max = of->members,
                                           .on_event = take, .event_arg = m};
    if (uw_world_open(&m->world, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void tear_down(struct many *m)
{
    uw_world_close(&m->world);
    even_fleet_close(&m->fleet);
}

/* Train for a while; training waits while its parameters are being averaged. */
static void train(struct many *m, uint64_t us)
{
    uint64_t end_us = m->world.now_us + us;
    struct uw_world_node *n;
    while (m->world.now_us < end_us && (n = uw_world_next(&m->world)) != NULL) {
        uint64_t *since_us = &m->waits_since_us[n->place], now_us = m->world.now_us;
        if (!n->waits) {
            uint64_t waited_us = *since_us != 0 ? now_us - *since_us : 0;
            m->longest_us = waited_us > m->longest_us ? waited_us : m->longest_us;
            m->done[n->place]++;
            n->x[n->place] += 1.0f;
            *since_us = 0;
        } else if (*since_us == 0) {
            *since_us = now_us;
        }
        const struct uw_node_progress p = {.step = m->done[n->place],
                                           .lr = n->waits ? 0.0f : 0.1f};
        assert_true(uw_world_trained(&m->world, n, &p, 0) >= 0);
    }
}


/* The smallest share that any node has of what any other learned, of what it would have if all
 * were averaged every step. */
static double least_share(const struct many *m)
{
    double least = 1.0;
    for (uint32_t i = 0; i < m->nodes; i++) {
        for (uint32_t k = 0; k < m->nodes; k++) {
            double share = (double)uw_world_model(&m->world, &m->world.nodes[i])[k] * m->nodes /
                           m->done[k];
            least = share < least ? share : least;
        }
    }
    return least;
}

static uint32_t least_of(const struct many *m, const uint32_t *of)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < m->nodes; i++) {
        least = of[i] < least ? of[i] : least;
    }
    return least;
}

/* More nodes than a round takes: they average in parts of the run, which learn from each other. */
static void test_past_the_largest_round_nodes_average_in_parts_that_mix(void **state)
{
    (void)state;
    static struct many m;
    const struct choice all = {.mode = UW_NODE_ALLREDUCE, .nodes = 100, .members = 100,
                               .mtu_bytes = 1232};
    set_up(&m, &all);
    (void)uw_world_meet(&m.world, 60u * SECOND);
    train(&m, 30u * SECOND);
    assert_true(least_of(&m, m.done) > 0.7 * 30.0 * SECOND / STEP_US);
    assert_true(least_of(&m, m.averaged) > 0.7 * 30.0 * SECOND / STEP_US / PERIOD);
    assert_true(least_share(&m) > 0.5);
    assert_non_null(strstr(m.head, " leads the averages of cell *~"));
    assert_int_equal(m.full[0], '\0');
    tear_down(&m);
}

/* The same of a named cell. Messages of this size have room for fewer ranks. */
static void test_a_large_cell_averages_in_parts(void **state)
{
    (void)state;
    static struct many m;
    const struct choice cells = {.mode = UW_NODE_HIERARCHICAL, .nodes = 100, .cell_n = 50,
                                 .members = 100, .mtu_bytes = SMALL_MTU};
    set_up(&m, &cells);
    (void)uw_world_meet(&m.world, 60u * SECOND);
    train(&m, 30u * SECOND);
    assert_true(least_of(&m, m.averaged) > 0.7 * 30.0 * SECOND / STEP_US / PERIOD);
    assert_non_null(strstr(m.head, " leads the averages of cell cell"));
    assert_non_null(strchr(m.head, '~'));
    tear_down(&m);
}

/* Tables too small for the run: everybody trains and averages, and is told once what would help. */
static void test_with_small_tables_all_train_and_are_told_once(void **state)
{
    (void)state;
    static struct many m;
    const struct choice small = {.mode = UW_NODE_ALLREDUCE, .nodes = 40, .members = 16,
                                 .mtu_bytes = 1232};
    set_up(&m, &small);
    (void)uw_world_meet(&m.world, SECOND);
    train(&m, 40u * SECOND);
    assert_true(least_of(&m, m.done) > 0.5 * 40.0 * SECOND / STEP_US);
    assert_true(least_of(&m, m.averaged) > 0.5 * 40.0 * SECOND / STEP_US / PERIOD);
    for (uint32_t i = 0; i < m.nodes; i++) {
        assert_int_equal(m.told_full[i], 1);
    }
    assert_non_null(strstr(m.full, "the table of 16 members"));
    assert_non_null(strstr(m.full, "a larger \"members\""));
    tear_down(&m);
}

/* Nodes that leave: the parts join. */
static void test_parts_join_when_the_rest_fits_a_round(void **state)
{
    (void)state;
    static struct many m;
    const struct choice leave = {.mode = UW_NODE_ALLREDUCE, .nodes = 60, .members = 60,
                                 .mtu_bytes = SMALL_MTU, .leave_n = 40};
    set_up(&m, &leave);
    (void)uw_world_meet(&m.world, 60u * SECOND);
    train(&m, AWAY_US);
    for (uint32_t i = 0; i < m.nodes; i++) {
        assert_in_range(m.last_n[i], 2, 40);
    }
    train(&m, 70u * SECOND);
    for (uint32_t i = 0; i < m.nodes; i++) {
        assert_true((i >= 1 && i <= leave.leave_n) || m.last_n[i] == 20);
    }
    tear_down(&m);
}

/* The average over the run at its end, of gossip too. */
static void test_the_last_average_takes_everybody(void **state)
{
    (void)state;
    static struct many m;
    const struct choice gossip = {.mode = UW_NODE_GOSSIP, .nodes = 60, .members = 60,
                                  .mtu_bytes = SMALL_MTU, .agree = true};
    set_up(&m, &gossip);
    (void)uw_world_meet(&m.world, 60u * SECOND);
    train(&m, 5u * SECOND);
    uint32_t agreed = 0;
    bool asked[NODES_MAX] = {false};
    for (struct uw_world_node *n; (n = uw_world_next(&m.world)) != NULL;) {
        if (!asked[n->place]) {
            asked[n->place] = true;
            uw_world_agree(&m.world, n);
        }
        const struct uw_node_progress p = {.step = m.done[n->place]};
        int flags = uw_world_trained(&m.world, n, &p, 0);
        bool ended = (flags & UW_NODE_AVERAGING) == 0;
        agreed += ended && (flags & UW_NODE_ROUND) != 0;
        n->train_at_us = ended ? UINT64_MAX : n->train_at_us;
    }
    assert_int_equal(agreed, m.nodes);
    tear_down(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_past_the_largest_round_nodes_average_in_parts_that_mix),
        cmocka_unit_test(test_a_large_cell_averages_in_parts),
        cmocka_unit_test(test_with_small_tables_all_train_and_are_told_once),
        cmocka_unit_test(test_parts_join_when_the_rest_fits_a_round),
        cmocka_unit_test(test_the_last_average_takes_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
