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

/* Find a mode by its name; UW_NODE_MODES_N, which no node accepts, for an unknown name. */
enum uw_node_mode uw_node_mode_find(const char *name);

UW_C_END
#endif
