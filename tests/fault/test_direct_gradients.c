/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients that devices average among themselves (uwasa/node_direct.h), in the world of
 * gradient_devices.h, where the invariants of gradient_world.h hold: what is averaged is the mean
 * of all ranks', and all ranks have the same bits. */
#include "fault/gradient_devices.h"

#include <stdlib.h>

#define NODES 3u
#define LIMIT_US 60000000u
#define BY "by made-up"

static struct device *const devices = gradient_devices.of;

static struct gradient_world *g(void)
{
    return gradient_devices.g;
}

static void start(void)
{
    g()->w->config.cell_first_n = NODES;
    for (uint32_t i = 0; i < NODES; i++) {
        gradient_devices_up(i, false);
    }
    gradient_world_together(g(), NODES, 20, LIMIT_US);
}

static const char *text(uint32_t i, enum uw_node_event_kind kind)
{
    return g()->w->nodes[i].text[kind];
}

static void check_by_devices(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS), BY));
        assert_ptr_equal(devices[i].group, devices[0].group);
    }
}

static void test_devices_average_every_step(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    start();
    uint64_t bytes = world_counters(g()->w, 1).averaged_bytes;
    uint32_t compared_n = g()->compared_n;
    gradient_world_together(g(), NODES, 150, LIMIT_US);
    assert_true(g()->compared_n > compared_n + 2u * 140u);
    check_by_devices(NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_true(devices[i].adds > 150u);
        assert_int_equal(devices[i].aborts, 0);
        assert_int_equal(g()->w->nodes[i].events[UW_NODE_GRADIENTS_CUT], 0);
    }
    assert_int_equal(world_counters(g()->w, 1).averaged_bytes, bytes);
    gradient_world_free(g());
}

/* The group goes on over the link, and by devices when these may be tried again. */
static void check_flaw(const char *cut)
{
    for (uint32_t i = 0; i < 400 && strstr(text(0, UW_NODE_GRADIENTS_CUT), cut) == NULL; i++) {
        gradient_world_run(g(), 50000);
    }
    assert_non_null(strstr(text(0, UW_NODE_GRADIENTS_CUT), cut));
    gradient_world_together(g(), NODES, 20, LIMIT_US);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_null(strstr(text(i, UW_NODE_GRADIENTS), BY));
    }
    gradient_world_run(g(), LIMIT_US);
    gradient_world_together(g(), NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS_CUT), "can add by its device again"));
        assert_int_equal(g()->w->nodes[i].events[UW_NODE_GRADIENTS_CUT], 2);
    }
    gradient_world_free(g());
}

static void test_device_that_fails_costs_a_step(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    devices[1].fails_at = 40;
    start();
    check_flaw("b cannot add by its device");
}

static void test_device_that_hangs_is_nobodys_fault(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    devices[2].hangs_at = 40;
    start();
    check_flaw("a member cannot add by its device");
}

static void test_rank_whose_training_stalls_is_named(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    start();
    g()->nodes[2].stalled = true;
    gradient_world_run(g(), 15000000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(strstr(text(i, UW_NODE_GRADIENTS_CUT), "c holds up the step"));
        assert_int_equal(g()->w->nodes[i].node.state->gradients->ranks_n, 2);
    }
    check_by_devices(2);
    g()->nodes[2].stalled = false;
    g()->nodes[2].moved_us = g()->w->now_us;
    gradient_world_together(g(), NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    gradient_world_free(g());
}

static void test_rank_dies_and_comes_back(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    start();
    gradient_devices_down(2);
    gradient_world_together(g(), 2, 20, LIMIT_US);
    check_by_devices(2);
    gradient_devices_up(2, true);
    gradient_world_together(g(), NODES, 20, LIMIT_US);
    check_by_devices(NODES);
    gradient_world_free(g());
}

/* Nothing of the last step is lost, and the average over the run is made as well. */
static void test_ranks_end_together(void **state)
{
    (void)state;
    gradient_devices_new(NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        g()->nodes[i].steps_most = 50;
    }
    start();
    for (uint32_t i = 0; i < 400 && g()->w->nodes[2].events[UW_NODE_AVERAGED] < 2; i++) {
        gradient_world_run(g(), 50000);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        assert_true(g()->nodes[i].done && !g()->nodes[i].dropped);
        assert_int_equal(g()->w->nodes[i].events[UW_NODE_AVERAGED], 2);
        assert_memory_equal(devices[i].node->x, devices[0].node->x, GRADIENT_SIZE * sizeof(float));
    }
    gradient_world_free(g());
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
