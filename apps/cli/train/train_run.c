/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include "uwasa/board.h"

#include <math.h>
#include <string.h>

/* Between two minibatches of a test. */
static bool stop_asked(void *arg)
{
    struct uw_train *t = arg;
    uw_train_show_testing(t);
    return uw_stop_asked(&t->stop);
}

int uw_train_evaluate(struct uw_train *t, struct uw_train_test *test)
{
    if (test->data == NULL || (test->done && test->step == t->step)) {
        return UW_OK;
    }
    t->testing_us = uw_board_now_us();
    t->testing = test;
    int rc = uw_job_evaluate(&t->job, test->data, t->o->eval_samples, stop_asked, t, &test->score);
    if (rc == UW_ERR_AGAIN) {
        t->interrupted = true;
        return UW_OK;
    }
    if (rc < 0) {
        return uw_error_set(&t->err, rc, "%.120s: %s set: %s", t->o->data, test->word,
                            uw_status_text(rc));
    }
    if (!isfinite(test->score.loss)) {
        return uw_error_set(&t->err, UW_ERR_NONFINITE,
                            "step %llu: the %s loss is NaN or infinite; a lower --lr may help",
                            (unsigned long long)t->step, test->word);
    }
    test->done = true;
    test->step = t->step;
    uw_train_report_test(t, test);
    return UW_OK;
}

int uw_train_test_epoch(struct uw_train *t)
{
    struct uw_train_test *test = t->validation.data != NULL ? &t->validation : &t->test;
    int rc = uw_train_evaluate(t, test);
    if (rc == UW_OK && t->best.on && !t->best.judged && test->done && test->step == t->step) {
        rc = uw_best_judge(&t->best, &t->job.model, t->step, test->score.loss);
        t->changed = true;
    }
    return rc;
}

bool uw_train_out_of_patience(const struct uw_train *t)
{
    return t->o->patience != 0 && t->best.since >= t->o->patience;
}

/* Whether the parameters after the steps begun will be saved or tested. */
static bool is_mark_next(const struct uw_train *t)
{
    uint64_t every = t->o->save_every;
    return t->begun == t->steps || t->loader.position == 0 ||
           (every != 0 && t->begun % every == 0);
}

static int fail_step(struct uw_train *t, uint64_t step, int rc, const struct uw_error *why)
{
    const char *text = uw_error_sentence(why, rc);
    bool bare = rc == UW_ERR_NONFINITE && strstr(text, "may help") == NULL;
    return uw_error_set(&t->err, rc, "step %llu: %.*s%s", (unsigned long long)step,
                        bare ? 140 : 200, text,
                        bare ? "; a lower --lr, or features and values that are scaled, may help"
                             : "");
}

static int begin_one(struct uw_train *t)
{
    struct uw_model *m = &t->job.model;
    uint64_t before_us = uw_board_now_us();
    const struct uw_schedule_at at = {.step = t->begun, .epoch = t->loader.epoch,
                                      .progress = (double)t->begun / (double)t->steps};
    m->optimizer.lr = uw_schedule_lr(&t->schedule, t->o->lr, &at);
    int n = uw_loader_next(&t->loader, m->input, m->label, uw_job_target(m));
    if (n < 0) {
        return uw_error_set(&t->err, n, "%.180s: %s", t->o->data, uw_status_text(n));
    }
    struct uw_error why = {.text = ""};
    int rc = uw_model_step_begin(m, &(struct uw_minibatch){.n = (uint32_t)n}, &why);
    if (rc < 0) {
        return fail_step(t, t->begun + 1u, rc, &why);
    }
    t->best.judged = false;
    t->flight[t->begun++ % UW_DEVICE_STEPS_MAX] = (struct uw_train_begun){
        .n = (uint32_t)n, .lr = m->optimizer.lr, .epoch = t->loader.epoch,
        .position = t->loader.position, .before_us = before_us};
    return UW_OK;
}

static int end_one(struct uw_train *t)
{
    const struct uw_train_begun b = t->flight[t->step % UW_DEVICE_STEPS_MAX];
    struct uw_error why = {.text = ""};
    struct uw_step_result result;
    int rc = uw_model_step_end(&t->job.model, &result, &why);
    if (rc < 0) {
        return fail_step(t, t->step + 1u, rc, &why);
    }
    uint64_t now_us = uw_board_now_us();
    uint64_t from_us = b.before_us > t->ended_us ? b.before_us : t->ended_us;
    t->step++;
    t->epoch = b.epoch;
    t->position = b.position;
    t->ended_us = now_us;
    uw_train_trace_step(t, "step", from_us, now_us);
    t->samples += b.n;
    t->computing_us += now_us - from_us;
    t->epoch_loss += (double)result.loss * (double)b.n;
    t->epoch_samples += b.n;
    t->epoch_us += now_us - from_us;
    uw_train_report_step(t, result.loss, b.lr, now_us);
    return UW_OK;
}

/* Whether a stop is requested or events cannot be written: then the run saves and ends. */
static bool must_end(struct uw_train *t)
{
    return uw_stop_asked(&t->stop) || t->events.failed;
}

/* Run steps up to the next save or test, or until a stop; then none is in flight. */
static int run_to_mark(struct uw_train *t)
{
    bool last = false;              /* no more are to begin */
    int rc = UW_OK;
    while (rc == UW_OK && (!last || t->begun != t->step)) {
        while (rc == UW_OK && !last && uw_model_steps_free(&t->job.model) > 0) {
            rc = begin_one(t);
            last = is_mark_next(t);
        }
        rc = rc < 0 ? rc : end_one(t);
        last = last || must_end(t);
    }
    return rc;
}

/* The test that a run which was stopped before it still owes. */
static int catch_up(struct uw_train *t)
{
    bool owed = t->best.on && !t->best.judged && t->step > 0 && t->step < t->steps &&
                t->loader.position == 0;
    return owed ? uw_train_test_epoch(t) : UW_OK;
}

int uw_train_run(struct uw_train *t)
{
    int rc = catch_up(t);
    if (t->step < t->steps && !uw_train_out_of_patience(t)) {
        t->job.model.anomaly_threshold = 0.0f;      /* of other weights */
    }
    while (rc == UW_OK && t->step < t->steps && !uw_train_out_of_patience(t) && !must_end(t)) {
        rc = run_to_mark(t);
        bool epoch_end = rc == UW_OK && t->loader.position == 0;
        uint64_t every = t->o->save_every;
        if (epoch_end) {
            uw_train_report_epoch(t);
        }
        if (rc == UW_OK && (every != 0 ? t->step % every == 0 : epoch_end)) {
            rc = uw_train_save(t);
        }
        if (rc == UW_OK && epoch_end && !t->events.failed) {
            rc = uw_train_test_epoch(t);
        }
        if (rc == UW_OK && t->changed) {
            rc = uw_train_save(t);
        }
    }
    t->interrupted = t->step < t->steps && !uw_train_out_of_patience(t);
    if (rc == UW_OK) {
        uw_train_report_epoch(t);
        rc = uw_train_save(t);
    }
    return rc < 0 || t->interrupted ? rc : uw_train_end(t);
}
