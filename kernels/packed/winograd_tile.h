/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_tile.h - transforms and products of winograd.h, one table per instruction set
 *
 * F(out x out, kernel x kernel): a tile is `in` x `in` elements of an image and `out` x `out` of
 * the result, in = out + kernel - 1. Transforms work on UW_WINOGRAD_LANES channels at once, stored
 * as [pixel][lane], so that they need no shuffles. The in * in positions of a transformed tile are
 * `plane` floats apart. winograd_points_inline.h has the matrices A, B and G.
 *
 * Units      floats
 * Blocking   until computed      Context  any thread
 * Source     A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016
 */
#ifndef UW_KERNELS_WINOGRAD_TILE_H
#define UW_KERNELS_WINOGRAD_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_WINOGRAD_LANES 16u
#define UW_WINOGRAD_POSITIONS_MAX 36u
#define UW_WINOGRAD_TAPS_MAX 25u

struct uw_winograd_kind {
    uint32_t out, kernel, in;

    /* v = B^T d B for `tiles` adjacent tiles. Tile t begins at pixel out * t of d, whose rows are
     * `pitch` apart; its result is at v + t * step. */
    void (*input)(uint32_t tiles, const float *d, size_t pitch, float *v, size_t step,
                  size_t plane);

    /* v = A y A^T, the same for tiles of out x out pixels */
    void (*spread)(uint32_t tiles, const float *y, size_t pitch, float *v, size_t step,
                   size_t plane);

    /* y = A^T m A + bias[lane], from m + t * step to pixels out * t .. of `out` rows */
    void (*output)(uint32_t tiles, const float *m, size_t step, size_t plane, const float *bias,
                   float *y, size_t pitch);

    /* u = G g G^T for nr lanes, taps g[kernel * kernel][nr]; mirror: taps in reverse order */
    void (*weights)(const float *g, bool mirror, float *u, size_t plane);

    /* g = G^T m G for UW_WINOGRAD_LANES lanes, taps g[kernel * kernel][UW_WINOGRAD_LANES] */
    void (*taps)(const float *m, size_t plane, float *g);
};

struct uw_winograd_ops {
    const struct uw_winograd_kind *f2x3, *f4x3, *f2x5;  /* F(2 x 2, 3 x 3) and so on */

    /* out[i][j] (+)= sum over k of a(i, k) * b[k * nr + j], i < rows <= mr, j < cols <= nr; all
     * nr columns may be read and written; a(i, k) is
     * a[k / lanes * lanes * mr + i * lanes + k % lanes] */
    void (*multiply)(uint32_t rows, uint32_t cols, uint32_t k, const float *a, const float *b,
                     float *out, size_t ldo, bool add);

    /* The same with a[k * lda + i] * b[k * ldb + j]. */
    void (*multiply_columns)(uint32_t rows, uint32_t cols, uint32_t k, const float *a, size_t lda,
                             const float *b, size_t ldb, float *out, size_t ldo, bool add);
};

static inline uint32_t uw_winograd_positions(const struct uw_winograd_kind *k)
{
    return k->in * k->in;
}

#endif
