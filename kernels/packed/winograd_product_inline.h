/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_product_inline.h - the products of struct uw_winograd_ops for any instruction set
 *
 * Included after tile_inline.h. The including file defines:
 *
 *   EACH_ROWS                    ROWS(1) ROWS(2) .. ROWS(MR - 1)
 */
#ifndef UW_KERNELS_WINOGRAD_PRODUCT_INLINE_H
#define UW_KERNELS_WINOGRAD_PRODUCT_INLINE_H

#include "packed/tile_inline.h"
#include "packed/winograd_tile.h"

#define LANES UW_WINOGRAD_LANES

/* Add the products of one inner index to the accumulators; rows of A are `next` floats apart. */
static inline __attribute__((always_inline)) void add_products(
    uint32_t rows, uint32_t vecs, vec (*s)[TILE_VECS], const float *a, size_t next,
    const float *b)
{
    vec row[TILE_VECS];
    UNROLLED (uint32_t v = 0; v < vecs; v++) {
        row[v] = vec_load(b + v * VEC_N);
    }
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < vecs; v++) {
            s[i][v] = vec_add_scaled(s[i][v], row[v], a[i * next]);
        }
    }
}

static inline __attribute__((always_inline)) void clear_sums(uint32_t rows, uint32_t vecs,
                                                             vec (*s)[TILE_VECS])
{
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < vecs; v++) {
            s[i][v] = vec_all(0.0f);
        }
    }
}

/* struct uw_winograd_ops's multiply with compile-time numbers of rows and registers. */
static inline __attribute__((always_inline)) void multiply_lanes_rows(
    uint32_t rows, uint32_t vecs, uint32_t k, const float *a, const float *b, float *out,
    size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    clear_sums(rows, vecs, s);
    while (k > 0) {
        uint32_t n = k < LANES ? k : LANES;
        for (uint32_t p = 0; p < n; p++) {
            add_products(rows, vecs, s, a + p, LANES, b);
            b += NR;
        }
        a += MR * LANES;
        k -= n;
    }
    store_rows(rows, vecs, s, out, ldo, add);
}

static inline __attribute__((always_inline)) void multiply_columns_rows(
    uint32_t rows, uint32_t vecs, uint32_t k, const float *a, size_t lda, const float *b,
    size_t ldb, float *out, size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    clear_sums(rows, vecs, s);
    for (uint32_t p = 0; p < k; p++) {
        add_products(rows, vecs, s, a, 1, b);
        a += lda;
        b += ldb;
    }
    store_rows(rows, vecs, s, out, ldo, add);
}

/* A panel with few columns uses only half of the accumulator registers. */
#define HALF_VECS (TILE_VECS / 2)

static void multiply_lanes(uint32_t rows, uint32_t cols, uint32_t k, const float *a,
                           const float *b, float *out, size_t ldo, bool add)
{
    if (cols <= HALF_VECS * VEC_N) {
        switch (rows) {
#define ROWS(r) case r: multiply_lanes_rows(r, HALF_VECS, k, a, b, out, ldo, add); break;
        EACH_ROWS
#undef ROWS
        default: multiply_lanes_rows(MR, HALF_VECS, k, a, b, out, ldo, add); break;
        }
        return;
    }
    switch (rows) {
#define ROWS(r) case r: multiply_lanes_rows(r, TILE_VECS, k, a, b, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_lanes_rows(MR, TILE_VECS, k, a, b, out, ldo, add); break;
    }
}

static void multiply_columns(uint32_t rows, uint32_t cols, uint32_t k, const float *a, size_t lda,
                             const float *b, size_t ldb, float *out, size_t ldo, bool add)
{
#define CALL(r, vecs) multiply_columns_rows(r, vecs, k, a, lda, b, ldb, out, ldo, add)
    if (cols <= HALF_VECS * VEC_N) {
        switch (rows) {
#define ROWS(r) case r: CALL(r, HALF_VECS); break;
        EACH_ROWS
#undef ROWS
        default: CALL(MR, HALF_VECS); break;
        }
        return;
    }
    switch (rows) {
#define ROWS(r) case r: CALL(r, TILE_VECS); break;
    EACH_ROWS
#undef ROWS
    default: CALL(MR, TILE_VECS); break;
    }
#undef CALL
}

#endif
