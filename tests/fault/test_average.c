/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages among the nodes that ship, on virtual time. */
#include "fault/average_world.h"

#include "node_state.h"

static bool all_equal(const struct world *w)
{
    for (uint32_t i = 1; i < w->n; i++) {
        if (memcmp(w->nodes[0].x, w->nodes[i].x, w->size_n * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

static void test_nodes_average_exactly_every_period(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 7; n++) {
        struct average_world *a = average_world_new(n, 301, 300);
        world_start(a->w);
        average_world_run(a, 20000000);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(a->w->nodes[i].rounds > 50);
        }
        assert_true(a->committed_n > 50);
        assert_int_equal(average_world_split(a), 0);
        average_world_free(a);
    }
}

static void test_rank_that_dies_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < 4; dead++) {
        struct average_world *a = average_world_new(4, 5000, 300);
        a->w->impairment.rate_bits_per_s = 4000000;
        world_start(a->w);
        average_world_run(a, 10000000);
        uint32_t before = a->committed_n;
        assert_true(before > 5);
        while (!a->nodes[dead].waits) {
            average_world_run(a, 1000);
        }
        average_world_run(a, 20000);
        world_down(a->w, dead);
        average_world_forget(a, dead);
        average_world_run(a, 30000000);
        assert_true(a->committed_n > before + 20u);
        assert_int_equal(average_world_split(a), 0);
        uint32_t named = 0;
        for (uint32_t i = 0; i < 4; i++) {
            const char *text = a->w->nodes[i].text[UW_NODE_AVERAGE_CUT];
            char who[16];
            snprintf(who, sizeof who, "of %s:", a->w->nodes[dead].name);
            named += i != dead && strstr(text, who) != NULL;
        }
        assert_true(named > 0);
        average_world_free(a);
    }
}

static void test_rank_that_comes_back_takes_part_again(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 1000, 300);
    world_start(a->w);
    average_world_run(a, 5000000);
    world_down(a->w, 2);
    average_world_forget(a, 2);
    average_world_run(a, 20000000);
    struct uw_node_config c = world_config(a->w, 2);
    c.newcomer = true;
    for (uint32_t k = 0; k < a->w->size_n; k++) {
        a->w->nodes[2].x[k] = 100.0f;
    }
    world_up_with(a->w, 2, c);
    average_world_run(a, 20000000);
    assert_int_equal(a->w->nodes[2].events[UW_NODE_ADOPTED], 1);
    assert_true(a->w->nodes[2].rounds > 20);
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

static void test_slow_node_is_left_out_and_takes_part_when_it_is_ready(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 200, 300);
    a->w->config.gather_us = 2000000;
    a->w->train_us = 20000;
    a->w->nodes[3].slowness = 100;      /* ten seconds a round, the others 0.1 */
    world_start(a->w);
    average_world_run(a, 120000000);
    assert_true(a->w->nodes[0].rounds > 30);
    assert_true(a->w->nodes[3].rounds > 3);
    uint32_t late = 0;
    for (uint32_t i = 0; i < 4; i++) {
        late += a->w->nodes[i].events[UW_NODE_AVERAGE_LATE];
    }
    assert_true(late > 0);
    average_world_free(a);
}

static void test_nodes_agree_at_the_end_of_gossip(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(5, 500, 300);
    a->w->config.mode = UW_NODE_GOSSIP;
    a->w->config.agree = true;
    for (uint32_t i = 0; i < 5; i++) {
        a->w->nodes[i].after = NULL;
    }
    world_start(a->w);
    world_run(a->w, 5000000);
    assert_false(all_equal(a->w));
    for (uint32_t i = 0; i < 5; i++) {
        a->w->nodes[i].train = NULL;
        a->w->nodes[i].progress.lr = 0.0f;
        uw_node_agree(&a->w->nodes[i].node);
    }
    uint64_t until_us = a->w->now_us + 20000000;
    while (!all_equal(a->w) && a->w->now_us < until_us) {
        world_tick(a->w);
    }
    assert_true(all_equal(a->w));
    average_world_free(a);
}

/* Messages of the one must not be taken for those of the other. */
static void test_rounds_of_the_cell_and_of_the_run_have_groups_of_their_own(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 2000, 300);
    a->w->config.agree = true;
    world_start(a->w);
    average_world_run(a, 5000000);
    for (uint32_t i = 0; i < 4; i++) {
        a->w->nodes[i].train = NULL;
    }
    for (uint32_t i = 0; i < 4; i++) {
        while (a->nodes[i].waits) {
            average_world_run(a, 1000);
        }
        a->w->nodes[i].after = NULL;    /* which looks at the rounds of cells */
        a->w->nodes[i].progress.lr = 0.0f;
        uw_node_agree(&a->w->nodes[i].node);
    }
    world_run(a->w, 5000000);
    assert_true(all_equal(a->w));
    for (uint32_t i = 0; i < 4; i++) {
        const struct uw_node_scope *scopes = a->w->nodes[i].node.state->cell.scopes;
        assert_int_not_equal(scopes[UW_AVERAGE_CELL].cell.group, 0);
        assert_int_not_equal(scopes[UW_AVERAGE_RUN].cell.group, 0);
        assert_int_not_equal(scopes[UW_AVERAGE_CELL].cell.group, scopes[UW_AVERAGE_RUN].cell.group);
        assert_int_equal(a->w->nodes[i].events[UW_NODE_AVERAGE_CUT], 0);
    }
    average_world_free(a);
}

static void test_nodes_together_wait_for_the_slow_one_and_not_for_the_dead(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 200, 300);
    a->w->config.gather_us = 30000000;
    a->w->config.together = true;
    a->w->config.cell_first_n = 4;
    a->w->train_us = 20000;
    a->w->nodes[3].slowness = 100;      /* ten seconds a round, the others 0.1 */
    world_start(a->w);
    average_world_run(a, 120000000);
    assert_true(a->committed_n > 8);
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        assert_int_equal(a->rounds[i].ranks_n, 4);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(a->w->nodes[i].events[UW_NODE_AVERAGE_LATE], 0);
    }
    world_down(a->w, 3);
    average_world_forget(a, 3);
    uint32_t before = a->committed_n;
    average_world_run(a, 60000000);
    assert_true(a->committed_n > before + 50);
    average_world_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_average_exactly_every_period),
        cmocka_unit_test(test_rank_that_dies_is_named_and_the_others_go_on),
        cmocka_unit_test(test_rank_that_comes_back_takes_part_again),
        cmocka_unit_test(test_slow_node_is_left_out_and_takes_part_when_it_is_ready),
        cmocka_unit_test(test_nodes_agree_at_the_end_of_gossip),
        cmocka_unit_test(test_rounds_of_the_cell_and_of_the_run_have_groups_of_their_own),
        cmocka_unit_test(test_nodes_together_wait_for_the_slow_one_and_not_for_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
