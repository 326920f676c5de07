/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense layers. Up to DOTS_BATCH samples, fw computes dot products with the weights in place; up to
 * ROWS_BATCH samples, the gradients are sums of scaled rows. Larger batches are packed products. */
#include "packed/packed.h"
#include "packed/sizes.h"
#include "ref/ref.h"

#include "uwasa/status.h"

#include <string.h>

#define DOTS_BATCH 32u
#define ROWS_BATCH 4u
#define TASK_WORK 32768.0       /* least multiplications of a task */
#define TASKS_MAX 16u
#define STEP_ROWS UW_TILE_STEP_ROWS /* outputs updated in one pass */
#define STEP_WEIGHTS 65536u     /* weights per task of a step, about */
#define STEP_TASKS 4u
#define STEP_INPUTS 2048u
#define BIAS_N 64u              /* biases whose gradients are summed at the same time */
#define BIAS_ROWS 8u            /* samples of one step of that sum */

struct job {
    const struct uw_tile *t;
    const struct uw_dense *d;
    uint32_t batch_n;
    const float *x, *w, *b, *dy;
    float *y, *dx, *dw, *db;
    float scale, keep;
    bool accumulate;
    uint32_t task_n;            /* outputs (or, for dx, inputs) of one task */
};

/* Outputs per task, a multiple of STEP_ROWS. With few tasks of one size, a thread mostly gets the
 * weights that its cache still holds from the pass before. */
static uint32_t outputs_per_task(const struct uw_dense *d, uint32_t batch_n)
{
    double work = (double)d->in * d->out * (batch_n > 0 ? batch_n : 1);
    uint32_t tasks = 1;
    while (tasks < TASKS_MAX && work >= 2.0 * tasks * TASK_WORK) {
        tasks *= 2;
    }
    return round_up(div_up(d->out, tasks), STEP_ROWS);
}

/* Forward and backward mostly divide the weights alike, so about a tenth of them moves between
 * caches. */
static struct uw_exec exec_for(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n)
{
    double weights = (double)d->in * d->out;
    return uw_exec_for(e, batch_n * weights,
                       sizeof(float) * (0.1 * weights + batch_n * ((double)d->in + d->out)));
}

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j, uint32_t n)
{
    uw_workers_run(e->workers, fn, j, n / j->task_n + (n % j->task_n != 0 ? 1u : 0u));
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_dense *d = j->d;
    uint32_t begin = task * j->task_n;
    uint32_t end = d->out - begin < j->task_n ? d->out : begin + j->task_n;
    for (uint32_t o = begin; o < end; o += 4) {
        uint32_t cols = end - o < 4 ? end - o : 4;
        const float *w = j->w + (size_t)o * d->in;
        for (uint32_t n = 0; n < j->batch_n; n += 3) {
            uint32_t rows = j->batch_n - n < 3 ? j->batch_n - n : 3;
            const float *x = j->x + (size_t)n * d->in;
            float dots[12] = {0.0f};
            if (cols == 4) {
                j->t->dots(rows, d->in, x, d->in, w, d->in, dots);
            } else {
                for (uint32_t c = 0; c < cols; c++) {   /* row stride 0: the same row four times */
                    float same[12];
                    j->t->dots(rows, d->in, x, d->in, w + (size_t)c * d->in, 0, same);
                    for (uint32_t r = 0; r < rows; r++) {
                        dots[r * 4 + c] = same[r * 4];
                    }
                }
            }
            for (uint32_t r = 0; r < rows; r++) {
                for (uint32_t c = 0; c < cols; c++) {
                    j->y[(size_t)(n + r) * d->out + o + c] =
                        dots[r * 4 + c] + (j->b != NULL ? j->b[o + c] : 0.0f);
                }
            }
        }
    }
}

static struct uw_gemm fw_gemm(const struct uw_dense *d, uint32_t batch_n)
{
    return (struct uw_gemm){.trans_b = true, .m = batch_n, .n = d->out, .k = d->in, .lda = d->in,
                            .ldb = d->in, .ldc = d->out, .alpha = 1.0f};
}

