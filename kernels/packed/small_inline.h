/* SPDX-License-Identifier: Apache-2.0
 *
 * small_inline.h - struct uw_small_ops for any instruction set
 *
 * Included after tile_inline.h. */
#ifndef UW_KERNELS_SMALL_INLINE_H
#define UW_KERNELS_SMALL_INLINE_H

#include "packed/small.h"
#include "packed/tile_inline.h"

/* multiply for a number of rows that is known to the compiler. */
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

#endif
