/* SPDX-License-Identifier: Apache-2.0
 *
 * How a list of revoked devices gets to all nodes of a run. The links are open ones: who may talk
 * is tested in test_secure_devices.c. */
#include "fault/gossip_world.h"

#include "uwasa/secure_keys.h"

#define NODES WORLD_MAX
#define OLD (NODES - 1u)            /* of a version without lists */

static char root[UW_DEVICE_TEXT_BYTES], lists[UW_REVOKED_TEXT_BYTES];
static struct uw_secure_keys keys[NODES];
static const struct uw_node_parts parts = {.revokes = &uw_node_revokes,
                                           .sentences = &uw_node_sentences};
static struct uw_error err;

static int make_keys(void **state)
{
    (void)state;
    lists[0] = '\0';
    if (uw_root_create(root, &err) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        char name[8], file[UW_DEVICE_TEXT_BYTES];
        snprintf(name, sizeof name, "d%u", (unsigned)i);
        if (uw_root_device(root, "", name, file, &err) < 0 ||
            uw_secure_keys_init(&keys[i], file, &err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int drop_keys(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NODES; i++) {
        uw_secure_keys_deinit(&keys[i]);
    }
    return 0;
}

static void up(struct world *w, uint32_t i)
{
    struct uw_node_config c = world_config(w, i);
    c.parts = &parts;
    c.keys = i != OLD ? &keys[i] : NULL;
    world_up_with(w, i, c);
}

/* One node learns that a device is revoked. */
static void revoke(uint32_t at, const char *name)
{
    assert_true(uw_root_revoke(root, lists, name, &err) > 0);
    assert_int_equal(uw_secure_keys_revoke_text(&keys[at], lists), 1);
}

static uint32_t count(uint32_t number)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < OLD; i++) {
        n += keys[i].lists[0].number == number;
    }
    return n;
}

static void test_a_list_reaches_all_within_a_second(void **state)
{
    (void)state;
    struct world *w = world_new(NODES, 100, 1200);
    for (uint32_t i = 0; i < NODES; i++) {
        up(w, i);
    }
    world_until(w, world_all_know_all, 60000000);
    revoke(3, "stolen");
    world_run(w, 1000000);
    assert_int_equal(count(1), OLD);
    assert_false(uw_secure_keys_is_revoked(&keys[0], 0));
    revoke(7, "lost");
    revoke(7, "d0");
    world_run(w, 1000000);
    assert_int_equal(count(3), OLD);
    assert_true(uw_secure_keys_is_revoked(&keys[0], 0));
    /* The node of before is told of each list once by each, and stays a member. */
    world_run(w, 20000000);
    uint32_t told = world_counters(w, OLD).unknown_messages;
    assert_true(told > 0 && told <= 2u * OLD);
    assert_true(world_all_know_all(w));
    world_free(w);
}

static void test_a_list_reaches_all_over_a_bad_network(void **state)
{
    (void)state;
    struct world *w = world_new(NODES, 100, 1200);
    w->impairment.loss = 0.4f;
    for (uint32_t i = 0; i < NODES; i++) {
        up(w, i);
    }
    world_run(w, 30000000);
    revoke(0, "stolen");
    world_run(w, 15000000);
    assert_int_equal(count(1), OLD);
    world_free(w);
}

static void test_a_node_that_was_away_learns_of_it(void **state)
{
    (void)state;
    struct world *w = world_new(NODES, 100, 1200);
    for (uint32_t i = 0; i < 4; i++) {
        up(w, i);
    }
    world_run(w, 5000000);
    world_down(w, 2);
    revoke(1, "stolen");
    world_run(w, 60000000);
    assert_int_equal(count(1), 3);
    up(w, 2);
    world_run(w, 3000000);
    assert_int_equal(count(1), 4);
    world_free(w);
}

/* A node says that it has a list, but what it sends is none: nobody believes it. */
static void test_lists_that_no_root_signed_are_counted_and_go_no_further(void **state)
{
    (void)state;
    struct world *w = world_new(NODES, 100, 1200);
    for (uint32_t i = 0; i < 4; i++) {
        up(w, i);
    }
    world_run(w, 5000000);
    revoke(0, "stolen");
    keys[0].lists[0].list[20] ^= 1u;
    world_run(w, 5000000);
    assert_int_equal(count(1), 1);
    assert_true(world_counters(w, 1).refused_corrupt > 0);
    world_free(w);
}

static void test_devices_do_not_go_with_a_link_of_frames(void **state)
{
    (void)state;
    struct world *w = world_new(1, 100, 1200);
    struct uw_node_config c = world_config(w, 0);
    struct uw_node_parts with_frames = parts;
    struct uw_link frames = {.frames = true, .mtu_bytes = 100, .numbered = true};
    struct uw_node_fault fault;
    with_frames.frames = &uw_node_frames;
    c.parts = &with_frames;
    c.keys = &keys[0];
    c.link = &frames;
    assert_int_equal(uw_node_check(&c, &fault), UW_ERR_INVALID);
    assert_string_equal(fault.name, "keys");
    world_free(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_keys, drop_keys)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_list_reaches_all_within_a_second),
        TEST(test_a_list_reaches_all_over_a_bad_network),
        TEST(test_a_node_that_was_away_learns_of_it),
        TEST(test_lists_that_no_root_signed_are_counted_and_go_no_further),
        TEST(test_devices_do_not_go_with_a_link_of_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
