/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients that devices average among themselves (uwasa/node_direct.h), in the world of
 * gradient_world.h, whose invariants hold: what is averaged is the mean of all ranks', all ranks
 * have the same bits. The devices are made up: a group's n-th sum of a rank meets the n-th of the
 * others, whatever it is of, as NCCL's do, and sums that do not belong together fail the test. */
#include "fault/gradient_world.h"

#include <stdlib.h>

#define NODES 3u
#define GROUPS 64u
#define LIMIT_US 60000000u
#define BY "by made-up"

struct vector {
    float x[GRADIENT_SIZE];
    bool of_gradients;
};

struct group {
    uint8_t id[UW_NODE_DIRECT_ID_BYTES];
    uint32_t ranks;
    bool left;                          /* by a rank: nothing can be done any more */
    uint32_t begun[NODES];              /* sums, by rank */
    struct vector last[NODES][2];       /* a rank is ahead of another by one at most */
};

struct device {
    struct uw_node_direct hooks;
    struct world_node *node;
    struct group *group;
    uint32_t rank, adds, aborts;
    uint32_t fails_at, hangs_at;        /* adds; 0: never */
    bool hangs;
    const struct uw_node_direct_part *parts;
    uint32_t parts_n;
};

static struct {
    struct gradient_world *g;
    struct device of[NODES];
    struct group groups[GROUPS];
    uint32_t ids;
} d;

static uint32_t version(void *arg)
{
    (void)arg;
    return 3;
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    (void)arg;
    d.ids++;
    memset(id, 7, UW_NODE_DIRECT_ID_BYTES);
    memcpy(id, &d.ids, sizeof d.ids);
    return UW_OK;
}

static struct vector *next_of(struct device *it, bool of_gradients)
{
    uint32_t n = it->group->begun[it->rank]++;
    struct vector *v = &it->group->last[it->rank][n % 2u];
    v->of_gradients = of_gradients;
    return v;
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    struct device *it = arg;
    struct group *g = d.groups;
    while (g->ranks != 0 && memcmp(g->id, r->id, sizeof g->id) != 0) {
        assert_true(++g < d.groups + GROUPS);
    }
    memcpy(g->id, r->id, sizeof g->id);
    assert_true(g->ranks == 0 || g->ranks == r->ranks);
    assert_null(it->parts);
    g->ranks = r->ranks;
    it->group = g;
    it->rank = r->rank;
    memcpy(next_of(it, false)->x, it->node->image, GRADIENT_SIZE * sizeof(float));
    return UW_OK;
}

static int add(void *arg, const struct uw_node_direct_part *parts, uint32_t parts_n)
{
    struct device *it = arg;
    uint32_t at = 0;
    assert_true(it->group != NULL && it->parts == NULL);
    it->adds++;
    it->parts = parts;
    it->parts_n = parts_n;
    it->hangs = it->adds == it->hangs_at;
    if (it->hangs) {
        return UW_OK;
    }
    struct vector *v = next_of(it, true);
    for (uint32_t i = 0; i < parts_n; i++) {
        memcpy(v->x + at, parts[i].x, parts[i].size_n * sizeof(float));
        at += parts[i].size_n;
    }
    assert_int_equal(at, GRADIENT_SIZE);
    return UW_OK;
}

static int poll(void *arg)
{
    struct device *it = arg;
    const struct group *g = it->group;
    uint32_t n = g->begun[it->rank], at = 0;
    bool all = !g->left && !it->hangs;
    float mean[GRADIENT_SIZE] = {0};
    if (it->parts != NULL && it->adds == it->fails_at) {
        return UW_ERR_IO;
    }
    for (uint32_t i = 0; i < g->ranks; i++) {
        all = all && g->begun[i] >= n;
    }
    if (!all) {
        return UW_ERR_AGAIN;
    }
    for (uint32_t i = 0; i < g->ranks; i++) {
        const struct vector *v = &g->last[i][(n - 1u) % 2u];
        assert_true(v->of_gradients == (it->parts != NULL));
        for (uint32_t k = 0; k < GRADIENT_SIZE; k++) {
            mean[k] += v->x[k] * (1.0f / (float)g->ranks);
        }
    }
    for (uint32_t i = 0; it->parts != NULL && i < it->parts_n; i++) {
        memcpy(it->parts[i].x, mean + at, it->parts[i].size_n * sizeof(float));
        at += it->parts[i].size_n;
    }
    if (it->parts == NULL) {
        memcpy(it->node->image, mean, sizeof mean);
    }
    it->parts = NULL;
    return UW_OK;
}

static int settle(void *arg)
{
    struct device *it = arg;
    memcpy(it->node->x, it->node->image, GRADIENT_SIZE * sizeof(float));
    return UW_OK;
}

static void abort_round(void *arg)
{
    struct device *it = arg;
    it->aborts++;
    if (it->group != NULL) {
        it->group->left = true;
    }
    it->group = NULL;
    it->parts = NULL;
    it->hangs = false;
}

static void up(uint32_t i, bool newcomer)
{
    struct uw_node_config c = world_config(d.g->w, i);
    c.direct = &d.of[i].hooks;
    c.newcomer = newcomer;
    world_up_with(d.g->w, i, c);
    gradient_world_forget(d.g, i);
}

