/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - a run of many nodes simulated in this process: real training, virtual time
 *
 *     sim_flags.c    flags
 *     cmd_sim.c      checks of flags and scenario together
 *     sim_run.c      set-up and the loop over virtual time; sim_run.h: its parts
 *     sim_report.c   reports: events, a table, lines for a person
 *
 * Each node has its own parameters, velocity and optimizer state. Each thread has a model with its
 * own activations, and points it at the node whose step it computes.
 *
 * Units      seconds where a name says nothing else      Context  main thread
 */
#ifndef UWASA_CLI_SIM_H
#define UWASA_CLI_SIM_H

#include "base/args.h"
#include "base/events.h"
#include "base/progress.h"
#include "job/exchange.h"
#include "uwasa/board.h"
#include "uwasa/data.h"
#include "uwasa/kept.h"
#include "uwasa/radio_profile.h"
#include "uwasa/sim_scenario.h"
#include "uwasa/sim_skew.h"
#include "uwasa/sim_world.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_sim_options {
    const char *model, *data, *skew, *json;
    struct uw_choice backend, train_loss;   /* train_loss: enum uw_loss_word */
    struct uw_exchange exchange;
    const char *lr_schedule, *csv, *label;
    const char *link;                       /* a radio shared by all; NULL: bandwidth, latency */
    struct uw_radio_profile radio;          /* parsed from link */
    uint32_t nodes, cell_nodes, batch, epochs, eval_samples, consensus_rounds, mtu;
    uint32_t threads;                       /* 0: one per core */
    uint32_t eval_nodes;                    /* most nodes whose models are tested */
    uint64_t steps, seed, bandwidth;
    double lr, weight_decay;
    double latency, loss, step_seconds;     /* step_seconds 0: measured */
    double until_accuracy;                  /* 0: no limit */
    double virtual_seconds;                 /* end of the run; 0: no limit */
    double start_spread;                    /* seconds; below 0: one local step */
    uint32_t eval_epochs;                   /* between tests; 0: none */
    double eval_seconds;                    /* between additional tests; 0: none */
    uint64_t eval_steps;                    /* the same, in local steps of the slowest node */
    bool eval_mixed;                        /* a test is after the exchange that follows the step */
    uint64_t pull_window;
    double timeline;                        /* report exchanges in the first seconds; 0: none */
    const char *checkpoint, *resume;        /* files; NULL: none */
    double checkpoint_seconds;              /* between two, real time; 0: only at the end */
    const struct uw_opts *flags;            /* the table of these options */
    bool profile;                           /* see struct uw_sim_profile */
    bool per_node;                          /* tests report every node's accuracy */
    struct uw_skew dealt;                   /* parsed from skew */
    struct uw_choice network;               /* enum uw_world_network */
    struct uw_choice algorithm;             /* enum uw_sim_algorithm */
    uint64_t model_bytes;                   /* 0: 4 per parameter */
    uint32_t pull_latencies;                /* 0: 2 */
    bool pull_waits;
    const char *config;                     /* a scenario file */
    bool dry_run, devices;
    bool advise;                            /* see sim_advise.h */
    double advise_seconds, advise_runs;     /* budget; runs 0: seconds limit it */
    const struct uw_sim_scenario *scenario; /* the devices, from file and flags */
};

/* No limit of steps: virtual time ends the run. */
#define UW_SIM_STEPS_ENDLESS UINT64_MAX

/* The flags; a scenario file has most of them as keys. */
extern const struct uw_opts uw_sim_flags;
extern const struct uw_args_spec uw_sim_args;

enum uw_sim_flag_fact {
    UW_SIM_FLAG_NO_KEY,                     /* names a file of results, or has a better key */
    UW_SIM_FLAG_FREE,                       /* may change when a run is resumed */
    UW_SIM_FLAG_UNTOLD                      /* not in the event "start" under its own key */
};
bool uw_sim_flag_is(enum uw_sim_flag_fact fact, const char *flag);

