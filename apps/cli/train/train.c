/* SPDX-License-Identifier: Apache-2.0 */
#include "train_run.h"

#include "profile_view.h"
#include "base/open_file.h"

#include "uwasa/board.h"
#include "uwasa/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two minibatches of a test. */
static bool stop_asked(void *arg)
{
    struct train *t = arg;
    uw_train_testing(t);
    return uw_stop_asked(&t->stop);
}

static int save(struct train *t)
{
    if (t->o->save == NULL || t->saved_step == t->step) {
        return UW_OK;
    }
    if (!uw_model_is_finite(&t->job.model)) {
        return uw_error_set(&t->err, UW_ERR_NONFINITE,
                            "step %llu: a weight has become NaN or infinite; nothing was saved, "
                            "%.120s is as it was; a lower --lr may help",
                            (unsigned long long)t->step, t->o->save);
    }
    const struct uw_checkpoint state = {.step = t->step,
                                        .epoch = t->loader.epoch,
                                        .position = t->loader.position,
                                        .seed = t->o->seed,
                                        .batch_n = t->o->batch,
                                        .exact = t->o->exact};
    int rc = uw_checkpoint_save(&t->job.model, &state, &t->files.base, t->o->save, &t->err);
    if (rc == UW_OK) {
        t->saved_step = t->step;
    }
    return rc;
}

static int resume(struct train *t)
{
    const struct uw_train_options *o = t->o;
    struct uw_checkpoint state;
    uint64_t bytes;
    if (!o->resume) {
        return UW_OK;
    }
    if (t->files.base.ops->size(&t->files.base, o->save, &bytes) == UW_ERR_NOTFOUND) {
        uw_progress_say(&t->progress, "%s: not there yet, starting at step 0", o->save);
        return UW_OK;
    }
    int rc = uw_checkpoint_load(&t->job.model, &state, &t->files.base, o->save, &t->err);
    if (rc < 0) {
        return rc;
    }
    if (state.seed != o->seed) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "--seed %llu: %.120s was trained with --seed %llu",
                            (unsigned long long)o->seed, o->save, (unsigned long long)state.seed);
    }
    if (state.batch_n != o->batch) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "--batch %u: %.120s was trained with --batch %llu", (unsigned)o->batch,
                            o->save, (unsigned long long)state.batch_n);
    }
    rc = uw_job_check_exact(&t->job, o->exact, "--exact", &state, o->save, &t->err);
    if (rc < 0) {
        return rc;
    }
    if (state.position >= t->data.base->samples_n) {
        return uw_error_set(&t->err, UW_ERR_MISMATCH,
                            "%.120s stands at sample %llu, data %.80s has %u", o->save,
                            (unsigned long long)state.position, o->data,
                            (unsigned)t->data.base->samples_n);
    }
    t->step = t->begun = t->saved_step = t->first_step = state.step;
    t->loader.epoch = t->epoch = state.epoch;
    t->loader.position = (uint32_t)state.position;
    t->position = state.position;
    uw_progress_say(&t->progress, t->step < t->steps ? "%s: resuming at step %llu"
                                                     : "%s: step %llu is done, nothing is left",
                    o->save, (unsigned long long)t->step);
    return UW_OK;
}

/* "flip", "crop:4", "flip,crop:4" */
static int read_augment(const char *text, struct uw_data_config *config, struct uw_error *err)
{
    const char *rest = text;
    char *end;

    if (text == NULL) {
        return UW_OK;
    }
    if (strncmp(rest, "flip", 4) == 0 && (rest[4] == ',' || rest[4] == '\0')) {
        config->flip = true;
        rest += rest[4] == ',' ? 5 : 4;
    }
    if (strncmp(rest, "crop:", 5) == 0 && rest[5] >= '1' && rest[5] <= '9') {
        unsigned long n = strtoul(rest + 5, &end, 10);
        config->crop = n <= 1024 ? (uint32_t)n : 0;
        rest = config->crop != 0 ? end : rest;
    }
    if (*rest != '\0' || (!config->flip && config->crop == 0)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--augment %.60s: needs flip, crop:N or flip,crop:N, N from 1 to 1024",
                            text);
    }
    return UW_OK;
}

