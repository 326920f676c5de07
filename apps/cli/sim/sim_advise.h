/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_advise.h - find the best exchange, period, schedule and momentum rule for a scenario
 *
 * Candidates are whole simulated runs, one after the other, on the same data and devices. The curve
 * of a candidate is its accuracy at UW_ADVICE_TESTS moments of virtual time: test k of n is at
 * (k/n)^2 of the run, because much happens early. If the budget makes runs shorter than the full
 * run, learning rates still follow the full run's schedule. The search has three stages: it runs
 * many candidates for a sixth of the time, the better ones and variations of the best for nearly a
 * half, and the best of those to the end. In the next stage a run starts again from the beginning:
 * the same seed gives the same curve, and only one run at a time is in memory.
 *
 *     sim_advise.c         the search
 *     sim_advise_space.c   the candidates: which ones cost formulas rule out, ranking
 *     sim_advise_report.c    the answer, for people and as events
 *
 * Units      seconds of virtual time where a name says nothing else      Context  main thread
 * Source     K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification", 2016: stages
 */
#ifndef UWASA_CLI_SIM_ADVISE_H
#define UWASA_CLI_SIM_ADVISE_H

#include "sim.h"

#define UW_ADVICE_STAGES 3u
#define UW_ADVICE_TESTS 18u                 /* of a run to the end */
#define UW_ADVICE_MAX 256u                  /* candidates */

/* Tests of the runs of each stage. */
extern const uint32_t uw_advice_stage_tests[UW_ADVICE_STAGES];

enum uw_advice_end {
    UW_ADVICE_RAN,                          /* or is still to run */
    UW_ADVICE_FAILED,                       /* see why */
    UW_ADVICE_COSTLY                        /* ruled out by cost formulas: see why */
};

/* A candidate. */
struct uw_advice_try {
    struct uw_choice mode;
    const struct uw_mix_rule *rule;
    const struct uw_peer_schedule *peers;   /* NULL: chooses no peers */
    uint32_t period;
    double exchange_s;                      /* of a pull or an average, by cost formulas */
    double trains;                          /* share of the time that a node computes, likewise */
    double distance;                        /* from the period that costs suggest, in logarithms */
    enum uw_advice_end end;
    char why[160];
    uint32_t tests;                         /* known points of its curve */
    double accuracy[UW_ADVICE_TESTS + 1u];  /* [0]: of random guessing */
    double mean_model[UW_ADVICE_TESTS + 1u];
    double bytes[UW_ADVICE_TESTS + 1u];     /* sent per node, on average */
};

/* Choices that the user fixed; NULL and 0 are free. */
struct uw_advice_asked {
    struct uw_choice mode;
    const struct uw_peer_schedule *peers;
    const struct uw_mix_rule *rule;
    uint32_t period;
    bool file_counts;                       /* a file gives the steps or epochs */
    int argc;                               /* the command line, for the answer's */
    char **argv;
};

struct uw_advice {
    const struct uw_sim_options *o;
    const struct uw_advice_asked *asked;
    struct uw_sim_scenario celled;          /* o->scenario, with cells added if it has none */
    bool has_cells;                         /* o->scenario has cells */
    double wanted_s;                        /* length of the scenario ... */
    double length_s;                        /* ... and of a run to the end here */
    double enough_s;                        /* computing time for runs of wanted_s; 0: unknown */
    double step_s, slowest_s;               /* a local step: mean of the devices, slowest */
    double away_s;                          /* until the first device is away; INFINITY: never */
    double pull_s;                          /* mean time of a pull, by cost formulas */
    uint32_t tested_n;                      /* samples of a test */
    uint32_t runs;                          /* so far */
    bool stopped;                           /* by a signal */
    double seconds;                         /* real time */
    struct uw_advice_try *tries;            /* [tries_n] of UW_ADVICE_MAX */
    uint32_t tries_n;
    uint32_t order[UW_ADVICE_MAX];          /* of tries, after ranking: the best first */
    double target;                          /* accuracy that the ranking requires */
};

