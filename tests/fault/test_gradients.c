/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes average the gradients of every step, on virtual time: members die, stall, differ, end and
 * join. */
#include "fault/gradient_world.h"

#define LIMIT_US 60000000u

static struct gradient_world *three(void)
{
    struct gradient_world *g = gradient_world_new(3, 300);
    g->w->config.cell_first_n = 3;
    world_start(g->w);
    gradient_world_together(g, 3, 20, LIMIT_US);
    return g;
}

static const char *cut_text(struct gradient_world *g, uint32_t i)
{
    return g->w->nodes[i].text[UW_NODE_GRADIENTS_CUT];
}

static void expect_equal(struct gradient_world *g, uint32_t n)
{
    uint32_t compared_n = g->compared_n;
    gradient_world_together(g, n, 20, LIMIT_US);
    assert_true(g->compared_n > compared_n + 10u);
}

static void test_gradients_of_every_step_are_averaged(void **state)
{
    (void)state;
    for (enum uw_allreduce_kind kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
        if (kind == UW_ALLREDUCE_DOUBLING || kind == UW_ALLREDUCE_SWEEP) {
            continue;
        }
        struct gradient_world *g = gradient_world_new(4, 300);
        g->w->config.cell_first_n = 4;
        g->w->config.algorithm = &kind;
        world_start(g->w);
        gradient_world_together(g, 4, 150, LIMIT_US);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(g->w->nodes[i].events[UW_NODE_GRADIENTS], 1);
            assert_int_equal(g->w->nodes[i].events[UW_NODE_GRADIENTS_CUT], 0);
            assert_int_equal(g->w->nodes[i].events[UW_NODE_AVERAGED], 1);
            assert_true(g->w->nodes[i].node.state->gradients->sent_step == 100);
        }
        assert_true(g->compared_n > 3u * 140u);
        gradient_world_free(g);
    }
}

static void test_rank_dies_and_the_others_go_on(void **state)
{
    (void)state;
    struct gradient_world *g = three();
    world_down(g->w, 2);
    gradient_world_forget(g, 2);
    gradient_world_together(g, 2, 20, 20000000);
    assert_non_null(strstr(cut_text(g, 0), "c "));
    assert_non_null(strstr(cut_text(g, 1), "c "));
    expect_equal(g, 2);
    gradient_world_free(g);
}

/* Its network answers, its training does not come: it is named, the others go on without it, and
 * it comes back. */
static void test_rank_whose_training_stalls_is_named_and_left_out(void **state)
{
    (void)state;
    struct gradient_world *g = three();
    g->nodes[1].stalled = true;
    gradient_world_run(g, 15000000);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_string_equal(cut_text(g, i),
                            "b holds up the step: gradients are not averaged with 2 others any "
                            "more, the next average of the parameters says with whom");
        assert_int_equal(g->w->nodes[i].node.state->gradients->ranks_n, 2);
    }
    assert_non_null(strstr(cut_text(g, 1), "this node holds up the step"));
    g->nodes[1].stalled = false;
    g->nodes[1].moved_us = g->w->now_us;
    expect_equal(g, 3);
    gradient_world_free(g);
}

static void test_newcomer_knocks_and_gets_in(void **state)
{
    (void)state;
    for (uint32_t weight = 1; weight <= 9; weight += 8) {
        struct gradient_world *g = gradient_world_new(3, 300);
        g->w->nodes[2].x[0] = 1.0f;
        world_up(g->w, 0);
        world_up(g->w, 1);
        g->w->config.cell_first_n = 2;
        gradient_world_together(g, 2, 50, LIMIT_US);
        struct uw_node_config c = world_config(g->w, 2);
        c.newcomer = true;
        c.head_weight = weight;     /* it may lead the averages at once */
        world_up_with(g->w, 2, c);
        gradient_world_forget(g, 2);
        gradient_world_together(g, 3, 20, LIMIT_US);
        assert_int_equal(g->w->nodes[2].events[UW_NODE_ADOPTED], 1);
        assert_non_null(strstr(cut_text(g, 0), "c would like to take part"));
        expect_equal(g, 3);
        gradient_world_free(g);
    }
}

