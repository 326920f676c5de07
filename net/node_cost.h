/* SPDX-License-Identifier: Apache-2.0
 *
 * node_cost.h - how long a node's averages take: measured once a group, learned from every round
 *
 * After the first round of a group its head probes what messages cost among the ranks
 * (network_probe.h), chooses the algorithm of the next rounds by it (network_cost.h), and tells the
 * ranks with every START, so that they send at the rate that the network takes. The median of every
 * few rounds that it leads corrects what it knows: devices compute beside, and now and then a round
 * waits for one of them. When that is far off again and again, it probes anew.
 */
#ifndef UW_NET_NODE_COST_H
#define UW_NET_NODE_COST_H

#include "network_cost.h"
#include "network_probe.h"

#define UW_NODE_COST_ROUNDS 5u      /* of which the median is learned from */

struct uw_node_cost {
    struct uw_network_fit fit;
    struct uw_network_probe probe;
    uint32_t group, shift;          /* that is probed, 0: none yet; rank of its head */
    bool measured, probing;         /* this node leads the probe that is under way */
    uint64_t began_us, took_us;     /* the round at hand; its all-reduce */
    uint64_t last_us[UW_NODE_COST_ROUNDS];  /* of rounds alike, going up */
    uint32_t last_n;
    enum uw_allreduce_kind kind;    /* theirs */
    float predicted_s;              /* 0: not known */
};

#endif
