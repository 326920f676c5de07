/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_fleet.h - the devices of a simulated run and what lies between them
 *
 * A fleet is a table: a scenario fills it (drawn from distributions and a seed, or given), a world
 * reads it and never writes. Two devices talk over
 *
 *     sender's uplink -> [its cell's channel or thin link] -> the middle -> [the other cell's]
 *                                                                 -> receiver's downlink
 *
 * Each hop is a queue of its own: a message enters it when it has left the one before, and takes
 * bytes * 8 / rate there. Latencies add up; they delay, and do not occupy. Inside one cell a message
 * takes the cell's own network instead of the middle.
 *
 * Units      bits_per_s bits a second, 0: unlimited; _us microseconds of virtual time
 * Memory     tables are the owner's
 */
#ifndef UWASA_SIM_FLEET_H
#define UWASA_SIM_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#define UW_SIM_NO_CELL UINT32_MAX

/* A time in which a device is not there: it computes nothing, and what is sent to it is lost. */
struct uw_sim_absence {
    uint64_t from_us, to_us;        /* of training time, 0 when training begins; to_us excluded */
    bool forgets;                   /* a restart: it returns as a newcomer, as without a checkpoint */
};

struct uw_sim_device {
    uint64_t up_bits_per_s, down_bits_per_s;
    uint64_t latency_us;            /* one way, to the middle: two devices are the sum apart */
    float loss;                     /* of the messages that it sends, 0 .. 1 */
    uint64_t step_us;               /* of one local step on it, 1 or more */
    uint32_t cell;                  /* index of its cell, or UW_SIM_NO_CELL */
    const struct uw_sim_absence *absences;      /* [absences_n], by from_us, not overlapping */
    uint32_t absences_n;
};

/* Devices with a network of their own. */
struct uw_sim_cell {
    uint64_t bits_per_s;            /* of the network inside; 0: only the devices' own rates count */
    uint64_t latency_us;            /* one way, between two of its devices */
    bool shared;                    /* one channel for all of them, as on the air: one at a time */
    uint64_t out_bits_per_s;        /* of the thin link to the middle, each way; 0: unlimited */
    uint64_t out_latency_us;        /* in addition, one way */
};

struct uw_sim_fleet {
    struct uw_sim_device *devices;  /* [devices_n] */
    uint32_t devices_n;
    struct uw_sim_cell *cells;      /* [cells_n] */
    uint32_t cells_n;
};

#endif
