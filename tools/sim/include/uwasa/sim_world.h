/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_world.h - the nodes of a simulated run on one virtual clock
 *
 * The nodes are the ones that ship: struct uw_node over loopback links, each behind an emulated one
 * that gives it its rate and its latency. Two things happen to a node: its network steps, when a
 * message is there or it asked to be called, and its training steps, every step_us. The world
 * finds what comes next on the clock, does the network itself and hands the training to the
 * caller. It knows parameters as flat vectors and nothing of models.
 *
 *     uw_world_open(&w, &config, &err);
 *     uw_world_meet(&w, limit_us);                     until every node knows all others
 *     while ((n = uw_world_next(&w)) != NULL) {
 *         if (!n->waits) { ... train n->x one step ... } else { progress.lr = 0; }
 *         rc = uw_world_trained(&w, n, &progress, 0);  n->train_at_us = UINT64_MAX: no more
 *     }
 *     uw_world_close(&w);
 *
 * Units      _us microseconds of virtual time, _n floats
 * Memory     open takes it all from the heap; nothing is taken after
 * Blocking   never; virtual time costs what there is to compute
 * Context    one thread. The same configuration gives the same run, bit for bit
 */
#ifndef UWASA_SIM_WORLD_H
#define UWASA_SIM_WORLD_H

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"
#include "uwasa/node.h"

struct uw_world_node {
    uint32_t place;                 /* 0 .. nodes_n - 1; also its address */
    struct uw_params params;
    struct uw_snapshot snapshot;
    float *x, *velocity;            /* [size_n]; velocity NULL when the rule has none */
    uint64_t train_at_us;           /* when its local step is done; UINT64_MAX: it does none */
    bool waits;                     /* its parameters are being averaged: no step was done */

    /* private */
    const struct uw_world_config *config;
    struct uw_link_loopback loopback;
    struct uw_link_emulated emulated;
    struct uw_node node;
    float *vectors;                 /* all of them */
    const float *spare;             /* lent to the node; NULL: none */
    void *link_memory, *node_memory;
    char name[16], address[16], cell[16];
    uint64_t net_at_us;
    uint64_t sent_before;           /* bytes sent before training */
};

struct uw_world_config {
    uint32_t nodes_n;
    const struct uw_params *params; /* layout and first values of every node's parameters */
    struct uw_node_config node;     /* what all nodes share; the world adds name, address, link,
                                       vectors, seeds, numbers, mixes the seed with the place */
    uint32_t cell_n;                /* nodes of a cell, neighbours; 0: cells have no names */
    uint64_t bandwidth;             /* bits a second that a node can send; 0: unlimited */
    uint64_t latency_us;
    uint32_t mtu_bytes;
    uint64_t step_us;               /* a local step takes so long, 1 or more */
    /* What the node at place tells; may be NULL. Instead of node.on_event. */
    void (*on_event)(void *arg, uint32_t place, const struct uw_node_event *event);
    void *event_arg;
};

struct uw_world {
    struct uw_world_config config;
    uint64_t now_us;
    uint64_t start_us;              /* when training began */
    struct uw_world_node *nodes;    /* [config.nodes_n] */

    /* private */
    struct uw_loopback_hub hub;
    void *hub_memory;
    struct uw_node_member *rows;    /* [config.nodes_n] */
};

/* Set up the nodes with the same parameters and let nobody speak yet.
 * Returns UW_OK, UW_ERR_NOMEM, or what uw_node_bind and the links return; err filled. Close in
 * every case. */
int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err);

/* Run the network alone until every node knows that all others are alive and have weights to show,
 * or limit_us have passed; training begins then, at w->start_us. Returns UW_OK, UW_ERR_AGAIN (the
 * limit came first), or what uw_node_after_step returns. */
int uw_world_meet(struct uw_world *w, uint64_t limit_us);

/* Run the network up to the next end of a local step, or to where a node that waits may go on.
 * Returns the node; NULL: nobody trains. */
struct uw_world_node *uw_world_next(struct uw_world *w);

/* Tell that the step was done: as uw_node_after_step, whose answer it returns. The next one ends
 * pause_us later (0: step_us), or when an average that began with it lets it go on. */
int uw_world_trained(struct uw_world *w, struct uw_world_node *n,
                     const struct uw_node_progress *progress, uint64_t pause_us);

/* A node's model as it is to be judged, [size_n]: x, and while x is being averaged in place what it
 * was before. */
const float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n);

/* Bytes that all nodes together have handed to their links since training began. */
uint64_t uw_world_sent_bytes(const struct uw_world *w);

/* Counters of all nodes, added up. */
struct uw_node_counters uw_world_counters(const struct uw_world *w);

/* Safe on a zeroed struct and twice. */
void uw_world_close(struct uw_world *w);

#endif
