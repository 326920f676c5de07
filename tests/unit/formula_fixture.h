/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_fixture.h - nodes of the formula network with small vectors in the place of models */
#ifndef UWASA_TEST_FORMULA_FIXTURE_H
#define UWASA_TEST_FORMULA_FIXTURE_H

#include "test_support.h"

#include "uwasa/sim_world.h"

#include <math.h>

#define SIZE_N 5u
#define STEP_US 1000u
#define NODES_MAX 64u

static inline void assert_close(double got, double want, double slack)
{
    if (!(fabs(got - want) <= slack)) {
        fail_msg("%.9g, not %.9g", got, want);
    }
}

static struct uw_segment segment = {.name = "w", .size_n = SIZE_N};
static float first[SIZE_N];
static const struct uw_params params = {
    .x = first, .size_n = SIZE_N, .segments = &segment, .segments_n = 1, .hash = 7};

struct setup {
    struct uw_sim_device devices[NODES_MAX];
    struct uw_sim_cell cells[NODES_MAX];
    struct uw_sim_fleet fleet;
    struct uw_world_config config;
    struct uw_world w;
};

/* n devices at 8 Mbit/s, 500 us to the middle; a model of 1000 bytes takes 1 ms. */
static inline struct setup *setup_of(uint32_t n, enum uw_node_mode mode,
                                     const struct uw_mix_rule *rule)
{
    struct setup *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (uint32_t i = 0; i < n; i++) {
        t->devices[i] = (struct uw_sim_device){.up_bits_per_s = 8000000,
                                               .down_bits_per_s = 8000000, .latency_us = 500,
                                               .step_us = STEP_US, .cell = UW_SIM_NO_CELL};
    }
    t->fleet = (struct uw_sim_fleet){.devices = t->devices, .devices_n = n, .cells = t->cells};
    t->config = (struct uw_world_config){
        .network = UW_WORLD_FORMULA, .fleet = &t->fleet, .params = &params, .model_bytes = 1000,
        .node = {.mode = mode, .rule = rule, .period_steps = 3, .seed = 1}};
    return t;
}

static inline void open_setup(struct setup *t)
{
    struct uw_error err = {.text = ""};
    if (uw_world_open(&t->w, &t->config, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uw_world_meet(&t->w, 0), UW_OK);
}

static inline void close_setup(struct setup *t)
{
    uw_world_close(&t->w);
    uw_world_close(&t->w);
    free(t);
}

/* Since training began. */
static inline uint64_t now_us(const struct setup *t)
{
    return t->w.now_us - t->w.start_us;
}

static inline struct uw_node_counters counted(const struct setup *t)
{
    return uw_world_counters(&t->w);
}

/* The next end of a step or an average. A step adds `add` to every element. */
static inline int go_on(struct setup *t, float add, struct uw_world_node **who)
{
    struct uw_world_node *n = uw_world_next(&t->w);
    assert_non_null(n);
    for (uint32_t k = 0; !n->waits && k < SIZE_N; k++) {
        n->x[k] += add;
    }
    const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f};
    *who = n;
    return uw_world_trained(&t->w, n, &p, 0);
}

/* Every node does so many steps, node i's adding i + 1. */
static inline void train(struct setup *t, uint32_t steps)
{
    uint32_t done[NODES_MAX] = {0};
    struct uw_world_node *n;
    while ((n = uw_world_next(&t->w)) != NULL) {
        const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f};
        for (uint32_t k = 0; !n->waits && k < SIZE_N; k++) {
            n->x[k] += (float)(n->place + 1u);
        }
        done[n->place] += !n->waits;
        assert_true(uw_world_trained(&t->w, n, &p, 0) >= 0);
        if (done[n->place] == steps && !n->waits) {
            n->train_at_us = UINT64_MAX;
        }
    }
    for (uint32_t i = 0; i < t->fleet.devices_n; i++) {
        assert_int_equal(done[i], steps);
    }
}

#endif
