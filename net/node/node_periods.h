/* SPDX-License-Identifier: Apache-2.0
 *
 * node_periods.h - the period of gossip as it follows from what pulls take: an optional part of a
 * node (node_parts.h)
 *
 * A pull counts as long as it lasts, and over a link that is shared at least as long as its
 * messages take within the duty cycle, and those of all members' pulls together without it: they
 * take turns. What was refused, given up for a silent peer, or of nothing new, does not count; what
 * took too long does. A broadcast average counts as what all members' models together take of the
 * medium, and not as long as it lasts: part of that is waiting for nodes whose period is longer.
 *
 * Memory     an arena's      Blocking  never      Context  network thread
 */
#ifndef UW_NET_NODE_PERIODS_H
#define UW_NET_NODE_PERIODS_H

#include "node_state.h"
#include "gossip/period.h"

struct uw_node_period {
    struct uw_period period;
    uint64_t since_us;              /* the last pull that counted ended then; 0: none began yet */
    uint32_t since_step;
};

struct uw_node_periods {
    struct uw_node_setup setup;
    void (*began)(struct uw_node_state *s);         /* a pull of gossip */
    void (*ended)(struct uw_node_state *s);         /* it did, and counts */
    /* A broadcast average did, of which began was told as well; all_us: what all its models take
     * together at this node's pace, where the link does not say. */
    void (*cast_ended)(struct uw_node_state *s, uint64_t all_us);
};

#endif
