/* SPDX-License-Identifier: Apache-2.0
 *
 * cell_inner.h - between cell.c, a node's part in a round, and cell_head.c and cell_watch.c, that
 * of the head
 */
#ifndef UW_NET_CELL_INNER_H
#define UW_NET_CELL_INNER_H

#include "cell.h"

/* The row of an identity, or NULL. */
const struct uw_cell_member *uw_cell_find(const struct uw_cell *c, uint32_t id);

/* Is it this node, or one that can be reached? */
bool uw_cell_reaches(const struct uw_cell *c, uint32_t id);

/* Is it among the ranks? */
bool uw_cell_ranks(const struct uw_cell *c, uint32_t id);

void uw_cell_tell(struct uw_cell *c, enum uw_cell_news_kind kind, uint32_t id);

/* What this node knows of a round. */
enum uw_cell_status uw_cell_status_of(const struct uw_cell *c, uint32_t group, uint32_t round);

/* Remember what became of a round, if it is not remembered yet. */
void uw_cell_note(struct uw_cell *c, uint32_t group, uint32_t round, bool committed);

/* Tell a node what this one knows of a round. */
void uw_cell_say(struct uw_cell *c, uint32_t to, uint32_t group, uint32_t round);

/* This node is told to begin; itself may be the one who tells. */
void uw_cell_start(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);

/* This node goes on without: as an outlier, because the cell is full, or unable. */
void uw_cell_refused(struct uw_cell *c, enum uw_cell_news_kind why);

/* The round at hand is decided. */
void uw_cell_decide(struct uw_cell *c, bool commit, uint32_t culprit);

void uw_cell_head_ready(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);
void uw_cell_head_state(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m);
void uw_cell_head_gone(struct uw_cell *c, uint32_t id);

/* A node's seat, a new one if need be; NULL: all are taken by nodes that matter. */
struct uw_cell_seat *uw_cell_seat_of(struct uw_cell *c, uint32_t id);

/* The head's START to one of its ranks, who sees in it which of its waits is answered. */
void uw_cell_send_start(struct uw_cell *c, uint32_t to);

/* To all of h.start but this node. */
void uw_cell_send_to_ranks(struct uw_cell *c, const struct uw_cell_message *m);

/* Find out who is ready and begin a round. Returns when to look again. */
uint64_t uw_cell_gather(struct uw_cell *c);

/* Watch over the round of h.start. */
void uw_cell_watch_begin(struct uw_cell *c, bool taken_over);

/* This node decides in the place of one that vanished. */
void uw_cell_head_take_over(struct uw_cell *c, uint32_t lost);

/* Gather, watch, decide. Returns when it wants to run again. */
uint64_t uw_cell_head_run(struct uw_cell *c);

#endif
