/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_mode.h - how a node exchanges parameters: uw_node_config.mode
 *
 * Blocking   never      Context  any thread
 */
#ifndef UWASA_NODE_MODE_H
#define UWASA_NODE_MODE_H

#include "uwasa/cplusplus.h"

UW_C_BEGIN

enum uw_node_mode {
    UW_NODE_GOSSIP,                 /* pull a peer's parameters every T steps, never wait */
    UW_NODE_ALLREDUCE,              /* average exactly over all nodes every T steps */
    UW_NODE_HIERARCHICAL,           /* exactly over the cell; its head pulls from other heads */
    UW_NODE_AUTO,                   /* as HIERARCHICAL; a cell without a name forms by itself, of
                                       nodes of one pace that are near enough for cheap averages */
    UW_NODE_BROADCAST,              /* on a radio: each node broadcasts, each averages what it
                                       receives; takes a bit per member and chunk_least_n floats */
    UW_NODE_MODES_N
};

/* The names, in this order. */
#define UW_NODE_MODES "gossip|allreduce|hierarchical|auto|broadcast"

/* What UW_NODE_GOSSIP sends and how it is mixed.
 *
 *   PULL      a node asks for a peer's parameters
 *   PUSH      a node sends its own to a peer, which averages its own and those that arrive during
 *             T steps (push gossip SGD)
 *   PUSH_SUM  the same with weights: a node has a weight w, at first 1. It sends one half of it and
 *             keeps the other. The receiver mixes by weights and adds the weight to its own. The
 *             sum of all weights, and the weighted mean of all models, stay as they are. What was
 *             not received returns to the sender
 *   RELAY     over the neighbours in a tree or chain: a node sends each of them the sum of its own
 *             model and of what the others have sent it, with the number of models in it. A model
 *             becomes the mean of those of all nodes, each once, the further away the older
 *
 * Source     D. Kempe et al., "Gossip-based computation of aggregate information", 2003, and M.
 *            Assran et al., "Stochastic Gradient Push", 2019: PUSH_SUM; T. Vogels et al., "RelaySum
 *            for Decentralized Deep Learning", 2021: RELAY */
enum uw_gossip_kind {
    UW_GOSSIP_PULL,
    UW_GOSSIP_PUSH,
    UW_GOSSIP_PUSH_SUM,
    UW_GOSSIP_RELAY
};

/* The names of the other kinds, in this order. */
#define UW_GOSSIP_KINDS "push|push-sum|relay"

/* Find a mode by its name; UW_NODE_MODES_N, which no node accepts, for an unknown name. */
enum uw_node_mode uw_node_mode_find(const char *name);

UW_C_END
#endif
