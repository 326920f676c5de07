/* SPDX-License-Identifier: Apache-2.0
 *
 * step_inline.h - struct uw_tile's step_rows for any instruction set
 *
 * Included after tile_inline.h. The including file defines:
 *
 *   STEP_ROWS                    rows updated in one pass
 *   vec_mul(a, b)                a * b
 */
#ifndef UW_KERNELS_STEP_INLINE_H
#define UW_KERNELS_STEP_INLINE_H

#include "packed/tile_inline.h"

/* All whole registers of some rows. rows, down (dx is wanted) and decay (keep is not 1) are
 * compile-time constants. Coefficients and row pointers are copied to locals, because to the
 * compiler w could alias them. */
static inline __attribute__((always_inline)) void step_some(
    uint32_t rows, bool down, bool decay, size_t n, float keep, const float *dy, const float *coef,
    const float *x, float *const *w, float *dx)
{
    vec f[STEP_ROWS], g[STEP_ROWS], k = vec_all(keep);
    float *row[STEP_ROWS];
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        f[i] = vec_all(coef[i]);
        g[i] = down ? vec_all(dy[i]) : f[i];
        row[i] = w[i];
    }
    for (size_t j = 0; j + VEC_N <= n; j += VEC_N) {
        vec xj = vec_load(x + j), d = down ? vec_load(dx + j) : xj;
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            vec wj = vec_load(row[i] + j);
            d = down ? vec_mul_add(d, wj, g[i]) : d;
            wj = decay ? vec_mul(wj, k) : wj;
            vec_store(row[i] + j, vec_mul_add(wj, xj, f[i]));
        }
        if (down) {
            vec_store(dx + j, d);
        }
    }
}

static inline __attribute__((always_inline)) void step_all(
    uint32_t rows, size_t n, float keep, const float *dy, const float *coef, const float *x,
    float *const *w, float *dx)
{
    if (dx != NULL && keep != 1.0f) {
        step_some(rows, true, true, n, keep, dy, coef, x, w, dx);
    } else if (dx != NULL) {
        step_some(rows, true, false, n, keep, dy, coef, x, w, dx);
    } else if (keep != 1.0f) {
        step_some(rows, false, true, n, keep, NULL, coef, x, w, NULL);
    } else {
        step_some(rows, false, false, n, keep, NULL, coef, x, w, NULL);
    }
}

/* Returns the number of columns done: all that fill whole registers. */
static inline size_t step_registers(uint32_t rows, size_t n, float keep, const float *dy,
                                    const float *coef, const float *x, float *const *w, float *dx)
{
    uint32_t i = 0;
#define ROWS_OF(r)                                                                                \
    for (; i + (r) <= rows; i += (r)) {                                                           \
        step_all(r, n, keep, dx != NULL ? dy + i : NULL, coef + i, x, w + i, dx);                 \
    }
    ROWS_OF(STEP_ROWS)
    ROWS_OF((STEP_ROWS + 1) / 2)
    ROWS_OF(1)
#undef ROWS_OF
    return n - n % VEC_N;
}

/* The tail of each row, element by element. */
static inline void step_rest(uint32_t rows, size_t from, size_t n, float keep, const float *dy,
                             const float *coef, const float *x, float *const *w, float *dx)
{
    for (uint32_t i = 0; i < rows; i++) {
        for (size_t j = from; j < n; j++) {
            float *wj = w[i] + j;
            if (dx != NULL) {
                dx[j] += dy[i] * *wj;
            }
            *wj *= keep;
            *wj += coef[i] * x[j];
        }
    }
}

/* step_rows with a scalar tail. */
static inline void step_rows_plain(uint32_t rows, size_t n, float keep, const float *dy,
                                   const float *coef, const float *x, float *const *w, float *dx)
{
    size_t done = step_registers(rows, n, keep, dy, coef, x, w, dx);
    step_rest(rows, done, n, keep, dy, coef, x, w, dx);
}

/* Entries of a struct uw_tile for which only multiply is tuned. */
#define PLAIN_ENTRIES                                                                             \
    .multiply = multiply,                                                                         \
    .multiply_add = multiply_add,                                                                 \
    .pack_transposed = pack_transposed,                                                           \
    .pack_copy = pack_copy,                                                                       \
    .pack_runs = pack_runs,                                                                       \
    .dots = dots,                                                                                 \
    .add_rows = add_rows,                                                                         \
    .planes = &planes,                                                                            \
    .norm = &uw_norm_ops_plain,                                                                   \
    .step_rows = step_rows_plain

#endif
