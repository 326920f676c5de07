/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcast averages when links narrow, views differ, and nothing is under way. */
#include "fault/radio_world.h"

#include "node_parts/node_cast.h"

#define SECOND UINT64_C(1000000)
#define NODES 4u
#define MODEL_N 1010u

static struct radio_world *cell(float loss)
{
    struct radio_world *r = radio_world_new(NODES, MODEL_N, loss);
    r->w->config.mode = UW_NODE_BROADCAST;
    r->w->config.period_steps = 40;
    r->w->train_us = 20000;
    return r;
}

static const struct uw_cast *cast_of(struct world *w, uint32_t i)
{
    return &w->nodes[i].node.state->cast->cast;
}

static bool in_mid_turn(struct world *w)
{
    const struct uw_cast *c = cast_of(w, 1);
    return c->active && !c->passed && c->at > c->chunks / 3u;
}

static uint32_t done_among_first(struct world *w, uint32_t n)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t done = world_counters(w, i).averages_done;
        least = done < least ? done : least;
    }
    return least;
}

static uint32_t done_n(struct world *w)
{
    return done_among_first(w, NODES);
}

/* Node 1 narrows, or all do, in the middle of its pass: that turn is lost, and the next ones have
 * smaller chunks. */
static void test_a_link_that_narrows_goes_on_with_smaller_chunks(void **state)
{
    (void)state;
    for (uint32_t all = 0; all < 2; all++) {
        struct radio_world *r = cell(0.02f);
        struct world *w = r->w;
        static const uint32_t sizes[] = {100, 80, RADIO_FRAME_BYTES};
        world_start(w);
        for (uint32_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            world_run(w, 20 * SECOND);
            world_until(w, in_mid_turn, 60 * SECOND);
            uint32_t before_n = cast_of(w, 1)->chunk_n;
            for (uint32_t i = 0; i < NODES; i++) {
                if (all != 0 || i == 1) {
                    radio_narrow(r, i, sizes[k]);
                }
            }
            world_run(w, 10 * SECOND);
            uint32_t before = done_n(w);
            world_run(w, 60 * SECOND);
            print_message("%u bytes: chunks of %u floats, then %u; %u exact averages\n",
                          (unsigned)sizes[k], (unsigned)before_n,
                          (unsigned)cast_of(w, 1)->chunk_n, (unsigned)(done_n(w) - before));
            assert_true(cast_of(w, 1)->chunk_n != before_n);
            assert_true(done_n(w) >= before + 10u);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            assert_int_equal(world_counters(w, i).refused_corrupt, 0);
        }
        radio_world_free(r);
    }
}

/* Node 0 leaves node 3 out, which the others do not: then nobody has the mean of all in it. */
static void test_averages_are_exact_only_where_all_see_the_same_cell(void **state)
{
    (void)state;
    struct radio_world *r = cell(0.0f);
    struct world *w = r->w;
    world_start(w);
    world_run(w, 30 * SECOND);
    assert_true(done_n(w) >= 5);
    struct uw_membership *m = &w->nodes[0].node.state->membership;
    for (uint32_t i = 1; i < m->members_n; i++) {
        if (strcmp(m->members[i].name, w->nodes[3].name) == 0) {
            w->nodes[0].node.state->peers[i].avoid_until_us = w->now_us + 40 * SECOND;
        }
    }
    world_run(w, 6 * SECOND);
    uint32_t done[NODES], cut[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        done[i] = world_counters(w, i).averages_done;
        cut[i] = world_counters(w, i).averages_cut;
    }
    world_run(w, 30 * SECOND);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(world_counters(w, i).averages_done, done[i]);
        assert_true(world_counters(w, i).averages_cut >= cut[i] + 5u);
    }
    world_run(w, 20 * SECOND);
    uint32_t before = done_n(w);
    world_run(w, 30 * SECOND);
    assert_true(done_n(w) >= before + 5u);
    radio_world_free(r);
}

/* With poll_us as long as boards have it, a node that averages by broadcast is seldom called
 * between two turns. */
static void test_a_node_between_turns_may_rest(void **state)
{
    (void)state;
    struct radio_world *r = cell(0.0f);
    struct world *w = r->w;
    world_start(w);
    world_run(w, 20 * SECOND);
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i].trains = false;
    }
    world_run(w, 20 * SECOND);
    assert_true(done_n(w) >= 3);
    w->nodes[0].node.state->config.poll_us = SECOND;
    uint64_t next_us = w->now_us;
    for (uint32_t k = 0; k < 3 && next_us == w->now_us; k++) {
        next_us = uw_node_step(&w->nodes[0].node, w->now_us);
    }
    print_message("rests for %u ms\n", (unsigned)((next_us - w->now_us) / 1000u));
    assert_true(next_us > w->now_us + 10000u);
    radio_world_free(r);
}

/* All are new and have nothing yet: they begin together. One that comes later takes over a model,
 * and averages with them from then on. */
