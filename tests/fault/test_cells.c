/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells that average exactly, and heads that pull from each other, on virtual time. */
#include "fault/average_world.h"

#define N 6u
#define SIZE_N 500u

static bool left(uint32_t i)
{
    return i < N / 2u;
}

static struct world *cells(uint32_t left_weight)
{
    struct world *w = world_new(N, SIZE_N, 300);
    w->config.mode = UW_NODE_HIERARCHICAL;
    w->train_us = 5000;
    for (uint32_t i = 0; i < N; i++) {
        struct uw_node_config c = world_config(w, i);
        c.cell = left(i) ? "left" : "right";
        c.head_weight = i == 1 ? left_weight : 1;
        for (uint32_t k = 0; k < SIZE_N; k++) {
            w->nodes[i].x[k] = left(i) ? 1.0f : 3.0f;
        }
        world_up_with(w, i, c);
    }
    return w;
}

/* What a node shows: its parameters may be in the middle of an average. */
static const float *shown(const struct world *w, uint32_t i)
{
    return w->nodes[i].snapshot.data;
}

static bool same(const struct world *w, uint32_t i, uint32_t k)
{
    return memcmp(shown(w, i), shown(w, k), SIZE_N * sizeof(float)) == 0;
}

static float distance(const struct world *w)
{
    float most = 0.0f;
    for (uint32_t k = 0; k < SIZE_N; k++) {
        float d = fabsf(shown(w, 0)[k] - shown(w, N - 1u)[k]);
        most = d > most ? d : most;
    }
    return most;
}

static void cut_cells(struct world *w, uint8_t directions)
{
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < N; k++) {
            if (left(i) != left(k) && w->nodes[i].up) {
                (void)uw_link_emulated_cut(&w->nodes[i].emulated, (uint16_t)k, directions);
            }
        }
    }
}

static uint32_t told(const struct world *w, bool of_left, enum uw_node_event_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        n += left(i) == of_left ? w->nodes[i].events[kind] : 0;
    }
    return n;
}

static void test_cells_agree_inside_and_come_together(void **state)
{
    (void)state;
    struct world *w = cells(5);
    world_run(w, 30000000);
    assert_true(distance(w) < 1e-3f);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(w->nodes[i].rounds > 50);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            assert_true(shown(w, i)[k] > 0.999f && shown(w, i)[k] < 3.001f);
        }
    }
    assert_non_null(strstr(w->nodes[1].text[UW_NODE_HEAD], "this node leads"));
    assert_true(world_counters(w, 1).pulled_bytes > 0);
    for (uint32_t i = 0; i < N / 2u; i++) {         /* only the head uses the thin link */
        assert_true(i == 1 || world_counters(w, i).pulled_bytes == 0);
    }
    assert_true(told(w, true, UW_NODE_CELLS_MEET) > 0 && told(w, false, UW_NODE_CELLS_MEET) > 0);
    assert_int_equal(told(w, true, UW_NODE_CELL_ALONE), 0);
    world_free(w);
}

/* As after another kind of samples: a hundred times less, then as much again. */
static void vary(struct world_node *n)
{
    for (uint32_t k = SIZE_N / 2u; k < SIZE_N; k++) {
        n->x[k] = left(n->place) && n->progress.step / 7u % 2u == 0 ? 10.0f : 0.1f;
    }
}

static void never_below_zero(struct world_node *n, int flags)
{
    for (uint32_t k = SIZE_N / 2u; k < SIZE_N && (flags & UW_NODE_AVERAGING) == 0; k++) {
        assert_true(n->x[k] > 0.0f);
    }
}

static void test_a_variance_that_has_fallen_stays_above_zero(void **state)
{
    (void)state;
    struct world *w = cells(5);
    w->segments[1].statistic = w->segments[1].variance = true;
    for (uint32_t i = 0; i < N; i++) {
        w->nodes[i].train = vary;
        w->nodes[i].after = never_below_zero;
    }
    world_run(w, 5000000);
    assert_true(w->nodes[1].rounds > 50 && world_counters(w, 1).pulled_bytes > 0);
    world_free(w);
}

