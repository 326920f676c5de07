/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_fixture.h - nodes of the formula network with small vectors in the place of models */
#ifndef UWASA_TEST_FORMULA_FIXTURE_H
#define UWASA_TEST_FORMULA_FIXTURE_H

#include "test_support.h"
#include "formula/formula.h"

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
    struct uw_formula_config config;
    struct uw_formula f;
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
    t->config = (struct uw_formula_config){.fleet = &t->fleet, .params = &params, .mode = mode,
                                           .rule = rule, .period_steps = 3, .seed = 1,
                                           .model_bytes = 1000};
    return t;
}

static inline void open_setup(struct setup *t)
{
    struct uw_error err = {.text = ""};
    if (uw_formula_open(&t->f, &t->config, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static inline void close_setup(struct setup *t)
{
    uw_formula_close(&t->f);
    uw_formula_close(&t->f);
    free(t);
}

/* The next end of a step or an average. A step adds `add` to every element. */
static inline int go_on(struct setup *t, float add, struct uw_formula_node **who)
{
    struct uw_formula_node *n = uw_formula_next(&t->f);
    assert_non_null(n);
    for (uint32_t k = 0; !n->waits && k < SIZE_N; k++) {
        n->x[k] += add;
    }
    const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f};
    *who = n;
    return uw_formula_trained(&t->f, n, &p, 0);
}

/* Every node does so many steps, node i's adding i + 1. */
static inline void train(struct setup *t, uint32_t steps)
{
    uint32_t done[NODES_MAX] = {0};
    struct uw_formula_node *n;
    while ((n = uw_formula_next(&t->f)) != NULL) {
        const struct uw_node_progress p = {.lr = n->waits ? 0.0f : 0.5f};
        for (uint32_t k = 0; !n->waits && k < SIZE_N; k++) {
            n->x[k] += (float)(n->place + 1u);
        }
        done[n->place] += !n->waits;
        assert_true(uw_formula_trained(&t->f, n, &p, 0) >= 0);
        if (done[n->place] == steps && !n->waits) {
            n->train_at_us = UINT64_MAX;
        }
    }
    for (uint32_t i = 0; i < t->fleet.devices_n; i++) {
        assert_int_equal(done[i], steps);
    }
}

#endif
