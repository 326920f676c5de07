/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile for a scalar FPU (Cortex-M4F, Cortex-M7): 4 x 4 accumulators in sixteen of its
 * thirty-two single precision registers, four for a row of B, the others for A. Plain C, where fmaf
 * is one instruction. */
#include "packed/input_norm.h"

#include <math.h>

#define MR 4u
#define NR 4u
#define VEC_N 1u
#define STEP_ROWS 4u

typedef float vec;

static inline vec vec_all(float f)
{
    return f;
}

static inline vec vec_load(const float *p)
{
    return *p;
}

static inline void vec_store(float *p, vec v)
{
    *p = v;
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

static inline vec vec_mul(vec a, vec b)
{
    return a * b;
}

static inline vec vec_mul_add(vec s, vec a, vec b)
{
    return fmaf(a, b, s);
}

static inline vec vec_add_scaled(vec s, vec v, float f)
{
    return fmaf(f, v, s);
}

static inline float vec_sum(vec v)
{
    return v;
}

static inline void vec_copy(float *dst, const float *src, uint32_t n, float f)
{
    (void)n; /* a register is one element */
    *dst = f * *src;
}

static inline vec vec_evens(vec a, vec b)
{
    (void)b;
    return a;
}

static inline vec vec_odds(vec a, vec b)
{
    (void)a;
    return b;
}

static inline void vec_zip(vec a, vec b, vec *lo, vec *hi)
{
    *lo = a;
    *hi = b;
}

static inline void split_4(const float *src, float *even, float *odd)
{
    for (uint32_t i = 0; i < 4; i++) {
        even[i] = src[2 * i];
        odd[i] = src[2 * i + 1];
    }
}

static inline void join_4(const float *even, const float *odd, float *dst)
{
    for (uint32_t i = 0; i < 4; i++) {
        dst[2 * i] = even[i];
        dst[2 * i + 1] = odd[i];
    }
}

static inline void pack_4x4(float alpha, const float *src, size_t stride, float *dst, size_t ld)
{
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            dst[k * ld + i] = alpha * src[i * stride + k];
        }
    }
}

#define PLANES_OPS static const struct uw_planes_ops planes

#include "packed/planes_inline.h"
#include "packed/step_inline.h"
#include "packed/vector_inline.h"

/* All four rows; k unrolled by eight to reduce loop overhead. */
static void multiply_all(uint32_t k, const float *a, const float *b, const float *init, float *out,
                         size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    UNROLLED (uint32_t i = 0; i < MR; i++) {
        UNROLLED (uint32_t j = 0; j < NR; j++) {
            s[i][j] = init[i];
        }
    }
#define ROW(i)                                                                                    \
    do {                                                                                          \
        const float ai = a[i];                                                                    \
        s[i][0] = fmaf(ai, b0, s[i][0]);                                                          \
        s[i][1] = fmaf(ai, b1, s[i][1]);                                                          \
        s[i][2] = fmaf(ai, b2, s[i][2]);                                                          \
        s[i][3] = fmaf(ai, b3, s[i][3]);                                                          \
    } while (0)
#define STEP                                                                                      \
    do {                                                                                          \
        const float b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];                                   \
        ROW(0);                                                                                   \
        ROW(1);                                                                                   \
        ROW(2);                                                                                   \
        ROW(3);                                                                                   \
        a += MR;                                                                                  \
        b += NR;                                                                                  \
    } while (0)
    for (uint32_t eights = k / 8; eights > 0; eights--) {
        STEP; STEP; STEP; STEP;
        STEP; STEP; STEP; STEP;
    }
    for (uint32_t rest = k % 8; rest > 0; rest--) {
        STEP;
    }
#undef ROW
#undef STEP
    store_rows(MR, TILE_VECS, s, out, ldo, add);
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
    case 1: multiply_rows(1, k, a, b, init, out, ldo, add); break;
    case 2: multiply_rows(2, k, a, b, init, out, ldo, add); break;
    case 3: multiply_rows(3, k, a, b, init, out, ldo, add); break;
    default: multiply_all(k, a, b, init, out, ldo, add); break;
    }
}

/* Small blocks, 4 KiB of A and 4 KiB of B, to leave a board's memory to the model. */
const struct uw_tile uw_tile_fpu = {
    .mr = MR, .nr = NR, .mc = 16, .kc = 64, .nc = 16, .matrix_kc = 64, .matrix_nc = 16,
    PLAIN_ENTRIES,
};
