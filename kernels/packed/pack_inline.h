/* SPDX-License-Identifier: Apache-2.0
 *
 * pack_inline.h - plain loops behind some entries of struct uw_tile
 *
 * Included by the file of each instruction set, so that the compiler vectorises them with that
 * file's flags. Contracts in tile.h. */
#ifndef UW_KERNELS_PACK_INLINE_H
#define UW_KERNELS_PACK_INLINE_H

#include "packed/tile.h"

#include <string.h>

static inline void pack_copy_inline(uint32_t cols, uint32_t n, float alpha, const float *src,
                                    size_t stride, float *dst, size_t ld)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t j = 0;
        for (; j + 8 <= cols; j += 8) {
            for (uint32_t i = 0; i < 8; i++) {
                dst[j + i] = alpha * src[j + i];
            }
        }
        for (; j < cols; j++) {
            dst[j] = alpha * src[j];
        }
        src += stride;
        dst += ld;
    }
}

static inline void pack_transposed_inline(uint32_t rows, uint32_t n, float alpha,
                                          const float *src, size_t stride, float *dst, size_t ld)
{
    for (uint32_t i = 0; i < rows; i++) {
        const float *row = src + i * stride;
        for (uint32_t k = 0; k < n; k++) {
            dst[k * ld + i] = alpha * row[k];
        }
    }
}

static inline void pack_runs_inline(uint32_t pieces_n, const struct uw_piece *piece, uint32_t n,
                                    const uint32_t *at, const float *src, float *dst, size_t ld)
{
    for (uint32_t k = 0; k < n; k++) {
        const float *from = src + at[k];
        for (uint32_t p = 0; p < pieces_n; p++) {
            memcpy(dst + piece[p].dst, from + piece[p].src, UW_TILE_PIECE_N * sizeof(float));
        }
        dst += ld;
    }
}

#endif