static void test_newcomers_begin_together_and_later_ones_follow(void **state)
{
    (void)state;
    struct radio_world *r = cell(0.05f);
    struct world *w = r->w;
    w->config.newcomer = true;
    for (uint32_t i = 0; i < NODES - 1u; i++) {
        world_up(w, i);
    }
    world_run(w, 60 * SECOND);
    for (uint32_t i = 0; i < NODES - 1u; i++) {
        assert_true(world_counters(w, i).averages_done >= 5);
    }
    world_up(w, NODES - 1u);
    world_run(w, 60 * SECOND);
    assert_int_equal(w->nodes[NODES - 1u].events[UW_NODE_ADOPTED], 1);
    assert_true(done_n(w) >= 5);
    assert_true(cast_of(w, 0)->peers_n == NODES - 1u);
    radio_world_free(r);
}

static bool in_mid_turn_of_2(struct world *w)
{
    const struct uw_cast *c = cast_of(w, 0);
    for (uint32_t i = 0; c->active && i < c->peers_n; i++) {
        const struct uw_cast_peer *p = &c->peers[i];
        if (p->id == w->nodes[2].node.state->membership.members[0].id) {
            return p->have_n > 5u && p->have_n < c->chunks / 2u;
        }
    }
    return false;
}

/* Node 2 says goodbye, or is started anew and joins in with another model: the turn ends soon
 * without the rest, and half of one model and half of the other are no mean. */
static void test_who_leaves_or_comes_back_in_mid_turn_is_not_waited_for(void **state)
{
    (void)state;
    for (uint32_t again = 0; again < 2; again++) {
        struct radio_world *r = cell(0.0f);
        struct world *w = r->w;
        world_start(w);
        world_run(w, 20 * SECOND);
        world_until(w, in_mid_turn_of_2, 60 * SECOND);
        uint64_t began_us = w->now_us;
        uint32_t turn = cast_of(w, 0)->turn, done = world_counters(w, 0).averages_done;
        if (again != 0) {
            world_down(w, 2);
            world_up(w, 2);
        } else {
            uw_node_leave(&w->nodes[2].node, w->now_us);
        }
        while (cast_of(w, 0)->active && cast_of(w, 0)->turn == turn) {
            world_run(w, SECOND / 10u);
        }
        print_message("%u ms later it is over\n", (unsigned)((w->now_us - began_us) / 1000u));
        assert_true(w->now_us - began_us <= 10 * SECOND);
        assert_int_equal(world_counters(w, 0).averages_done, done);
        world_run(w, 30 * SECOND);
        assert_true(world_counters(w, 0).averages_done >= done + 3u);
        radio_world_free(r);
    }
}

/* Node 3 gossips beside the others: they wait for it once, then average without it, exactly. When
 * it is started anew, with broadcasts, it takes part. */
static void test_who_sends_no_broadcasts_is_waited_for_once(void **state)
{
    (void)state;
    struct radio_world *r = cell(0.02f);
    struct world *w = r->w;
    struct uw_node_config c = world_config(w, 3);
    c.mode = UW_NODE_GOSSIP;
    for (uint32_t i = 0; i < 3; i++) {
        world_up(w, i);
    }
    world_up_with(w, 3, c);
    world_run(w, 60 * SECOND);
    uint32_t before = done_among_first(w, 3);
    world_run(w, 60 * SECOND);
    print_message("%u exact averages; %s\n", (unsigned)(done_among_first(w, 3) - before),
                  w->nodes[0].text[UW_NODE_AVERAGE_CUT]);
    assert_true(done_among_first(w, 3) >= before + 20u);
    assert_non_null(strstr(w->nodes[0].text[UW_NODE_AVERAGE_CUT], "; d sent nothing"));
    assert_int_equal(cast_of(w, 0)->peers_n, 2);
    world_down(w, 3);
    world_up(w, 3);
    world_run(w, 60 * SECOND);
    before = done_n(w);
    world_run(w, 30 * SECOND);
    assert_true(done_n(w) >= before + 5u);
    assert_int_equal(cast_of(w, 0)->peers_n, 3);
    radio_world_free(r);
}

/* For so long that all would have been waited for in vain, nobody hears anybody's chunks. */
static void test_a_cell_that_was_cut_apart_averages_on(void **state)
{
    (void)state;
    struct radio_world *r = cell(0.0f);
    struct world *w = r->w;
    world_start(w);
    world_run(w, 20 * SECOND);
    for (uint32_t i = 0; i < NODES; i++) {
        struct uw_node_state *s = w->nodes[i].node.state;
        for (uint32_t k = 1; k < s->membership.members_n; k++) {
            s->cast->mute[k] = true;
        }
    }
    world_run(w, 10 * SECOND);
    uint32_t before = done_n(w);
    world_run(w, 30 * SECOND);
    assert_true(done_n(w) >= before + 5u);
    assert_int_equal(cast_of(w, 0)->peers_n, NODES - 1u);
    radio_world_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_that_narrows_goes_on_with_smaller_chunks),
        cmocka_unit_test(test_averages_are_exact_only_where_all_see_the_same_cell),
        cmocka_unit_test(test_a_node_between_turns_may_rest),
        cmocka_unit_test(test_who_leaves_or_comes_back_in_mid_turn_is_not_waited_for),
        cmocka_unit_test(test_newcomers_begin_together_and_later_ones_follow),
        cmocka_unit_test(test_who_sends_no_broadcasts_is_waited_for_once),
        cmocka_unit_test(test_a_cell_that_was_cut_apart_averages_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
