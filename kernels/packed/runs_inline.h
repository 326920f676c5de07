/* SPDX-License-Identifier: Apache-2.0
 *
 * runs_inline.h - struct uw_tile's multiply_runs for any instruction set
 *
 * Included after tile_inline.h. The including file defines:
 *
 *   vec_load_runs(p, run, joined)
 *                                a register from VEC_N / UW_TILE_PIECE_N pieces at p + run[0],
 *                                p + run[1], ..; joined: they are consecutive
 */
#ifndef UW_KERNELS_RUNS_INLINE_H
#define UW_KERNELS_RUNS_INLINE_H

#include "packed/tile_inline.h"

/* multiply_runs with rows and joined as compile-time constants. */
static inline __attribute__((always_inline)) void multiply_runs_rows(
    uint32_t rows, bool joined, uint32_t k, const float *a, const struct uw_runs *b,
    const float *init, float *out, size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    uint32_t run[NR / UW_TILE_PIECE_N];
    memcpy(run, b->run, sizeof run);
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
            s[i][v] = vec_all(init[i]);
        }
    }
    for (uint32_t p = 0; p < k; p++) {
        const float *from = b->base + b->at[p];
        vec row[TILE_VECS];
        UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
            row[v] = vec_load_runs(from, run + v * (VEC_N / UW_TILE_PIECE_N), joined);
        }
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            UNROLLED (uint32_t v = 0; v < TILE_VECS; v++) {
                s[i][v] = vec_add_scaled(s[i][v], row[v], a[i]);
            }
        }
        a += MR;
    }
    store_rows(rows, TILE_VECS, s, out, ldo, add);
}

#endif
