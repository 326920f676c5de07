/* SPDX-License-Identifier: Apache-2.0
 *
 * cell_priv.h - what cell.c asks of cell_seats.c: what a head sees of the nodes of its cell; and
 * what a pair (node_exact/node_pairs.c), which has no head, asks of cell.c */
#ifndef UW_NET_CELL_PRIV_H
#define UW_NET_CELL_PRIV_H

#include "cell.h"

#define UW_CELL_READY_STALE_US 3000000u /* who is ready says so more often */

/* Is it this node, or one that can be reached? */
bool uw_cell_reaches(const struct uw_cell *c, uint32_t id);

/* Is it among the ranks? */
bool uw_cell_ranks(const struct uw_cell *c, uint32_t id);

/* Of those reached, with `ranks` only those of the round, the one to be head; UW_CELL_NOBODY: none
 * but `not`. */
uint32_t uw_cell_best(const struct uw_cell *c, bool ranks, uint32_t not);

/* A node's seat; NULL: it has none. seat_of: a new one if need be; NULL: all are taken by nodes
 * that matter. */
struct uw_cell_seat *uw_cell_seat(struct uw_cell *c, uint32_t id);
struct uw_cell_seat *uw_cell_seat_of(struct uw_cell *c, uint32_t id);

/* Is it ready, and can be reached? Does the next round wait for it? */
bool uw_cell_can_take_part(const struct uw_cell *c, const struct uw_cell_seat *s);
bool uw_cell_is_expected(const struct uw_cell *c, const struct uw_cell_seat *s);

/* Who is ready for the next round. */
struct uw_cell_gathered {
    uint32_t ready_n, expected_n, late_n;
    uint64_t since_us;              /* the first of those expected, or of all, is ready */
};
struct uw_cell_gathered uw_cell_gather(const struct uw_cell *c);

/* Before there was any round: is a node in sight not ready yet? In patient cells: can one that is
 * not given up not take part now? */
bool uw_cell_lacks_anybody(struct uw_cell *c);
bool uw_cell_lacks_one(struct uw_cell *c);

/* The lower median of what all who are ready hand in. */
float uw_cell_median_rms(const struct uw_cell *c);

/* All who can take part, in order, into a START. */
void uw_cell_list_ranks(struct uw_cell *c, struct uw_cell_message *m);

/* How far the ranks of the round are. */
struct uw_cell_tally {
    uint32_t ranks_n, left_n, prepared_n, answered_n, progress;
    bool committed, aborted, out_of_reach;
    uint32_t aborter, gone, silent; /* identities, or UW_CELL_NOBODY */
};
struct uw_cell_tally uw_cell_count(const struct uw_cell *c);

/* Everybody answers and yet nothing moves: the one whom the hindmost waits for. */
uint32_t uw_cell_culprit(struct uw_cell *c);

/* Is a message of a wait before the one that this node is known to be in? */
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

/* What this node knows of a round; remember what became of it, if it is not remembered yet. */
enum uw_cell_status uw_cell_status_of(const struct uw_cell *c, uint32_t group, uint32_t round);
void uw_cell_note(struct uw_cell *c, uint32_t group, uint32_t round, bool committed);

/* cell.c. Tell a node what this one knows of a round; tell the owner. */
void uw_cell_send_state(struct uw_cell *c, uint32_t to, uint32_t group, uint32_t round);
void uw_cell_report(struct uw_cell *c, enum uw_cell_news_kind kind, uint32_t id);

#endif
