/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_advise.h"

#include "base/stop.h"
#include "job/job.h"
#include "uwasa/board.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_RUNS 4.0          /* full runs that a search needs; else runs are made shorter */
#define LEAST_CLOSER 4.0        /* candidates that run for nearly half of the time */
#define SHORTEST 0.01           /* shortest run, as a share of the scenario's time */
#define LEAST_NODES 6.0         /* least number of nodes to test if tests are expensive ... */
#define LEAST_SAMPLES 100.0     /* ... and of samples for each */
#define PROBE_SHARE 0.03        /* share of the budget for measuring the cost of a run */
#define PATIENCE 1.25           /* times the budget: then runs are ended */

/* Share of the budget at whose end no further run of a stage begins. */
static const double stage_ends[UW_ADVICE_STAGES] = {0.4, 0.75, 1.0};
static const char *const stage_names[UW_ADVICE_STAGES] = {"screening", "closer", "to the end"};

/* Cost of runs on this machine, in seconds of real time. */
struct rates {
    double open_s, virtual_s, test_s;       /* per run; per virtual second; per test */
};

struct search {
    struct uw_sim_trial trial;      /* first: callbacks come back through it */
    struct uw_sim_options o;
    struct uw_advice a;
    struct uw_sim_inputs inputs;
    struct uw_progress progress;
    struct uw_events events;
    uint64_t start_us;              /* of this process's clock ... */
    uint64_t run_us;                /* ... at the begin of the run, later of its steps */
    uint64_t steps_us;              /* ... at the end of the probe's steps */
    bool timed;                     /* the budget is in seconds */
    bool probing, cut;
    double setup_s;                 /* until the search begins: reading, the probe */
    struct rates rates;
    double budget;                  /* in full runs */
    double planned, done;           /* the same unit, over all stages */
    uint32_t left[UW_ADVICE_STAGES];    /* runs that each stage may take */
    struct uw_advice_try *now;      /* candidate of the run in progress */
    uint32_t at, most;              /* its tests, so far and in total */
    const char *what;
    uint32_t index, of;             /* runs of the stage */
    struct uw_error err;
    int status;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- while a run goes on ---- */

static void show(struct search *s, double virtual_seconds)
{
    char name[UW_ADVICE_NAME_BYTES], eta[UW_TEXT_BYTES], line[192];
    double done = s->done + virtual_seconds / s->a.length_s;
    double left_s = s->done > 0.0 && done < s->planned
                        ? uw_seconds_since(s->start_us) * (s->planned - done) / done : -1.0;
    if (!uw_progress_due(&s->progress, uw_board_now_us())) {
        return;
    }
    snprintf(line, sizeof line, "%s %u/%u  %s  %.2f of %.4g s  ETA %s", s->what,
             (unsigned)s->index + 1u, (unsigned)s->of, uw_advice_name(s->now, name),
             virtual_seconds, uw_advice_time(&s->a, s->most), uw_text_time(left_s, eta));
    uw_progress_show(&s->progress, "%s", line);
}

static bool on_step(struct uw_sim_trial *t, double virtual_seconds)
{
    struct search *s = (struct search *)t;
    if (!s->probing) {
        show(s, virtual_seconds);
        s->cut = s->timed && uw_seconds_since(s->start_us) > PATIENCE * s->a.o->advise_seconds;
        return !s->cut;
    }
    double took_s = uw_seconds_since(s->run_us);
    if (s->timed && took_s < PROBE_SHARE * s->a.o->advise_seconds) {
        return true;
    }
    s->rates.virtual_s = virtual_seconds > 0.0 ? took_s / virtual_seconds : 0.0;
    s->steps_us = uw_board_now_us();
    return false;
}

static bool on_test(struct uw_sim_trial *t, const struct uw_sim_moment *m)
{
    struct search *s = (struct search *)t;
    double enough = s->a.o->until_accuracy;
    uw_advice_put(&s->a, s->now, m, &s->at, s->most);
    if (enough > 0.0 && s->at != 0 && s->now->accuracy[s->at] >= enough) {
        uw_advice_fill(s->now, &s->at, UW_ADVICE_TESTS);    /* the rest of the curve is known */
    }
    t->next_s = uw_advice_time(&s->a, s->at + 1u);
    return s->at < s->most;
}

static void on_open(struct uw_sim_trial *t, const struct uw_sim_report *r)
{
    struct search *s = (struct search *)t;
    struct uw_advice *a = &s->a;
    const struct uw_sim_fleet *f = r->w->config.fleet;
    if (!s->probing) {
        return;
    }
    double params_bytes = 4.0 * r->w->config.params->size_n;
    double epochs = a->o->epochs != 0 ? a->o->epochs : 1.0;
    double steps = a->o->steps != 0 ? (double)a->o->steps : epochs * (double)r->per_epoch;
    double trained_us = uw_sim_fleet_trained_us(f, steps);
    if (trained_us < 0.0) {
        (void)uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
        return;
    }
    double whole_s = a->o->virtual_seconds > 0.0 ? a->o->virtual_seconds : round(trained_us) / 1e6;
    a->wanted_s = whole_s < UW_SIM_SECONDS_MAX ? whole_s : UW_SIM_SECONDS_MAX;
    a->length_s = t->whole_s = a->wanted_s;
    uint64_t away_us = uw_sim_fleet_first_away_us(f);
    a->away_s = away_us != UINT64_MAX ? 1e-6 * (double)away_us : INFINITY;
    uw_advice_open_space(a, f, a->o->model_bytes != 0 ? (double)a->o->model_bytes : params_bytes,
                         &s->err);
    s->rates.open_s = uw_seconds_since(s->run_us) - 1e-6 * (double)s->inputs.open_us;
    s->run_us = uw_board_now_us();
}

/* ---- the budget ---- */

/* Length of a stage's runs as a share of a full run. */
static double share_of(uint32_t stage)
{
    double tests = (double)uw_advice_stage_tests[stage] / UW_ADVICE_TESTS;
    return tests * tests;
}

/* Whether a candidate may first run in this stage: it exchanges before the stage's runs end. */
static bool starts_in(const struct search *s, uint32_t i, uint32_t stage)
{
    const struct uw_advice_try *t = &s->a.tries[i];
    double end_s = uw_advice_time(&s->a, uw_advice_stage_tests[stage]);
    return t->end == UW_ADVICE_RAN && t->tests == 0 && uw_advice_exchanges_by(&s->a, t, end_s);
}

/* Distribute the budget: about a third to each stage; the rest of a stage goes to the next. */
static void plan(struct search *s)
{
    uint32_t runnable = 0;
    double left = s->budget;
    for (uint32_t i = 0; i < s->a.tries_n; i++) {
        runnable += starts_in(s, i, 0);
    }
    s->left[0] = 2.0 * left < runnable ? (uint32_t)(2.0 * left) : runnable;
    left -= s->left[0] * share_of(0);
    s->left[1] = 0.5 * left > LEAST_CLOSER * share_of(1) ? (uint32_t)(0.5 * left / share_of(1))
                                                       : (uint32_t)LEAST_CLOSER;
    left -= s->left[1] * share_of(1);
    s->left[2] = left > 2.0 ? (uint32_t)left : 2u;
    s->planned = s->left[0] * share_of(0) + s->left[1] * share_of(1) + s->left[2];
}

/* Real seconds that a run of so many virtual seconds takes. */
static double run_costs(const struct search *s, double virtual_seconds)
{
    return s->rates.open_s + UW_ADVICE_TESTS * s->rates.test_s +
           s->rates.virtual_s * virtual_seconds;
}

/* Limit tests to a quarter of a run of the length that the budget allows: test fewer nodes, then
 * fewer samples. */
static void fit_tests(struct search *s, double each_s)
{
    struct uw_sim_options *o = &s->o;
    double all_s = UW_ADVICE_TESTS * s->rates.test_s, share = 0.25 * each_s / all_s;
    if (!(share < 1.0)) {
        return;
    }
    double nodes = o->eval_nodes < o->nodes ? o->eval_nodes : o->nodes, samples = s->a.tested_n;
    double fewer = nodes * share > LEAST_NODES ? nodes * share : LEAST_NODES;
    fewer = fewer < nodes ? fewer : nodes;
    double less = samples * share * nodes / fewer;
    less = less > LEAST_SAMPLES ? less : LEAST_SAMPLES;
    less = less < samples ? less : samples;
    o->eval_nodes = (uint32_t)fewer;
    o->eval_samples = s->a.tested_n = (uint32_t)less;
    s->rates.test_s *= floor(fewer) / nodes * floor(less) / samples;
}

/* Convert the budget to a number of full runs, and set their length. */
static void set_budget(struct search *s)
{
    struct uw_advice *a = &s->a;
    s->budget = s->o.advise_runs;
    if (s->timed) {
        double all_s = fmax(s->o.advise_seconds - s->setup_s, 0.0), each_s = all_s / LEAST_RUNS;
        fit_tests(s, each_s);
        double room_s = each_s - run_costs(s, 0.0);
        if (run_costs(s, a->wanted_s) > each_s) {
            double share = room_s / (s->rates.virtual_s * a->wanted_s);
            a->length_s = a->wanted_s * (share > SHORTEST ? share : SHORTEST);
        }
        s->budget = all_s / run_costs(s, a->length_s);
        a->enough_s = s->setup_s + LEAST_RUNS * run_costs(s, a->wanted_s);
    }
    s->budget = s->budget > LEAST_RUNS ? s->budget : LEAST_RUNS;
    s->budget = s->budget < UW_ADVICE_MAX ? s->budget : UW_ADVICE_MAX;
    uw_advice_rule_out(a);
    plan(s);
}

/* ---- runs ---- */

static int run(struct search *s, const struct uw_advice_try *t)
{
    struct uw_sim_options o;
    uw_advice_options(&s->a, t, &o);
    s->run_us = uw_board_now_us();
    s->trial.inputs = &s->inputs;
    s->trial.err.text[0] = '\0';
    s->trial.next_s = s->probing ? INFINITY : uw_advice_time(&s->a, 1u);
    int rc = uw_sim_try(&o, &s->trial);
    s->a.stopped = s->a.stopped || s->trial.stopped;
    return rc;
}

/* Run a step of some candidate, to check that model, data and devices fit together. With a budget
 * in seconds, run some more steps and a test of few samples to measure the cost of a run. */
static int probe(struct search *s)
{
    struct uw_advice_try first;
    int rc = uw_advice_first(&s->a, &first, &s->err);
    if (rc < 0) {
        s->status = UW_EXIT_USAGE;
        return rc;
    }
    struct uw_sim_options *o = &s->o;
    const uint32_t nodes = o->eval_nodes, limit = o->eval_samples;
    s->probing = true;
    s->trial.tests_last = s->timed;
    s->now = &first;
    o->eval_nodes = least(nodes, (uint32_t)LEAST_NODES);
    o->eval_samples = limit != 0 ? least(limit, (uint32_t)LEAST_SAMPLES) : (uint32_t)LEAST_SAMPLES;
    rc = run(s, &first);
    s->probing = s->trial.tests_last = false;
    s->rates.test_s = s->timed && s->steps_us != 0 ? uw_seconds_since(s->steps_us) : 0.0;
    if (rc < 0) {
        s->status = s->trial.status;
        return uw_error_set(&s->err, rc, "%s", s->trial.err.text);
    }
    uint32_t samples_n = s->inputs.test.base->samples_n;
    s->a.tested_n = limit != 0 ? least(limit, samples_n) : samples_n;
    s->rates.test_s *= (double)least(nodes, o->nodes) / least(o->eval_nodes, o->nodes) *
                       s->a.tested_n / least(o->eval_samples, samples_n);
    o->eval_nodes = nodes;
    o->eval_samples = limit;
    return s->err.code < 0 ? s->err.code : UW_OK;
}

/* Run the candidates of the list that have not finished this stage yet. */
static void run_stage(struct search *s, uint32_t stage, const uint32_t *list, uint32_t n)
{
    double until_s = stage_ends[stage] * s->a.o->advise_seconds;
    s->what = stage_names[stage];
    s->most = uw_advice_stage_tests[stage];
    s->of = n;
    for (uint32_t i = 0; i < n && !s->a.stopped && !s->cut; i++) {
        struct uw_advice_try *t = &s->a.tries[list[i]];
        if (s->timed && i > 1u && uw_seconds_since(s->start_us) > until_s) {
            break;
        }
        s->now = t;
        s->at = 0;
        t->accuracy[0] = t->mean_model[0] = 1.0 / s->inputs.data.base->classes;
        s->index = i;
        if (t->tests < s->most && run(s, t) < 0 && !s->a.stopped) {
            t->end = UW_ADVICE_FAILED;
            snprintf(t->why, sizeof t->why, "%.150s", s->trial.err.text);
        } else if (!s->a.stopped && !s->cut) {
            uw_advice_fill(t, &s->at, s->at != 0 ? s->most : 0u);
        }
        s->a.runs++;
        s->done += share_of(stage);
    }
}

static bool has(const uint32_t *list, uint32_t n, uint32_t one)
{
    while (n > 0 && list[n - 1u] != one) {
        n--;
    }
    return n > 0;
}

static bool like(const struct uw_advice_try *x, const struct uw_advice_try *y)
{
    return x->mode.at == y->mode.at &&
           (x->rule == &uw_mix_kgt) == (y->rule == &uw_mix_kgt);
}

/* Whether its exchange differs from those in the list. */
static bool is_new(const struct search *s, const uint32_t *list, uint32_t n, uint32_t one)
{
    while (n > 0 && !like(&s->a.tries[list[n - 1u]], &s->a.tries[one])) {
        n--;
    }
    return n == 0;
}

/* Add candidates whose first exchange is too late for the first stage: one of each exchange that is
 * not in the list, then the most promising ones. They may fill a third of the stage, or all of it
 * if none ran in the first. */
static uint32_t add_late(const struct search *s, uint32_t *list, uint32_t n, uint32_t most,
                         bool screened)
{
    uint32_t late = screened ? n + (most + 2u) / 3u : most;
    late = late < most ? late : most;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < s->a.tries_n && n < late; i++) {
            if (!starts_in(s, i, 0) && starts_in(s, i, 1) && !has(list, n, i) &&
                (pass == 1 || is_new(s, list, n, i))) {
                list[n++] = i;
            }
        }
    }
    return n;
}

