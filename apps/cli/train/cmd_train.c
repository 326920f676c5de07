/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_view.h"
#include "base/commands.h"
#include "base/events.h"
#include "base/open_file.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/trace.h"
#include "job/job_data.h"
#include "job/recipe.h"
#include "job/results.h"

#include "uwasa/board.h"
#include "uwasa/checkpoint.h"
#include "uwasa/data.h"
#include "uwasa/describe.h"
#include "uwasa/storage_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_US 200000u

struct options {
    const char *model, *data;
    struct uw_job_onnx onnx;
    uint32_t epochs, batch, threads;
    uint32_t eval_samples;              /* of a test at most; 0: all */
    uint64_t steps, save_every, seed;
    double lr, spike;                   /* spike 0: no guard */
    struct uw_recipe recipe;
    const char *augment;                /* NULL, or "flip,crop:4" */
    const char *schedule, *weights, *save, *json, *trace;
    struct uw_choice backend, loss;     /* loss: enum uw_loss_word */
    bool resume, no_shuffle, profile, exact, tf32;
};

/* A step that has begun. */
struct begun {
    uint32_t n;
    float lr;
    uint64_t epoch, position;       /* of the loader, behind its minibatch */
    uint64_t before_us;
};

struct train {
    const struct options *o;
    struct uw_job job;
    struct uw_data data, test;
    struct uw_loader loader;
    struct uw_schedule schedule;
    struct uw_storage_file files;
    struct uw_events events;
    struct uw_progress progress;
    struct uw_trace trace;
    struct uw_stop stop;
    uint64_t step, steps;           /* done; to do in all */
    uint64_t begun;                 /* steps begun, including those done */
    struct begun flight[UW_DEVICE_STEPS_MAX];   /* [step % UW_DEVICE_STEPS_MAX] */
    uint64_t epoch, position;       /* of the loader when the last step that is done began */
    uint64_t first_step;            /* steps of the resumed file */
    uint64_t saved_step;            /* step of the saved file */
    uint64_t start_us, computing_us, event_us;
    uint64_t ended_us;              /* when the last step was done */
    uint64_t testing_us;            /* when the last test began */
    uint64_t samples;               /* computed by this process */
    double shown_loss;
    uint32_t shown_n;               /* steps in shown_loss */
    bool scored, interrupted;
    uint64_t scored_step;
    struct uw_score score;
    struct uw_error err;
};

/* ---- reports ---- */

/* Report the GPU in use, or why none is used. */
static void report_device(struct train *t)
{
    char text[UW_GPU_TEXT_BYTES];
    if (t->job.gpu.cuda != NULL) {
        uw_progress_print(&t->progress, "%s%s", uw_job_gpu_text(&t->job.gpu, text),
                          t->o->tf32 ? ", TF32 products" : "");
    }
    uw_job_gpu_log(&t->job.gpu, "train");
}

/* The epoch of the last step, from 1. */
static unsigned long long epoch_of(const struct train *t)
{
    return t->epoch + (t->position != 0 ? 1u : 0u);
}

static void report_step(struct train *t, double loss, float lr, uint64_t now_us)
{
    bool every = t->o->no_shuffle && t->o->steps != 0;
    t->shown_loss += loss;
    t->shown_n++;
    if (t->events.file != NULL &&
        (every || t->step == t->steps || now_us - t->event_us >= EVENT_US)) {
        cJSON *ev = uw_event("step");
        UW_EVENT_NUMBERS(ev, {"step", (double)t->step}, {"epoch", (double)t->epoch}, {"loss", loss},
                         {"samples", (double)t->samples});
        uw_event_float(ev, "lr", lr);
        uw_events_put(&t->events, ev);
        t->event_us = now_us;
    }
    if (uw_progress_due(&t->progress, now_us)) {
        char eta[UW_TEXT_BYTES];
        double seconds = (double)t->computing_us / 1e6;
        double per_s = (double)t->samples / seconds;
        double left = (double)(t->steps - t->step) * (double)t->o->batch / per_s;
        uw_progress_show(&t->progress,
                         "step %llu/%llu  epoch %llu  loss %.4f  %.0f samples/s  ETA %s",
                         (unsigned long long)t->step, (unsigned long long)t->steps,
                         epoch_of(t), t->shown_loss / t->shown_n, per_s,
                         uw_text_time(left, eta));
        t->shown_loss = 0.0;
        t->shown_n = 0;
    }
}

