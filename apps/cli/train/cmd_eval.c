/* SPDX-License-Identifier: Apache-2.0 */
#include "scores.h"
#include "base/commands.h"
#include "base/events.h"
#include "base/progress.h"
#include "base/stop.h"
#include "job/answer.h"
#include "job/job_data.h"
#include "job/job_score.h"
#include "job/job_weights.h"
#include "job/results.h"

#include "uwasa/board.h"
#include "uwasa/data.h"

#include <math.h>
#include <stdio.h>

struct options {
    const char *model, *data, *weights, *json;
    struct uw_job_onnx onnx;
    struct uw_choice backend, loss;
    uint32_t batch, threads;
    uint64_t seed;
    double threshold;           /* below 0: that of the weights */
    bool exact, tf32;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name, ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct options),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "dataset, of which the test part is used; as for train (digits)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE",
        "a file of train --save, or any with the same names (an ONNX model has its own): "
        UW_WEIGHTS_HELP),
    ROW("loss", UW_OPT_CHOICES, loss, 0, 0, UW_LOSS_WORDS "|none",
         UW_LOSS_HELP "; none: outputs only, without a label"),
    ROW("threshold", UW_OPT_REAL, threshold, 0, 0, "X",
        "of an autoencoder: an error above X is an anomaly (that of the weights)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples at a time (100)"),
    UW_JOB_COMPUTE_ROWS(struct options),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of digits (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "eval",
    .summary = "test a model's weights",
    .usage = "--model M --weights FILE [--data D] [flags]",
    .example = "uwasa eval --model lenet5 --data digits --weights lenet5.safetensors",
    .epilogue =
        "Of classes: precision, recall and F1 of each and their means, and the matrix of\n"
        "confusion, printed for up to 20 classes and written to --json for up to 1000; of\n"
        "two classes the area under the ROC curve, too. Of a class for each pixel or\n"
        "token the same, counted at each, and the intersection over union. Of values:\n"
        "MAE, RMSE and R2, in the table's units; the loss is that of training, of scaled\n"
        "values where they were scaled. Of an autoencoder: percentiles of the error, the\n"
        "area under the ROC curve where labels are 0 and 1, and what is above the\n"
        "threshold of train --anomaly-percentile.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* A test under way. */
struct test {
    struct uw_data data;
    struct uw_stop stop;
    struct uw_answers answers;
    struct uw_scores scores;
    struct uw_progress progress;
};

/* Between two minibatches. */
static bool stop_asked(void *arg)
{
    struct test *t = arg;
    if (t->scores.samples_n != 0 && uw_progress_due(&t->progress, uw_board_now_us())) {
        uw_progress_show(&t->progress, "testing %llu/%u samples",
                         (unsigned long long)t->scores.samples_n,
                         (unsigned)t->data.base->samples_n);
    }
    return uw_stop_asked(&t->stop);
}

static void report(const struct test *t, const struct uw_job *job, struct uw_events *events,
                   uint64_t start_us)
{
    const struct uw_score score = {.accuracy = uw_scores_accuracy(&t->scores),
                                   .loss = uw_scores_loss(&t->scores),
                                   .samples_n = t->scores.samples_n,
                                   .labels = t->answers.classes_n != 0};
    bool compares = !job->compares_nothing;
    cJSON *ev = uw_event("done");
    if (compares && score.labels) {
        cJSON_AddNumberToObject(ev, "test_accuracy", score.accuracy);
    }
    if (compares) {
        cJSON_AddNumberToObject(ev, "test_loss", score.loss);
    }
    UW_EVENT_NUMBERS(ev, {"samples", (double)score.samples_n},
                     {"seconds", uw_seconds_since(start_us)},
                     {"arena_bytes", (double)job->arena.used_bytes},
                     {"peak_rss_bytes", (double)uw_board_peak_rss_bytes()});
    cJSON_AddStringToObject(ev, "backend", job->config.kernels->name);
    uw_job_device_json(job, ev);
    if (compares && events->file != NULL) {
        uw_scores_json(&t->scores, ev);
    }
    bool quiet = uw_events_take_stdout(events);
    uw_events_put(events, ev);
    if (!quiet) {
        if (compares) {
            uw_score_print(&score);
        }
        printf("samples        %llu\n", (unsigned long long)score.samples_n);
        uw_job_print_device(job);
        if (compares) {
            uw_scores_print(&t->scores);
        }
    }
}

static int evaluate(const struct options *o, struct uw_job *job, struct test *test,
                    struct uw_events *events, struct uw_error *err)
{
    uint64_t start_us = uw_board_now_us();
    uw_stop_init(&test->stop);
    uw_progress_init(&test->progress);
    (void)uw_progress_due(&test->progress, start_us);   /* nothing yet where it is short */
    int rc = uw_job_init_weights(job, o->seed, err);
    rc = rc < 0 || o->weights == NULL ? rc : uw_job_load_weights(job, o->weights, err);
    if (rc == UW_OK) {
        uw_job_print_notes(job);
        uw_answers_init(&test->answers, job);
        uw_answers_take(&test->answers, uw_data_columns(&test->data));
        if (test->answers.kind != UW_ANSWER_ERROR && o->threshold >= 0.0) {
            rc = uw_error_set(err, UW_ERR_INVALID, "--threshold: model %.60s is no autoencoder",
                              job->file.def.name);
        }
    }
    if (rc == UW_OK) {
        rc = uw_scores_open(&test->scores, &test->answers, err);
        test->scores.threshold = o->threshold >= 0.0 ? (float)o->threshold
                                                 : job->model.anomaly_threshold;
    }
    if (rc == UW_OK) {
        struct uw_error why = {.text = ""};
        rc = uw_scores_run(&test->scores, job, test->data.base, stop_asked, test, &why);
        if (rc < 0) {
            uw_error_set(err, rc, "%.120s: %.120s", o->data,
                         rc == UW_ERR_AGAIN ? "interrupted" : uw_error_sentence(&why, rc));
        }
    }
    uw_progress_clear(&test->progress);
    if (rc == UW_OK) {
        double loss = uw_scores_loss(&test->scores);
        report(test, job, events, start_us);
        if (!job->compares_nothing && !isfinite(loss)) {
            rc = uw_error_set(err, UW_ERR_NONFINITE, "%.120s: the loss is %s: numbers have grown "
                              "beyond floats; other weights, or samples with the scale of "
                              "training, help", o->data, isnan(loss) ? "not a number" : "infinite");
        }
    }
    uw_scores_close(&test->scores);
    return rc;
}

static int check_results(const struct options *o, struct uw_error *err)
{
    const struct uw_named_file results = {.flag = "--json", .file = o->json};
    const struct uw_named_file read[] = {{.flag = "--model",
                                          .file = uw_files_of_model(o->model)},
                                         {.flag = "--data", .file = uw_files_of_data(o->data)},
                                         {.flag = "--weights", .file = o->weights}};
    return uw_check_results(&results, 1, read, 3, err);
}

int uw_cmd_eval(int argc, char **argv)
{
    struct options o = {.data = "digits", .backend = {"auto", UW_BACKEND_AUTO}, .batch = 100,
                        .loss = UW_LOSS_DEFAULT, .seed = 1, .threshold = -1.0};
    struct uw_error err = {.text = ""};
    struct uw_events events = {.file = NULL};
    struct uw_job job;
    struct test test = {.data = {.base = NULL}};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    if (o.model == NULL || (o.weights == NULL && !uw_job_is_onnx(o.model))) {
        return uw_cli_error("eval", UW_EXIT_USAGE, "%s: is needed, see uwasa eval --help",
                            o.model == NULL ? "--model" : "--weights");
    }
    if (check_results(&o, &err) < 0) {
        return uw_cli_error("eval", UW_EXIT_USAGE, "%s", err.text);
    }
    const struct uw_job_config config = {.model = o.model,
                                         .onnx = o.onnx,
                                         .backend = o.backend,
                                         .exact = o.exact,
                                         .gpu = true,
                                         .tf32 = o.tf32,
                                         .waits = true,
                                         .threads = o.threads,
                                         .plan = {.batch_n = o.batch,
                                                  .mode = UW_PLAN_INFERENCE}};
    const struct uw_job_data_config data = {.spec = o.data, .loss = o.loss,
                                            .weights = o.weights, .data = {.seed = o.seed}};
    int rc = uw_job_plan(&job, &config, &err);
    status = (int)uw_job_exit(rc);
    if (rc == UW_OK) {
        status = UW_EXIT_FAILED;
        rc = uw_job_open_data(&job, &data, NULL, &test.data, &err);
        rc = rc < 0 ? rc : uw_job_bind(&job, &err);
        uw_job_gpu_log(&job.gpu, "eval");
        rc = rc < 0 ? rc : uw_events_open(&events, o.json, UW_EVENTS_NEW, &err);
        rc = rc < 0 ? rc : evaluate(&o, &job, &test, &events, &err);
        rc = rc < 0 ? rc : uw_events_close(&events, &err);
    }
    const char *why = rc < 0 ? uw_job_gpu_failure(&job) : NULL;
    if (why != NULL) {
        uw_job_gpu_error(&err, why, "tests");
    }
    uw_events_close(&events, NULL);
    uw_data_close(&test.data);
    uw_job_deinit(&job);
    status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : status;
    return rc < 0 ? uw_cli_error("eval", status, "%s", uw_error_sentence(&err, rc)) : UW_EXIT_DONE;
}
