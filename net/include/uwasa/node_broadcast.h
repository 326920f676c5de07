/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_broadcast.h - end a run in mode broadcast with one model on all nodes
 *
 * An average that some nodes receive in full and others do not leaves them with different models,
 * and no node can be sure that all have received it. But once all participants have sent one model
 * in an average, and none of them trains any more, further averages among them change nothing,
 * however much of them arrives. A node that has received such an average in full may leave.
 *
 *     uw_node_cast_end, uw_node_after_step (lr 0), again, until uw_node_cast_agreed; then a little
 *     longer, for nodes that missed it
 *
 * Blocking   never      Context  see each function
 */
#ifndef UWASA_NODE_BROADCAST_H
#define UWASA_NODE_BROADCAST_H

#include "uwasa/cplusplus.h"
#include "uwasa/node.h"

UW_C_BEGIN

/* Context training. After the end of training, call before each uw_node_after_step, with lr 0. Once
 * all live nodes have one model and none trains, this node begins no more averages, but joins those
 * of others.
 * Returns whether the published model includes all of the training; until then report a
 * samples_per_s above 0. */
bool uw_node_cast_end(struct uw_node *n);

/* Any context. Number of nodes, this one included, that have one model for good: a complete average
 * after the end of their training has shown it. No further average of theirs changes the model, not
 * even one that is cut. 0: not known, or a node still trains. */
uint32_t uw_node_cast_agreed(const struct uw_node *n);

UW_C_END
#endif