static int open_data(struct train *t)
{
    const struct uw_train_options *o = t->o;
    const struct uw_model_def *def = &t->job.file.def;
    struct uw_data_config config = {.seed = o->seed, .channels = def->in_channels,
                                    .height = def->in_h, .width = def->in_w};
    int rc = read_augment(o->augment, &config, &t->err);
    rc = rc < 0 ? rc : uw_data_open(&t->data, o->data, &config, &t->err);
    if (rc == UW_OK) {
        rc = uw_data_open(&t->test, o->data,
                          &(struct uw_data_config){.seed = o->seed, .test = true}, &t->err);
    }
    if (rc == UW_OK) {
        rc = uw_job_check_data(&t->job, t->data.base, o->data, &t->err);
    }
    if (rc == UW_OK) {
        rc = uw_loader_init(&t->loader, &(struct uw_loader_config){.dataset = t->data.base,
                                                                   .batch_n = o->batch,
                                                                   .seed = o->seed,
                                                                   .no_shuffle = o->no_shuffle});
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t per_epoch = ((uint64_t)t->data.base->samples_n + o->batch - 1u) / o->batch;
    t->steps = o->steps != 0 ? o->steps : per_epoch * (o->epochs != 0 ? o->epochs : 1u);
    return UW_OK;
}

/* A GPU's layer is over when it is done, not when it is in the queue. */
static uint64_t profile_now_us(void *arg)
{
    const struct train *t = arg;
    if (t->job.gpu.cuda != NULL) {
        (void)t->job.config.kernels->device->wait(&t->job.model.exec);
    }
    return uw_board_now_us();
}

static void trace_layer(void *arg, uint32_t row, enum uw_profile_part part, uint64_t from_us,
                        uint64_t until_us)
{
    struct train *t = arg;
    uw_trace_layer(&t->trace, &t->job.model, row, part, from_us, until_us);
}

static int start_profile(struct train *t)
{
    struct uw_model *m = &t->job.model;
    m->guard.factor = (float)t->o->spike;
    if (!t->o->profile && t->o->trace == NULL) {
        return UW_OK;
    }
    int rc = uw_trace_open(&t->trace, t->o->trace, "uwasa train", &t->err);
    if (rc < 0) {
        return rc;
    }
    uw_trace_thread(&t->trace, UW_TRACE_COMPUTE, "training");
    t->profile = (struct uw_profile){.now_us = profile_now_us, .arg = t, .span = trace_layer,
                                     .rows = calloc(m->layers_n + 1u, sizeof *t->profile.rows)};
    m->profile = t->profile.rows != NULL ? &t->profile : NULL;
    return m->profile != NULL ? UW_OK : uw_error_set(&t->err, UW_ERR_NOMEM, "out of memory");
}

/* Everything before the first step. Returns UW_OK or a code; *status is the exit status then. */
static int prepare(struct train *t, int *status)
{
    const struct uw_train_options *o = t->o;
    struct uw_job_config config = {.model = o->model,
                                   .backend = o->backend.word,
                                   .exact = o->exact,
                                   .gpu = true,
                                   .tf32 = o->tf32,
                                   .threads = o->threads,
                                   .plan = {.batch_n = o->batch}};

    uw_lr_parse(o->schedule, &t->schedule);
    t->saved_step = UINT64_MAX;
    int rc = uw_recipe_apply(&o->recipe, &config.plan, &t->err);
    rc = rc < 0 ? rc : uw_job_plan(&t->job, &config, &t->err);
    *status = uw_job_exit(rc);
    if (rc < 0) {
        return rc;
    }
    rc = uw_storage_file_init(&t->files, NULL);
    rc = rc < 0 ? rc : open_data(t);
    rc = rc < 0 ? rc : uw_job_bind(&t->job, &t->err);
    if (rc == UW_OK) {
        uw_train_device(t);
    }
    rc = rc < 0 ? rc : uw_job_guard_save("--save", o->save, &t->err);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    rc = rc < 0 ? rc : uw_job_try_save(&t->files.base, "--save", o->save, &t->err);
    if (rc == UW_OK) {
        rc = uw_job_init_weights(&t->job, o->seed, &t->err);
        rc = rc < 0 || o->weights == NULL ? rc
                                          : uw_job_load_weights(&t->job, o->weights, &t->err);
        for (uint32_t i = 0; i < t->job.onnx.notes_n; i++) {
            uw_progress_say(&t->progress, "%s: %s", o->model, t->job.onnx.notes[i]);
        }
    }
    if (rc == UW_OK && o->exact) {
        uw_progress_say(&t->progress, "exact: kernels %s, the same bits on every processor",
                        t->job.config.kernels->name);
    }
    rc = rc < 0 ? rc : start_profile(t);
    rc = rc < 0 ? rc : resume(t);
    return rc < 0 ? rc : uw_events_open(&t->events, o->json, &t->err);
}

static int evaluate(struct train *t)
{
    if (t->scored && t->scored_step == t->step) {
        return UW_OK;
    }
    t->testing_us = uw_board_now_us();
    int rc = uw_job_evaluate(&t->job, t->test.base, t->o->eval_samples, stop_asked, t, &t->score);
    if (rc == UW_ERR_AGAIN) {
        t->interrupted = true;
        return UW_OK;
    }
    if (rc < 0) {
        return uw_error_set(&t->err, rc, "%.120s: test set: %s", t->o->data, uw_status_text(rc));
    }
    if (!isfinite(t->score.loss)) {
        return uw_error_set(&t->err, UW_ERR_NONFINITE,
                            "step %llu: the test loss is NaN or infinite; a lower --lr may help",
                            (unsigned long long)t->step);
    }
    t->scored = true;
    t->scored_step = t->step;
    cJSON *ev = uw_event("eval");
    cJSON_AddNumberToObject(ev, "step", (double)t->step);
    cJSON_AddNumberToObject(ev, "epoch", (double)t->loader.epoch);
    cJSON_AddNumberToObject(ev, "test_accuracy", t->score.accuracy);
    cJSON_AddNumberToObject(ev, "test_loss", t->score.loss);
    cJSON_AddNumberToObject(ev, "test_samples", (double)t->score.samples_n);
    uw_events_put(&t->events, ev);
    char text[UW_SCORE_TEXT_BYTES];
    uw_progress_say(&t->progress, "epoch %llu  step %llu  %s", uw_train_epoch(t),
                    (unsigned long long)t->step, uw_score_text(&t->score, text));
    return UW_OK;
}

/* Are parameters looked at behind the steps begun: to be saved, to be tested? */
static bool at_a_mark(const struct train *t)
{
    uint64_t every = t->o->save_every;
    return t->begun == t->steps || t->loader.position == 0 ||
           (every != 0 && t->begun % every == 0);
}

static int fail_step(struct train *t, uint64_t step, int rc, const struct uw_error *why)
{
    return uw_error_set(&t->err, rc, "step %llu: %.200s", (unsigned long long)step,
                        why->text[0] != '\0' ? why->text : uw_status_text(rc));
}

static int begin_one(struct train *t)
{
    struct uw_model *m = &t->job.model;
    uint64_t before_us = uw_board_now_us();
    const struct uw_schedule_at at = {.step = t->begun, .epoch = t->loader.epoch,
                                      .progress = (double)t->begun / (double)t->steps};
    m->optimizer.lr = uw_schedule_lr(&t->schedule, t->o->lr, &at);
    int n = uw_loader_next(&t->loader, m->input, m->label);
    if (n < 0) {
        return uw_error_set(&t->err, n, "%.180s: %s", t->o->data, uw_status_text(n));
    }
    struct uw_error why = {.text = ""};
    int rc = uw_model_step_begin(m, &(struct uw_minibatch){.n = (uint32_t)n}, &why);
    if (rc < 0) {
        return fail_step(t, t->begun + 1u, rc, &why);
    }
    t->flight[t->begun++ % UW_DEVICE_STEPS_MAX] = (struct begun){
        .n = (uint32_t)n, .lr = m->optimizer.lr, .epoch = t->loader.epoch,
        .position = t->loader.position, .before_us = before_us};
    return UW_OK;
}

static int end_one(struct train *t)
{
    const struct begun b = t->flight[t->step % UW_DEVICE_STEPS_MAX];
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
    uw_train_trace(t, "step", from_us, now_us);
    t->samples += b.n;
    t->computing_us += now_us - from_us;
    uw_train_step(t, result.loss, b.lr, now_us);
    return UW_OK;
}

/* Is a stop asked for, or does nobody take the events? What is done is saved then. */
static bool is_to_end(struct train *t)
{
    return uw_stop_asked(&t->stop) || t->events.failed;
}

/* Steps up to a mark, or until a stop is asked for; none is in flight then. */
static int run_to_mark(struct train *t)
{
    bool last = false;              /* no more are to begin */
    int rc = UW_OK;
    while (rc == UW_OK && (!last || t->begun != t->step)) {
        while (rc == UW_OK && !last && uw_model_steps_free(&t->job.model) > 0) {
            rc = begin_one(t);
            last = at_a_mark(t);
        }
        rc = rc < 0 ? rc : end_one(t);
        last = last || is_to_end(t);
    }
    return rc;
}

static int run_steps(struct train *t)
{
    int rc = UW_OK;
    while (rc == UW_OK && t->step < t->steps && !is_to_end(t)) {
        rc = run_to_mark(t);
        bool epoch_end = rc == UW_OK && t->loader.position == 0;
        uint64_t every = t->o->save_every;
        if (rc == UW_OK && (every != 0 ? t->step % every == 0 : epoch_end)) {
            rc = save(t);
        }
        if (rc == UW_OK && epoch_end && !t->events.failed) {
            rc = evaluate(t);
        }
    }
    t->interrupted = t->step < t->steps;
    if (rc == UW_OK) {
        rc = save(t);
    }
    if (rc == UW_OK && !t->interrupted) {
        rc = evaluate(t);
    }
    return rc;
}

/* Is there a file to go on from, of this run or of the one that it was to resume? */
static bool is_saved(struct train *t)
{
    uint64_t bytes;
    return t->saved_step != UINT64_MAX ||
           (t->o->resume && t->files.base.ops->size(&t->files.base, t->o->save, &bytes) == UW_OK);
}

/* In the place of what came of it: a status, a weight that could not be looked at. */
static void name_failed_gpu(struct train *t)
{
    const struct uw_train_options *o = t->o;
    char when[48] = "before the first step";
    const char *why = uw_job_gpu_failure(&t->job);
    if (why == NULL) {
        return;
    }
    if (t->begun > t->first_step) {
        snprintf(when, sizeof when, "after step %llu", (unsigned long long)t->step);
    }
    if (o->save != NULL && is_saved(t)) {
        uw_error_set(&t->err, UW_ERR_IO,
                     "the GPU failed %s (%.95s); the same command with --resume goes on from "
                     "%.60s, with --backend %s on the processor",
                     when, why, o->save, uw_job_gpu_else());
    } else {
        uw_error_set(&t->err, UW_ERR_IO,
                     "the GPU failed %s (%.95s), and nothing was saved; --backend %s trains "
                     "on the processor",
                     when, why, uw_job_gpu_else());
    }
}

/* Add to what the events say where training ended because of them. */
static void tell_untold(struct train *t)
{
    const struct uw_error why = t->err;
    uw_error_set(&t->err, why.code, "%.200s; stopped at step %llu%s", why.text,
                 (unsigned long long)t->step,
                 t->o->save != NULL ? ", saved; --resume goes on" : "");
}

int uw_train_run(const struct uw_train_options *o)
{
    struct train t = {.o = o, .start_us = uw_board_now_us()};
    int status;
    uw_progress_init(&t.progress);
    uw_stop_init(&t.stop);
    int rc = prepare(&t, &status);
    if (rc == UW_OK) {
        status = UW_EXIT_FAILED;
        rc = run_steps(&t);
    }
    if (rc == UW_OK) {
        if (o->profile) {
            uw_profile_report(&t.job.model, t.samples, &t.events);
        }
        bool untold = t.events.failed;
        uw_train_done(&t);
        rc = uw_events_close(&t.events, &t.err);
        if (untold) {
            tell_untold(&t);
        }
        rc = rc < 0 ? rc : uw_trace_close(&t.trace, &t.err);
    }
    uw_progress_clear(&t.progress);
    if (rc < 0) {
        name_failed_gpu(&t);
        uw_cli_error("train", status, "%s",
                     t.err.text[0] != '\0' ? t.err.text : uw_status_text(rc));
    } else {
        status = t.interrupted ? uw_train_interrupted(&t) : UW_EXIT_DONE;
    }
    uw_events_close(&t.events, NULL);
    uw_trace_close(&t.trace, NULL);
    uw_data_close(&t.test);
    uw_data_close(&t.data);
    uw_storage_file_deinit(&t.files);
    free(t.profile.rows);
    uw_job_deinit(&t.job);
    return (int)status;
}
