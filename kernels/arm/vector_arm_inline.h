/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_arm_inline.h - vectors of four floats, with intrinsics common to NEON and Helium
 *
 * Included after arm_neon.h or arm_mve.h; contracts in packed/tile_inline.h.
 */
#ifndef UW_KERNELS_VECTOR_ARM_INLINE_H
#define UW_KERNELS_VECTOR_ARM_INLINE_H

typedef float32x4_t vec;

static inline vec vec_all(float f)
{
    return vdupq_n_f32(f);
}

static inline vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

static inline vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

static inline vec vec_mul_add(vec s, vec a, vec b)
{
    return vfmaq_f32(s, a, b);
}

static inline vec vec_add_scaled(vec s, vec v, float f)
{
    return vfmaq_n_f32(s, v, f);
}

#endif