/* Of a test. */
static uint64_t samples_of(const struct train *t)
{
    uint32_t all = t->test.base->samples_n, most = t->o->eval_samples;
    return most != 0 && most < all ? most : all;
}

static void show_testing(struct train *t)
{
    uint64_t now_us = uw_board_now_us(), done = t->score.samples_n, all = samples_of(t);
    if (done == 0 || !uw_progress_due(&t->progress, now_us)) {
        return;
    }
    char eta[UW_TEXT_BYTES];
    double per_s = (double)done / ((double)(now_us - t->testing_us) / 1e6);
    uw_progress_show(&t->progress, "testing %llu/%llu samples  step %llu  %.0f samples/s  ETA %s",
                     (unsigned long long)done, (unsigned long long)all,
                     (unsigned long long)t->step, per_s,
                     uw_text_time((double)(all - done) / per_s, eta));
}

static void trace_step(struct train *t, const char *what, uint64_t from_us, uint64_t until_us)
{
    char name[48];
    snprintf(name, sizeof name, "%s %llu", what, (unsigned long long)t->step);
    uw_trace_span(&t->trace, UW_TRACE_COMPUTE, what, name, from_us, until_us);
}

/* It ended early. */
static const char *where(const struct train *t)
{
    return t->step < t->steps ? "at" : "in the test after";
}

static void print_done(const struct train *t, double seconds, double per_s, uint64_t rss)
{
    char a[UW_TEXT_BYTES];
    char b[UW_TEXT_BYTES];
    if (t->scored && t->scored_step == t->step) {
        uw_score_print(&t->score);
        if (t->score.samples_n < t->test.base->samples_n) {
            printf("tested on      %llu of %u samples\n", (unsigned long long)t->score.samples_n,
                   (unsigned)t->test.base->samples_n);
        }
    }
    if (t->interrupted) {
        printf("interrupted    %s step %llu of %llu\n", where(t), (unsigned long long)t->step,
               (unsigned long long)t->steps);
    }
    if (t->first_step > 0) {
        printf("steps          %llu, of these now %llu in %.1f s\n", (unsigned long long)t->step,
               (unsigned long long)(t->step - t->first_step), seconds);
    } else {
        printf("steps          %llu in %.1f s\n", (unsigned long long)t->step, seconds);
    }
    if (t->o->exact) {
        printf("arithmetic     exact, kernels %s\n", t->job.config.kernels->name);
    }
    uw_job_print_device(&t->job);
    if (t->samples > 0) {
        printf("training       %.0f samples a second\n", per_s);
    }
    if (t->job.gpu.cuda != NULL) {
        printf("GPU memory     %s\n", uw_text_bytes((double)uw_job_device_bytes(&t->job), a));
    }
    printf("memory         %s arena, %s peak\n",
           uw_text_bytes((double)t->job.arena.used_bytes, a), uw_text_bytes((double)rss, b));
    if (t->job.model.guard.skipped > 0) {
        printf("skipped        %llu steps with a loss above %g times the average\n",
               (unsigned long long)t->job.model.guard.skipped, t->o->spike);
    }
    if (t->o->save != NULL) {
        printf("saved          %s\n", t->o->save);
    }
}

