/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_fleet.h - the devices of a simulated run: drawn for a model, and shown
 *
 * Units      as in sim_scenario.h      Context  main thread
 */
#ifndef UWASA_CLI_SIM_FLEET_H
#define UWASA_CLI_SIM_FLEET_H

#include "base/events.h"
#include "job/job.h"

#include "uwasa/sim_scenario.h"

/* Draw a fleet for a model that is planned: what a step costs is counted from its plan.
 *   measured_us  a step on this machine; only looked at where devices are as fast as it
 * Returns what uw_sim_draw_open and uw_model_describe return, err filled. Close the draw in every
 * case. */
int uw_sim_fleet_draw(struct uw_sim_draw *d, const struct uw_sim_scenario *scenario,
                      const struct uw_job *job, uint64_t measured_us, struct uw_error *err);

/* Tell what was drawn: an event "fleet", or a table on standard output. Over a radio the devices'
 * own networks do not count, and are left out. Return UW_OK or UW_ERR_NOMEM. */
int uw_sim_fleet_put(struct uw_events *events, const struct uw_sim_draw *d, bool radio);
int uw_sim_fleet_print(const struct uw_sim_draw *d, bool radio);

/* Let the devices begin at random moments within `seconds`; below 0: each within a step of its own,
 * which is where real ones are that nobody has set going together. */
void uw_sim_fleet_start(struct uw_sim_fleet *f, double seconds, uint64_t seed);

/* How long a training step takes here on the n samples that the model has before it: the median of
 * some, which change its weights. Returns UW_OK, or what failed, err filled. */
int uw_sim_time_step(struct uw_job *job, uint32_t n, uint64_t *took_us, struct uw_error *err);

struct uw_sim_options;

/* Draw a scenario for a model without running it, and show it: a table on standard output, and
 * events "fleet" and "done" where json says; of a radio also what exchanges take, and what the run
 * would refuse is refused. A step that is to be measured is, on made-up data. Returns the exit
 * status. */
int uw_sim_dry_run(const struct uw_sim_options *o);

/* Print the table of devices with its sources, or write it as events "device" and "done". Returns
 * the exit status. */
int uw_sim_print_devices(const char *json);

#endif
