/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_broadcast.h - the end of a run in mode broadcast: when have all nodes one model?
 *
 * An average that some hear whole and others do not leaves them with different models, and nobody
 * can be sure that all heard it. But where all that take part showed one model, and none of them
 * trains any more, no average among them changes it, whoever hears how much of it. So a node that
 * has heard all of such an average may leave at any time.
 *
 *     uw_node_cast_end, uw_node_after_step (lr 0), again, until uw_node_cast_agreed; then a little
 *     longer, for those that missed it
 *
 * Blocking   never      Context  each function names its thread
 */
#ifndef UWASA_NODE_BROADCAST_H
#define UWASA_NODE_BROADCAST_H

#include "uwasa/cplusplus.h"
#include "uwasa/node.h"

UW_C_BEGIN

/* Context training. Training has ended for good: call before each
 * uw_node_after_step from then on, with lr 0. Once all nodes that are seen have one model, and none
 * of them trains, this node begins no more averages; it follows who does.
 * Returns whether what others see has all of the training: until then tell them a samples_per_s
 * above 0. */
bool uw_node_cast_end(struct uw_node *n);

/* Any context. So many nodes have one model by broadcast, this one too, as a whole average after
 * the training of all of them has shown: no average of theirs changes it any more, one that is cut
 * neither. 0: not known, or somebody trains. */
uint32_t uw_node_cast_agreed(const struct uw_node *n);

UW_C_END
#endif
