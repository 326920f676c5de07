/* SPDX-License-Identifier: Apache-2.0
 *
 * Averages that devices make among themselves (uwasa/node_direct.h): devices that are made up, in
 * the world of average_world.h, whose invariants hold in all of these too. */
#include "fault/device_world.h"

#include <stdlib.h>

#define BY "by made-up"

/* Did the last average of every node that is up go so? */
static bool last_by_devices(void)
{
    uint32_t n = 0, by = 0;
    for (uint32_t i = 0; i < device_world.a->w->n; i++) {
        const struct world_node *it = &device_world.a->w->nodes[i];
        n += it->up;
        by += it->up && strstr(it->text[UW_NODE_AVERAGED], BY) != NULL;
    }
    assert_true(by == 0 || by == n);
    return by == n;
}

/* Every node with a device tells once because of whom, if that is worth telling. */
static void check_told(uint32_t without, const char *why)
{
    for (uint32_t i = 0; i < device_world.a->w->n; i++) {
        const struct world_node *it = &device_world.a->w->nodes[i];
        bool tells = why != NULL && i != without;
        assert_int_equal(it->events[UW_NODE_AVERAGE_WAY], tells);
        assert_true(!tells || strstr(it->text[UW_NODE_AVERAGE_WAY], why) != NULL);
    }
}

static void test_devices_average_what_nodes_hand_over(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= NODES; n++) {
        device_world_new(n);
        device_world_start(UINT32_MAX);
        average_world_run(device_world.a, 20000000);
        assert_true(device_world.a->committed_n > 50 && last_by_devices());
        for (uint32_t i = 0; i < n; i++) {
            const struct device *d = &device_world.of[i];
            assert_true(d->settles > 50 && d->unlike == 0 && d->aborts <= 1);
            assert_true(device_world.a->w->nodes[i].rounds >= d->settles);
        }
        assert_int_equal(device_world.ids, 1);   /* the same members need no other group */
        check_told(UINT32_MAX, NULL);
        device_world_end();
    }
}

/* Nothing of a model goes over the link then. */
static void test_only_words_go_over_the_link(void **state)
{
    (void)state;
    device_world_new(3);
    device_world_start(UINT32_MAX);
    average_world_run(device_world.a, 5000000);
    uint64_t bytes = world_counters(device_world.a->w, 1).averaged_bytes;
    average_world_run(device_world.a, 10000000);
    assert_true(last_by_devices());
    assert_int_equal(world_counters(device_world.a->w, 1).averaged_bytes, bytes);
    device_world_end();
}

/* The head adds what it has pulled from the other cell: x is ahead of its device. */
static void test_what_another_cell_brings_goes_to_the_device_first(void **state)
{
    (void)state;
    device_world_new(4);
    device_world.a->w->config.mode = UW_NODE_HIERARCHICAL;
    for (uint32_t i = 0; i < 4; i++) {
        struct uw_node_config c = device_world_config(i, true);
        c.cell = i < 2 ? "a" : "b";
        c.head_weight = 1;
        world_up_with(device_world.a->w, i, c);
    }
    average_world_run(device_world.a, 20000000);
    uint32_t unlike = 0, alike = 0;
    for (uint32_t i = 0; i < 4; i++) {
        unlike += device_world.of[i].unlike;
        alike += device_world.of[i].settles;
    }
    assert_true(device_world.a->committed_n > 50 && last_by_devices());
    assert_true(unlike > 5 && alike > 50);
    device_world_end();
}

/* Momentum over rounds, which looks at x, and changes it: all devices still hold the same bits. */
static void test_rules_of_mixing_work_on_what_devices_average(void **state)
{
    (void)state;
    static const struct uw_mix_rule *const rules[] = {&uw_mix_qg, &uw_mix_slowmo};
    for (uint32_t i = 0; i < 2; i++) {
        device_world_new(3);
        average_world_mix(device_world.a, rules[i]);
        device_world_start(UINT32_MAX);
        average_world_run(device_world.a, 10000000);
        assert_true(device_world.a->committed_n > 20 && last_by_devices());
        assert_int_equal(device_world.of[0].unlike, 0);
        device_world_end();
    }
}

static void check_link_alone(uint32_t without, const char *why)
{
    device_world_start(without);
    average_world_run(device_world.a, 10000000);
    assert_true(device_world.a->committed_n > 20 && !last_by_devices());
    for (uint32_t i = 0; i < device_world.a->w->n; i++) {
        assert_int_equal(device_world.of[i].begins, 0);
    }
    check_told(without, why);
    device_world_end();
}