/* Quality of the nodes' models at one moment. */
struct uw_sim_score {
    double accuracy, worst, best;           /* over the nodes' own models: mean, extremes */
    double lower_quartile, upper_quartile;  /* interpolated linearly between nodes */
    double loss;                            /* mean over the nodes */
    double mean_model_accuracy;             /* of the mean of all models */
    double consensus_distance;              /* see struct uw_sim_apart */
    double *accuracies;                     /* [nodes] the run's */
    uint32_t nodes;                         /* that were tested */
};

struct uw_sim_trial;

#define UW_SIM_TIMELINE_MAX 100000u         /* limit of exchanges, and of steps, reported */
#define UW_SIM_TEST_REASONS 3u              /* epochs, steps, seconds */

struct uw_sim_report {
    const struct uw_sim_options *o;
    const struct uw_world *w;
    struct uw_sim_trial *trial;             /* if not NULL, gets all reports instead */
    struct uw_progress progress;
    struct uw_events events;
    FILE *csv;                              /* NULL: no table */
    char *csv_last;                         /* last row of the resumed file, until one is added */
    bool csv_failed;                        /* no memory for a row */
    uint64_t start_us;                      /* of this process's clock */
    uint64_t train_us;                      /* the same, when the first step began */
    uint64_t steps, per_epoch;              /* of each node; steps may be UW_SIM_STEPS_ENDLESS */
    uint64_t node_steps;                    /* of all nodes together, so far ... */
    uint64_t resumed_steps;                 /* ... of these, before this process */
    bool resumed;                           /* resumed from a checkpoint ... */
    double resumed_s;                       /* ... at this virtual time */
    uint64_t passed[UW_SIM_TEST_REASONS];   /* intervals between tests passed so far */
    uint32_t due;                           /* bit per reason: a test was due when saved */
    uint32_t exchanges_reported, exchanges_left_out, steps_reported;
};

/* What the nodes have done by the end of the run. Goodput is the time of all steps, divided by the
 * time in which their nodes were there and had steps left. */
struct uw_sim_work {
    uint64_t least, most;                   /* steps of one node */
    double mean, goodput;
};

/* The moment of a test. */
struct uw_sim_moment {
    double epochs, virtual_seconds, bytes_sent;
    uint64_t step;                          /* of the slowest node */
    const struct uw_sim_score *score;
};

/* Run it. Progress goes to standard error, the result to standard output and to the events.
 * Returns the exit status. */
int uw_sim_run(const struct uw_sim_options *o);

/* Draw a scenario for a model without running it, and show it: a table on standard output, and
 * events "fleet" and "done" if json is set; with a radio also the time of exchanges. Refuses what a
 * run would refuse. If a step is to be measured, that is done on generated data. Returns the exit
 * status. */
int uw_sim_dry_run(const struct uw_sim_options *o);

/* What the candidates of an advice share: the data, and the time of a step on this machine. */
struct uw_sim_inputs {
    struct uw_data data, test;
    struct uw_kept trains, tests;   /* the same data, partly cached in memory */
    struct uw_deal deal;
    uint64_t step_us;               /* measured; 0: not yet */
    uint64_t open_us;               /* real time that opening them took */
    bool open;
};

/* Close what the trials opened. Safe on a zeroed struct and twice. */
void uw_sim_inputs_close(struct uw_sim_inputs *in);

/* A run that reports only to its caller: one candidate of an advice. Its callbacks return false to
 * end the run. */
struct uw_sim_trial {
    struct uw_sim_inputs *inputs;           /* of all candidates; the first run opens them */
    bool tests_last;                        /* make a last test, without a report */
    double next_s;                          /* virtual time of the next test: set by the caller */
    double whole_s;                         /* length of the full run, even if this one ends sooner:
                                               learning rate schedules span it. 0: not known yet */
    /* Before the first step. */
    void (*on_open)(struct uw_sim_trial *t, const struct uw_sim_report *r);
    bool (*on_step)(struct uw_sim_trial *t, double virtual_seconds);
    bool (*on_test)(struct uw_sim_trial *t, const struct uw_sim_moment *m);
    bool stopped;                           /* set: by a signal */
    int status;                             /* set: to exit with, when it could not be prepared */
    struct uw_error err;                    /* set: what failed */
};

