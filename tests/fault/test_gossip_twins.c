/* SPDX-License-Identifier: Apache-2.0
 *
 * Two devices with one name, and one that meets itself. */
#include "fault/gossip_world.h"

static struct uw_link *without_numbers(struct world_node *n)
{
    n->emulated.link.numbered = false;
    return &n->emulated.link;
}

/* Two with a copied configuration, started in the same moment: nothing tells them apart but where
 * they are. The last of the n nodes is another one. */
static void expect_twins_are_told(uint32_t n, const char *seed, bool numbered, uint32_t least_n)
{
    struct world *w = world_new(n, 100, 0);
    w->train_us = 20000;
    w->config.incarnation = 5;
    w->seeds[0] = seed;
    w->above = numbered ? NULL : without_numbers;
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(w->nodes[i].name, "twin");
        w->nodes[i].address[0] = '\0';
    }
    world_start(w);
    world_run(w, 10000000);
    uint32_t told_n = 0;
    for (uint32_t i = 0; i < 2; i++) {
        told_n += strstr(w->nodes[i].text[UW_NODE_NAME_TAKEN], "has the name twin, too") != NULL;
    }
    assert_true(told_n >= least_n);
    world_free(w);
}

static void test_one_name_for_two_devices_that_start_alike_is_told_to_both(void **state)
{
    (void)state;
    expect_twins_are_told(2, "0", true, 2);
    expect_twins_are_told(2, "1", true, 2);
    expect_twins_are_told(2, "0", false, 2);
    expect_twins_are_told(2, "1", false, 2);
}

/* They never hear each other: who comes back to it is refused. */
static void test_one_name_for_two_devices_is_told_by_a_third(void **state)
{
    (void)state;
    expect_twins_are_told(3, "2", true, 1);
    expect_twins_are_told(3, "2", false, 1);
}

/* Its own messages come back, late ones too, and it stops to call itself. */
static void test_who_calls_itself_is_no_other_device(void **state)
{
    (void)state;
    struct world *w = world_new(2, 100, 0);
    w->train_us = 20000;
    w->above = without_numbers;
    w->impairment.delay_us = 600000;
    world_start(w);
    world_run(w, 20000000);
    const struct uw_membership *m = &w->nodes[0].node.state->membership;
    assert_true(m->seeds[0].self);
    assert_int_equal(w->nodes[0].events[UW_NODE_NAME_TAKEN], 0);
    assert_int_equal(w->nodes[1].events[UW_NODE_NAME_TAKEN], 0);
    assert_int_equal(uw_membership_alive(m), 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_name_for_two_devices_that_start_alike_is_told_to_both),
        cmocka_unit_test(test_one_name_for_two_devices_is_told_by_a_third),
        cmocka_unit_test(test_who_calls_itself_is_no_other_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
