/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "job.h"
#include "lr.h"
#include "momentum.h"
#include "stop.h"

#include "uwasa/board.h"
#include "uwasa/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEET_US 600000000u          /* virtual; slow links and many nodes need seconds */
#define PAUSE_US 2000u              /* how often a node that agrees with others looks */
#define AGREE_US 10000000u
#define MEASURED_STEPS 15u
#define SCRATCH_N 65536u            /* lent to averages, as in uwasa node */

/* What a node has beside its place in the network. */
struct learner {
    struct uw_share share;
    struct uw_loader loader;
    float *state[UW_OPTIMIZER_VECTORS_MAX];
    uint64_t updates, step;
    uint64_t agree_until_us;        /* 0: it trains */
    uint32_t agreed;                /* rounds since its last step */
    float lr;                       /* of its last step */
    float momentum;
    double loss;                    /* running mean */
};

struct run {
    const struct uw_sim_options *o;
    struct uw_job job;
    struct uw_data data, test;
    struct uw_deal deal;
    struct learner *learners;       /* [o->nodes] */
    float *states;                  /* all optimizer state */
    uint32_t vectors;               /* of optimizer state, a node */
    struct uw_world world;
    struct uw_schedule schedule;    /* of the learning rate */
    struct uw_stop stop;
    struct uw_sim_report report;
    struct uw_sim_score score;
    struct uw_sim_timeline timeline;
    double *accuracies;             /* [o->nodes] of the last test */
    bool scored, reached;
    struct uw_error err;
};

static bool stop_asked(void *arg)
{
    struct run *r = arg;
    return uw_stop_asked(&r->stop);
}

/* ---- set-up ---- */

static int plan(struct run *r)
{
    const struct uw_sim_options *o = r->o;
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    const struct uw_job_config config = {
        .model = o->model,
        .backend = o->backend,
        .threads = o->threads,
        .plan = {.batch_n = o->batch,
                 .optimizer = {.lr = (float)o->lr,
                               .momentum = uw_momentum_steps(rule, o->momentum),
                               .weight_decay = (float)o->weight_decay,
                               .frozen = rule->frozen},
                 .mixing_velocity = rule->velocity}};
    return uw_job_plan(&r->job, &config, &r->err);
}

static int open_data(struct run *r)
{
    const struct uw_sim_options *o = r->o;
    const struct uw_model_def *def = &r->job.file.def;
    struct uw_data_config config = {.seed = o->seed, .channels = def->in_channels,
                                    .height = def->in_h, .width = def->in_w};
    int rc = uw_data_open(&r->data, o->data, &config, &r->err);
    config.test = true;
    rc = rc < 0 ? rc : uw_data_open(&r->test, o->data, &config, &r->err);
    rc = rc < 0 ? rc : uw_job_check_data(&r->job, r->data.base, o->data, &r->err);
    if (rc < 0) {
        return rc;
    }
    struct uw_error why = {.text = ""};
    rc = uw_deal_open(&r->deal, r->data.base, &o->dealt, o->nodes, uw_rng_mix(o->seed, 1), &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "--nodes %u, --skew %.40s, data %.80s: %.100s",
                            (unsigned)o->nodes, o->skew, o->data, why.text);
    }
    uint64_t together = (uint64_t)o->nodes * o->batch;
    r->report.per_epoch = (r->data.base->samples_n + together - 1u) / together;
    r->report.steps =
        o->steps != 0 ? o->steps : r->report.per_epoch * (o->epochs != 0 ? o->epochs : 1u);
    return UW_OK;
}

static int open_learners(struct run *r)
{
    const struct uw_sim_options *o = r->o;
    struct uw_model *m = &r->job.model;
    r->vectors = uw_optimizer_vectors(&m->optimizer);
    r->learners = calloc(o->nodes, sizeof *r->learners);
    r->states = calloc((size_t)o->nodes * r->vectors + 1u, m->trainable_n * sizeof(float));
    r->accuracies = calloc(o->nodes, sizeof *r->accuracies);
    if (r->learners == NULL || r->states == NULL || r->accuracies == NULL) {
        return uw_error_set(&r->err, UW_ERR_NOMEM, "out of memory");
    }
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < o->nodes; i++) {
        struct learner *l = &r->learners[i];
        for (uint32_t v = 0; v < r->vectors; v++) {
            l->state[v] = r->states + ((size_t)i * r->vectors + v) * m->trainable_n;
        }
        l->momentum = m->optimizer.momentum;
        uw_share_init(&l->share, r->data.base, &r->deal, i);
        const struct uw_loader_config loader = {.dataset = &l->share.base, .batch_n = o->batch,
                                                .seed = uw_rng_mix(o->seed, 2u + i)};
        rc = uw_loader_init(&l->loader, &loader);
    }
    return rc;
}

