/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's clock and network, with vectors in the place of models. */
#include "uwasa/sim_world.h"
#include "test_support.h"

#define SIZE_N 5000u

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};

/* Run a world for so many steps of each node; every node's step adds to its own vector. Returns
 * the virtual time and, in sum, a figure that depends on every bit of every node. */
static uint64_t run(const struct uw_world_config *config, uint32_t steps, double *sum,
                    struct uw_node_counters *counters, uint64_t *sent_bytes)
{
    struct uw_world w;
    struct uw_error err = {.text = ""};
    struct uw_world_node *n;
    uint32_t done[16] = {0};
    if (uw_world_open(&w, config, &err) < 0) {
        fail_msg("%s", err.text);
    }
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
    struct uw_error err = {.text = ""};
    struct uw_world_node *n;
    uint32_t done[6] = {0}, averages = 0;
    c.node.mode = UW_NODE_ALLREDUCE;
    c.node.rule = &uw_mix_slowmo;       /* needs the spare vector */
    assert_int_equal(uw_world_open(&w, &c, &err), UW_OK);
    assert_int_equal(uw_world_meet(&w, 60000000u), UW_OK);
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

static void test_what_cannot_be_a_world_is_said(void **state)
{
    (void)state;
    float *x = uw_test_floats(SIZE_N);
    struct uw_world_config c = config_of(x);
    struct uw_world w;
    struct uw_error err = {.text = ""};
    c.mtu_bytes = 40;
    assert_true(uw_world_open(&w, &c, &err) < 0);
    assert_non_null(strstr(err.text, "40 bytes"));
    uw_world_close(&w);
    c = config_of(x);
    set_rate(&c, 100);              /* a ping takes seconds */
    assert_int_equal(uw_world_open(&w, &c, &err), UW_OK);
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
        cmocka_unit_test(test_what_cannot_be_a_world_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
