/* SPDX-License-Identifier: Apache-2.0
 *
 * lrn_inline.h - local response normalization, compiled once for each instruction set
 *
 * A task is all channels of a sample over a strip of positions. Inner loops run over the strip, so
 * that compilers vectorize them; elements are independent, so the bits are always the same.
 *
 * Defines lrn_fw, lrn_bw_input and lrn_scratch_bytes, slots of struct uw_norm_kernels. The
 * including file defines:
 *
 *   root(x)                  the square root of x, correctly rounded
 */
#ifndef UW_KERNELS_LRN_INLINE_H
#define UW_KERNELS_LRN_INLINE_H

#include "uwasa/fmath.h"
#include "uwasa/kernels.h"
#include "uwasa/status.h"

#define LRN_STRIP_N 32u

struct lrn_job {
    const struct uw_lrn *l;
    const float *x, *dy;
    float *y;
    float *scratch;
    bool accumulate;
    uint32_t strips;                /* of a sample */
};

/* [lo, hi): the window of channel c; mirrored: the channels whose windows contain c. */
static void window_of(const struct uw_lrn *l, uint32_t c, bool mirrored, uint32_t *lo,
                      uint32_t *hi)
{
    uint32_t before = mirrored ? (l->size - 1) / 2 : l->size / 2;
    uint32_t after = mirrored ? l->size / 2 : (l->size - 1) / 2;
    *lo = c > before ? c - before : 0;
    *hi = l->channels - c > after ? c + after + 1 : l->channels;
}

/* base = k + alpha / size * sum of x^2 over the window, divisor = base^beta; x is channel 0. */
static void bases_of(const struct uw_lrn *l, uint32_t c, uint32_t n, const float *x, float *base,
                     float *divisor)
{
    float factor = l->alpha / (float)l->size;
    uint32_t lo, hi;
    window_of(l, c, false, &lo, &hi);
    for (uint32_t i = 0; i < n; i++) {
        base[i] = 0.0f;
    }
    for (uint32_t w = lo; w < hi; w++) {
        const float *row = x + (size_t)w * l->inner;
        for (uint32_t i = 0; i < n; i++) {
            base[i] += row[i] * row[i];
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        base[i] = l->k + factor * base[i];
    }
    if (l->beta == 0.75f) {
        for (uint32_t i = 0; i < n; i++) {
            float r = root(base[i]);
            divisor[i] = r * root(r);
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        divisor[i] = uw_expf(l->beta * uw_logf(base[i]));
    }
}

static uint32_t strip_of(const struct lrn_job *j, uint32_t task, size_t *first)
{
    uint32_t begin = task % j->strips * LRN_STRIP_N;
    *first = (size_t)(task / j->strips) * j->l->channels * j->l->inner + begin;
    return j->l->inner - begin < LRN_STRIP_N ? j->l->inner - begin : LRN_STRIP_N;
}

static void lrn_fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct lrn_job *j = arg;
    const struct uw_lrn *l = j->l;
    float base[LRN_STRIP_N], divisor[LRN_STRIP_N];
    size_t first;
    uint32_t n = strip_of(j, task, &first);

    for (uint32_t c = 0; c < l->channels; c++) {
        const float *x = j->x + first + (size_t)c * l->inner;
        float *y = j->y + first + (size_t)c * l->inner;
        bases_of(l, c, n, j->x + first, base, divisor);
        for (uint32_t i = 0; i < n; i++) {
            y[i] = x[i] / divisor[i];
        }
    }
}

/* dx = dy * s^-beta - 2 alpha beta / size * x * sum of dy * x * s^(-beta - 1) over the channels
 * whose windows contain this one. */
static void lrn_bw_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct lrn_job *j = arg;
    const struct uw_lrn *l = j->l;
    float *direct = j->scratch + (size_t)thread * l->channels * 2 * LRN_STRIP_N;
    float *term = direct + (size_t)l->channels * LRN_STRIP_N;
    float factor = 2.0f * l->alpha * l->beta / (float)l->size;
    float base[LRN_STRIP_N], divisor[LRN_STRIP_N];
    size_t first;
    uint32_t n = strip_of(j, task, &first);

    for (uint32_t c = 0; c < l->channels; c++) {
        const float *x = j->x + first + (size_t)c * l->inner;
        const float *dy = j->dy + first + (size_t)c * l->inner;
        float *d = direct + c * LRN_STRIP_N, *t = term + c * LRN_STRIP_N;
        bases_of(l, c, n, j->x + first, base, divisor);
        for (uint32_t i = 0; i < n; i++) {
            d[i] = dy[i] / divisor[i];
            t[i] = d[i] * x[i] / base[i];
        }
    }
    for (uint32_t c = 0; c < l->channels; c++) {
        const float *x = j->x + first + (size_t)c * l->inner, *d = direct + c * LRN_STRIP_N;
        float *dx = j->y + first + (size_t)c * l->inner, *sum = base;
        uint32_t lo, hi;
        window_of(l, c, true, &lo, &hi);
        for (uint32_t i = 0; i < n; i++) {
            sum[i] = 0.0f;
        }
        for (uint32_t w = lo; w < hi; w++) {
            for (uint32_t i = 0; i < n; i++) {
                sum[i] += term[w * LRN_STRIP_N + i];
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            float v = d[i] - factor * x[i] * sum[i];
            dx[i] = j->accumulate ? dx[i] + v : v;
        }
    }
}

static size_t lrn_scratch_bytes(const struct uw_lrn *l, uint32_t threads)
{
    return (size_t)threads * l->channels * 2 * LRN_STRIP_N * sizeof(float);
}

static int lrn_fw(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                  const float *x, float *y)
{
    struct lrn_job j = {.l = l, .x = x, .y = y, .strips = (l->inner - 1) / LRN_STRIP_N + 1};
    uw_workers_run(e->workers, lrn_fw_task, &j, batch_n * j.strips);
    return UW_OK;
}

static int lrn_bw_input(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                        const float *x, const float *dy, float *dx, bool accumulate)
{
    if (e->scratch_bytes < lrn_scratch_bytes(l, uw_workers_threads(e->workers))) {
        return UW_ERR_NOMEM;
    }
    struct lrn_job j = {.l = l, .x = x, .dy = dy, .y = dx, .scratch = e->scratch,
                    .accumulate = accumulate, .strips = (l->inner - 1) / LRN_STRIP_N + 1};
    uw_workers_run(e->workers, lrn_bw_task, &j, batch_n * j.strips);
    return UW_OK;
}

/* Entries of a struct uw_norm_kernels from this file, groupnorm_inline.h and norm_inline.h. */
#define NORM_ENTRIES                                                                              \
    .groupnorm_fw = groupnorm_fw,                                                                 \
    .groupnorm_bw_input = groupnorm_bw_input,                                                     \
    .groupnorm_bw_param = groupnorm_bw_param,                                                     \
    .batchnorm_stats = batchnorm_stats,                                                           \
    .batchnorm_running = uw_batchnorm_running_ref,                                                \
    .batchnorm_fw = batchnorm_fw,                                                                 \
    .batchnorm_bw_sums = batchnorm_bw_sums,                                                       \
    .batchnorm_bw_input = batchnorm_bw_input,                                                     \
    .batchnorm_stats_fw = batchnorm_stats_fw,                                                     \
    .batchnorm_bw_sums_input = batchnorm_bw_sums_input,                                           \
    .lrn_fw = lrn_fw,                                                                             \
    .lrn_bw_input = lrn_bw_input,                                                                 \
    .lrn_scratch_bytes = lrn_scratch_bytes

#endif