int uw_dense_fw_packed(const struct uw_exec *all, const struct uw_dense *d, uint32_t batch_n,
                       const float *x, const float *w, const float *b, float *y)
{
    const struct uw_exec here = exec_for(all, d, batch_n), *e = &here;
    if (batch_n <= DOTS_BATCH) {
        struct job j = {.t = e->kernels->tile,
                        .d = d,
                        .batch_n = batch_n,
                        .x = x,
                        .w = w,
                        .b = b,
                        .y = y,
                        .task_n = outputs_per_task(d, batch_n)};
        run(e, fw_task, &j, d->out);
        return UW_OK;
    }
    struct uw_gemm g = fw_gemm(d, batch_n);
    g.beta = b != NULL ? 1.0f : 0.0f;
    return uw_gemm_from_packed(e, &g, b, x, w, y);
}

static void bw_input_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_dense *d = j->d;
    uint32_t begin = task * j->task_n;
    uint32_t n = d->in - begin < j->task_n ? d->in - begin : j->task_n;
    for (uint32_t s = 0; s < j->batch_n; s++) {
        float *dx = j->dx + (size_t)s * d->in + begin;
        if (!j->accumulate) {
            memset(dx, 0, n * sizeof(float));
        }
        for (uint32_t o = 0; o < d->out; o += 4) {
            uint32_t rows = d->out - o < 4 ? d->out - o : 4;
            j->t->add_rows(rows, n, j->dy + (size_t)s * d->out + o,
                           j->w + (size_t)o * d->in + begin, d->in, dx);
        }
    }
}

int uw_dense_bw_input_packed(const struct uw_exec *all, const struct uw_dense *d, uint32_t batch_n,
                             const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_exec here = exec_for(all, d, batch_n), *e = &here;
    if (batch_n <= ROWS_BATCH) {
        struct job j = {.t = e->kernels->tile,
                        .d = d,
                        .batch_n = batch_n,
                        .dy = dy,
                        .w = w,
                        .dx = dx,
                        .accumulate = accumulate,
                        .task_n = 512};
        run(e, bw_input_task, &j, d->in);
        return UW_OK;
    }
    struct uw_gemm g = uw_dense_bw_input_gemm_ref(d, batch_n, accumulate);
    return uw_gemm_packed(e, &g, dy, w, dx);
}

static void bw_param_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_dense *d = j->d;
    uint32_t begin = task * j->task_n;
    uint32_t end = d->out - begin < j->task_n ? d->out : begin + j->task_n;
    for (uint32_t o = begin; o < end; o++) {
        float coef[ROWS_BATCH];
        for (uint32_t s = 0; s < j->batch_n; s++) {
            coef[s] = j->scale * j->dy[(size_t)s * d->out + o];
        }
        j->t->add_rows(j->batch_n, d->in, coef, j->x, d->in, j->dw + (size_t)o * d->in);
    }
}

/* db[j] += scale * sum over i of dy[i * step + j], j < n <= BIAS_N */
static void add_sums(const struct uw_tile *t, uint32_t rows, size_t step, uint32_t n,
                     const float *dy, float scale, float *db)
{
    static const float ones[BIAS_ROWS] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float sum[BIAS_N] = {0.0f};
    for (uint32_t i = 0; i < rows; i += BIAS_ROWS) {
        uint32_t some = rows - i < BIAS_ROWS ? rows - i : BIAS_ROWS;
        t->add_rows(some, n, ones, dy + i * step, step, sum);
    }
    for (uint32_t j = 0; j < n; j++) {
        db[j] += scale * sum[j];
    }
}

int uw_dense_bw_param_packed(const struct uw_exec *all, const struct uw_dense *d, uint32_t batch_n,
                             const float *x, const float *dy, float scale, float *dw, float *db)
{
    const struct uw_exec here = exec_for(all, d, batch_n), *e = &here;
    int rc = UW_OK;
    if (dw != NULL && batch_n <= ROWS_BATCH) {
        struct job j = {.t = e->kernels->tile,
                        .d = d,
                        .batch_n = batch_n,
                        .x = x,
                        .dy = dy,
                        .scale = scale,
                        .dw = dw,
                        .task_n = outputs_per_task(d, batch_n)};
        run(e, bw_param_task, &j, d->out);
    } else if (dw != NULL) {
        struct uw_gemm g = uw_dense_bw_param_gemm_ref(d, batch_n, scale);
        rc = uw_gemm_packed(e, &g, dy, x, dw);
    }
    for (uint32_t o = 0; rc == UW_OK && db != NULL && o < d->out; o += BIAS_N) {
        add_sums(e->kernels->tile, batch_n, d->out, d->out - o < BIAS_N ? d->out - o : BIAS_N,
                 dy + o, scale, db + o);
    }
    return rc;
}

