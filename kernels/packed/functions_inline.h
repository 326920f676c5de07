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

/* x, at most `most`; NaN stays. */
VEC_INLINE vec below(vec x, float most)
{
    return choose(x > all(most), all(most), x);
}

/* e^x = the result * 2^n */
VEC_INLINE vec exp_parts(vec x, vec_int *n)
{
    static const float p[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                              4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    vec t = x * all(1.44269504f);
    t = t + (vec)((vec_int)sign_of(t) | (vec_int)all(0.5f));
    *n = __builtin_convertvector(choose(x == x, t, all(0.0f)), vec_int);
    vec nf = __builtin_convertvector(*n, vec);
    vec r = (x - nf * all(0.693359375f)) - nf * all(-2.12194440e-4f);
    return (polynomial(6, p, r) * r) * r + r + all(1.0f);
}

VEC_INLINE vec vec_exp(vec x)
{
    /* Beyond these limits the result is 0 or infinite; NaN passes. */
    vec_int n;
    vec e = exp_parts(choose(x < all(-105.0f), all(-105.0f), below(x, 89.0f)), &n);
    /* 2^n in two factors: the first is exact, so there is only one rounding. */
    vec_int part = ((n > 127) & 1) | ((n < -126) & (n + 126));
    return (e * power_of_two(part)) * power_of_two(n - part);
}

/* vec_exp for -87 <= x <= 87, and NaN. */
VEC_INLINE vec exp_within(vec x)
{
    vec_int n;
    vec e = exp_parts(x, &n);
    return e * power_of_two(n);
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
    vec large = all(1.0f) - all(2.0f) / (exp_within(all(2.0f) * below(a, 10.0f)) + all(1.0f));
    large = choose(a > all(9.1f), all(1.0f), large);
    return choose(a < all(0.625f), small, negated_below(large, x));
}

/* uw_normal_tail */
VEC_INLINE vec vec_normal_tail(vec a, vec *exponential)
{
    static const float p[] = {1.037720876e-2f, 8.872175791e-2f, 3.027056449e-1f, 0.5f};
    static const float q[] = {2.608092976e-2f, 2.210613046e-1f, 7.971134664e-1f, 1.403295721f,
                              1.0f};
    vec b = below(a, 13.0f);
    *exponential = choose(a > all(13.0f), all(0.0f), exp_within((all(-0.5f) * b) * b));
    return (*exponential * polynomial(4, p, b)) / polynomial(5, q, b);
}

#endif
