/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include "uwasa/board.h"

#include <math.h>
#include <stdio.h>

#define EVENT_US 200000u

void uw_train_report_device(struct uw_train *t)
{
    char text[UW_GPU_TEXT_BYTES];
    if (t->job.gpu.cuda != NULL) {
        uw_progress_print(&t->progress, "%s%s", uw_job_gpu_text(&t->job.gpu, text),
                          t->o->tf32 ? ", TF32 products" : "");
    }
    uw_job_gpu_log(&t->job.gpu, "train");
}

/* The epoch of the last step, from 1. */
static unsigned long long epoch_of(const struct uw_train *t)
{
    return t->epoch + (t->position != 0 ? 1u : 0u);
}

void uw_train_report_news(struct uw_train *t)
{
    char text[320];
    while (uw_data_news(&t->data, text, sizeof text)) {
        uw_progress_print(&t->progress, "%s", text);
    }
}

void uw_train_report_step(struct uw_train *t, double loss, float lr, uint64_t now_us)
{
    bool every = t->o->no_shuffle && t->o->steps != 0;
    t->shown_loss += loss;
    t->shown_n++;
    if (uw_events_are_read(&t->events) &&
        (every || t->step == t->steps || now_us - t->event_us >= EVENT_US)) {
        cJSON *ev = uw_event("step");
        UW_EVENT_NUMBERS(ev, {"step", (double)t->step}, {"steps", (double)t->steps},
                         {"epoch", (double)t->epoch}, {"loss", loss},
                         {"samples", (double)t->samples});
        uw_event_float(ev, "lr", lr);
        uw_events_put(&t->events, ev);
        t->event_us = now_us;
    }
    if (uw_progress_due(&t->progress, now_us)) {
        uw_train_report_news(t);
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

void uw_train_report_epoch(struct uw_train *t)
{
    if (t->epoch_samples == 0) {
        return;
    }
    cJSON *ev = uw_event("epoch");
    UW_EVENT_NUMBERS(ev, {"epoch", (double)epoch_of(t)}, {"step", (double)t->step},
                     {"loss", t->epoch_loss / (double)t->epoch_samples},
                     {"seconds", (double)t->epoch_us / 1e6});
    uw_events_put(&t->events, ev);
    t->epoch_loss = 0.0;
    t->epoch_samples = t->epoch_us = 0;
}

/* Of a test. */
static uint64_t samples_of(const struct uw_train *t)
{
    uint32_t all = t->testing->data->samples_n, most = t->o->eval_samples;
    return most != 0 && most < all ? most : all;
}

void uw_train_show_testing(struct uw_train *t)
{
    uint64_t now_us = uw_board_now_us(), done = t->testing->score.samples_n;
    uint64_t all = samples_of(t);
    if (done == 0 || !uw_progress_due(&t->progress, now_us)) {
        return;
    }
    char eta[UW_TEXT_BYTES];
    double per_s = (double)done / ((double)(now_us - t->testing_us) / 1e6);
    uw_progress_show(&t->progress, "%s %llu/%llu samples  step %llu  %.0f samples/s  ETA %s",
                     t->testing == &t->test ? "testing" : "validating",
                     (unsigned long long)done, (unsigned long long)all,
                     (unsigned long long)t->step, per_s,
                     uw_text_time((double)(all - done) / per_s, eta));
}

static bool is_current(const struct uw_train *t, const struct uw_train_test *test)
{
    return test->done && test->step == t->step;
}

static void add_score(cJSON *ev, const struct uw_train_test *test)
{
    char accuracy[32], loss[32], samples[32];
    snprintf(accuracy, sizeof accuracy, "%s_accuracy", test->word);
    snprintf(loss, sizeof loss, "%s_loss", test->word);
    snprintf(samples, sizeof samples, "%s_samples", test->word);
    if (test->score.labels) {
        cJSON_AddNumberToObject(ev, accuracy, test->score.accuracy);
    }
    UW_EVENT_NUMBERS(ev, {loss, test->score.loss}, {samples, (double)test->score.samples_n});
}

void uw_train_report_test(struct uw_train *t, const struct uw_train_test *test)
{
    char text[UW_SCORE_TEXT_BYTES];
    cJSON *ev = uw_event(test->event);
    uw_train_report_news(t);
    UW_EVENT_NUMBERS(ev, {"step", (double)t->step}, {"epoch", (double)t->loader.epoch});
    add_score(ev, test);
    uw_events_put(&t->events, ev);
    if (t->events.listener == NULL) {       /* which has the event */
        uw_progress_print(&t->progress, "epoch %llu  step %llu  %s%s", epoch_of(t),
                          (unsigned long long)t->step, test->word,
                          uw_score_text(&test->score, text) + sizeof "test" - 1);
    }
}

void uw_train_trace_step(struct uw_train *t, const char *what, uint64_t from_us, uint64_t until_us)
{
    char name[48];
    snprintf(name, sizeof name, "%s %llu", what, (unsigned long long)t->step);
    uw_trace_span(&t->trace, UW_TRACE_COMPUTE, what, name, from_us, until_us);
}

/* It ended early. */
static const char *where(const struct uw_train *t)
{
    return t->step < t->steps ? "at" : "in the test after";
}

static void print_best(const struct uw_train *t)
{
    const struct uw_best *b = &t->best;
    char text[UW_SCORE_TEXT_BYTES];
    if (is_current(t, &t->validation)) {
        printf("validation     %s\n",
               uw_score_text(&t->validation.score, text) + sizeof "test " - 1);
    }
    if (b->on && isfinite(b->loss)) {
        printf("best           step %llu, %s loss %.4f%s\n", (unsigned long long)b->step,
               t->validation.data != NULL ? "validation" : "test", b->loss,
               b->swapped ? "; these weights are kept" : "");
    }
    if (!t->interrupted && t->step < t->steps) {
        printf("stopped        at step %llu of %llu: %u tests without a better one\n",
               (unsigned long long)t->step, (unsigned long long)t->steps, (unsigned)b->since);
    }
    if (t->job.model.anomaly_threshold != 0.0f) {
        printf("anomalies      errors above %.6g\n", (double)t->job.model.anomaly_threshold);
    }
}

static void print_done(const struct uw_train *t, double seconds, double per_s, uint64_t rss)
{
    char a[UW_TEXT_BYTES];
    char b[UW_TEXT_BYTES];
    if (is_current(t, &t->test)) {
        const struct uw_score *score = &t->test.score;
        uw_score_print(score);
        if (score->samples_n < t->test.data->samples_n) {
            printf("tested on      %llu of %u samples\n", (unsigned long long)score->samples_n,
                   (unsigned)t->test.data->samples_n);
        }
    }
    print_best(t);
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

static void add_best(const struct uw_train *t, cJSON *ev)
{
    const struct uw_best *b = &t->best;
    if (b->on && isfinite(b->loss)) {
        UW_EVENT_NUMBERS(ev, {"best_step", (double)b->step}, {"best_loss", b->loss});
    }
    if (b->keep && !t->interrupted) {
        cJSON_AddNumberToObject(ev, "kept_step", (double)(b->swapped ? b->step : t->step));
    }
    if (t->o->patience != 0) {
        cJSON_AddBoolToObject(ev, "stopped_early", !t->interrupted && t->step < t->steps);
    }
    if (t->job.model.anomaly_threshold != 0.0f) {
        uw_event_float(ev, "anomaly_threshold", t->job.model.anomaly_threshold);
    }
}

void uw_train_report_done(struct uw_train *t)
{
    double seconds = uw_seconds_since(t->start_us);
    double per_s = t->computing_us > 0 ? (double)t->samples / ((double)t->computing_us / 1e6) : 0;
    uint64_t rss = uw_board_peak_rss_bytes();
    cJSON *ev = uw_event("done");
    cJSON_AddNumberToObject(ev, "step", (double)t->step);
    if (is_current(t, &t->test)) {
        add_score(ev, &t->test);
    }
    if (is_current(t, &t->validation)) {
        add_score(ev, &t->validation);
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
    add_best(t, ev);
    bool quiet = uw_events_take_stdout(&t->events);
    uw_train_report_news(t);
    uw_events_put(&t->events, ev);
    uw_progress_clear(&t->progress);
    if (!quiet) {
        print_done(t, seconds, per_s, rss);
    }
}

int uw_train_report_interrupted(const struct uw_train *t)
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
