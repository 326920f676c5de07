/* SPDX-License-Identifier: Apache-2.0
 *
 * node_shuffle.h - a node's part in lending samples (shuffle.h): whom to, and over which link
 *
 * Memory     an arena; the pool of the node's configuration      Context  network thread
 */
#ifndef UW_NET_NODE_SHUFFLE_H
#define UW_NET_NODE_SHUFFLE_H

#include "shuffle/shuffle.h"

#include "uwasa/peer_schedule.h"

struct uw_node_shuffle {
    struct uw_shuffle loans;
    const struct uw_peer_schedule *schedule;
};

#endif
