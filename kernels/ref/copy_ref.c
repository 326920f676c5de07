/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

#include <string.h>

static void add(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

static int copy(const struct uw_exec *e, const struct uw_copy *c, const float *x, float *y,
                bool accumulate)
{
    (void)e;
    for (size_t i = 0; i < c->rows; i++) {
        if (accumulate) {
            add(c->row_n, x + i * c->x_step, y + i * c->y_step);
        } else {
            memcpy(y + i * c->y_step, x + i * c->x_step, c->row_n * sizeof *y);
        }
    }
    return UW_OK;
}

static int permute(const struct uw_exec *e, const struct uw_permute *p, uint32_t batch_n,
                   const float *x, float *y, bool accumulate)
{
    (void)e;
    const size_t step_of[3] = {(size_t)p->dim[1] * p->dim[2], p->dim[2], 1};
    const uint32_t *dim = p->dim, *order = p->order;
    size_t step[3];

    for (uint32_t i = 0; i < 3; i++) {
        step[i] = step_of[order[i]];
    }
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t i = 0; i < dim[order[0]]; i++) {
            for (uint32_t j = 0; j < dim[order[1]]; j++) {
                const float *from = x + i * step[0] + j * step[1];
                for (uint32_t k = 0; k < dim[order[2]]; k++, y++, from += step[2]) {
                    *y = accumulate ? *y + *from : *from;
                }
            }
        }
        x += dim[0] * step_of[0];
    }
    return UW_OK;
}

/* The row index in x; `rows` if it is not valid. */
static uint32_t row_of(float x, uint32_t rows)
{
    if (!(x >= 0.0f && x < (float)rows)) {
        return rows;
    }
    uint32_t row = (uint32_t)x;
    return (float)row == x ? row : rows;
}

int uw_gather_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                  const float *x, const float *w, float *y)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        uint32_t row = row_of(x[i], rows);
        if (row == rows) {
            return UW_ERR_INVALID;
        }
        memcpy(y + i * row_n, w + (size_t)row * row_n, row_n * sizeof *y);
    }
    return UW_OK;
}

int uw_scatter_add_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                       const float *x, const float *dy, float scale, float *dw)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        uint32_t row = row_of(x[i], rows);
        if (row == rows) {
            return UW_ERR_INVALID;
        }
        for (uint32_t j = 0; j < row_n; j++) {
            dw[(size_t)row * row_n + j] += scale * dy[i * row_n + j];
        }
    }
    return UW_OK;
}

static int sum_rows(const struct uw_exec *e, size_t rows, uint32_t n, size_t step, const float *dy,
                    float scale, float *db)
{
    (void)e;
    for (uint32_t j = 0; j < n; j++) {
        float sum = 0.0f;
        for (size_t i = 0; i < rows; i++) {
            sum += dy[i * step + j];
        }
        db[j] += scale * sum;
    }
    return UW_OK;
}

const struct uw_copy_kernels uw_copy_ref = {.copy = copy,
                                            .permute = permute,
                                            .gather = uw_gather_ref,
                                            .scatter_add = uw_scatter_add_ref,
                                            .sum_rows = sum_rows};
