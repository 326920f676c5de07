/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all parts of a running node: progress, time left, the exchange with the network, local
 * steps. */
#include "node_work.h"

#include "uwasa/board.h"
#include "uwasa/hash.h"

#include <string.h>
#include <time.h>

#define STEP_EVENT_US 250000u
#define NAP_US 20000u               /* interval of checks for a stop */
#define LEAST_SAMPLES_PER_S 1e-3f

/* Share of the run that is over: by steps, or by time if only that is limited. */
static double share(const struct uw_node_work *r)
{
    bool by_time = r->steps == UINT64_MAX && r->o->seconds > 0.0;
    uint64_t end = by_time ? (uint64_t)(r->o->seconds * 1e6) : r->steps;
    uint64_t at = by_time ? uw_node_work_over_us(r) : r->begun;
    return at < end ? (double)at / (double)end : 1.0;
}

/* T; 0: it does not change. */
static uint32_t period(const struct uw_node_work *r)
{
    const struct uw_phases *p = &r->o->exchange.period;
    return p->later_n != 0 ? uw_phases_at(p, share(r)) : 0;
}

uint64_t uw_node_work_name(const struct uw_node_work *r)
{
    return uw_hash64(UW_HASH64_START, r->o->name, strlen(r->o->name));
}

uint64_t uw_node_work_agree_us(const struct uw_node_options *o)
{
    uint64_t us = uw_node_consensus_us(o), gather_us = (uint64_t)(o->gather_seconds * 1e6);
    return o->together != 0 && gather_us > us ? gather_us : us;
}

uint64_t uw_node_work_over_us(const struct uw_node_work *r)
{
    return uw_board_now_us() - r->start_us + (uint64_t)(r->o->elapsed * 1e6);
}

bool uw_node_work_time_left(const struct uw_node_work *r)
{
    return r->o->seconds <= 0.0 || (double)uw_node_work_over_us(r) < r->o->seconds * 1e6;
}

/* Sleep until "step_seconds" after since_us, the step's begin, or until the node is to end. */
static void rest(struct uw_node_work *r, uint64_t since_us)
{
    uint64_t from_us = uw_board_now_us();
    uint64_t until_us = since_us + (uint64_t)(r->o->step_seconds * 1e6);
    uint64_t now_us = from_us;
    while (now_us < until_us && !uw_stop_asked(&r->stop) && uw_node_work_time_left(r)) {
        uint64_t nap_us = until_us - now_us < NAP_US ? until_us - now_us : NAP_US;
        nanosleep(&(struct timespec){.tv_nsec = (long)nap_us * 1000}, NULL);
        now_us = uw_board_now_us();
    }
    if (now_us != from_us) {
        uw_node_trace_part(r, "rest", from_us, now_us);
    }
}

double uw_node_work_elapsed_s(const struct uw_node_work *r)
{
    return uw_seconds_since(r->start_us);
}

float uw_node_work_samples_per_s(const struct uw_node_work *r)
{
    uint64_t until_us = r->trained_us != 0 ? r->trained_us : uw_board_now_us();
    bool any = r->train_us != 0 && until_us > r->train_us;
    return any ? (float)((double)r->samples * 1e6 / (double)(until_us - r->train_us)) : 0.0f;
}

double uw_node_work_left_s(const struct uw_node_work *r)
{
    double over = (double)uw_node_work_over_us(r) / 1e6;
    double left = r->o->seconds > 0.0 ? r->o->seconds - over : -1.0;
    if (r->trained_us != 0) {
        return -1.0;
    }
    left = r->o->seconds > 0.0 && left < 0.0 ? 0.0 : left;
    if (r->steps != UINT64_MAX && r->step > r->first_step) {
        double by_steps = r->step >= r->steps
                              ? 0.0
                              : uw_node_work_elapsed_s(r) * (double)(r->steps - r->step) /
                                    (double)(r->step - r->first_step);
        left = left < 0.0 || by_steps < left ? by_steps : left;
    }
    return left;
}

bool uw_node_work_saves(const struct uw_node_work *r, uint64_t now_us)
{
    return r->o->checkpoint != NULL &&
           (double)(now_us - r->saved_us) >= r->o->checkpoint_seconds * 1e6;
}

