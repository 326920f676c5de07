/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#include "sim_draw.h"
#include "job/job_weights.h"
#include "job/recipe.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEET_US 600000000u          /* virtual; slow links and many nodes need seconds */
#define MEET_TOLD 256u              /* with so many nodes, report that it takes a while */
#define PAUSE_US 2000u              /* interval of calls of a node that agrees with others */
#define AGREE_US 10000000u
#define LATE_US 1000000u            /* real time that a checkpoint may wait */
#define VIRTUAL_MAX_S 1e12          /* microseconds fit 64 bits, with what one event adds */
#define START_STREAM 0x57a27000u    /* stream of the seed, far from those of nodes */
#define SCRATCH_N 65536u            /* lent to averages, as in uwasa node */

/* Limits of cached samples: many nodes are tested on the same samples, and all candidates of an
 * advice train on the same. */
#define TEST_BYTES_MAX (64u << 20)
#define TRAIN_BYTES_MAX (256u << 20)

/* ---- the data ---- */

static int keep(struct uw_kept *k, struct uw_dataset *d, uint64_t bytes_max)
{
    uint64_t bytes = sizeof(float) * (uint64_t)d->channels * d->height * d->width;
    uint64_t room = bytes_max / (bytes != 0 ? bytes : 1u);
    return uw_kept_open(k, d, room < d->samples_n ? (uint32_t)room : d->samples_n);
}

static int open_sets(struct uw_sim_inputs *in, const struct uw_sim_options *o,
                     struct uw_job *job, struct uw_error *err)
{
    const struct uw_job_data_config config = {.spec = o->data, .loss = o->train_loss,
                                              .data = {.seed = o->seed, .scale_values = true}};
    int rc = uw_job_open_data(job, &config, &in->data, &in->test, err);
    if (rc < 0) {
        return rc;
    }
    rc = keep(&in->tests, in->test.base, TEST_BYTES_MAX);
    rc = rc < 0 ? rc : keep(&in->trains, in->data.base, o->advise ? TRAIN_BYTES_MAX : 0);
    return rc < 0 ? uw_error_set(err, rc, "out of memory") : UW_OK;
}

/* Open the data and divide it among the nodes, unless that is done. Close in every case. Returns
 * UW_OK or an error of opening, reading or dividing, err filled. */