/* Answer. Returns the exit status. */
int uw_sim_advise(const struct uw_sim_options *o, const struct uw_advice_asked *asked);

/* ---- sim_advise_space.c ---- */

/* Any candidate that the scenario admits and that was asked for.
 * Returns UW_OK, or UW_ERR_INVALID (there is none; err filled). */
int uw_advice_first(const struct uw_advice *a, struct uw_advice_try *t, struct uw_error *err);

/* The first candidates, the most informative ones first: each exchange with periods from 1 to 100.
 * Fills step_s, slowest_s, pull_s; length_s is known.
 * Returns UW_OK or UW_ERR_NOMEM, err filled. */
int uw_advice_open_space(struct uw_advice *a, const struct uw_sim_fleet *fleet, double model_bytes,
                         struct uw_error *err);

/* Whether its first exchange is over by then. Before that the curve says nothing about it. */
bool uw_advice_exchanges_by(const struct uw_advice *a, const struct uw_advice_try *t,
                            double seconds);

/* The shortest useful run: at least `share` of wanted_s, and long enough for one exchange of some
 * candidate that may still run. 0: there is none. */
double uw_advice_least(const struct uw_advice *a, double share);

/* Rule out candidates that do not reach two rounds in length_s, unless none would be left. */
void uw_advice_rule_out(struct uw_advice *a);

/* Add variations of a candidate that differ in one thing: rule, schedule, or period by one place in
 * the grid. The new ones are appended to list[*n], at most max. */
void uw_advice_vary(struct uw_advice *a, uint32_t of, uint32_t *list, uint32_t *n, uint32_t max);

/* The options of its run. */
void uw_advice_options(const struct uw_advice *a, const struct uw_advice_try *t,
                       struct uw_sim_options *o);

/* Virtual time of test k. */
double uw_advice_time(const struct uw_advice *a, uint32_t k);

/* Record a test: fill the curve up to it. Test moments that passed during a long average get the
 * previous value. *at: tests of this run so far; the run ends at `most`. */
void uw_advice_put(const struct uw_advice *a, struct uw_advice_try *t,
                   const struct uw_sim_moment *m, uint32_t *at, uint32_t most);

/* The run ended early: continue its curve with the last value up to `most`. */
void uw_advice_fill(struct uw_advice_try *t, uint32_t *at, uint32_t most);

/* When the curve reached an accuracy, linear between tests; below 0: not until `tests`. */
double uw_advice_reached(const struct uw_advice *a, const struct uw_advice_try *t, double accuracy,
                         uint32_t tests);

/* Rank the candidates that have `tests` tests, the best first: by time to the target, then by
 * accuracy, then by bytes. list: [tries_n] written. Returns their number. */
uint32_t uw_advice_rank(const struct uw_advice *a, uint32_t tests, uint32_t *list);

/* Fill a->order and a->target: by stages, then those that failed, then those that never ran. */
void uw_advice_order(struct uw_advice *a);

/* The number of tests used to compare it: those of the last stage that it finished; 0: none. */
uint32_t uw_advice_judged(const struct uw_advice_try *t);

/* ---- sim_advise_report.c ---- */

/* "gossip, period 10, random, qg". Returns text. */
#define UW_ADVICE_NAME_BYTES 96u
const char *uw_advice_name(const struct uw_advice_try *t, char text[UW_ADVICE_NAME_BYTES]);

/* Whether the second is as good as the best within the precision of tests: not 10 % later, and in
 * the end not less accurate by more than a test's error. */
bool uw_advice_close(const struct uw_advice *a);

/* Report what will be searched. */
void uw_advice_report_start(const struct uw_advice *a, struct uw_events *events);

/* Report the answer; a->order is filled and its first candidate has run. */
void uw_advice_report(const struct uw_advice *a, struct uw_events *events);

#endif
