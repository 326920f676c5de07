/* SPDX-License-Identifier: Apache-2.0
 *
 * even_fleet.h - fleets of equal devices for tests of the simulator */
#ifndef UWASA_TEST_EVEN_FLEET_H
#define UWASA_TEST_EVEN_FLEET_H

#include "uwasa/sim_fleet.h"

#include <stdlib.h>

/* Devices that are all alike. */
struct even_fleet {
    uint32_t devices_n;
    uint32_t cell_n;                /* neighbours that form a cell; 0: no cells */
    uint64_t up_bits_per_s;         /* that each can send; what it can receive is unlimited */
    uint64_t latency_us;            /* one way, between any two; half on each side, rounded up */
    uint64_t step_us;
};

/* Free what even_fleet_open took. Safe on a zeroed struct and twice. */
static inline void even_fleet_close(struct uw_sim_fleet *f)
{
    free(f->devices);
    free(f->cells);
    *f = (struct uw_sim_fleet){.devices = NULL};
}

/* Make the table of an even fleet. Its cells are names only: their network is the same as between
 * them. Returns UW_OK or UW_ERR_NOMEM. */
static inline int even_fleet_open(struct uw_sim_fleet *f, const struct even_fleet *even)
{
    uint32_t n = even->devices_n;
    uint32_t cells = even->cell_n != 0 ? (n + even->cell_n - 1u) / even->cell_n : 0;
    *f = (struct uw_sim_fleet){.devices_n = n, .cells_n = cells};
    f->devices = calloc(n + 1u, sizeof *f->devices);
    f->cells = calloc(cells + 1u, sizeof *f->cells);
    if (f->devices == NULL || f->cells == NULL) {
        even_fleet_close(f);
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        f->devices[i] = (struct uw_sim_device){
            .up_bits_per_s = even->up_bits_per_s,
            .latency_us = even->latency_us / 2u + even->latency_us % 2u,
            .step_us = even->step_us,
            .cell = even->cell_n != 0 ? i / even->cell_n : UW_SIM_NO_CELL};
    }
    for (uint32_t i = 0; i < cells; i++) {
        f->cells[i] = (struct uw_sim_cell){.latency_us = even->latency_us};
    }
    return UW_OK;
}

#endif
