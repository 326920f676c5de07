/* SPDX-License-Identifier: Apache-2.0
 *
 * planes_inline.h - struct uw_planes_ops for any instruction set
 *
 * Included after vector_inline.h. The including file defines what that needs, and:
 *
 *   vec_evens(a, b), vec_odds(a, b)
 *                                the even, or odd, elements of a followed by those of b
 *   vec_zip(a, b, &lo, &hi)      the inverse: a and b interleaved
 *   split_4(src, even, odd), join_4(even, odd, dst)
 *                                the same in memory, eight elements to or from four and four
 *   PLANES_OPS                   the declaration of the table
 */
#ifndef UW_KERNELS_PLANES_INLINE_H
#define UW_KERNELS_PLANES_INLINE_H

#include "packed/planes_tile.h"
#include "packed/vector_inline.h"

#define EACH_TAPS                                                                                 \
    TAPS(1) TAPS(2) TAPS(3) TAPS(4) TAPS(5) TAPS(6) TAPS(7) TAPS(8)

/* add_taps with a compile-time number of taps: their coefficients stay in registers. Two vectors
 * at a time hide the latency of the additions. */
static inline __attribute__((always_inline)) void add_taps_of(
    uint32_t taps, size_t n, const float *coef, const uint32_t *at, const float *x, float init,
    float *y, bool add)
{
    vec c[UW_PLANES_TAPS];
    const float *from[UW_PLANES_TAPS];
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        c[t] = vec_all(coef[t]);
        from[t] = x + at[t];
    }
    for (size_t j = 0; j < n; j += 2 * VEC_N) {
        vec a = vec_all(init), b = a;
        if (add) {
            a = vec_load(y + j);
            b = vec_load(y + j + VEC_N);
        }
        UNROLLED (uint32_t t = 0; t < taps; t++) {
            a = vec_mul_add(a, c[t], vec_load(from[t] + j));
            b = vec_mul_add(b, c[t], vec_load(from[t] + j + VEC_N));
        }
        vec_store(y + j, a);
        vec_store(y + j + VEC_N, b);
    }
}

static void add_taps(uint32_t taps, size_t n, const float *coef, const uint32_t *at,
                            const float *x, float init, float *y, bool add)
{
    switch (taps) {
#define TAPS(t) case t: add_taps_of(t, n, coef, at, x, init, y, add); break;
    EACH_TAPS
#undef TAPS
    default: add_taps_of(UW_PLANES_TAPS, n, coef, at, x, init, y, add); break;
    }
}

/* sum_taps with a compile-time number of taps; one accumulator register per tap. */
static inline __attribute__((always_inline)) void sum_taps_of(
    uint32_t taps, size_t n, const float *y, const float *x, const uint32_t *at, float *sums)
{
    vec s[UW_PLANES_TAPS];
    const float *from[UW_PLANES_TAPS];
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        s[t] = vec_all(0.0f);
        from[t] = x + at[t];
    }
    for (size_t j = 0; j < n; j += VEC_N) {
        vec d = vec_load(y + j);
        UNROLLED (uint32_t t = 0; t < taps; t++) {
            s[t] = vec_mul_add(s[t], d, vec_load(from[t] + j));
        }
    }
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        sums[t] += vec_sum(s[t]);
    }
}

static void sum_taps(uint32_t taps, size_t n, const float *y, const float *x,
                            const uint32_t *at, float *sums)
{
    switch (taps) {
#define TAPS(t) case t: sum_taps_of(t, n, y, x, at, sums); break;
    EACH_TAPS
#undef TAPS
    default: sum_taps_of(UW_PLANES_TAPS, n, y, x, at, sums); break;
    }
}

#define LINE_N 16u              /* floats of one cache line, or of two */

/* Prefetch a row of the next plane. A run holds planes of several images, which are far apart in
 * memory. */
static inline __attribute__((always_inline)) void fetch_ahead(size_t cols, const float *row)
{
    for (size_t j = 0; j < cols; j += LINE_N) {
        __builtin_prefetch(row + j, 0, 2);
    }
}

