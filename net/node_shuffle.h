/* SPDX-License-Identifier: Apache-2.0
 *
 * node_shuffle.h - a node's part in lending samples (shuffle.h): whom to, and over which link
 *
 * Memory     an arena; the pool of the node's configuration      Context  network thread
 */
#ifndef UW_NET_NODE_SHUFFLE_H
#define UW_NET_NODE_SHUFFLE_H

#include "shuffle.h"

#include "uwasa/peer_schedule.h"

struct uw_node_state;

struct uw_node_shuffle {
    struct uw_shuffle loans;
    const struct uw_peer_schedule *schedule;
};

/* Take the memory of loans. Returns UW_OK or what uw_arena_take returns. */
int uw_node_shuffle_place(struct uw_node_state *s, struct uw_arena *arena);

/* Lend and borrow. Returns when it wants to run again, if nothing arrives. */
uint64_t uw_node_shuffle_step(struct uw_node_state *s);

/* A message about a loan, in s->buffer. */
void uw_node_shuffle_message(struct uw_node_state *s, uint16_t station, uint32_t bytes);

#endif
