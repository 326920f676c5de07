/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_inline.h - the micro-kernel for any instruction set
 *
 * Included by the file of each instruction set and compiled with that file's flags. Contracts in
 * tile.h. The including file defines:
 *
 *   MR, NR                       the register tile
 *   VEC_N                        floats in a register; NR is a multiple of it
 *   vec                          a register
 *   vec_all(f)                   f in every element
 *   vec_load(p), vec_store(p, v) from and to memory, not aligned
 *   vec_add(a, b)                a + b
 *   vec_add_scaled(s, v, f)      s + v * f, rounded once
 *   vec_copy(dst, src, n, f)     dst[i] = f * src[i], i < n; n from 1 to VEC_N
 */
#ifndef UW_KERNELS_TILE_INLINE_H
#define UW_KERNELS_TILE_INLINE_H

#include "packed/tile.h"

#include <string.h>

#define TILE_VECS (NR / VEC_N)
#define CACHE_LINE_N 16u        /* floats in a line of most processors */

/* A loop over rows or registers with a compile-time count: unrolled, accumulators stay in
 * registers. */
#define UNROLLED _Pragma("GCC unroll 16") for

/* Prefetch the output rows while the sums are computed. */
static inline __attribute__((always_inline)) void expect_rows(uint32_t rows, const float *out,
                                                              size_t ldo)
{
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t j = 0; j < NR; j += CACHE_LINE_N) {
            __builtin_prefetch(out + i * ldo + j);
        }
    }
}

static inline __attribute__((always_inline)) void store_rows(
    uint32_t rows, uint32_t vecs, vec (*s)[TILE_VECS], float *out, size_t ldo, bool add)
{
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        float *row = out + i * ldo;
        if (add) {
            UNROLLED (uint32_t v = 0; v < vecs; v++) {
                s[i][v] = vec_add(s[i][v], vec_load(row + v * VEC_N));
            }
        }
        UNROLLED (uint32_t v = 0; v < vecs; v++) {
            vec_store(row + v * VEC_N, s[i][v]);
        }
    }
}

/* struct uw_tile's multiply_stored with a compile-time number of rows. */
static inline __attribute__((always_inline)) void multiply_stored_rows(
    uint32_t rows, uint32_t k, const float *a, size_t step, const float *b, const float *init,
    float *out, size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    expect_rows(rows, out, ldo);
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
            s[i][v] = vec_all(init[i]);
        }
    }
    for (uint32_t p = 0; p < k; p++) {
        vec row[TILE_VECS];
        UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
            row[v] = vec_load(b + v * VEC_N);
        }
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
                s[i][v] = vec_add_scaled(s[i][v], row[v], a[i]);
            }
        }
        a += step;
        b += NR;
    }
    store_rows(rows, TILE_VECS, s, out, ldo, add);
}

/* struct uw_tile's multiply with a compile-time number of rows. */
static inline __attribute__((always_inline)) void multiply_rows(
    uint32_t rows, uint32_t k, const float *a, const float *b, const float *init, float *out,
    size_t ldo, bool add)
{
    multiply_stored_rows(rows, k, a, MR, b, init, out, ldo, add);
}

static void multiply_add(uint32_t steps, const float *v, float f, float *out)
{
    vec s[MR][TILE_VECS];
    const vec row = vec_load(v);
    UNROLLED (uint32_t i = 0; i < MR; i++) {
        UNROLLED (uint32_t j = 0; j < TILE_VECS; j++) {
            s[i][j] = vec_load(out + i * NR + j * VEC_N);
        }
    }
    for (uint32_t p = 0; p < steps; p++) {
        UNROLLED (uint32_t i = 0; i < MR; i++) {
            UNROLLED (uint32_t j = 0; j < TILE_VECS; j++) {
                s[i][j] = vec_add_scaled(s[i][j], row, f);
            }
        }
    }
    store_rows(MR, TILE_VECS, s, out, NR, false);
}

static inline __attribute__((always_inline)) void pack_columns(
    uint32_t cols, uint32_t n, float alpha, const float *src, size_t stride, float *dst, size_t ld)
{
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t j = 0; j < cols; j += VEC_N) {
            vec_copy(dst + j, src + j, cols - j < VEC_N ? cols - j : VEC_N, alpha);
        }
        src += stride;
        dst += ld;
    }
}

/* The two common panel widths are compile-time constants. */
static void pack_copy(uint32_t cols, uint32_t n, float alpha, const float *src, size_t stride,
                      float *dst, size_t ld)
{
    if (cols == NR) {
        pack_columns(NR, n, alpha, src, stride, dst, ld);
    } else if (cols == MR) {
        pack_columns(MR, n, alpha, src, stride, dst, ld);
    } else {
        pack_columns(cols, n, alpha, src, stride, dst, ld);
    }
}

static void pack_runs(uint32_t pieces_n, const struct uw_piece *piece, uint32_t n,
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
