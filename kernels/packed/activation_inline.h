/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_inline.h - slots of struct uw_activation_kernels, VEC_N elements at a time
 *
 * Included like functions_inline.h. */
#ifndef UW_KERNELS_ACTIVATION_INLINE_H
#define UW_KERNELS_ACTIVATION_INLINE_H

#include "packed/functions_inline.h"
#include "ref/ref.h"
#include "uwasa/status.h"

#define ACTIVATION_TASK_N 16384u    /* elements of one task, a multiple of VEC_N */

VEC_INLINE vec normal_below(vec x, vec *density)
{
    vec tail = vec_normal_tail(magnitude(x), density);
    *density *= all(0.398942280f);
    return choose(x > all(0.0f), all(1.0f) - tail, tail);
}

VEC_INLINE vec gelu_argument(vec x)
{
    return all(0.797884561f) * (x + ((all(0.044715f) * x) * x) * x);
}

VEC_INLINE vec value_of(enum uw_activation_kind kind, float slope, vec x)
{
    vec zero = all(0.0f), six = all(6.0f), s;

    switch (kind) {
    case UW_ACTIVATION_RELU6:
        return choose(x <= zero, zero, choose(x >= six, six, x)); /* NaN stays */
    case UW_ACTIVATION_LEAKY_RELU:
        return choose(x < zero, all(slope) * x, x);
    case UW_ACTIVATION_SIGMOID:
        return vec_sigmoid(x);
    case UW_ACTIVATION_TANH:
        return vec_tanh(x);
    case UW_ACTIVATION_GELU:
        return x * normal_below(x, &s);
    case UW_ACTIVATION_GELU_TANH:
        return (all(0.5f) * x) * (all(1.0f) + vec_tanh(gelu_argument(x)));
    case UW_ACTIVATION_SILU:
        break;
    }
    return x * vec_sigmoid(x);
}

VEC_INLINE vec gelu_tanh_slope(vec v)
{
    vec one = all(1.0f), s = vec_tanh(gelu_argument(v));
    vec inner = (((all(0.5f) * v) * (one - s * s)) * all(0.797884561f)) *
                (one + (all(0.134145f) * v) * v);
    return all(0.5f) * (one + s) + inner;
}

VEC_INLINE vec slope_of(enum uw_activation_kind kind, float slope, vec v, vec dy)
{
    vec one = all(1.0f), zero = all(0.0f), s, density;

    switch (kind) {
    case UW_ACTIVATION_RELU6:
        return choose((v > zero) & (v < all(6.0f)), dy, zero);
    case UW_ACTIVATION_LEAKY_RELU:
        return choose(v > zero, dy, all(slope) * dy);
    case UW_ACTIVATION_SIGMOID:
        return (v * (one - v)) * dy;
    case UW_ACTIVATION_TANH:
        return (one - v * v) * dy;
    case UW_ACTIVATION_GELU:
        s = normal_below(v, &density);
        return (s + v * density) * dy;
    case UW_ACTIVATION_GELU_TANH:
        return gelu_tanh_slope(v) * dy;
    case UW_ACTIVATION_SILU:
        break;
    }
    s = vec_sigmoid(v);
    return (s * (one + v * (one - s))) * dy;
}

struct activation_job {
    const struct uw_activation *a;
    size_t n;
    const float *x, *dy;            /* dy NULL: forward */
    float *y;
    bool accumulate;
};

/* n <= VEC_N elements from i on of f(x), or of y = f'(x) dy, with a compile-time kind. */
VEC_INLINE void activate(const struct activation_job *j, size_t i, size_t n,
                         enum uw_activation_kind kind)
{
    float slope = j->a->slope;
    vec x = load(j->x + i, n);
    vec y = j->dy != NULL ? slope_of(kind, slope, x, load(j->dy + i, n))
                          : value_of(kind, slope, x);
    store(j->y + i, j->accumulate ? load(j->y + i, n) + y : y, n);
}

VEC_INLINE void activate_all(const struct activation_job *j, size_t i, size_t end,
                             enum uw_activation_kind kind)
{
    for (; i + VEC_N <= end; i += VEC_N) {
        activate(j, i, VEC_N, kind);
    }
    if (i < end) {
        activate(j, i, end - i, kind);
    }
}

static void activation_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct activation_job *j = arg;
    size_t i = (size_t)task * ACTIVATION_TASK_N;
    size_t end = i + ACTIVATION_TASK_N < j->n ? i + ACTIVATION_TASK_N : j->n;
    switch (j->a->kind) {
#define KIND(k) case k: activate_all(j, i, end, k); break;
    KIND(UW_ACTIVATION_RELU6) KIND(UW_ACTIVATION_LEAKY_RELU) KIND(UW_ACTIVATION_SIGMOID)
    KIND(UW_ACTIVATION_TANH) KIND(UW_ACTIVATION_GELU) KIND(UW_ACTIVATION_GELU_TANH)
    KIND(UW_ACTIVATION_SILU)
#undef KIND
    }
}

static void run_activation(const struct uw_exec *e, struct activation_job *j)
{
    double n = (double)j->n;
    uw_workers_run(uw_workers_for(e->workers, 32.0 * n, 8.0 * n), activation_task, j,
                   (uint32_t)((j->n + ACTIVATION_TASK_N - 1) / ACTIVATION_TASK_N));
}

static int activation_fw(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                         const float *x, float *y)
{
    struct activation_job j = {.a = a, .n = n, .x = x, .y = y};
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return uw_activation_ref.forward(e, a, n, x, y);
    }
    run_activation(e, &j);
    return UW_OK;
}

static int activation_bw(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                         const float *v, const float *dy, float *dx, bool accumulate)
{
    struct activation_job j = {.a = a, .n = n, .x = v, .dy = dy, .y = dx,
                               .accumulate = accumulate};
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return uw_activation_ref.bw_input(e, a, n, v, dy, dx, accumulate);
    }
    run_activation(e, &j);
    return UW_OK;
}

const struct uw_activation_kernels FAMILY(uw_activation) = {
    .forward = activation_fw, .bw_input = activation_bw, .dropout = uw_dropout_ref};

#endif