/* copy; for common row lengths cols is a compile-time constant. */
static inline __attribute__((always_inline)) void copy_rows(
    uint32_t images, size_t rows, size_t cols, const float *src, struct uw_rows from, float *dst,
    struct uw_rows to)
{
    for (uint32_t i = 0; i < images; i++, src += from.image, dst += to.image) {
        const float *row = src;
        float *out = dst;
        for (size_t r = 0; r < rows; r++, row += from.row, out += to.row) {
            size_t j = 0;
            fetch_ahead(cols, row + rows * from.row);
            fetch_ahead(cols, out + rows * to.row);
            for (; j + VEC_N <= cols; j += VEC_N) {
                vec_store(out + j, vec_load(row + j));
            }
            if (j + 4 <= cols) {
                memcpy(out + j, row + j, 4 * sizeof(float));
                j += 4;
            }
            for (; j < cols; j++) {
                out[j] = row[j];
            }
        }
    }
}

static void copy(uint32_t images, size_t rows, size_t cols, const float *src, struct uw_rows from,
                 float *dst, struct uw_rows to)
{
    switch (cols) {
    case 4: copy_rows(images, rows, 4, src, from, dst, to); break;
    case 8: copy_rows(images, rows, 8, src, from, dst, to); break;
    case 16: copy_rows(images, rows, 16, src, from, dst, to); break;
    case 32: copy_rows(images, rows, 32, src, from, dst, to); break;
    default: copy_rows(images, rows, cols, src, from, dst, to); break;
    }
}

static inline void split_row(size_t evens, size_t odds, const float *src, float *even, float *odd)
{
    size_t j = 0, both = evens < odds ? evens : odds;
    for (; j + VEC_N <= both; j += VEC_N) {
        vec a = vec_load(src + 2 * j), b = vec_load(src + 2 * j + VEC_N);
        vec_store(even + j, vec_evens(a, b));
        vec_store(odd + j, vec_odds(a, b));
    }
    for (; j + 4 <= both; j += 4) {
        split_4(src + 2 * j, even + j, odd + j);
    }
    for (size_t k = j; k < evens; k++) {
        even[k] = src[2 * k];
    }
    for (size_t k = j; k < odds; k++) {
        odd[k] = src[2 * k + 1];
    }
}

static void split(uint32_t images, size_t rows, size_t evens, size_t odds, const float *src,
                  struct uw_rows from, float *even, float *odd, struct uw_rows to)
{
    for (uint32_t i = 0; i < images; i++) {
        for (size_t r = 0; r < rows; r++) {
            size_t at = i * to.image + r * to.row;
            fetch_ahead(evens + odds, src + i * from.image + (rows + r) * from.row);
            split_row(evens, odds, src + i * from.image + r * from.row, even + at, odd + at);
        }
    }
}

static inline void join_row(size_t evens, size_t odds, const float *even, const float *odd,
                            float *dst)
{
    size_t j = 0, both = evens < odds ? evens : odds;
    for (; j + VEC_N <= both; j += VEC_N) {
        vec lo, hi;
        vec_zip(vec_load(even + j), vec_load(odd + j), &lo, &hi);
        vec_store(dst + 2 * j, lo);
        vec_store(dst + 2 * j + VEC_N, hi);
    }
    for (; j + 4 <= both; j += 4) {
        join_4(even + j, odd + j, dst + 2 * j);
    }
    for (size_t k = j; k < evens; k++) {
        dst[2 * k] = even[k];
    }
    for (size_t k = j; k < odds; k++) {
        dst[2 * k + 1] = odd[k];
    }
}

static void join(uint32_t images, size_t rows, size_t evens, size_t odds, const float *even,
                 const float *odd, struct uw_rows from, float *dst, struct uw_rows to)
{
    for (uint32_t i = 0; i < images; i++) {
        for (size_t r = 0; r < rows; r++) {
            size_t at = i * from.image + r * from.row;
            fetch_ahead(evens + odds, dst + i * to.image + (rows + r) * to.row);
            join_row(evens, odds, even + at, odd + at, dst + i * to.image + r * to.row);
        }
    }
}

PLANES_OPS = {.add_taps = add_taps, .sum_taps = sum_taps,
                                            .copy = copy, .split = split, .join = join};

#endif