static bool head_takes_part(struct world *w)
{
    return w->nodes[1].rounds > 0 && world_counters(w, 1).pulled_bytes > 0;
}

static void test_cells_parted_go_on_alone_and_meet_again(void **state)
{
    (void)state;
    struct world *w = cells(5);
    world_run(w, 10000000);
    cut_cells(w, UW_EMULATED_BOTH);
    world_run(w, 15000000);
    assert_true(told(w, true, UW_NODE_CELL_ALONE) > 0 && told(w, false, UW_NODE_CELL_ALONE) > 0);
    for (uint32_t i = 0; i < N; i++) {              /* each cell learns something of its own */
        for (uint32_t k = 0; k < SIZE_N; k++) {
            world_x(&w->nodes[i])[k] += left(i) ? -1.0f : 1.0f;
        }
    }
    uint32_t before = w->nodes[0].rounds;
    world_run(w, 45000000);
    assert_true(w->nodes[0].rounds > before + 100u);
    assert_true(distance(w) > 1.0f);
    uint32_t meetings = told(w, true, UW_NODE_CELLS_MEET);
    cut_cells(w, 0);
    world_run(w, 30000000);
    assert_true(told(w, true, UW_NODE_CELLS_MEET) > meetings);
    assert_true(distance(w) < 0.05f);
    world_free(w);
}

static void test_head_that_vanishes_is_replaced_towards_the_other_cell_too(void **state)
{
    (void)state;
    struct world *w = cells(5);
    world_until(w, head_takes_part, 20000000);
    world_down(w, 1);
    world_run(w, 40000000);
    uint64_t bytes = world_counters(w, 0).pulled_bytes + world_counters(w, 2).pulled_bytes;
    assert_true(bytes > 0);
    assert_true(distance(w) < 1e-3f);
    world_free(w);
}

static void test_cell_of_one_takes_part(void **state)
{
    (void)state;
    struct world *w = world_new(3, SIZE_N, 300);
    w->config.mode = UW_NODE_HIERARCHICAL;
    w->train_us = 5000;
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_node_config c = world_config(w, i);
        c.head_weight = 1;
        c.cell = i < 2 ? "pair" : "";
        world_up_with(w, i, c);
    }
    world_run(w, 40000000);
    for (uint32_t k = 0; k < SIZE_N; k++) {
        assert_true(fabsf(shown(w, 0)[k] - shown(w, 2)[k]) < 1e-2f);
    }
    assert_true(same(w, 0, 1));
    world_free(w);
}

static bool both_have_pulled(struct world *w)
{
    return world_counters(w, 0).pulls_done > 3 && world_counters(w, 1).pulls_done > 3;
}

/* Each is a cell by itself, and has no model that the other could take over. */
static void test_two_newcomers_without_a_cell_pull_from_each_other_at_once(void **state)
{
    (void)state;
    struct world *w = world_new(2, SIZE_N, 300);
    w->config.mode = UW_NODE_HIERARCHICAL;
    w->config.head_weight = 1;
    w->config.newcomer = true;
    w->train_us = 5000;
    world_start(w);
    world_until(w, both_have_pulled, 5000000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w->nodes[i].rounds > 0);
        assert_true(w->nodes[i].events[UW_NODE_CELLS_MEET] > 0);
        assert_int_equal(w->nodes[i].events[UW_NODE_ADOPTED], 0);
        assert_int_equal(w->nodes[i].events[UW_NODE_AVERAGE_CUT], 0);
    }
    world_run(w, 5000000);
    for (uint32_t k = 0; k < SIZE_N; k++) {
        assert_true(fabsf(shown(w, 0)[k] - shown(w, 1)[k]) < 1e-2f);
    }
    world_free(w);
}

