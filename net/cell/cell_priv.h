/* SPDX-License-Identifier: Apache-2.0
 *
 * cell_priv.h - functions of cell_seats.c, the nodes as their head knows them, for cell.c; and
 * functions of cell.c for pairs (node_exact/node_pairs.c), which have no head */
#ifndef UW_NET_CELL_PRIV_H
#define UW_NET_CELL_PRIV_H

#include "cell.h"

#define UW_CELL_AVOID_US 2000000u       /* of a node; doubles with each strike */
#define UW_CELL_PART_US 60000000u       /* of a pair: trying again costs all ranks a stall. The
                                           first time for AVOID_US, if much has arrived
                                           or the network loses much */
#define UW_CELL_AVOID_DOUBLINGS 5u
#define UW_CELL_UNHEARD_US 1500000u /* a rank that has just joined is heard by then */
#define UW_CELL_READY_STALE_US 3000000u /* READY is repeated more often */

/* Is it this node, or a reachable one? */
bool uw_cell_reaches(const struct uw_cell *c, uint32_t id);

/* Has a node the same head as this one, as far as is known? */
bool uw_cell_shares_head(const struct uw_cell *c, uint32_t id);

/* Is it among the first n? */
static inline bool uw_cell_lists(const uint32_t *ids, uint32_t n, uint32_t id)
{
    uint32_t i = 0;
    while (i < n && ids[i] != id) {
        i++;
    }
    return i < n;
}

static inline bool uw_cell_ranks(const struct uw_cell *c, uint32_t id)
{
    return uw_cell_lists(c->ranks, c->ranks_n, id);
}

/* The node that should be head, of the reachable ones, with `ranks` of the round's; without, none
 * that follows one that this node does not reach. UW_CELL_NOBODY: none except `not`. */
uint32_t uw_cell_best(const struct uw_cell *c, bool ranks, uint32_t not);

/* The seat of a node; NULL: none. seat_of: assigns one if needed; NULL: all seats are in use. */
struct uw_cell_seat *uw_cell_seat(struct uw_cell *c, uint32_t id);
struct uw_cell_seat *uw_cell_seat_of(struct uw_cell *c, uint32_t id);

/* Is it ready and reachable? Does the next round wait for it? */
bool uw_cell_can_take_part(const struct uw_cell *c, const struct uw_cell_seat *s);
bool uw_cell_is_expected(const struct uw_cell *c, const struct uw_cell_seat *s);

/* The nodes that are ready for the next round. */
struct uw_cell_gathered {
    uint32_t ready_n, expected_n, late_n;
    uint64_t since_us;              /* READY of the first one expected, or of any */
};
struct uw_cell_gathered uw_cell_gather(const struct uw_cell *c);

/* Before the first round: is any node not ready that follows this one, as far as is known? In
 * patient cells: is any live node not ready or not reachable? */
bool uw_cell_lacks_anybody(struct uw_cell *c);
bool uw_cell_lacks_one(struct uw_cell *c);

/* The lower median of the rms of all ready nodes. */
float uw_cell_median_rms(const struct uw_cell *c);

/* List the ready and reachable nodes, in order, in a START, but of two that do not hear each other
 * only one. */
void uw_cell_list_ranks(struct uw_cell *c, struct uw_cell_message *m);

/* A listed rank that a node and it do not hear each other; UW_CELL_NOBODY: there is none. */
uint32_t uw_cell_deaf_rank(const struct uw_cell *c, const struct uw_cell_message *start,
                           const struct uw_cell_seat *s);

/* Progress of the ranks of the round. */
struct uw_cell_tally {
    uint32_t ranks_n, left_n, prepared_n, answered_n, progress;
    bool committed, aborted, out_of_reach;
    uint32_t aborter, gone, silent; /* identities, or UW_CELL_NOBODY */
};
struct uw_cell_tally uw_cell_count(const struct uw_cell *c);

/* The cause of a stall although all ranks answer: the slowest rank, and the one that it waits for;
 * UW_CELL_NOBODY: not known. arrived: what has of what it waits for, in 65535ths. */
uint32_t uw_cell_culprit(struct uw_cell *c, uint32_t *waits, uint32_t *arrived);

/* After so long without progress the decider polls the ranks, and a rank asks its decider, every
 * poll_us, as a round takes several times as long as an answer. Who is silent for so long then, and
 * to so many of them, is lost to the round. */
uint64_t uw_cell_stall_us(const struct uw_cell *c);
uint64_t uw_cell_poll_us(const struct uw_cell *c);
uint64_t uw_cell_silent_us(const struct uw_cell *c);
#define UW_CELL_POLLS_MAX 4u

/* Does a message belong to an earlier wait of its sender? */
bool uw_cell_is_late(const struct uw_cell *c, const struct uw_cell_seat *seat,
                     const struct uw_cell_message *m);

static inline bool uw_cell_is_decided(enum uw_cell_status status)
{
    return status == UW_CELL_COMMITTED || status == UW_CELL_ABORTED;
}

/* Is this node in a round? In this one? */
static inline bool uw_cell_in_round(const struct uw_cell *c)
{
    return c->state == UW_CELL_IN_ROUND || c->state == UW_CELL_HAS_RESULT;
}

static inline bool uw_cell_at_hand(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    return uw_cell_in_round(c) && c->group == group && c->round == round;
}

/* The status of a round at this node; store its outcome, if not stored yet. */
enum uw_cell_status uw_cell_status_of(const struct uw_cell *c, uint32_t group, uint32_t round);
void uw_cell_note(struct uw_cell *c, uint32_t group, uint32_t round, bool committed);

/* cell_head.c. Messages to the head, also from this node itself; gone: a node has died or left. */
void uw_cell_head_ready(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);
void uw_cell_head_state(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);
void uw_cell_head_gone(struct uw_cell *c, uint32_t id);

/* Decide in place of a lost head. */
void uw_cell_take_over(struct uw_cell *c, uint32_t lost);

/* Gather, watch, decide. Returns the time of the next call. */
uint64_t uw_cell_run_head(struct uw_cell *c);

/* cell.c. Handle a START, maybe of this node itself; end this node's part in a round.
 *   m  STATE with the two ranks between which it stalled, or NULL */
void uw_cell_begin(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);
void uw_cell_conclude(struct uw_cell *c, bool commit, uint32_t culprit,
                      const struct uw_cell_message *m);

/* Go on without an average: this node is an outlier, the cell is full (UW_CELL_NOBODY), or it does
 * not hear the culprit, a rank. */
void uw_cell_go_without(struct uw_cell *c, uint32_t culprit);

/* Send the status of a round to a node; report to the owner. */
void uw_cell_send_state(struct uw_cell *c, uint32_t to, uint32_t group, uint32_t round);
void uw_cell_report(struct uw_cell *c, enum uw_cell_news_kind kind, uint32_t id);

#endif
