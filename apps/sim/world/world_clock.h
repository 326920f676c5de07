/* SPDX-License-Identifier: Apache-2.0
 *
 * world_clock.h - finds the node that is due next: a heap with one entry per node, ordered by time,
 * then by kind of event, then by number
 *
 * Units      _us microseconds
 * Memory     from the heap      Context  one thread
 */
#ifndef UWASA_SIM_WORLD_CLOCK_H
#define UWASA_SIM_WORLD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of events, in the order of those at the same time. Training comes before the network, so
 * what it publishes is available to a pull at that time. */
enum uw_sim_turn {
    UW_SIM_RETURNS,                 /* from an absence */
    UW_SIM_TRAINS,                  /* ends a step */
    UW_SIM_GOES,
    UW_SIM_MESSAGE,                 /* only in the network's heap, never in this one */
    UW_SIM_NETWORK,                 /* the node asked to be called */
};

struct uw_sim_due {
    uint64_t at_us;
    uint32_t turn, place;
};

struct uw_sim_clock {
    struct uw_sim_due *heap;        /* [nodes_n] */
    uint32_t *where;                /* [nodes_n] a node's place in the heap */
    uint32_t nodes_n;
};

/* Start with no node due. Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_sim_clock_open(struct uw_sim_clock *c, uint32_t nodes_n);

/* Change when a node is due, and for what. */
void uw_sim_clock_set(struct uw_sim_clock *c, uint32_t place, uint64_t at_us,
                      enum uw_sim_turn turn);

/* The next node that is due; at_us UINT64_MAX: none. */
static inline const struct uw_sim_due *uw_sim_clock_first(const struct uw_sim_clock *c)
{
    return &c->heap[0];
}

/* Safe on a zeroed struct and twice. */
void uw_sim_clock_close(struct uw_sim_clock *c);

#endif