/* One step on what the model holds now. */
static int compute(struct run *r, struct learner *l, double *loss)
{
    struct uw_model *m = &r->job.model;
    struct uw_step_result result;
    struct uw_error why = {.text = ""};
    int n = uw_loader_next(&l->loader, m->input, m->label);
    if (n < 0) {
        return uw_error_set(&r->err, n, "%.180s: %s", r->o->data, uw_status_text(n));
    }
    int rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "node %u, step %llu: %.180s; a lower --lr may help",
                            (unsigned)(l - r->learners), (unsigned long long)l->step + 1u,
                            why.text);
    }
    *loss = result.loss;
    return UW_OK;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* How long a local step takes on this machine: the median of some, which are then forgotten. */
static int measure_step(struct run *r, uint64_t *step_us)
{
    struct learner scratch = r->learners[0];
    uint64_t took_us[MEASURED_STEPS];
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < MEASURED_STEPS; i++) {
        double loss;
        uint64_t start_us = uw_board_now_us();
        rc = compute(r, &scratch, &loss);
        took_us[i] = uw_board_now_us() - start_us;
    }
    if (rc == UW_OK) {
        qsort(took_us, MEASURED_STEPS, sizeof took_us[0], by_size);
        *step_us = took_us[MEASURED_STEPS / 2u];
        rc = uw_job_init_weights(&r->job, r->o->seed, &r->err);
        r->job.model.updates = 0;
    }
    return rc;
}

static int open_world(struct run *r)
{
    const struct uw_sim_options *o = r->o;
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    struct uw_model *m = &r->job.model;
    uint64_t step_us = (uint64_t)(o->step_seconds * 1e6 + 0.5);
    char run[32];
    int rc = o->step_seconds > 0.0 ? UW_OK : measure_step(r, &step_us);
    if (rc < 0) {
        return rc;
    }
    snprintf(run, sizeof run, "sim-%llu", (unsigned long long)o->seed);
    const struct uw_world_config config = {
        .nodes_n = o->nodes,
        .cell_n = strcmp(o->exchange, "hierarchical") == 0 ? o->cell_nodes
                  : strcmp(o->exchange, "allreduce") == 0  ? o->nodes
                                                           : 0,
        .params = &m->params,
        .node = {.run = run,
                 .mode = uw_node_mode_find(o->exchange),
                 .head_weight = 1,
                 .scratch_n = SCRATCH_N,
                 .rule = rule,
                 .constants = {.beta = uw_momentum_beta(rule, o->momentum)},
                 .schedule = uw_peer_schedule_find(o->schedule),
                 .period_steps = o->period,
                 .seed = uw_rng_mix(o->seed, 0)},
        .bandwidth = o->bandwidth,
        .latency_us = (uint64_t)(o->latency * 1e6 + 0.5),
        .on_event = o->timeline > 0.0 ? uw_sim_timeline_event : NULL,
        .event_arg = &r->timeline,
        .mtu_bytes = o->mtu,
        .step_us = step_us != 0 ? step_us : 1u};
    rc = uw_world_open(&r->world, &config, &r->err);
    rc = rc < 0 ? rc : uw_world_meet(&r->world, MEET_US);
    if (rc == UW_ERR_AGAIN) {
        return uw_error_set(&r->err, rc, "--nodes %u: they do not all find each other within "
                            "%u virtual seconds, the network is too slow", (unsigned)o->nodes,
                            MEET_US / 1000000u);
    }
    return rc;
}

