/* SPDX-License-Identifier: Apache-2.0
 *
 * small_inline.h - struct uw_small_ops for any instruction set
 *
 * Included after tile_inline.h. */
#ifndef UW_KERNELS_SMALL_INLINE_H
#define UW_KERNELS_SMALL_INLINE_H

#include "packed/small.h"
#include "packed/tile_inline.h"

/* multiply with a compile-time number of rows. */
static inline __attribute__((always_inline)) void small_rows(
    uint32_t rows, uint32_t n, const struct uw_small_sides *s, const float *init, float *out,
    size_t ldo)
{
    vec sum[UW_SMALL_ROWS];
    const float *a[UW_SMALL_ROWS];
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        a[i] = s->a + s->row[i];
        sum[i] = init != NULL ? vec_all(init[i]) : vec_load(out + i * ldo);
    }
    const float *b = s->b;
    for (const struct uw_small_at *at = s->at, *end = at + n; at < end; at++) {
        vec lanes = vec_load(b + at->b);
        uint32_t k = at->a;
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            sum[i] = vec_add_scaled(sum[i], lanes, a[i][k]);
        }
    }
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        vec_store(out + i * ldo, sum[i]);
    }
}

static void small_multiply(uint32_t rows, uint32_t n, const struct uw_small_sides *s,
                           const float *init, float *out, size_t ldo)
{
    switch (rows) {
#define ROWS(r) case r: small_rows(r, n, s, init, out, ldo); break;
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)
#undef ROWS
    default: small_rows(UW_SMALL_ROWS, n, s, init, out, ldo); break;
    }
}

/* add_terms with compile-time numbers of rows and registers. */
static inline __attribute__((always_inline)) void small_terms(
    uint32_t rows, uint32_t vecs, const struct uw_small_terms *t, const float *b, size_t ldb,
    bool add, float *out, size_t ldo)
{
    vec sum[UW_SMALL_TERM_SUMS];
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < vecs; v++) {
            sum[i * vecs + v] = add ? vec_load(out + i * ldo + v * VEC_N) : vec_all(0.0f);
        }
    }
    for (uint32_t k = 0; k < t->n; k++) {
        const float *from = b + t->at[k];
        float f = t->value[k];
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            UNROLLED (uint32_t v = 0; v < vecs; v++) {
                sum[i * vecs + v] = vec_add_scaled(sum[i * vecs + v],
                                                   vec_load(from + i * ldb + v * VEC_N), f);
            }
        }
    }
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < vecs; v++) {
            vec_store(out + i * ldo + v * VEC_N, sum[i * vecs + v]);
        }
    }
}

static void small_add_terms(uint32_t rows, uint32_t vecs, const struct uw_small_terms *t,
                            const float *b, size_t ldb, bool add, float *out, size_t ldo)
{
    switch (vecs * 8 + rows) {
#define SUMS(v, r) case v * 8 + r: small_terms(r, v, t, b, ldb, add, out, ldo); break;
    SUMS(1, 1) SUMS(1, 2) SUMS(1, 3) SUMS(1, 4) SUMS(1, 5)
    SUMS(2, 1) SUMS(2, 2) SUMS(2, 3) SUMS(2, 4) SUMS(2, 5)
    SUMS(3, 1) SUMS(3, 2) SUMS(3, 3) SUMS(3, 4) SUMS(3, 5)
    SUMS(4, 1) SUMS(4, 2) SUMS(4, 3)
    SUMS(5, 1) SUMS(5, 2) SUMS(5, 3)
    SUMS(6, 1) SUMS(6, 2)
    SUMS(7, 1) SUMS(7, 2)
#undef SUMS
    default: break;
    }
}

#endif
