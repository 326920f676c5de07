/* SPDX-License-Identifier: Apache-2.0
 *
 * RelaySum over a tree. A node pulls from its neighbours in turn, and mixes after the last of them:
 *
 *     x += 1/K sum over neighbours j of (m_j - c_j s)
 *
 * with s its own model as it was published, K the number of all nodes, m_j the sum of models that j
 * has sent and c_j their number. A node of which no model has come yet counts as one with s. */
#include "formula_priv.h"

#include <stdlib.h>

static struct uw_formula_edge *edge_of(const struct uw_formula *f, const struct uw_formula_node *n,
                                       uint32_t k)
{
    return &f->edges[n->first_edge + k];
}

int uw_formula_relay_open(struct uw_formula *f)
{
    float none;
    f->edges = calloc(2u * f->nodes_n, sizeof *f->edges);
    if (f->edges == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0, at = 0; i < f->nodes_n; i++) {
        struct uw_formula_node *n = &f->nodes[i];
        n->degree = uw_formula_degree(f, n);
        n->first_edge = at;
        for (uint32_t k = 0; k < n->degree; k++) {
            if (at == 2u * (f->nodes_n - 1u)) {
                return UW_ERR_INVALID;
            }
            n->round = k;
            f->edges[at++] = (struct uw_formula_edge){uw_formula_pick(f, n, &none), NONE, 0};
        }
        n->round = 0;
    }
    return UW_OK;
}

void uw_formula_relay_ask(struct uw_formula *f, struct uw_formula_node *n)
{
    const struct uw_formula_node *peer = &f->nodes[n->peer];
    uw_snapshot_write(&f->pool, &n->pulled, f->pool.x[peer->shown]);
    n->pulled_models = 1;
    float *sum = f->pool.x[n->pulled];
    for (uint32_t k = 0; k < peer->degree; k++) {
        const struct uw_formula_edge *e = edge_of(f, peer, k);
        const float *x = e->peer != n->w->place && e->got != NONE ? f->pool.x[e->got] : NULL;
        for (uint32_t i = 0; x != NULL && i < n->w->params.size_n; i++) {
            sum[i] += x[i];
        }
        n->pulled_models += x != NULL ? e->models : 0;
    }
}

void uw_formula_relay_mix(struct uw_formula *f, struct uw_formula_node *n)
{
    struct uw_formula_edge *e = edge_of(f, n, (n->round - 1u) % n->degree);
    const float *s = f->pool.x[n->shown];
    if (!n->lost) {
        uw_snapshot_drop(&f->pool, &e->got);
        e->got = n->pulled;
        e->models = n->pulled_models;
        n->pulled = NONE;
    }
    for (uint32_t k = 0; n->round % n->degree == 0 && k < n->degree; k++) {
        e = edge_of(f, n, k);
        const float *m = e->got != NONE ? f->pool.x[e->got] : NULL;
        for (uint32_t i = 0; m != NULL && i < n->w->params.size_n; i++) {
            n->w->x[i] += (m[i] - (float)e->models * s[i]) / (float)f->nodes_n;
        }
    }
}
