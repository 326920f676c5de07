/* SPDX-License-Identifier: Apache-2.0
 *
 * node_gradients_priv.h - a node's group that averages every step's gradients
 *
 *     a round of the cell is committed     its ranks are the group, overlap.h begins
 *     every step                           buckets pass the gate, fragments are averaged
 *     a reason to give it up               BREAK to all, and again to a rank that asks later
 *     the training thread sees it          finishes the step, asks for the next round
 *
 * Reasons: a member is gone; no fragment makes progress for longer than the deadline, which follows
 * from the durations of recent steps (deadline.h); this node's training has ended; the hashes of
 * the parameters differ; a node, such as a newcomer, asks for a round of the cell.
 *
 * Of two nodes that do not hear each other one is in the group. The other one trains alone for as
 * long as a turn takes, and then asks for a round, which leaves out the first.
 *
 * The cause of a stall is found by asking along the chain of waiting ranks. It is the last one,
 * which waits for nobody or does not answer.
 *
 * The group of a direct round (node_direct_priv.h) averages its gradients between the devices too,
 * a whole step at a time. A rank that has begun waits for the next rank until that one has begun.
 * When all have begun and none makes progress, the devices are the cause.
 */
#ifndef UW_NET_NODE_GRADIENTS_PRIV_H
#define UW_NET_NODE_GRADIENTS_PRIV_H

#include "base/deadline.h"
#include "cell/cell.h"
#include "collective/overlap.h"

#define UW_GRADIENTS_PAST 4u        /* remembered groups that were given up */
#define UW_GRADIENTS_BLAMED 8u      /* nodes left out for a while */

struct uw_member;
struct uw_node_progress;
struct uw_node_scope;
struct uw_node_state;

/* Further acts of the message Cell, after those of cell.h; `group` is the overlap's. */
enum uw_gradients_act {
    UW_GRADIENTS_BREAK = 16,        /* status: enum uw_gradients_why; culprit */
    UW_GRADIENTS_ASK,               /* which rank do you wait for? */
    UW_GRADIENTS_WAITS,             /* waits_for: an identity, or UW_CELL_NOBODY */
    UW_GRADIENTS_HASH,              /* step: of the group; culprit: hash of the parameters after */
    UW_GRADIENTS_KNOCK              /* the sender waits for a round; group, if not 0: the sender is
                                       in this group, and the head is not */
};

/* Why a group was given up. From DIFFERS on, no node is left out for it. */
enum uw_gradients_why {
    UW_GRADIENTS_LATE,
    UW_GRADIENTS_GONE,
    UW_GRADIENTS_ENDED,
    UW_GRADIENTS_DIFFERS,
    UW_GRADIENTS_KNOCKED,
    UW_GRADIENTS_DEVICE,            /* the culprit's device failed; no culprit: all devices did */
    UW_GRADIENTS_BACK,              /* devices are available again: the head asks for a new group */
    UW_GRADIENTS_WHYS_N
};

/* A node because of which a group was given up. */
struct uw_gradients_blame {
    uint32_t id;
    uint8_t strikes;
    uint64_t until_us;              /* no group is given up for it before */
};

struct uw_node_gradients {
    bool on;
    struct uw_overlap overlap;
    struct uw_overlap_gate gate;

    /* between the threads */
    atomic_uint_least32_t begun, broken;        /* network: the last group begun; given up */
    atomic_uint_least32_t recalled;             /* training: the group that it wants to leave */
    atomic_uint_least32_t alone;                /* training: number of steps without a group */
    atomic_uint_least32_t hash, hash_step;      /* training; hash is written first */

    /* network thread */
    bool active;
    uint32_t waits;                             /* groups in a row on the link, until a device is
                                                   available */
    uint32_t group, ranks_n, rank;
    uint32_t ranks[UW_CELL_RANKS_MAX];          /* identities */
    uint16_t stations[UW_CELL_RANKS_MAX];
    uint64_t look_us;                           /* next update of stations */
    uint32_t past[UW_GRADIENTS_PAST], past_n;
    enum uw_gradients_why why;                  /* of the last group's end */
    uint32_t culprit;
    uint64_t began_us, break_us;
    uint64_t leave_us;                          /* gives up then, training has ended; 0: not yet */
    struct uw_deadline took;                    /* durations of steps */
    bool in_step;
    uint64_t step_us, moved_us;                 /* begin of the step; last progress */
    uint32_t moved;                             /* progress so far: uw_overlap_progress */
    uint32_t asked, asks_n, hops;               /* search for a culprit: rank asked, tries, hops */
    uint64_t ask_us;
    uint64_t knocked_us, knock_us;              /* first KNOCK received, 0: none; next to send */
    uint32_t alone_seen;
    uint64_t turn_us;                           /* end of others' turn: asks for no round before */
    struct uw_gradients_blame blamed[UW_GRADIENTS_BLAMED];
    uint32_t sent_step;                         /* step of the hash that was sent last */
    uint32_t hash_of[UW_CELL_RANKS_MAX], hash_at[UW_CELL_RANKS_MAX];

    /* training thread */
    uint32_t steps;
    bool grouped, handed;
};

/* Network. A round of the cell is committed: its ranks are a group from now on. */
void uw_node_gradients_begin(struct uw_node_state *s, const struct uw_node_scope *o);

/* Network. A member died, left or restarted. */
void uw_node_gradients_gone(struct uw_node_state *s, uint32_t id);

/* Network. This node's training has ended: let ranks that are behind finish, then give up. */
void uw_node_gradients_end(struct uw_node_state *s);

/* Network. A round left this node out, because it does not hear one of its ranks: the group that
 * begins has its turn. Is it not over yet? */
void uw_node_gradients_left_out(struct uw_node_state *s);
bool uw_node_gradients_waits(const struct uw_node_state *s);

/* Allocate memory if gradients are averaged. Returns UW_OK or what uw_overlap_place returns. */
int uw_node_gradients_place(struct uw_node_state *s, struct uw_arena *arena);

/* Average and watch progress. Returns the time of the next call if no message arrives. */
uint64_t uw_node_gradients_step(struct uw_node_state *s);

/* Handle a part of a fragment; a message of enum uw_gradients_act. */
void uw_node_gradients_part(struct uw_node_state *s, const struct uw_member *from,
                            const struct uw_part *part);
void uw_node_gradients_message(struct uw_node_state *s, const struct uw_member *from,
                               const struct uw_cell_message *m);

/* Training. As uw_node_after_step; as uw_node_recall. */
int uw_node_gradients_after_step(struct uw_node_state *s, const struct uw_node_progress *p);
void uw_node_gradients_recall(struct uw_node_state *s);

#endif