/* Choose for the second stage: the best of each exchange, those that exchange late, the next best,
 * and variations of these. */
static uint32_t choose_second(struct search *s, uint32_t *list)
{
    uint32_t rank[UW_ADVICE_MAX], ranked = uw_advice_rank(&s->a, uw_advice_stage_tests[0], rank);
    uint32_t most = s->left[1] < UW_ADVICE_MAX ? s->left[1] : UW_ADVICE_MAX, n = 0;
    for (uint32_t i = 0; i < ranked && n < (most + 1u) / 2u; i++) {
        if (is_new(s, list, n, rank[i])) {
            list[n++] = rank[i];
        }
    }
    n = add_late(s, list, n, most, ranked != 0);
    for (uint32_t i = 0; i < ranked && n < most; i++) {
        if (!has(list, n, rank[i])) {
            list[n++] = rank[i];
        }
        uw_advice_vary(&s->a, rank[i], list, &n, most);
    }
    return n;
}

/* Choose for the last stage: the best of the second one; if there are none, those that exchange
 * before the end. */
static uint32_t choose_last(const struct search *s, uint32_t *list)
{
    uint32_t n = uw_advice_rank(&s->a, uw_advice_stage_tests[1], list);
    for (uint32_t i = 0, none = n == 0; none && i < s->a.tries_n; i++) {
        if (starts_in(s, i, 2)) {
            list[n++] = i;
        }
    }
    return least(n, s->left[2]);
}

