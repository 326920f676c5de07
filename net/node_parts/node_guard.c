/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip/guard.h"
#include "node/node_pull.h"
#include "cell/cell.h"

/* Not of broadcasts: what is usual in a model says little of their small chunks. */
static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    if (s->config.mode == UW_NODE_BROADCAST) {
        return UW_OK;
    }
    struct uw_distances *d;
    int rc = uw_distances_place(&d, arena, s->config.params->segments_n,
                                s->config.guard_averages ? UW_CELL_RANKS_MAX : 0);
    s->gossip.guard = d != NULL ? &d->base : NULL;
    return rc;
}

const struct uw_node_guards uw_node_guards = {.setup = {.place = place}};
