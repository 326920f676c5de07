/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a world apart from their network: vectors and counters. */
#include "attack.h"
#include "world.h"

#include "uwasa/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_N 16u                  /* in floats: vectors are aligned to 64 bytes */

/* Huge pages of 2 MiB avoid TLB misses: going from node to node touches a page or two for each,
 * over hundreds of megabytes. */
void *uw_sim_block_take(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void uw_sim_block_give(void *block, size_t bytes)
{
    if (block != NULL) {
        (void)munmap(block, bytes);
    }
}

/* Layout of a node's vectors: x, the snapshot, what the rule and the mode need. */
struct layout {
    size_t vector_n;                /* with its padding */
    bool velocity;
    size_t spare_n;
    size_t node_n;                  /* of all vectors */
};

static struct layout layout_of(const struct uw_world_config *c)
{
    const struct uw_mix_rule *rule = c->node.rule;
    size_t size_n = c->params->size_n;
    struct layout l = {.vector_n = (size_n + LINE_N - 1u) / LINE_N * LINE_N,
                       .velocity = rule->velocity};
    size_t spare_n = uw_node_spare_n(c->node.mode, rule, c->params->size_n);
    l.spare_n = (spare_n + LINE_N - 1u) / LINE_N * LINE_N;
    l.node_n = (l.velocity ? 3u : 2u) * l.vector_n + l.spare_n;
    return l;
}

size_t uw_world_vectors_bytes(const struct uw_world_config *c)
{
    return uw_size_mul(layout_of(c).node_n * sizeof(float), c->fleet->devices_n);
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
#define ADD(field) sum->field += c->field;
    UW_NODE_COUNTERS(ADD)
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

int uw_world_nodes_open(struct uw_world *w)
{
    const struct layout l = layout_of(&w->config);
    size_t bytes = uw_world_vectors_bytes(&w->config);
    w->nodes = calloc(w->config.fleet->devices_n, sizeof *w->nodes);
    w->vectors = bytes != SIZE_MAX ? uw_sim_block_take(bytes) : NULL;
    if (w->nodes == NULL || w->vectors == NULL) {
        return UW_ERR_NOMEM;
    }
    int rc = UW_OK;
    for (uint32_t i = 0; i < w->config.fleet->devices_n && rc == UW_OK; i++) {
        struct uw_world_node *n = &w->nodes[i];
        n->place = i;
        n->world = w;
        n->train_at_us = UINT64_MAX;
        place_vectors(w, n, &l);
        rc = uw_attack_open(n);
    }
    return rc;
}
