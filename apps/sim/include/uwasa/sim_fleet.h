/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_fleet.h - the devices of a simulated run and the network between them
 *
 * A fleet is a table. A scenario fills it with given values, or draws them with a seed; a world
 * only reads it. Messages between two devices take the path
 *
 *     sender's uplink -> [its cell's channel or thin link] -> the middle -> [the other cell's]
 *                                                                 -> receiver's downlink
 *
 * Each hop is a first-in, first-out queue: a message enters it when it has left the hop before, and
 * takes bytes * 8 / rate there. Latencies are added to the delay and do not occupy a queue. Inside
 * one cell a message takes the cell's network instead of the middle, and the cell's latency instead
 * of the devices'. A message that leaves or enters a cell with a shared channel also takes that
 * channel, because the thin link begins behind it.
 *
 * A queue holds 50 ms of its rate, at least 8 of the largest messages and at most 1 MiB. A device
 * notices if the queue of its uplink or of its cell's channel is full, and tries again later; a
 * message that reaches another full queue is lost. A message that is lost at random still takes its
 * time on the uplink and on the sender's channel.
 *
 * Units      bits_per_s bits a second, 0: unlimited; _us microseconds of virtual time
 * Memory     the caller owns the tables
 */
#ifndef UWASA_SIM_FLEET_H
#define UWASA_SIM_FLEET_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_SIM_NO_CELL UINT32_MAX

/* A time in which a device is away: it computes nothing, and messages to it are lost. */
struct uw_sim_absence {
    uint64_t from_us, to_us;        /* of training time, 0 is its start; to_us is excluded */
    bool forgets;                   /* it restarts after it, as a newcomer without a checkpoint */
};

/* What an attacker shows to others instead of its model. It has the run's key, knows all honest
 * models, and follows the protocol. The strength is k. */
enum uw_sim_attack {
    UW_SIM_HONEST = 0,
    UW_SIM_SIGN_FLIP,               /* -k times the mean of the honest models */
    UW_SIM_SCALE,                   /* k times the mean */
    UW_SIM_NOISE,                   /* the mean and normal noise, k times its rms */
    UW_SIM_OLD,                     /* the initial model */
    UW_SIM_LITTLE,                  /* the mean less k standard deviations of the honest models.
                                       Source: G. Baruch et al., "A Little Is Enough", 2019 */
    UW_SIM_LABELS                   /* its own model, trained with each class as the next one */
};

struct uw_sim_device {
    uint64_t up_bits_per_s, down_bits_per_s;
    uint64_t latency_us;            /* one way to the middle; between two devices it is the sum */
    float loss;                     /* share of the messages that it sends, 0 .. 1 */
    uint64_t step_us;               /* of one local step, 1 or more */
    uint64_t start_us;              /* time from the start of training to its first step */
    uint32_t cell;                  /* index of its cell, or UW_SIM_NO_CELL */
    enum uw_sim_attack attack;
    float strength;                 /* of the attack */
    const struct uw_sim_absence *absences;      /* [absences_n], by from_us, not overlapping */
    uint32_t absences_n;
};

/* Devices with a network of their own. */
struct uw_sim_cell {
    uint64_t bits_per_s;            /* of the channel, or of each device's port inside, each way; 0:
                                       only the devices' own rates count */
    uint64_t latency_us;            /* one way, between two of its devices */
    bool shared;                    /* one channel for all, one message at a time, as on the air */
    uint64_t out_bits_per_s;        /* of the thin link to the middle, each way; 0: unlimited */
    uint64_t out_latency_us;        /* in addition, one way */
};

struct uw_sim_fleet {
    struct uw_sim_device *devices;  /* [devices_n] */
    uint32_t devices_n;
    struct uw_sim_cell *cells;      /* [cells_n] */
    uint32_t cells_n;
};

/* Count the devices of each cell. counts [cells_n] is written. */
void uw_sim_fleet_count(const struct uw_sim_fleet *f, uint32_t *counts);

/* The first time at which a device is away; UINT64_MAX: never. */
uint64_t uw_sim_fleet_first_away_us(const struct uw_sim_fleet *f);

/* The time in microseconds at which half of the devices have done `steps` steps each, without
 * exchanges but with their absences. Not the mean, which devices that leave for good would distort.
 * Returns a negative number without memory. */
double uw_sim_fleet_trained_us(const struct uw_sim_fleet *f, double steps);

UW_C_END
#endif
