/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_mode.h - what a node exchanges with others: uw_node_config.mode
 *
 * Blocking   never      Context  any thread
 */
#ifndef UWASA_NODE_MODE_H
#define UWASA_NODE_MODE_H

#include "uwasa/cplusplus.h"

UW_C_BEGIN

enum uw_node_mode {
    UW_NODE_GOSSIP,                 /* pull a peer's parameters every T steps, wait for nobody */
    UW_NODE_ALLREDUCE,              /* average exactly over all nodes every T steps */
    UW_NODE_HIERARCHICAL,           /* exactly over the cell; its head pulls other cells' heads */
    UW_NODE_AUTO,                   /* the same, and without a name the cell is found: who is near
                                       enough for averages to be cheap, at the same pace */
    UW_NODE_BROADCAST,              /* on a radio: each sends to all, who average what they hear;
                                       takes a bit for each member and chunk_least_n floats */
    UW_NODE_MODES_N
};

/* Their names, in this order. */
#define UW_NODE_MODES "gossip|allreduce|hierarchical|auto|broadcast"

/* By its name; UW_NODE_MODES_N, which no node takes: it is another name. */
enum uw_node_mode uw_node_mode_find(const char *name);

UW_C_END
#endif
