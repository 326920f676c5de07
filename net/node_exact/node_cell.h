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

#include "cell/cell.h"
#include "collective/allreduce.h"
#include "gossip/average.h"

#define UW_NODE_SCOPES 3u

struct uw_node_state;

struct uw_node_scope {
    struct uw_node_state *node;
    enum uw_average_scope scope;
    struct uw_cell cell;
    struct uw_cell_member *rows;    /* [members_max]; of a pair [2] */
};

/* A cell that is found, by what averages with others cost: node_near.c. */
struct uw_node_near {
    bool on;
    bool wary;                      /* round trips alone prove nothing: averages were too dear */
    uint32_t hops;                  /* to the node that the cell is named by */
    uint64_t look_us;               /* when to look again */
    uint64_t asked_us, back_us;     /* training handed the parameters over, and has them since */
    uint32_t train_us;              /* a round without its average, smoothed; 0: not known */
    float dear;                     /* what averages cost too much lately, in rounds' training */
    uint32_t left_n;                /* times that this node has left for that, less calm holds */
    uint64_t calm_us;               /* the next of them counts no more */
    uint64_t hold_us;               /* nobody is taken in before */
};

/* What averages keep about a member, by its place in the table. */
struct uw_node_mate {
    bool near;                      /* may share this node's cell */
    struct uw_allreduce_way way;
};

struct uw_node_cell {
    struct uw_node_mate *mates;     /* [members_max] */
    struct uw_node_scope scopes[UW_NODE_SCOPES];
    struct uw_node_scope *asked;    /* the one that has the parameters; NULL: training has them */
    struct uw_average average;
    struct uw_allreduce allreduce;
    uint8_t *out;                   /* [buffer_bytes] a part on its way out */
    char name[UW_NODE_NAME_BYTES];  /* of the cell; "": none */
    struct uw_node_near near;
    enum uw_allreduce_kind algorithm;   /* UW_ALLREDUCE_KINDS_N: the fastest */
    bool stale;                     /* the rows are */
    struct uw_node_direct_state *direct;    /* node_direct_priv.h; NULL: this node does without */
};

#endif
