/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip/guard.h"
#include "node/node_pull.h"
#include "cell/cell.h"

static int make(const struct uw_node_state *s, struct uw_arena *arena, uint32_t ranks_max,
                uint32_t senders_max, struct uw_guard **out)
{
    struct uw_distances *d;
    int rc = uw_distances_place(&d, arena, s->config.params->segments_n, ranks_max, senders_max);
    *out = d != NULL ? &d->base : NULL;
    return rc;
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    return make(s, arena, c->guard_averages ? UW_CELL_RANKS_MAX : 0,
                c->mode == UW_NODE_BROADCAST ? c->members_max : 0, &s->gossip.guard);
}

const struct uw_node_guards uw_node_guards = {.setup = {.place = place}, .make = make};
