/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_draw.h - the devices of a simulated run and the radio between them: drawn, foreseen, shown
 *
 * Units      as in sim_file.h      Context  main thread
 */
#ifndef UWASA_CLI_SIM_DRAW_H
#define UWASA_CLI_SIM_DRAW_H

#include "sim.h"
#include "job/job.h"

/* Draw a fleet for a model that is planned: what a step costs is counted from its plan.
 *   measured_us  a step on this machine; only looked at where devices are as fast as it
 * Returns what uw_sim_draw_open and uw_model_describe return, err filled. Close the draw in every
 * case. */
int uw_sim_fleet_draw(struct uw_sim_draw *d, const struct uw_sim_scenario *scenario,
                      const struct uw_job *job, uint64_t measured_us, struct uw_error *err);

/* Report what was drawn: an event "fleet", and to print a table on standard output. Over a radio
 * the devices' own networks do not count, and are left out. Returns UW_OK or UW_ERR_NOMEM. */
int uw_sim_fleet_show(struct uw_events *events, const struct uw_sim_draw *d, bool radio,
                      bool print);

/* Start each device at a random moment within `seconds`. Below 0: within one of its own steps, as
 * devices that are started independently. */
void uw_sim_fleet_start(struct uw_sim_fleet *f, double seconds, uint64_t seed);

/* How long a training step takes here on the n samples that the model has before it: the median of
 * some, which change its weights. Returns UW_OK, or what failed, err filled. */
int uw_sim_time_step(struct uw_job *job, uint32_t n, uint64_t *took_us, struct uw_error *err);

/* Print the table of devices with its sources, or write it as events "device" and "done". Returns
 * the exit status. */
int uw_sim_print_devices(const char *json);

/* ---- a radio that all devices share ----
 *
 * What one exchange takes there, and how many go into the run, as `uwasa plan --link` predicts it
 * (link_cost.h); the losses are the mean of the devices'. */

struct uw_sim_radio {
    bool averages;                  /* an exchange is an average of all, else one node's pull */
    double one_s;                   /* that one takes, with the air to itself */
    double round_s;                 /* that one of every node takes */
    double exchanges;               /* of all nodes together, about, in the time that steps take */
};

/* Foresee it.
 *   o         checked; link is a radio
 *   floats_n  of the model
 *   steps     of each node; UW_SIM_STEPS_ENDLESS: until --virtual-seconds
 *   step_s    that one takes */
struct uw_sim_radio uw_sim_radio_foresee(const struct uw_sim_options *o, uint32_t floats_n,
                                         uint64_t steps, double step_s);

/* Print it, and what the radio is, in lines on standard output. */
void uw_sim_radio_print(const struct uw_sim_options *o, const struct uw_sim_radio *r);

/* Print why a run that is over exchanged nothing, in a line on standard output. */
void uw_sim_radio_print_none(const struct uw_sim_options *o, uint32_t floats_n);

/* What uw_sim_radio_print prints, as an object "radio" of an event. */
void uw_sim_radio_put(cJSON *ev, const struct uw_sim_options *o, const struct uw_sim_radio *r);

#endif
