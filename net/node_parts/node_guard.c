/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip/guard.h"
#include "node/node_pull.h"

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    bool one = c->mode == UW_NODE_GOSSIP && !uw_node_pairs_up(c) && c->pull_peers <= 1u;
    return one ? UW_OK : UW_NODE_FAULT(fault, guard, "needs gossip with one peer a round");
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    struct uw_distances *d;
    int rc = uw_distances_place(&d, arena, s->config.params->segments_n);
    s->gossip.guard = d != NULL ? &d->base : NULL;
    return rc;
}

const struct uw_node_guards uw_node_guards = {.setup = {.check = check, .place = place}};
