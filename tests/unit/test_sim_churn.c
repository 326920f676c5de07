/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages while nodes come and go, with vectors in the place of models: 16 nodes that are up
 * for 20 s and away for 10 s, on average, and average every ten steps of 0.1 s. */
#include "uwasa/sim_scenario.h"
#include "uwasa/sim_world.h"
#include "test_support.h"

#define SIZE_N 20000u
#define NODES 16u
#define SECONDS 300u
#define SEEDS 3u

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};

struct outcome {
    double goodput;                 /* time of all steps, divided by the time of presence */
    double rounds;                  /* averages of a node */
    uint64_t idle_us;               /* longest time of presence without a step of a node */
};

static void draw(struct uw_sim_draw *d, struct uw_sim_scenario *s, uint32_t cell_nodes)
{
    static struct uw_sim_group group;
    struct uw_error err = {.text = ""};
    group = (struct uw_sim_group){
        .count = NODES, .up = {.a = 1e9}, .one_rate = true, .latency = {.a = 0.005},
        .step = UW_SIM_STEP_SECONDS, .seconds = {.a = 0.1}, .speed = {.a = 1.0},
        .there = {.kind = UW_SIM_CHURN, .up = 20.0, .down = 10.0}};
    s->groups = &group;
    s->groups_n = 1;
    s->cells = (struct uw_sim_cells){.nodes = cell_nodes};
    if (uw_sim_draw_open(d, s, &(struct uw_sim_cost){.measured_us = 1}, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static double present_us(const struct uw_sim_draw *d, uint32_t i, uint64_t until_us)
{
    return (double)until_us * uw_sim_draw_there(d, i, until_us);
}

static struct outcome run(enum uw_node_mode mode, const struct uw_mix_rule *rule, uint64_t seed)
{
    float *x = uw_test_floats(SIZE_N);
    struct uw_sim_scenario scenario = {.seed = seed};
    struct uw_sim_draw d;
    draw(&d, &scenario, mode == UW_NODE_HIERARCHICAL ? 4u : 0);
    memset(x, 0, SIZE_N * sizeof *x);
    struct uw_params params = {
        .x = x, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};
    const struct uw_world_config config = {
        .fleet = &d.fleet, .params = &params, .mtu_bytes = 4096,
        .node = {.run = "sim", .rule = rule, .mode = mode, .period_steps = 10, .seed = seed}};
    struct uw_world w;
    struct uw_error err = {.text = ""};
    uint32_t steps[NODES] = {0};
    uint64_t last_us[NODES] = {0};
    struct outcome o = {.goodput = 0.0};
    if (uw_world_open(&w, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uw_world_meet(&w, 60000000u), UW_OK);
    struct uw_world_node *n;
    while ((n = uw_world_next(&w)) != NULL && w.now_us < w.start_us + SECONDS * 1000000u) {
        uint64_t now_us = w.now_us - w.start_us;
        bool trained = !n->waits;
        if (trained) {
            double idle_us = present_us(&d, n->place, now_us) -
                             present_us(&d, n->place, last_us[n->place]);
            o.idle_us = idle_us > (double)o.idle_us ? (uint64_t)idle_us : o.idle_us;
            last_us[n->place] = now_us;
            steps[n->place]++;
            n->x[steps[n->place] % SIZE_N] += 0.01f * (float)n->place;
        }
        const struct uw_node_progress p = {.step = steps[n->place], .lr = trained ? 0.1f : 0.0f};
        assert_true(uw_world_trained(&w, n, &p, 0) >= 0);
    }
    double present = 0.0, trained = 0.0;
    for (uint32_t i = 0; i < NODES; i++) {
        present += present_us(&d, i, SECONDS * 1000000u);
        trained += 100000.0 * steps[i];
    }
    o.goodput = trained / present;
    o.rounds = (double)uw_world_counters(&w).averages_done / NODES;
    print_message("seed=%u: goodput %.1f %%, %.1f averages of a node, longest wait %.2f s\n",
                  (unsigned)seed, 100.0 * o.goodput, o.rounds, 1e-6 * (double)o.idle_us);
    uw_world_close(&w);
    uw_sim_draw_close(&d);
    uw_test_release(x);
    return o;
}

static void check(enum uw_node_mode mode, const struct uw_mix_rule *rule, double least,
                  double rounds)
{
    double goodput = 0.0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct outcome o = run(mode, rule, seed);
        assert_true(o.rounds > rounds);
        goodput += o.goodput / SEEDS;
    }
    assert_true(goodput >= least);
}

/* 86.8 % were measured; fewer averages, 29 of a node instead of 83, would give 90 %. */
static void test_all_reduce_keeps_nodes_at_work(void **state)
{
    (void)state;
    check(UW_NODE_ALLREDUCE, &uw_mix_none, 0.85, 60.0);
}

static void test_cells_keep_nodes_at_work(void **state)
{
    (void)state;
    check(UW_NODE_HIERARCHICAL, &uw_mix_qg, 0.93, 100.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce_keeps_nodes_at_work),
        cmocka_unit_test(test_cells_keep_nodes_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