static int open_inputs(struct uw_sim_inputs *in, const struct uw_sim_options *o,
                       struct uw_job *job, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    uint64_t start_us = uw_board_now_us();
    if (in->open) {
        return uw_job_fit(job, &in->data, o->data, o->train_loss, err);
    }
    int rc = open_sets(in, o, job, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_deal_open(&in->deal, &in->trains.base, &o->dealt, o->nodes, uw_rng_mix(o->seed, 1),
                      &why);
    if (rc < 0) {
        return uw_error_set(err, rc, "--nodes %u, --skew %.40s, data %.80s: %.100s",
                            (unsigned)o->nodes, o->skew, o->data, why.text);
    }
    in->open_us = uw_board_now_us() - start_us;
    in->open = true;
    return UW_OK;
}

/* Compute the steps of each node (UW_SIM_STEPS_ENDLESS if only --virtual-seconds ends them) and the
 * steps of an epoch of all nodes together. */
static void count_steps(const struct uw_sim_options *o, const struct uw_sim_inputs *in,
                        uint64_t *steps, uint64_t *per_epoch)
{
    uint64_t together = (uint64_t)o->nodes * o->batch;
    *per_epoch = (in->data.base->samples_n + together - 1u) / together;
    *steps = o->steps != 0              ? o->steps
             : o->epochs != 0           ? *per_epoch * o->epochs
             : o->virtual_seconds > 0.0 ? UW_SIM_STEPS_ENDLESS
                                        : *per_epoch;
}

void uw_sim_inputs_close(struct uw_sim_inputs *in)
{
    uw_deal_close(&in->deal);
    uw_kept_close(&in->trains);
    uw_kept_close(&in->tests);
    uw_data_close(&in->test);
    uw_data_close(&in->data);
    in->open = false;
}

/* ---- the nodes and their network, by the flags ---- */

/* Set the options of exact averages; for cost formulas also the bytes on the wire. */
static void choose_network(struct uw_world_config *c, const struct uw_sim_options *o)
{
    static const enum uw_allreduce_kind shipped[] = {
        [UW_SIM_BUTTERFLY] = UW_ALLREDUCE_DOUBLING, [UW_SIM_HALVING] = UW_ALLREDUCE_HALVING,
        [UW_SIM_RING] = UW_ALLREDUCE_RING, [UW_SIM_TREE] = UW_ALLREDUCE_TREE,
        [UW_SIM_SWEEP] = UW_ALLREDUCE_SWEEP};
    c->network = (enum uw_world_network)o->network.at;
    c->mtu_bytes = o->mtu;
    c->radio = o->link != NULL ? &o->radio : NULL;
    c->algorithm = (enum uw_sim_algorithm)o->algorithm.at;
    c->node.algorithm = c->algorithm != UW_SIM_AUTO ? &shipped[c->algorithm] : NULL;
    c->model_bytes = o->model_bytes;
    c->study_pull = o->pull_latencies == 1u;
    c->pull_waits = o->pull_waits;
}

/* A world of the run's nodes, without reports. fleet, params and run are borrowed. */
static struct uw_world_config config_of(const struct uw_sim_options *o,
                                        const struct uw_sim_fleet *fleet,
                                        const struct uw_params *params, const char *run)
{
    struct uw_world_config config = {
        .fleet = fleet,
        .params = params,
        .node = {.run = run,
                 .head_weight = 1, .scratch_n = SCRATCH_N,
                 .window_bytes = (size_t)o->pull_window,
                 .seed = uw_rng_mix(o->seed, 0)}};
    uw_exchange_fill(&o->exchange, &config.node);
    config.node.schedule = uw_exchange_peers(&o->exchange);
    choose_network(&config, o);
    return config;
}

/* ---- set-up ---- */

static int open_data(struct uw_sim *s)
{
    int rc = open_inputs(s->in, s->o, &s->jobs[0], &s->err);
    if (rc == UW_OK) {
        count_steps(s->o, s->in, &s->report.steps, &s->report.per_epoch);
    }
    return rc;
}

/* Draw the fleet. A resumed run uses the step time measured at its begin, a trial that of the first
 * trial. */
static int open_fleet(struct uw_sim *s)
{
    int rc = UW_OK;
    s->step_us = s->in->step_us != 0 ? s->in->step_us : s->step_us;
    if (uw_sim_scenario_uses(s->o->scenario, UW_SIM_STEP_MEASURED) && s->step_us == 0 &&
        !s->report.resumed) {
        rc = uw_sim_measure_step(s, &s->step_us);
    }
    s->in->step_us = s->step_us;
    rc = rc < 0 ? rc : uw_sim_fleet_draw(&s->draw, s->o->scenario, &s->jobs[0], s->step_us,
                                         &s->err);
    if (rc == UW_OK) {
        uw_sim_fleet_start(&s->draw.fleet, s->o->start_spread,
                           uw_rng_mix(s->o->seed, START_STREAM));
    }
    return rc;
}

/* Report the memory of the run, and refuse it if the machine has less. The system would not: it
 * counts pages when they are first used, and would kill the run in the middle. */
static int check_memory(struct uw_sim *s, const struct uw_world_config *config)
{
    char nodes_text[UW_TEXT_BYTES], models_text[UW_TEXT_BYTES], free_text[UW_TEXT_BYTES];
    const struct uw_model *m = &s->jobs[0].model;
    size_t measured = uw_world_measure(config, &s->err);
    if (measured == SIZE_MAX && s->err.text[0] != '\0') {
        return s->err.code;
    }
    double each = (double)sizeof *s->learners +
                  (double)s->vectors * m->trainable_n * (double)sizeof(float);
    double nodes = (double)measured + s->o->nodes * each + m->params.size_n * (double)sizeof(float);
    double models = s->threads * (double)s->jobs[0].need.total_bytes;
    double there = (double)uw_board_free_bytes();
    uw_text_bytes(nodes, nodes_text);
    uw_text_bytes(models, models_text);
    uw_text_bytes(there, free_text);
    if (there > 0.0 && nodes > there) {     /* memory of the models is allocated already */
        return uw_error_set(&s->err, UW_ERR_NOMEM,
                            "--nodes %u: they need about %s of memory, %s are free; fewer nodes "
                            "or a smaller model are needed", (unsigned)s->o->nodes, nodes_text,
                            free_text);
    }
    uw_progress_print(&s->report.progress,
                      "memory: about %s for the nodes, %s for %u model%s, %s are free", nodes_text,
                      models_text, (unsigned)s->threads, s->threads == 1 ? "" : "s",
                      there > 0.0 ? free_text : "unknown");
    return UW_OK;
}

static int meet(struct uw_sim *s)
{
    if (s->o->nodes >= MEET_TOLD) {
        uw_progress_show(&s->report.progress, "%u nodes discover each other",
                         (unsigned)s->o->nodes);
    }
    int rc = uw_world_meet(&s->world, MEET_US);
    if (rc == UW_ERR_AGAIN) {
        return uw_error_set(&s->err, rc, "--nodes %u: they do not all discover each other within "
                                         "%u virtual seconds, the network is too "
                                         "slow", (unsigned)s->o->nodes,
                            MEET_US / 1000000u);
    }
    return rc;
}

/* Called between messages, of which one long step may have very many, to check for a stop. */
static bool check_for_stop(void *arg)
{
    struct uw_sim *s = arg;
    s->interrupted = uw_sim_looks(&s->look_us);
    return s->interrupted;
}

static int open_world(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    snprintf(s->name, sizeof s->name, "sim-%llu", (unsigned long long)o->seed);
    s->fresh = s->jobs[0].model.params;
    struct uw_world_config config = config_of(o, &s->draw.fleet, &s->fresh, s->name);
    config.on_event = o->timeline > 0.0 ? uw_sim_report_exchange : NULL;
    config.event_arg = &s->report;
    config.on_touch = uw_sim_touch;
    config.touch_arg = s;
    config.interrupts = check_for_stop;
    config.interrupt_arg = s;
    config.past = s->past;
    int rc = check_memory(s, &config);
    rc = rc < 0 ? rc : uw_world_open(&s->world, &config, &s->err);
    rc = rc < 0 ? rc : uw_sim_bind_learners(s);
    rc = rc < 0 ? rc : uw_sim_resume_vectors(s);
    return rc < 0 ? rc : meet(s);
}

static int open_threads(struct uw_sim *s)
{
    int rc = uw_futures_open(&s->futures, s->threads);
    return rc < 0 ? uw_error_set(&s->err, rc, "--threads %u: the threads could not be started",
                                 (unsigned)s->threads)
                  : UW_OK;
}

/* Everything before the first step. *status is the exit status when it fails. */
static int prepare(struct uw_sim *s, int *status)
{
    struct uw_storage_file files = {.base.ops = NULL};
    uw_lr_parse(s->o->lr_schedule, &s->schedule);
    s->threads = s->o->threads != 0 ? s->o->threads : uw_board_cores();
    s->threads = s->threads < UW_BOARD_WORKERS_MAX ? s->threads : UW_BOARD_WORKERS_MAX;
    int rc = uw_sim_plan_jobs(s);
    *status = uw_job_exit(rc);
    if (rc < 0) {
        return rc;
    }
    rc = open_data(s);
    rc = rc < 0 ? rc : uw_sim_bind_jobs(s);
    rc = rc < 0 ? rc : uw_job_guard_save("--checkpoint", s->o->checkpoint, &s->err);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    rc = rc < 0 ? rc : uw_storage_file_init(&files, NULL);
    rc = rc < 0 ? rc : uw_job_try_save(&files.base, "--checkpoint", s->o->checkpoint, &s->err);
    uw_storage_file_deinit(&files);
    rc = rc < 0 ? rc : uw_sim_open_learners(s);
    rc = rc < 0 ? rc : uw_sim_resume(s);
    rc = rc < 0 ? rc : open_fleet(s);
    rc = rc < 0 ? rc : uw_sim_open_eval(s);
    rc = rc < 0 ? rc : open_world(s);
    /* Until here there is nothing to save, so SIGINT ends the process at once. */
    uw_stop_init(&s->stop);
    rc = rc < 0 ? rc : open_threads(s);
    s->saved_us = uw_board_now_us();
    return rc < 0 ? rc : uw_sim_report_open(&s->report, &s->err);
}

/* ---- the run ---- */

/* After the last step, as in uwasa node: with gossip, pull the peers' last models a few more times;
 * with pairs, average exactly. Returns whether the node is done. */
static bool agree(struct uw_sim *s, struct uw_world_node *n, int flags)
{
    const struct uw_node_config *c = &s->world.config.node;
    struct uw_sim_learner *l = &s->learners[n->place];
    bool pairs = c->rule->over == UW_MIX_OVER_PAIRS;
    uint32_t rounds = s->o->consensus_rounds * (c->slices_n > 1u ? c->slices_n : 1u);
    if (c->mode != UW_NODE_GOSSIP || rounds == 0) {
        return true;
    }
    if (l->agree_until_us == 0) {
        l->agree_until_us = s->world.now_us + AGREE_US;
        if (pairs) {
            uw_world_agree(&s->world, n);
        }
        return false;
    }
    l->agreed += (flags & UW_NODE_ROUND) != 0 ? 1u : 0u;
    return pairs || l->agreed >= rounds || s->world.now_us > l->agree_until_us;
}

/* Handle the end of a local step or of an average. */
static int after_step(struct uw_sim *s, struct uw_world_node *n, bool trained)
{
    struct uw_sim_learner *l = &s->learners[n->place];
    const struct uw_node_progress p = {.step = (uint32_t)l->step,
                                       .lr = trained ? l->lr : 0.0f,
                                       .step_loss = trained ? (float)l->step_loss : 0.0f,
                                       .loss = (float)l->loss,
                                       .accuracy = -1.0f,
                                       .period_steps = uw_sim_period(s, l)};
    bool last = l->step >= s->report.steps;
    uint64_t from_ns = uw_sim_profile_now(&s->profile);
    int flags = uw_world_trained(&s->world, n, &p, last ? PAUSE_US : 0);
    s->profile.network_ns += uw_sim_profile_now(&s->profile) - from_ns;
    if (flags < 0) {
        return uw_error_set(&s->err, flags, "the exchange with peers: %s", uw_status_text(flags));
    }
    if ((flags & UW_NODE_RETREATED) != 0) {
        l->momentum = uw_exchange_momentum_qg(&s->o->exchange);
    }
    if (!n->waits && !last) {
        uw_sim_begin_step(s, l);
    } else if (!n->waits && agree(s, n, flags)) {
        n->train_at_us = UINT64_MAX;
    }
    return UW_OK;
}

static int test_now(struct uw_sim *s, const struct uw_sim_report *before)
{
    int rc = uw_sim_evaluate(s, s->o->eval_samples);
    if (rc == UW_OK) {
        s->ended = !uw_sim_report_eval(&s->report, s->least, &s->score) ||
                   (s->o->until_accuracy > 0.0 && s->score.accuracy >= s->o->until_accuracy);
    } else {
        s->report = *before;        /* the test is still due */
    }
    uw_sim_release(s);
    return rc;
}

static void begin_steps(struct uw_sim *s)
{
    uw_sim_report_go_on(&s->report, s->least);
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (!s->report.resumed || (l->trains && !l->computed)) {
            uw_sim_begin_step(s, l);
        }
    }
}

