/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_advise.h - which exchange, period, schedule and momentum rule a scenario wants
 *
 * Candidates are whole simulated runs, one after the other, on the same data and devices. Of each,
 * accuracy is known at UW_ADVICE_TESTS moments of virtual time, its curve: test k of n is at
 * (k/n)^2 of the run, because much happens early. Where the budget makes runs shorter than what
 * they stand for, learning rates are those of the whole. A search in three stages runs many for a
 * sixth of the time, the better ones and what is like the best of them for nearly a half, and the
 * best of those to the end. A run that goes on longer begins anew: the same seed gives the same
 * curve, and one run at a time is in memory.
 *
 *     sim_advise.c         the search
 *     sim_advise_space.c   the candidates: which closed costs rule out, who is better
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
    UW_ADVICE_FAILED,                       /* why tells */
    UW_ADVICE_COSTLY                        /* closed costs rule it out: see why */
};

/* A candidate. */
struct uw_advice_try {
    struct uw_choice mode;
    const struct uw_mix_rule *rule;
    const struct uw_peer_schedule *peers;   /* NULL: it chooses none */
    uint32_t period;
    double exchange_s;                      /* of a pull or an average, by closed costs */
    double trains;                          /* share of the time that a node computes, likewise */
    double distance;                        /* from the period that costs suggest; in logarithms */
    enum uw_advice_end end;
    char why[160];
    uint32_t tests;                         /* of its curve that are known */
    double accuracy[UW_ADVICE_TESTS + 1u];  /* [0]: that of guessing */
    double mean_model[UW_ADVICE_TESTS + 1u];
    double bytes[UW_ADVICE_TESTS + 1u];     /* that a node has sent, the mean */
};

/* What was asked for: with a value it stays, NULL and 0 are free. */
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
    struct uw_sim_scenario celled;          /* o->scenario, with cells where it has none */
    bool has_cells;                         /* o->scenario has some */
    double wanted_s;                        /* that the scenario lasts ... */
    double length_s;                        /* ... and a run to the end here */
    double enough_s;                        /* of computing, for runs that last wanted_s; 0: ? */
    double step_s, slowest_s;               /* a local step: mean of the devices, slowest */
    double away_s;                          /* until a device is away; INFINITY: none ever is */
    double pull_s;                          /* closed cost of one, the mean */
    uint32_t tested_n;                      /* samples of a test */
    uint32_t runs;                          /* so far */
    bool stopped;                           /* by a signal */
    double seconds;                         /* on the wall */
    struct uw_advice_try *tries;            /* [tries_n] of UW_ADVICE_MAX */
    uint32_t tries_n;
    uint32_t order[UW_ADVICE_MAX];          /* of tries, once ranked: the best first */
    double target;                          /* accuracy that the ranking asks for */
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

/* Is its first exchange over by then? Before, nothing is known of it. */
bool uw_advice_exchanges_by(const struct uw_advice *a, const struct uw_advice_try *t,
                            double seconds);

/* The shortest useful run: an exchange of a candidate that may still run is over, and it is a
 * share of wanted_s at least. 0: there is none. */
double uw_advice_least(const struct uw_advice *a, double share);

/* Rule out what does not come to two rounds in a run of length_s, unless nothing is left. */
void uw_advice_rule_out(struct uw_advice *a);

/* Add what differs from a candidate in one thing: rule, schedule, or period by one place in the
 * grid. list [*n] gets the new ones, max at most. */
void uw_advice_vary(struct uw_advice *a, uint32_t of, uint32_t *list, uint32_t *n, uint32_t max);

/* The options of its run. */
void uw_advice_options(const struct uw_advice *a, const struct uw_advice_try *t,
                       struct uw_sim_options *o);

/* Virtual time of test k. */
double uw_advice_time(const struct uw_advice *a, uint32_t k);

/* A test was made: fill the curve up to there; moments that were jumped over, in an average that
 * took long, have what was before. *at: tests of this run so far; it ends at `most`. */
void uw_advice_put(const struct uw_advice *a, struct uw_advice_try *t,
                   const struct uw_sim_moment *m, uint32_t *at, uint32_t most);

/* The run ended before: its curve goes on as it was, up to `most`. */
void uw_advice_fill(struct uw_advice_try *t, uint32_t *at, uint32_t most);

/* When the curve reached an accuracy, linear between tests; below 0: not until `tests`. */
double uw_advice_reached(const struct uw_advice *a, const struct uw_advice_try *t, double accuracy,
                         uint32_t tests);

/* Those that have `tests` tests, the best first: by the time to the target; then by accuracy; then
 * by bytes. Returns how many; list [tries_n]. */
uint32_t uw_advice_rank(const struct uw_advice *a, uint32_t tests, uint32_t *list);

/* Fill a->order and a->target: by stages, then those that failed, then those that did not run. */
void uw_advice_order(struct uw_advice *a);

/* Tests by which it is compared: those of the last stage that it has ended; 0: none. */
uint32_t uw_advice_judged(const struct uw_advice_try *t);

/* ---- sim_advise_report.c ---- */

/* "gossip, period 10, random, qg". Returns text. */
#define UW_ADVICE_NAME_BYTES 96u
const char *uw_advice_name(const struct uw_advice_try *t, char text[UW_ADVICE_NAME_BYTES]);

/* Is the second one no worse than the best within the precision of tests: not 10 % later, and not
 * less accurate in the end by more than a test's error? */
bool uw_advice_close(const struct uw_advice *a);

/* Report what is about to be searched. */
void uw_advice_report_start(const struct uw_advice *a, struct uw_events *events);

/* Report the answer; a->order is there and its first candidate has run. */
void uw_advice_report(const struct uw_advice *a, struct uw_events *events);

#endif
