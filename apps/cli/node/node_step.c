/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's local steps. A GPU is given the next one before the one before is asked for, so that it
 * never waits for the processor; not when the exchange between the two will look at parameters, or
 * something else does: all see the parameters of the step that they are told of. Only what the
 * network thread brings meanwhile is mixed one step later. */
#include "node_work.h"

#include "uwasa/board.h"

#define STEP_EVENT_US 250000u

/* Under a time limit alone the schedule goes by the time. */
static float learning_rate(const struct uw_node_work *r)
{
    bool by_time = r->steps == UINT64_MAX && r->o->seconds > 0.0;
    uint64_t end = by_time ? (uint64_t)(r->o->seconds * 1e6) : r->steps;
    uint64_t at = by_time ? uw_node_work_over_us(r) : r->begun;
    const struct uw_schedule_at where = {.step = r->begun, .epoch = r->loader.epoch,
                                         .progress = at < end ? (double)at / (double)end : 1.0};
    return uw_schedule_lr(&r->schedule, r->o->lr, &where);
}

static int fail(struct uw_node_work *r, uint64_t step, int rc, const struct uw_error *why)
{
    return uw_error_set(&r->err, rc, "step %llu: %.200s", (unsigned long long)step,
                        why->text[0] != '\0' ? why->text : uw_status_text(rc));
}

static int begin(struct uw_node_work *r)
{
    struct uw_model *m = &r->job.model;
    struct uw_error why = {.text = ""};
    struct uw_node_begun *b = &r->flight[r->begun % UW_NODE_BEGUN_MAX];
    m->optimizer.lr = learning_rate(r);
    uw_node_gradients_prepare(r);
    int n = uw_loader_next(&r->loader, m->input, m->label);
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
    return uw_model_steps_free(&r->job.model) != 0 && r->begun < r->steps &&
           r->o->step_seconds <= 0.0 && uw_node_work_time_left(r) && !r->stop.asked &&
           !uw_node_work_is_due(r, uw_board_now_us()) && !uw_node_touches(&r->net.node);
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
    uw_node_work_rest(r, before_us);
    uint64_t now_us = uw_board_now_us();
    r->step_loss = result.loss;
    r->loss = r->samples == b->n ? result.loss : 0.95 * r->loss + 0.05 * result.loss;
    if (now_us - r->step_event_us >= STEP_EVENT_US || r->step == r->steps) {
        uw_node_report_step(&r->report, r->step, r->loss, (double)r->samples,
                            (double)uw_node_work_samples_per_s(r));
        r->step_event_us = now_us;
    }
    return UW_OK;
}
