/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/layer_shared.h"

#include "graph.h"

#include <math.h>

/* Whether the value has one reader, which is a layer and not a loss. */
static bool is_read_once(const struct uw_graph *g, uint32_t value)
{
    uint32_t base = uw_graph_base(g->layers, value), n = 0;
    if (base == UW_VALUE_INPUT || uw_graph_is_head(g, &g->layers[base - 1])) {
        return false;
    }
    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        for (uint32_t k = 0; k < l->inputs_n && !l->view; k++) {
            n += uw_graph_base(g->layers, l->input[k]) == base ? 1 : 0;
        }
    }
    return n == 1;
}

/* A sum can overwrite its first input, and share its gradient, if it is the only reader. So swap
 * the inputs where only the second has no other reader; the result is the same. */
static void order_addends(struct uw_graph *g)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        bool alike = l->ops == uw_parts.layer[UW_LAYER_ADD];    /* else one of them is repeated */
        if (alike && l->inputs_n == 2 && !is_read_once(g, l->input[0]) &&
            is_read_once(g, l->input[1])) {
            uint16_t first = l->input[0];
            l->input[0] = l->input[1];
            l->input[1] = first;
        }
    }
}

static void fold_relus(struct uw_graph *g, const struct uw_kernels *k)
{
    for (uint32_t i = 1; i < g->layers_n; i++) {
        struct uw_layer *relu = &g->layers[i];
        bool six = relu->def->kind == UW_LAYER_RELU6;
        if (relu->view || (!six && relu->def->kind != UW_LAYER_RELU) ||
            relu->input[0] == UW_VALUE_INPUT) {
            continue;
        }
        struct uw_layer *front = &g->layers[relu->input[0] - 1];
        if (front->ops->take_relu_behind != NULL && front->consumers_n == 1 &&
            !uw_graph_is_head(g, front) &&
            front->ops->take_relu_behind(front, k, six ? 6.0f : INFINITY)) {
            relu->view = true;
            relu->reads_y = false;
        }
    }
    order_addends(g);
}

/* The norm's statistics are kept until its own backward pass, which follows its reader's. */
static bool may_defer(const struct uw_graph *g, const struct uw_layer *norm)
{
    return norm->def->kind == UW_LAYER_BATCHNORM && norm->readers_n == 1 &&
           norm->last_reader < g->layers_n && norm->needs_gradient &&
           uw_graph_base(g->layers, norm->input[0]) != UW_VALUE_INPUT;
}

static void defer(struct uw_graph *g, const struct uw_kernels *k, uint32_t batch_n)
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

static const struct uw_conv2d *geometry(const struct uw_layer *l, struct uw_normed_conv2d *c)
{
    c->norm = uw_deferred_norm(l - (l->index - (l->normed_by - 1u)));
    c->conv2d = l->geometry.conv2d;
    c->conv2d.normed = true;
    return &c->conv2d;
}

const struct uw_fusing uw_fusing = {.fold_relus = fold_relus, .defer = defer,
                                   .geometry = geometry};
