/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.h - nodes that average exactly with each other, and what one average of them takes
 *
 * One group of all nodes; with mode UW_NODE_HIERARCHICAL one of each cell, and of each device
 * without a cell, in the order of their first devices.
 *
 * Units      _us microseconds      Memory  from the heap
 */
#ifndef UWASA_SIM_GROUPS_H
#define UWASA_SIM_GROUPS_H

#include "uwasa/sim_world.h"

struct uw_world_group {
    uint32_t first, nodes_n;        /* in members */
    uint32_t waiting_n, ended_n;    /* of them: wait for the average; average no more */
    uint32_t bridge;                /* what its head pulled and this average takes: a snapshot */
    float weight;                   /* of it */
    uint64_t takes_us;
    double sent_bytes;
};

struct uw_world_groups {
    struct uw_world_group *group;   /* [n] */
    uint32_t n;
    uint32_t *members, *group_of;   /* [devices_n] places, group by group; of a place */
};

/* Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_world_groups_open(struct uw_world_groups *g, const struct uw_world_config *config);

void uw_world_groups_close(struct uw_world_groups *g);

#endif
