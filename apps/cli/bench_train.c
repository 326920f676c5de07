/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_train.h"

#include "events.h"
#include "job.h"
#include "recipe.h"

#include "uwasa/board.h"
#include "uwasa/describe.h"

#include <stdlib.h>
#include <string.h>

#define WORKS                                                                                    \
    "mlp:1,mlp:32,lenet5:1,fedavg-cnn:1,fedavg-cnn:10,fedavg-cnn:20,fedavg-cnn:64,resnet20:64," \
    "mobilenetv2:16,vgg16:64,vgg16:256,alexnet:32,resnet50:8"
#define NAME_BYTES 256u

struct work {
    char text[NAME_BYTES], model[NAME_BYTES];
    uint32_t batch_n;
};

/* Take the first work of a list. Returns what follows it, NULL at a mistake. */
static const char *take_work(const char *list, struct work *w)
{
    size_t length = strcspn(list, ",");
    if (length >= sizeof w->text) {
        return NULL;
    }
    memcpy(w->text, list, length);
    w->text[length] = '\0';
    memcpy(w->model, w->text, length + 1);
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

static int run_window(struct uw_model *m, uint32_t n, double seconds, double *samples_per_s,
                      struct uw_error *err)
{
    const struct uw_minibatch b = {.n = n};
    struct uw_step_result result;
    uint64_t steps = 0, from_us = uw_board_now_us(), now_us = from_us;
    int rc = UW_OK;
    while (rc == UW_OK && (steps == 0 || (double)(now_us - from_us) * 1e-6 < seconds)) {
        rc = uw_model_train_step(m, &b, &result, err);
        steps++;
        now_us = uw_board_now_us();
    }
    double took = (double)(now_us - from_us) * 1e-6;
    *samples_per_s = took > 0.0 ? (double)(steps * n) / took : 0.0;
    return rc;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct uw_spread uw_spread_of(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return (struct uw_spread){x[0], n % 2 != 0 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]),
                              x[n - 1]};
}

static void print_work(FILE *out, const struct uw_bench_train *b, const struct work *w,
                       const struct uw_job *j, const double *speed)
{
    double sorted[UW_BENCH_WINDOWS_MAX];
    memcpy(sorted, speed, b->windows * sizeof *speed);
    struct uw_spread s = uw_spread_of(sorted, b->windows);
    double gflop = flop_of(&j->model) * s.median * 1e-9;
    uint32_t threads = uw_workers_threads(j->pool);
    if (!b->json) {
        fprintf(out, "%-16s %7u %12.1f %12.1f %12.1f %9.1f %14zu\n", w->text, threads, s.low,
                s.median, s.high, gflop, j->arena.used_bytes);
        fflush(out);
        return;
    }
    cJSON *ev = uw_event("work");
    cJSON_AddStringToObject(ev, "work", w->text);
    cJSON_AddNumberToObject(ev, "threads", threads);
    cJSON_AddStringToObject(ev, "backend", j->config.kernels->name);
    cJSON_AddItemToObject(ev, "samples_per_s", cJSON_CreateDoubleArray(speed, (int)b->windows));
    cJSON_AddNumberToObject(ev, "gflop_per_s", gflop);
    cJSON_AddNumberToObject(ev, "arena_bytes", (double)j->arena.used_bytes);
    cJSON_AddNumberToObject(ev, "peak_rss_bytes", (double)uw_board_peak_rss_bytes());
    char *text = cJSON_PrintUnformatted(ev);
    fprintf(out, "%s\n", text != NULL ? text : "{}");
    fflush(out);
    cJSON_free(text);
    cJSON_Delete(ev);
}

static int run_work(FILE *out, const struct uw_bench_train *b, const struct work *w,
                    struct uw_error *err)
{
    struct uw_job j = {.pool = NULL};
    double speed[UW_BENCH_WINDOWS_MAX], warm_up;
    const struct uw_job_config config = {
        .model = w->model, .backend = b->backend, .exact = b->exact, .threads = b->threads,
        .plan = {.batch_n = w->batch_n, .optimizer = {.lr = 1e-4f}}};
    int rc = uw_job_plan(&j, &config, err);
    rc = rc < 0 ? rc : uw_job_bind(&j, err);
    rc = rc < 0 ? rc : uw_job_init_weights(&j, 1, err);
    if (rc == UW_OK) {
        fill_minibatch(&j.model, w->batch_n);
        rc = run_window(&j.model, w->batch_n, 0.1 * b->seconds, &warm_up, err);
    }
    for (uint32_t i = 0; i < b->windows && rc == UW_OK; i++) {
        rc = run_window(&j.model, w->batch_n, b->seconds, &speed[i], err);
    }
    if (rc == UW_OK) {
        print_work(out, b, w, &j, speed);
    }
    uw_job_deinit(&j);
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
    if (!b->json) {
        fprintf(out, "%-16s %7s %12s %12s %12s %9s %14s\n", "model:minibatch", "threads",
                "samples/s low", "median", "high", "GFLOP/s", "arena bytes");
    }
    for (const char *at = list; rc == UW_OK && *at != '\0';) {
        at = take_work(at, &w);
        rc = run_work(out, b, &w, err);
    }
    return rc == UW_OK && ferror(out) != 0 ? UW_ERR_IO : rc;
}
