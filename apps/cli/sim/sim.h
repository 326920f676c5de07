/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - a run of many nodes simulated in this process: real training, virtual time
 *
 *     sim_flags.c    flags
 *     cmd_sim.c      what of flags and scenario goes together
 *     sim_run.c      set-up and the loop over virtual time; sim_run.h: its parts
 *     sim_report.c   what is reported: events, a table, lines for a person
 *
 * Each node has parameters, velocity and optimizer state of its own. Each thread has a model, which
 * it points at the node whose step it computes; the activations are the model's.
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
    struct uw_choice backend;
    struct uw_exchange exchange;
    const char *lr_schedule, *csv, *label;
    const char *link;                       /* a radio that all share; NULL: bandwidth, latency */
    struct uw_radio_profile radio;          /* from link, once it is checked */
    uint32_t nodes, cell_nodes, batch, epochs, eval_samples, consensus_rounds, mtu;
    uint32_t threads;                       /* 0: one a core */
    uint32_t eval_nodes;                    /* whose models are tested, at most */
    uint64_t steps, seed, bandwidth;
    double lr, weight_decay;
    double latency, loss, step_seconds;     /* step_seconds 0: measured */
    double until_accuracy;                  /* 0: no limit */
    double virtual_seconds;                 /* it ends then; 0: no limit */
    double start_spread;                    /* seconds; below 0: a local step */
    uint32_t eval_epochs;                   /* between tests; 0: none */
    double eval_seconds;                    /* between tests beside those of the epochs; 0: none */
    uint64_t eval_steps;                    /* the same, in local steps of the slowest node */
    uint64_t pull_window;
    double timeline;                        /* exchanges of the first so many seconds; 0: none */
    const char *checkpoint, *resume;        /* files; NULL: none */
    double checkpoint_seconds;              /* between two, on the wall; 0: only at the end */
    const struct uw_opts *flags;            /* the table that these options are read by */
    bool profile;                           /* see struct uw_sim_profile */
    bool per_node;                          /* tests report every node's accuracy */
    struct uw_skew dealt;                   /* from skew, once it is checked */
    struct uw_choice network;               /* enum uw_world_network */
    struct uw_choice algorithm;             /* enum uw_sim_algorithm */
    uint64_t model_bytes;                   /* 0: 4 a parameter */
    uint32_t pull_latencies;                /* 0: 2 */
    bool pull_waits;
    const char *config;                     /* a scenario file */
    bool dry_run, devices;
    bool advise;                            /* see sim_advise.h */
    double advise_seconds, advise_runs;     /* runs 0: the seconds count */
    const struct uw_sim_scenario *scenario; /* the devices, by file and flags together */
};

/* No limit was given: the clock ends the run. */
#define UW_SIM_STEPS_ENDLESS UINT64_MAX

/* The flags; a scenario file has most of them as keys. */
extern const struct uw_opts uw_sim_flags;
extern const struct uw_args_spec uw_sim_args;

enum uw_sim_flag_fact {
    UW_SIM_FLAG_NO_KEY,                     /* names a file of results, or has a better key */
    UW_SIM_FLAG_FREE,                       /* a run may go on with another value */
    UW_SIM_FLAG_UNTOLD                      /* not in the event "start" by its own key */
};
bool uw_sim_flag_is(enum uw_sim_flag_fact fact, const char *flag);

/* How good the nodes' models are at one moment. */
struct uw_sim_score {
    double accuracy, worst, best;           /* over the nodes' own models: mean, extremes */
    double lower_quartile, upper_quartile;  /* between two nodes: linear */
    double loss;                            /* mean over the nodes */
    double mean_model_accuracy;             /* of the one model that is the mean of all */
    double consensus_distance;              /* see struct uw_sim_apart */
    double *accuracies;                     /* [nodes] the run's */
    uint32_t nodes;                         /* that were tested */
};

struct uw_sim_trial;

#define UW_SIM_TIMELINE_MAX 100000u         /* exchanges, and steps, that are reported at most */
#define UW_SIM_TEST_REASONS 3u              /* epochs, steps, seconds */

struct uw_sim_report {
    const struct uw_sim_options *o;
    const struct uw_world *w;
    struct uw_sim_trial *trial;             /* gets the reports instead, or NULL */
    struct uw_progress progress;
    struct uw_events events;
    FILE *csv;                              /* NULL: no table */
    char *csv_last;                         /* its last row, before the first one is put; or NULL */
    bool csv_failed;                        /* no memory for a row */
    uint64_t start_us;                      /* of this process's clock */
    uint64_t train_us;                      /* the same, when the first step began */
    uint64_t steps, per_epoch;              /* of each node; steps may be UW_SIM_STEPS_ENDLESS */
    uint64_t node_steps;                    /* of all nodes together, so far ... */
    uint64_t resumed_steps;                 /* ... of which so many before this process */
    bool resumed;                           /* it goes on from a checkpoint ... */
    double resumed_s;                       /* ... of this virtual time */
    uint64_t passed[UW_SIM_TEST_REASONS];   /* multiples of what makes a test due, so far */
    uint32_t due;                           /* bits: of which a test was due when it was saved */
    uint32_t exchanges_reported, exchanges_left_out, steps_reported;
};

/* A test's place in the run. */
struct uw_sim_moment {
    double epochs, virtual_seconds, bytes_sent;
    uint64_t step;                          /* of the slowest node */
    const struct uw_sim_score *score;
};

/* Run it. Progress goes to standard error, the result to standard output and to the events.
 * Returns the exit status. */
int uw_sim_run(const struct uw_sim_options *o);

