/* SPDX-License-Identifier: Apache-2.0
 *
 * Fleets of devices that are all alike, for tests of simulated runs. */
#ifndef UWASA_EVEN_FLEET_H
#define UWASA_EVEN_FLEET_H

#include "test_support.h"

#include "uwasa/sim_fleet.h"

struct even_fleet {
    uint32_t devices_n;
    uint32_t cell_n;                /* neighbours that form a cell; 0: no cells */
    uint64_t up_bits_per_s;         /* that each can send; what it can receive is unlimited */
    uint64_t latency_us;            /* one way, between any two; half on each side, rounded up */
    uint64_t step_us;
};

/* Its cells are names only: their network is the same as between them. */
static inline void even_fleet_open(struct uw_sim_fleet *f, const struct even_fleet *even)
{
    uint32_t n = even->devices_n;
    uint32_t cells = even->cell_n != 0 ? (n + even->cell_n - 1u) / even->cell_n : 0;
    *f = (struct uw_sim_fleet){.devices_n = n, .cells_n = cells};
    f->devices = calloc(n + 1u, sizeof *f->devices);
    f->cells = calloc(cells + 1u, sizeof *f->cells);
    assert_non_null(f->devices);
    assert_non_null(f->cells);
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
}

static inline void even_fleet_close(struct uw_sim_fleet *f)
{
    free(f->devices);
    free(f->cells);
}

#endif
