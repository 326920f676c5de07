/* SPDX-License-Identifier: Apache-2.0 */
#include "base/commands.h"
#include "base/events.h"
#include "base/progress.h"
#include "base/stop.h"
#include "job/job_data.h"
#include "job/results.h"

#include "uwasa/board.h"
#include "uwasa/data.h"

struct options {
    const char *model, *data, *weights, *json;
    struct uw_choice backend, loss;
    uint32_t batch, threads;
    uint64_t seed;
    bool exact, tf32;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name, ONNX file or JSON file"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "dataset, of which the test part is used; as for train (digits)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE",
        "a file of train --save, or any safetensors file with the same names; an ONNX model has "
        "its own"),
    ROW("loss", UW_OPT_CHOICE, loss, 0, 0, UW_LOSS_WORDS "|none",
        UW_LOSS_HELP "; none: outputs only, without a label"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples at a time (100)"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of digits (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "eval",
    .summary = "test a model's weights",
    .usage = "--model M --weights FILE [--data D] [flags]",
    .example = "uwasa eval --model lenet5 --data digits --weights lenet5.safetensors",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* A test under way. */
struct test {
    struct uw_data data;
    struct uw_stop stop;
    struct uw_score score;
    struct uw_progress progress;
};

/* Between two minibatches. */
static bool stop_asked(void *arg)
{
    struct test *t = arg;
    if (t->score.samples_n != 0 && uw_progress_due(&t->progress, uw_board_now_us())) {
        uw_progress_show(&t->progress, "testing %llu/%u samples",
                         (unsigned long long)t->score.samples_n,
                         (unsigned)t->data.base->samples_n);
    }
    return uw_stop_asked(&t->stop);
}

static int evaluate(const struct options *o, struct uw_job *job, struct test *t,
                    struct uw_events *events,
                    struct uw_error *err)
{
    uint64_t start_us = uw_board_now_us();
    uw_stop_init(&t->stop);
    uw_progress_init(&t->progress);
    (void)uw_progress_due(&t->progress, start_us);   /* nothing yet where it is short */
    int rc = uw_job_init_weights(job, o->seed, err);
    rc = rc < 0 || o->weights == NULL ? rc : uw_job_load_weights(job, o->weights, err);
    if (rc == UW_OK) {
        rc = uw_job_evaluate(job, t->data.base, 0, stop_asked, t, &t->score);
        if (rc < 0) {
            uw_error_set(err, rc, "%.180s: %s", o->data,
                         rc == UW_ERR_AGAIN ? "interrupted" : uw_status_text(rc));
        }
    }
    uw_progress_clear(&t->progress);
    if (rc < 0) {
        return rc;
    }
    cJSON *ev = uw_event("done");
    if (!t->score.none) {
        UW_EVENT_NUMBERS(ev, {"test_accuracy", t->score.accuracy}, {"test_loss", t->score.loss});
    }
    UW_EVENT_NUMBERS(ev, {"samples", (double)t->score.samples_n},
                     {"seconds", uw_seconds_since(start_us)},
                     {"arena_bytes", (double)job->arena.used_bytes},
                     {"peak_rss_bytes", (double)uw_board_peak_rss_bytes()});
    cJSON_AddStringToObject(ev, "backend", job->config.kernels->name);
    uw_job_device_json(job, ev);
    bool quiet = uw_events_take_stdout(events);
    uw_events_put(events, ev);
    if (!quiet) {
        uw_score_print(&t->score);
        printf("samples        %llu\n", (unsigned long long)t->score.samples_n);
        uw_job_print_device(job);
    }
    return UW_OK;
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
                        .loss = UW_LOSS_DEFAULT,
                        .seed = 1};
    struct uw_error err = {.text = ""};
    struct uw_events events = {.file = NULL};
    struct uw_job job;
    struct test test = {.score = {.samples_n = 0}};
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
        rc = rc < 0 ? rc : uw_events_open(&events, o.json, false, &err);
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