static void search(struct search *s)
{
    uint32_t list[UW_ADVICE_MAX], n = 0;
    for (uint32_t i = 0; i < s->a.tries_n && n < s->left[0]; i++) {
        if (starts_in(s, i, 0)) {
            list[n++] = i;
        }
    }
    run_stage(s, 0, list, n);
    n = s->a.stopped ? 0u : choose_second(s, list);
    run_stage(s, 1, list, n);
    n = s->a.stopped ? 0u : choose_last(s, list);
    run_stage(s, 2, list, n);
}

/* ---- the whole ---- */

static int open_search(struct search *s)
{
    struct uw_advice *a = &s->a;
    const struct uw_sim_options *o = a->o;
    a->tries = calloc(UW_ADVICE_MAX, sizeof *a->tries);
    if (a->tries == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    a->celled = *o->scenario;
    a->has_cells = uw_sim_scenario_largest_cell(o->scenario) != 0;
    if (!a->has_cells) {
        a->celled.cells = (struct uw_sim_cells){.nodes = o->cell_nodes};
    }
    a->length_s = UW_SIM_SECONDS_MAX;       /* a probe has no end */
    s->timed = o->advise_runs == 0.0;
    s->trial.on_open = on_open;
    s->trial.on_step = on_step;
    s->trial.on_test = on_test;
    uw_progress_init(&s->progress);
    return uw_events_open(&s->events, o->json, UW_EVENTS_TIMELESS | UW_EVENTS_KEEP,
                          &s->err);     /* emptied when the search begins */
}

/* Set the error of a search without a result. */
static int explain(struct search *s)
{
    const struct uw_advice *a = &s->a;
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    bool some = false, later = false;       /* in runs of length_s, of wanted_s */
    for (uint32_t i = 0; i < a->tries_n; i++) {
        some = some || starts_in(s, i, 2);
        later = later || uw_advice_exchanges_by(a, &a->tries[i], a->wanted_s);
    }
    if (a->stopped) {
        return uw_error_set(&s->err, UW_ERR_AGAIN, "stopped before any result");
    }
    if (best->end == UW_ADVICE_FAILED) {
        return uw_error_set(&s->err, UW_ERR_AGAIN, "%s", best->why);
    }
    if (!some && !(later && a->length_s < a->wanted_s)) {
        return uw_error_set(&s->err, UW_ERR_AGAIN, "--advise: nothing is known of an exchange "
                            "until it has ended, and none that may be tried ends within %.4g s: "
                            "--virtual-seconds (or --steps) are too few, or --period is too long",
                            a->wanted_s);
    }
    double least_s = s->setup_s + LEAST_RUNS * run_costs(s, uw_advice_least(a, SHORTEST));
    least_s = fmax(least_s, a->seconds);    /* a->seconds were not enough */
    return uw_error_set(&s->err, UW_ERR_AGAIN, "--advise-seconds %g: too few for any run of this "
                        "scenario, about %.0f would do for short ones and %.0f for whole ones",
                        a->o->advise_seconds, ceil(least_s), ceil(fmax(least_s, a->enough_s)));
}

/* Rank the candidates. Fails if no run gave a result. */
static int rank_results(struct search *s)
{
    struct uw_advice *a = &s->a;
    uw_advice_order(a);
    a->seconds = uw_seconds_since(s->start_us);
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    uw_progress_clear(&s->progress);
    if (uw_advice_judged(best) == 0) {
        return explain(s);
    }
    uw_advice_report(a, &s->events);
    return uw_events_close(&s->events, &s->err);
}

int uw_sim_advise(const struct uw_sim_options *o, const struct uw_advice_asked *asked)
{
    struct search *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return uw_cli_error("sim", UW_EXIT_FAILED, "out of memory");
    }
    s->o = *o;
    s->a.o = &s->o;
    s->a.asked = asked;
    s->status = UW_EXIT_FAILED;
    s->start_us = uw_board_now_us();
    int rc = open_search(s);
    rc = rc < 0 ? rc : probe(s);
    if (rc == UW_OK) {
        s->status = UW_EXIT_FAILED;
        s->setup_s = uw_seconds_since(s->start_us);
        set_budget(s);
        uw_progress_print(&s->progress, "%u candidates, runs of %.4g virtual seconds; %u are "
                          "screened, %u run for nearly half, %u to the end", (unsigned)s->a.tries_n,
                          s->a.length_s, (unsigned)least(s->left[0], s->a.tries_n),
                          (unsigned)least(s->left[1], s->a.tries_n),
                          (unsigned)least(s->left[2], s->a.tries_n));
        uw_events_empty(&s->events);
        uw_advice_report_start(&s->a, &s->events);
        search(s);
        rc = rank_results(s);
    }
    uw_progress_clear(&s->progress);
    int status = UW_EXIT_DONE;
    if (rc < 0) {
        status = uw_cli_error("sim", s->status, "%s", uw_error_sentence(&s->err, rc));
    }
    uw_events_close(&s->events, NULL);
    uw_sim_inputs_close(&s->inputs);
    free(s->a.tries);
    free(s);
    return status;
}
