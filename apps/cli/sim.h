/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - a run of many nodes simulated in this process: real training, virtual time
 *
 *     cmd_sim.c      flags
 *     sim_run.c      trains the nodes in turns through one model, in the order of sim_world.h
 *     sim_report.c   what is told of it
 *
 * Each node has parameters, velocity and optimizer state of its own; the activations are shared. A
 * step copies a node's parameters into the model and back.
 *
 * Units      seconds where a name says nothing else      Context  main thread
 */
#ifndef UWASA_CLI_SIM_H
#define UWASA_CLI_SIM_H

#include "args.h"
#include "events.h"
#include "progress.h"
#include "uwasa/sim_scenario.h"
#include "uwasa/sim_skew.h"
#include "uwasa/sim_world.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_sim_options {
    const char *model, *data, *exchange, *schedule, *momentum_rule, *skew, *backend, *json;
    const char *lr_schedule;
    uint32_t nodes, cell_nodes, period, batch, epochs, eval_samples, consensus_rounds, mtu, threads;
    uint64_t steps, seed, bandwidth;
    double lr, momentum, weight_decay;      /* momentum < 0: not given */
    double latency, step_seconds;           /* step_seconds 0: measured */
    double until_accuracy;                  /* 0: no limit */
    struct uw_skew dealt;                   /* from skew, once it is checked */
    const char *config;                     /* a scenario file */
    bool dry_run, devices;
    const struct uw_sim_scenario *scenario; /* the devices: what file and flags say together */
};

/* The flags; a scenario file has most of them as keys. */
extern const struct uw_opts uw_sim_flags;

/* How good the nodes' models are at one moment. */
struct uw_sim_score {
    double accuracy, worst, best;           /* over the nodes' own models: mean, extremes */
    double loss;                            /* mean over the nodes */
    double mean_model_accuracy;             /* of the one model that is the mean of all */
};

struct uw_sim_report {
    const struct uw_sim_options *o;
    struct uw_progress progress;
    struct uw_events events;
    uint64_t start_us;                      /* of this process's clock */
    uint64_t steps, per_epoch;              /* of each node */
};

/* Run it. Progress goes to standard error, the result to standard output and to the events.
 * Returns the exit status. */
int uw_sim_run(const struct uw_sim_options *o);

/* Tell what is about to be simulated: an event "start" and a line. */
void uw_sim_report_start(struct uw_sim_report *r, const struct uw_world *w, uint32_t params_n);

/* Show how far it is, now and then. step: of the slowest node; score may be NULL. */
void uw_sim_report_step(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *score);

/* Tell a test at the end of an epoch. */
void uw_sim_report_eval(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *score);

/* Tell the end of it. */
void uw_sim_report_done(struct uw_sim_report *r, const struct uw_world *w, uint64_t step,
                        const struct uw_sim_score *score);

#endif