static void report_done(struct train *t)
{
    double seconds = uw_seconds_since(t->start_us);
    double per_s = t->computing_us > 0 ? (double)t->samples / ((double)t->computing_us / 1e6) : 0;
    uint64_t rss = uw_board_peak_rss_bytes();
    cJSON *ev = uw_event("done");
    cJSON_AddNumberToObject(ev, "step", (double)t->step);
    bool scored = t->scored && t->scored_step == t->step;
    if (scored) {
        UW_EVENT_NUMBERS(ev, {"test_accuracy", t->score.accuracy}, {"test_loss", t->score.loss},
                         {"test_samples", (double)t->score.samples_n});
    }
    UW_EVENT_NUMBERS(ev, {"samples", (double)t->samples}, {"samples_per_s", per_s},
                     {"seconds", seconds}, {"arena_bytes", (double)t->job.arena.used_bytes},
                     {"peak_rss_bytes", (double)rss});
    cJSON_AddStringToObject(ev, "backend", t->job.config.kernels->name);
    uw_job_device_json(&t->job, ev);
    cJSON_AddBoolToObject(ev, "interrupted", t->interrupted);
    cJSON_AddBoolToObject(ev, "exact", t->o->exact);
    if (t->job.model.guard.factor != 0.0f) {
        cJSON_AddNumberToObject(ev, "skipped_steps", (double)t->job.model.guard.skipped);
    }
    bool quiet = uw_events_take_stdout(&t->events);
    uw_events_put(&t->events, ev);
    uw_progress_clear(&t->progress);
    if (!quiet) {
        print_done(t, seconds, per_s, rss);
    }
}

/* An interrupted run is a failure only when its work is lost. Returns the exit status. */
static int report_interrupted(const struct train *t)
{
    unsigned long long step = t->step;
    unsigned long long steps = t->steps;
    if (t->o->save == NULL) {
        return uw_cli_error("train", UW_EXIT_FAILED,
                            "interrupted %s step %llu of %llu, nothing is saved: no --save",
                            where(t), step, steps);
    }
    fprintf(stderr, "uwasa train: interrupted %s step %llu of %llu, saved; --resume continues\n",
            where(t), step, steps);
    return UW_EXIT_DONE;
}

/* ---- the run ---- */

/* Between two minibatches of a test. */
static bool stop_asked(void *arg)
{
    struct train *t = arg;
    show_testing(t);
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
                                        .exact = t->o->exact,
                                        .data = t->job.columns};
    int rc = uw_checkpoint_save(&t->job.model, &state, &t->files.base, t->o->save, &t->err);
    if (rc == UW_OK) {
        t->saved_step = t->step;
    }
    return rc;
}

static int resume(struct train *t)
{
    const struct options *o = t->o;
    struct uw_checkpoint state;
    uint64_t bytes;
    if (!o->resume) {
        return UW_OK;
    }
    if (t->files.base.ops->size(&t->files.base, o->save, &bytes) == UW_ERR_NOTFOUND) {
        uw_progress_print(&t->progress, "%s: does not exist yet, starting at step 0", o->save);
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
                            "%.120s is at sample %llu, data %.80s has %u", o->save,
                            (unsigned long long)state.position, o->data,
                            (unsigned)t->data.base->samples_n);
    }
    t->step = t->begun = t->saved_step = t->first_step = state.step;
    t->loader.epoch = t->epoch = state.epoch;
    t->loader.position = (uint32_t)state.position;
    t->position = state.position;
    uw_progress_print(&t->progress, t->step < t->steps ? "%s: resuming at step %llu"
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
    const struct options *o = t->o;
    uint64_t bytes;
    bool resumes = o->resume &&
                   t->files.base.ops->size(&t->files.base, o->save, &bytes) == UW_OK;
    struct uw_job_data_config config = {.spec = o->data, .loss = o->loss,
                                        .weights = resumes ? o->save : o->weights,
                                        .data = {.seed = o->seed}};
    int rc = read_augment(o->augment, &config.data, &t->err);
    rc = rc < 0 ? rc : uw_job_open_data(&t->job, &config, &t->data, &t->test, &t->err);
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
    return uw_trace_profile(&t->trace, m, true, &t->err);
}

