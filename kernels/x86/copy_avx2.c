/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, in tasks of whole rows or samples; permutations that move the last axis use 8 x 8
 * transposes in registers. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <immintrin.h>
#include <string.h>

#define TASK_N 32768u               /* values of one task, at least */
#define STRIP_N 32u                 /* columns of sum_rows summed at the same time */

struct job {
    const struct uw_copy *c;
    const struct uw_permute *p;
    const float *x;
    float *y;
    size_t all, per_task;           /* rows or samples */
    size_t rows, step;
    uint32_t n;
    float scale;
    bool accumulate;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j, size_t all, size_t unit_n)
{
    j->all = all;
    j->per_task = unit_n >= TASK_N ? 1 : TASK_N / (unit_n + 1) + 1;
    while ((all + j->per_task - 1) / j->per_task > UINT32_MAX) {
        j->per_task *= 2;
    }
    uw_workers_run(e->workers, fn, j, (uint32_t)((all + j->per_task - 1) / j->per_task));
}

static size_t end_of(const struct job *j, uint32_t task)
{
    size_t begin = task * j->per_task;
    return j->all - begin < j->per_task ? j->all : begin + j->per_task;
}

static void add(size_t n, const float *x, float *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    }
    for (; i < n; i++) {
        y[i] += x[i];
    }
}

static void move(size_t n, const float *x, float *y, bool accumulate)
{
    if (accumulate) {
        add(n, x, y);
    } else {
        memcpy(y, x, n * sizeof *y);
    }
}

static void copy_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_copy *c = j->c;
    for (size_t i = task * j->per_task; i < end_of(j, task); i++) {
        move(c->row_n, j->x + i * c->x_step, j->y + i * c->y_step, j->accumulate);
    }
}

static int copy(const struct uw_exec *e, const struct uw_copy *c, const float *x, float *y,
                bool accumulate)
{
    struct job j = {.c = c, .x = x, .y = y, .accumulate = accumulate};
    if (c->row_n > 0) {
        run(e, copy_task, &j, c->rows, c->row_n);
    }
    return UW_OK;
}

/* y[k * y_step + i] = x[i * x_step + k], i, k < 8 */
static inline void transpose_8x8(const float *x, size_t x_step, float *y, size_t y_step,
                                 bool accumulate)
{
    __m256 r[8], t[8];
    for (size_t i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_ps(x + i * x_step);
    }
    for (size_t i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (size_t k = 0; k < 8; k++) {
        float *to = y + k * y_step;
        _mm256_storeu_ps(to, accumulate ? _mm256_add_ps(_mm256_loadu_ps(to), t[k]) : t[k]);
    }
}

/* y[k * y_step + i] = x[i * x_step + k], i < rows, k < cols */
static void transpose(uint32_t rows, uint32_t cols, const float *x, size_t x_step, float *y,
                      size_t y_step, bool accumulate)
{
    uint32_t whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
    for (uint32_t i = 0; i < whole_rows; i += 8) {
        for (uint32_t k = 0; k < whole_cols; k += 8) {
            transpose_8x8(x + i * x_step + k, x_step, y + k * y_step + i, y_step, accumulate);
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = i < whole_rows ? whole_cols : 0; k < cols; k++) {
            float *to = y + k * y_step + i;
            *to = accumulate ? *to + x[i * x_step + k] : x[i * x_step + k];
        }
    }
}

/* One sample. The input's last axis is the output's axis `last`; if that is the last one too, rows
 * are copied, else the two axes are transposed for each index of the third. */
static void permute_sample(const struct uw_permute *p, const float *x, float *y, bool accumulate)
{
    const size_t in_step[3] = {(size_t)p->dim[1] * p->dim[2], p->dim[2], 1};
    uint32_t dim[3];
    size_t step[3];
    for (uint32_t i = 0; i < 3; i++) {
        dim[i] = p->dim[p->order[i]];
        step[i] = in_step[p->order[i]];
    }
    const size_t out_step[3] = {(size_t)dim[1] * dim[2], dim[2], 1};
    uint32_t last = p->order[2] == 2 ? 2 : p->order[1] == 2 ? 1 : 0, third = last == 0 ? 1 : 0;

    for (uint32_t i = 0; i < dim[third]; i++) {
        const float *from = x + i * step[third];
        float *to = y + i * out_step[third];
        if (last != 2) {
            transpose(dim[2], dim[last], from, step[2], to, out_step[last], accumulate);
            continue;
        }
        for (uint32_t k = 0; k < dim[1]; k++) {
            move(dim[2], from + k * step[1], to + k * out_step[1], accumulate);
        }
    }
}

static void permute_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t n = (size_t)j->p->dim[0] * j->p->dim[1] * j->p->dim[2];
    for (size_t i = task * j->per_task; i < end_of(j, task); i++) {
        permute_sample(j->p, j->x + i * n, j->y + i * n, j->accumulate);
    }
}

static int permute(const struct uw_exec *e, const struct uw_permute *p, uint32_t batch_n,
                   const float *x, float *y, bool accumulate)
{
    struct job j = {.p = p, .x = x, .y = y, .accumulate = accumulate};
    run(e, permute_task, &j, batch_n, (size_t)p->dim[0] * p->dim[1] * p->dim[2]);
    return UW_OK;
}

static void sum_rows_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    uint32_t begin = task * STRIP_N, n = j->n - begin < STRIP_N ? j->n - begin : STRIP_N;
    float sum[STRIP_N] = {0.0f};
    for (size_t i = 0; i < j->rows; i++) {
        const float *row = j->x + i * j->step + begin;
        for (uint32_t k = 0; n == STRIP_N && k < STRIP_N; k += 8) {
            _mm256_storeu_ps(sum + k,
                             _mm256_add_ps(_mm256_loadu_ps(sum + k), _mm256_loadu_ps(row + k)));
        }
        for (uint32_t k = 0; n != STRIP_N && k < n; k++) {
            sum[k] += row[k];
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        j->y[begin + k] += j->scale * sum[k];
    }
}

static int sum_rows(const struct uw_exec *e, size_t rows, uint32_t n, size_t step, const float *dy,
                    float scale, float *db)
{
    struct job j = {.x = dy, .y = db, .rows = rows, .step = step, .n = n, .scale = scale};
    struct uw_workers *w = (double)rows * n < TASK_N ? NULL : e->workers;
    uw_workers_run(w, sum_rows_task, &j, n / STRIP_N + (n % STRIP_N != 0 ? 1 : 0));
    return UW_OK;
}

const struct uw_copy_kernels uw_copy_avx2 = {.copy = copy,
                                             .permute = permute,
                                             .gather = uw_gather_ref,
                                             .scatter_add = uw_scatter_add_ref,
                                             .sum_rows = sum_rows};
