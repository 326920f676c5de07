/* SPDX-License-Identifier: Apache-2.0
 *
 * node_averages.h - a node's exact averages: what its files call of each other
 *
 *     node_averages.c    set-up, what comes in, the table that the node knows
 *     node_cell.c        gather, average, decide
 *     node_bridge.c      between cells
 *     node_cost.c        what averages cost
 *     node_gradients*.c  of every step's gradients
 *     node_near.c        cells that are found
 *     node_pairs.c       committed pairs
 *     node_news.c        what there is to tell
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_AVERAGES_H
#define UW_NET_NODE_AVERAGES_H

#include "node_bridge.h"
#include "node_cell.h"
#include "node_cost.h"
#include "node_gradients_priv.h"
#include "node_pairs.h"
#include "node/node_pull.h"

/* The state of a node that takes part in averages. */
struct uw_node_exact {
    struct uw_node_cell cell;
    struct uw_node_bridge bridge;
    struct uw_node_gradients gradients;
    struct uw_node_pairs pairs;
    struct uw_node_cost cost;
};

/* node_near.c */

/* Find the cell of a node that was not given one: the nodes that are near, and those near to them.
 * Near is with whom an exact average costs a tenth of a round's training at most, and more where
 * nodes' samples differ, by round trip and rate of pulls, and who trains at the same pace, which
 * the first round tells; while a rate is not known, who is within config.near_us. They go by the
 * least identity among them, which each takes over from its neighbours while its owner is alive.
 * Returns when to look again. */
uint64_t uw_node_near_step(struct uw_node_state *s);

/* Training has handed its parameters over for an average; it has them back, averaged with others or
 * not. */
void uw_node_near_asked(struct uw_node_state *s);
void uw_node_near_back(struct uw_node_state *s, bool averaged);

/* node_cell.c */

/* Take the memory of a scope's cell, of so many ranks. Returns UW_OK or what uw_arena_take
 * returns. */
int uw_node_cell_place(struct uw_node_state *s, struct uw_arena *arena,
                       enum uw_average_scope scope, uint32_t ranks);

/* Gather, average, decide. Returns when it wants to run again, if nothing arrives. */
uint64_t uw_node_cell_step(struct uw_node_state *s);

/* Is the all-reduce done? Then agree on it. */
void uw_node_cell_look(struct uw_node_state *s);

/* Floats of one data part. */
uint32_t uw_node_cell_chunk_n(const struct uw_node_state *s);

/* Is there room to work so on what a scope averages? */
bool uw_node_cell_has_room(const struct uw_node_scope *o, enum uw_allreduce_kind kind);

/* node_news.c */

/* UW_NODE_CELL_ALONE, UW_NODE_CELLS_MEET. */
void uw_node_tell_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us);

/* There is no room for this node in its cell, or no way for it to take part. */
void uw_node_tell_full(struct uw_node_state *s);

/* News of a cell. */
void uw_node_tell_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news);

/* UW_NODE_GRADIENTS, UW_NODE_GRADIENTS_CUT. */
void uw_node_tell_gradients(struct uw_node_state *s, enum uw_node_event_kind kind);

/* Pairs are given up, because a member has (told_by), or because of too many half-open ones. */
void uw_node_tell_retreat(struct uw_node_state *s, const struct uw_member *told_by);

/* News of a pair, but for an outlier. */
void uw_node_tell_pair(struct uw_node_state *s, const struct uw_cell_news *news);

#endif
