/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_inline.h - slots of struct uw_tensor_kernels, for any instruction set
 *
 * The loops over one row are plain C that compilers vectorize. The including file defines
 * UW_TENSOR_NAME, the name of the family. All sums are in a fixed order: results do not depend on
 * threads or instruction sets. */
#ifndef UW_KERNELS_TENSOR_INLINE_H
#define UW_KERNELS_TENSOR_INLINE_H

#include "ref/arithmetic_inline.h"

/* ---- reductions: x is [outer][n][inner] ---- */

struct reduce_job {
    const struct uw_reduce *r;
    const float *x, *y, *dy;        /* dy NULL: forward */
    float *out;                     /* y, or dx */
    size_t per_task;                /* of outer */
    bool accumulate;
};

static float reduce_one(const struct uw_reduce *r, const float *x)
{
    double sum = 0.0;
    float best = x[0];
    switch (r->op) {
    case UW_REDUCE_MEAN:
    case UW_REDUCE_SUM:
        for (uint32_t k = 0; k < r->n; k++) {
            sum += (double)x[k * r->inner];
        }
        return (float)(r->op == UW_REDUCE_MEAN ? sum / r->n : sum);
    case UW_REDUCE_MAX:
    case UW_REDUCE_MIN:
        for (uint32_t k = 1; k < r->n; k++) {
            float v = x[k * r->inner];
            best = r->op == UW_REDUCE_MAX ? most(v, best) : least(v, best);
        }
        return best;
    case UW_REDUCE_NORM:
        for (uint32_t k = 0; k < r->n; k++) {
            sum += (double)x[k * r->inner] * (double)x[k * r->inner];
        }
        break;
    }
    return uw_sqrtf((float)sum);
}

/* dx of the elements that make one element of y. */
static void reduce_gradient(const struct uw_reduce *r, const float *x, float y, float dy,
                            float *dx, bool accumulate)
{
    uint32_t equal = 0;
    for (uint32_t k = 0; k < r->n && (r->op == UW_REDUCE_MAX || r->op == UW_REDUCE_MIN); k++) {
        equal += x[k * r->inner] == y ? 1 : 0;
    }
    float part = r->op == UW_REDUCE_SUM ? dy : r->op == UW_REDUCE_MEAN ? dy / (float)r->n
                 : r->op == UW_REDUCE_NORM ? (y > 0.0f ? dy / y : 0.0f)
                                           : dy / (float)(equal > 0 ? equal : 1);
    for (uint32_t k = 0; k < r->n; k++) {
        size_t at = k * r->inner;
        float d = r->op == UW_REDUCE_NORM ? part * x[at]
                  : equal != 0 && x[at] != y ? 0.0f : part;
        dx[at] = accumulate ? dx[at] + d : d;
    }
}

static void reduce_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct reduce_job *j = arg;
    const struct uw_reduce *r = j->r;
    size_t end = ((size_t)task + 1) * j->per_task;
    for (size_t o = task * j->per_task; o < (end < r->outer ? end : r->outer); o++) {
        for (size_t i = 0; i < r->inner; i++) {
            size_t at = o * r->n * r->inner + i, y = o * r->inner + i;
            if (j->dy == NULL) {
                j->out[y] = reduce_one(r, j->x + at);
            } else {
                reduce_gradient(r, j->x + at, j->y[y], j->dy[y], j->out + at, j->accumulate);
            }
        }
    }
}

static void run_reduce(const struct uw_exec *e, struct reduce_job *j)
{
    size_t each = (size_t)j->r->n * j->r->inner;
    j->per_task = each >= TASK_N ? 1 : (TASK_N + each - 1) / each;
    uw_workers_run(e->workers, reduce_task, j,
                   (uint32_t)((j->r->outer + j->per_task - 1) / j->per_task));
}

static int reduce_fw(const struct uw_exec *e, const struct uw_reduce *r, const float *x, float *y)
{
    struct reduce_job j = {.r = r, .x = x, .out = y};
    run_reduce(e, &j);
    return UW_OK;
}

static int reduce_bw(const struct uw_exec *e, const struct uw_reduce *r, const float *x,
                     const float *y, const float *dy, float *dx, bool accumulate)
{
    struct reduce_job j = {.r = r, .x = x, .y = y, .dy = dy, .out = dx, .accumulate = accumulate};
    run_reduce(e, &j);
    return UW_OK;
}

/* ---- log-softmax ---- */

static int log_softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, const float *x,
                          float *y)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float top = x[0], sum = 0.0f;
        for (uint32_t k = 1; k < n; k++) {
            top = most(x[k], top);
        }
        for (uint32_t k = 0; k < n; k++) {
            sum += uw_expf(x[k] - top);
        }
        float log_sum = uw_logf(sum);
        for (uint32_t k = 0; k < n; k++) {
            y[k] = x[k] - top - log_sum;
        }
    }
    return UW_OK;
}

static int log_softmax_bw(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                          const float *dy, float *dx)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        double sum = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            sum += (double)dy[k];
        }
        for (uint32_t k = 0; k < n; k++) {
            dx[k] = dy[k] - uw_expf(y[k]) * (float)sum;
        }
    }
    return UW_OK;
}

/* ---- picks along an axis: x is [outer][in][inner], y [outer][out][inner] ---- */

struct take_job {
    const struct uw_take *t;
    const float *from;
    float *to;
    size_t per_task;                /* of outer */
    bool backward;
};