/* *n: the next node to handle; NULL: none before the next check for a stop. Returns whether a node
 * still trains. */
static bool next(struct uw_sim *s, struct uw_world_node **n)
{
    uint64_t from_ns = uw_sim_profile_now(&s->profile);
    s->interrupted = false;
    *n = uw_world_next(&s->world);
    s->profile.network_ns += uw_sim_profile_now(&s->profile) - from_ns;
    return *n != NULL || s->interrupted;
}

static bool past_the_end(const struct uw_sim *s)
{
    double limit_us = 1e6 * s->o->virtual_seconds;
    return limit_us > 0.0 && (double)(s->world.now_us - s->world.start_us) >= limit_us;
}

/* Does an exchange keep a node from training? */
static bool some_wait(const struct uw_sim *s)
{
    uint32_t i = 0;
    while (i < s->o->nodes && !s->world.nodes[i].waits) {
        i++;
    }
    return i < s->o->nodes;
}

/* Handle a node whose step, average or wait has ended. */
static int turn(struct uw_sim *s, struct uw_world_node *n)
{
    struct uw_sim_learner *l = &s->learners[n->place];
    if (n->restarted) {
        uw_sim_forget(s, l);
    }
    bool trained = l->trains;
    if (l->held) {
        uw_sim_release(s);
    }
    int rc = trained ? uw_sim_end_step(s, l) : UW_OK;
    rc = rc < 0 ? rc : after_step(s, n, trained);
    if (rc < 0 || (!trained && !s->due)) {
        return rc;
    }
    bool goes_on = !trained || uw_sim_report_step(&s->report, s->least,
                                                  s->scored ? &s->score : NULL);
    const struct uw_sim_report before = s->report;
    s->due = s->due || (s->least < s->report.steps && uw_sim_report_due(&s->report, s->least));
    if (s->due && !(s->o->eval_mixed && some_wait(s))) {
        s->due = false;
        rc = test_now(s, &before);
    }
    s->ended = s->ended || !goes_on || past_the_end(s);
    if (rc == UW_OK && (double)(s->world.now_us - s->world.start_us) > 1e6 * VIRTUAL_MAX_S) {
        return uw_error_set(&s->err, UW_ERR_TOOBIG, "step %llu: no more than %g virtual seconds "
                            "are counted", (unsigned long long)s->least, VIRTUAL_MAX_S);
    }
    return rc;
}

