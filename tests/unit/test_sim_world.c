/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's clock and network, with vectors in the place of models. */
#include "uwasa/sim_world.h"
#include "even_fleet.h"
#include "test_support.h"

#define SIZE_N 5000u

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};

static void open_world(struct uw_world *w, const struct uw_world_config *config)
{
    struct uw_error err = {.text = ""};
    if (uw_world_open(w, config, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void open_and_meet(struct uw_world *w, const struct uw_world_config *config)
{
    open_world(w, config);
    assert_int_equal(uw_world_meet(w, 60000000u), UW_OK);
}

/* Run a world for so many steps of each node; every node's step adds to its own vector. Returns
 * the virtual time and, in sum, a figure that depends on every bit of every node. */
static uint64_t run(const struct uw_world_config *config, uint32_t steps, double *sum,
                    struct uw_node_counters *counters, uint64_t *sent_bytes)
{
    struct uw_world w;
    struct uw_world_node *n;
    uint32_t done[16] = {0};
    open_world(&w, config);
    uint32_t nodes = config->fleet->devices_n;
    for (uint32_t i = 0; i < nodes; i++) {
        for (uint32_t k = 0; k < SIZE_N; k++) {
            w.nodes[i].x[k] = (float)(i + 1u);
        }
    }
    assert_int_equal(uw_world_meet(&w, 60000000u), UW_OK);
    assert_int_equal(uw_world_sent_bytes(&w), 0);
    uint64_t before_us = w.now_us;
    while ((n = uw_world_next(&w)) != NULL) {
        assert_true(w.now_us >= before_us);
        before_us = w.now_us;
        done[n->place]++;
        assert_int_equal(w.now_us, w.start_us + done[n->place] * config->fleet->devices[0].step_us);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            n->x[k] += 1e-3f * (float)(n->place + k % 7u);
        }
        const struct uw_node_progress p = {.step = done[n->place], .lr = 0.1f};
        assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        n->train_at_us = done[n->place] == steps ? UINT64_MAX : n->train_at_us;
    }
    *sum = 0.0;
    for (uint32_t i = 0; i < nodes; i++) {
        assert_int_equal(done[i], steps);
        for (uint32_t k = 0; k < SIZE_N; k++) {
            *sum += (double)w.nodes[i].x[k] * (1.0 + 1e-3 * i + 1e-7 * k);
        }
    }
    *counters = uw_world_counters(&w);
    *sent_bytes = uw_world_sent_bytes(&w);
    uint64_t took_us = w.now_us - w.start_us;
    uw_world_close(&w);
    uw_world_close(&w);
    return took_us;
}

static struct uw_world_config config_of(float *x)
{
    static struct uw_params params;
    static struct uw_sim_device devices[6];
    static struct uw_sim_fleet fleet;
    for (uint32_t i = 0; i < 6u; i++) {
        devices[i] = (struct uw_sim_device){.up_bits_per_s = 100000000, .latency_us = 500,
                                            .step_us = 5000, .cell = UW_SIM_NO_CELL};
    }
    fleet = (struct uw_sim_fleet){.devices = devices, .devices_n = 6};
    memset(x, 0, SIZE_N * sizeof *x);
    params = (struct uw_params){
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    return (struct uw_world_config){.fleet = &fleet,
                                    .params = &params,
                                    .node = {.run = "sim", .rule = &uw_mix_qg, .period_steps = 4,
                                             .seed = 1},
                                    .mtu_bytes = 4096};
}

static void set_rate(const struct uw_world_config *c, uint64_t bits_per_s)
{
    for (uint32_t i = 0; i < c->fleet->devices_n; i++) {
        c->fleet->devices[i].up_bits_per_s = bits_per_s;
    }
}

static void test_same_seed_same_bits_and_another_seed_other_bits(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_node_counters counters;
    double first, again, other;
    uint64_t sent, sent_again;
    uint64_t took_us = run(&c, 40, &first, &counters, &sent);
    assert_int_equal(took_us, 40u * 5000u);
    assert_int_equal(run(&c, 40, &again, &counters, &sent_again), took_us);
    assert_true(first == again && sent == sent_again);
    c.node.seed = 2;
    (void)run(&c, 40, &other, &counters, &sent);
    assert_true(first != other);
    uw_test_release(x);
}

/* Every round of every node pulls one model, and little beside it. */
static void test_a_round_costs_a_model(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_node_counters counters;
    double sum;
    uint64_t sent;
    (void)run(&c, 80, &sum, &counters, &sent);
    double models = (double)sent / (SIZE_N * sizeof(float));
    assert_int_equal(counters.pulls_cut, 0);
    assert_true(counters.pulls_done >= 6u * 19u && counters.pulls_done <= 6u * 21u);
    assert_true(models > 0.95 * 6.0 * 20.0 && models < 1.10 * 6.0 * 20.0);
    uw_test_release(x);
}

/* A network too slow for the period stretches the rounds, not the steps: a model of 160000 bits
 * takes 40 ms at 4 Mbit/s when one peer at a time asks, and there are 4 steps of 5 ms. */
static void test_a_slow_network_makes_fewer_rounds(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_node_counters quick, slow;
    double sum;
    uint64_t sent;
    assert_int_equal(run(&c, 80, &sum, &quick, &sent), 80u * 5000u);
    set_rate(&c, 4000000);
    assert_int_equal(run(&c, 80, &sum, &slow, &sent), 80u * 5000u);
    assert_true(slow.pulls_done < quick.pulls_done * 6u / 10u);
    assert_true((double)sent * 8.0 <= 6.0 * 4e6 * (80.0 * 0.005 + 0.2));
    uw_test_release(x);
}

/* A node that waits for an average does no step, goes on as soon as it is there, and all have the
 * same parameters then. */
static void test_averages_hold_up_the_steps_and_leave_one_model(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    struct uw_world_node *n;
    uint32_t done[6] = {0}, averages = 0;
    c.node.mode = UW_NODE_ALLREDUCE;
    c.node.rule = &uw_mix_slowmo;       /* needs the spare vector */
    open_and_meet(&w, &c);
    while ((n = uw_world_next(&w)) != NULL) {
        bool waited = n->waits;
        struct uw_node_progress p = {.lr = waited ? 0.0f : 0.1f};
        p.step = done[n->place] += !waited;
        for (uint32_t k = 0; !waited && k < SIZE_N; k++) {
            n->x[k] += (float)n->place;
        }
        int flags = uw_world_trained(&w, n, &p, 0);
        assert_true(flags >= 0);
        averages += (flags & UW_NODE_ROUND) != 0;
        if (done[n->place] == 12u && !n->waits) {
            n->train_at_us = UINT64_MAX;
        }
    }
    assert_int_equal(averages, 6u * 3u);
    assert_int_equal(uw_world_counters(&w).averages_done, 6u * 3u);
    for (uint32_t i = 0; i < 6u; i++) {
        assert_int_equal(done[i], 12);
        assert_memory_equal(w.nodes[i].x, w.nodes[0].x, SIZE_N * sizeof(float));
    }
    /* Rounds move the mean by d = 10, 10, 10; with momentum 0.5 by 10, 15, 17.5. */
    assert_float_equal(w.nodes[0].x[7], 42.5f, 1e-3);
    uint64_t took_us = w.now_us - w.start_us;
    assert_true(took_us > 12u * 5000u + 3u * 2000u && took_us < 2u * 12u * 5000u);
    uw_world_close(&w);
    uw_test_release(x);
}

/* Train to the end; node i's steps are counted in done[i], its restarts tell it to start anew.
 * Returns what a node had that was restarted, ten steps later. */
static float train(struct uw_world *w, uint32_t steps, uint32_t *done)
{
    struct uw_world_node *n;
    float then = 0.0f;
    while ((n = uw_world_next(w)) != NULL) {
        assert_true(!n->restarted || n->waits);
        done[n->place] = n->restarted ? 0 : done[n->place] + !n->waits;
        for (uint32_t k = 0; !n->waits && k < SIZE_N; k++) {
            n->x[k] += 1.0f;
        }
        const struct uw_node_progress p = {.step = done[n->place], .lr = n->waits ? 0.0f : 0.1f};
        assert_true(uw_world_trained(w, n, &p, 0) >= 0);
        n->train_at_us = done[n->place] == steps ? UINT64_MAX : n->train_at_us;
        then = n->restarts != 0 && done[n->place] == 10u ? n->x[0] : then;
    }
    return then;
}

/* Each device's steps take what it says; the slow one is done later. */
static void test_every_device_has_its_own_pace(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    uint32_t done[6] = {0};
    c.fleet->devices[2].step_us = 50000;
    open_and_meet(&w, &c);
    uint64_t last_us[6];
    struct uw_world_node *n;
    while ((n = uw_world_next(&w)) != NULL) {
        const struct uw_node_progress p = {.step = ++done[n->place], .lr = 0.1f};
        last_us[n->place] = w.now_us - w.start_us;
        assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        n->train_at_us = done[n->place] == 40u ? UINT64_MAX : n->train_at_us;
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(last_us[i], i == 2 ? 40u * 50000u : 40u * 5000u);
    }
    uw_world_close(&w);
    uw_test_release(x);
}

/* Away for half a minute in the middle of a step: the rest of the step follows, the others have
 * noticed and go on, and afterwards all of it is as before. */
static void test_an_absence_stretches_a_step_and_the_others_go_on(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    struct uw_node_member rows[6];
    struct uw_world_node *n;
    uint32_t done[6] = {0};
    static const struct uw_sim_absence away = {.from_us = 502500, .to_us = 30502500};
    c.fleet->devices[3].absences = &away;
    c.fleet->devices[3].absences_n = 1;
    open_and_meet(&w, &c);
    bool noticed = false;
    while ((n = uw_world_next(&w)) != NULL) {
        const struct uw_node_progress p = {.step = ++done[n->place], .lr = 0.1f};
        uint64_t at_us = w.now_us - w.start_us;
        assert_true(n->place != 3 || at_us <= away.from_us || at_us > away.to_us);
        if (n->place == 3) {
            uint64_t late_us = at_us > away.from_us ? away.to_us - away.from_us : 0;
            assert_int_equal(at_us, done[3] * 5000u + late_us);
        }
        if (n->place == 0 && at_us == 20000000u) {
            assert_int_equal(uw_node_status(&n->node, w.now_us, rows, 6, NULL), 6);
            for (uint32_t i = 1; i < 6; i++) {
                bool gone = strcmp(rows[i].name, "node3") == 0;
                assert_int_equal(rows[i].state, gone ? UW_MEMBER_DEAD : UW_MEMBER_ALIVE);
                noticed = noticed || gone;
            }
        }
        assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
        n->train_at_us = done[n->place] == 8000u ? UINT64_MAX : n->train_at_us;
    }
    assert_true(noticed);
    assert_int_equal(uw_node_status(&w.nodes[0].node, w.now_us, rows, 6, NULL), 6);
    for (uint32_t i = 1; i < 6; i++) {
        assert_int_equal(rows[i].state, UW_MEMBER_ALIVE);
        assert_int_equal(rows[i].incarnation, 1);
    }
    uw_world_close(&w);
    uw_test_release(x);
}

/* Who forgets returns as a newcomer: handed out once, then with somebody's model in place of its
 * own, under a higher incarnation. */
static void test_who_forgets_takes_over_a_model(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    struct uw_node_member rows[6];
    uint32_t done[6] = {0};
    static const struct uw_sim_absence away[] = {
        {.from_us = 2000000, .to_us = 4000000, .forgets = true},
        {.from_us = 4000000, .to_us = 5001000, .forgets = true}};
    c.node.rule = &uw_mix_none;
    c.fleet->devices[3].absences = away;
    c.fleet->devices[3].absences_n = 2;
    open_and_meet(&w, &c);
    float then = train(&w, 2000, done);
    assert_int_equal(w.nodes[3].restarts, 2);
    assert_false(w.nodes[3].restarted);
    assert_int_equal(uw_node_status(&w.nodes[0].node, w.now_us, rows, 6, NULL), 6);
    for (uint32_t i = 1; i < 6; i++) {
        assert_int_equal(rows[i].incarnation, strcmp(rows[i].name, "node3") == 0 ? 3 : 1);
    }
    /* It did 2000 steps after it came back for the second time ... */
    uint64_t took_us = w.now_us - w.start_us;
    assert_true(took_us > 5001000u + 2000u * 5000u && took_us < 5001000u + 2010u * 5000u);
    /* ... and began where the others were, not at 0. */
    assert_true(then > 600.0f);
    /* Who has ended shows nothing new: the last of it trained almost alone. */
    assert_true(uw_world_counters(&w).pulls_done > 6u * 430u);
    assert_true(uw_world_counters(&w).pulls_stale > 0);
    uw_world_close(&w);
    uw_test_release(x);
}

/* A node that knows some of the others, and memory as announced. */
static void test_a_table_may_be_smaller_than_the_run(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_sim_fleet fleet;
    struct uw_world w;
    struct uw_error err = {.text = ""};
    static uint32_t done[200];
    const struct even_fleet even = {.devices_n = 200, .up_bits_per_s = 100000000,
                                    .latency_us = 1000, .step_us = 5000};
    even_fleet_open(&fleet, &even);
    c.fleet = &fleet;
    size_t all = uw_world_measure(&c, &err);
    c.members_max = 10;
    size_t some = uw_world_measure(&c, &err);
    assert_true(some < all && some > 200u * 3u * SIZE_N * sizeof(float));
    c.members_max = 0;
    open_world(&w, &c);
    assert_int_equal(w.config.members_max, 32);
    assert_int_equal(uw_world_meet(&w, 60000000u), UW_OK);
    (void)train(&w, 20, done);
    assert_true(uw_world_counters(&w).pulls_done >= 200u * 4u);
    assert_int_equal(uw_world_counters(&w).pulls_cut, 0);
    uw_world_close(&w);
    c.node.schedule = uw_peer_schedule_find("hypercube");   /* needs all to see the same */
    c.fleet = &fleet;
    fleet.devices_n = 70;
    open_world(&w, &c);
    assert_int_equal(w.config.members_max, 70);
    uw_world_close(&w);
    even_fleet_close(&fleet);
    uw_test_release(x);
}

static void test_what_cannot_be_a_world_is_said(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    struct uw_error err = {.text = ""};
    struct uw_sim_fleet many = {.devices = c.fleet->devices, .devices_n = 65535};
    const struct uw_sim_fleet *few = c.fleet;
    c.fleet = &many;
    many.devices = calloc(many.devices_n, sizeof *many.devices);
    assert_int_equal(uw_world_open(&w, &c, &err), UW_ERR_TOOBIG);
    assert_non_null(strstr(err.text, "65535 nodes"));
    uw_world_close(&w);
    free(many.devices);
    err.text[0] = '\0';
    c.fleet = few;
    c.mtu_bytes = 40;
    assert_true(uw_world_open(&w, &c, &err) < 0);
    assert_non_null(strstr(err.text, "40 bytes"));
    uw_world_close(&w);
    c = config_of(x);
    set_rate(&c, 100);              /* a ping takes seconds */
    open_world(&w, &c);
    assert_int_equal(uw_world_meet(&w, 5000000), UW_ERR_AGAIN);
    uw_world_close(&w);
    uw_test_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_bits_and_another_seed_other_bits),
        cmocka_unit_test(test_a_round_costs_a_model),
        cmocka_unit_test(test_a_slow_network_makes_fewer_rounds),
        cmocka_unit_test(test_averages_hold_up_the_steps_and_leave_one_model),
        cmocka_unit_test(test_every_device_has_its_own_pace),
        cmocka_unit_test(test_an_absence_stretches_a_step_and_the_others_go_on),
        cmocka_unit_test(test_who_forgets_takes_over_a_model),
        cmocka_unit_test(test_a_table_may_be_smaller_than_the_run),
        cmocka_unit_test(test_what_cannot_be_a_world_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
