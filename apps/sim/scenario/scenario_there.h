/* SPDX-License-Identifier: Apache-2.0
 *
 * scenario_there.h - between scenario.c and scenario_there.c: when devices are there */
#ifndef UWASA_SIM_SCENARIO_THERE_H
#define UWASA_SIM_SCENARIO_THERE_H

#include "uwasa/rng.h"
#include "uwasa/sim_scenario.h"

/* What is drawn of a device, each from a stream of its own. */
enum uw_sim_stream {
    UW_SIM_STREAM_UP = 0x5ce90001,  /* far from the streams that a run makes of the same seed */
    UW_SIM_STREAM_DOWN, UW_SIM_STREAM_LATENCY, UW_SIM_STREAM_SECONDS,
    UW_SIM_STREAM_SPEED, UW_SIM_STREAM_STRAGGLERS, UW_SIM_STREAM_THERE, UW_SIM_STREAM_CELL_BITS,
    UW_SIM_STREAM_CELL_LATENCY, UW_SIM_STREAM_OUT_BITS, UW_SIM_STREAM_OUT_LATENCY
};

/* The stream of device (cell, group) i. */
struct uw_rng uw_sim_stream(uint64_t seed, enum uw_sim_stream stream, uint32_t i);

/* Uniform in [0, 1), 53 bits. */
double uw_sim_uniform(struct uw_rng *rng);

/* Draw the absences of all devices, whose table is complete but for them.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_INVALID with err filled. */
int uw_sim_draw_absences(struct uw_sim_draw *d, struct uw_error *err);

#endif
