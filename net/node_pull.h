/* SPDX-License-Identifier: Apache-2.0
 *
 * node_pull.h - the pull of a round, between the files that make it
 *
 *     node_pull.c        rounds: begin, go on with another peer, end
 *     node_pull_data.c   what is asked, and what comes of it
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_PULL_H
#define UW_NET_NODE_PULL_H

#include "node_state.h"

#define UW_NODE_AVOID_US 2000000u           /* who stopped in a pull is left alone for so long */
#define UW_NODE_VERSION_MIXED UINT32_MAX    /* chunks of more than one peer */

/* node_pull.c */

/* Begin the pull of a round from the member at this place; adopt: its model is taken over. */
void uw_node_pull_start(struct uw_node_state *s, uint32_t round, uint32_t place, bool adopt);

/* The pull is over; a cut one counts as such, and an event says why. */
void uw_node_pull_finish(struct uw_node_state *s, enum uw_gossip_end how);
void uw_node_pull_cut(struct uw_node_state *s, enum uw_node_why why);

/* A member's chunk is refused: it is left alone for a while, and the pull is cut. */
void uw_node_pull_refuse(struct uw_node_state *s, struct uw_member *m,
                         enum uw_node_event_kind kind);

/* node_pull_data.c */

/* Send the questions that are due. */
void uw_node_pull_ask(struct uw_node_state *s);

#endif
