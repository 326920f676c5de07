/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient tracking over committed pairs among the nodes that ship, on virtual time. */
#include "fault/pairs_world.h"

static const char *const schedules[] = {"matching", "hypercube", "base2"};

/* No step at all: only pairs move the parameters. */
static void rest(struct world_node *n)
{
    (void)n;
}

/* f_i = h_i/2 (x - t_i)^2: whose own optimum is far from that of all together. */
static double curvature(uint32_t i)
{
    return 0.5 + 0.25 * (double)(i % 3u);
}

static double target(uint32_t i, uint32_t k)
{
    return (double)i * 3.0 - (double)(k % 4u);
}

static void descend(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        double g = curvature(n->place) * ((double)n->x[k] - target(n->place, k));
        n->x[k] -= n->progress.lr * ((float)g + n->velocity[k]);
    }
}

static double distance_to_optimum(const struct world *w)
{
    double worst = 0.0;
    for (uint32_t k = 0; k < w->size_n; k++) {
        double up = 0.0, down = 0.0;
        for (uint32_t i = 0; i < w->n; i++) {
            up += curvature(i) * target(i, k);
            down += curvature(i);
        }
        for (uint32_t i = 0; i < w->n; i++) {
            double d = fabs((double)w->nodes[i].x[k] - up / down);
            worst = d > worst ? d : worst;
        }
    }
    return worst;
}

static void test_pairs_reach_the_exact_mean_under_every_mutual_schedule(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 7; n++) {
        for (uint32_t s = 0; s < 3; s++) {
            struct pairs_world *a = pairs_world_new(n, 301, 300);
            a->w->config.schedule = uw_peer_schedule_find(schedules[s]);
            a->step = rest;
            world_start(a->w);
            pairs_world_run(a, 8000000);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(a->w->nodes[i].rounds > 20);
                for (uint32_t k = 0; k < 301; k++) {
                    assert_true(fabs((double)a->w->nodes[i].x[k] - 0.5 * (n + 1.0)) < 1e-4);
                }
            }
            assert_int_equal(pairs_world_half(a), 0);
            pairs_world_free(a);
        }
    }
}

static void test_odd_nodes_find_the_optimum_of_all_and_their_trackers_cancel(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        struct pairs_world *a = pairs_world_new(n, 64, 300);
        a->step = descend;
        for (uint32_t i = 0; i < n; i++) {
            a->w->nodes[i].progress.lr = 0.05f;
        }
        world_start(a->w);
        pairs_world_run(a, 40000000);
        assert_true(distance_to_optimum(a->w) < 2e-3);
        assert_int_equal(pairs_world_half(a), 0);
        assert_true(pairs_world_imbalance(a) < 1e-3);
        pairs_world_free(a);
    }
}

static void test_loss_of_a_fifth_parts_no_pair(void **state)
{
    (void)state;
    struct pairs_world *a = pairs_world_new(5, 600, 300);
    a->step = descend;
    a->w->impairment.loss = 0.2f;
    for (uint32_t i = 0; i < 5; i++) {
        a->w->nodes[i].progress.lr = 0.05f;
    }
    world_start(a->w);
    pairs_world_run(a, 150000000);
    assert_true(a->committed_n > 100);
    assert_int_equal(pairs_world_half(a), 0);
    assert_true(pairs_world_imbalance(a) < 1e-3);
    assert_true(distance_to_optimum(a->w) < 2e-2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(a->nodes[i].retreats, 0);
        assert_int_equal(world_counters(a->w, i).pairs_half, 0);
    }
    pairs_world_free(a);
}

/* A START that is lost while its partner turns to the next one holds up nobody for long. */
static void test_loss_of_a_tenth_holds_up_no_pair_for_long(void **state)
{
    (void)state;
    for (uint32_t seed = 8; seed <= (uw_test_slow() ? 8 : 14); seed += 3) {
        struct pairs_world *a = pairs_world_new(3, 25000, 1200);
        a->w->seed = seed;
        a->w->impairment.loss = 0.1f;
        a->w->train_us = 2000 + 500 * seed;
        a->limit_us = 6000000;
        world_start(a->w);
        pairs_world_run(a, 10000000);
        assert_true(a->committed_n > 20);
        assert_int_equal(pairs_world_half(a), 0);
        pairs_world_free(a);
    }
}

/* Whatever the moment: what the survivor has is checked by the world. */
static void test_partner_that_dies_at_any_moment_leaves_a_whole_survivor(void **state)
{
    (void)state;
    for (uint32_t moment = 0; moment < 24; moment += uw_test_slow() ? 6 : 1) {
        struct pairs_world *a = pairs_world_new(3, 3000, 300);
        a->w->impairment.rate_bits_per_s = 4000000;
        world_start(a->w);
        pairs_world_run(a, 6000000);
        uint32_t before = a->committed_n;
        assert_true(before > 5);
        while (pairs_world_cell(&a->w->nodes[1])->state != UW_CELL_IN_ROUND) {
            pairs_world_run(a, 100);
        }
        pairs_world_run(a, moment * 4000u);
        world_down(a->w, 1);
        pairs_world_forget(a, 1);
        pairs_world_run(a, 40000000);
        assert_true(a->committed_n > before + 20u);
        assert_false(a->nodes[0].waits && a->w->now_us - a->nodes[0].since_us > 20000000);
        pairs_world_free(a);
    }
}

