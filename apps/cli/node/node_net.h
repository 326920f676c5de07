/* SPDX-License-Identifier: Apache-2.0
 *
 * node_net.h - the network thread of a node, the only place that waits for the network
 *
 *     uw_node_net_open(&net, ...);      opens the links, sets the node up
 *     uw_node_net_start(&net, &err);    from here on the thread owns links and membership
 *     uw_node_after_step(&net.node, ...);   the training thread's side
 *     uw_node_net_stop(&net);           says goodbye, ends the thread
 *     uw_node_net_close(&net);
 *
 * Memory     the board's      Blocking  stop: until the thread has ended, at most 0.5 s
 * Context    the training thread, except for the callbacks
 */
#ifndef UWASA_CLI_NODE_NET_H
#define UWASA_CLI_NODE_NET_H

#include "links/link_stack.h"

#include "uwasa/arena.h"
#include "uwasa/node.h"

#include <pthread.h>
#include <stdatomic.h>

struct uw_node_net {
    struct uw_stack stack;
    struct uw_node node;
    struct uw_stack_block block;        /* the node's arena */
    int wake[2];                        /* pipe; -1: none */
    bool opened, running;
    pthread_t thread;
    uint64_t busy_us;                   /* when something last arrived */
    atomic_bool quit;
    atomic_bool awaited;                /* the training thread waits for a step of the network */
    pthread_cond_t stepped;
    struct uw_stack_block tables;       /* of rows and copied */
    uint32_t rows_max;                  /* of each: all members that the node may know */
    struct uw_node_member *copied;      /* of rows, for the training thread */
    pthread_mutex_t lock;               /* of everything below */
    struct uw_node_member *rows;
    uint32_t rows_n;
    struct uw_node_counters counters;
};

/* Open links and node. `node` needs everything but its link.
 *   listed  its seeds are all its peers: use uw_node_bind_listed
 * Returns UW_OK or a code, err filled.
 * Close in every case. */
int uw_node_net_open(struct uw_node_net *n, const struct uw_stack_config *stack,
                     const struct uw_node_config *node, bool listed, struct uw_error *err);

/* Start the thread. Returns UW_OK or UW_ERR_NOMEM. */
int uw_node_net_start(struct uw_node_net *n, struct uw_error *err);

/* Make the thread step the node now, because the training thread has asked for something. */
void uw_node_net_wake(struct uw_node_net *n);

/* Wait until the network thread has stepped the node and an average is over: at most a few
 * milliseconds. */
void uw_node_net_wait(struct uw_node_net *n);

/* Get the member table as of a moment ago: all members, this node first.
 *   rows  set to a copy, valid until the next call; NULL: only the counters are wanted
 * Returns the number of rows. */
uint32_t uw_node_net_members(struct uw_node_net *n, const struct uw_node_member **rows,
                             struct uw_node_counters *counters);

/* Say goodbye and end the thread. Safe when it never ran, and twice. */
void uw_node_net_stop(struct uw_node_net *n);

/* Stop, then release everything. Safe on a zeroed struct and twice. */
void uw_node_net_close(struct uw_node_net *n);

#endif