/* Save when due; waits a little if that avoids saving during an average. */
static int save_now_and_then(struct uw_sim *s)
{
    double every_us = 1e6 * s->o->checkpoint_seconds;
    if (s->o->checkpoint == NULL || every_us == 0.0) {
        return UW_OK;
    }
    double since_us = (double)(uw_board_now_us() - s->saved_us);
    if (since_us < every_us || (since_us < every_us + LATE_US && uw_sim_some_average(s))) {
        return UW_OK;
    }
    int rc = uw_sim_save(s);
    s->saved_us = uw_board_now_us();
    return rc;
}

/* After a stop request: let averages in progress finish, for a limited time. */
static int end_averages(struct uw_sim *s)
{
    uint64_t until_us = uw_board_now_us() + LATE_US;
    struct uw_world_node *n;
    int rc = UW_OK;
    while (rc == UW_OK && s->o->checkpoint != NULL && uw_board_now_us() < until_us &&
           uw_sim_some_average(s) && next(s, &n)) {
        rc = n != NULL ? turn(s, n) : UW_OK;
    }
    return rc == UW_ERR_AGAIN ? UW_OK : rc;
}

/* Run to the end, or until asked to stop: both return UW_OK. */
static int run_steps(struct uw_sim *s)
{
    struct uw_world_node *n;
    int rc = UW_OK;
    uw_sim_profile_start(&s->profile);
    begin_steps(s);
    while (rc == UW_OK && !s->ended && !s->stopped && next(s, &n)) {
        rc = n != NULL ? turn(s, n) : UW_OK;
        bool looks = s->interrupted || uw_sim_looks(&s->look_us);
        s->stopped = rc == UW_OK && looks && uw_stop_asked(&s->stop);
        rc = rc == UW_OK && !s->stopped ? save_now_and_then(s) : rc;
    }
    const struct uw_sim_trial *t = s->report.trial;
    if (rc == UW_OK && !s->stopped && (t == NULL || t->tests_last)) {
        uw_sim_report_last_test(&s->report);
        rc = uw_sim_evaluate(s, t == NULL ? 0 : s->o->eval_samples);
    }
    s->stopped = s->stopped || rc == UW_ERR_AGAIN;
    rc = s->stopped ? end_averages(s) : rc;
    return rc < 0 ? rc : uw_sim_save(s);
}

