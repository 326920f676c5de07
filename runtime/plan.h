/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - the parts of the memory planner (private)
 *
 * plan.c finds lifetimes and offsets for layers that are in given stages; plan_stages.c chooses
 * the stages, and what of a stage is computed again rather than kept.
 */
#ifndef UWASA_PLAN_H
#define UWASA_PLAN_H

#include "graph.h"

struct uw_planner {
    struct uw_graph *g;
    uint32_t batch_n;
    bool training;
    struct uw_slot *slots;
    uint32_t *priority, *placed;    /* [UW_SLOTS_N] each */
};

/* Plan with the stages that the layers are in now, and without recomputing layers that are `kept`.
 * Returns the bytes, SIZE_MAX if they overflow. */
size_t uw_plan_stages(struct uw_planner *p);

/* Try other orders of placement on what uw_plan_stages made; bytes is what that returned. Returns
 * the bytes, as many or fewer. */
size_t uw_plan_improve(struct uw_planner *p, size_t bytes);

/* Choose stages. */
struct uw_budgeting {
    /* Compute again what is needed to stay within limit_bytes, which the plan of one stage does
     * not. Returns the bytes; above the limit: the least that was found. */
    size_t (*plan_within)(struct uw_planner *p, size_t limit_bytes);
    /* Set `recomputed` in the layers whose backward pass needs something that is computed again
     * rather than kept: of every stage but the last, what no later stage reads. */
    void (*find_recomputed)(struct uw_planner *p);
    /* Run the layers of one stage that are recomputed, before the backward pass enters it. */
    int (*recompute)(struct uw_model *m, uint32_t stage, const float *x, const struct uw_pass *p);
};
size_t uw_plan_within(struct uw_planner *p, size_t limit_bytes);

/* Bytes of a minibatch, and of what layer l keeps beside its output. */
size_t uw_plan_batch_bytes(const struct uw_planner *p, size_t sample_bytes);
size_t uw_plan_aux_bytes(const struct uw_planner *p, const struct uw_layer *l);

/* Could layer l write its output over its input? base: the value that it would write over. */
bool uw_plan_may_share(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base);

/* Does it in the plan? Not from one stage into another: the input is needed to compute the output
 * again. */
bool uw_plan_shares(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base);

/* Does layer l read the value, in its backward pass? */
bool uw_plan_reads(const struct uw_graph *g, const struct uw_layer *l, uint32_t value,
                   bool in_backward);

#endif
