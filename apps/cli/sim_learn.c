/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#include "momentum.h"
#include "sim_fleet.h"

#include <stdlib.h>
#include <string.h>

/* ---- set-up ---- */

static int open_job(struct uw_sim *s, struct uw_job *job)
{
    const struct uw_sim_options *o = s->o;
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    const struct uw_job_config config = {
        .model = o->model,
        .backend = o->backend,
        .threads = 1,
        .plan = {.batch_n = o->batch,
                 .optimizer = {.lr = (float)o->lr,
                               .momentum = uw_momentum_steps(rule, o->momentum),
                               .weight_decay = (float)o->weight_decay,
                               .frozen = rule->frozen},
                 .mixing_velocity = rule->velocity}};
    int rc = uw_job_plan(job, &config, &s->err);
    rc = rc < 0 ? rc : uw_job_bind(job, &s->err);
    return rc < 0 ? rc : uw_job_init_weights(job, o->seed, &s->err);
}

int uw_sim_open_jobs(struct uw_sim *s)
{
    s->jobs = calloc(s->threads, sizeof *s->jobs);
    int rc = s->jobs != NULL ? UW_OK : uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; rc == UW_OK && i < s->threads; i++) {
        rc = open_job(s, &s->jobs[i]);
    }
    return rc;
}

static void step(struct uw_future *f, uint32_t thread);

int uw_sim_open_learners(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    const struct uw_model *m = &s->jobs[0].model;
    s->vectors = uw_optimizer_vectors(&m->optimizer);
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
        l->future.run = step;
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

/* ---- one step ---- */

/* Returns how many, or what failed, err filled. */
static int next_samples(const struct uw_sim *s, struct uw_loader *loader, struct uw_model *m,
                        struct uw_error *err)
{
    int n = uw_loader_next(loader, m->input, m->label);
    return n < 0 ? uw_error_set(err, n, "%.180s: %s", s->o->data, uw_status_text(n)) : n;
}

/* Any thread, with its own model. */
static int compute(struct uw_sim_learner *l, struct uw_model *m, struct uw_error *err)
{
    const struct uw_sim *s = l->sim;
    struct uw_step_result result;
    struct uw_error why = {.text = ""};
    int rc = uw_model_use(m, &l->replica);
    m->optimizer.lr = l->lr;
    m->optimizer.momentum = l->momentum;
    int n = rc < 0 ? rc : next_samples(s, &l->loader, m, err);
    if (n < 0) {
        return n;
    }
    rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &why);
    if (rc < 0) {
        return uw_error_set(err, rc, "node %u, step %llu: %.180s; a lower --lr may help",
                            (unsigned)l->place, (unsigned long long)l->step + 1u,
                            why.text);
    }
    l->replica.updates = m->updates;
    l->step_loss = result.loss;
    return UW_OK;
}

static void step(struct uw_future *f, uint32_t thread)
{
    struct uw_sim_learner *l = (struct uw_sim_learner *)f;
    struct uw_error err = {.text = ""};
    l->rc = compute(l, &l->sim->jobs[thread].model, &err);
    l->computed = true;
    if (l->rc < 0) {
        free(l->why);
        l->why = strdup(err.text);
    }
}

void uw_sim_release(struct uw_sim *s)
{
    for (uint32_t i = 0; i < s->held_n; i++) {
        struct uw_sim_learner *l = &s->learners[s->held[i]];
        l->held = false;
        uw_futures_submit(s->futures, &l->future);
    }
    s->held_n = 0;
}

void uw_sim_begin_step(struct uw_sim *s, struct uw_sim_learner *l)
{
    const struct uw_schedule_at at = {.step = l->step, .epoch = l->loader.epoch,
                                      .progress = uw_sim_report_share(&s->report, &s->world,
                                                                      (double)l->step)};
    l->lr = uw_schedule_lr(&s->schedule, s->o->lr, &at);
    l->trains = true;
    l->computed = false;
    if (!uw_sim_report_near(&s->report, &s->world, l->step)) {
        uw_futures_submit(s->futures, &l->future);
        return;
    }
    l->held = true;
    s->held[s->held_n++] = l->place;
}

void uw_sim_forget(struct uw_sim *s, struct uw_sim_learner *l)
{
    if (l->held) {
        uw_sim_release(s);
    }
    uw_futures_await(s->futures, &l->future);
    for (uint32_t v = 0; v < s->vectors; v++) {
        memset(l->replica.state[v], 0, s->jobs[0].model.trainable_n * sizeof(float));
    }
    l->replica.updates = 0;
    l->momentum = s->jobs[0].config.optimizer.momentum;
    l->trains = false;
    l->rc = UW_OK;
}

int uw_sim_end_step(struct uw_sim *s, struct uw_sim_learner *l)
{
    uw_futures_await(s->futures, &l->future);
    l->trains = false;
    if (l->rc < 0) {
        return uw_error_set(&s->err, l->rc, "%s",
                            l->why != NULL ? l->why : uw_status_text(l->rc));
    }
    l->loss = l->step == 0 ? l->step_loss : 0.95 * l->loss + 0.05 * l->step_loss;
    l->step++;
    s->least_n -= l->step == s->least + 1u;
    if (s->least_n == 0) {
        uw_sim_find_slowest(s);
    }
    uw_sim_report_trained(&s->report, &s->world, l->place, l->step);
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

/* Without what it takes to make the samples: a device has its own. */
int uw_sim_measure_step(struct uw_sim *s, uint64_t *step_us)
{
    struct uw_job *job = &s->jobs[0];
    struct uw_loader loader = s->learners[0].loader;
    int n = next_samples(s, &loader, &job->model, &s->err);
    job->model.optimizer.lr = (float)s->o->lr;
    int rc = n < 0 ? n : uw_sim_time_step(job, (uint32_t)n, step_us, &s->err);
    return rc < 0 ? rc : uw_job_init_weights(job, s->o->seed, &s->err);
}
