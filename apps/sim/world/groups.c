/* SPDX-License-Identifier: Apache-2.0 */
#include "groups.h"

#include "snapshots.h"
#include "world.h"

#include "uwasa/sim_cost.h"

#include <stdlib.h>
#include <string.h>

/* Fill group_of and n. */
static int number(struct uw_world_groups *g, const struct uw_world_config *c)
{
    const struct uw_sim_fleet *fleet = c->fleet;
    g->n = 1;
    if (c->node.mode != UW_NODE_HIERARCHICAL) {
        return UW_OK;
    }
    uint32_t *cell_group = malloc((fleet->cells_n + 1u) * sizeof *cell_group);
    if (cell_group == NULL) {
        return UW_ERR_NOMEM;
    }
    memset(cell_group, 0xff, (fleet->cells_n + 1u) * sizeof *cell_group);   /* none: UINT32_MAX */
    g->n = 0;
    for (uint32_t i = 0; i < fleet->devices_n; i++) {
        uint32_t cell = fleet->devices[i].cell;
        bool alone = cell >= fleet->cells_n;
        g->group_of[i] = alone || cell_group[cell] == UINT32_MAX ? g->n++ : cell_group[cell];
        if (!alone) {
            cell_group[cell] = g->group_of[i];
        }
    }
    free(cell_group);
    return UW_OK;
}

int uw_world_groups_open(struct uw_world_groups *g, const struct uw_world_config *config)
{
    uint32_t n = config->fleet->devices_n, at = 0;
    g->members = calloc(n, sizeof *g->members);
    g->group_of = calloc(n, sizeof *g->group_of);
    g->group = calloc(n, sizeof *g->group);
    if (g->members == NULL || g->group_of == NULL || g->group == NULL || number(g, config) < 0) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        g->group[g->group_of[i]].nodes_n++;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        g->group[i].first = at;
        at += g->group[i].nodes_n;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct uw_world_group *own = &g->group[g->group_of[i]];
        g->members[own->first + own->waiting_n++] = i;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        struct uw_world_group *own = &g->group[i];
        const struct uw_sim_path path = uw_sim_path_among(config->fleet, g->members + own->first,
                                                          own->nodes_n);
        own->waiting_n = 0;
        own->bridge = UW_SNAPSHOT_NONE;
        own->takes_us = uw_world_us(uw_sim_allreduce_s(config->algorithm, own->nodes_n, &path,
                                                       (double)config->model_bytes,
                                                       &own->sent_bytes));
    }
    return UW_OK;
}

void uw_world_groups_close(struct uw_world_groups *g)
{
    free(g->members);
    free(g->group_of);
    free(g->group);
}
