/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's formula network: what exchanges do to small vectors, and when. */
#include "formula_fixture.h"

/* ---- gossip ---- */

/* T = 3: asked at 3 ms, the question is there at 4, the answer at 6 ms, as the sixth step ends. */
static void test_a_pull_brings_half_of_what_its_peer_showed_when_the_question_came(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
    struct uw_world_node *n;
    open_setup(t);
    for (uint32_t step = 1; step <= 5; step++) {
        for (uint32_t i = 0; i < 2; i++) {
            int flags = go_on(t, i == 0 ? 1.0f : 10.0f, &n);
            assert_int_equal(n->place, i);
            assert_int_equal(now_us(t), step * STEP_US);
            assert_int_equal(flags, 0);
        }
    }
    assert_int_equal(go_on(t, 1.0f, &n), UW_NODE_MIXED | UW_NODE_ROUND);
    assert_close(n->x[0], 6.0f + 0.5f * (30.0f - 3.0f), 0.0);
    assert_int_equal(go_on(t, 10.0f, &n), UW_NODE_MIXED | UW_NODE_ROUND);
    assert_close(n->x[4], 60.0f + 0.5f * (3.0f - 30.0f), 0.0);
    assert_int_equal(counted(t).pulls_done, 2);
    assert_close((double)uw_world_sent_bytes(&t->w), 2000.0, 0.0);
    close_setup(t);
}

/* The study's pull has no question: it is 1 ms shorter. */
static void test_the_studys_pull_is_a_latency_shorter(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
    struct uw_world_node *n;
    int flags = 0;
    t->config.study_pull = true;
    open_setup(t);
    while (counted(t).pulls_done == 0) {
        flags = go_on(t, 1.0f, &n);
    }
    assert_int_equal(now_us(t), 5u * STEP_US);
    assert_int_equal(flags, UW_NODE_MIXED);
    close_setup(t);
}

/* T = 3: asked at 3 ms, half a model is there at 4.5 ms, or at 5.5 when it was a question. */
static void test_who_waits_for_a_pull_mixes_before_the_next_step(void **state)
{
    (void)state;
    struct uw_world_node *n;
    for (uint32_t question = 0; question < 2; question++) {
        struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
        t->config.pull_waits = true;
        t->config.study_pull = question == 0;
        t->config.model_bytes = 500;
        open_setup(t);
        for (uint32_t i = 0; i < 10; i++) {     /* three steps, the pull, a step */
            int flags = go_on(t, i % 2 == 0 ? 1.0f : 10.0f, &n);
            assert_int_equal((flags & UW_NODE_AVERAGING) != 0, i / 2 == 2);
        }
        assert_int_equal(now_us(t), 5500u + question * 1000u);
        assert_close(n->x[0], 16.5f + 10.0f, 0.0);
        close_setup(t);
    }
}

/* Node 1 publishes at 4.2 and 8.4 ms. Node 0's question comes at 4 ms, before, or, from further
 * away, after; what is on its way does not change when its owner publishes. */
static void test_what_is_on_its_way_stays_what_it_was(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
        struct uw_world_node *n = NULL;
        t->devices[1].step_us = 1400;
        t->devices[0].latency_us = late ? 900 : 500;
        t->config.model_bytes = 5000;
        open_setup(t);
        float expected = 0.0f;
        while (t->w.nodes[0].x[0] < 1000.0f) {
            int flags = go_on(t, 1.0f, &n);
            if (n->place == 0 && (flags & UW_NODE_MIXED) != 0) {
                /* 2 L + 5 ms after 3 ms: at 10 ms, and at 10.8 ms, seen at 11. */
                uint32_t steps = late ? 11 : 10;
                assert_int_equal(now_us(t), steps * STEP_US);
                /* It is mixed in against what was shown at 9. */
                expected = (float)steps + 0.5f * ((late ? 3.0f : 0.0f) - 9.0f);
                break;
            }
        }
        assert_close(n->x[0], expected, 0.0);
        close_setup(t);
    }
}