static void test_slow_node_and_late_one_fall_in(void **state)
{
    (void)state;
    struct pairs_world *a = pairs_world_new(5, 200, 300);
    a->w->train_us = 20000;
    a->w->nodes[3].slowness = 12;
    for (uint32_t i = 0; i < 4; i++) {
        world_up(a->w, i);
    }
    pairs_world_run(a, 60000000);
    assert_true(a->w->nodes[0].rounds > 100);
    assert_true(a->w->nodes[3].rounds > 10);
    struct uw_node_config c = world_config(a->w, 4);
    c.newcomer = true;
    for (uint32_t k = 0; k < 200; k++) {
        a->w->nodes[4].x[k] = 100.0f;
    }
    world_up_with(a->w, 4, c);
    pairs_world_run(a, 60000000);
    assert_int_equal(a->w->nodes[4].events[UW_NODE_ADOPTED], 1);
    assert_true(a->w->nodes[4].rounds > 50);
    assert_int_equal(pairs_world_half(a), 0);
    assert_true(pairs_world_imbalance(a) < 1e-3);
    pairs_world_free(a);
}

/* Cut the way of the decision once a partner has said that it is prepared. */
static void force_half_open(struct pairs_world *a)
{
    struct world *w = a->w;
    uint32_t before = pairs_world_half(a);
    while (pairs_world_half(a) == before) {
        uint32_t member = w->n, head = 0;
        while (member == w->n) {
            pairs_world_run(a, 50);
            for (uint32_t i = 0; i < w->n; i++) {
                const struct uw_cell *c = pairs_world_cell(&w->nodes[i]);
                bool prepared = c->state == UW_CELL_HAS_RESULT && c->ranks_n == 2u &&
                                c->decider != c->config.self;
                member = prepared ? i : member;
                for (uint32_t k = 0; prepared && k < w->n; k++) {
                    head = uw_name_id(w->nodes[k].name) == c->decider ? k : head;
                }
            }
        }
        (void)uw_link_emulated_cut(&w->nodes[head].emulated, (uint16_t)member, UW_EMULATED_OUT);
        pairs_world_run(a, 30000000);
        (void)uw_link_emulated_cut(&w->nodes[head].emulated, (uint16_t)member, 0);
        pairs_world_run(a, 5000000);
    }
}

static void test_half_open_pairs_end_in_a_retreat_of_all(void **state)
{
    (void)state;
    struct pairs_world *a = pairs_world_new(4, 200, 300);
    a->w->train_us = 100000;            /* few rounds, so that two are more than a hundredth */
    world_start(a->w);
    pairs_world_run(a, 10000000);
    force_half_open(a);
    pairs_world_run(a, 20000000);
    uint32_t counted = 0;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(a->nodes[i].retreats, 0);      /* one alone is no reason */
        counted += world_counters(a->w, i).pairs_half;
    }
    assert_int_equal(counted, 2);                       /* both sides know */
    for (uint32_t k = 0; k < 8 && a->nodes[0].retreats == 0; k++) {
        force_half_open(a);
        pairs_world_run(a, 20000000);
    }
    uint32_t pulls[4];
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(a->nodes[i].retreats, 1);
        assert_int_equal(a->w->nodes[i].events[UW_NODE_RETREAT], 1);
        pulls[i] = world_counters(a->w, i).pulls_done;
    }
    uint32_t committed = a->committed_n;
    pairs_world_run(a, 20000000);
    assert_int_equal(a->committed_n, committed);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(world_counters(a->w, i).pulls_done > pulls[i] + 5u);
        assert_ptr_equal(a->w->nodes[i].node.state->gossip.config.rule, &uw_mix_qg);
    }
    pairs_world_free(a);
}

static void test_what_is_no_pair_is_refused_in_a_sentence(void **state)
{
    (void)state;
    struct pairs_world *a = pairs_world_new(2, 16, 300);
    struct uw_error err = {.text = ""};
    size_t bytes;
    struct uw_link link = {.mtu_bytes = 300};
    struct uw_node_config c = world_config(a->w, 0);
    c.link = &link;
    c.schedule = uw_peer_schedule_find("exponential");
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "mutual"));
    c.schedule = NULL;
    c.mode = UW_NODE_ALLREDUCE;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "gossip"));
    assert_int_equal(uw_node_spare_n(UW_NODE_GOSSIP, &uw_mix_kgt, 16), 32);
    assert_int_equal(uw_node_spare_n(UW_NODE_GOSSIP, &uw_mix_noloco, 16), 0);
    assert_int_equal(uw_node_spare_n(UW_NODE_ALLREDUCE, &uw_mix_noloco, 16), 16);
    assert_int_equal(uw_node_spare_n(UW_NODE_ALLREDUCE, &uw_mix_qg, 16), 0);
    pairs_world_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_reach_the_exact_mean_under_every_mutual_schedule),
        cmocka_unit_test(test_odd_nodes_find_the_optimum_of_all_and_their_trackers_cancel),
        cmocka_unit_test(test_loss_of_a_fifth_parts_no_pair),
        cmocka_unit_test(test_loss_of_a_tenth_holds_up_no_pair_for_long),
        cmocka_unit_test(test_partner_that_dies_at_any_moment_leaves_a_whole_survivor),
        cmocka_unit_test(test_slow_node_and_late_one_fall_in),
        cmocka_unit_test(test_half_open_pairs_end_in_a_retreat_of_all),
        cmocka_unit_test(test_what_is_no_pair_is_refused_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