static bool at_the_other_site(void *arg, uint16_t place)
{
    return left(((const struct world_node *)arg)->place) != left(place);
}

/* Two sites of three nodes, 40 ms apart; nobody is told who is where. */
static void test_cells_are_found_by_round_trips(void **state)
{
    (void)state;
    struct world *w = world_new(N, SIZE_N, 300);
    w->config.mode = UW_NODE_AUTO;
    w->config.head_weight = 1;
    w->train_us = 100000;
    w->impairment.delay_us = 20000;
    w->far = at_the_other_site;
    world_start(w);
    world_run(w, 40000000);
    for (uint32_t i = 0; i < N; i++) {
        const char *cell = w->nodes[i].node.state->cell->name;
        assert_string_equal(cell, w->nodes[left(i) ? 0 : N - 1u].node.state->cell->name);
        assert_int_equal(w->nodes[i].node.state->cell->scopes[UW_AVERAGE_CELL].cell.ranks_n, 3);
    }
    assert_string_not_equal(w->nodes[0].node.state->cell->name,
                            w->nodes[N - 1u].node.state->cell->name);
    assert_true(distance(w) < 1e-2f);
    world_free(w);
}

static bool in_one_cell(const struct world *w, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (strcmp(w->nodes[i].node.state->cell->name, w->nodes[0].node.state->cell->name) != 0) {
            return false;
        }
    }
    return true;
}

/* What its samples want: of those on the right the opposite, where nodes' data differ. */
static void learn(struct world_node *n, float goal)
{
    float off = n->x[0] - goal;
    n->progress.step_loss = off * off + 0.01f;
    for (uint32_t k = 0; k < SIZE_N; k++) {
        n->x[k] -= 0.3f * (n->x[k] - goal);
    }
}

static void learn_alike(struct world_node *n)
{
    learn(n, 1.0f);
}

static void learn_apart(struct world_node *n)
{
    learn(n, left(n->place) ? 1.0f : -1.0f);
}

/* 20 ms apart, so that an average takes 200 ms: too much when a round trains for 25 ms, and cheap
 * when it does for 5 s; at 1.5 s it is worth it when training drifts apart without. */
static void test_who_is_far_is_in_the_cell_when_averages_are_worth_it(void **state)
{
    static const struct {
        uint64_t train_us;
        void (*train)(struct world_node *n);
        bool together;
    } cases[] = {{5000, NULL, false},
                 {5000, learn_alike, false},
                 {300000, NULL, false},
                 {300000, learn_alike, false},
                 {300000, learn_apart, true},
                 {1000000, learn_alike, true}};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = world_new(N, SIZE_N, 300);
        w->config.mode = UW_NODE_AUTO;
        w->config.head_weight = 1;
        w->train_us = cases[i].train_us;
        w->impairment.delay_us = 20000;
        for (uint32_t k = 0; k < N; k++) {
            w->nodes[k].train = cases[i].train;
        }
        world_start(w);
        world_run(w, 60000000);
        assert_int_equal(in_one_cell(w, N), cases[i].together);
        assert_int_equal(w->nodes[1].node.state->cell->scopes[UW_AVERAGE_CELL].cell.ranks_n,
                         cases[i].together ? N : 1u);
        float drift = uw_average_drift(&w->nodes[1].node.state->cell->average);
        assert_true(cases[i].train == learn_apart ? drift > 1.0f : drift < 0.3f);
        world_free(w);
    }
}

static void count_early(struct world_node *n, int flags)
{
    const struct uw_average *a = &n->node.state->cell->average;
    if ((flags & UW_NODE_MIXED) != 0 && (flags & UW_NODE_ROUND) == 0) {
        assert_true(a->steps < 100u);
        n->world->nodes[N].rounds++;
    }
}

