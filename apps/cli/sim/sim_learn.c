/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#include "sim_draw.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER_MOST 64u           /* limit of delayed steps: tests and stops wait for them */
#define TOGETHER_N (1u << 22)       /* larger models fit no cache: their steps are not delayed */

/* ---- set-up ---- */

static int plan_job(struct uw_sim *s, struct uw_job *job)
{
    const struct uw_sim_options *o = s->o;
    const struct uw_mix_rule *rule = o->exchange.rule;
    const struct uw_job_config config = {
        .model = o->model,
        .backend = o->backend,
        .threads = 1,
        .waits = true,
        .plan = {.batch_n = o->batch,
                 .optimizer = {.lr = (float)o->lr,
                               .momentum = uw_exchange_momentum(&o->exchange),
                               .nesterov = o->exchange.nesterov,
                               .weight_decay = (float)o->weight_decay,
                               .frozen = rule->frozen},
                 .mixing_velocity = rule->velocity}};
    return uw_job_plan(job, &config, &s->err);
}

int uw_sim_plan_jobs(struct uw_sim *s)
{
    s->jobs = calloc(s->threads, sizeof *s->jobs);
    int rc = s->jobs != NULL ? UW_OK : uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; rc == UW_OK && i < s->threads; i++) {
        rc = plan_job(s, &s->jobs[i]);
    }
    return rc;
}

int uw_sim_bind_jobs(struct uw_sim *s)
{
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < s->threads; i++) {
        struct uw_job *job = &s->jobs[i];
        rc = i == 0 ? UW_OK
                    : uw_job_fit(job, &s->in->data, s->o->data, s->o->train_loss, &s->err);
        rc = rc < 0 ? rc : uw_job_bind(job, &s->err);
        rc = rc < 0 ? rc : uw_job_init_weights(job, s->o->seed, &s->err);
    }
    return rc;
}

static void run(struct uw_future *f, uint32_t thread);

int uw_sim_open_learners(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    const struct uw_model *m = &s->jobs[0].model;
    s->vectors = uw_optimizer_vectors(&m->optimizer);
    bool timed = s->schedule.kind != UW_SCHEDULE_CONSTANT &&
                 (o->virtual_seconds > 0.0 || s->report.trial != NULL);
    s->behind_max = timed ? 0 : TOGETHER_N / m->params.size_n < TOGETHER_MOST
                        ? TOGETHER_N / m->params.size_n : TOGETHER_MOST - 1u;
    s->learners = calloc(o->nodes, sizeof *s->learners);
    s->held = calloc(o->nodes, sizeof *s->held);
    if (s->learners == NULL || s->held == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        l->sim = s;
        l->place = i;
        l->future.run = run;
        l->momentum = s->jobs[0].config.optimizer.momentum;
        uw_share_init(&l->share, &s->in->trains.base, &s->in->deal, i);
        const struct uw_loader_config loader = {.dataset = &l->share.base, .batch_n = o->batch,
                                                .seed = uw_rng_mix(o->seed, 2u + i)};
        rc = uw_loader_init(&l->loader, &loader);
    }
    s->least_n = o->nodes;
    return rc;
}

int uw_sim_bind_learners(struct uw_sim *s)
{
    size_t trainable_n = s->jobs[0].model.trainable_n;
    s->states = calloc((size_t)s->o->nodes * s->vectors + 1u, trainable_n * sizeof(float));
    if (s->states == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_replica *r = &s->learners[i].replica;
        r->x = s->world.nodes[i].x;
        r->velocity = s->world.nodes[i].velocity;
        for (uint32_t v = 0; v < s->vectors; v++) {
            r->state[v] = s->states + ((size_t)i * s->vectors + v) * trainable_n;
        }
    }
    return UW_OK;
}

void uw_sim_close_learners(struct uw_sim *s)
{
    for (uint32_t i = 0; s->learners != NULL && i < s->o->nodes; i++) {
        free(s->learners[i].why);
    }
    free(s->held);
    free(s->states);
    free(s->learners);
    s->learners = NULL;
    s->states = NULL;
    s->held = NULL;
    for (uint32_t i = 0; s->jobs != NULL && i < s->threads; i++) {
        uw_job_deinit(&s->jobs[i]);
    }
    free(s->jobs);
    s->jobs = NULL;
}