static void test_one_without_makes_all_take_the_link(void **state)
{
    (void)state;
    for (uint32_t without = 0; without < 3; without++) {
        device_world_new(3);
        check_link_alone(without, "has no device for it");
    }
}

static void test_two_on_one_device_take_the_link(void **state)
{
    (void)state;
    device_world_new(3);
    device_world.of[2].hooks.device = device_world.of[0].hooks.device;
    check_link_alone(UINT32_MAX, "shares its device");
}

static void test_other_version_takes_the_link(void **state)
{
    (void)state;
    device_world_new(3);
    device_world.of[1].version = 4;
    check_link_alone(UINT32_MAX, "another version");
}

static void test_named_algorithm_takes_the_link(void **state)
{
    (void)state;
    static const enum uw_allreduce_kind ring = UW_ALLREDUCE_RING;
    device_world_new(3);
    device_world.a->w->config.algorithm = &ring;
    check_link_alone(UINT32_MAX, NULL);
}

/* Whatever goes wrong once: the next averages go over the link, later ones between devices. */
static void test_flaw_of_one_device_is_survived(void **state)
{
    (void)state;
    for (enum flaw flaw = FAILS_TO_BEGIN; flaw <= DIFFERS; flaw++) {
        for (uint32_t who = 0; who < 3; who++) {
            device_world_new(3);
            device_world_start(UINT32_MAX);
            average_world_run(device_world.a, 5000000);
            uint32_t before = device_world.a->committed_n;
            assert_true(last_by_devices());
            device_world.of[who].flaw = flaw;
            average_world_run(device_world.a, 10000000);
            assert_true(device_world.a->committed_n > before + 5u && !last_by_devices());
            assert_true(device_world.a->longest_us < 8000000);
            for (uint32_t i = 0; i < 3; i++) {
                assert_true(device_world.of[i].aborts > 0 &&
                            device_world.a->w->nodes[i].events[UW_NODE_AVERAGE_CUT] == 1);
                assert_non_null(strstr(device_world.a->w->nodes[i].text[UW_NODE_AVERAGE_CUT],
                                       "over the network"));
            }
            average_world_run(device_world.a, 40000000);
            assert_true(last_by_devices());
            check_told(UINT32_MAX, NULL);
            device_world_end();
        }
    }
}

/* Tried more and more seldom; averages go on. */
static void test_device_that_never_works_costs_little(void **state)
{
    (void)state;
    device_world_new(3);
    device_world.of[1].flaw = FAILS;
    device_world.of[1].always = true;
    device_world_start(UINT32_MAX);
    device_world.a->w->train_us = 100000;
    average_world_run(device_world.a, 600000000);
    assert_true(device_world.a->committed_n > 400 && !last_by_devices());
    assert_in_range(device_world.of[1].begins, 2, 5);
    device_world_end();
}

static void test_rank_that_dies_in_a_round_is_survived(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < 4; dead++) {
        device_world_new(4);
        device_world_start(UINT32_MAX);
        average_world_run(device_world.a, 5000000);
        uint32_t before = device_world.a->committed_n, ids = device_world.ids;
        device_world.of[dead].flaw = HANGS;
        while (!device_world.of[dead].bad) {
            average_world_run(device_world.a, 1000);
        }
        world_down(device_world.a->w, dead);
        average_world_forget(device_world.a, dead);
        average_world_run(device_world.a, 30000000);
        assert_true(device_world.a->committed_n > before + 20u && last_by_devices());
        assert_true(device_world.ids > ids);     /* without it they are another group */
        device_world_end();
    }
}

/* How a rank ends a round. */
enum ends { RECALLS, RECALLS_AND_LEAVES, LEAVES, ENDS_N };

static void end_round_of(uint32_t who, enum ends how)
{
    struct world *w = device_world.a->w;
    device_world.of[who].flaw = HANGS;      /* the round is open until then */
    while (!device_world.of[who].bad) {
        average_world_run(device_world.a, 1000);
    }
    if (how != LEAVES) {
        uw_node_recall(&w->nodes[who].node);
        average_world_run(device_world.a, 20000);
    }
    if (how != RECALLS) {
        uw_node_leave(&w->nodes[who].node, w->now_us);
        average_world_run(device_world.a, 20000);
        world_down(w, who);
        average_world_forget(device_world.a, who);
        device_world.of[who].group = NULL;
        device_world.of[who].flaw = WELL;
    }
}