static void test_rank_that_differs_is_found_and_mended(void **state)
{
    (void)state;
    struct gradient_world *g = three();
    g->bits = false;
    g->w->nodes[1].x[100] += 0.5f;
    gradient_world_together(g, 3, 200, LIMIT_US);
    assert_int_equal(g->w->nodes[0].events[UW_NODE_GRADIENTS_CUT], 1);
    assert_non_null(strstr(cut_text(g, 0), "b has other parameters"));
    g->bits = true;
    expect_equal(g, 3);
    gradient_world_free(g);
}

/* One ends earlier: nothing of its last step is lost, the others go on. Who ends with it averages
 * with it over the run. */
static void test_ranks_end_one_after_another(void **state)
{
    (void)state;
    struct gradient_world *g = three();
    uint32_t step = 0;
    for (uint32_t i = 0; i < 3; i++) {
        step = g->w->nodes[i].progress.step > step ? g->w->nodes[i].progress.step : step;
    }
    g->nodes[0].steps_most = step + 20u;
    g->limit_us = 40000000;
    for (uint32_t i = 0; i < 200 && !g->nodes[0].done; i++) {
        gradient_world_run(g, 100000);
    }
    assert_true(g->nodes[0].done && !g->nodes[0].dropped);
    gradient_world_run(g, 10000000);
    for (uint32_t i = 1; i < 3; i++) {
        assert_non_null(strstr(cut_text(g, i), "a has ended its training"));
        assert_int_equal(g->w->nodes[i].node.state->gradients->ranks_n, 2);
        assert_true(g->w->nodes[i].node.state->gradients->active);
    }
    gradient_world_free(g);
}

/* All end with the same step, and average over the run. */
static void test_ranks_that_end_together_average_over_the_run(void **state)
{
    (void)state;
    const enum uw_allreduce_kind ring = UW_ALLREDUCE_RING;
    struct gradient_world *g = gradient_world_new(3, 300);
    g->w->config.cell_first_n = 3;
    g->w->config.algorithm = &ring;
    for (uint32_t i = 0; i < 3; i++) {
        g->nodes[i].steps_most = 50;
    }
    world_start(g->w);
    for (uint32_t i = 0; i < 200 && g->w->nodes[2].events[UW_NODE_AVERAGED] < 2; i++) {
        gradient_world_run(g, 50000);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(g->nodes[i].done && !g->nodes[i].dropped);
        assert_int_equal(g->w->nodes[i].events[UW_NODE_AVERAGED], 2);
        assert_memory_equal(g->w->nodes[i].x, g->w->nodes[0].x, GRADIENT_SIZE * sizeof(float));
    }
    assert_int_equal(g->w->nodes[0].events[UW_NODE_AVERAGE_CUT], 0);
    gradient_world_free(g);
}

/* Cut in two, each half goes on; healed, the half without the head gives its group up. */
static void test_two_groups_become_one(void **state)
{
    (void)state;
    struct gradient_world *g = gradient_world_new(4, 300);
    g->w->config.cell_first_n = 4;
    world_start(g->w);
    gradient_world_together(g, 4, 20, LIMIT_US);
    for (int cut = 1; cut >= 0; cut--) {
        for (uint32_t k = 0; k < 16; k++) {
            if ((k / 4 < 2) != (k % 4 < 2)) {
                (void)uw_link_emulated_cut(&g->w->nodes[k / 4].emulated, (uint16_t)(k % 4),
                                           cut ? UW_EMULATED_BOTH : 0);
            }
        }
        gradient_world_run(g, 20000000);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(g->w->nodes[i].node.state->gradients->active);
            assert_int_equal(g->w->nodes[i].node.state->gradients->ranks_n, cut ? 2 : 4);
        }
    }
    expect_equal(g, 4);
    gradient_world_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_every_step_are_averaged),
        cmocka_unit_test(test_rank_dies_and_the_others_go_on),
        cmocka_unit_test(test_rank_whose_training_stalls_is_named_and_left_out),
        cmocka_unit_test(test_newcomer_knocks_and_gets_in),
        cmocka_unit_test(test_rank_that_differs_is_found_and_mended),
        cmocka_unit_test(test_ranks_end_one_after_another),
        cmocka_unit_test(test_ranks_that_end_together_average_over_the_run),
        cmocka_unit_test(test_two_groups_become_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
