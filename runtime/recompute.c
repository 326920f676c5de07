/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations that are computed again in the backward pass: which, and when. plan_stages.c chooses
 * the stages. */
#include "plan.h"
#include "step.h"

#include "uwasa/parts.h"

/* Layers whose backward pass needs something that is computed again rather than kept: of every
 * stage but the last, what no later stage reads. */
static void find_recomputed(struct uw_planner *p)
{
    struct uw_graph *g = p->g;
    uint32_t stages = g->layers[g->layers_n - 1].stage, base;

    for (uint32_t i = g->layers_n; i-- > 0;) {
        struct uw_layer *l = &g->layers[i];
        bool kept = l->kept || l->last_reader == g->layers_n;
        bool aux = uw_plan_aux_bytes(p, l) > 0 && !l->ops->again_reads_aux;
        bool needed = l->needs_gradient && (l->reads_y || aux);
        l->recomputed = false;
        if (uw_plan_shares(g, l, &base)) { /* one piece of memory, one fate */
            g->layers[base - 1].kept = l->kept;
        }
        if (!p->training || l->view || l->stage == stages) {
            continue;
        }
        for (uint32_t r = i + 1; r < g->layers_n; r++) {
            const struct uw_layer *reader = &g->layers[r];
            if (uw_plan_reads(g, reader, i + 1, false)) {
                kept = kept || reader->stage != l->stage;
                needed = needed || reader->recomputed || uw_plan_reads(g, reader, i + 1, true);
            }
        }
        l->recomputed = needed && !kept;
    }
}

/* The layers of one stage that are recomputed, before the backward pass enters it. */
static int recompute(struct uw_model *m, uint32_t stage, const float *x, const struct uw_pass *p)
{
    struct uw_pass again = *p;
    int rc = UW_OK;

    again.again = true;
    for (uint32_t i = 0; i < m->layers_n && rc == UW_OK; i++) {
        struct uw_layer *l = &m->layers[i];
        if (l->stage == stage && l->recomputed) {
            l->y = l->y_at[1];
            l->aux = l->ops->again_reads_aux ? l->aux : l->aux_at[1];
            rc = uw_step_layer(m, l, x, &again);
        }
    }
    return rc;
}

const struct uw_budgeting uw_budgeting = {
    .plan_within = uw_plan_within,
    .find_recomputed = find_recomputed,
    .recompute = recompute,
};
