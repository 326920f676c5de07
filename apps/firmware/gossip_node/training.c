/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "uwasa/schedule.h"

#define REPORT_US 1000000u

int uw_firmware_open_data(struct uw_firmware *f)
{
    const struct uw_settings *s = &f->settings;
    const struct uw_digits_config own = {.seed = s->seed,
                                         .classes_mask = uw_settings_classes(s->classes)};
    const struct uw_digits_config test = {.seed = 1, .test = true, .samples_n = s->eval_samples};
    int rc = uw_digits_init(&f->digits, &own);
    rc = rc < 0 ? rc : uw_digits_init(&f->test, &test);
    const struct uw_loader_config loader = {.dataset = &f->digits.base, .batch_n = s->batch,
                                            .seed = s->seed, .between = f->model.between,
                                            .between_arg = f};
    rc = rc < 0 ? rc : uw_loader_init(&f->loader, &loader);
    f->accuracy = -1.0f;
    return rc < 0 ? uw_error_set(&f->err, rc, "data: %s", uw_status_text(rc)) : UW_OK;
}

float uw_firmware_samples_per_s(const struct uw_firmware *f)
{
    uint64_t us = uw_machine_now_us() - f->started_us;
    return us > 0 ? (float)((double)f->samples * 1e6 / (double)us) : 0.0f;
}

uint64_t uw_firmware_trained_us(const struct uw_firmware *f)
{
    return f->trained_us + uw_machine_now_us() - f->started_us;
}

static int evaluate(struct uw_firmware *f, bool final)
{
    double loss = 0.0;
    uint32_t correct = 0, batch_n = f->settings.batch;
    for (uint32_t i = 0; i < f->test.base.samples_n; i += batch_n) {
        uint32_t n = f->test.base.samples_n - i < batch_n ? f->test.base.samples_n - i : batch_n;
        for (uint32_t k = 0; k < n; k++) {
            (void)f->test.base.ops->read(&f->test.base, i + k,
                                         f->model.input + k * f->model.input_n,
                                         &f->model.label[k]);
            uw_firmware_poll(f);
        }
        int rc = uw_model_evaluate(&f->model, &(struct uw_minibatch){.n = n}, &loss, &correct);
        if (rc < 0) {
            return uw_error_set(&f->err, rc, "test: %s", uw_status_text(rc));
        }
    }
    f->accuracy = (float)correct / (float)f->test.base.samples_n;
    f->tested_us = uw_machine_now_us();
    uw_firmware_report_eval(f, final);
    return UW_OK;
}

static int exchange(struct uw_firmware *f, float lr)
{
    const struct uw_node_progress p = {
        .step = f->step, .lr = lr, .loss = (float)f->loss, .accuracy = f->accuracy,
        .samples_per_s = f->training ? uw_firmware_samples_per_s(f) : 0.0f};
    int rc = uw_node_after_step(&f->node, &p);
    return rc < 0 ? uw_error_set(&f->err, rc, "exchange: %s", uw_status_text(rc)) : rc;
}

/* The learning rate of the next step. */
static float rate(const struct uw_firmware *f)
{
    const struct uw_settings *s = &f->settings;
    double gone = s->steps != 0 ? (double)f->step / (double)s->steps
                                : (double)uw_firmware_trained_us(f) / 1e6 /
                                      (double)(s->seconds != 0 ? s->seconds : UINT32_MAX);
    const struct uw_schedule schedule = {
        .kind = s->schedule == UW_SET_LR_COSINE ? UW_SCHEDULE_COSINE : UW_SCHEDULE_CONSTANT};
    const struct uw_schedule_at at = {.step = f->step, .progress = gone < 1.0 ? gone : 1.0};
    return uw_schedule_lr(&schedule, (double)s->lr, &at);
}

static int step(struct uw_firmware *f)
{
    struct uw_model *m = &f->model;
    struct uw_step_result result;
    int n = uw_loader_next(&f->loader, m->input, m->label, NULL);
    if (n < 0) {
        return uw_error_set(&f->err, n, "data: %s", uw_status_text(n));
    }
    m->optimizer.lr = rate(f);
    int rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &f->err);
    if (rc < 0) {
        return rc;
    }
    f->step++;
    f->samples += (uint64_t)n;
    f->loss = f->samples == (uint64_t)n ? result.loss : 0.95 * f->loss + 0.05 * result.loss;
    uint64_t now_us = uw_machine_now_us();
    if (now_us - f->reported_us >= REPORT_US) {
        uw_firmware_report_step(f);
        f->reported_us = now_us;
    }
    uint64_t keep_us = (uint64_t)f->settings.checkpoint_seconds * 1000000u;
    if (f->storage_open && keep_us != 0 && now_us - f->saved_us >= keep_us) {
        (void)uw_firmware_save_checkpoint(f);
    }
    if (f->settings.eval_seconds != 0 &&
        now_us - f->tested_us >= (uint64_t)f->settings.eval_seconds * 1000000u) {
        rc = evaluate(f, false);
    }
    return rc;
}

static bool time_left(const struct uw_firmware *f)
{
    const struct uw_settings *s = &f->settings;
    return (s->steps == 0 || f->step < s->steps) &&
           (s->seconds == 0 || uw_firmware_trained_us(f) < (uint64_t)s->seconds * 1000000u);
}

/* After training: rounds without steps make the models agree; then the model is tested. */
static int settle(struct uw_firmware *f)
{
    int rc = exchange(f, 0.0f);
    if (rc >= 0 && (rc & UW_NODE_ROUND) != 0 && f->rounds_left > 0) {
        f->rounds_left--;
    }
    if (rc >= 0 && f->rounds_left == 0) {
        f->done = true;
        rc = evaluate(f, true);
        if (f->storage_open && f->settings.checkpoint_seconds != 0) {
            (void)uw_firmware_save_checkpoint(f);
        }
        uw_firmware_report_samples(f);
        uw_firmware_report_done(f);
    }
    return rc;
}

/* Too few samples for a minibatch so far: keep exchanging with peers, and report it. */
static int wait_for_samples(struct uw_firmware *f)
{
    uint64_t now_us = uw_machine_now_us();
    if (now_us - f->reported_us < REPORT_US) {
        return UW_OK;
    }
    f->reported_us = now_us;
    uw_firmware_report_samples(f);
    return exchange(f, 0.0f);
}

int uw_firmware_train(struct uw_firmware *f)
{
    int rc;
    f->waiting = f->uart.link != NULL && f->uart.held < f->settings.batch;
    if (f->started_us == 0) {
        uint64_t elapsed_us = f->settings.elapsed * UINT64_C(1000000);
        f->trained_us = f->trained_us > elapsed_us ? f->trained_us : elapsed_us;
        f->started_us = f->tested_us = f->reported_us = f->saved_us = uw_machine_now_us();
        f->training = true;
        f->rounds_left = f->settings.consensus_rounds;
        rc = exchange(f, 0.0f);
    } else if (f->training && !time_left(f)) {
        f->training = false;
        if (f->samples == 0) {
            uw_console_line("nothing is left to train");
        }
        rc = UW_OK;
    } else if (f->training && !f->adopting && f->waiting) {
        rc = wait_for_samples(f);
    } else if (f->training && !f->adopting) {
        rc = step(f);
        rc = rc < 0 ? rc : exchange(f, f->model.optimizer.lr);
    } else {
        rc = f->training || f->done ? exchange(f, 0.0f) : settle(f);
    }
    f->adopting = rc >= 0 && (rc & (UW_NODE_ADOPTING | UW_NODE_AVERAGING)) != 0;
    return rc < 0 ? rc : UW_OK;
}
