/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile of 8 x 12: accumulators in twenty-four of the thirty-two registers, three for a row
 * of B, two for eight elements of A, which the multiply-add selects by lane. */
#include "packed/input_norm.h"

#include <arm_neon.h>

#define MR 8u
#define NR 12u
#define VEC_N 4u
#define STEP_ROWS 4u
#define EACH_ROWS ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)

#include "arm/vector_arm_inline.h"

static inline float vec_sum(vec v)
{
    return vaddvq_f32(v);
}

static inline void vec_copy(float *dst, const float *src, uint32_t n, float f)
{
    if (n == 4) {
        vst1q_f32(dst, vmulq_n_f32(vld1q_f32(src), f));
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        dst[i] = f * src[i];
    }
}

static inline void pack_4x4(float alpha, const float *src, size_t stride, float *dst, size_t ld)
{
    float32x4_t r0 = vmulq_n_f32(vld1q_f32(src), alpha);
    float32x4_t r1 = vmulq_n_f32(vld1q_f32(src + stride), alpha);
    float32x4_t r2 = vmulq_n_f32(vld1q_f32(src + 2 * stride), alpha);
    float32x4_t r3 = vmulq_n_f32(vld1q_f32(src + 3 * stride), alpha);
    float32x4x2_t t01 = vtrnq_f32(r0, r1), t23 = vtrnq_f32(r2, r3);
    vst1q_f32(dst, vcombine_f32(vget_low_f32(t01.val[0]), vget_low_f32(t23.val[0])));
    vst1q_f32(dst + ld, vcombine_f32(vget_low_f32(t01.val[1]), vget_low_f32(t23.val[1])));
    vst1q_f32(dst + 2 * ld, vcombine_f32(vget_high_f32(t01.val[0]), vget_high_f32(t23.val[0])));
    vst1q_f32(dst + 3 * ld, vcombine_f32(vget_high_f32(t01.val[1]), vget_high_f32(t23.val[1])));
}

static inline vec vec_evens(vec a, vec b)
{
    return vuzp1q_f32(a, b);
}

static inline vec vec_odds(vec a, vec b)
{
    return vuzp2q_f32(a, b);
}

static inline void vec_zip(vec a, vec b, vec *lo, vec *hi)
{
    *lo = vzip1q_f32(a, b);
    *hi = vzip2q_f32(a, b);
}

static inline void split_4(const float *src, float *even, float *odd)
{
    float32x4x2_t v = vld2q_f32(src);
    vst1q_f32(even, v.val[0]);
    vst1q_f32(odd, v.val[1]);
}

static inline void join_4(const float *even, const float *odd, float *dst)
{
    vst2q_f32(dst, (float32x4x2_t){{vld1q_f32(even), vld1q_f32(odd)}});
}

#define PLANES_OPS static const struct uw_planes_ops planes

#include "packed/vector_inline.h"
#include "packed/planes_inline.h"
#include "packed/step_inline.h"
#include "packed/winograd_inline.h"

/* All eight rows, with A in two registers. k is unrolled by two to reduce loop overhead: on an
 * in-order core every instruction costs time. */
static void multiply_all(uint32_t k, const float *a, const float *b, const float *init, float *out,
                         size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    expect_rows(MR, out, ldo);
    UNROLLED (uint32_t i = 0; i < MR; i++) {
        s[i][0] = s[i][1] = s[i][2] = vec_all(init[i]);
    }
#define COLUMN(j)                                                                                 \
    do {                                                                                          \
        float32x4_t bj = vld1q_f32(b + 4 * (j));                                                  \
        s[0][j] = vfmaq_laneq_f32(s[0][j], bj, a0, 0);                                            \
        s[1][j] = vfmaq_laneq_f32(s[1][j], bj, a0, 1);                                            \
        s[2][j] = vfmaq_laneq_f32(s[2][j], bj, a0, 2);                                            \
        s[3][j] = vfmaq_laneq_f32(s[3][j], bj, a0, 3);                                            \
        s[4][j] = vfmaq_laneq_f32(s[4][j], bj, a1, 0);                                            \
        s[5][j] = vfmaq_laneq_f32(s[5][j], bj, a1, 1);                                            \
        s[6][j] = vfmaq_laneq_f32(s[6][j], bj, a1, 2);                                            \
        s[7][j] = vfmaq_laneq_f32(s[7][j], bj, a1, 3);                                            \
    } while (0)
#define STEP                                                                                      \
    do {                                                                                          \
        float32x4_t a0 = vld1q_f32(a), a1 = vld1q_f32(a + 4);                                     \
        COLUMN(0);                                                                                \
        COLUMN(1);                                                                                \
        COLUMN(2);                                                                                \
        a += MR;                                                                                  \
        b += NR;                                                                                  \
    } while (0)
    for (uint32_t twos = k / 2; twos > 0; twos--) {
        STEP;
        STEP;
    }
    if (k % 2 != 0) {
        STEP;
    }
#undef STEP
#undef COLUMN
    store_rows(MR, TILE_VECS, s, out, ldo, add);
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_rows(r, k, a, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_all(k, a, b, init, out, ldo, add); break;
    }
}

const struct uw_tile uw_tile_neon = {
    .mr = MR, .nr = NR, .mc = 96, .kc = 256, .nc = 240, .matrix_kc = 256, .matrix_nc = 240,
    PLAIN_ENTRIES,
    .winograd = &winograd,
};