/* Everything before the first step. *status is the exit status when it fails. */
static int prepare(struct run *r, int *status)
{
    uw_lr_parse(r->o->lr_schedule, &r->schedule);
    int rc = plan(r);
    *status = uw_job_exit(rc);
    if (rc < 0) {
        return rc;
    }
    rc = uw_job_bind(&r->job, &r->err);
    rc = rc < 0 ? rc : open_data(r);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    rc = rc < 0 ? rc : uw_job_init_weights(&r->job, r->o->seed, &r->err);
    rc = rc < 0 ? rc : open_learners(r);
    rc = rc < 0 ? rc : open_world(r);
    return rc < 0 ? rc : uw_sim_report_open(&r->report, &r->err);
}

/* ---- the run ---- */

static void load(struct run *r, const float *x)
{
    struct uw_params *p = &r->job.model.params;
    memcpy(p->x, x, p->size_n * sizeof(float));
}

static int train_one(struct run *r, struct uw_world_node *n)
{
    struct learner *l = &r->learners[n->place];
    struct uw_model *m = &r->job.model;
    double loss = 0.0;
    load(r, n->x);
    for (uint32_t v = 0; v < r->vectors; v++) {
        m->state[v] = l->state[v];
    }
    m->velocity = n->velocity;
    m->updates = l->updates;
    m->optimizer.momentum = l->momentum;
    const struct uw_schedule_at at = {.step = l->step, .epoch = l->loader.epoch,
                                      .progress = (double)l->step / (double)r->report.steps};
    l->lr = m->optimizer.lr = uw_schedule_lr(&r->schedule, r->o->lr, &at);
    int rc = compute(r, l, &loss);
    if (rc < 0) {
        return rc;
    }
    l->updates = m->updates;
    memcpy(n->x, m->params.x, m->params.size_n * sizeof(float));
    l->loss = l->step == 0 ? loss : 0.95 * l->loss + 0.05 * loss;
    l->step++;
    return UW_OK;
}

/* After the last step: gossip looks for others' last models a few times more, those who were paired
 * average exactly, as uwasa node does. Returns whether the node is done. */
static bool agree(struct run *r, struct uw_world_node *n, int flags)
{
    const struct uw_node_config *c = &r->world.config.node;
    struct learner *l = &r->learners[n->place];
    bool pairs = c->rule->over == UW_MIX_OVER_PAIRS, agreeing = l->agree_until_us != 0;
    if (c->mode != UW_NODE_GOSSIP || r->o->consensus_rounds == 0) {
        return true;
    }
    if (!agreeing) {
        l->agree_until_us = r->world.now_us + AGREE_US;
        if (pairs) {
            uw_node_agree(&n->node);
        }
        return false;
    }
    l->agreed += (flags & UW_NODE_ROUND) != 0 ? 1u : 0u;
    return pairs || l->agreed >= r->o->consensus_rounds || r->world.now_us > l->agree_until_us;
}

/* The end of a local step, or of an average. */
static int after_step(struct run *r, struct uw_world_node *n)
{
    struct learner *l = &r->learners[n->place];
    bool agreeing = l->agree_until_us != 0;
    bool waited = n->waits;
    const struct uw_node_progress p = {.step = (uint32_t)l->step,
                                       .lr = agreeing || waited ? 0.0f : l->lr,
                                       .loss = (float)l->loss,
                                       .accuracy = -1.0f};
    bool last = l->step >= r->report.steps;
    int flags = uw_world_trained(&r->world, n, &p, last ? PAUSE_US : 0);
    if (flags < 0) {
        return uw_error_set(&r->err, flags, "the exchange with peers: %s", uw_status_text(flags));
    }
    if ((flags & UW_NODE_RETREATED) != 0) {
        l->momentum = uw_momentum_qg(r->o->momentum);
    }
    if (!n->waits && last && agree(r, n, flags)) {
        n->train_at_us = UINT64_MAX;
    }
    return UW_OK;
}

static int test_model(struct run *r, uint32_t limit, struct uw_score *score)
{
    int rc = uw_job_evaluate(&r->job, r->test.base, limit, stop_asked, r, score);
    if (rc < 0 && rc != UW_ERR_AGAIN) {
        return uw_error_set(&r->err, rc, "%.120s: test set: %s", r->o->data, uw_status_text(rc));
    }
    return rc;
}

