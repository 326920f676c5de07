/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_inline.h - slots of batch norm, for any instruction set
 *
 * Included like packed/tile_inline.h. A task is some channels or groups; their number depends on
 * the shape only. The including file defines, for a channel's rows (one per sample):
 *
 *   moments_of(r, x, mean, spread)
 *                                mean of x, and sum of (x - mean)^2, in double
 *   project(r, x, dy, c, plain, projected)
 *                                sums of dv and of dv * xhat; xhat = (x - c->mean) * c->second,
 *                                dv = dy, if c->ceiling > 0 only where 0 < gamma * xhat + beta <
 *                                ceiling
 *   normalize_rows(r, x, c, y)   y = gamma * xhat + beta, clamped to 0 .. ceiling if that is > 0
 *   denormalize_rows(r, x, dy, c, a, b, dx, accumulate)
 *                                dx = second * (gamma * dv - a - xhat * b), or dx +=; returns
 *                                whether all of dx is finite
 *
 * and for groupnorm_inline.h, of one row:
 *
 *   sum_of(n, x)                 sum of x, in double
 *   spread_of(n, x, mean)        sum of (x - mean)^2, in double
 *   projection_of(n, x, dy, stats)
 *                                sum of dy * xhat, in double; xhat = (x - stats[0]) * stats[1]
 *   weighted_sums(n, x, dy, gamma, stats, a, b)
 *                                sums of gamma * dy and of gamma * dy * xhat, in four lanes of
 *                                double; gamma may be NULL: 1
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

#include <math.h>

#define TASK_N 16384u               /* least values of one task */
#define AHEAD_N 16384u              /* largest channel for which the next one is prefetched */

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

/* Rows of one channel are far apart in memory, so the same row of the next channel is prefetched;
 * for large channels, the next row. */
static struct norm_rows rows_of(const struct job *j)
{
    size_t inner = j->n->inner, stride = j->n->channels * inner;
    bool small = j->batch_n * inner <= AHEAD_N;
    return (struct norm_rows){j->batch_n, stride, inner, small ? inner : stride};
}

static struct norm_channel channel_of(const struct job *j, uint32_t c)
{
    return (struct norm_channel){.mean = j->stats[2 * (size_t)c],
                                 .second = j->stats[2 * (size_t)c + 1],
                                 .gamma = or_one(j->gamma, c), .beta = or_zero(j->beta, c),
                                 .ceiling = j->n->ceiling};
}

static void stats_of(const struct job *j, uint32_t c)
{
    const struct norm_rows r = rows_of(j);
    double count = (double)j->batch_n * (double)j->n->inner, mean, spread;
    moments_of(&r, j->x + (size_t)c * r.n, &mean, &spread);
    set_stats(j->out + 2 * (size_t)c, mean, spread / count, j->n->epsilon);
    if (j->running_mean != NULL) {
        j->running_mean[c] += j->n->momentum * ((float)mean - j->running_mean[c]);
    }
    if (j->running_var != NULL && count > 1.0) {
        j->running_var[c] += j->n->momentum * ((float)(spread / (count - 1.0)) -
                                               j->running_var[c]);
    }
}

static void fw_of(const struct job *j, uint32_t c)
{
    const struct norm_rows r = rows_of(j);
    const struct norm_channel k = channel_of(j, c);
    normalize_rows(&r, j->x + (size_t)c * r.n, &k, j->y + (size_t)c * r.n);
}

static void sums_of(const struct job *j, uint32_t c)
{
    const struct norm_rows r = rows_of(j);
    const struct norm_channel k = channel_of(j, c);
    double plain, projected;
    project(&r, j->x + (size_t)c * r.n, j->dy + (size_t)c * r.n, &k, &plain, &projected);
    j->out[c] = (float)plain;
    j->out[j->n->channels + c] = (float)projected;
}

static bool denormalize_channel(const struct job *j, uint32_t c)
{
    const struct norm_rows r = rows_of(j);
    const struct norm_channel k = channel_of(j, c);
    float count = (float)j->batch_n * (float)j->n->inner;
    float a = j->sums != NULL ? k.gamma * (j->sums[c] / count) : 0.0f;
    float b = j->sums != NULL ? k.gamma * (j->sums[j->n->channels + c] / count) : 0.0f;
    return denormalize_rows(&r, j->x + (size_t)c * r.n, j->dy + (size_t)c * r.n, &k, a, b,
                            j->y + (size_t)c * r.n, j->accumulate);
}

static void bw_of(const struct job *j, uint32_t c)
{
    (void)denormalize_channel(j, c);
}

static void checked_bw_of(const struct job *j, uint32_t c)
{
    if (!denormalize_channel(j, c)) {
        j->out[c] = NAN;
    }
}

#define EACH_CHANNEL(name, first, second)                                                         \
    static void name(void *arg, uint32_t task, uint32_t thread)                                   \
    {                                                                                             \
        (void)thread;                                                                             \
        const struct job *j = arg;                                                                \
        for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {                          \
            first(j, c);                                                                          \
            second(j, c);                                                                         \
        }                                                                                         \
    }

static void nothing(const struct job *j, uint32_t c)
{
    (void)j;
    (void)c;
}

EACH_CHANNEL(stats_task, stats_of, nothing)
EACH_CHANNEL(fw_task, fw_of, nothing)
EACH_CHANNEL(stats_fw_task, stats_of, fw_of)
EACH_CHANNEL(sums_task, sums_of, nothing)
EACH_CHANNEL(bw_task, bw_of, nothing)
EACH_CHANNEL(sums_bw_task, sums_of, checked_bw_of)

static int run_channels(const struct uw_exec *e, uw_task_fn fn, struct job j)
{
    run(e, fn, &j, j.n->channels, (size_t)j.batch_n * j.n->inner);
    return UW_OK;
}

static int batchnorm_stats(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                           const float *x, float *stats, float *running_mean, float *running_var)
{
    return run_channels(e, stats_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .out = stats,
                                     .running_mean = running_mean, .running_var = running_var});
}

static int batchnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *stats, const float *gamma, const float *beta,
                        float *y)
{
    return run_channels(e, fw_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .stats = stats,
                                     .gamma = gamma, .beta = beta, .y = y});
}

static int batchnorm_stats_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, float *stats, float *running_mean,
                              float *running_var, const float *gamma, const float *beta, float *y)
{
    return run_channels(e, stats_fw_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .out = stats,
                                     .stats = stats, .running_mean = running_mean,
                                     .running_var = running_var, .gamma = gamma, .beta = beta,
                                     .y = y});
}

static int batchnorm_bw_sums(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *stats, const float *gamma,
                             const float *beta, const float *dy, float *sums)
{
    return run_channels(e, sums_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .stats = stats,
                                     .gamma = gamma, .beta = beta, .dy = dy, .out = sums});
}

static int batchnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *gamma,
                              const float *beta, const float *sums, const float *dy, float *dx,
                              bool accumulate)
{
    return run_channels(e, bw_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .stats = stats,
                                     .gamma = gamma, .beta = beta, .sums = sums, .dy = dy,
                                     .y = dx, .accumulate = accumulate});
}

static int batchnorm_bw_sums_input(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *stats,
                                   const float *gamma, const float *beta, const float *dy,
                                   float *sums, float *dx, bool accumulate)
{
    return run_channels(e, sums_bw_task,
                        (struct job){.n = n, .batch_n = batch_n, .x = x, .stats = stats,
                                     .gamma = gamma, .beta = beta, .sums = sums, .out = sums,
                                     .dy = dy, .y = dx, .accumulate = accumulate});
}

#endif
