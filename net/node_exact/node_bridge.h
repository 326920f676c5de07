/* SPDX-License-Identifier: Apache-2.0
 *
 * node_bridge.h - what passes between cells: the head pulls another cell's head
 *
 * What comes in must reach the whole cell, and yet cost it no second average. So the head keeps
 *
 *     d = w (s_peer - s)         s: its cell's last average, s_peer: the other's
 *
 * aside until the cell averages next, and hands in x + c d, c the number of ranks: the average then
 * moves by d for everybody, a variance down by half at most (uw_mix_carried). Its own
 * training never sees c d. A round that is aborted leaves d for the next one. For this a node that
 * may lead keeps one vector more. w is 1/2, and of a smaller cell n_peer / (n + n_peer), by the
 * nodes in either: a straggler does not hold a large cell back. Under a rule with momentum over
 * averages it is as much smaller as that enlarges it (uw_mix_gain), but for running statistics,
 * which are not under the rule.
 *
 *     EMPTY --chunk--> HELD --offer, in a cell of one--> OFFERED --training added it--> EMPTY
 *                      HELD --a round begins--> ADDED --commit--> EMPTY, --abort--> HELD
 *
 * A cell of one has d added to its x as soon as it is whole. Where a head falls silent another goes
 * on: d is by parts of either then, each with the weight of its cell.
 *
 * Training waits for none of it: a pull may take as many rounds as the link needs. When no other
 * cell can be reached the cell goes on alone, says so, and says so again when they meet.
 */
#ifndef UW_NET_NODE_BRIDGE_H
#define UW_NET_NODE_BRIDGE_H

#include "gossip/gossip.h"

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_member;
struct uw_node_state;

/* Where d is; the diagram above. */
enum uw_bridge_state { UW_BRIDGE_EMPTY, UW_BRIDGE_HELD, UW_BRIDGE_OFFERED, UW_BRIDGE_ADDED };

/* Other cells, as reported. */
enum uw_bridge_contact { UW_BRIDGE_UNMET, UW_BRIDGE_MET, UW_BRIDGE_ALONE };

struct uw_node_bridge {
    float *inbox;                   /* [size_n] d; NULL: this node never leads a cell */
    bool due;                       /* the next pull is */
    enum uw_bridge_state state;
    enum uw_bridge_contact contact;
    bool whole;                     /* the last pull is: d is of all of the other's model */
    bool holds;                     /* the last average is not published yet: chunks wait */
    float weight;                   /* w of the pull */
    uint32_t version;               /* what is published instead */
    uint64_t heard_us;              /* of another cell; 0: not looked yet */
    uint64_t alone_us;              /* alone since */
};

/* Take the memory of a node that may lead a cell. Returns UW_OK or what uw_arena_take returns. */
int uw_node_bridge_place(struct uw_node_state *s, struct uw_arena *arena);

/* A round of the cell is over: pull from another cell next, if this node leads. */
void uw_node_bridge_due(struct uw_node_state *s);

/* The member to pull from now, its place in the table; 0: none. */
uint32_t uw_node_bridge_take(struct uw_node_state *s);

/* A cell's head to go on with in chunks of chunk_n where that one, `but` or NULL, has stopped: its
 * place in the table; 0: none. What comes from now on has its cell's weight. */
uint32_t uw_node_bridge_another(struct uw_node_state *s, uint32_t chunk_n,
                                const struct uw_member *but);

/* A pull is over. */
void uw_node_bridge_ended(struct uw_node_state *s, enum uw_gossip_end how);

/* Look at the chunks of another cell's head that have come.
 * Returns UW_OK or UW_ERR_DENIED (one was too far from ours, and is gone). */
int uw_node_bridge_step(struct uw_node_state *s);

/* The node's parameters were handed over: an offer to training is off. */
void uw_node_bridge_keep(struct uw_node_state *s);

/* A round of the cell begins with so many ranks; it is decided. */
void uw_node_bridge_add(struct uw_node_state *s, uint32_t ranks_n);
void uw_node_bridge_committed(struct uw_node_state *s, bool commit);

#endif