/* Run a trial. Options that name files for results must be NULL. Returns UW_OK or an error. */
int uw_sim_try(const struct uw_sim_options *o, struct uw_sim_trial *t);

/* Open the files for events and table; they are emptied when both could be opened. Close in every
 * case. Returns UW_OK or UW_ERR_IO. */
int uw_sim_report_open(struct uw_sim_report *r, struct uw_error *err);

/* Report what is about to be simulated: an event "start" and a line. */
void uw_sim_report_start(struct uw_sim_report *r, uint32_t params_n);

/* Report that a node has done its step'th local step. */
void uw_sim_report_trained(struct uw_sim_report *r, uint32_t node, uint64_t step);

/* Report an exchange of a node, for the time line. As world_config.on_event; arg is the report. */
void uw_sim_report_exchange(void *arg, uint32_t node, const struct uw_node_event *event);

/* Show the progress, now and then. step: of the slowest node; score may be NULL. Returns whether to
 * continue the run: a trial may end it. */
bool uw_sim_report_step(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score);

/* The finished share of the run, 0 .. 1, by steps of one node or by virtual time; for a trial the
 * share of the full run. */
double uw_sim_report_share(const struct uw_sim_report *r, double steps);

/* Whether a test is due when the slowest node has done `step` steps: at the end of an epoch, of
 * --eval-steps or of --eval-seconds. Returns true once for each. */
bool uw_sim_report_due(struct uw_sim_report *r, uint64_t step);

/* Whether a test is due now, or will be when the slowest node has done exactly so many steps. */
bool uw_sim_report_near(const struct uw_sim_report *r, uint64_t step);

/* Which tests are due and not yet made, as bits to save for uw_sim_report_go_on. */
uint32_t uw_sim_report_dues(const struct uw_sim_report *r, uint64_t step);

/* Start the reports of a resumed run, perhaps with other tests: of past tests only those in r->due
 * are still due. */
void uw_sim_report_go_on(struct uw_sim_report *r, uint64_t step);

/* Report a test. Returns as uw_sim_report_step. */
bool uw_sim_report_eval(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score);

/* Report that only the last test is left, which may take long. */
void uw_sim_report_last_test(struct uw_sim_report *r);

/* Report if the run did not include the absences of a scenario: it ended before the first one, or
 * was longer than those that were drawn. */
void uw_sim_report_absences(struct uw_sim_report *r, const struct uw_sim_draw *d);

/* Report that the run was stopped, and its progress; score NULL: no test was made. */
void uw_sim_report_stopped(struct uw_sim_report *r, uint64_t step,
                           const struct uw_sim_score *score);

/* Report the end of the run. */
void uw_sim_report_done(struct uw_sim_report *r, const struct uw_sim_work *work,
                        const struct uw_sim_score *score);

/* Safe on a zeroed struct and twice. Returns UW_OK, or UW_ERR_IO when something was not written. */
int uw_sim_report_close(struct uw_sim_report *r, struct uw_error *err);

/* CPU time of a run (--profile). Training is the nodes' local steps; tests are those of models and
 * of their mean; network is the world: protocols, links and the clock; the rest is the loop that
 * drives them, and threads looking for work. Set-up and the nodes' first contact are not included.
 * _ns are nanoseconds of CPU time, not of real time. */
struct uw_sim_profile {
    bool on;
    uint64_t start_ns;                      /* of the process */
    uint64_t network_ns;
    struct {
        uint64_t training_ns, tests_ns;
        uint64_t apart[6];                  /* padding: one cache line per thread */
    } threads[UW_BOARD_WORKERS_MAX];
};

/* CPU time of this thread so far; 0 if the profile is off, to save the system call. Any thread. */
uint64_t uw_sim_profile_now(const struct uw_sim_profile *p);

/* Count from now on, if the profile is on. */
void uw_sim_profile_start(struct uw_sim_profile *p);

/* Write an event "profile" and a table on standard error, if the profile is on. */
void uw_sim_profile_report(const struct uw_sim_profile *p, struct uw_sim_report *r);

#endif