/* Exit status of a stopped run: a failure only if its work is lost. */
static int end_stopped(const struct uw_sim *s)
{
    unsigned long long step = s->least, steps = s->report.steps;
    char of[32] = "", known[64] = "";
    if (s->report.steps != UW_SIM_STEPS_ENDLESS) {
        snprintf(of, sizeof of, " of %llu", steps);
    }
    if (s->scored) {
        snprintf(known, sizeof known, " (%.2f %% in the last test, mean model %.2f %%)",
                 100.0 * s->score.accuracy, 100.0 * s->score.mean_model_accuracy);
    }
    if (s->o->checkpoint == NULL) {
        return uw_cli_error("sim", UW_EXIT_FAILED,
                            "interrupted at step %llu%s%s; without --checkpoint it cannot be "
                            "resumed",
                            step, of, known);
    }
    fprintf(stderr, "uwasa sim: interrupted at step %llu%s%s, saved; --resume %s "
                    "continues\n", step,
            of, known, s->o->checkpoint);
    return UW_EXIT_DONE;
}

static struct uw_sim_work work_of(const struct uw_sim *s)
{
    struct uw_sim_work work = {.least = s->least};
    double trained_us = 0.0, there_us = 0.0;
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        const struct uw_sim_learner *l = &s->learners[i];
        uint64_t until_us = l->ended_us != 0 ? l->ended_us : s->world.now_us - s->world.start_us;
        work.most = l->step > work.most ? l->step : work.most;
        work.mean += (double)l->step / (double)s->o->nodes;
        trained_us += (double)l->step * (double)s->draw.fleet.devices[i].step_us;
        there_us += (double)until_us * uw_sim_draw_there(&s->draw, i, until_us);
    }
    work.goodput = there_us > 0.0 ? trained_us / there_us : 0.0;
    return work;
}

