/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#define TASK_N 16384u               /* elements of one task */

struct job {
    const struct uw_activation *a;
    size_t n;
    const float *x, *dy;
    float *y;
    uint64_t key, first;
    float rate;
    bool accumulate;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j)
{
    uw_workers_run(e->workers, fn, j, (uint32_t)((j->n + TASK_N - 1) / TASK_N));
}

static size_t end_of(const struct job *j, uint32_t task)
{
    size_t end = ((size_t)task + 1) * TASK_N;
    return end < j->n ? end : j->n;
}

static float sigmoid(float x)
{
    if (x < 0.0f) {
        float t = uw_expf(x);
        return t / (1.0f + t);
    }
    return 1.0f / (1.0f + uw_expf(-x));
}

/* The normal distribution function and density. */
static float normal_below(float x)
{
    return 0.5f * (1.0f + uw_erff(x * 0.707106781f));
}

static float normal_density(float x)
{
    return 0.398942280f * uw_expf(-0.5f * x * x);
}

static float gelu_argument(float x)
{
    return 0.797884561f * (x + 0.044715f * x * x * x);
}

static float value_of(const struct uw_activation *a, float x)
{
    switch (a->kind) {
    case UW_ACTIVATION_RELU6:
        return x <= 0.0f ? 0.0f : x >= 6.0f ? 6.0f : x; /* NaN stays */
    case UW_ACTIVATION_LEAKY_RELU:
        return x < 0.0f ? a->slope * x : x;
    case UW_ACTIVATION_SIGMOID:
        return sigmoid(x);
    case UW_ACTIVATION_TANH:
        return uw_tanhf(x);
    case UW_ACTIVATION_GELU:
        return x * normal_below(x);
    case UW_ACTIVATION_GELU_TANH:
        return 0.5f * x * (1.0f + uw_tanhf(gelu_argument(x)));
    case UW_ACTIVATION_SILU:
        break;
    }
    return x * sigmoid(x);
}

/* f'(x) dy; v as in the slot. */
static float slope_of(const struct uw_activation *a, float v, float dy)
{
    float s;

    switch (a->kind) {
    case UW_ACTIVATION_RELU6:
        return v > 0.0f && v < 6.0f ? dy : 0.0f;
    case UW_ACTIVATION_LEAKY_RELU:
        return v > 0.0f ? dy : a->slope * dy;
    case UW_ACTIVATION_SIGMOID:
        return v * (1.0f - v) * dy;
    case UW_ACTIVATION_TANH:
        return (1.0f - v * v) * dy;
    case UW_ACTIVATION_GELU:
        return (normal_below(v) + v * normal_density(v)) * dy;
    case UW_ACTIVATION_GELU_TANH:
        s = uw_tanhf(gelu_argument(v));
        return (0.5f * (1.0f + s) + 0.5f * v * (1.0f - s * s) * 0.797884561f *
                                        (1.0f + 0.134145f * v * v)) * dy;
    case UW_ACTIVATION_SILU:
        break;
    }
    s = sigmoid(v);
    return s * (1.0f + v * (1.0f - s)) * dy;
}

static void forward_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    for (size_t i = (size_t)task * TASK_N; i < end_of(j, task); i++) {
        j->y[i] = value_of(j->a, j->x[i]);
    }
}

static int forward(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                   const float *x, float *y)
{
    struct job j = {.a = a, .n = n, .x = x, .y = y};
    run(e, forward_task, &j);
    return UW_OK;
}

static void backward_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    for (size_t i = (size_t)task * TASK_N; i < end_of(j, task); i++) {
        float d = slope_of(j->a, j->x[i], j->dy[i]);
        j->y[i] = j->accumulate ? j->y[i] + d : d;
    }
}

static int bw_input(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                    const float *v, const float *dy, float *dx, bool accumulate)
{
    struct job j = {.a = a, .n = n, .x = v, .dy = dy, .y = dx, .accumulate = accumulate};
    run(e, backward_task, &j);
    return UW_OK;
}

/* Always multiplies by the factor, 0 or 1 / (1 - rate), so that NaN stays NaN. */
static void dropout_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    float scale = 1.0f / (1.0f - j->rate);
    for (size_t i = (size_t)task * TASK_N; i < end_of(j, task); i++) {
        float u = (float)(uw_rng_mix(j->key, j->first + i) >> 40) * 0x1p-24f;
        float y = j->x[i] * (u >= j->rate ? scale : 0.0f);
        j->y[i] = j->accumulate ? j->y[i] + y : y;
    }
}

int uw_dropout_ref(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first, size_t n,
                   const float *x, float *y, bool accumulate)
{
    struct job j = {.n = n, .x = x, .y = y, .key = uw_rng_mix(d->noise, d->layer), .first = first,
                    .rate = d->rate, .accumulate = accumulate};
    run(e, dropout_task, &j);
    return UW_OK;
}

const struct uw_activation_kernels uw_activation_ref = {
    .forward = forward, .bw_input = bw_input, .dropout = uw_dropout_ref};
