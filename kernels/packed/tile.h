/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.h - micro-kernels and inner loops of the packed kernels, a table per instruction set
 *
 * Large products use the blocking of Goto and van de Geijn: blocks of A and B are packed into
 * panels, which a micro-kernel with mr x nr accumulators in registers (the register tile) reads
 * sequentially. A panel of A holds mr rows, element (i, k) at a[k * mr + i]; a panel of B holds nr
 * columns, element (k, j) at b[k * nr + j]. The blocking and the packing of images are portable.
 *
 * Units      floats
 * Blocking   until computed      Context  any thread
 * Source     K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008
 */
#ifndef UW_KERNELS_TILE_H
#define UW_KERNELS_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_TILE_MR_MAX 16u
#define UW_TILE_NR_MAX 32u
#define UW_TILE_STEP_ROWS 8u

/* pack_runs copies whole pieces of this many floats. It may read and write up to that many floats
 * past the last element, so source and panel have that much room at their end. */
#define UW_TILE_PIECE_N 8u

/* A piece of consecutive columns: dst is its first column, src its offset in the source. */
struct uw_piece {
    uint32_t dst, src;
};

/* A panel of B in place: element (k, j) is
 * base[at[k] + run[j / UW_TILE_PIECE_N] + j % UW_TILE_PIECE_N]. */
struct uw_runs {
    const float *base;
    const uint32_t *at;
    uint32_t run[UW_TILE_NR_MAX / UW_TILE_PIECE_N];
};

struct uw_norm_ops;
struct uw_planes_ops;
struct uw_winograd_ops;
struct uw_small_ops;

struct uw_tile {
    uint32_t mr, nr;            /* register tile */
    uint32_t mc, kc, nc;        /* cache blocks: rows of A, inner length, columns of B */
    uint32_t matrix_kc, matrix_nc;      /* kc and nc of large products */

    /* out[i][j] = init[i] + sum over k of a(i, k) * b(k, j), for i < rows <= mr, all nr columns;
     * add: out[i][j] += instead. One row of out is ldo away from the next. */
    void (*multiply)(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add);

    /* multiply with A in place: element (i, k) at a[k * step + i] (optional: NULL, A is packed) */
    void (*multiply_stored)(uint32_t rows, uint32_t k, const float *a, size_t step, const float *b,
                            const float *init, float *out, size_t ldo, bool add);

    /* out[i] += v[0] * f, i < mr * nr, `steps` times; v[0 .. 31] are equal. The sums stay in
     * registers. Measures the peak rate, an upper limit for multiply. */
    void (*multiply_add)(uint32_t steps, const float *v, float f, float *out);

    /* multiply with B in place instead of packed (optional: NULL, B is always packed) */
    void (*multiply_runs)(uint32_t rows, uint32_t k, const float *a, const struct uw_runs *b,
                          const float *init, float *out, size_t ldo, bool add);

    /* dst[k * ld + i] = alpha * src[i * stride + k], i < rows, k < n */
    void (*pack_transposed)(uint32_t rows, uint32_t n, float alpha, const float *src,
                            size_t stride, float *dst, size_t ld);

    /* dst[k * ld + j] = alpha * src[k * stride + j], j < cols, k < n */
    void (*pack_copy)(uint32_t cols, uint32_t n, float alpha, const float *src, size_t stride,
                      float *dst, size_t ld);

    /* dst[k * ld + piece.dst ...] = src[at[k] + piece.src ...], whole pieces, dst increasing */
    void (*pack_runs)(uint32_t pieces_n, const struct uw_piece *piece, uint32_t n,
                      const uint32_t *at, const float *src, float *dst, size_t ld);

    /* dots[i * 4 + j] = sum over k of x[i * ldx + k] * w[j * ldw + k], i < rows <= 3, j < 4 */
    void (*dots)(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw,
                 float *dots);

    /* y[j] += sum over i < rows of coef[i] * x[i * stride + j], j < n */
    void (*add_rows)(uint32_t rows, size_t n, const float *coef, const float *x, size_t stride,
                     float *y);

    const struct uw_planes_ops *planes;     /* planes_tile.h */
    /* Input gradient and weight update of one sample for rows <= UW_TILE_STEP_ROWS rows of weights:
     * dx[j] += sum over i < rows of dy[i] * w[i][j] (dx NULL: skipped), then
     * w[i][j] = keep * w[i][j] + coef[i] * x[j], j < n. Rounds as separate calls of add_rows. */
    void (*step_rows)(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                      const float *x, float *const *w, float *dx);

    /* small.h (optional: NULL, never chosen); small_narrow has fewer lanes, or is the same */
    const struct uw_small_ops *small, *small_narrow;
    const struct uw_norm_ops *norm;         /* input_norm.h (optional: NULL, never chosen) */
    const struct uw_winograd_ops *winograd; /* winograd_tile.h (optional: NULL, never chosen) */
};

/* Each exists only in builds for its instruction set. */
extern const struct uw_tile uw_tile_fpu, uw_tile_neon, uw_tile_helium, uw_tile_avx2, uw_tile_avx512;

#endif