/* Who stops, or says goodbye, in a round has no flaw: the others average between devices at once,
 * and so do all when it is back. */
static void test_rank_that_ends_a_round_is_no_flaw(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3u * ENDS_N; i++) {
        uint32_t who = i % 3u;
        enum ends how = (enum ends)(i / 3u);
        device_world_new(3);
        device_world_start(UINT32_MAX);
        average_world_run(device_world.a, 5000000);
        assert_true(last_by_devices());
        end_round_of(who, how);
        average_world_run(device_world.a, 4000000);
        assert_true(last_by_devices());
        for (uint32_t k = 0; k < 3; k++) {
            const struct world_node *it = &device_world.a->w->nodes[k];
            uint32_t cuts = it->events[UW_NODE_AVERAGE_CUT];    /* or the two others have decided */
            assert_true(!it->up || cuts == 1 || (how == LEAVES && cuts == 0));
            assert_null(strstr(it->text[UW_NODE_AVERAGE_CUT], "over the network"));
        }
        if (how != RECALLS) {
            struct uw_node_config c = device_world_config(who, true);
            c.incarnation += 1u;
            world_up_with(device_world.a->w, who, c);
        }
        uint32_t settles = device_world.of[who].settles;
        average_world_run(device_world.a, 10000000);
        assert_true(last_by_devices() && device_world.of[who].settles > settles + 10u);
        device_world_end();
    }
}

static void test_rank_that_comes_back_makes_another_group(void **state)
{
    (void)state;
    device_world_new(3);
    device_world_start(UINT32_MAX);
    average_world_run(device_world.a, 5000000);
    world_down(device_world.a->w, 1);
    average_world_forget(device_world.a, 1);
    device_world.of[1].group = NULL;
    device_world.of[1].flaw = WELL;
    struct uw_node_config c = device_world_config(1, true);
    c.incarnation += 1u;
    world_up_with(device_world.a->w, 1, c);
    average_world_run(device_world.a, 60000000);
    assert_true(device_world.ids >= 2 && last_by_devices());
    assert_non_null(device_world.of[1].group);
    assert_ptr_equal(device_world.of[1].group, device_world.of[0].group);
    device_world_end();
}

/* Messages that get lost, come twice, in another order, damaged. */
static void test_bad_network_changes_nothing(void **state)
{
    (void)state;
    device_world_new(4);
    device_world.a->w->impairment = (struct uw_impairment){.loss = 0.1f, .duplicate = 0.05f,
                                                  .reorder = 0.1f, .corrupt = 0.05f,
                                                  .delay_us = 3000, .jitter_us = 5000};
    device_world_start(UINT32_MAX);
    average_world_run(device_world.a, 60000000);
    assert_true(device_world.a->committed_n > 20 && device_world.of[0].settles > 20);
    device_world_end();
}

static void test_config_needs_an_image(void **state)
{
    (void)state;
    device_world_new(2);
    struct uw_node_config c = device_world_config(0, true);
    struct uw_error err;
    size_t bytes;
    c.link = &device_world.a->w->nodes[0].loopback.link;
    c.image = NULL;
    int rc = uw_node_measure(&c, &bytes, &err);
    assert_int_equal(rc, UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "image"));
    device_world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_average_what_nodes_hand_over),
        cmocka_unit_test(test_only_words_go_over_the_link),
        cmocka_unit_test(test_what_another_cell_brings_goes_to_the_device_first),
        cmocka_unit_test(test_rules_of_mixing_work_on_what_devices_average),
        cmocka_unit_test(test_one_without_makes_all_take_the_link),
        cmocka_unit_test(test_two_on_one_device_take_the_link),
        cmocka_unit_test(test_other_version_takes_the_link),
        cmocka_unit_test(test_named_algorithm_takes_the_link),
        cmocka_unit_test(test_flaw_of_one_device_is_survived),
        cmocka_unit_test(test_device_that_never_works_costs_little),
        cmocka_unit_test(test_rank_that_dies_in_a_round_is_survived),
        cmocka_unit_test(test_rank_that_ends_a_round_is_no_flaw),
        cmocka_unit_test(test_rank_that_comes_back_makes_another_group),
        cmocka_unit_test(test_bad_network_changes_nothing),
        cmocka_unit_test(test_config_needs_an_image),
    };
    setenv("UWASA_TEST_IMAGES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