/* ---- steps ---- */

/* Learning rate of a delayed step; it does not depend on time, see uw_sim_open_learners. */
static float delayed_lr(const struct uw_sim *s, uint64_t step, uint64_t epoch)
{
    const struct uw_schedule_at at = {.step = step, .epoch = epoch,
                                      .progress = (double)step / (double)s->report.steps};
    return uw_schedule_lr(&s->schedule, s->o->lr, &at);
}

/* Read the next minibatch. Returns its samples, or a code, err filled. */
static int next_samples(const struct uw_sim *s, struct uw_loader *loader, struct uw_model *m,
                        struct uw_error *err)
{
    int n = uw_loader_next(loader, m->input, m->label, uw_job_target(m));
    return n < 0 ? uw_error_set(err, n, "%.180s: %s", s->o->data, uw_status_text(n)) : n;
}

/* Compute one step. Any thread, with its own model. */
static int compute(struct uw_sim_learner *l, struct uw_model *m, uint64_t step,
                   struct uw_error *err)
{
    struct uw_step_result result;
    struct uw_error why = {.text = ""};
    int n = next_samples(l->sim, &l->loader, m, err);
    if (n < 0) {
        return n;
    }
    bool shifts = l->sim->draw.fleet.devices[l->place].attack == UW_SIM_LABELS;
    for (int i = 0; shifts && i < n; i++) {
        m->label[i] = (m->label[i] + 1u) % m->classes;
    }
    int rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &why);
    if (rc < 0) {
        return uw_error_set(err, rc, "node %u, step %llu: %.180s; a lower --lr may help",
                            (unsigned)l->place, (unsigned long long)step + 1u, why.text);
    }
    l->replica.updates = m->updates;
    l->step_loss = result.loss;
    return UW_OK;
}

static void add_loss(struct uw_sim_learner *l, uint64_t step)
{
    l->loss = step == 0 ? l->step_loss : 0.95 * l->loss + 0.05 * l->step_loss;
}

/* Compute all delayed steps, then the step in progress. */
static int compute_all(struct uw_sim_learner *l, struct uw_model *m, struct uw_error *err)
{
    int rc = uw_model_use(m, &l->replica);
    m->optimizer.momentum = l->momentum;
    while (rc == UW_OK && l->behind != 0) {
        uint64_t step = l->step - l->behind;
        m->optimizer.lr = delayed_lr(l->sim, step, l->loader.epoch);
        rc = compute(l, m, step, err);
        add_loss(l, step);
        l->behind -= rc == UW_OK;
    }
    if (rc == UW_OK && l->trains && !l->held && !l->computed) {
        m->optimizer.lr = l->lr;
        rc = compute(l, m, l->step, err);
        l->computed = true;
    }
    return rc;
}

static void run(struct uw_future *f, uint32_t thread)
{
    struct uw_sim_learner *l = (struct uw_sim_learner *)f;
    struct uw_sim_profile *p = &l->sim->profile;
    struct uw_error err = {.text = ""};
    if (l->rc < 0) {
        return;
    }
    uint64_t from_ns = uw_sim_profile_now(p);
    l->rc = compute_all(l, &l->sim->jobs[thread].model, &err);
    if (l->rc < 0) {
        free(l->why);
        l->why = strdup(err.text);
    }
    p->threads[thread].training_ns += uw_sim_profile_now(p) - from_ns;
}

static void hand_out(struct uw_sim *s, struct uw_sim_learner *l)
{
    l->handed = true;
    uw_futures_submit(s->futures, &l->future);
}

/* Whether the step in progress must be computed by its end. So must the first, since peers receive
 * its loss, and the last, after which the node continues without steps. */
static bool is_needed(const struct uw_sim *s, const struct uw_sim_learner *l)
{
    return l->step == 0 || l->step + 1u >= s->report.steps || l->behind >= s->behind_max ||
           uw_world_touches(&s->world, &s->world.nodes[l->place]);
}

static void offer(struct uw_sim *s, struct uw_sim_learner *l)
{
    if (l->trains && !l->held && !l->handed && !l->computed && is_needed(s, l)) {
        hand_out(s, l);
    }
}

void uw_sim_touch(void *arg, uint32_t place)
{
    struct uw_sim *s = arg;
    offer(s, &s->learners[place]);
}

