/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - a model of the network behind sim_world.h
 *
 * world.c takes the nodes' vectors and hands every call on. A model keeps its own in w->state.
 *
 * Memory     state is the model's, from the heap: close frees it
 * Context    as in sim_world.h
 */
#ifndef UWASA_SIM_WORLD_PRIVATE_H
#define UWASA_SIM_WORLD_PRIVATE_H

#include "uwasa/sim_world.h"

/* Entries mean what the functions of sim_world.h do. */
struct uw_world_ops {
    const char *name;
    /* Fill in what is 0 in the configuration. */
    void (*defaults)(struct uw_world_config *c);
    /* Bytes beside the vectors and struct uw_world_node. Returns UW_OK or what open would. */
    int (*measure)(const struct uw_world_config *c, size_t *bytes, struct uw_error *err);
    /* Called with w->nodes and their vectors set up, nobody training. */
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

/* Give a node the first values again: parameters fresh, no snapshot, all other vectors 0. */
void uw_world_node_reset(struct uw_world_node *n);

/* Add what is added up over nodes. */
void uw_counters_add(struct uw_node_counters *sum, const struct uw_node_counters *c);

#endif
