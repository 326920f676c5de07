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

/* The normal distribution function and density; small values keep their digits. */
static float normal_below(float x, float *density)
{
    float tail = uw_normal_tail(x < 0.0f ? -x : x, density);
    *density *= 0.398942280f;
    return x > 0.0f ? 1.0f - tail : tail;
}

static float gelu_argument(float x)
{
    return 0.797884561f * (x + 0.044715f * x * x * x);
}

/* log(1 + e^x) */
static float softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + uw_logf(1.0f + uw_expf(x > 0.0f ? -x : x));
}

static float between(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x; /* NaN stays */
}

static float function_of(enum uw_function f, float a, float b, float x)
{
    switch (f) {
    case UW_FUNCTION_SCALE:
        return a * x + b;
    case UW_FUNCTION_ABS:
        return x < 0.0f ? -x : x;
    case UW_FUNCTION_EXP:
        return uw_expf(x);
    case UW_FUNCTION_LOG:
        return uw_logf(x);
    case UW_FUNCTION_SQRT:
        return uw_sqrtf(x);
    case UW_FUNCTION_RECIPROCAL:
        return 1.0f / x;
    case UW_FUNCTION_SQUARE:
        return x * x;
    case UW_FUNCTION_POWER:
        return uw_powf(x, a);
    case UW_FUNCTION_ERF:
        return uw_erff(x);
    case UW_FUNCTION_CLIP:
        return between(x, a, b);
    case UW_FUNCTION_ELU:
        return x > 0.0f ? x : a * (uw_expf(x) - 1.0f);
    case UW_FUNCTION_SELU:
        return b * (x > 0.0f ? x : a * (uw_expf(x) - 1.0f));
    case UW_FUNCTION_CELU:
        return x > 0.0f ? x : a * (uw_expf(x / a) - 1.0f);
    case UW_FUNCTION_SOFTPLUS:
        return softplus(a * x) / a;
    case UW_FUNCTION_SOFTSIGN:
        return x / (1.0f + (x < 0.0f ? -x : x));
    case UW_FUNCTION_MISH:
        return x * uw_tanhf(softplus(x));
    case UW_FUNCTION_HARDSIGMOID:
        return between(a * x + b, 0.0f, 1.0f);
    case UW_FUNCTION_HARDSWISH:
        return x * between(x / 6.0f + 0.5f, 0.0f, 1.0f);
    case UW_FUNCTION_THRESHOLD:
        return x <= a ? b : x;
    case UW_FUNCTION_SIN:
        return uw_sinf(x);
    case UW_FUNCTION_COS:
        return uw_cosf(x);
    case UW_FUNCTION_SIGN:
        return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    case UW_FUNCTION_STEP:
        return x > a ? 1.0f : 0.0f;
    case UW_FUNCTION_QUICK_GELU:
        break;
    }
    return x * sigmoid(a * x);
}

static float function_slope(enum uw_function f, float a, float b, float x)
{
    float s, t;
    switch (f) {
    case UW_FUNCTION_SCALE:
        return a;
    case UW_FUNCTION_ABS:
        return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f;
    case UW_FUNCTION_EXP:
        return uw_expf(x);
    case UW_FUNCTION_LOG:
        return 1.0f / x;
    case UW_FUNCTION_SQRT:
        return x == 0.0f ? 0.0f : 0.5f / uw_sqrtf(x); /* a spread of 0 stays where it is */
    case UW_FUNCTION_RECIPROCAL:
        return -1.0f / (x * x);
    case UW_FUNCTION_SQUARE:
        return 2.0f * x;
    case UW_FUNCTION_POWER:
        return a == 0.0f ? 0.0f : a * uw_powf(x, a - 1.0f);
    case UW_FUNCTION_ERF:
        return 1.12837917f * uw_expf(-x * x);
    case UW_FUNCTION_CLIP:
        return x > a && x < b ? 1.0f : 0.0f;
    case UW_FUNCTION_ELU:
        return x > 0.0f ? 1.0f : a * uw_expf(x);
    case UW_FUNCTION_SELU:
        return b * (x > 0.0f ? 1.0f : a * uw_expf(x));
    case UW_FUNCTION_CELU:
        return x > 0.0f ? 1.0f : uw_expf(x / a);
    case UW_FUNCTION_SOFTPLUS:
        return sigmoid(a * x);
    case UW_FUNCTION_SOFTSIGN:
        s = 1.0f + (x < 0.0f ? -x : x);
        return 1.0f / (s * s);
    case UW_FUNCTION_MISH:
        t = uw_tanhf(softplus(x));
        return t + x * (1.0f - t * t) * sigmoid(x);
    case UW_FUNCTION_HARDSIGMOID:
        s = a * x + b;
        return s > 0.0f && s < 1.0f ? a : 0.0f;
    case UW_FUNCTION_HARDSWISH:
        return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x / 3.0f + 0.5f;
    case UW_FUNCTION_THRESHOLD:
        return x <= a ? 0.0f : 1.0f;
    case UW_FUNCTION_SIN:
        return uw_cosf(x);
    case UW_FUNCTION_COS:
        return -uw_sinf(x);
    case UW_FUNCTION_SIGN:
    case UW_FUNCTION_STEP:
        return 0.0f;
    case UW_FUNCTION_QUICK_GELU:
        break;
    }
    s = sigmoid(a * x);
    return s + a * x * s * (1.0f - s);
}

static float value_of(const struct uw_activation *a, float x)
{
    float density;

    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return function_of((enum uw_function)(a->kind - UW_ACTIVATION_FUNCTION), a->a, a->b, x);
    }
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
        return x * normal_below(x, &density);
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
    float s, density;

    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return function_slope((enum uw_function)(a->kind - UW_ACTIVATION_FUNCTION), a->a, a->b,
                              v) * dy;
    }
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
        s = normal_below(v, &density);
        return (s + v * density) * dy;
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
