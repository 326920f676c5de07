/* SPDX-License-Identifier: Apache-2.0
 *
 * groupnorm_inline.h - slots of group norm, for any instruction set
 *
 * Included after norm_inline.h, which lists what to define. Layer norm (inner 1) has separate loops
 * over the channels of a row. */
#ifndef UW_KERNELS_GROUPNORM_INLINE_H
#define UW_KERNELS_GROUPNORM_INLINE_H

#include "ref/ref.h"

#define STRIP_N 32u                 /* channels summed at the same time */

/* A row with a weight per value: inner is 1. */
static void normalize_each(size_t n, const float *x, const float *stats, const float *gamma,
                           const float *beta, float *y)
{
    const float mean = stats[0], second = stats[1];
    for (size_t c = 0; c < n; c++) {
        y[c] = or_one(gamma, c) * ((x[c] - mean) * second) + or_zero(beta, c);
    }
}

static void denormalize_each(size_t n, const float *x, const float *stats, const float *dy,
                             const float *gamma, float a, float b, float *dx, bool accumulate)
{
    const float mean = stats[0], second = stats[1];
    for (size_t c = 0; c < n; c++) {
        float xhat = (x[c] - mean) * second;
        float d = second * (or_one(gamma, c) * dy[c] - a - xhat * b);
        dx[c] = accumulate ? dx[c] + d : d;
    }
}

/* gamma or beta from channel `first` on, or NULL. */
static const float *from_channel(const float *weight, size_t first)
{
    return weight != NULL ? weight + first : NULL;
}

/* Group g of all samples' groups has group_n contiguous values; its first channel is g % groups *
 * (channels / groups). With inner 1 each value has its own weight. */
static void groupnorm_fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;
    uint32_t channels = n->channels / n->groups;
    size_t group_n = (size_t)channels * n->inner;

    for (uint32_t g = begin_of(j, task); g < end_of(j, task); g++) {
        const float *x = j->x + g * group_n;
        float *y = j->y + g * group_n;
        size_t first = (size_t)(g % n->groups) * channels;
        float stats[2];
        double mean = sum_of(group_n, x) / (double)group_n;
        set_stats(stats, mean, spread_of(group_n, x, mean) / (double)group_n, n->epsilon);
        if (n->inner == 1) {
            normalize_each(channels, x, stats, from_channel(j->gamma, first),
                           from_channel(j->beta, first), y);
        }
        for (uint32_t c = 0; n->inner > 1 && c < channels; c++) {
            normalize(n->inner, x + (size_t)c * n->inner, stats, or_one(j->gamma, first + c),
                      or_zero(j->beta, first + c), y + (size_t)c * n->inner);
        }
        if (j->out != NULL) {
            j->out[2 * (size_t)g] = stats[0];
            j->out[2 * (size_t)g + 1] = stats[1];
        }
    }
}

static int groupnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *gamma, const float *beta, float *y,
                        float *stats)
{
    struct job j = {.n = n, .x = x, .gamma = gamma, .beta = beta, .y = y, .out = stats};
    run(e, groupnorm_fw_task, &j, batch_n * n->groups,
        (size_t)n->channels / n->groups * n->inner);
    return UW_OK;
}

static void groupnorm_bw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;
    uint32_t channels = n->channels / n->groups;
    size_t group_n = (size_t)channels * n->inner;

    for (uint32_t g = begin_of(j, task); g < end_of(j, task); g++) {
        const float *stats = j->stats + 2 * (size_t)g;
        size_t first = (size_t)(g % n->groups) * channels;
        double a = 0.0, b = 0.0;
        if (n->inner == 1) {
            size_t at = g * group_n;
            const float *gamma = from_channel(j->gamma, first);
            weighted_sums(channels, j->x + at, j->dy + at, gamma, stats, &a, &b);
            denormalize_each(channels, j->x + at, stats, j->dy + at, gamma,
                             (float)(a / (double)group_n), (float)(b / (double)group_n),
                             j->y + at, j->accumulate);
            continue;
        }
        for (uint32_t c = 0; c < channels; c++) {
            size_t at = g * group_n + (size_t)c * n->inner;
            double gamma = (double)or_one(j->gamma, first + c);
            a += gamma * sum_of(n->inner, j->dy + at);
            b += gamma * projection_of(n->inner, j->x + at, j->dy + at, stats);
        }
        for (uint32_t c = 0; c < channels; c++) {
            size_t at = g * group_n + (size_t)c * n->inner;
            denormalize(n->inner, j->x + at, stats, j->dy + at, or_one(j->gamma, first + c),
                        (float)(a / (double)group_n), (float)(b / (double)group_n), j->y + at,
                        j->accumulate);
        }
    }
}

