/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_train.h"

#include "base/events.h"
#include "job/job.h"
#include "job/recipe.h"

#include "uwasa/board.h"
#include "uwasa/describe.h"

#include <stdlib.h>
#include <string.h>

#define WORKS                                                                                    \
    "mlp:1,mlp:32,lenet5:1,fedavg-cnn:1,fedavg-cnn:10,fedavg-cnn:20,fedavg-cnn:64,resnet20:64," \
    "mobilenetv2:16,vgg16:64,vgg16:256,alexnet:32,resnet50:8:500M"
#define NAME_BYTES 256u

struct work {
    char text[NAME_BYTES], model[NAME_BYTES];
    uint32_t batch_n;
    uint64_t budget_bytes;      /* 0: none */
};

/* Cut off and return the bytes after the last colon; 0 if that is not a size with a unit. */
static uint64_t take_budget(char *text)
{
    static const struct uw_opt bytes = {"budget", UW_OPT_BYTES, 0, 1, 0, "BYTES", ""};
    char *colon = strrchr(text, ':');
    uint64_t n = 0;
    if (colon == NULL || colon[1] == '\0' || strspn(colon + 1, "0123456789") == strlen(colon + 1) ||
        uw_opt_set(&bytes, colon + 1, &n) < 0) {
        return 0;
    }
    *colon = '\0';
    return n;
}

/* Parse the first work of a list. Returns the rest of the list, NULL after a mistake. */
static const char *take_work(const char *list, struct work *w)
{
    size_t length = strcspn(list, ",");
    if (length >= sizeof w->text) {
        return NULL;
    }
    memcpy(w->text, list, length);
    w->text[length] = '\0';
    memcpy(w->model, w->text, length + 1);
    w->budget_bytes = take_budget(w->model);
    char *colon = strrchr(w->model, ':');
    char *end = NULL;
    unsigned long n = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    if (n == 0 || n > UINT32_MAX || *end != '\0' || colon[1] < '0' || colon[1] > '9' ||
        colon == w->model) {
        return NULL;
    }
    *colon = '\0';
    w->batch_n = (uint32_t)n;
    return list + length + (list[length] == ',' ? 1 : 0);
}

static void fill_minibatch(struct uw_model *m, uint32_t n)
{
    for (uint64_t i = 0; i < (uint64_t)n * m->input_n; i++) {
        m->input[i] = (float)((i * 2654435761u >> 7) % 1024u) / 1024.0f;
    }
    for (uint32_t i = 0; i < n; i++) {
        m->label[i] = i % m->classes;
    }
}

/* Additions and multiplications of one sample's step, those of the products. */
static double flop_of(const struct uw_model *m)
{
    double flop = 0.0;
    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer_info info;
        uw_model_layer_info(m, i, &info);
        flop += 2.0 * info.passes * (double)info.multiply_adds;
    }
    return flop;
}

/* Run as many steps as fit, with as many in flight as allowed. `fill`: also fill minibatches. */
static int run_window(struct uw_model *m, uint32_t n, double seconds, bool fill,
                      double *samples_per_s, struct uw_error *err)
{
    const struct uw_minibatch b = {.n = n};
    struct uw_step_result result;
    /* A device has a minibatch for each step in flight. */
    const uint64_t least = fill && m->config.kernels->device != NULL ? UW_DEVICE_STEPS_MAX + 1u : 1;
    uint64_t begun = 0, steps = 0, from_us = uw_board_now_us(), now_us = from_us;
    int rc = UW_OK;
    bool more = true;
    while (rc == UW_OK && (more || begun != steps)) {
        while (rc == UW_OK && more && uw_model_steps_free(m) > 0) {
            if (fill) {
                fill_minibatch(m, n);
            }
            rc = uw_model_step_begin(m, &b, err);
            begun++;
        }
        rc = rc < 0 ? rc : uw_model_step_end(m, &result, err);
        steps++;
        now_us = uw_board_now_us();
        more = (double)(now_us - from_us) * 1e-6 < seconds || steps < least;
    }
    double took = (double)(now_us - from_us) * 1e-6;
    *samples_per_s = took > 0.0 ? (double)(steps * n) / took : 0.0;
    return rc;
}

/* One of the set-ups that train in turns. */
struct side {
    struct uw_job job;
    double speed[UW_BENCH_WINDOWS_MAX];
};

static void print_json(FILE *out, uint32_t windows, const struct work *w, const struct side *s,
                       const struct uw_spread *ratio, double gflop)
{
    cJSON *ev = uw_event("work");
    cJSON_AddStringToObject(ev, "work", w->text);
    cJSON_AddNumberToObject(ev, "threads", uw_workers_threads(s->job.pool));
    cJSON_AddStringToObject(ev, "backend", s->job.config.kernels->name);
    cJSON_AddItemToObject(ev, "samples_per_s", cJSON_CreateDoubleArray(s->speed, (int)windows));
    UW_EVENT_NUMBERS(ev, {"gflop_per_s", gflop}, {"arena_bytes", (double)s->job.arena.used_bytes},
                     {"peak_rss_bytes", (double)uw_board_peak_rss_bytes()});
    uw_job_device_json(&s->job, ev);
    if (ratio != NULL) {
        const double x[3] = {ratio->low, ratio->median, ratio->high};
        cJSON_AddItemToObject(ev, "ratio", cJSON_CreateDoubleArray(x, 3));
    }
    uw_event_print(out, ev);
}

