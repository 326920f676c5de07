/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates, eight elements at a time, with the reference's equations in the reference's order, hence
 * the same bits; long vectors are divided into tasks. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/fmath.h"
#include "uwasa/status.h"

#include <immintrin.h>

#define TASK_N 32768u           /* elements of one task, a multiple of 8 */

struct job {
    size_t n;
    const struct uw_adam *adam;
    const struct uw_rmsprop *rmsprop;
    const float *g;
    float *w, *m, *v;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j)
{
    double n = (double)j->n;
    uw_workers_run(uw_workers_for(e->workers, 8.0 * n, 16.0 * n), fn, j,
                   (uint32_t)((j->n + TASK_N - 1) / TASK_N));
}

static inline __m256 mul(__m256 a, float b)
{
    return _mm256_mul_ps(a, _mm256_set1_ps(b));
}

static void adam_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    struct uw_adam a = *j->adam;
    size_t i = (size_t)task * TASK_N, end = i + TASK_N < j->n ? i + TASK_N : j->n;
    float shrink = a.decoupled ? 1.0f - a.lr * a.weight_decay : 1.0f;
    float decay = a.decoupled ? 0.0f : a.weight_decay;
    float step = a.lr / a.correction1, root = uw_sqrtf(a.correction2);

    for (; i + 8 <= end; i += 8) {
        __m256 w = _mm256_loadu_ps(j->w + i), m = _mm256_loadu_ps(j->m + i);
        __m256 g = _mm256_add_ps(_mm256_loadu_ps(j->g + i), mul(w, decay));
        m = _mm256_add_ps(m, mul(_mm256_sub_ps(g, m), 1.0f - a.beta1));
        __m256 v = _mm256_add_ps(mul(_mm256_loadu_ps(j->v + i), a.beta2),
                                 _mm256_mul_ps(mul(g, 1.0f - a.beta2), g));
        __m256 d = _mm256_div_ps(_mm256_sqrt_ps(v), _mm256_set1_ps(root));
        d = _mm256_add_ps(d, _mm256_set1_ps(a.epsilon));
        _mm256_storeu_ps(j->m + i, m);
        _mm256_storeu_ps(j->v + i, v);
        _mm256_storeu_ps(j->w + i,
                         _mm256_sub_ps(mul(w, shrink), _mm256_div_ps(mul(m, step), d)));
    }
    if (i < end) {
        uw_update_ref.adam(NULL, end - i, &a, j->g + i, j->w + i, j->m + i, j->v + i);
    }
}

static int adam(const struct uw_exec *e, size_t n, const struct uw_adam *a, const float *g,
                float *w, float *m, float *v)
{
    struct job j = {.n = n, .adam = a, .g = g, .w = w, .m = m, .v = v};
    run(e, adam_task, &j);
    return UW_OK;
}

static void rmsprop_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    struct uw_rmsprop r = *j->rmsprop;
    size_t i = (size_t)task * TASK_N, end = i + TASK_N < j->n ? i + TASK_N : j->n;

    for (; i + 8 <= end; i += 8) {
        __m256 w = _mm256_loadu_ps(j->w + i);
        __m256 g = _mm256_add_ps(_mm256_loadu_ps(j->g + i), mul(w, r.weight_decay));
        __m256 v = _mm256_add_ps(mul(_mm256_loadu_ps(j->v + i), r.alpha),
                                 _mm256_mul_ps(mul(g, 1.0f - r.alpha), g));
        __m256 d = _mm256_add_ps(_mm256_sqrt_ps(v), _mm256_set1_ps(r.epsilon));
        d = _mm256_div_ps(g, d);
        _mm256_storeu_ps(j->v + i, v);
        if (r.momentum != 0.0f) {
            d = _mm256_add_ps(mul(_mm256_loadu_ps(j->m + i), r.momentum), d);
            _mm256_storeu_ps(j->m + i, d);
        }
        _mm256_storeu_ps(j->w + i, _mm256_sub_ps(w, mul(d, r.lr)));
    }
    if (i < end) {
        uw_update_ref.rmsprop(NULL, end - i, &r, j->g + i, j->w + i, j->v + i,
                              j->m != NULL ? j->m + i : NULL);
    }
}

static int rmsprop(const struct uw_exec *e, size_t n, const struct uw_rmsprop *r, const float *g,
                   float *w, float *v, float *b)
{
    struct job j = {.n = n, .rmsprop = r, .g = g, .w = w, .m = b, .v = v};
    run(e, rmsprop_task, &j);
    return UW_OK;
}

const struct uw_update_kernels uw_update_avx2 = {.adam = adam, .rmsprop = rmsprop};
