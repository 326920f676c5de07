/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

/* Its statistics are kept until the backward pass comes to it: after its reader's. */
static bool may_defer(const struct uw_graph *g, const struct uw_layer *norm)
{
    return norm->def->kind == UW_LAYER_BATCHNORM && norm->readers_n == 1 &&
           norm->last_reader < g->layers_n && norm->needs_gradient &&
           uw_graph_base(g->layers, norm->input[0]) != UW_VALUE_INPUT;
}

void uw_graph_defer(struct uw_graph *g, const struct uw_kernels *k, uint32_t batch_n)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        uint32_t base = uw_graph_base(g->layers, l->input[0]);
        if (l->ops->takes_norm != NULL && base != UW_VALUE_INPUT &&
            may_defer(g, &g->layers[base - 1]) && l->ops->takes_norm(l, k, batch_n)) {
            l->normed_by = (uint16_t)base;
            g->layers[base - 1].deferred = true;
        }
    }
}

void uw_graph_undefer(struct uw_graph *g)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].deferred = false;
        g->layers[i].normed_by = 0;
    }
}
