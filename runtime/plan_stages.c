/* SPDX-License-Identifier: Apache-2.0
 *
 * Under a budget, layers are cut into stages of about equal size, where little is handed on. Before
 * the backward pass enters a stage, outputs that it needs are computed again. Those that take the
 * least time for the bytes they give back come first: batch norms and activations, then products
 * of short rows. Of all plans within the budget the one that computes the least again is taken. */
#include "plan.h"

#define STAGES_MAX 64u
#define LEVEL_MIN 4.0               /* cost of a float of output that is computed again */
#define LEVEL_MAX 4096.0
#define PRODUCTS_A_FLOAT 8.0        /* multiply-adds in the time that a float takes to be moved */

/* What a cut's place is measured by: memory that the layers before it take, or all their outputs,
 * those written over others too, and four times what they keep beside. Either may give the better
 * plan. */
enum measure { MEMORY, OUTPUTS, MEASURES_N };

/* For every place `at` between two layers: slots[at].bytes, the floats made before and read from
 * there on; slots[at].offset, the measure of the layers before. */
static void weigh_cuts(struct uw_planner *p, enum measure measure)
{
    const struct uw_graph *g = p->g;
    size_t before = 0;
    uint32_t base;

    for (uint32_t at = 0; at < g->layers_n; at++) {
        const struct uw_layer *l = &g->layers[at];
        bool counts = measure == OUTPUTS || (!l->view && !uw_plan_may_share(g, l, &base));
        p->slots[at].bytes = 0;
        p->slots[at].offset = before;
        size_t sample = measure == MEMORY ? uw_size_mul(l->out_n, sizeof(float)) : l->out_n;
        before += counts ? uw_plan_batch_bytes(p, sample) : 0;
        before += uw_plan_aux_bytes(p, l);
        for (uint32_t i = 0; i < at; i++) {
            if (!g->layers[i].view && g->layers[i].last_reader >= at) {
                p->slots[at].bytes += g->layers[i].out_n;
            }
        }
    }
}

/* The place after layer `after` with the least across among those near `target`, or else the
 * nearest; 0: none. A layer that works in place stays with the one before it. */
static uint32_t find_cut(const struct uw_planner *p, uint32_t after, double target, double width)
{
    uint32_t best = 0;
    double best_cost = 0;
    uint32_t base;

    for (uint32_t at = after + 1; at < p->g->layers_n; at++) {
        if (uw_plan_may_share(p->g, &p->g->layers[at], &base)) {
            continue;
        }
        double off = ((double)p->slots[at].offset - target) / width;
        bool near = off > -0.5 && off < 0.5;
        double cost = (near ? 0.0 : 1e30 * off * off) + (double)p->slots[at].bytes;
        if (best == 0 || cost < best_cost) {
            best = at;
            best_cost = cost;
        }
    }
    return best;
}

static void cut_into(struct uw_planner *p, uint32_t stages, enum measure measure)
{
    struct uw_graph *g = p->g;

    weigh_cuts(p, measure);
    double width = (double)p->slots[g->layers_n - 1].offset / stages + 1.0;
    uint32_t stage = 0;
    uint32_t cut = find_cut(p, 0, width, width);
    for (uint32_t i = 0; i < g->layers_n; i++) {
        if (i == cut && i > 0) {
            stage++;
            cut = stage + 1 < stages ? find_cut(p, i, width * (stage + 1), width) : 0;
        }
        g->layers[i].stage = (uint16_t)stage;
    }
}

/* Time of the forward pass for a sample, in floats moved. */
static double cost_of(const struct uw_layer *l)
{
    return (double)l->in_n * l->inputs_n + l->out_n +
           (double)uw_layer_multiply_adds(l) / PRODUCTS_A_FLOAT;
}

/* Keep what costs more than `level` for a float of output. */
static size_t plan_level(struct uw_planner *p, double level)
{
    struct uw_graph *g = p->g;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        l->kept = level <= LEVEL_MAX && cost_of(l) > level * l->out_n;
    }
    return uw_plan_stages(p);
}

static double cost_again(const struct uw_planner *p)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < p->g->layers_n; i++) {
        sum += p->g->layers[i].recomputed ? cost_of(&p->g->layers[i]) : 0.0;
    }
    return sum;
}

static void remember(struct uw_planner *p)
{
    for (uint32_t i = 0; i < p->g->layers_n; i++) {
        struct uw_layer *l = &p->g->layers[i];
        l->best_stage = l->stage;
        l->best_kept = l->kept;
    }
}

/* One by one, keep what may be kept yet, the last layers first. */
static void keep_more(struct uw_planner *p, size_t limit_bytes)
{
    struct uw_graph *g = p->g;

    uw_plan_stages(p);
    for (uint32_t i = g->layers_n; i-- > 0;) {
        struct uw_layer *l = &g->layers[i];
        if (!l->recomputed) {
            continue;
        }
        l->kept = true;
        double before = cost_again(p);
        if (uw_plan_stages(p) > limit_bytes || cost_again(p) > before) {
            l->kept = false;
            uw_plan_stages(p);
        }
    }
}

/* The best plan found so far, as `remember` left it. */
struct search {
    size_t limit_bytes, least_bytes;
    bool met;
    double cost;
};

/* The stages that the layers are in now: nothing kept that need not be, or as much as fits. */
static void try_stages(struct uw_planner *p, struct search *s)
{
    size_t bytes = plan_level(p, 2.0 * LEVEL_MAX);
    if (bytes > s->limit_bytes) {
        if (!s->met && bytes < s->least_bytes) {
            s->least_bytes = bytes;
            remember(p);
        }
        return;
    }
    double level = LEVEL_MIN;
    while (plan_level(p, level) > s->limit_bytes) {
        level *= 2.0;
    }
    double cost = cost_again(p);
    if (!s->met || cost < s->cost) {
        s->met = true;
        s->cost = cost;
        remember(p);
    }
}

size_t uw_plan_within(struct uw_planner *p, size_t limit_bytes)
{
    struct uw_graph *g = p->g;
    uw_graph_undefer(g);
    size_t whole = uw_plan_improve(p, uw_plan_stages(p));
    if (whole <= limit_bytes) {
        return whole;
    }
    struct search s = {.limit_bytes = limit_bytes, .least_bytes = whole};
    remember(p);
    for (uint32_t stages = 2; stages <= g->layers_n && stages <= STAGES_MAX; stages++) {
        for (int measure = MEMORY; measure < MEASURES_N; measure++) {
            cut_into(p, stages, (enum measure)measure);
            try_stages(p, &s);
        }
    }
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].stage = g->layers[i].best_stage;
        g->layers[i].kept = g->layers[i].best_kept;
    }
    if (s.met) {
        keep_more(p, limit_bytes);
    }
    return uw_plan_improve(p, uw_plan_stages(p));
}