/* Test every node's model, and the mean of them. Returns UW_ERR_AGAIN when stopped. */
static int evaluate(struct run *r, uint32_t limit)
{
    struct uw_sim_score s = {.accuracies = r->accuracies};
    struct uw_score one = {.accuracy = 0.0};
    uint32_t nodes = r->o->nodes;
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < nodes; i++) {
        load(r, uw_world_model(&r->world, &r->world.nodes[i]));
        rc = test_model(r, limit, &one);
        s.accuracies[i] = one.accuracy;
        s.loss += one.loss / nodes;
    }
    rc = rc < 0 ? rc : uw_sim_score_spread(&s, nodes);
    if (rc < 0) {
        return rc;
    }
    if (!isfinite(s.loss)) {
        return uw_error_set(&r->err, UW_ERR_NONFINITE,
                            "the test loss is NaN or infinite; a lower --lr may help");
    }
    s.consensus_distance = uw_sim_mean_model(&r->world, r->job.model.params.x);
    rc = test_model(r, limit, &one);
    s.mean_model_accuracy = one.accuracy;
    r->score = s;
    r->scored = rc == UW_OK;
    return rc;
}

static uint64_t slowest(const struct run *r)
{
    uint64_t step = UINT64_MAX;
    for (uint32_t i = 0; i < r->o->nodes; i++) {
        step = r->learners[i].step < step ? r->learners[i].step : step;
    }
    return step;
}

static int test_now(struct run *r, uint64_t step)
{
    int rc = evaluate(r, r->o->eval_samples);
    if (rc == UW_OK) {
        uw_sim_report_eval(&r->report, &r->world, step, &r->score);
        r->reached = r->o->until_accuracy > 0.0 && r->score.accuracy >= r->o->until_accuracy;
    }
    return rc;
}

static int run_steps(struct run *r)
{
    struct uw_world_node *n;
    int rc = UW_OK;
    while (rc == UW_OK && !r->reached && (n = uw_world_next(&r->world)) != NULL) {
        struct learner *l = &r->learners[n->place];
        bool trains = l->step < r->report.steps && !n->waits;
        rc = trains ? train_one(r, n) : UW_OK;
        rc = rc < 0 ? rc : after_step(r, n);
        if (rc == UW_OK && trains) {
            uint64_t step = slowest(r);
            uw_sim_report_trained(&r->report, &r->world, n->place, l->step);
            uw_sim_report_step(&r->report, &r->world, step, r->scored ? &r->score : NULL);
            if (step < r->report.steps && uw_sim_report_due(&r->report, &r->world, step)) {
                rc = test_now(r, step);
            }
        }
        rc = rc == UW_OK && uw_stop_asked(&r->stop) ? UW_ERR_AGAIN : rc;
    }
    rc = rc < 0 ? rc : evaluate(r, 0);
    return rc == UW_ERR_AGAIN
               ? uw_error_set(&r->err, rc, "stopped at step %llu of %llu",
                              (unsigned long long)slowest(r), (unsigned long long)r->report.steps)
               : rc;
}

int uw_sim_run(const struct uw_sim_options *o)
{
    struct run *r = calloc(1, sizeof *r);
    int status = UW_EXIT_FAILED;
    if (r == NULL) {
        return uw_cli_error("sim", status, "out of memory");
    }
    r->o = r->report.o = o;
    r->timeline = (struct uw_sim_timeline){.report = &r->report, .world = &r->world};
    r->report.start_us = uw_board_now_us();
    uw_progress_init(&r->report.progress);
    uw_stop_init(&r->stop);
    int rc = prepare(r, &status);
    if (rc == UW_OK) {
        status = UW_EXIT_FAILED;
        uw_sim_report_start(&r->report, &r->world, r->job.model.params.size_n);
        rc = run_steps(r);
    }
    if (rc == UW_OK) {
        uw_sim_report_done(&r->report, &r->world, slowest(r), &r->score);
        rc = uw_sim_report_close(&r->report, &r->err);
    }
    uw_progress_clear(&r->report.progress);
    if (rc < 0) {
        uw_cli_error("sim", status, "%s",
                     r->err.text[0] != '\0' ? r->err.text : uw_status_text(rc));
    } else {
        status = UW_EXIT_DONE;
    }
    uw_sim_report_close(&r->report, NULL);
    uw_world_close(&r->world);
    free(r->accuracies);
    free(r->states);
    free(r->learners);
    uw_deal_close(&r->deal);
    uw_data_close(&r->test);
    uw_data_close(&r->data);
    uw_job_deinit(&r->job);
    free(r);
    return status;
}