static void report_end(struct uw_sim *s)
{
    if (s->stopped) {
        uw_sim_report_stopped(&s->report, s->least, s->scored ? &s->score : NULL);
    } else {
        const struct uw_sim_work work = work_of(s);
        uw_sim_report_done(&s->report, &work, &s->score);
    }
}

/* Run from the first step to the end, and report the end. */
static int run_and_report(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    uw_sim_report_start(&s->report, s->fresh.size_n);
    int rc = o->config != NULL
                 ? uw_sim_fleet_show(&s->report.events, &s->draw, o->link != NULL, false)
                 : UW_OK;
    rc = rc < 0 ? rc : run_steps(s);
    if (rc == UW_OK) {
        uw_sim_report_absences(&s->report, &s->draw);
        uw_progress_clear(&s->report.progress);
        uw_sim_profile_report(&s->profile, &s->report);
        report_end(s);
        rc = uw_sim_report_close(&s->report, &s->err);
    }
    return rc;
}

static struct uw_sim *open_run(const struct uw_sim_options *o)
{
    struct uw_sim *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->o = s->report.o = o;
        s->in = &s->own;
        s->profile.on = o->profile;
        s->report.w = &s->world;
        s->report.start_us = uw_board_now_us();
        uw_progress_init(&s->report.progress);
    }
    return s;
}

static void close_run(struct uw_sim *s)
{
    uw_sim_report_close(&s->report, NULL);
    uw_futures_close(&s->futures);
    uw_world_close(&s->world);
    uw_sim_draw_close(&s->draw);
    uw_sim_close_state(s);
    uw_sim_close_eval(s);
    uw_sim_close_learners(s);
    uw_sim_inputs_close(&s->own);
    free(s);
}

int uw_sim_run(const struct uw_sim_options *o)
{
    struct uw_sim *s = open_run(o);
    int status = UW_EXIT_FAILED;
    if (s == NULL) {
        return uw_cli_error("sim", status, "out of memory");
    }
    int rc = prepare(s, &status);
    if (rc == UW_OK) {
        status = UW_EXIT_FAILED;
        rc = run_and_report(s);
    }
    uw_progress_clear(&s->report.progress);
    if (rc < 0) {
        uw_cli_error("sim", status, "%s", uw_error_sentence(&s->err, rc));
    } else {
        status = s->stopped ? end_stopped(s) : UW_EXIT_DONE;
    }
    close_run(s);
    return status;
}

int uw_sim_try(const struct uw_sim_options *o, struct uw_sim_trial *t)
{
    struct uw_sim *s = open_run(o);
    if (s == NULL) {
        t->status = UW_EXIT_FAILED;
        return uw_error_set(&t->err, UW_ERR_NOMEM, "out of memory");
    }
    s->in = t->inputs;
    s->report.trial = t;
    s->report.progress.quiet = true;
    int rc = prepare(s, &t->status);
    if (rc == UW_OK) {
        t->on_open(t, &s->report);
        rc = run_steps(s);
    }
    t->stopped = s->stopped;
    if (rc < 0) {
        uw_error_set(&t->err, rc, "%s", uw_error_sentence(&s->err, rc));
    }
    close_run(s);
    return rc;
}

/* ---- a dry run: set-up without a run ---- */

struct dry {
    const struct uw_sim_options *o;
    struct uw_job job;
    struct uw_sim_draw draw;
    struct uw_sim_inputs in;
    struct uw_sim_radio radio;
};