/* Print the device, if not the processor, and the titles of the columns. */
static void print_head(FILE *out, const struct side *s)
{
    char text[UW_GPU_TEXT_BYTES];
    if (s->job.gpu.cuda != NULL) {
        fprintf(out, "%s%s\n", uw_job_gpu_text(&s->job.gpu, text),
                s->job.gpu.info.tf32 ? ", TF32 products" : "");
    }
    fprintf(out, "%-16s %7s %12s %12s %12s %9s %14s\n", "model:minibatch", "threads",
            "samples/s low", "median", "high", "GFLOP/s", "memory bytes");
    fflush(out);
}

/* first: the side that all others are compared with. */
static void print_side(FILE *out, const struct uw_bench_train *b, const struct work *w,
                       const struct side *s, const struct side *first)
{
    struct uw_spread speed = uw_spread_ratio(s->speed, NULL, b->windows);
    struct uw_spread ratio = uw_spread_ratio(first->speed, s->speed, b->windows);
    double gflop = flop_of(&s->job.model) * speed.median * 1e-9;
    if (b->json) {
        print_json(out, b->windows, w, s, s != first ? &ratio : NULL, gflop);
        return;
    }
    char name[32];
    snprintf(name, sizeof name, "  %s", s->job.config.kernels->name);
    bool gpu = s->job.gpu.cuda != NULL;
    fprintf(out, "%-16s %7u %12.1f %12.1f %12.1f %9.1f %14zu %s", s == first ? w->text : name,
            uw_workers_threads(s->job.pool), speed.low, speed.median, speed.high, gflop,
            gpu ? uw_job_device_bytes(&s->job) : s->job.arena.used_bytes, gpu ? "GPU" : "arena");
    if (s != first) {
        fprintf(out, "  %.1fx slower (%.1f to %.1f)", ratio.median, ratio.low, ratio.high);
    }
    fprintf(out, "\n");
    fflush(out);
}

/* Ready to train: bound, with weights and a minibatch, and warm. */
static int open_side(struct side *s, const struct uw_bench_train *b, const struct work *w,
                     struct uw_choice backend, const struct uw_kernels *kernels,
                     struct uw_error *err)
{
    double warm_up;
    const struct uw_job_config config = {
        .model = w->model, .backend = backend, .kernels = kernels, .threads = b->threads,
        .exact = b->exact && kernels == NULL && backend.at == b->backend.at,
        .gpu = kernels == NULL,
        .tf32 = b->tf32 && kernels == NULL && backend.at == b->backend.at,
        .plan = {.batch_n = w->batch_n, .budget_bytes = (size_t)w->budget_bytes,
                 .optimizer = {.lr = 1e-4f, .momentum = (float)b->momentum}}};
    int rc = uw_job_plan(&s->job, &config, err);
    rc = rc < 0 ? rc : uw_job_bind(&s->job, err);
    uw_job_gpu_log(&s->job.gpu, "bench");
    rc = rc < 0 ? rc : uw_model_warm(&s->job.model, w->batch_n, err);
    rc = rc < 0 ? rc : uw_job_init_weights(&s->job, 1, err);
    if (rc == UW_OK) {
        rc = run_window(&s->job.model, w->batch_n, 0.1 * b->seconds, true, &warm_up, err);
    }
    return rc;
}

/* first: nothing is printed yet. */
static int run_work(FILE *out, const struct uw_bench_train *b, const struct work *w, bool first,
                    struct uw_error *err)
{
    struct uw_kernels plain;
    struct side sides[3] = {{.job = {.pool = NULL}}};
    uw_bench_plain_kernels(&plain);
    const uint32_t sides_n = b->beside ? 3 : 1;
    int rc = open_side(&sides[0], b, w, b->backend, NULL, err);
    if (rc == UW_OK && first && !b->json) {
        print_head(out, &sides[0]);
    }
    if (rc == UW_OK && b->beside) {
        rc = open_side(&sides[1], b, w, (struct uw_choice){"ref", UW_BACKEND_REF}, NULL, err);
        rc = rc < 0 ? rc : open_side(&sides[2], b, w, b->backend, &plain, err);
    }
    for (uint32_t i = 0; i < b->windows * sides_n && rc == UW_OK; i++) {
        struct side *s = &sides[i % sides_n];
        rc = run_window(&s->job.model, w->batch_n, b->seconds, false, &s->speed[i / sides_n], err);
    }
    const char *why = rc < 0 ? uw_job_gpu_failure(&sides[0].job) : NULL;
    if (why != NULL) {
        uw_job_gpu_error(err, why, "computes");
    }
    for (uint32_t i = 0; i < sides_n; i++) {
        if (rc == UW_OK) {
            print_side(out, b, w, &sides[i], &sides[0]);
        }
        uw_job_deinit(&sides[i].job);
    }
    return rc;
}

int uw_bench_train(FILE *out, const struct uw_bench_train *b, struct uw_error *err)
{
    const char *list = b->work != NULL ? b->work : WORKS;
    struct work w;
    int rc = UW_OK;
    for (const char *at = list; rc == UW_OK && *at != '\0';) {
        at = take_work(at, &w);
        if (at == NULL) {
            return uw_error_set(err, UW_ERR_INVALID, "--work %.100s: needs MODEL:BATCH,... such "
                                "as fedavg-cnn:20,lenet5:1", list);
        }
    }
    for (const char *at = list; rc == UW_OK && *at != '\0' && ferror(out) == 0;) {
        bool first = at == list;
        at = take_work(at, &w);
        rc = run_work(out, b, &w, first, err);
    }
    return rc;
}
