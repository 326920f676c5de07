/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise slots, eight elements at a time, with the reference's equations in the reference's
 * order, hence the same bits; long vectors are divided into tasks. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <immintrin.h>

#define TASK_N 65536u           /* elements of one task */

struct job {
    size_t n;
    const float *x, *g;
    float *y, *v;
    float a, b;
    const struct uw_sgd *sgd;
    bool accumulate;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j)
{
    double n = (double)j->n;
    uw_workers_run(uw_workers_for(e->workers, 4.0 * n, 8.0 * n), fn, j,
                   (uint32_t)((j->n + TASK_N - 1) / TASK_N));
}

static size_t begin_of(uint32_t task)
{
    return (size_t)task * TASK_N;
}

static size_t end_of(const struct job *j, uint32_t task)
{
    size_t end = begin_of(task) + TASK_N;
    return end < j->n ? end : j->n;
}

static void relu_fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t i = begin_of(task), end = end_of(j, task);
    __m256 zero = _mm256_setzero_ps();
    for (; i + 8 <= end; i += 8) {
        __m256 x = _mm256_loadu_ps(j->x + i);
        __m256 closed = _mm256_cmp_ps(x, zero, _CMP_LE_OQ); /* false for NaN, which stays */
        _mm256_storeu_ps(j->y + i, _mm256_andnot_ps(closed, x));
    }
    for (; i < end; i++) {
        j->y[i] = j->x[i] <= 0.0f ? 0.0f : j->x[i];
    }
}

int uw_relu_fw_avx2(const struct uw_exec *e, size_t n, const float *x, float *y)
{
    struct job j = {.n = n, .x = x, .y = y};
    run(e, relu_fw_task, &j);
    return UW_OK;
}

static void relu_bw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t i = begin_of(task), end = end_of(j, task);
    __m256 zero = _mm256_setzero_ps();
    for (; i + 8 <= end; i += 8) {
        __m256 open = _mm256_cmp_ps(_mm256_loadu_ps(j->x + i), zero, _CMP_GT_OQ);
        __m256 d = _mm256_and_ps(open, _mm256_loadu_ps(j->g + i));
        if (j->accumulate) {
            d = _mm256_add_ps(_mm256_loadu_ps(j->y + i), d);
        }
        _mm256_storeu_ps(j->y + i, d);
    }
    for (; i < end; i++) {
        float d = j->x[i] > 0.0f ? j->g[i] : 0.0f;
        j->y[i] = j->accumulate ? j->y[i] + d : d;
    }
}

int uw_relu_bw_input_avx2(const struct uw_exec *e, size_t n, const float *y, const float *dy,
                          float *dx, bool accumulate)
{
    struct job j = {.n = n, .x = y, .g = dy, .y = dx, .accumulate = accumulate};
    run(e, relu_bw_task, &j);
    return UW_OK;
}

static void axpby_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t i = begin_of(task), end = end_of(j, task);
    __m256 a = _mm256_set1_ps(j->a), b = _mm256_set1_ps(j->b);
    for (; i + 8 <= end; i += 8) {
        __m256 s = _mm256_mul_ps(a, _mm256_loadu_ps(j->x + i));
        if (j->b != 0.0f) {
            s = _mm256_add_ps(s, _mm256_mul_ps(b, _mm256_loadu_ps(j->y + i)));
        }
        _mm256_storeu_ps(j->y + i, s);
    }
    for (; i < end; i++) {
        float s = j->a * j->x[i];
        j->y[i] = j->b != 0.0f ? s + j->b * j->y[i] : s;
    }
}

int uw_axpby_avx2(const struct uw_exec *e, size_t n, float a, const float *x, float b, float *y)
{
    struct job j = {.n = n, .x = x, .y = y, .a = a, .b = b};
    run(e, axpby_task, &j);
    return UW_OK;
}

/* The reference's loop, which the compiler vectorizes with this file's flags. */
static void sgd_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_sgd *s = j->sgd;
    const float lr = s->lr, momentum = s->momentum, decay = s->weight_decay;
    const float *restrict g = j->g;
    float *restrict w = j->y;
    float *restrict v = j->v;
    size_t begin = begin_of(task), end = end_of(j, task);
    if (momentum == 0.0f) {
        for (size_t i = begin; i < end; i++) {
            w[i] -= lr * (g[i] + decay * w[i]);
        }
    } else if (s->frozen) {
        for (size_t i = begin; i < end; i++) {
            w[i] -= lr * (g[i] + decay * w[i] + momentum * v[i]);
        }
    } else if (s->nesterov) {
        for (size_t i = begin; i < end; i++) {
            float gi = g[i] + decay * w[i];
            v[i] = momentum * v[i] + gi;
            w[i] -= lr * (gi + momentum * v[i]);
        }
    } else {
        for (size_t i = begin; i < end; i++) {
            float gi = g[i] + decay * w[i];
            v[i] = momentum * v[i] + gi;
            w[i] -= lr * v[i];
        }
    }
}

int uw_sgd_update_avx2(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                       float *w, float *v)
{
    struct job j = {.n = n, .sgd = s, .g = g, .y = w, .v = v};
    run(e, sgd_task, &j);
    return UW_OK;
}

struct channels_job {
    const float *b;
    float *y;
    uint32_t channels;
    size_t inner_n, planes, per_task;
};

static void add_channels_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct channels_job *j = arg;
    size_t plane = task * j->per_task, end = plane + j->per_task;
    end = end < j->planes ? end : j->planes;
    for (; plane < end; plane++) {
        float b = j->b[plane % j->channels], *y = j->y + plane * j->inner_n;
        size_t i = 0;
        for (; i + 8 <= j->inner_n; i += 8) {
            _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_set1_ps(b)));
        }
        for (; i < j->inner_n; i++) {
            y[i] += b;
        }
    }
}

int uw_add_channels_avx2(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                         size_t inner_n, const float *b, float *y)
{
    struct channels_job j = {.b = b, .y = y, .channels = channels, .inner_n = inner_n,
                             .planes = (size_t)batch_n * channels,
                             .per_task = TASK_N / (inner_n + 1) + 1};
    uw_workers_run(e->workers, add_channels_task, &j,
                   (uint32_t)((j.planes + j.per_task - 1) / j.per_task));
    return UW_OK;
}

bool uw_all_finite_avx2(const struct uw_exec *e, size_t n, const float *x)
{
    size_t i = 0;
    __m256i mask = _mm256_set1_epi32(0x7f800000), bad = _mm256_setzero_si256();
    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(bits, mask), mask));
    }
    return _mm256_testz_si256(bad, bad) != 0 && uw_all_finite_ref(e, n - i, x + i);
}

double uw_distance_sq_avx2(const struct uw_exec *e, size_t n, const float *x, const float *y)
{
    size_t i = 0;
    __m256d s0 = _mm256_setzero_pd(), s1 = s0;
    for (; i + 8 <= n; i += 8) {
        __m256d d0 = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
        __m256d d1 = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4));
        if (y != NULL) {
            d0 = _mm256_sub_pd(d0, _mm256_cvtps_pd(_mm_loadu_ps(y + i)));
            d1 = _mm256_sub_pd(d1, _mm256_cvtps_pd(_mm_loadu_ps(y + i + 4)));
        }
        s0 = _mm256_fmadd_pd(d0, d0, s0);
        s1 = _mm256_fmadd_pd(d1, d1, s1);
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(s0, s1));
    double rest = uw_distance_sq_ref(e, n - i, x + i, y != NULL ? y + i : NULL);
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + rest;
}