void uw_sim_release(struct uw_sim *s)
{
    for (uint32_t i = 0; i < s->held_n; i++) {
        struct uw_sim_learner *l = &s->learners[s->held[i]];
        l->held = false;
        offer(s, l);
    }
    s->held_n = 0;
}

void uw_sim_catch_up(struct uw_sim *s)
{
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (!l->handed && (l->behind != 0 || (l->trains && !l->held && !l->computed))) {
            hand_out(s, l);
            l->handed = !l->held;
        }
    }
    uw_futures_drain(s->futures);
}

/* The epoch of the next step, which follows the delayed steps. */
static uint64_t epoch_of(const struct uw_sim_learner *l)
{
    uint32_t n = l->share.base.samples_n, batch_n = l->loader.config.batch_n;
    uint32_t first = (n - l->loader.position + batch_n - 1u) / batch_n;
    uint32_t all = (n + batch_n - 1u) / batch_n;
    return l->loader.epoch + (l->behind < first ? 0 : 1u + (l->behind - first) / all);
}

uint32_t uw_sim_period(const struct uw_sim *s, const struct uw_sim_learner *l)
{
    const struct uw_phases *p = &s->o->exchange.period;
    return p->later_n != 0
               ? uw_phases_at(p, uw_sim_report_share(&s->report, (double)l->step)) : 0;
}

void uw_sim_begin_step(struct uw_sim *s, struct uw_sim_learner *l)
{
    const struct uw_schedule_at at = {.step = l->step, .epoch = epoch_of(l),
                                      .progress = uw_sim_report_share(&s->report, (double)l->step)};
    l->lr = uw_schedule_lr(&s->schedule, s->o->lr, &at);
    l->trains = true;
    l->computed = l->handed = false;
    l->held = s->due || uw_sim_report_near(&s->report, l->step);
    if (l->held) {
        s->held[s->held_n++] = l->place;
    }
    offer(s, l);
}

void uw_sim_forget(struct uw_sim *s, struct uw_sim_learner *l)
{
    if (l->held) {
        uw_sim_release(s);
    }
    if (!l->handed) {               /* submit it even if lost, as it reads its samples */
        hand_out(s, l);
    }
    uw_futures_await(s->futures, &l->future);
    for (uint32_t v = 0; v < s->vectors; v++) {
        memset(l->replica.state[v], 0, s->jobs[0].model.trainable_n * sizeof(float));
    }
    l->replica.updates = 0;
    l->behind = 0;
    l->momentum = s->jobs[0].config.optimizer.momentum;
    l->trains = false;
    l->rc = UW_OK;
}

int uw_sim_end_step(struct uw_sim *s, struct uw_sim_learner *l)
{
    offer(s, l);
    uw_futures_await(s->futures, &l->future);
    l->trains = false;
    if (l->rc < 0) {
        return uw_error_set(&s->err, l->rc, "%s",
                            l->why != NULL ? l->why : uw_status_text(l->rc));
    }
    if (l->computed) {
        add_loss(l, l->step);
    } else {
        l->behind++;
    }
    l->step++;
    l->ended_us = l->step >= s->report.steps ? s->world.now_us - s->world.start_us : 0;
    s->least_n -= l->step == s->least + 1u;
    if (s->least_n == 0) {
        uw_sim_find_slowest(s);
    }
    uw_sim_report_trained(&s->report, l->place, l->step);
    return UW_OK;
}

void uw_sim_find_slowest(struct uw_sim *s)
{
    s->least = UINT64_MAX;
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        uint64_t step = s->learners[i].step;
        s->least_n = step < s->least ? 1u : s->least_n + (step == s->least);
        s->least = step < s->least ? step : s->least;
    }
}

/* ---- how long it takes here ---- */

/* Without the time of generating samples: a device has its own. */
int uw_sim_measure_step(struct uw_sim *s, uint64_t *step_us)
{
    struct uw_job *job = &s->jobs[0];
    struct uw_loader loader = s->learners[0].loader;
    int n = next_samples(s, &loader, &job->model, &s->err);
    job->model.optimizer.lr = (float)s->o->lr;
    int rc = n < 0 ? n : uw_sim_time_step(job, (uint32_t)n, step_us, &s->err);
    return rc < 0 ? rc : uw_job_init_weights(job, s->o->seed, &s->err);
}
