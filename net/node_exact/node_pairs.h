/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pairs.h - committed pairs: two nodes average [x | z], both of them or neither
 *
 * For rules over pairs (uwasa/mix.h). Every T steps a node works out its partner from a mutual
 * schedule over the members that do the same, by identity, and waits for it. A pair is a cell of
 * two (cell.h), which sees to it that the average counts for both or for none.
 *
 * Both must be in the same round of the schedule. Each sends its round in READY. The node that is
 * behind takes over the larger number, also while it waits, and turns to its partner of that round:
 * slow nodes and newcomers catch up without an agreement. A node that is asked for a round that it
 * cannot share answers BUSY with its own round. When the partner is not ready in time, is with
 * another node, or cannot be reached, the round has no effect and training goes on.
 *
 * Where the schedule sets the partner's share, the head's value counts; START carries it.
 *
 * Half-open pairs: when the link fails between the decision and its announcement, one side may have
 * committed a round that the other gave up. Both remember the end of their last round with each
 * member and send it when they next meet; a difference counts at both sides. When more than 1 % of
 * the last 200 rounds were half-open, and 2 at least, the node changes to quasi-global momentum
 * over gossip, which half-open pairs do not harm. So do all nodes that learn of it.
 *
 * Units      _us microseconds
 * Memory     an arena      Blocking  never      Context  network thread
 */
#ifndef UW_NET_NODE_PAIRS_H
#define UW_NET_NODE_PAIRS_H

#include "base/deadline.h"
#include "cell/cell.h"
#include "wire/message.h"

#include "uwasa/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_PAIRS_WINDOW 200u        /* rounds that are looked at */

struct uw_node_state;
struct uw_member;

/* What a node reports of its pairs (Progress.pairs). */
enum uw_pairs_state { UW_PAIRS_NONE, UW_PAIRS_TRACKING, UW_PAIRS_RETREATED };

/* How the last round with a member ended. */
struct uw_pair_end {
    uint32_t id, group, round;
    bool committed;
    bool compared;                  /* with the other side's */
};

struct uw_node_pairs {
    enum uw_pairs_state state;
    uint32_t turn;                  /* round of the schedule, at hand or next */
    uint32_t partner;               /* an identity, UW_CELL_NOBODY: none */
    float weight;                   /* the share of each in the other; 0: one half */
    uint64_t asked_us, since_us;    /* handed over; waits for this partner */
    uint64_t repeat_us;
    struct uw_deadline waited, took;    /* for the partner; rounds with one */
    struct uw_pair_end *ends;       /* [members_max] */
    uint32_t ends_n;
    bool half[UW_PAIRS_WINDOW];     /* of the last rounds with a partner */
    uint32_t rounds_n, half_n;      /* all rounds; half-open among the last */
};

/* Take the memory. Returns UW_OK or what uw_arena_take returns. */
int uw_node_pairs_place(struct uw_node_state *s, struct uw_arena *arena);

/* Training has handed [x | z] over: find the partner and wait for it. */
void uw_node_pairs_ask(struct uw_node_state *s);

/* Training is over: nobody shall wait for this node. */
void uw_node_pairs_finish(struct uw_node_state *s);

/* A round with the partner begins; it is decided; [x | z] goes back to training. */
void uw_node_pairs_began(struct uw_node_state *s);
void uw_node_pairs_decided(struct uw_node_state *s, bool commit);
void uw_node_pairs_ended(struct uw_node_state *s);

/* The member table has changed. */
void uw_node_pairs_rows(struct uw_node_state *s);

/* Complete a message to a member. */
void uw_node_pairs_fill(struct uw_node_state *s, uint32_t to, uwasa_Cell *w);

/* A message from a member; turn: the round of the schedule that it is in. */
void uw_node_pairs_message(struct uw_node_state *s, uint32_t from, const struct uw_cell_message *m,
                           uint32_t turn);

/* Wait no longer than it pays. Returns when it wants to run again. */
uint64_t uw_node_pairs_step(struct uw_node_state *s);

#endif