static void test_a_slow_network_stretches_rounds_and_no_step(void **state)
{
    (void)state;
    struct setup *t = setup_of(4, UW_NODE_GOSSIP, &uw_mix_qg);
    t->config.model_bytes = 10000;
    open_setup(t);
    train(t, 45);
    assert_int_equal(now_us(t), 45u * STEP_US);
    /* Asked at 3, 15, 27, 39 ms, each takes 12 ms; the last has not come. */
    assert_int_equal(counted(t).pulls_done, 4u * 3u);
    close_setup(t);
}

struct drawn {
    struct uw_rng rng[9];
    uint32_t pulls_n;
};

/* As the shipped random schedule draws where everybody can be reached. */
static void check_peer(void *arg, uint32_t place, const struct uw_node_event *event)
{
    struct drawn *d = arg;
    bool usable[9];
    char name[16];
    memset(usable, true, sizeof usable);
    const struct uw_peer_view view = {.n = 9, .self = place, .usable = usable};
    struct uw_peer_choice c = uw_peer_schedule_random.pick(&view, &d->rng[place]);
    snprintf(name, sizeof name, "node%u", (unsigned)c.at);
    assert_string_equal(event->peer, name);
    d->pulls_n++;
}

static void test_peers_are_drawn_as_the_schedule_draws(void **state)
{
    (void)state;
    struct setup *t = setup_of(9, UW_NODE_GOSSIP, &uw_mix_none);
    struct uw_world_node *n;
    struct drawn drawn = {.pulls_n = 0};
    t->config.on_event = check_peer;
    t->config.event_arg = &drawn;
    open_setup(t);
    for (uint32_t i = 0; i < 9; i++) {
        uw_rng_seed(&drawn.rng[i], uw_rng_mix(1, i));
    }
    for (uint32_t events = 0; events < 9u * 60u; events++) {
        (void)go_on(t, 1.0f, &n);
    }
    assert_true(drawn.pulls_n > 9u * 15u);
    close_setup(t);
}

static void test_without_steps_rounds_bring_nodes_together(void **state)
{
    (void)state;
    struct setup *t = setup_of(8, UW_NODE_GOSSIP, &uw_mix_none);
    t->config.node.schedule = uw_peer_schedule_find("hypercube");
    open_setup(t);
    for (uint32_t i = 0; i < 8; i++) {
        t->w.nodes[i].x[0] = (float)i;
    }
    const struct uw_node_progress still = {.lr = 0.0f};
    while (counted(t).pulls_done < 8u * 4u) {
        assert_true(uw_world_trained(&t->w, uw_world_next(&t->w), &still, 250) >= 0);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_close(t->w.nodes[i].x[0], 3.5f, 1e-6);
    }
    close_setup(t);
}

/* W x, with W of the ring: both neighbours, as they were published. */
static void test_a_ring_with_two_pulls_is_a_step_of_d_psgd(void **state)
{
    (void)state;
    struct setup *t = setup_of(5, UW_NODE_GOSSIP, &uw_mix_none);
    double x[5], y[5];
    t->config.node.schedule = uw_peer_schedule_find("ring");
    t->config.node.pulls_n = 2;
    t->config.node.period_steps = 1;
    t->config.pull_waits = true;
    open_setup(t);
    for (uint32_t i = 0; i < 5; i++) {
        x[i] = (double)first[0];
    }
    train(t, 5);
    for (uint32_t step = 1; step <= 5; step++) {
        for (uint32_t i = 0; i < 5; i++) {
            x[i] += (double)(i + 1u);
        }
        for (uint32_t i = 0; i < 5; i++) {
            y[i] = (x[(i + 4u) % 5u] + x[i] + x[(i + 1u) % 5u]) / 3.0;
        }
        memcpy(x, y, sizeof x);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_close(t->w.nodes[i].x[0], x[i], 1e-5);
    }
    assert_int_equal(counted(t).pulls_done, 5u * 5u * 2u);
    close_setup(t);
}