/* Draw a scenario for a model without running it, and show it: a table on standard output, and
 * events "fleet" and "done" where json says; of a radio also what exchanges take, and what the run
 * would refuse is refused. A step that is to be measured is, on made-up data. Returns the exit
 * status. */
int uw_sim_dry_run(const struct uw_sim_options *o);

/* The data, and how long a step takes here: what candidates of an advice share. */
struct uw_sim_inputs {
    struct uw_data data, test;
    struct uw_kept trains, tests;   /* the same, of which some stays in memory */
    struct uw_deal deal;
    uint64_t step_us;               /* measured; 0: not yet */
    uint64_t open_us;               /* on the wall, that it took to open them */
    bool open;
};

/* Close what the trials opened. Safe on a zeroed struct and twice. */
void uw_sim_inputs_close(struct uw_sim_inputs *in);

/* A run that reports to its caller only: one candidate of an advice. The callbacks return false to
 * end it. */
struct uw_sim_trial {
    struct uw_sim_inputs *inputs;           /* of all candidates; the first run opens them */
    bool tests_last;                        /* a last test, which is not reported */
    double next_s;                          /* virtual time of the next test: set by the caller */
    double whole_s;                         /* of the run that it stands for, however soon it ends:
                                               learning rate schedules span it. 0: not known yet */
    /* Before the first step. */
    void (*on_open)(struct uw_sim_trial *t, const struct uw_sim_report *r);
    bool (*on_step)(struct uw_sim_trial *t, double virtual_seconds);
    bool (*on_test)(struct uw_sim_trial *t, const struct uw_sim_moment *m);
    bool stopped;                           /* set: by a signal */
    int status;                             /* set: to exit with, when it could not be prepared */
    struct uw_error err;                    /* set: what failed */
};

/* Run it. Options that name files for results are NULL. Returns UW_OK, or what failed. */
int uw_sim_try(const struct uw_sim_options *o, struct uw_sim_trial *t);

/* Open the files for events and table; what was in them goes when both are open. Close in every
 * case. Returns UW_OK or UW_ERR_IO. */
int uw_sim_report_open(struct uw_sim_report *r, struct uw_error *err);

/* Report what is about to be simulated: an event "start" and a line. */
void uw_sim_report_start(struct uw_sim_report *r, uint32_t params_n);

/* A node has done its step'th local step. */
void uw_sim_report_trained(struct uw_sim_report *r, uint32_t node, uint64_t step);

/* An exchange of a node, for the time line. As world_config.on_event; arg is the report. */
void uw_sim_report_exchange(void *arg, uint32_t node, const struct uw_node_event *event);

/* Show how far it is, now and then. step: of the slowest node; score may be NULL. Returns whether
 * the run goes on: a trial may end it. */
bool uw_sim_report_step(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score);

/* The share of the run that lies behind, 0 .. 1, by steps of one node or by virtual time; of a
 * trial the share of what it stands for. */
double uw_sim_report_share(const struct uw_sim_report *r, double steps);

/* Is a test due now that the slowest node has done step steps: at the end of an epoch, of
 * --eval-steps or of --eval-seconds? Says so once. */
bool uw_sim_report_due(struct uw_sim_report *r, uint64_t step);

/* Is it due when the slowest node has done just so many steps, or is it now? */
bool uw_sim_report_near(const struct uw_sim_report *r, uint64_t step);

/* Bits that uw_sim_report_go_on takes: a test is due that was not made. */
uint32_t uw_sim_report_dues(const struct uw_sim_report *r, uint64_t step);

/* Of a run that goes on here, perhaps with other tests: r->due are due still, no others that lie
 * behind. */
void uw_sim_report_go_on(struct uw_sim_report *r, uint64_t step);

/* Report a test. Returns as uw_sim_report_step. */
bool uw_sim_report_eval(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score);

/* Report that only the last test, which may take long, is left. */
void uw_sim_report_last_test(struct uw_sim_report *r);

/* Report where the run did not show the absences of a scenario: it ended before the first one, or
 * outlasted those that were drawn. */
void uw_sim_report_absences(struct uw_sim_report *r, const struct uw_sim_draw *d);

/* Report that it was stopped, and how far it has come; score NULL: no test was made. */
void uw_sim_report_stopped(struct uw_sim_report *r, uint64_t step,
                           const struct uw_sim_score *score);

/* Report the end of it. */
void uw_sim_report_done(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score);

/* Safe on a zeroed struct and twice. Returns UW_OK, or UW_ERR_IO when something was not written. */
int uw_sim_report_close(struct uw_sim_report *r, struct uw_error *err);

/* Where the processors' time of a run goes (--profile). Training is the nodes' local steps; tests
 * are those of models, and their mean; network is the world: protocols, links and the clock; the
 * rest is the loop that drives them, and threads that look for work. Set-up and the meeting of the
 * nodes are not in it. _ns are nanoseconds of processors, not of the wall. */
struct uw_sim_profile {
    bool on;
    uint64_t start_ns;                      /* of the process */
    uint64_t network_ns;
    struct {
        uint64_t training_ns, tests_ns;
        uint64_t apart[6];                  /* threads' numbers in cache lines of their own */
    } threads[UW_BOARD_WORKERS_MAX];
};

/* What this thread has taken so far; 0 when the profile is off: a look costs a system call. Any
 * thread. */
uint64_t uw_sim_profile_now(const struct uw_sim_profile *p);

/* From now on, when the profile is on. */
void uw_sim_profile_start(struct uw_sim_profile *p);

/* An event "profile", and a table on standard error; nothing when the profile is off. */
void uw_sim_profile_report(const struct uw_sim_profile *p, struct uw_sim_report *r);

#endif