static void add_scaled(size_t n, float w, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += w * x[i];
    }
}

static void take_row(const struct uw_take *t, uint32_t k, const float *x, float *y)
{
    for (uint32_t s = 0; s < t->taps; s++) {
        int32_t index = t->index[(size_t)k * t->taps + s];
        float w = t->weight != NULL ? t->weight[(size_t)k * t->taps + s] : 1.0f;
        if (s == 0 && t->weight == NULL && index >= 0) {
            memcpy(y, x + (size_t)index * t->inner, t->inner * sizeof *y);
            continue;
        }
        if (s == 0) {
            memset(y, 0, t->inner * sizeof *y);
        }
        if (index >= 0) {
            add_scaled(t->inner, w, x + (size_t)index * t->inner, y);
        }
    }
}

static void untake_row(const struct uw_take *t, uint32_t k, const float *dy, float *dx)
{
    for (uint32_t s = 0; s < t->taps; s++) {
        int32_t index = t->index[(size_t)k * t->taps + s];
        float w = t->weight != NULL ? t->weight[(size_t)k * t->taps + s] : 1.0f;
        if (index >= 0) {
            add_scaled(t->inner, w, dy, dx + (size_t)index * t->inner);
        }
    }
}

/* The same along the last axis, inner 1: some rows at a time, as each index serves all of them. */
enum { TAKE_ROWS = 8 };

static void take_rows(const struct uw_take *t, uint32_t rows, const float *x, float *y)
{
    for (uint32_t k = 0; k < t->out; k++) {
        float sum[TAKE_ROWS] = {0.0f};
        for (uint32_t s = 0; s < t->taps; s++) {
            int32_t index = t->index[(size_t)k * t->taps + s];
            float w = t->weight != NULL ? t->weight[(size_t)k * t->taps + s] : 1.0f;
            for (uint32_t r = 0; index >= 0 && r < rows; r++) {
                float v = x[(size_t)r * t->in + (size_t)index];
                sum[r] = s == 0 && t->weight == NULL ? v : sum[r] + w * v;
            }
        }
        for (uint32_t r = 0; r < rows; r++) {
            y[(size_t)r * t->out + k] = sum[r];
        }
    }
}

static void untake_rows(const struct uw_take *t, uint32_t rows, const float *dy, float *dx)
{
    for (uint32_t k = 0; k < t->out; k++) {
        for (uint32_t s = 0; s < t->taps; s++) {
            int32_t index = t->index[(size_t)k * t->taps + s];
            float w = t->weight != NULL ? t->weight[(size_t)k * t->taps + s] : 1.0f;
            for (uint32_t r = 0; index >= 0 && r < rows; r++) {
                dx[(size_t)r * t->in + (size_t)index] += w * dy[(size_t)r * t->out + k];
            }
        }
    }
}

static void take_last_axis(const struct take_job *j, size_t begin, size_t end)
{
    const struct uw_take *t = j->t;
    for (size_t o = begin; o < end; o += TAKE_ROWS) {
        uint32_t rows = end - o < TAKE_ROWS ? (uint32_t)(end - o) : TAKE_ROWS;
        if (j->backward) {
            untake_rows(t, rows, j->from + o * t->out, j->to + o * t->in);
        } else {
            take_rows(t, rows, j->from + o * t->in, j->to + o * t->out);
        }
    }
}

static void take_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct take_job *j = arg;
    const struct uw_take *t = j->t;
    size_t begin = task * j->per_task, x = t->in * t->inner, y = t->out * t->inner;
    size_t end = t->outer - begin < j->per_task ? t->outer : begin + j->per_task;
    if (t->inner == 1) {
        take_last_axis(j, begin, end);
        return;
    }
    for (size_t o = begin; o < end; o++) {
        for (uint32_t k = 0; k < t->out; k++) {
            if (j->backward) {
                untake_row(t, k, j->from + o * y + k * t->inner, j->to + o * x);
            } else {
                take_row(t, k, j->from + o * x, j->to + o * y + k * t->inner);
            }
        }
    }
}

static void run_take(const struct uw_exec *e, struct take_job *j)
{
    size_t each = (size_t)j->t->out * j->t->inner;
    j->per_task = each >= TASK_N ? 1 : (TASK_N + each - 1) / each;
    uw_workers_run(e->workers, take_task, j,
                   (uint32_t)((j->t->outer + j->per_task - 1) / j->per_task));
}

static int take_fw(const struct uw_exec *e, const struct uw_take *t, const float *x, float *y)
{
    struct take_job j = {.t = t, .from = x, .to = y};
    run_take(e, &j);
    return UW_OK;
}

static int take_bw(const struct uw_exec *e, const struct uw_take *t, const float *dy, float *dx,
                   bool accumulate)
{
    struct take_job j = {.t = t, .from = dy, .to = dx, .backward = true};
    if (!accumulate) {
        memset(dx, 0, t->outer * t->in * t->inner * sizeof *dx);
    }
    run_take(e, &j);
    return UW_OK;
}

const struct uw_tensor_kernels UW_TENSOR_NAME = {
    .arithmetic_fw = arithmetic_fw,
    .arithmetic_bw = arithmetic_bw,
    .reduce_fw = reduce_fw,
    .reduce_bw = reduce_bw,
    .log_softmax_fw = log_softmax_fw,
    .log_softmax_bw = log_softmax_bw,
    .take_fw = take_fw,
    .take_bw = take_bw,
};

#endif
