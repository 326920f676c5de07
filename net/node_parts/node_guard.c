/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip/guard.h"
#include "node/node_pull.h"
#include "cell/cell.h"

static int place_follower(const struct uw_node_state *s, struct uw_arena *arena,
                          struct uw_guard **out)
{
    struct uw_distances *d;
    int rc = uw_distances_place(&d, arena, s->config.params->segments_n, 0, 0);
    if (d != NULL) {
        d->follower = true;
    }
    *out = d != NULL ? &d->base : NULL;
    return rc;
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    struct uw_distances *d;
    int rc = uw_distances_place(&d, arena, c->params->segments_n,
                                c->guard_averages ? UW_CELL_RANKS_MAX : 0,
                                c->mode == UW_NODE_BROADCAST ? c->members_max : 0);
    s->gossip.guard = d != NULL ? &d->base : NULL;
    return rc;
}

const struct uw_node_guards uw_node_guards = {.setup = {.place = place},
                                              .place_follower = place_follower};