/* A round is 2 s long, a pull a tenth of that: it is in the model long before the round's end. */
static void test_cell_of_one_mixes_what_it_has_pulled_at_once(void **state)
{
    (void)state;
    struct world *w = world_new(2, SIZE_N, 300);
    w->config.mode = UW_NODE_HIERARCHICAL;
    w->config.head_weight = 1;
    w->config.period_steps = 400;
    w->train_us = 5000;
    for (uint32_t i = 0; i < 2; i++) {
        w->nodes[i].after = count_early;
    }
    world_start(w);
    world_run(w, 21000000);
    uint32_t rounds = w->nodes[0].rounds + w->nodes[1].rounds;
    assert_true(rounds >= 16u && w->nodes[N].rounds + 2u >= rounds);
    for (uint32_t k = 0; k < SIZE_N; k++) {
        assert_true(fabsf(w->nodes[0].x[k] - w->nodes[1].x[k]) < 0.1f);
    }
    world_free(w);
}

/* It would make all wait. Towards the cell it counts as the one node that it is. */
static void test_a_straggler_is_in_no_cell_with_others(void **state)
{
    (void)state;
    struct world *w = world_new(N, SIZE_N, 300);
    w->config.mode = UW_NODE_AUTO;
    w->config.head_weight = 1;
    w->train_us = 100000;
    w->nodes[N - 1u].slowness = 10;
    world_start(w);
    world_run(w, 40000000);
    assert_true(in_one_cell(w, N - 1u));
    assert_false(in_one_cell(w, N));
    uint32_t heads = 0;
    for (uint32_t i = 0; i < N; i++) {
        const struct uw_node_state *s = w->nodes[i].node.state;
        if (s->cell->scopes[UW_AVERAGE_CELL].cell.head == uw_name_id(w->nodes[i].name)) {
            heads++;
            assert_float_equal(s->bridge->weight, i == N - 1u ? 0.5f : 1.0f / 6.0f, 1e-6);
        }
    }
    assert_int_equal(heads, 2);
    world_free(w);
}

/* Whatever was foreseen: averages that cost many times the training between them are left. */
static void test_averages_that_turn_out_dear_are_left(void **state)
{
    (void)state;
    struct world *w = world_new(N, SIZE_N, 300);
    w->config.mode = UW_NODE_AUTO;
    w->config.head_weight = 1;
    w->train_us = 100000;
    world_start(w);
    world_run(w, 20000000);
    assert_true(in_one_cell(w, N));
    uint32_t leader = 0;        /* the cell has its name */
    while (w->nodes[leader].node.state->cell->near.hops != 0) {
        leader++;
    }
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t i = turn == 0 ? (leader + 1u) % N : leader;
        struct uw_node_state *s = w->nodes[i].node.state;
        const uint32_t train_us = s->cell->near.train_us;
        for (uint32_t k = 1; k <= 4u; k++) {    /* one stall is no price */
            assert_false(s->cell->near.wary);
            uw_node_near_asked(s);
            s->cell->near.asked_us -= 100u * (uint64_t)train_us;
            uw_node_near_back(s, true);
            s->cell->near.look_us = 0;
            (void)uw_node_near_step(s);
        }
        assert_true(s->cell->near.wary);
        uint64_t hold_us = s->cell->near.hold_us;
        s->cell->near.hold_us = UINT64_MAX;
        world_run(w, 10000000);
        for (uint32_t k = 0; k < N; k++) {
            const char *other = w->nodes[k].node.state->cell->name;
            assert_int_equal(strcmp(s->cell->name, other) == 0, k == i);
        }
        s->cell->near.hold_us = hold_us;
        world_run(w, 40000000);
        assert_true(in_one_cell(w, N));     /* once rates are known that say otherwise */
    }
    world_free(w);
}

static struct uw_node_near *leave(struct uw_node_state *s)
{
    s->cell->near.dear = 100.0f;
    s->cell->near.look_us = 0;
    (void)uw_node_near_step(s);
    return &s->cell->near;
}

