/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_draw.h - draw, predict and show the devices of a simulated run and the radio between them
 *
 * Units      as in sim_file.h      Context  main thread
 */
#ifndef UWASA_CLI_SIM_DRAW_H
#define UWASA_CLI_SIM_DRAW_H

#include "sim.h"
#include "job/job.h"

/* Draw a fleet for a planned model: the cost of a step is computed from its plan.
 *   measured_us  a step on this machine; used only for devices that are as fast as it
 * Returns what uw_sim_draw_open and uw_model_describe return, err filled. Close the draw in every
 * case. */
int uw_sim_fleet_draw(struct uw_sim_draw *d, const struct uw_sim_scenario *scenario,
                      const struct uw_job *job, uint64_t measured_us, struct uw_error *err);

/* Report what was drawn: an event "fleet" and, if asked for, a table on standard output. With a
 * radio the devices' own networks are not used, and omitted. Returns UW_OK or UW_ERR_NOMEM. */
int uw_sim_fleet_show(struct uw_events *events, const struct uw_sim_draw *d, bool radio,
                      bool print);

/* Start each device at a random moment within `seconds`. Below 0: within one of its own steps, as
 * devices that are started independently. */
void uw_sim_fleet_start(struct uw_sim_fleet *f, double seconds, uint64_t seed);

/* Measure a training step here on the n samples in the model's input: the median of several steps,
 * which change its weights. Returns UW_OK or an error, err filled. */
int uw_sim_time_step(struct uw_job *job, uint32_t n, uint64_t *took_us, struct uw_error *err);

/* Print the table of devices with its sources, or write it as events "device" and "done". Returns
 * the exit status. */
int uw_sim_print_devices(const char *json);

/* ---- a radio that all devices share ----
 *
 * The time of one exchange and the number of exchanges in a run, as `uwasa plan --link` predicts
 * them (link_cost.h), with the mean of the devices' losses. */

struct uw_sim_radio {
    bool averages;                  /* an exchange is an average of all, else one node's pull */
    double one_s;                   /* time of one exchange alone on the air */
    double round_s;                 /* time of one exchange of every node */
    double exchanges;               /* of all nodes together, about, during the run's steps */
};

/* Predict it.
 *   o         checked; link is a radio
 *   floats_n  of the model
 *   steps     of each node; UW_SIM_STEPS_ENDLESS: until --virtual-seconds
 *   step_s    time of a step */
struct uw_sim_radio uw_sim_radio_foresee(const struct uw_sim_options *o, uint32_t floats_n,
                                         uint64_t steps, double step_s);

/* Print the prediction and the radio's properties, as lines on standard output. */
void uw_sim_radio_print(const struct uw_sim_options *o, const struct uw_sim_radio *r);

/* Print, as a line on standard output, why a finished run exchanged nothing. */
void uw_sim_radio_print_none(const struct uw_sim_options *o, uint32_t floats_n);

/* Add what uw_sim_radio_print prints to an event, as an object "radio". */
void uw_sim_radio_put(cJSON *ev, const struct uw_sim_options *o, const struct uw_sim_radio *r);

#endif