static void test_the_period_can_change_during_a_run(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_GOSSIP, &uw_mix_none);
    uint32_t steps = 0;
    t->config.node.period_steps = 6;
    t->config.pull_waits = true;
    open_setup(t);
    while (steps < 2u * 18u) {
        struct uw_world_node *n = uw_world_next(&t->w);
        steps += !n->waits;
        const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f,
                                           .period_steps = steps > 2u * 12u ? 2u : 0};
        assert_true(uw_world_trained(&t->w, n, &p, 0) >= 0);
    }
    /* after the steps 6, 12, 14, 16, 18; the last has not come */
    assert_int_equal(counted(t).pulls_done, 2u * 4u);
    close_setup(t);
}

/* ---- exact averages ---- */

/* Two rounds of three steps and two averages, for every K to 64: to the microsecond. */
static void test_all_reduce_takes_the_formulas_time_and_keeps_the_mean(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= NODES_MAX; p++) {
        struct setup *t = setup_of(p, UW_NODE_ALLREDUCE, &uw_mix_none);
        static const enum uw_sim_algorithm all[] = {UW_SIM_AUTO, UW_SIM_BUTTERFLY, UW_SIM_HALVING,
                                                    UW_SIM_RING, UW_SIM_RING_STUDY, UW_SIM_TREE};
        const struct uw_sim_path path = {.latency_s = 0.001, .byte_s = 1e-6};
        t->config.algorithm = all[p % 6u];
        double sent, s = uw_sim_allreduce_s(all[p % 6u], p, &path, 1000.0, &sent);
        open_setup(t);
        train(t, 6);
        assert_int_equal(now_us(t), 2u * (3u * STEP_US + (uint64_t)lround(1e6 * s)));
        assert_close((double)uw_world_sent_bytes(&t->w), 2.0 * sent, 1e-6);
        assert_int_equal(counted(t).averages_done, 2u * p);
        for (uint32_t i = 0; i < p; i++) {
            assert_close(t->w.nodes[i].x[SIZE_N - 1], 6.0f * (float)(p + 1u) / 2.0f, 1e-4);
        }
        close_setup(t);
    }
}

/* Rounds move the mean by 7.5; with outer momentum 0.5 by 7.5, 11.25, 13.125. */
static void test_outer_momentum_goes_with_the_average(void **state)
{
    (void)state;
    struct setup *t = setup_of(4, UW_NODE_ALLREDUCE, &uw_mix_slowmo);
    open_setup(t);
    train(t, 9);
    assert_close(t->w.nodes[0].x[0], 31.875f, 1e-4);
    assert_memory_equal(t->w.nodes[3].x, t->w.nodes[0].x, SIZE_N * sizeof(float));
    close_setup(t);
}

static void test_a_straggler_holds_up_averages_and_no_gossip(void **state)
{
    (void)state;
    for (uint32_t exact = 0; exact < 2; exact++) {
        enum uw_node_mode mode = exact ? UW_NODE_ALLREDUCE : UW_NODE_GOSSIP;
        struct setup *t = setup_of(4, mode, &uw_mix_none);
        uint32_t done[4] = {0};
        struct uw_world_node *n;
        t->devices[2].step_us = 10u * STEP_US;
        open_setup(t);
        while (now_us(t) < 300u * STEP_US) {
            n = uw_world_next(&t->w);
            bool waited = n->waits;
            const struct uw_node_progress p = {.lr = waited ? 0.0f : 0.5f};
            done[n->place] += !waited;
            (void)uw_world_trained(&t->w, n, &p, 0);
        }
        /* A round of three slow steps and an average of 4 ms: 34 ms. */
        assert_in_range(done[2], exact ? 26 : 29, exact ? 28 : 30);
        assert_in_range(done[0], exact ? 26 : 299, exact ? 30 : 300);
        close_setup(t);
    }
}

