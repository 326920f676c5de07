/* SPDX-License-Identifier: Apache-2.0
 *
 * node_ping.h - a node's hellos, pings, acks and beacons, and what a link must carry of them
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_PING_H
#define UW_NET_NODE_PING_H

#include "node_state.h"

#define UW_NODE_HEARS_MIN 40u   /* bytes; of frames of 51 */
#define UW_NODE_OTHERS 1u       /* records that every ping has, in turn */

/* node_mtu.c */

/* Can pings carry all that this device may come to tell? Returns UW_OK or UW_ERR_TOOBIG. */
int uw_node_check_mtu(struct uw_node_state *s, struct uw_error *err);

/* node_ping.c */

/* Make s->message a hello, ping or ack with news of this device. */
void uw_node_fill_ping(struct uw_node_state *s, enum uw_wire_type type, uint32_t seq);

/* Send one with news of this device, and as many as fit of news of others and of
 * records of so many others of whom there is none. */
void uw_node_ping(struct uw_node_state *s, uint16_t station, enum uw_wire_type type, uint32_t seq,
                  uint32_t others);

#define UW_NODE_LEFT_OUT_MOST 11u       /* things, one after the other: node_frames.c */

/* Call members and seeds that are due. */
void uw_node_call_members(struct uw_node_state *s);

#endif