/* Everything before the first step. Returns UW_OK or a code; *status is the exit status then. */
static int prepare(struct train *t, int *status)
{
    const struct options *o = t->o;
    struct uw_job_config config = {.model = o->model,
                                   .onnx = o->onnx,
                                   .backend = o->backend,
                                   .exact = o->exact,
                                   .gpu = true,
                                   .tf32 = o->tf32,
                                   .waits = true,
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
        report_device(t);
    }
    rc = rc < 0 ? rc : uw_job_guard_save("--save", o->save, &t->err);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    rc = rc < 0 ? rc : uw_job_try_save(&t->files.base, "--save", o->save, &t->err);
    if (rc == UW_OK) {
        rc = uw_job_init_weights(&t->job, o->seed, &t->err);
        rc = rc < 0 || o->weights == NULL ? rc
                                          : uw_job_load_weights(&t->job, o->weights, &t->err);
        char note[UW_JOB_NOTE_BYTES];
        for (uint32_t i = 0; uw_job_note(&t->job, i, note) != NULL; i++) {
            uw_progress_print(&t->progress, "%s", note);
        }
    }
    if (rc == UW_OK && o->exact) {
        uw_progress_print(&t->progress, "exact: kernels %s, the same bits on every processor",
                          t->job.config.kernels->name);
    }
    rc = rc < 0 ? rc : start_profile(t);
    rc = rc < 0 ? rc : resume(t);
    return rc < 0 ? rc : uw_events_open(&t->events, o->json, false, &t->err);
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
    UW_EVENT_NUMBERS(ev, {"step", (double)t->step}, {"epoch", (double)t->loader.epoch},
                     {"test_accuracy", t->score.accuracy}, {"test_loss", t->score.loss},
                     {"test_samples", (double)t->score.samples_n});
    uw_events_put(&t->events, ev);
    char text[UW_SCORE_TEXT_BYTES];
    uw_progress_print(&t->progress, "epoch %llu  step %llu  %s", epoch_of(t),
                      (unsigned long long)t->step, uw_score_text(&t->score, text));
    return UW_OK;
}

/* Whether the parameters after the steps begun will be saved or tested. */
static bool is_mark_next(const struct train *t)
{
    uint64_t every = t->o->save_every;
    return t->begun == t->steps || t->loader.position == 0 ||
           (every != 0 && t->begun % every == 0);
}

static int fail_step(struct train *t, uint64_t step, int rc, const struct uw_error *why)
{
    return uw_error_set(&t->err, rc, "step %llu: %.200s", (unsigned long long)step,
                        uw_error_sentence(why, rc));
}

static int begin_one(struct train *t)
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
    trace_step(t, "step", from_us, now_us);
    t->samples += b.n;
    t->computing_us += now_us - from_us;
    report_step(t, result.loss, b.lr, now_us);
    return UW_OK;
}

/* Whether a stop is requested or events cannot be written: then the run saves and ends. */
static bool must_end(struct train *t)
{
    return uw_stop_asked(&t->stop) || t->events.failed;
}

/* Run steps up to the next save or test, or until a stop; then none is in flight. */
static int run_to_mark(struct train *t)
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

static int run_steps(struct train *t)
{
    int rc = UW_OK;
    while (rc == UW_OK && t->step < t->steps && !must_end(t)) {
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

/* Whether there is a file to resume from, of this run or of the one that it resumed. */
static bool is_saved(struct train *t)
{
    uint64_t bytes;
    return t->saved_step != UINT64_MAX ||
           (t->o->resume && t->files.base.ops->size(&t->files.base, t->o->save, &bytes) == UW_OK);
}

/* A failed GPU replaces the errors that follow from it as the reported cause. */
static void name_failed_gpu(struct train *t)
{
    const struct options *o = t->o;
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
                     "the GPU failed %s (%.95s); the same command with --resume continues from "
                     "%.60s, with --backend %s on the processor",
                     when, why, o->save, uw_job_gpu_else());
    } else {
        uw_error_set(&t->err, UW_ERR_IO,
                     "the GPU failed %s (%.95s), and nothing was saved; --backend %s trains "
                     "on the processor",
                     when, why, uw_job_gpu_else());
    }
}