/* Measure a step on generated data. */
static int measure_step(struct uw_job *job, uint64_t *step_us, struct uw_error *err)
{
    struct uw_model *m = &job->model;
    uint32_t n = job->config.batch_n;
    int rc = uw_job_init_weights(job, 1, err);
    for (uint64_t i = 0; rc == UW_OK && i < (uint64_t)n * m->input_n; i++) {
        m->input[i] = (float)((i * 2654435761u >> 7) % 1024u) / 1024.0f;
    }
    for (uint32_t i = 0; rc == UW_OK && i < n; i++) {
        m->label[i] = i % m->classes;
    }
    return rc < 0 ? rc : uw_sim_time_step(job, n, step_us, err);
}

static double mean_step_s(const struct uw_sim_fleet *f)
{
    double sum_us = 0.0;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        sum_us += (double)f->devices[i].step_us;
    }
    return 1e-6 * sum_us / f->devices_n;
}

/* Refuse what the run would refuse: data that does not fit, messages larger than a frame. Then
 * predict the time of exchanges. */
static int foresee(struct dry *d, struct uw_error *err)
{
    const struct uw_params *params = &d->job.model.params;
    const struct uw_world_config world =
        config_of(d->o, &d->draw.fleet, params, "dry-run");
    uint64_t steps, per_epoch;
    int rc = open_inputs(&d->in, d->o, &d->job, err);
    if (rc < 0) {
        return rc;
    }
    if (uw_world_measure(&world, err) == SIZE_MAX && err->text[0] != '\0') {
        return err->code;
    }
    count_steps(d->o, &d->in, &steps, &per_epoch);
    d->radio = uw_sim_radio_foresee(d->o, params->size_n, steps, mean_step_s(&d->draw.fleet));
    return UW_OK;
}

static int show(const struct dry *d, struct uw_error *err)
{
    bool radio = d->o->link != NULL;
    struct uw_events events;
    int rc = uw_events_open(&events, d->o->json, UW_EVENTS_TIMELESS, err);
    bool print = rc == UW_OK && !uw_events_take_stdout(&events);
    rc = rc < 0 ? rc : uw_sim_fleet_show(&events, &d->draw, radio, print);
    if (rc == UW_OK) {
        cJSON *ev = uw_event("done");
        cJSON_AddNumberToObject(ev, "nodes", d->draw.fleet.devices_n);
        if (radio && print) {
            uw_sim_radio_print(d->o, &d->radio);
        }
        if (radio) {
            uw_sim_radio_put(ev, d->o, &d->radio);
        }
        uw_events_put(&events, ev);
    } else if (rc == UW_ERR_NOMEM) {
        uw_error_set(err, rc, "out of memory");
    }
    int closed = uw_events_close(&events, rc < 0 ? NULL : err);
    return rc < 0 ? rc : closed;
}

int uw_sim_dry_run(const struct uw_sim_options *o)
{
    struct dry d = {.o = o};
    uint64_t step_us = 0;
    struct uw_error err = {.text = ""};
    const struct uw_job_config config = {.model = o->model, .backend = o->backend,
                                         .threads = 1,
                                         .plan = {.batch_n = o->batch,
                                                  .optimizer = {.lr = 1e-6f}}};
    bool measured = uw_sim_scenario_uses(o->scenario, UW_SIM_STEP_MEASURED);
    int rc = uw_job_plan(&d.job, &config, &err);
    rc = rc == UW_OK && (measured || o->link != NULL) ? uw_job_bind(&d.job, &err) : rc;
    rc = rc == UW_OK && measured ? measure_step(&d.job, &step_us, &err) : rc;
    rc = rc < 0 ? rc : uw_sim_fleet_draw(&d.draw, o->scenario, &d.job, step_us, &err);
    int status = uw_job_exit(rc);
    if (rc == UW_OK && o->link != NULL) {
        rc = foresee(&d, &err);
        status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;     /* as the run's */
    }
    if (rc == UW_OK) {
        rc = show(&d, &err);
        status = uw_job_exit(rc);
    }
    uw_sim_inputs_close(&d.in);
    uw_sim_draw_close(&d.draw);
    uw_job_deinit(&d.job);
    return rc < 0 ? uw_cli_error("sim", status, "%s", uw_error_sentence(&err, rc)) : UW_EXIT_DONE;
}
