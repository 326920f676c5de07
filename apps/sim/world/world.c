/* SPDX-License-Identifier: Apache-2.0 */
#include "attack.h"
#include "world.h"

#include <stdlib.h>

static const struct uw_world_ops *ops_of(enum uw_world_network network)
{
    return network == UW_WORLD_EVENTS    ? &uw_world_events
           : network == UW_WORLD_FORMULA ? &uw_world_formula
                                         : NULL;
}

static void fill_defaults(const struct uw_world_ops *ops, struct uw_world_config *c)
{
    c->node.rule = c->node.rule != NULL ? c->node.rule : &uw_mix_none;
    ops->defaults(c);
}

size_t uw_world_measure(const struct uw_world_config *config, struct uw_error *err)
{
    struct uw_world_config c = *config;
    const struct uw_world_ops *ops = ops_of(c.network);
    size_t bytes = 0;
    if (ops == NULL) {
        return SIZE_MAX;
    }
    fill_defaults(ops, &c);
    size_t vectors = uw_world_vectors_bytes(&c);
    if (ops->measure(&c, &bytes, err) < 0 || vectors == SIZE_MAX) {
        return SIZE_MAX;
    }
    bytes += c.fleet->devices_n * sizeof(struct uw_world_node);
    return bytes > SIZE_MAX - vectors ? SIZE_MAX : bytes + vectors;
}

int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err)
{
    *w = (struct uw_world){.config = *config, .now_us = 1u + config->past.trained_us,
                           .ops = ops_of(config->network)};
    int rc = UW_ERR_UNSUPPORTED;
    size_t bytes;
    if (w->ops != NULL) {
        fill_defaults(w->ops, &w->config);
        rc = w->ops->measure(&w->config, &bytes, err);
        rc = rc < 0 ? rc : uw_world_nodes_open(w);
        rc = rc < 0 ? rc : w->ops->open(w, err);
    }
    if (rc < 0 && err != NULL && err->text[0] == '\0') {
        return uw_error_set(err, rc, "%u nodes: %s", (unsigned)config->fleet->devices_n,
                            rc == UW_ERR_NOMEM ? "out of memory" : uw_status_text(rc));
    }
    return rc;
}

int uw_world_meet(struct uw_world *w, uint64_t limit_us)
{
    return w->ops->meet(w, limit_us);
}

struct uw_world_node *uw_world_next(struct uw_world *w)
{
    return w->ops->next(w);
}

int uw_world_trained(struct uw_world *w, struct uw_world_node *n,
                     const struct uw_node_progress *progress, uint64_t pause_us)
{
    return w->ops->trained(w, n, progress, pause_us);
}

bool uw_world_touches(const struct uw_world *w, const struct uw_world_node *n)
{
    return w->ops->touches(w, n);
}

void uw_world_agree(struct uw_world *w, struct uw_world_node *n)
{
    w->ops->agree(w, n);
}

/* During an average the model is the copy in spare or, without spare, the snapshot. Averages over
 * pairs do not change x. */
float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n)
{
    if (!n->averaging || uw_world_pairs(&w->config.node)) {
        return n->x;
    }
    return n->spare != NULL ? n->spare : n->snapshot.data;
}

uint64_t uw_world_sent_bytes(const struct uw_world *w)
{
    return w->config.past.sent_bytes + w->ops->sent_bytes(w);
}

struct uw_node_counters uw_world_counters(const struct uw_world *w)
{
    struct uw_node_counters sum = w->ops->counters(w);
    uw_counters_add(&sum, &w->config.past.counters);
    return sum;
}

void uw_world_close(struct uw_world *w)
{
    if (w->ops != NULL) {
        w->ops->close(w);
    }
    if (w->vectors != NULL) {
        uw_sim_block_give(w->vectors, uw_world_vectors_bytes(&w->config));
    }
    for (uint32_t i = 0; w->nodes != NULL && i < w->config.fleet->devices_n; i++) {
        uw_attack_close(&w->nodes[i]);
    }
    free(w->nodes);
    *w = (struct uw_world){.nodes = NULL};
}
