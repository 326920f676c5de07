/* SPDX-License-Identifier: Apache-2.0
 *
 * node_cost.h - how long a node's averages take: measured once a group, learned from every round
 *
 * After the first round of a group its head probes what messages cost among the ranks
 * (network_probe.h), chooses the algorithm of the next rounds by it (network_cost.h), and tells the
 * ranks with every START, so that they send at the rate that the network takes. The median of every
 * few rounds that it leads corrects what it knows: devices compute beside, and now and then a round
 * waits for one of them. When that is far off again and again, it probes anew.
 */
#ifndef UW_NET_NODE_COST_H
#define UW_NET_NODE_COST_H

#include "cell/cell.h"
#include "netmodel/network_cost.h"
#include "netmodel/network_probe.h"

struct uw_node_scope;
struct uw_node_state;

#define UW_NODE_COST_ROUNDS 5u      /* of which the median is learned from */

struct uw_node_cost {
    struct uw_network_fit fit;
    struct uw_network_probe probe;
    uint32_t group, shift;          /* that is probed, 0: none yet; rank of its head */
    uint32_t learned_group;         /* whose rounds are learned from */
    bool measured, probing;         /* this node leads the probe that is under way */
    uint32_t aborts;                /* rounds given up in a row */
    uint32_t rounds_n, probe_after_n, pause_n;  /* committed ones; no probe before; doubles */
    uint64_t began_us, took_us;     /* the round at hand; its all-reduce */
    uint64_t last_us[UW_NODE_COST_ROUNDS];  /* of rounds alike, going up */
    uint32_t last_n;
    enum uw_allreduce_kind kind;    /* theirs */
    float predicted_s;              /* 0: not known */
};

/* Take the tables; the all-reduce is placed. Returns UW_OK or what uw_arena_take returns. */
int uw_node_cost_place(struct uw_node_state *s, struct uw_arena *arena,
                       const struct uw_allreduce_config *allreduce);

/* Send a part to a station, and count its bytes. Returns UW_OK, UW_ERR_NOTFOUND (there is no such
 * station) or what uw_part_send returns. */
int uw_node_send_part(struct uw_node_state *s, uint16_t station, const struct uw_part *part);

/* The algorithm for so many ranks, and what to tell them. */
enum uw_allreduce_kind uw_node_cost_choose(struct uw_node_state *s, uint32_t ranks_n,
                                           float hints[UW_CELL_HINTS]);

/* A round begins: set what the engine asks about the network. Its all-reduce is done; it counts.
 *   ways  written; r points to it */
void uw_node_cost_begin(struct uw_node_state *s, const struct uw_node_scope *o,
                        struct uw_allreduce_round *r,
                        struct uw_allreduce_way ways[UW_CELL_RANKS_MAX]);
void uw_node_cost_done(struct uw_node_state *s);
void uw_node_cost_committed(struct uw_node_state *s, const struct uw_node_scope *o);

/* A round is over: members keep what it has taught of the ways to them, for other groups too. */
void uw_node_cost_keep(struct uw_node_state *s, const struct uw_cell *cell);

/* A round was given up. */
void uw_node_cost_aborted(struct uw_node_state *s);

/* A part with round 0, of a probe. */
void uw_node_cost_take(struct uw_node_state *s, uint32_t rank, const struct uw_part *part);

/* Probe. Returns when it wants to run again. */
uint64_t uw_node_cost_run(struct uw_node_state *s);

#endif
