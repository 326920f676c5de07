/* SPDX-License-Identifier: Apache-2.0
 *
 * node_swim.h - a node's hellos, pings, acks and beacons
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_SWIM_H
#define UW_NET_NODE_SWIM_H

#include "node_state.h"

#define UW_NODE_HEARS_MIN 40u   /* bytes; of frames of 51 */
#define UW_NODE_OTHERS 1u       /* records that every ping has, in turn */

/* Make s->message a hello, ping or ack with news of this device. */
void uw_node_fill_ping(struct uw_node_state *s, uint32_t seq);

/* Send one with news of this device, and as many as fit of news of others and of
 * records of so many others of whom there is none. */
void uw_node_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type, uint32_t seq,
                  uint32_t others);

#define UW_NODE_LEFT_OUT_MOST 11u       /* things, one after the other: node_frames.c */

#endif
