/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pairs.h - committed pairs: two nodes average [x | z], both of them or neither
 *
 * For rules over pairs (uwasa/mix.h). Every T steps a node computes its partner from a mutual
 * schedule over the identities of the members that use pairs, and waits for it. A pair is a cell of
 * two (cell.h), which commits the average at both nodes or at none.
 *
 * Both must be in the same round of the schedule. Each sends its round in READY. The node that is
 * behind takes over the larger number, even while it waits, and turns to its partner of that round.
 * So slow nodes and newcomers catch up without further messages. A node that receives READY for a
 * round that it cannot share answers BUSY with its own round. When the partner is not ready in
 * time, is in another pair, or cannot be reached, the round has no effect and training continues.
 *
 * Where the schedule sets the partner's share, the head's value is used; START carries it.
 *
 * Half-open pairs: when the link fails between the decision and its announcement, one side may have
 * committed a round that the other gave up. Both remember the end of their last round with each
 * member and send it when they next meet; both count a difference. When more than 1 % of the last
 * 200 rounds were half-open, and at least 2, the node changes to quasi-global momentum over gossip,
 * which half-open pairs do not harm. So do all nodes that learn of it.
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

#define UW_PAIRS_WINDOW 200u        /* rounds of which half-open ones are counted */

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
    uint32_t turn;                  /* current or next round of the schedule */
    uint32_t partner;               /* an identity, UW_CELL_NOBODY: none */
    float weight;                   /* the share of each in the other; 0: one half */
    uint64_t asked_us, since_us;    /* training handed over; begin of the wait for this partner */
    uint64_t repeat_us;
    struct uw_deadline waited, took;    /* waits for a partner; rounds with one */
    struct uw_pair_end *ends;       /* [members_max] */
    uint32_t ends_n;
    bool half[UW_PAIRS_WINDOW];     /* half-open, of the last rounds with a partner */
    uint32_t rounds_n, half_n;      /* all rounds; half-open among the last */
};

/* Allocate memory. Returns UW_OK or what uw_arena_take returns. */
int uw_node_pairs_place(struct uw_node_state *s, struct uw_arena *arena);

/* Training has handed [x | z] over: find the partner and wait for it. */
void uw_node_pairs_ask(struct uw_node_state *s);

/* Training is over: other nodes must not wait for this one. */
void uw_node_pairs_finish(struct uw_node_state *s);

/* A round with the partner begins; is decided; [x | z] is returned to training. */
void uw_node_pairs_began(struct uw_node_state *s);
void uw_node_pairs_decided(struct uw_node_state *s, bool commit);
void uw_node_pairs_ended(struct uw_node_state *s);

/* The member table has changed. */
void uw_node_pairs_rows(struct uw_node_state *s);

/* Fill the fields of pairs in a message to a member. */
void uw_node_pairs_fill(struct uw_node_state *s, uint32_t to, uwasa_Cell *w);

/* Handle a message from a member; turn: its round of the schedule. */
void uw_node_pairs_message(struct uw_node_state *s, uint32_t from, const struct uw_cell_message *m,
                           uint32_t turn);

/* End a wait for a partner that takes too long. Returns the time of the next call. */
uint64_t uw_node_pairs_step(struct uw_node_state *s);

#endif
