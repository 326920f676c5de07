/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/replica.h"

#include "graph.h"

#include <string.h>

struct uw_replica uw_model_replica(const struct uw_model *m)
{
    struct uw_replica r = {.x = m->params.x, .velocity = m->velocity, .updates = m->updates};
    memcpy(r.state, m->state, sizeof r.state);
    return r;
}

int uw_model_use(struct uw_model *m, const struct uw_replica *r)
{
    bool whole = r->x != NULL && (m->velocity == NULL || r->velocity != NULL);
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX; v++) {
        whole = whole && (m->state[v] == NULL || r->state[v] != NULL);
    }
    if (!whole || uw_device(m->config.kernels) != NULL || uw_model_updates_pending(m)) {
        return UW_ERR_INVALID;
    }
    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        for (uint32_t t = 0; t < l->tensors_n && !l->constant; t++) {
            l->param[t] = r->x + m->params.segments[l->segment + t].offset_n;
        }
    }
    m->params.x = m->worked.x = r->x;
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX; v++) {
        m->state[v] = m->worked.state[v] = m->state[v] != NULL ? r->state[v] : NULL;
    }
    m->velocity = m->worked.velocity = m->velocity != NULL ? r->velocity : NULL;
    m->updates = r->updates;
    return UW_OK;
}