/* If training ended because events could not be written, add where to their error. */
static void add_stop(struct train *t)
{
    const struct uw_error why = t->err;
    uw_error_set(&t->err, why.code, "%.200s; stopped at step %llu%s", why.text,
                 (unsigned long long)t->step,
                 t->o->save != NULL ? ", saved; --resume continues" : "");
}

static int run(const struct options *o)
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
        report_done(&t);
        rc = uw_events_close(&t.events, &t.err);
        if (untold) {
            add_stop(&t);
        }
        rc = rc < 0 ? rc : uw_trace_close(&t.trace, &t.err);
    }
    uw_progress_clear(&t.progress);
    if (rc < 0) {
        name_failed_gpu(&t);
        uw_cli_error("train", status, "%s", uw_error_sentence(&t.err, rc));
    } else {
        status = t.interrupted ? report_interrupted(&t) : UW_EXIT_DONE;
    }
    uw_events_close(&t.events, NULL);
    uw_trace_close(&t.trace, NULL);
    uw_data_close(&t.test);
    uw_data_close(&t.data);
    uw_storage_file_deinit(&t.files);
    uw_job_deinit(&t.job);
    return (int)status;
}

/* ---- the command ---- */

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct options),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "digits, keywords, mnist:DIR, fashion-mnist:DIR, kmnist:DIR, emnist-letters:DIR, "
        "cifar10:DIR, idx:IMAGES,LABELS, csv:FILE, npy:X,Y, npz:FILE or images:DIR (digits)"),
    ROW("augment", UW_OPT_TEXT, augment, 0, 0, "WHAT",
        "flip, crop:N or flip,crop:N: mirror images, move them by up to N pixels"),
    ROW("loss", UW_OPT_CHOICE, loss, 0, 0, UW_LOSS_WORDS, UW_LOSS_HELP),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "N", "passes over the data (1)"),
    ROW("steps", UW_OPT_U64, steps, 1, 0, "N", "number of minibatches, instead of epochs"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X",
        "learning rate (0.05; 0.001 with adam, adamw, rmsprop)"),
    UW_RECIPE_ROWS(struct options),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, cosine, linear, step:N:F = times F after every N epochs, "
        "multistep:N,M:F, with warmup:STEPS+ in front (constant)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE", "initial weights: " UW_WEIGHTS_HELP),
    ROW("save", UW_OPT_TEXT, save, 0, 0, "FILE",
        "write weights and training state to this file (safetensors)"),
    ROW("save-every", UW_OPT_U64, save_every, 1, 0, "N", "also save every N steps (every epoch)"),
    ROW("resume", UW_OPT_FLAG, resume, 0, 0, NULL,
        "resume from the file of --save, bit for bit; start from the beginning where there is "
        "none"),
    ROW("eval-samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "largest number of samples in a test, also in the last; 0: all (0)"),
    ROW("no-shuffle", UW_OPT_FLAG, no_shuffle, 0, 0, NULL, "use the samples in order"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP),
    ROW("mode", UW_OPT_CHOICE, recipe.mode, 0, 0, "auto|immediate|buckets|full",
        "immediate: no gradient array (auto)"),
    ROW("spike", UW_OPT_REAL, spike, 1, 0, "X",
        "skip a step whose loss is above X times the average"),
    ROW("profile", UW_OPT_FLAG, profile, 0, 0, NULL, "report where the time goes, layer by layer"),
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE",
        "write a timeline for chrome://tracing or ui.perfetto.dev"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of weights and shuffle (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "train",
    .summary = "train a model on this device",
    .usage = "--model M [--data D] [flags]",
    .example = "uwasa train --model lenet5 --data digits --epochs 2 --save lenet5.safetensors",
    .epilogue =
        "CSV: one sample a line; delimiter, header, label and classes are found and told.\n"
        "csv:FILE,TESTFILE,OPTION=VALUE,... says otherwise: label=last|first|NAME|N|none,\n"
        "target=NAME+NAME (values), labels=FILE, classes=A+B+C, drop=NAME, scale=255|standard,\n"
        "test=FILE|SHARE, missing=mean|drop, delimiter=C, skip=N. The features are the model's\n"
        "input in row-major order, channels first: [N], or any shape of N. Bytes of IDX files\n"
        "and CIFAR-10 are divided by 255.\n"
        "npy:X,Y and npz:FILE are arrays of NumPy, samples in front; npz:FILE,x=A,y=B names them.\n"
        "images:DIR has a folder for each class, with PNG or JPEG files, brought to the model's\n"
        "size; DIR/train and DIR/test, or a share of the images, are training and test set.\n"
        "idx:IMAGES,LABELS,TESTIMAGES,TESTLABELS names a test set; with two files the test uses\n"
        "the training samples.\n\n"
        "SIGINT and SIGTERM save and stop; the same command with --resume continues.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

static int check(const struct options *o, struct uw_error *err)
{
    const struct uw_named_file results[] = {{"--save", o->save, .goes_on = "--weights"},
                                            {.flag = "--json", .file = o->json},
                                            {.flag = "--trace", .file = o->trace}};
    const struct uw_named_file read[] = {{.flag = "--model",
                                          .file = uw_files_of_model(o->model)},
                                         {.flag = "--data", .file = uw_files_of_data(o->data)},
                                         {.flag = "--weights", .file = o->weights}};
    struct uw_schedule lr;
    bool saves = o->save != NULL;
    char save[160], schedule[80];
    snprintf(save, sizeof save, "save %.120s", saves ? o->save : "");
    snprintf(schedule, sizeof schedule, "schedule %.60s", o->schedule);
    int rc = uw_rules_check(UW_RULES(
        {o->model == NULL, "model", "is needed, uwasa models lists some"},
        {o->steps != 0 && o->epochs != 0, "steps and --epochs", "give one of them"},
        {saves && (uw_args_ends_in(o->save, ".onnx") || uw_args_ends_in(o->save, ".json")), save,
         "holds weights as safetensors, give it another ending; uwasa convert writes models"},
        {o->resume && !saves, "resume", "needs --save FILE to go on from"},
        {o->save_every != 0 && !saves, "save-every", "needs --save FILE"},
        {o->spike != 0.0 && o->recipe.micro_batch != 0, "spike",
         "needs whole minibatches, no --micro-batch"},
        {uw_lr_parse(o->schedule, &lr) < 0, schedule, "needs " UW_LR_ALLOWED}), err);
    return rc < 0 ? rc : uw_check_results(results, 3, read, 3, err);
}

int uw_cmd_train(int argc, char **argv)
{
    struct options o = {.data = "digits",
                                 .batch = 32,
                                 .lr = -1.0,
                                 .recipe = UW_RECIPE_DEFAULTS,
                                 .schedule = "constant",
                                 .backend = {"auto", UW_BACKEND_AUTO},
                                 .loss = UW_LOSS_DEFAULT,
                                 .seed = 1};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    struct uw_error err = {.text = ""};
    if (status >= 0) {
        return status;
    }
    o.lr = o.lr >= 0.0 ? o.lr : uw_recipe_lr(&o.recipe);
    return check(&o, &err) < 0 ? uw_cli_error("train", UW_EXIT_USAGE, "%s", err.text)
                               : run(&o);
}
