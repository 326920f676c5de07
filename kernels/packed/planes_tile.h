/* SPDX-License-Identifier: Apache-2.0
 *
 * planes_tile.h - inner loops of direct.h, one implementation per instruction set
 *
 * Units      floats
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_PLANES_TILE_H
#define UW_KERNELS_PLANES_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most taps of a call; n is a multiple of UW_PLANES_RUN_N. */
#define UW_PLANES_TAPS 9u
#define UW_PLANES_RUN_N 16u

/* Rows of images: row r of image i is at i * image + r * row. */
struct uw_rows {
    size_t image, row;
};

struct uw_planes_ops {
    /* y[j] = init + sum over t < taps of coef[t] * x[at[t] + j], j < n; add: y[j] += the sum. */
    void (*add_taps)(uint32_t taps, size_t n, const float *coef, const uint32_t *at,
                     const float *x, float init, float *y, bool add);

    /* sums[t] += sum over j < n of y[j] * x[at[t] + j], t < taps */
    void (*sum_taps)(uint32_t taps, size_t n, const float *y, const float *x, const uint32_t *at,
                     float *sums);

    /* Copy rows of cols floats. */
    void (*copy)(uint32_t images, size_t rows, size_t cols, const float *src, struct uw_rows from,
                 float *dst, struct uw_rows to);

    /* even[j] = src[2 * j], j < evens, and odd[j] = src[2 * j + 1], j < odds, of each row. */
    void (*split)(uint32_t images, size_t rows, size_t evens, size_t odds, const float *src,
                  struct uw_rows from, float *even, float *odd, struct uw_rows to);

    /* The inverse of split. */
    void (*join)(uint32_t images, size_t rows, size_t evens, size_t odds, const float *even,
                 const float *odd, struct uw_rows from, float *dst, struct uw_rows to);
};

#endif