bool uw_node_work_evaluates(const struct uw_node_work *r, uint64_t now_us)
{
    return r->o->eval_seconds > 0.0 &&
           (double)(now_us - r->scored_us) >= r->o->eval_seconds * 1e6;
}

/* The rate to report to peers: above 0 until training has ended and, by broadcast, others have its
 * result. */
static float sent_samples_per_s(const struct uw_node_work *r)
{
    float speed = uw_node_work_samples_per_s(r);
    bool ended = r->trained_us != 0 && (r->all_shown || !uw_node_work_broadcasts(r->o));
    return ended ? 0.0f : speed > 0.0f ? speed : LEAST_SAMPLES_PER_S;
}

static uint32_t still_s(const struct uw_node_work *r)
{
    bool still = r->still && r->trained_us == 0;
    return still ? (uint32_t)((uw_board_now_us() - r->moved_us) / 1000000u) : 0;
}

void uw_node_work_watch(struct uw_node_work *r)
{
    uint64_t idle_us = uw_board_now_us() - r->moved_us;
    struct uw_node_counters c;
    if (r->train_us == 0 || r->trained_us != 0) {
        return;
    }
    uw_node_net_members(&r->net, NULL, &c);
    if (!r->still && uw_node_report_is_still(idle_us, r->moved_us - r->train_us,
                                             r->step - r->first_step, c.period_steps)) {
        r->still = true;
        uw_node_report_still(&r->report, r->step, idle_us, false);
    }
    if (r->still) {
        const struct uw_node_progress p = uw_node_work_progress(r, 0.0f);
        uw_node_tell(&r->net.node, &p);
    }
}

struct uw_node_progress uw_node_work_progress(const struct uw_node_work *r, float lr)
{
    return (struct uw_node_progress){
        .step = (uint32_t)r->step, .lr = lr, .step_loss = (float)r->step_loss,
        .loss = (float)r->loss, .accuracy = r->scored ? (float)r->score.accuracy : -1.0f,
        .samples_per_s = sent_samples_per_s(r), .period_steps = period(r), .still_s = still_s(r),
        .vitals = r->vitals};
}

int uw_node_work_name_failed_gpu(struct uw_node_work *r, const char *why)
{
    if (r->train_us == 0) {
        return uw_error_set(&r->err, UW_ERR_IO, "the GPU failed before the first step (%.95s); "
                            "with \"backend\": \"%s\" the processor trains", why,
                            uw_job_gpu_else());
    }
    return uw_error_set(&r->err, UW_ERR_IO, "the GPU failed after step %llu (%.95s): %s",
                        (unsigned long long)r->step, why,
                        r->o->checkpoint != NULL
                            ? "training since the last checkpoint is lost; the same command "
                              "resumes from there"
                            : "nothing was saved, there is no \"checkpoint\"");
}

int uw_node_work_exchange(struct uw_node_work *r, float lr)
{
    const struct uw_node_progress p = uw_node_work_progress(r, lr);
    int rc = uw_node_gradients_settle(r);
    if (rc < 0) {
        return rc;
    }
    rc = uw_node_after_step(&r->net.node, &p);
    bool averaging = rc > 0 && (rc & UW_NODE_AVERAGING) != 0;
    if (rc > 0 && !(averaging && r->averaging)) {
        uw_node_net_wake(&r->net);
    }
    r->averaging = averaging;
    if (rc > 0 && (rc & UW_NODE_RETREATED) != 0) {
        r->job.model.optimizer.momentum = uw_exchange_momentum_qg(&r->o->exchange);
        r->retreated = true;
    }
    if (rc < 0) {
        return r->image_failed ? uw_node_work_name_failed_gpu(r, "a copy of its memory")
                               : uw_error_set(&r->err, rc, "the exchange with peers: %s",
                                              uw_status_text(rc));
    }
    int met = uw_node_gradients_meet(r);
    return met < 0 ? met : rc;
}

/* ---- local steps ----
 *
 * The next step is queued on a GPU before the result of the previous one is fetched, so the GPU
 * never waits for the processor. The exception is when the exchange, or something else, between the
 * two steps reads parameters: it must see those of its step. Parameters that the network thread
 * receives meanwhile are mixed one step later. */

