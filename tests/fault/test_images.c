/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters that live elsewhere (uwasa/node_image.h): what a node copies, and what it does when a
 * copy fails. That nothing else changes is shown by the other tests with UWASA_TEST_IMAGES=1. */
#include "fault/gossip_world.h"

#define SIZE_N 4000u

static void grow(struct world_node *n)
{
    n->x[n->progress.step % SIZE_N] += 0.001f;
}

/* Two that gossip; the second one's steps are far between, so that it is pulled from and mixes. */
static struct world *two(uint32_t period_steps)
{
    struct world *w = world_new(2, SIZE_N, 1200);
    w->config.period_steps = period_steps;
    w->nodes[0].train = w->nodes[1].train = grow;
    world_start(w);
    return w;
}

/* That a step copies only where uw_node_touches says so the world checks itself. */
static void test_steps_between_rounds_copy_nothing(void **state)
{
    (void)state;
    struct world *w = two(500);
    world_run(w, 10000000);
    const struct world_node *it = &w->nodes[0];
    uint32_t chunks_n = world_counters(w, 0).chunks_mixed;
    assert_true(it->progress.step > 9000 && it->rounds > 10 && chunks_n > 0);
    assert_in_range(it->copies, it->rounds, 2u * it->rounds + 2u * chunks_n + 4u);
    assert_true(it->copies < it->progress.step / 10u);
    world_free(w);
}

static int fail_copy(void *arg, uint32_t offset_n, uint32_t count_n)
{
    (void)arg, (void)offset_n, (void)count_n;
    return UW_ERR_IO;
}

/* From then on every call says so, what others see stays, and nothing is mixed. */
static void check_failure(bool fetches)
{
    struct world *w = two(5);
    struct world_node *it = &w->nodes[0];
    world_run(w, 2000000);
    uint32_t version = it->snapshot.version;
    if (fetches) {
        it->hooks.fetch = fail_copy;
    } else {
        it->hooks.send = fail_copy;
    }
    int rc = UW_OK;
    it->trains = false;
    for (uint32_t i = 0; i < 2000 && rc >= 0; i++) {
        world_run(w, 1000);
        rc = uw_node_after_step(&it->node, &it->progress);
    }
    assert_int_equal(rc, UW_ERR_IO);
    assert_true(!fetches || it->snapshot.version == version);
    version = it->snapshot.version;
    uint32_t mixed = world_counters(w, 0).chunks_mixed;
    world_run(w, 500000);
    assert_int_equal(uw_node_after_step(&it->node, &it->progress), UW_ERR_IO);
    assert_int_equal(it->snapshot.version, version);
    assert_int_equal(world_counters(w, 0).chunks_mixed, mixed);
    it->hooks.fetch = it->hooks.send = NULL;        /* nobody calls them again */
    world_free(w);
}

static void test_fetch_that_fails_ends_the_exchange(void **state)
{
    (void)state;
    check_failure(true);
}

static void test_send_that_fails_ends_the_exchange(void **state)
{
    (void)state;
    check_failure(false);
}

static void test_image_without_snapshot_is_refused(void **state)
{
    (void)state;
    struct world *w = world_new(1, 100, 1200);
    struct uw_node_image hooks = {.arg = w};
    struct uw_node_config c = world_config(w, 0);
    struct uw_link link = {.mtu_bytes = 1200};
    struct uw_error err = {.text = ""};
    size_t bytes;
    c.link = &link;
    c.snapshot = NULL;
    c.image = &hooks;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "image"));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_between_rounds_copy_nothing),
        cmocka_unit_test(test_fetch_that_fails_ends_the_exchange),
        cmocka_unit_test(test_send_that_fails_ends_the_exchange),
        cmocka_unit_test(test_image_without_snapshot_is_refused),
    };
    return setenv("UWASA_TEST_IMAGES", "1", 1) != 0 || cmocka_run_group_tests(tests, NULL, NULL);
}