static void make(void)
{
    memset(&d, 0, sizeof d);
    d.g = gradient_world_new(NODES, 1200);
    for (uint32_t i = 0; i < NODES; i++) {
        struct device *it = &d.of[i];
        it->hooks = (struct uw_node_direct){.name = "made-up", .device = 7u + i,
                                            .version = version, .make_id = make_id, .begin = begin,
                                            .poll = poll, .settle = settle, .abort = abort_round,
                                            .add = add, .arg = it};
        it->node = &d.g->w->nodes[i];
    }
}

static void start(void)
{
    d.g->w->config.cell_first_n = NODES;
    for (uint32_t i = 0; i < NODES; i++) {
        up(i, false);
    }
    gradient_world_together(d.g, NODES, 20, LIMIT_US);
}

static const char *text(uint32_t i, enum uw_node_event_kind kind)
{
    return d.g->w->nodes[i].text[kind];
}

static void check_by_devices(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS), BY));
        assert_ptr_equal(d.of[i].group, d.of[0].group);
    }
}

static void test_devices_average_every_step(void **state)
{
    (void)state;
    make();
    start();
    uint64_t bytes = world_counters(d.g->w, 1).averaged_bytes;
    uint32_t compared_n = d.g->compared_n;
    gradient_world_together(d.g, NODES, 150, LIMIT_US);
    assert_true(d.g->compared_n > compared_n + 2u * 140u);
    check_by_devices(NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_true(d.of[i].adds > 150u);
        assert_int_equal(d.of[i].aborts, 0);
        assert_int_equal(d.g->w->nodes[i].events[UW_NODE_GRADIENTS_CUT], 0);
    }
    assert_int_equal(world_counters(d.g->w, 1).averaged_bytes, bytes);
    gradient_world_free(d.g);
}

/* The group goes on over the link, and by devices when these may be tried again. */
static void check_flaw(const char *cut)
{
    for (uint32_t i = 0; i < 400 && strstr(text(0, UW_NODE_GRADIENTS_CUT), cut) == NULL; i++) {
        gradient_world_run(d.g, 50000);
    }
    assert_non_null(strstr(text(0, UW_NODE_GRADIENTS_CUT), cut));
    gradient_world_together(d.g, NODES, 20, LIMIT_US);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_null(strstr(text(i, UW_NODE_GRADIENTS), BY));
    }
    gradient_world_run(d.g, LIMIT_US);
    gradient_world_together(d.g, NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS_CUT), "can average by GPU again"));
        assert_int_equal(d.g->w->nodes[i].events[UW_NODE_GRADIENTS_CUT], 2);
    }
    gradient_world_free(d.g);
}

static void test_device_that_fails_costs_a_step(void **state)
{
    (void)state;
    make();
    d.of[1].fails_at = 40;
    start();
    check_flaw("b cannot add by GPU");
}

static void test_device_that_hangs_is_nobodys_fault(void **state)
{
    (void)state;
    make();
    d.of[2].hangs_at = 40;
    start();
    check_flaw("a member cannot add by GPU");
}

static void test_rank_whose_training_stalls_is_named(void **state)
{
    (void)state;
    make();
    start();
    d.g->nodes[2].stalled = true;
    gradient_world_run(d.g, 15000000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS_CUT), "c holds up the step"));
        assert_int_equal(d.g->w->nodes[i].node.state->gradients->ranks_n, 2);
    }
    check_by_devices(2);
    d.g->nodes[2].stalled = false;
    d.g->nodes[2].moved_us = d.g->w->now_us;
    gradient_world_together(d.g, NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    gradient_world_free(d.g);
}

static void test_rank_dies_and_comes_back(void **state)
{
    (void)state;
    make();
    start();
    world_down(d.g->w, 2);
    gradient_world_forget(d.g, 2);
    abort_round(&d.of[2]);
    gradient_world_together(d.g, 2, 20, LIMIT_US);
    check_by_devices(2);
    up(2, true);
    gradient_world_together(d.g, NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    gradient_world_free(d.g);
}

/* Nothing of the last step is lost, and the average over the run is made as well. */
static void test_ranks_end_together(void **state)
{
    (void)state;
    make();
    for (uint32_t i = 0; i < NODES; i++) {
        d.g->nodes[i].steps_most = 50;
    }
    start();
    for (uint32_t i = 0; i < 400 && d.g->w->nodes[2].events[UW_NODE_AVERAGED] < 2; i++) {
        gradient_world_run(d.g, 50000);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        assert_true(d.g->nodes[i].done && !d.g->nodes[i].dropped);
        assert_int_equal(d.g->w->nodes[i].events[UW_NODE_AVERAGED], 2);
        assert_memory_equal(d.of[i].node->x, d.of[0].node->x, GRADIENT_SIZE * sizeof(float));
    }
    gradient_world_free(d.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_average_every_step),
        cmocka_unit_test(test_device_that_fails_costs_a_step),
        cmocka_unit_test(test_device_that_hangs_is_nobodys_fault),
        cmocka_unit_test(test_rank_whose_training_stalls_is_named),
        cmocka_unit_test(test_rank_dies_and_comes_back),
        cmocka_unit_test(test_ranks_end_together),
    };
    (void)setenv("UWASA_TEST_IMAGES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
