/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - interface of the network models behind sim_world.h
 *
 *     world.c            passes every call to the model
 *     world_events.c, world_formula.c    the models; each has its own w->state
 *     groups.c, snapshots.c              parts of world_formula.c
 *     world_node.c       the nodes apart from their network
 *
 * Memory     the model allocates state from the heap; close frees it
 * Context    as in sim_world.h
 */
#ifndef UWASA_SIM_WORLD_PRIVATE_H
#define UWASA_SIM_WORLD_PRIVATE_H

#include "uwasa/sim_world.h"

/* Entries as the functions of sim_world.h. */
struct uw_world_ops {
    /* Fill in what is 0 in the configuration. */
    void (*defaults)(struct uw_world_config *c);
    /* Bytes in addition to the vectors and struct uw_world_node. Returns as open would. */
    int (*measure)(const struct uw_world_config *c, size_t *bytes, struct uw_error *err);
    /* Called with w->nodes and their vectors set up, no node training. */
    int (*open)(struct uw_world *w, struct uw_error *err);
    int (*meet)(struct uw_world *w, uint64_t limit_us);
    struct uw_world_node *(*next)(struct uw_world *w);
    int (*trained)(struct uw_world *w, struct uw_world_node *n,
                   const struct uw_node_progress *progress, uint64_t pause_us);
    bool (*touches)(const struct uw_world *w, const struct uw_world_node *n);
    void (*agree)(struct uw_world *w, struct uw_world_node *n);
    uint64_t (*sent_bytes)(const struct uw_world *w);
    struct uw_node_counters (*counters)(const struct uw_world *w);
    /* Safe after an open that failed. */
    void (*close)(struct uw_world *w);
};

extern const struct uw_world_ops uw_world_events;
extern const struct uw_world_ops uw_world_formula;

/* Whether nodes average in pairs. */
static inline bool uw_world_pairs(const struct uw_node_config *c)
{
    return c->mode == UW_NODE_GOSSIP && c->rule->over == UW_MIX_OVER_PAIRS;
}

/* Seconds of virtual time in microseconds, to the nearest; at most 30 years, so that sums of
 * thousands fit the clock. */
static inline uint64_t uw_world_us(double seconds)
{
    return (uint64_t)((seconds < 1e9 ? seconds : 1e9) * 1e6 + 0.5);
}

/* Allocate a large zeroed block, aligned to 64 bytes or more, in huge pages if the system has them;
 * NULL: out of memory. */
void *uw_sim_block_take(size_t bytes);

/* Free it; block may be NULL. bytes: as allocated. */
void uw_sim_block_give(void *block, size_t bytes);

/* Allocate w->nodes and w->vectors, and assign the vectors. Returns UW_OK or UW_ERR_NOMEM. */
int uw_world_nodes_open(struct uw_world *w);

/* Bytes of w->vectors. */
size_t uw_world_vectors_bytes(const struct uw_world_config *c);

/* Reset a node: initial parameters, no snapshot, all other vectors 0. */
void uw_world_node_reset(struct uw_world_node *n);

/* Add a node's counters to a sum over nodes. */
void uw_counters_add(struct uw_node_counters *sum, const struct uw_node_counters *c);

#endif
