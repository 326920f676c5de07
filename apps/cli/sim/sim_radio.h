/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_radio.h - a run over a radio: what one exchange takes there, and how many go into the run
 *
 * As `uwasa plan --link` says it (link_cost.h); the losses are the mean of the devices'.
 *
 * Units      seconds      Blocking  never      Context  main thread
 */
#ifndef UWASA_CLI_SIM_RADIO_H
#define UWASA_CLI_SIM_RADIO_H

#include "sim.h"

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

/* Tell it, and what the radio is, in lines on standard output. */
void uw_sim_radio_print(const struct uw_sim_options *o, const struct uw_sim_radio *r);

/* Tell why a run that is over exchanged nothing, in a line on standard output. */
void uw_sim_radio_print_none(const struct uw_sim_options *o, uint32_t floats_n);

/* What uw_sim_radio_print tells, as an object "radio" of an event. */
void uw_sim_radio_put(cJSON *ev, const struct uw_sim_options *o, const struct uw_sim_radio *r);

#endif