/* Six times in a day are held against nobody for ever: each hold that passes in a cell counts. */
static void test_a_calm_time_in_a_cell_makes_the_next_hold_shorter(void **state)
{
    (void)state;
    struct world *w = world_new(3, SIZE_N, 300);
    w->config.mode = UW_NODE_AUTO;
    w->config.head_weight = 1;
    w->train_us = 50000;
    world_start(w);
    world_run(w, 20000000);
    struct uw_node_state *s = w->nodes[1].node.state;
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(leave(s)->left_n, i);
    }
    uint64_t hold_us = s->cell->near.hold_us - w->now_us;
    world_run(w, hold_us + hold_us / 2u);
    assert_true(in_one_cell(w, 3));
    assert_int_equal(s->cell->near.left_n, 3);       /* no calm hold has passed yet */
    world_run(w, hold_us / 2u + hold_us / 4u);
    assert_int_equal(s->cell->near.left_n, 2);
    world_run(w, hold_us);
    assert_int_equal(s->cell->near.left_n, 0);
    assert_int_equal(leave(s)->left_n, 1);
    /* Alone no time is calm. */
    world_down(w, 0);
    world_down(w, 2);
    world_run(w, 4u * hold_us);
    assert_int_equal(s->cell->near.left_n, 1);
    world_free(w);
}

static bool b_is_amid_a_pull(struct world *w)
{
    const struct uw_pull *t = &w->nodes[1].node.state->pull.first.transfer;
    return t->active && t->have_chunks > t->chunks / 4u && t->have_chunks < t->chunks / 2u;
}

static bool b_has_moved_it(struct world *w)
{
    return w->nodes[1].events[UW_NODE_PULL_MOVED] != 0;
}

/* The head that b pulls from leaves; of the two others one cannot send chunks of that size. */
static void test_pull_goes_on_with_another_head_whose_link_is_wide_enough(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 12; k++) {
        struct world *w = world_new(4, 601, 127);
        w->config.mode = UW_NODE_HIERARCHICAL;
        w->config.head_weight = 1;
        w->seed += k;
        w->impairment.rate_bits_per_s = 300000;
        world_start(w);
        world_until(w, b_is_amid_a_pull, 20000000);
        const struct uw_node_state *s = w->nodes[1].node.state;
        struct uw_member *members = s->membership.members;
        s->peers[(s->pull.first.member + k % 2u) % 3u + 1u].chunk_limit_n = 8;
        members[s->pull.first.member].state = UW_MEMBER_LEFT;
        uint32_t done_n = w->nodes[1].events[UW_NODE_PULL_DONE];
        world_until(w, b_has_moved_it, 1000000);
        assert_int_equal(s->peers[s->pull.first.member].chunk_limit_n, 0);
        world_run(w, 2000000);
        assert_int_equal(w->nodes[1].events[UW_NODE_PULL_CUT], 0);
        assert_true(w->nodes[1].events[UW_NODE_PULL_DONE] > done_n);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_agree_inside_and_come_together),
        cmocka_unit_test(test_a_variance_that_has_fallen_stays_above_zero),
        cmocka_unit_test(test_cells_parted_go_on_alone_and_meet_again),
        cmocka_unit_test(test_head_that_vanishes_is_replaced_towards_the_other_cell_too),
        cmocka_unit_test(test_cell_of_one_takes_part),
        cmocka_unit_test(test_two_newcomers_without_a_cell_pull_from_each_other_at_once),
        cmocka_unit_test(test_cells_are_found_by_round_trips),
        cmocka_unit_test(test_who_is_far_is_in_the_cell_when_averages_are_worth_it),
        cmocka_unit_test(test_cell_of_one_mixes_what_it_has_pulled_at_once),
        cmocka_unit_test(test_a_straggler_is_in_no_cell_with_others),
        cmocka_unit_test(test_averages_that_turn_out_dear_are_left),
        cmocka_unit_test(test_a_calm_time_in_a_cell_makes_the_next_hold_shorter),
        cmocka_unit_test(test_pull_goes_on_with_another_head_whose_link_is_wide_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
