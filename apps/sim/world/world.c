/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "block.h"

#include "uwasa/arena.h"

#include <stdlib.h>
#include <string.h>

#define LINE_N 16u                  /* floats: a vector begins at a multiple of 64 bytes */

static const struct uw_world_ops *ops_of(enum uw_world_network network)
{
    return network == UW_WORLD_EVENTS    ? &uw_world_events
           : network == UW_WORLD_FORMULA ? &uw_world_formula
                                         : NULL;
}

/* Of a node: x, the snapshot, what the rule and the mode need. */
struct layout {
    size_t vector_n;                /* with its padding */
    bool velocity;
    size_t spare_n;
    size_t node_n;                  /* all of it */
};

static struct layout layout_of(const struct uw_world_config *c)
{
    const struct uw_mix_rule *rule = c->node.rule != NULL ? c->node.rule : &uw_mix_none;
    size_t size_n = c->params->size_n;
    struct layout l = {.vector_n = (size_n + LINE_N - 1u) / LINE_N * LINE_N,
                       .velocity = rule->velocity};
    size_t spare_n = uw_node_spare_n(c->node.mode, rule, c->params->size_n);
    l.spare_n = (spare_n + LINE_N - 1u) / LINE_N * LINE_N;
    l.node_n = (l.velocity ? 3u : 2u) * l.vector_n + l.spare_n;
    return l;
}

static size_t vectors_bytes(const struct uw_world_config *c)
{
    return uw_size_mul(layout_of(c).node_n * sizeof(float), c->fleet->devices_n);
}

size_t uw_world_measure(const struct uw_world_config *config, struct uw_error *err)
{
    struct uw_world_config c = *config;
    const struct uw_world_ops *ops = ops_of(c.network);
    size_t bytes = 0, vectors = vectors_bytes(&c);
    if (ops == NULL) {
        return SIZE_MAX;
    }
    ops->defaults(&c);
    if (ops->measure(&c, &bytes, err) < 0 || vectors == SIZE_MAX) {
        return SIZE_MAX;
    }
    bytes += c.fleet->devices_n * sizeof(struct uw_world_node);
    return bytes > SIZE_MAX - vectors ? SIZE_MAX : bytes + vectors;
}

void uw_world_node_reset(struct uw_world_node *n)
{
    const struct uw_world_config *c = &n->world->config;
    size_t bytes = c->params->size_n * sizeof(float);
    memcpy(n->x, c->params->x, bytes);
    memset(n->snapshot.data, 0, bytes);
    n->snapshot.version = 0;
    n->snapshot.step = 0;
    if (n->velocity != NULL) {
        memset(n->velocity, 0, bytes);
    }
    if (n->spare != NULL) {
        memset(n->spare, 0, layout_of(c).spare_n * sizeof(float));
    }
}

void uw_counters_add(struct uw_node_counters *sum, const struct uw_node_counters *c)
{
    sum->sent_bytes += c->sent_bytes;
    sum->received_bytes += c->received_bytes;
    sum->pulled_bytes += c->pulled_bytes;
    sum->served_bytes += c->served_bytes;
    sum->averaged_bytes += c->averaged_bytes;
    sum->averages_done += c->averages_done;
    sum->averages_cut += c->averages_cut;
    sum->pairs_half += c->pairs_half;
    sum->pulls_done += c->pulls_done;
    sum->pulls_cut += c->pulls_cut;
    sum->pulls_refused += c->pulls_refused;
    sum->pulls_stale += c->pulls_stale;
    sum->chunks_mixed += c->chunks_mixed;
    sum->refused_nonfinite += c->refused_nonfinite;
    sum->refused_outlier += c->refused_outlier;
    sum->refused_run += c->refused_run;
    sum->refused_model += c->refused_model;
    sum->refused_corrupt += c->refused_corrupt;
    sum->chunks_again += c->chunks_again;
    sum->chunks_twice += c->chunks_twice;
    sum->unknown_messages += c->unknown_messages;
}

static void place_vectors(struct uw_world *w, struct uw_world_node *n, const struct layout *l)
{
    const struct uw_params *p = w->config.params;
    float *at = w->vectors + n->place * l->node_n;
    n->x = at;
    memcpy(n->x, p->x, p->size_n * sizeof(float));
    n->params = *p;
    n->params.x = n->x;
    at += l->vector_n;
    n->snapshot.data = at;
    n->snapshot.size_n = p->size_n;
    atomic_flag_clear(&n->snapshot.busy);
    at += l->vector_n;
    n->velocity = l->velocity ? at : NULL;
    at += l->velocity ? l->vector_n : 0;
    n->spare = l->spare_n != 0 ? at : NULL;
}

static int open_nodes(struct uw_world *w)
{
    const struct layout l = layout_of(&w->config);
    size_t bytes = vectors_bytes(&w->config);
    w->nodes = calloc(w->config.fleet->devices_n, sizeof *w->nodes);
    w->vectors = bytes != SIZE_MAX ? uw_sim_block_take(bytes) : NULL;
    if (w->nodes == NULL || w->vectors == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        struct uw_world_node *n = &w->nodes[i];
        n->place = i;
        n->world = w;
        n->train_at_us = UINT64_MAX;
        place_vectors(w, n, &l);
    }
    return UW_OK;
}

int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err)
{
    *w = (struct uw_world){.config = *config, .now_us = 1u + config->past.trained_us,
                           .ops = ops_of(config->network)};
    int rc = UW_ERR_UNSUPPORTED;
    size_t bytes;
    if (w->ops != NULL) {
        w->ops->defaults(&w->config);
        rc = w->ops->measure(&w->config, &bytes, err);
        rc = rc < 0 ? rc : open_nodes(w);
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

/* An average goes back to the copy in spare, without one to the snapshot; pairs leave x alone. */
float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n)
{
    const struct uw_mix_rule *rule = w->config.node.rule;
    if (!n->averaging || (rule != NULL && rule->over == UW_MIX_OVER_PAIRS)) {
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
        uw_sim_block_give(w->vectors, vectors_bytes(&w->config));
    }
    free(w->nodes);
    *w = (struct uw_world){.nodes = NULL};
}
