/* SPDX-License-Identifier: Apache-2.0
 *
 * node_cast.h - broadcast averages of a node, over net/transfer/cast.h
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_CAST_H
#define UW_NET_NODE_CAST_H

#include "node/node_pull.h"
#include "transfer/cast.h"

#include <stdatomic.h>

struct uw_node_cast {
    struct uw_cast cast;
    uint32_t round;                 /* of gossip, of the current turn; 0: none */
    uint32_t version;               /* of the published snapshot */
    uint64_t blocked_until_us;      /* retry to send then */
    uint64_t bytes, began_us;
    uint32_t *ids;                  /* [members_max] */
    bool *mute;                     /* [members_max] by place: sends no broadcasts */
    atomic_bool ended;              /* training: has ended, and is published */
    atomic_uint_least32_t agreed_n; /* network: nodes with one model, this one too; 0: not known */
    bool alike;                     /* no node trains in this turn, and all received chunks equal
                                       this node's */
    bool late;                      /* a peer is in a turn that has ended here */
};

#endif