static int groupnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *gamma, const float *stats,
                              const float *dy, float *dx, bool accumulate)
{
    struct job j = {.n = n, .x = x, .gamma = gamma, .stats = stats, .dy = dy, .y = dx,
                    .accumulate = accumulate};
    run(e, groupnorm_bw_task, &j, batch_n * n->groups,
        (size_t)n->channels / n->groups * n->inner);
    return UW_OK;
}

/* Channels c0 .. c0+cn-1, inner 1. */
static void param_strip(const struct job *j, uint32_t c0, uint32_t cn)
{
    const struct uw_norm *n = j->n;
    uint32_t channels = n->channels / n->groups;
    double plain[STRIP_N] = {0}, projected[STRIP_N] = {0};

    for (uint32_t s = 0; s < j->batch_n; s++) {
        const float *x = j->x + (size_t)s * n->channels + c0;
        const float *dy = j->dy + (size_t)s * n->channels + c0;
        for (uint32_t k = 0, end; k < cn; k = end) {
            uint32_t group = (c0 + k) / channels, last = (group + 1) * channels - c0;
            const float *stats = j->stats + 2 * ((size_t)s * n->groups + group);
            const float mean = stats[0], second = stats[1];
            end = last < cn ? last : cn;
            for (uint32_t i = k; i < end; i++) {
                plain[i] += (double)dy[i];
                projected[i] += (double)dy[i] * (double)((x[i] - mean) * second);
            }
        }
    }
    for (uint32_t k = 0; k < cn; k++) {
        if (j->dgamma != NULL) {
            j->dgamma[c0 + k] += j->scale * (float)projected[k];
        }
        if (j->dbeta != NULL) {
            j->dbeta[c0 + k] += j->scale * (float)plain[k];
        }
    }
}

static void param_strip_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    uint32_t left = j->n->channels - task * STRIP_N;
    param_strip(j, task * STRIP_N, left < STRIP_N ? left : STRIP_N);
}

static void groupnorm_param_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_norm *n = j->n;
    uint32_t channels = n->channels / n->groups;

    for (uint32_t c = begin_of(j, task); c < end_of(j, task); c++) {
        double plain = 0.0, projected = 0.0;
        for (uint32_t s = 0; s < j->batch_n; s++) {
            size_t at = ((size_t)s * n->channels + c) * n->inner;
            size_t group = (size_t)s * n->groups + c / channels;
            plain += sum_of(n->inner, j->dy + at);
            projected += projection_of(n->inner, j->x + at, j->dy + at, j->stats + 2 * group);
        }
        if (j->dgamma != NULL) {
            j->dgamma[c] += j->scale * (float)projected;
        }
        if (j->dbeta != NULL) {
            j->dbeta[c] += j->scale * (float)plain;
        }
    }
}

static int groupnorm_bw_param(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *dy, float scale,
                              float *dgamma, float *dbeta)
{
    struct job j = {.n = n, .batch_n = batch_n, .x = x, .stats = stats, .dy = dy, .scale = scale,
                    .dgamma = dgamma, .dbeta = dbeta};
    if (n->inner == 1) {
        struct uw_workers *w = (double)batch_n * n->channels < TASK_N ? NULL : e->workers;
        uw_workers_run(w, param_strip_task, &j, (n->channels - 1) / STRIP_N + 1);
        return UW_OK;
    }
    run(e, groupnorm_param_task, &j, n->channels, (size_t)batch_n * n->inner);
    return UW_OK;
}

#endif
