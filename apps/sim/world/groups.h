/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.h - groups of nodes that average exactly with each other, and the time of an average
 *
 * All nodes are one group. With mode UW_NODE_HIERARCHICAL each cell is a group, and so is each
 * device without a cell, in the order of their first devices.
 *
 * Units      _us microseconds      Memory  from the heap
 */
#ifndef UWASA_SIM_GROUPS_H
#define UWASA_SIM_GROUPS_H

#include "uwasa/sim_world.h"

struct uw_world_group {
    uint32_t first, nodes_n;        /* in members */
    uint32_t waiting_n, ended_n;    /* nodes that wait for the average; that average no more */
    uint32_t bridge;                /* snapshot that its head pulled, to be mixed in */
    float weight;                   /* of that snapshot */
    uint64_t takes_us;
    double sent_bytes;
};

struct uw_world_groups {
    struct uw_world_group *group;   /* [n] */
    uint32_t n;
    uint32_t *members, *group_of;   /* [devices_n] places by group; group of a place */
};

/* Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_world_groups_open(struct uw_world_groups *g, const struct uw_world_config *config);

void uw_world_groups_close(struct uw_world_groups *g);

#endif