static float learning_rate(const struct uw_node_work *r)
{
    const struct uw_schedule_at where = {.step = r->begun, .epoch = r->loader.epoch,
                                         .progress = share(r)};
    return uw_schedule_lr(&r->schedule, r->o->lr, &where);
}

static int fail(struct uw_node_work *r, uint64_t step, int rc, const struct uw_error *why)
{
    return uw_error_set(&r->err, rc, "step %llu: %.200s", (unsigned long long)step,
                        uw_error_sentence(why, rc));
}

static int begin(struct uw_node_work *r)
{
    struct uw_model *m = &r->job.model;
    struct uw_error why = {.text = ""};
    struct uw_node_begun *b = &r->flight[r->begun % UW_NODE_BEGUN_MAX];
    m->optimizer.lr = learning_rate(r);
    uw_node_gradients_prepare(r);
    int n = uw_loader_next(&r->loader, m->input, m->label, uw_job_target(m));
    if (n < 0) {
        return uw_error_set(&r->err, n, "%.180s: %s", r->o->data, uw_status_text(n));
    }
    int rc = uw_model_step_begin(m, &(struct uw_minibatch){.n = (uint32_t)n}, &why);
    if (rc < 0) {
        return fail(r, r->begun + 1u, rc, &why);
    }
    *b = (struct uw_node_begun){.n = (uint32_t)n, .lr = m->optimizer.lr};
    r->begun++;
    return UW_OK;
}

int uw_node_work_warm(struct uw_node_work *r)
{
    const uint32_t n[2] = {r->o->batch, r->own->samples_n % r->o->batch};
    struct uw_error why = {.text = ""};
    int rc = UW_OK;
    for (uint32_t i = 0; i < 2 && rc == UW_OK; i++) {
        rc = n[i] != 0 ? uw_model_warm(&r->job.model, n[i], &why) : UW_OK;
    }
    return rc < 0 ? fail(r, 0, rc, &why) : UW_OK;
}

static bool runs_ahead(const struct uw_node_work *r)
{
    uint64_t now_us = uw_board_now_us();
    return uw_model_steps_free(&r->job.model) != 0 && r->begun < r->steps &&
           r->o->step_seconds <= 0.0 && uw_node_work_time_left(r) && !r->stop.asked &&
           !uw_node_work_saves(r, now_us) && !uw_node_work_evaluates(r, now_us) &&
           !uw_node_touches(&r->net.node) && !uw_queries_next(&r->queries);
}

int uw_node_work_train(struct uw_node_work *r, float *lr)
{
    struct uw_step_result result;
    struct uw_error why = {.text = ""};
    uint64_t before_us = uw_board_now_us();
    int rc = r->begun == r->step ? begin(r) : UW_OK;
    if (rc == UW_OK && runs_ahead(r)) {
        rc = begin(r);
    }
    if (rc < 0) {
        return rc;
    }
    rc = uw_model_step_end(&r->job.model, &result, &why);
    if (rc < 0) {
        return fail(r, r->step + 1u, rc, &why);
    }
    const struct uw_node_begun *b = &r->flight[r->step % UW_NODE_BEGUN_MAX];
    *lr = b->lr;
    r->step++;
    r->samples += b->n;
    uw_node_trace_part(r, NULL, before_us, uw_board_now_us());
    rest(r, before_us);
    uint64_t now_us = uw_board_now_us();
    if (r->still) {
        uw_node_report_still(&r->report, r->step - 1u, now_us - r->moved_us, true);
    }
    r->still = false;
    r->moved_us = now_us;
    r->step_loss = result.loss;
    r->loss = r->samples == b->n ? result.loss : 0.95 * r->loss + 0.05 * result.loss;
    if (now_us - r->step_event_us >= STEP_EVENT_US || r->step == r->steps) {
        uw_node_report_step(&r->report, r->step, r->loss, (double)r->samples,
                            (double)uw_node_work_samples_per_s(r));
        r->step_event_us = now_us;
    }
    return UW_OK;
}
