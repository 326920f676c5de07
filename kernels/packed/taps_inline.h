/* SPDX-License-Identifier: Apache-2.0
 *
 * taps_inline.h - struct uw_tile's add_taps and sum_taps for any instruction set
 *
 * Included after vector_inline.h, and asks for what that asks for.
 */
#ifndef UW_KERNELS_TAPS_INLINE_H
#define UW_KERNELS_TAPS_INLINE_H

#include "packed/vector_inline.h"

#define EACH_TAPS                                                                                 \
    TAPS(1) TAPS(2) TAPS(3) TAPS(4) TAPS(5) TAPS(6) TAPS(7) TAPS(8)

/* add_taps for a number of taps that is known to the compiler: their coefficients stay in
 * registers. Two vectors at a time hide the latency of the additions. */
static inline __attribute__((always_inline)) void add_taps_of(
    uint32_t taps, size_t n, const float *coef, const uint32_t *at, const float *x, float init,
    float *y, bool add)
{
    vec c[UW_TILE_TAPS];
    const float *from[UW_TILE_TAPS];
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        c[t] = vec_all(coef[t]);
        from[t] = x + at[t];
    }
    for (size_t j = 0; j < n; j += 2 * VEC_N) {
        vec a = vec_all(init), b = a;
        if (add) {
            a = vec_load(y + j);
            b = vec_load(y + j + VEC_N);
        }
        UNROLLED (uint32_t t = 0; t < taps; t++) {
            a = vec_mul_add(a, c[t], vec_load(from[t] + j));
            b = vec_mul_add(b, c[t], vec_load(from[t] + j + VEC_N));
        }
        vec_store(y + j, a);
        vec_store(y + j + VEC_N, b);
    }
}

static inline void add_taps(uint32_t taps, size_t n, const float *coef, const uint32_t *at,
                            const float *x, float init, float *y, bool add)
{
    switch (taps) {
#define TAPS(t) case t: add_taps_of(t, n, coef, at, x, init, y, add); break;
    EACH_TAPS
#undef TAPS
    default: add_taps_of(UW_TILE_TAPS, n, coef, at, x, init, y, add); break;
    }
}

/* sum_taps likewise; one register of sums a tap. */
static inline __attribute__((always_inline)) void sum_taps_of(
    uint32_t taps, size_t n, const float *y, const float *x, const uint32_t *at, float *sums)
{
    vec s[UW_TILE_TAPS];
    const float *from[UW_TILE_TAPS];
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        s[t] = vec_all(0.0f);
        from[t] = x + at[t];
    }
    for (size_t j = 0; j < n; j += VEC_N) {
        vec d = vec_load(y + j);
        UNROLLED (uint32_t t = 0; t < taps; t++) {
            s[t] = vec_mul_add(s[t], d, vec_load(from[t] + j));
        }
    }
    UNROLLED (uint32_t t = 0; t < taps; t++) {
        sums[t] += vec_sum(s[t]);
    }
}

static inline void sum_taps(uint32_t taps, size_t n, const float *y, const float *x,
                            const uint32_t *at, float *sums)
{
    switch (taps) {
#define TAPS(t) case t: sum_taps_of(t, n, y, x, at, sums); break;
    EACH_TAPS
#undef TAPS
    default: sum_taps_of(UW_TILE_TAPS, n, y, x, at, sums); break;
    }
}

#endif
