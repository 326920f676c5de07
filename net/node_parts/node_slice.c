/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_slice.h"

#include "base/bits.h"

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    if (c->slices_n <= UW_NODE_SLICES_MAX && c->mode == UW_NODE_GOSSIP && !uw_node_pairs_up(c)) {
        return UW_OK;
    }
    return UW_NODE_FAULT(fault, slices_n, "more than 1, to 32, are for gossip, not by pairs");
}

static void pick(struct uw_node_state *s, struct uw_node_range *range)
{
    struct uw_node_pull *p = &s->pull;
    uint32_t chunks = p->transfer.chunks;
    uint32_t slices_n = uw_min_u32(s->config.slices_n, chunks);
    if (slices_n < 2u) {
        return;
    }
    uint32_t k = uw_node_slice(s->membership.members[0].id, p->round, slices_n);
    uint32_t rest = chunks % slices_n;
    *range = (struct uw_node_range){k, chunks / slices_n * k + uw_min_u32(k, rest),
                                    chunks / slices_n + (k < rest)};
    uw_pull_only(&p->transfer, range->from, range->n);
    p->slices = (uint32_t)1 << k;
}

const struct uw_node_slices uw_node_slices = {{check, NULL}, pick};
