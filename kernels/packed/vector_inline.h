/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_inline.h - the entries of struct uw_tile that do not depend on the register tile
 *
 * Included like tile_inline.h. The including file defines what that needs, and:
 *
 *   vec_mul_add(s, a, b)         s + a * b, rounded once
 *   vec_sum(v)                   the sum of its elements
 *   pack_4x4(alpha, src, stride, dst, ld)
 *                                pack_transposed for four rows and n = 4
 */
#ifndef UW_KERNELS_VECTOR_INLINE_H
#define UW_KERNELS_VECTOR_INLINE_H

#include "packed/tile_inline.h"

static inline void pack_transposed_rest(uint32_t rows, uint32_t n, float alpha, const float *src,
                                        size_t stride, float *dst, size_t ld)
{
    for (uint32_t i = 0; i < rows; i++) {
        const float *row = src + i * stride;
        for (uint32_t k = 0; k < n; k++) {
            dst[k * ld + i] = alpha * row[k];
        }
    }
}

/* Four rows; the last four columns overlap those before, instead of a scalar tail. */
static inline void pack_transposed_4(uint32_t n, float alpha, const float *src, size_t stride,
                                     float *dst, size_t ld)
{
    for (uint32_t k = 0; k + 4 <= n; k += 4) {
        pack_4x4(alpha, src + k, stride, dst + k * ld, ld);
    }
    if (n % 4 != 0 && n > 4) {
        pack_4x4(alpha, src + n - 4, stride, dst + (n - 4) * ld, ld);
    } else if (n < 4) {
        pack_transposed_rest(4, n, alpha, src, stride, dst, ld);
    }
}

static inline void pack_transposed(uint32_t rows, uint32_t n, float alpha, const float *src,
                                   size_t stride, float *dst, size_t ld)
{
    for (uint32_t i = 0; i + 4 <= rows; i += 4) {
        pack_transposed_4(n, alpha, src + i * stride, stride, dst + i, ld);
    }
    if (rows % 4 != 0 && rows > 4) { /* the last four rows overlap too */
        pack_transposed_4(n, alpha, src + (rows - 4) * stride, stride, dst + rows - 4, ld);
    } else if (rows < 4) {
        pack_transposed_rest(rows, n, alpha, src, stride, dst, ld);
    }
}

/* dots with a compile-time number of rows. */
static inline __attribute__((always_inline)) void dots_rows(
    uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw, float *out)
{
    vec s[3][4];
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            s[i][j] = vec_all(0.0f);
        }
    }
    size_t p = 0;
    for (; p + VEC_N <= k; p += VEC_N) {
        vec xi[3];
        for (uint32_t i = 0; i < rows; i++) {
            xi[i] = vec_load(x + i * ldx + p);
        }
        for (uint32_t j = 0; j < 4; j++) {
            vec wj = vec_load(w + j * ldw + p);
            for (uint32_t i = 0; i < rows; i++) {
                s[i][j] = vec_mul_add(s[i][j], xi[i], wj);
            }
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            float sum = vec_sum(s[i][j]);
            for (size_t q = p; q < k; q++) {
                sum += x[i * ldx + q] * w[j * ldw + q];
            }
            out[i * 4 + j] = sum;
        }
    }
}

static inline void dots(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w,
                        size_t ldw, float *out)
{
    switch (rows) {
    case 3: dots_rows(3, k, x, ldx, w, ldw, out); break;
    case 2: dots_rows(2, k, x, ldx, w, ldw, out); break;
    default: dots_rows(1, k, x, ldx, w, ldw, out); break;
    }
}

static inline void add_rows(uint32_t rows, size_t n, const float *coef, const float *x,
                            size_t stride, float *y)
{
    size_t j = 0;
    for (; j + VEC_N <= n; j += VEC_N) {
        vec s = vec_load(y + j);
        for (uint32_t i = 0; i < rows; i++) {
            s = vec_add_scaled(s, vec_load(x + i * stride + j), coef[i]);
        }
        vec_store(y + j, s);
    }
    for (; j < n; j++) {
        for (uint32_t i = 0; i < rows; i++) {
            y[j] += coef[i] * x[i * stride + j];
        }
    }
}

#endif
