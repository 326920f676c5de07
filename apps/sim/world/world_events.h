/* SPDX-License-Identifier: Apache-2.0
 *
 * events.h - a world of shipped nodes over simulated links
 *
 *     events.c       what happens when
 *     events_open.c  set-up: the nodes' configuration, memory, whom they know at first
 */
#ifndef UWASA_SIM_EVENTS_H
#define UWASA_SIM_EVENTS_H

#include "clock.h"
#include "world.h"
#include "medium/medium.h"

#define UW_SEAT_NAME_BYTES 16u
#define UW_SEAT_SEEDS 16u           /* addresses that a node is given when it cannot know all */

/* What a node has beside sim_world.h's struct. */
struct uw_seat {
    struct uw_world_node *node;
    void *memory;                   /* of the node, in the block of all */
    uint64_t net_at_us;             /* when its network wants to be called */
    uint64_t train_known_us;        /* train_at_us when the clock was set */
    uint64_t sent_before;           /* bytes sent before training */
    uint32_t absence;               /* the next one, or the present one */
    bool away, active, listed;      /* active: it trains or will; listed: in changed */
    bool untouched;                 /* its training would not be looked at, when that was told */
    struct uw_seat *next_changed;
    struct uw_node_counters counted;    /* before its restarts */
    char name[UW_SEAT_NAME_BYTES], address[12], cell[16];
    const char *seeds[UW_SEAT_SEEDS];
};

struct uw_world_events_state {
    struct uw_sim_net net;
    struct uw_sim_clock clock;
    struct uw_seat *seats;          /* [devices_n] */
    uint8_t *arenas;                /* of all nodes, node_bytes each */
    size_t node_bytes;
    struct uw_node_member *rows;    /* [members_max] */
    uint32_t *cell_sizes;           /* [cells_n] */
    uint32_t active_n;
    uint32_t events_n;              /* of uw_world_next so far; wraps */
    bool training;
    struct uw_seat *changed;        /* whose train_at_us the caller may have set */
};

/* As in struct uw_world_ops. */
void uw_world_events_defaults(struct uw_world_config *c);
int uw_world_events_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err);
int uw_world_events_open(struct uw_world *w, struct uw_error *err);

/* Set a node up in its memory, for the first time or after a restart.
 * Returns what uw_node_bind does. */
int uw_seat_bind(struct uw_world *w, struct uw_seat *s, struct uw_error *err);

#endif
