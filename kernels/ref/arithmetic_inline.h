/* SPDX-License-Identifier: Apache-2.0
 *
 * arithmetic_inline.h - the part of tensor_inline.h for arithmetic with broadcasting */
#ifndef UW_KERNELS_ARITHMETIC_INLINE_H
#define UW_KERNELS_ARITHMETIC_INLINE_H

#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#include <math.h>
#include <string.h>

#define TASK_N 16384u               /* least elements of a task */
#define PIECE_N 256u                /* floats of a row's gradient at once */

enum { A, B, Y, OPERANDS_N };

/* The axes of y, from the innermost; neighbours that all operands cross alike are one. */
struct axes {
    uint32_t n;
    size_t dim[UW_TENSOR_AXES];
    size_t step[OPERANDS_N][UW_TENSOR_AXES];
};

static bool continues(const struct axes *x, const size_t step[OPERANDS_N])
{
    bool alike = x->n > 0;
    for (int k = 0; k < OPERANDS_N && alike; k++) {
        alike = step[k] == x->step[k][x->n - 1] * x->dim[x->n - 1];
    }
    return alike;
}

static struct axes merge(const struct uw_arithmetic *g)
{
    struct axes x = {.n = 0};
    size_t y_step = 1;
    for (uint32_t i = UW_TENSOR_AXES; i-- > 0;) {
        const size_t step[OPERANDS_N] = {g->step[0][i], g->step[1][i], y_step};
        y_step *= g->dim[i];
        if (g->dim[i] == 1) {
            continue;
        }
        if (continues(&x, step)) {
            x.dim[x.n - 1] *= g->dim[i];
            continue;
        }
        for (int k = 0; k < OPERANDS_N; k++) {
            x.step[k][x.n] = step[k];
        }
        x.dim[x.n++] = g->dim[i];
    }
    if (x.n == 0) {
        x = (struct axes){.n = 1, .dim = {1}, .step = {{1}, {1}, {1}}};
    }
    return x;
}

/* NaN wins. */
static float least(float a, float b)
{
    return a < b || a != a ? a : b;
}

static float most(float a, float b)
{
    return a > b || a != a ? a : b;
}

/* y[i] = value of (p, q) over a row; an operand is a row or a single number. */
#define ROW(value)                                            \
    do {                                                      \
        if (step_a == 1 && step_b == 1) {                     \
            for (size_t i = 0; i < n; i++) {                  \
                float p = a[i], q = b[i];                     \
                y[i] = (value);                               \
            }                                                 \
        } else if (step_a == 1) {                             \
            float q = *b;                                     \
            for (size_t i = 0; i < n; i++) {                  \
                float p = a[i];                               \
                y[i] = (value);                               \
            }                                                 \
        } else {                                              \
            float p = *a;                                     \
            for (size_t i = 0; i < n; i++) {                  \
                float q = b[i * step_b];                      \
                y[i] = (value);                               \
            }                                                 \
        }                                                     \
    } while (0)

static void arithmetic_row(enum uw_arithmetic_op op, size_t n, const float *restrict a,
                           size_t step_a, const float *restrict b, size_t step_b,
                           float *restrict y)
{
    switch (op) {
    case UW_ARITHMETIC_ADD:
        ROW(p + q);
        break;
    case UW_ARITHMETIC_SUB:
        ROW(p - q);
        break;
    case UW_ARITHMETIC_MUL:
        ROW(p * q);
        break;
    case UW_ARITHMETIC_DIV:
        ROW(p / q);
        break;
    case UW_ARITHMETIC_POW:
        ROW(uw_powf(p, q));
        break;
    case UW_ARITHMETIC_MIN:
        ROW(least(p, q));
        break;
    case UW_ARITHMETIC_MAX:
        ROW(most(p, q));
        break;
    case UW_ARITHMETIC_MASK:
        ROW(q != 0.0f ? p : 0.0f);
        break;
    }
}

/* Share of the gradient that p gets as the smaller of p and q. */
static float share(float p, float q)
{
    return p < q ? 1.0f : p == q ? 0.5f : 0.0f;
}

/* y[i] = derivative by operand `which`, without dy. */
static void derivative_row(enum uw_arithmetic_op op, uint32_t which, size_t n,
                           const float *restrict a, size_t step_a, const float *restrict b,
                           size_t step_b, float *restrict y)
{
    bool first = which == 0;
    switch (op) {
    case UW_ARITHMETIC_ADD:
    case UW_ARITHMETIC_SUB:
        for (size_t i = 0; i < n; i++) {
            y[i] = first || op == UW_ARITHMETIC_ADD ? 1.0f : -1.0f;
        }
        break;
    case UW_ARITHMETIC_MUL:
        for (size_t i = 0; i < n; i++) {
            y[i] = first ? b[i * step_b] : a[i * step_a];
        }
        break;
    case UW_ARITHMETIC_DIV:
        for (size_t i = 0; i < n; i++) {
            float q = b[i * step_b];
            y[i] = first ? 1.0f / q : -a[i * step_a] / (q * q);
        }
        break;
    case UW_ARITHMETIC_POW:
        if (first) {
            ROW(q == 0.0f ? 0.0f : q * uw_powf(p, q - 1.0f));
        } else {
            ROW(p > 0.0f ? uw_powf(p, q) * uw_logf(p) : 0.0f);
        }
        break;
    case UW_ARITHMETIC_MIN:
        ROW(first ? share(p, q) : share(q, p));
        break;
    case UW_ARITHMETIC_MAX:
        ROW(first ? share(q, p) : share(p, q));
        break;
    case UW_ARITHMETIC_MASK:
        for (size_t i = 0; i < n; i++) {
            y[i] = first && b[i * step_b] != 0.0f ? 1.0f : 0.0f;
        }
        break;
    }
}