/* After a run was resumed its nodes are at different steps of their rounds: some end earlier. */
static void test_who_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    struct setup *t = setup_of(4, UW_NODE_ALLREDUCE, &uw_mix_none);
    static const uint32_t steps[] = {7, 7, 4, 2};
    uint32_t done[4] = {0};
    struct uw_world_node *n;
    open_setup(t);
    while ((n = uw_world_next(&t->w)) != NULL) {
        const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f};
        n->x[0] += n->waits ? 0.0f : (float)n->place;
        done[n->place] += !n->waits;
        (void)uw_world_trained(&t->w, n, &p, 0);
        n->train_at_us = done[n->place] == steps[n->place] && !n->waits ? UINT64_MAX
                                                                        : n->train_at_us;
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(done[i], steps[i]);
    }
    /* Three average after three steps, two after six; then there is one step more. */
    assert_int_equal(counted(t).averages_done, 3u + 2u);
    assert_close(t->w.nodes[0].x[0], 3.0f + 1.5f, 1e-6);
    assert_close(t->w.nodes[1].x[0], 3.0f + 1.5f + 1.0f, 1e-6);
    assert_close(t->w.nodes[2].x[0], 3.0f + 2.0f, 1e-6);
    assert_close(t->w.nodes[3].x[0], 6.0f, 0.0);
    close_setup(t);
}

/* What would take longer than any clock counts takes 30 years: time goes on, and forwards. */
static void test_time_does_not_overflow(void **state)
{
    (void)state;
    struct setup *t = setup_of(2, UW_NODE_ALLREDUCE, &uw_mix_none);
    t->config.model_bytes = (uint64_t)1 << 60;
    t->config.algorithm = UW_SIM_RING_STUDY;
    for (uint32_t i = 0; i < 2; i++) {
        t->devices[i].up_bits_per_s = 100;
    }
    open_setup(t);
    train(t, 9);
    assert_int_equal(now_us(t), 3u * 1000000000000000u + 9u * STEP_US);
    close_setup(t);
}

/* ---- cells ---- */

static struct setup *cells_of_two(uint32_t n)
{
    struct setup *t = setup_of(n, UW_NODE_HIERARCHICAL, &uw_mix_none);
    for (uint32_t i = 0; i < n; i++) {
        t->devices[i].cell = i / 2u;
        t->cells[i / 2u] = (struct uw_sim_cell){.bits_per_s = 4000000, .latency_us = 100};
    }
    t->fleet.cells_n = n / 2u;
    return t;
}

/* A pair's average inside takes 100 us + 2 ms: rounds of 5.1 ms. A head asks at 5.1; the answer, of
 * 5.1 too, is there at 8.1 ms, the moment its cell begins to average again: too late. */
static void test_cells_average_inside_and_take_half_of_what_a_head_pulls(void **state)
{
    (void)state;
    struct setup *t = cells_of_two(4);
    t->config.algorithm = UW_SIM_BUTTERFLY;
    open_setup(t);
    train(t, 6);
    assert_int_equal(now_us(t), 2u * 5100u);
    assert_close(t->w.nodes[0].x[0], 9.0f, 1e-6);
    assert_close(t->w.nodes[3].x[0], 21.0f, 1e-6);
    close_setup(t);
    /* 400 us less to the middle: at 7.3 ms. The third average takes what the second left. */
    t = cells_of_two(4);
    t->config.algorithm = UW_SIM_BUTTERFLY;
    for (uint32_t i = 0; i < 4; i++) {
        t->devices[i].latency_us = 100;
    }
    open_setup(t);
    train(t, 6);
    assert_close(t->w.nodes[0].x[0], 4.5f + 4.5f + 0.5f * (10.5f - 4.5f), 1e-6);
    assert_close(t->w.nodes[1].x[0], 12.0f, 1e-6);
    assert_close(t->w.nodes[2].x[0], 10.5f + 10.5f + 0.5f * (4.5f - 10.5f), 1e-6);
    assert_int_equal(counted(t).pulls_done, 2);
    close_setup(t);
}

/* What is under diloco takes a seventh of what was pulled and is carried on; the rest is not. */
static void test_running_statistics_pass_between_cells_as_they_are(void **state)
{
    static const struct uw_segment parts[] = {
        {.name = "w", .size_n = 3}, {.name = "var", .offset_n = 3, .size_n = 2, .statistic = true}};
    struct uw_params with = params;
    (void)state;
    struct setup *t = cells_of_two(4);
    struct uw_world_node *n;
    with.segments = parts;
    with.segments_n = 2;
    t->config.params = &with;
    t->config.node.rule = &uw_mix_diloco;
    open_setup(t);
    for (uint32_t k = 0; k < 4u * SIZE_N; k++) {
        t->w.nodes[k / SIZE_N].x[k % SIZE_N] = k / SIZE_N < 2 ? 1.0f : 3.0f;
    }
    do {
        (void)go_on(t, 0.0f, &n);
    } while (t->w.nodes[0].x[4] == 1.0f);
    assert_close(t->w.nodes[1].x[4], 2.0, 1e-6);
    close_setup(t);
}