/* Update outputs o .. end-1, columns begin .. begin+n-1 of their weights. Rows with dy 0 (ReLU) and
 * no weight decay are skipped. */
static void step_outputs(const struct job *j, uint32_t o, uint32_t end, size_t begin, size_t n)
{
    float dy[STEP_ROWS], coef[STEP_ROWS], *w[STEP_ROWS];
    uint32_t rows = 0;
    for (; o < end; o++) {
        dy[rows] = j->dy[o];
        coef[rows] = j->scale * dy[rows];
        w[rows] = j->dw + (size_t)o * j->d->in + begin;
        rows += dy[rows] != 0.0f || j->keep != 1.0f ? 1 : 0;
        if (rows == STEP_ROWS || (o + 1 == end && rows > 0)) {
            j->t->step_rows(rows, n, j->keep, dy, coef, j->x + begin, w,
                            j->dx != NULL ? j->dx + begin : NULL);
            rows = 0;
        }
    }
}

/* A task has some outputs; when dx is wanted, some inputs, so that one task sums each dx. */
static void step_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    uint32_t all = j->dx != NULL ? j->d->in : j->d->out;
    uint32_t begin = task * j->task_n, n = all - begin < j->task_n ? all - begin : j->task_n;
    if (j->dx == NULL) {
        step_outputs(j, begin, begin + n, 0, j->d->in);
        return;
    }
    if (!j->accumulate) {
        memset(j->dx + begin, 0, n * sizeof(float));
    }
    step_outputs(j, 0, j->d->out, begin, n);
}

/* Inputs per task: long rows, in whole registers, divided evenly. */
static uint32_t inputs_per_task(const struct uw_dense *d)
{
    double weights = (double)d->in * d->out / STEP_WEIGHTS;
    uint32_t tasks = weights < STEP_TASKS ? (uint32_t)weights + 1 : STEP_TASKS;
    uint32_t n = round_up(div_up(d->in, tasks), UW_TILE_NR_MAX);
    return n < STEP_INPUTS ? n : STEP_INPUTS;
}

int uw_dense_bw_step_packed(const struct uw_exec *all, const struct uw_dense *d, uint32_t batch_n,
                            const float *x, const float *dy, float keep, float scale, float *w,
                            float *b, float *dx, bool accumulate)
{
    const struct uw_exec here = exec_for(all, d, batch_n), *e = &here;
    if (batch_n != 1) {
        return uw_dense_bw_step_ref(e, d, batch_n, x, dy, keep, scale, w, b, dx, accumulate);
    }
    struct job j = {.t = e->kernels->tile,
                    .d = d,
                    .x = x,
                    .dy = dy,
                    .scale = scale,
                    .keep = keep,
                    .dw = w,
                    .dx = dx,
                    .accumulate = accumulate,
                    .task_n = dx != NULL ? inputs_per_task(d) : outputs_per_task(d, batch_n)};
    run(e, step_task, &j, dx != NULL ? d->in : d->out);
    for (uint32_t o = 0; b != NULL && o < d->out; o++) {
        b[o] = keep * b[o] + scale * dy[o];
    }
    return UW_OK;
}

size_t uw_dense_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_dense *d,
                                     uint32_t batch_n, uint32_t threads)
{
    size_t most = 0;
    if (batch_n > ROWS_BATCH) {
        struct uw_gemm in = uw_dense_bw_input_gemm_ref(d, batch_n, false);
        struct uw_gemm param = uw_dense_bw_param_gemm_ref(d, batch_n, 1.0f);
        size_t a = uw_gemm_scratch_bytes_packed(k, &in, threads);
        size_t b = uw_gemm_scratch_bytes_packed(k, &param, threads);
        most = a > b ? a : b;
    }
    if (batch_n > DOTS_BATCH) {
        struct uw_gemm fw = fw_gemm(d, batch_n);
        size_t c = uw_gemm_scratch_bytes_packed(k, &fw, threads);
        most = c > most ? c : most;
    }
    return most;
}
