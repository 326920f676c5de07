/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_inline.h - batch norm's slots above loops of an instruction set
 *
 * Included like packed/tile_inline.h. A task is a run of channels or of groups that depends on
 * the shape alone. The file says before:
 *
 *   sum_of(n, x)                 sum of x, in double
 *   spread_of(n, x, mean)        sum of (x - mean)^2, in double
 *   projection_of(n, x, dy, stats)
 *                                sum of dy * xhat, in double; xhat = (x - stats[0]) * stats[1]
 *   normalize(n, x, stats, gamma, beta, y)
 *                                y = gamma * xhat + beta
 *   denormalize(n, x, stats, dy, gamma, a, b, dx, accumulate)
 *                                dx = stats[1] * (gamma * dy - a - xhat * b), or dx +=
 */
#ifndef UW_KERNELS_NORM_INLINE_H
#define UW_KERNELS_NORM_INLINE_H

#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#define TASK_N 16384u               /* values of one task, at least */

struct job {
    const struct uw_norm *n;
    uint32_t batch_n, per_task, all;    /* units (channels or groups) of a task, of all */
    const float *x, *dy, *gamma, *beta, *stats, *sums;
    float *y, *out, *running_mean, *running_var, *dgamma, *dbeta;
    float scale;
    bool accumulate;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j, uint32_t all, size_t unit_n)
{
    j->all = all;
    j->per_task = unit_n >= TASK_N ? 1 : (uint32_t)(TASK_N / (unit_n + 1)) + 1;
    uw_workers_run(e->workers, fn, j, all / j->per_task + (all % j->per_task != 0 ? 1 : 0));
}

static uint32_t begin_of(const struct job *j, uint32_t task)
{
    return task * j->per_task;
}

static uint32_t end_of(const struct job *j, uint32_t task)
{
    uint32_t begin = begin_of(j, task);
    return j->all - begin < j->per_task ? j->all : begin + j->per_task;
}

static void set_stats(float *stats, double mean, double variance, float epsilon)
{
    stats[0] = (float)mean;
    stats[1] = 1.0f / uw_sqrtf((float)variance + epsilon);
}

static float or_one(const float *gamma, size_t c)
{
    return gamma != NULL ? gamma[c] : 1.0f;
}

static float or_zero(const float *beta, size_t c)
{
    return beta != NULL ? beta[c] : 0.0f;
}

static void batchnorm_stats_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;
    double count = (double)j->batch_n * (double)n->inner;

    for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {
        double sum = 0.0, spread = 0.0;
        for (uint32_t s = 0; s < j->batch_n; s++) {
            sum += sum_of(n->inner, j->x + ((size_t)s * n->channels + c) * n->inner);
        }
        for (uint32_t s = 0; s < j->batch_n; s++) {
            spread += spread_of(n->inner, j->x + ((size_t)s * n->channels + c) * n->inner,
                                sum / count);
        }
        set_stats(j->out + 2 * (size_t)c, sum / count, spread / count, n->epsilon);
        if (j->running_mean != NULL) {
            j->running_mean[c] += n->momentum * ((float)(sum / count) - j->running_mean[c]);
        }
        if (j->running_var != NULL && count > 1.0) {
            j->running_var[c] += n->momentum * ((float)(spread / (count - 1.0)) -
                                                j->running_var[c]);
        }
    }
}

static int batchnorm_stats(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                           const float *x, float *stats, float *running_mean, float *running_var)
{
    struct job j = {.n = n, .batch_n = batch_n, .x = x, .out = stats,
                    .running_mean = running_mean, .running_var = running_var};
    run(e, batchnorm_stats_task, &j, n->channels, (size_t)batch_n * n->inner);
    return UW_OK;
}

static void batchnorm_fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;

    for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {
        for (uint32_t s = 0; s < j->batch_n; s++) {
            size_t at = ((size_t)s * n->channels + c) * n->inner;
            normalize(n->inner, j->x + at, j->stats + 2 * (size_t)c, or_one(j->gamma, c),
                      or_zero(j->beta, c), j->y + at);
        }
    }
}

static int batchnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *stats, const float *gamma, const float *beta,
                        float *y)
{
    struct job j = {.n = n, .batch_n = batch_n, .x = x, .stats = stats, .gamma = gamma,
                    .beta = beta, .y = y};
    run(e, batchnorm_fw_task, &j, n->channels, (size_t)batch_n * n->inner);
    return UW_OK;
}

static void batchnorm_sums_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;

    for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {
        double plain = 0.0, projected = 0.0;
        for (uint32_t s = 0; s < j->batch_n; s++) {
            size_t at = ((size_t)s * n->channels + c) * n->inner;
            plain += sum_of(n->inner, j->dy + at);
            projected += projection_of(n->inner, j->x + at, j->dy + at,
                                       j->stats + 2 * (size_t)c);
        }
        j->out[c] = (float)plain;
        j->out[n->channels + c] = (float)projected;
    }
}

static int batchnorm_bw_sums(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *stats, const float *dy, float *sums)
{
    struct job j = {.n = n, .batch_n = batch_n, .x = x, .stats = stats, .dy = dy, .out = sums};
    run(e, batchnorm_sums_task, &j, n->channels, (size_t)batch_n * n->inner);
    return UW_OK;
}

static void batchnorm_bw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;
    float count = (float)j->batch_n * (float)n->inner;

    for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {
        float gamma = or_one(j->gamma, c);
        float a = j->sums != NULL ? gamma * (j->sums[c] / count) : 0.0f;
        float b = j->sums != NULL ? gamma * (j->sums[n->channels + c] / count) : 0.0f;
        for (uint32_t s = 0; s < j->batch_n; s++) {
            size_t at = ((size_t)s * n->channels + c) * n->inner;
            denormalize(n->inner, j->x + at, j->stats + 2 * (size_t)c, j->dy + at, gamma, a, b,
                        j->y + at, j->accumulate);
        }
    }
}

static int batchnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *gamma,
                              const float *sums, const float *dy, float *dx, bool accumulate)
{
    struct job j = {.n = n, .batch_n = batch_n, .x = x, .stats = stats, .gamma = gamma,
                    .sums = sums, .dy = dy, .y = dx, .accumulate = accumulate};
    run(e, batchnorm_bw_task, &j, n->channels, (size_t)batch_n * n->inner);
    return UW_OK;
}

#endif