static void test_devices_without_a_cell_are_cells_of_one_that_pull(void **state)
{
    (void)state;
    struct setup *t = cells_of_two(6);
    t->devices[4].cell = t->devices[5].cell = UW_SIM_NO_CELL;
    t->fleet.cells_n = 2;
    open_setup(t);
    train(t, 60);
    assert_true(counted(t).pulls_done > 4u * 8u);
    float low = 1e9f, high = 0.0f;
    for (uint32_t i = 0; i < 6; i++) {
        low = fminf(low, t->w.nodes[i].x[0]);
        high = fmaxf(high, t->w.nodes[i].x[0]);
    }
    /* Alone they would have come 60 * 1.5 and 60 * 6 far. */
    assert_true(low > 120.0f && high < 330.0f);
    close_setup(t);
}

/* ---- all of it ---- */

static void test_same_seed_same_bits_and_another_seed_other_bits(void **state)
{
    (void)state;
    float x[3][16][SIZE_N];
    for (uint32_t run = 0; run < 3; run++) {
        struct setup *t = setup_of(16, UW_NODE_GOSSIP, &uw_mix_noloco);
        t->config.node.seed = run == 2 ? 2 : 1;
        open_setup(t);
        train(t, 50);
        for (uint32_t i = 0; i < 16; i++) {
            memcpy(x[run][i], t->w.nodes[i].x, sizeof x[run][i]);
        }
        close_setup(t);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_not_equal(x[0], x[2], sizeof x[0]);
}

static void test_what_the_formulas_do_not_know_is_refused(void **state)
{
    (void)state;
    struct uw_error err = {.text = ""};
    struct setup *t = setup_of(3, UW_NODE_AUTO, &uw_mix_none);
    assert_int_equal(uw_world_open(&t->w, &t->config, &err), UW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--network events"));
    uw_world_close(&t->w);
    t->config.node.mode = UW_NODE_GOSSIP;
    t->devices[2].absences_n = 1;
    assert_int_equal(uw_world_open(&t->w, &t->config, &err), UW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "device 2 comes and goes"));
    close_setup(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_a_pull_brings_half_of_what_its_peer_showed_when_the_question_came),
        cmocka_unit_test(test_the_studys_pull_is_a_latency_shorter),
        cmocka_unit_test(test_who_waits_for_a_pull_mixes_before_the_next_step),
        cmocka_unit_test(test_what_is_on_its_way_stays_what_it_was),
        cmocka_unit_test(test_a_slow_network_stretches_rounds_and_no_step),
        cmocka_unit_test(test_peers_are_drawn_as_the_schedule_draws),
        cmocka_unit_test(test_without_steps_rounds_bring_nodes_together),
        cmocka_unit_test(test_a_ring_with_two_pulls_is_a_step_of_d_psgd),
        cmocka_unit_test(test_the_period_can_change_during_a_run),
        cmocka_unit_test(test_all_reduce_takes_the_formulas_time_and_keeps_the_mean),
        cmocka_unit_test(test_outer_momentum_goes_with_the_average),
        cmocka_unit_test(test_a_straggler_holds_up_averages_and_no_gossip),
        cmocka_unit_test(test_who_has_ended_is_not_waited_for),
        cmocka_unit_test(test_time_does_not_overflow),
        cmocka_unit_test(test_cells_average_inside_and_take_half_of_what_a_head_pulls),
        cmocka_unit_test(test_running_statistics_pass_between_cells_as_they_are),
        cmocka_unit_test(test_devices_without_a_cell_are_cells_of_one_that_pull),
        cmocka_unit_test(test_same_seed_same_bits_and_another_seed_other_bits),
        cmocka_unit_test(test_what_the_formulas_do_not_know_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
