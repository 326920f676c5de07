/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.h - what an instruction set gives to the packed kernels
 *
 * Every large product runs as Goto and van de Geijn describe: blocks of A and B are copied into
 * panels that a register tile of mr x nr sums walks through without a stride. A panel of A holds
 * mr rows, element (i, k) at a[k * mr + i]; a panel of B holds nr columns, element (k, j) at
 * b[k * nr + j]. The driver and the packing of images are portable; the inner loops are here.
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

/* pack_runs writes whole pieces of this many floats: up to that many beyond the last element are
 * read from the source and written to the panel. Both have that much room at their end. */
#define UW_TILE_PIECE_N 8u

/* One run of consecutive columns, cut into pieces: dst is the column, src where it starts. */
struct uw_piece {
    uint32_t dst, src;
};

/* Columns of B read where they lie: element (k, j) is
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
    uint32_t matrix_kc, matrix_nc;      /* the same of products that are not small */

    /* out[i][j] = init[i] + sum over k of a(i, k) * b(k, j), for i < rows <= mr, all nr columns;
     * add: out[i][j] += instead. One row of out is ldo away from the next. */
    void (*multiply)(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add);

    /* out[i] += v[0] * f, i < mr * nr, `steps` times; v[0 .. 31] are alike. The sums stay in
     * registers: the speed that no multiply can pass */
    void (*multiply_add)(uint32_t steps, const float *v, float f, float *out);

    /* multiply without a panel of B (optional: NULL when B is always packed) */
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
    /* A sample's step for some rows of weights, at most UW_TILE_STEP_ROWS: dx[j] += sum over
     * i < rows of dy[i] * w[i][j], then w[i][j] = keep * w[i][j] + coef[i] * x[j], j < n; dx NULL:
     * not wanted. Rounds as add_rows does for the two one after the other. */
    void (*step_rows)(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                      const float *x, float *const *w, float *dx);

    /* small.h (optional: NULL, never chosen), and a version of fewer lanes, or the same */
    const struct uw_small_ops *small, *small_narrow;
    const struct uw_norm_ops *norm;         /* input_norm.h (optional: NULL, never chosen) */
    const struct uw_winograd_ops *winograd; /* winograd_tile.h (optional: NULL, never chosen) */
};

/* In builds for processors that have them: a scalar FPU, NEON, Helium, AVX2, AVX-512. */
extern const struct uw_tile uw_tile_fpu, uw_tile_neon, uw_tile_helium, uw_tile_avx2, uw_tile_avx512;

#endif
