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
 * Each hop is a queue of its own, first come, first served: a message enters it when it has left
 * the one before, and takes bytes * 8 / rate there. Latencies add up; they delay, and occupy
 * nothing. Inside one cell a message takes the cell's own network instead of the middle, and its
 * latency instead of the devices'. One that leaves or enters a cell with a shared channel takes
 * that channel too: the thin link begins behind it.
 *
 * Queues hold 50 ms of their rate, at least 8 of the largest messages and at most 1 MiB. A device
 * sees when its own is full, in front of its uplink and its cell's channel, and tries again later;
 * what comes to another full queue is lost. A message that is lost by chance takes its time on the
 * uplink and on the sender's channel all the same.
 *
 * Units      bits_per_s bits a second, 0: unlimited; _us microseconds of virtual time
 * Memory     tables are the owner's
 */
#ifndef UWASA_SIM_FLEET_H
#define UWASA_SIM_FLEET_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_SIM_NO_CELL UINT32_MAX

/* A time in which a device is not there: it computes nothing, and what is sent to it is lost. */
struct uw_sim_absence {
    uint64_t from_us, to_us;        /* of training time, 0 when training begins; to_us excluded */
    bool forgets;                   /* a restart: it is a newcomer then, without a checkpoint */
};

struct uw_sim_device {
    uint64_t up_bits_per_s, down_bits_per_s;
    uint64_t latency_us;            /* one way, to the middle: two devices are the sum apart */
    float loss;                     /* of the messages that it sends, 0 .. 1 */
    uint64_t step_us;               /* of one local step on it, 1 or more */
    uint64_t start_us;              /* its first step begins so much after training does */
    uint32_t cell;                  /* index of its cell, or UW_SIM_NO_CELL */
    const struct uw_sim_absence *absences;      /* [absences_n], by from_us, not overlapping */
    uint32_t absences_n;
};

/* Devices with a network of their own. */
struct uw_sim_cell {
    uint64_t bits_per_s;            /* of the channel, or of each device's port inside, each way; 0:
                                       only the devices' own rates count */
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

/* Count the devices of each cell: counts [cells_n]. */
void uw_sim_fleet_count(const struct uw_sim_fleet *f, uint32_t *counts);

/* When a device is away for the first time; UINT64_MAX: never. */
uint64_t uw_sim_fleet_first_away_us(const struct uw_sim_fleet *f);

/* When half of its devices have done so many steps each, without exchanges and with the absences
 * that come before: in microseconds, below 0 without memory. One that leaves for good does not
 * count, as the mean of them would have it. */
double uw_sim_fleet_trained_us(const struct uw_sim_fleet *f, double steps);

UW_C_END
#endif
