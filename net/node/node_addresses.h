/* SPDX-License-Identifier: Apache-2.0
 *
 * node_addresses.h - what discovery calls of the part for several addresses of a node: the part is
 * node_parts/node_addresses.c, its memory membership/member_addresses.h
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_ADDRESSES_H
#define UW_NET_NODE_ADDRESSES_H

#include "node_optional.h"

/* All but the setup only while s->config.own_addresses is set. */
struct uw_node_addresses {
    struct uw_node_setup setup;
    const struct uw_member_addresses *members;      /* of peers: membership.h */
    /* Append this node's further addresses, or those of the peer of the last record, to the message
     * of so many bytes in s->buffer, if they fit. Return its bytes. */
    uint32_t (*add_own)(struct uw_node_state *s, uint32_t bytes, uint32_t mtu);
    uint32_t (*add_of)(struct uw_node_state *s, const uwasa_Peer *peer, uint32_t bytes,
                       uint32_t mtu);
    /* Take those behind the record of a peer that ends at `at` of the message in s->in; 0: that of
     * the sender. */
    void (*take)(struct uw_node_state *s, const uwasa_Peer *peer, uint32_t at, uint32_t bytes);
};

#endif
