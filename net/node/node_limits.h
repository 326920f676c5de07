/* SPDX-License-Identifier: Apache-2.0
 *
 * node_limits.h - how long a node waits where its configuration does not say: on a link of frames
 * it follows from the rate that the link has now
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_LIMITS_H
#define UW_NET_NODE_LIMITS_H

#include "node_state.h"

/* The least of what is not configured. */
#define UW_NODE_PING_US 700000u
#define UW_NODE_DEAD_US 10000000u
#define UW_NODE_PULL_US 120000000u
#define UW_NODE_PULL_SILENCE_US 4000000u

#define UW_NODE_SERVE_WINDOWS 4u

/* How long a link takes for so many bytes; 0: not known. */
static inline uint64_t uw_node_rate_us(uint64_t rate_bits_per_s, uint64_t bytes)
{
    return rate_bits_per_s != 0 ? bytes * 8u * 1000000u / rate_bits_per_s : 0;
}

/* How much longer a question may wait to be served, on a link of frames of this rate. */
static inline uint64_t uw_node_serve_us(const struct uw_node_config *c, uint64_t rate_bits_per_s)
{
    return UW_NODE_SERVE_WINDOWS * uw_node_rate_us(rate_bits_per_s, c->window_bytes);
}

/* node_swim.c: what membership may cost, in thousandths of bytes a second: as configured, or a
 * share of a thin link. */
uint64_t uw_node_membership_rate(const struct uw_node_config *c);

/* node_limits.c: as in struct uw_node_frames. */
void uw_node_set_limits(struct uw_node_state *s);
void uw_node_follow_rate(struct uw_node_state *s);

#endif
