/* SPDX-License-Identifier: Apache-2.0
 *
 * functions_inline.h - the functions of uwasa/fmath.h for VEC_N floats at a time
 *
 * The same constants in the same order: without fused multiply-adds the same bits as the reference.
 * Where fmath.c branches, both sides are computed and one is selected. The including file defines
 * VEC_N, the floats of a register, and FAMILY(name), the name of a family of slots; the compiler
 * makes the instructions from vectors of that size.
 */
#ifndef UW_KERNELS_FUNCTIONS_INLINE_H
#define UW_KERNELS_FUNCTIONS_INLINE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(VEC_N * 4)));
typedef int32_t vec_int __attribute__((vector_size(VEC_N * 4)));  /* of comparisons: 0 or -1 */

#define VEC_INLINE static inline __attribute__((always_inline))

VEC_INLINE vec all(float f)
{
    return f - (vec){0.0f};             /* exact, and keeps the sign of 0 */
}

/* The first n floats at p, 1 <= n <= VEC_N; the others are 0. */
VEC_INLINE vec load(const float *p, size_t n)
{
    vec v = {0.0f};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

VEC_INLINE vec load_or_0(const float *p, size_t offset, size_t n)
{
    return p != NULL ? load(p + offset, n) : all(0.0f);
}

VEC_INLINE void store(float *p, vec v, size_t n)
{
    memcpy(p, &v, n * sizeof *p);
}

VEC_INLINE vec choose(vec_int mask, vec yes, vec no)
{
    return (vec)((mask & (vec_int)yes) | (~mask & (vec_int)no));
}

VEC_INLINE vec sign_of(vec x)
{
    return (vec)((vec_int)x & (vec_int)all(-0.0f));
}

VEC_INLINE vec magnitude(vec x)
{
    return (vec)((vec_int)x & ~(vec_int)all(-0.0f));
}

VEC_INLINE vec negated(vec x)
{
    return (vec)((vec_int)x ^ (vec_int)all(-0.0f));
}

/* y, negated where x is below 0. */
VEC_INLINE vec negated_below(vec y, vec x)
{
    return (vec)((vec_int)y ^ ((x < all(0.0f)) & (vec_int)all(-0.0f)));
}

/* p[0] z^(n-1) + .. + p[n-1] */
VEC_INLINE vec polynomial(uint32_t n, const float *p, vec z)
{
    vec s = all(p[0]);
    for (uint32_t i = 1; i < n; i++) {
        s = s * z + all(p[i]);
    }
    return s;
}

VEC_INLINE vec power_of_two(vec_int n)
{
    return (vec)((n + 127) << 23);
}

VEC_INLINE vec vec_exp(vec x)
{
    static const float p[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                              4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    /* Beyond these limits the result is 0 or infinite; NaN passes. */
    vec v = choose(x < all(-105.0f), all(-105.0f), choose(x > all(89.0f), all(89.0f), x));
    vec t = v * all(1.44269504f);
    t = t + (vec)((vec_int)sign_of(t) | (vec_int)all(0.5f));
    vec_int n = __builtin_convertvector(choose(x == x, t, all(0.0f)), vec_int);
    vec nf = __builtin_convertvector(n, vec);
    vec r = (v - nf * all(0.693359375f)) - nf * all(-2.12194440e-4f);
    vec e = (polynomial(6, p, r) * r) * r + r + all(1.0f);
    /* 2^n in two factors: the first is exact, so there is only one rounding. */
    vec_int part = ((n > 127) & 1) | ((n < -126) & (n + 126));
    return (e * power_of_two(part)) * power_of_two(n - part);
}

VEC_INLINE vec vec_sigmoid(vec x)
{
    vec t = vec_exp((vec)((vec_int)x | (vec_int)all(-0.0f))); /* exp(-|x|) */
    return choose(x < all(0.0f), t, all(1.0f)) / (all(1.0f) + t);
}

VEC_INLINE vec vec_tanh(vec x)
{
    static const float p[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                              1.33314422036e-1f, -3.33332819422e-1f};
    vec a = magnitude(x), z = x * x;
    vec small = (polynomial(5, p, z) * z) * x + x;
    vec large = all(1.0f) - all(2.0f) / (vec_exp(all(2.0f) * a) + all(1.0f));
    large = choose(a > all(9.1f), all(1.0f), large);
    return choose(a < all(0.625f), small, negated_below(large, x));
}

VEC_INLINE vec vec_erf(vec x)
{
    static const float inner[] = {8.5341205704e-5f, -8.1807811512e-4f, 5.2043315955e-3f,
                                  -2.6860708371e-2f, 1.1283718795e-1f, -3.7612634897e-1f};
    static const float outer[] = {-1.6242348693e-6f, 4.5774933824e-5f, -5.9417984448e-4f,
                                  4.7461520880e-3f, -2.6379637420e-2f, 1.1000113934e-1f,
                                  6.3191628456e-1f, 1.1301769018f, -3.0524755130e-4f};
    vec a = magnitude(x), z = x * x;
    vec small = x + x * (all(1.2837916613e-1f) + z * polynomial(6, inner, z));
    vec large = all(1.0f) - vec_exp(negated(polynomial(9, outer, a)));
    large = choose(a > all(3.95f), all(1.0f), large);
    return choose(a < all(0.9f), small, negated_below(large, x));
}

#endif