struct arithmetic_job {
    enum uw_arithmetic_op op;
    struct axes x;
    const float *in[2];
    float *y;                       /* forward: y; backward: dx */
    const float *dy;
    uint32_t which;
    uint32_t split;                 /* the axis that is divided among tasks */
    size_t per_task;                /* steps of it */
};

/* dx += derivative times dy, over one row */
static void gradient_row(const struct arithmetic_job *j, size_t n, const float *a, const float *b,
                         const float *dy, float *dx)
{
    const struct axes *x = &j->x;
    bool repeated = x->step[j->which][0] == 0;
    float d[PIECE_N];
    double sum = 0.0;

    for (size_t i = 0; i < n; i += PIECE_N) {
        size_t some = n - i < PIECE_N ? n - i : PIECE_N;
        derivative_row(j->op, j->which, some, a + i * x->step[A][0], x->step[A][0],
                       b + i * x->step[B][0], x->step[B][0], d);
        if (repeated) {
            for (size_t k = 0; k < some; k++) {
                sum += (double)(d[k] * dy[i + k]);
            }
        } else {
            for (size_t k = 0; k < some; k++) {
                dx[i + k] += d[k] * dy[i + k];
            }
        }
    }
    if (repeated) {
        *dx += (float)sum;
    }
}

/* The rows of one task, from the outermost axis inwards. */
static void arithmetic_rows(const struct arithmetic_job *j, uint32_t axis, size_t begin,
                            size_t end, const size_t at[OPERANDS_N])
{
    const struct axes *x = &j->x;
    bool mine = axis == j->split;
    size_t from = mine ? begin : 0, to = mine ? end : x->dim[axis];

    if (axis == 0) {
        const float *a = j->in[A] + at[A] + from * x->step[A][0];
        const float *b = j->in[B] + at[B] + from * x->step[B][0];
        size_t y = at[Y] + from * x->step[Y][0];
        if (j->dy == NULL) {
            arithmetic_row(j->op, to - from, a, x->step[A][0], b, x->step[B][0], j->y + y);
        } else {
            size_t step = x->step[j->which][0];
            gradient_row(j, to - from, a, b, j->dy + y, j->y + at[j->which] + from * step);
        }
        return;
    }
    for (size_t i = from; i < to; i++) {
        const size_t inner[OPERANDS_N] = {at[A] + i * x->step[A][axis],
                                          at[B] + i * x->step[B][axis],
                                          at[Y] + i * x->step[Y][axis]};
        arithmetic_rows(j, axis - 1, begin, end, inner);
    }
}

static void arithmetic_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct arithmetic_job *j = arg;
    const size_t at[OPERANDS_N] = {0, 0, 0};
    size_t begin = task * j->per_task, end = begin + j->per_task;
    size_t all = j->x.dim[j->split];
    arithmetic_rows(j, j->x.n - 1, begin, end < all ? end : all, at);
}

/* Divide the longest axis of y, or of dx, among tasks. */
static void run_arithmetic(const struct uw_exec *e, struct arithmetic_job *j)
{
    const struct axes *x = &j->x;
    size_t total = 1, longest = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        total *= x->dim[i];
        if (x->dim[i] > longest && (j->dy == NULL || x->step[j->which][i] != 0)) {
            longest = x->dim[i];
            j->split = i;
        }
    }
    size_t tasks = total / TASK_N;
    tasks = tasks < 1 || longest == 0 ? 1 : tasks > longest ? longest : tasks;
    j->per_task = (x->dim[j->split] + tasks - 1) / tasks;
    tasks = (x->dim[j->split] + j->per_task - 1) / j->per_task;
    uw_workers_run(e->workers, arithmetic_task, j, (uint32_t)tasks);
}

static int arithmetic_fw(const struct uw_exec *e, const struct uw_arithmetic *g, const float *a,
                         const float *b, float *y)
{
    struct arithmetic_job j = {.op = g->op, .x = merge(g), .in = {a, b}, .y = y};
    run_arithmetic(e, &j);
    return UW_OK;
}

static int arithmetic_bw(const struct uw_exec *e, const struct uw_arithmetic *g, uint32_t which,
                         const float *a, const float *b, const float *dy, float *dx,
                         bool accumulate)
{
    struct arithmetic_job j = {.op = g->op, .x = merge(g), .in = {a, b}, .y = dx, .dy = dy,
                               .which = which};
    size_t n = 1;
    for (uint32_t i = 0; i < j.x.n; i++) {
        n *= j.x.step[which][i] != 0 ? j.x.dim[i] : 1;
    }
    if (!accumulate) {
        memset(dx, 0, n * sizeof *dx);
    }
    run_arithmetic(e, &j);
    return UW_OK;
}

#endif
