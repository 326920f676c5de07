/* SPDX-License-Identifier: Apache-2.0
 *
 * node_cell.h - a node's exact averages: its cell, the all-reduce, the vectors
 *
 * There are three scopes, each with a head and rounds of its own: the node's cell, averaged every T
 * steps in modes that have one; the whole run, averaged once by whoever has finished training; the
 * pair of a round, for rules over pairs. Only one of them has this node's parameters at a time.
 */
#ifndef UW_NET_NODE_CELL_H
#define UW_NET_NODE_CELL_H

#include "allreduce.h"
#include "average.h"
#include "cell.h"

#define UW_NODE_SCOPES 3u

struct uw_node_state;

struct uw_node_scope {
    struct uw_node_state *node;
    enum uw_average_scope scope;
    struct uw_cell cell;
    struct uw_cell_member *rows;    /* [members_max]; of a pair [2] */
};

struct uw_node_cell {
    struct uw_node_scope scopes[UW_NODE_SCOPES];
    struct uw_node_scope *asked;    /* the one that has the parameters; NULL: training has them */
    struct uw_average average;
    struct uw_allreduce allreduce;
    uint8_t *out;                   /* [buffer_bytes] a part on its way out */
    char name[UW_NODE_NAME_BYTES];  /* of the cell; "": none */
    uint32_t hops;                  /* of a cell that was found: to the node that it is named by */
    uint64_t look_us;               /* when to look for one again */
    enum uw_allreduce_kind algorithm;   /* UW_ALLREDUCE_KINDS_N: the fastest */
    bool on;                        /* it takes part in averages */
    bool finds;                     /* its cell, by what is near */
    bool stale;                     /* the rows are */
};

#endif
