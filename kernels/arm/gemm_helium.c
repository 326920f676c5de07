/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile of 6 x 4: accumulators in six of the eight registers, one for a row of B. The
 * multiply-add takes the element of A from a general register. Vector instructions flush subnormal
 * numbers to zero. */
#include "packed/input_norm.h"

#include <arm_mve.h>

#define MR 6u
#define NR 4u
#define VEC_N 4u
#define STEP_ROWS 4u

#include "arm/vector_arm_inline.h"

static inline float vec_sum(vec v)
{
    return (vgetq_lane_f32(v, 0) + vgetq_lane_f32(v, 1)) +
           (vgetq_lane_f32(v, 2) + vgetq_lane_f32(v, 3));
}

static inline void vec_copy(float *dst, const float *src, uint32_t n, float f)
{
    mve_pred16_t some = vctp32q(n);
    vstrwq_p_f32(dst, vmulq_n_f32(vldrwq_z_f32(src, some), f), some);
}

static inline vec vec_evens(vec a, vec b)
{
    float both[2 * VEC_N];
    vec_store(both, a);
    vec_store(both + VEC_N, b);
    return vld2q_f32(both).val[0];
}

static inline vec vec_odds(vec a, vec b)
{
    float both[2 * VEC_N];
    vec_store(both, a);
    vec_store(both + VEC_N, b);
    return vld2q_f32(both).val[1];
}

static inline void vec_zip(vec a, vec b, vec *lo, vec *hi)
{
    float both[2 * VEC_N];
    const float32x4x2_t halves = {{a, b}};
    vst2q_f32(both, halves);
    *lo = vec_load(both);
    *hi = vec_load(both + VEC_N);
}

static inline void split_4(const float *src, float *even, float *odd)
{
    float32x4x2_t v = vld2q_f32(src);
    vec_store(even, v.val[0]);
    vec_store(odd, v.val[1]);
}

static inline void join_4(const float *even, const float *odd, float *dst)
{
    const float32x4x2_t halves = {{vec_load(even), vec_load(odd)}};
    vst2q_f32(dst, halves);
}

static inline void pack_4x4(float alpha, const float *src, size_t stride, float *dst, size_t ld)
{
    float transposed[16];
    float32x4x4_t rows;
    for (uint32_t i = 0; i < 4; i++) {
        rows.val[i] = vmulq_n_f32(vec_load(src + i * stride), alpha);
    }
    vst4q_f32(transposed, rows);
    for (uint32_t k = 0; k < 4; k++) {
        vec_store(dst + k * ld, vec_load(transposed + 4 * k));
    }
}

#define PLANES_OPS static const struct uw_planes_ops planes

#include "packed/planes_inline.h"
#include "packed/step_inline.h"
#include "packed/vector_inline.h"

/* All six rows; k unrolled by four to reduce loop overhead. */
static void multiply_all(uint32_t k, const float *a, const float *b, const float *init, float *out,
                         size_t ldo, bool add)
{
    vec s[MR][TILE_VECS];
    UNROLLED (uint32_t i = 0; i < MR; i++) {
        s[i][0] = vec_all(init[i]);
    }
#define STEP                                                                                      \
    do {                                                                                          \
        const vec row = vec_load(b);                                                              \
        s[0][0] = vfmaq_n_f32(s[0][0], row, a[0]);                                                \
        s[1][0] = vfmaq_n_f32(s[1][0], row, a[1]);                                                \
        s[2][0] = vfmaq_n_f32(s[2][0], row, a[2]);                                                \
        s[3][0] = vfmaq_n_f32(s[3][0], row, a[3]);                                                \
        s[4][0] = vfmaq_n_f32(s[4][0], row, a[4]);                                                \
        s[5][0] = vfmaq_n_f32(s[5][0], row, a[5]);                                                \
        a += MR;                                                                                  \
        b += NR;                                                                                  \
        __asm volatile("" ::: "memory"); /* else all loads are hoisted and spilled */             \
    } while (0)
    for (uint32_t fours = k / 4; fours > 0; fours--) {
        STEP; STEP; STEP; STEP;
    }
    for (uint32_t rest = k % 4; rest > 0; rest--) {
        STEP;
    }
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
    case 4: multiply_rows(4, k, a, b, init, out, ldo, add); break;
    case 5: multiply_rows(5, k, a, b, init, out, ldo, add); break;
    default: multiply_all(k, a, b, init, out, ldo, add); break;
    }
}

/* Small blocks, 6 KiB of A and 4 KiB of B, to leave a board's memory to the model. */
const struct uw_tile uw_tile_helium = {
    .mr = MR, .nr = NR, .mc = 24, .kc = 64, .nc = 16, .matrix_kc = 64, .matrix_nc = 16,
    PLAIN_ENTRIES,
};
