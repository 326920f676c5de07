/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_points_inline.h - one-dimensional Winograd transforms with four and six points
 *
 * Included by winograd_inline.h; uses its vec. `four` has the interpolation points 0, 1, -1 and
 * infinity; `six` adds 1/2 and -2, which round less than 2 and -2: no two points are close
 * together, and no power of one is large beside those of the others.
 *
 *   four  B^T = 1  0 -1  0     six  B^T = 1 -3/2 -2    3/2  1    0
 *               0  1  1  0                0 -1    1/2  5/2  1    0
 *               0 -1  1  0                0  1   -5/2  1/2  1    0
 *               0  1  0 -1                0 -2   -1    2    1    0
 *                                         0  1/2 -1   -1/2  1    0
 *                                         0  1   -3/2 -2    3/2  1
 *
 *   six   A^T = 1  1  1  1   1  0     G = 1       0       0     ..
 *               0  1 -1 1/2 -2  0         1/3     1/3     1/3   ..
 *               0  1  1 1/4  4  0        -1/3     1/3    -1/3   ..
 *               0  1 -1 1/8 -8  1       -16/15   -8/15   -4/15  ..
 *                                         1/15   -2/15    4/15  ..
 *                                         0       0       0     .. 1
 *
 * With fewer rows of A^T, the 1 of the last column is in the last row. G has one column per tap.
 *
 *   <points>_input               t = B^T d
 *   <points>_output              y = A^T m, out values
 *   <points>_spread              t = A y, out values
 *   <points>_weights             u = G g, n taps
 *   <points>_taps                g = G^T m, n taps
 *
 * Source     B. Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd
 *            Convolution for Deep Neural Networks", 2020: on the choice of points
 */
#ifndef UW_KERNELS_WINOGRAD_POINTS_INLINE_H
#define UW_KERNELS_WINOGRAD_POINTS_INLINE_H

#include "packed/tile_inline.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void four_input(const vec *d, vec *t)
{
    t[0] = vec_sub(d[0], d[2]);
    t[1] = vec_add(d[1], d[2]);
    t[2] = vec_sub(d[2], d[1]);
    t[3] = vec_sub(d[1], d[3]);
}

INLINE void four_output(uint32_t out, const vec *m, vec *y)
{
    (void)out; /* 2 */
    y[0] = vec_add(m[0], vec_add(m[1], m[2]));
    y[1] = vec_sub(vec_sub(m[1], m[2]), m[3]);
}

INLINE void four_spread(uint32_t out, const vec *y, vec *t)
{
    (void)out;
    t[0] = y[0];
    t[1] = vec_add(y[0], y[1]);
    t[2] = vec_sub(y[0], y[1]);
    t[3] = vec_sub(vec_all(0.0f), y[1]);
}

INLINE void four_weights(uint32_t n, const vec *g, vec *u)
{
    (void)n; /* 3 */
    vec ends = vec_mul(vec_all(0.5f), vec_add(g[0], g[2]));
    u[0] = g[0];
    u[1] = vec_add_scaled(ends, g[1], 0.5f);
    u[2] = vec_add_scaled(ends, g[1], -0.5f);
    u[3] = g[2];
}

INLINE void four_taps(uint32_t n, const vec *m, vec *g)
{
    (void)n;
    vec half = vec_all(0.5f), both = vec_mul(half, vec_add(m[1], m[2]));
    g[0] = vec_add(m[0], both);
    g[1] = vec_mul(half, vec_sub(m[1], m[2]));
    g[2] = vec_add(both, m[3]);
}

INLINE void six_input(const vec *d, vec *t)
{
    vec s0 = vec_sub(d[2], d[0]), s1 = vec_sub(d[3], d[1]);
    vec s2 = vec_sub(d[4], d[2]), s3 = vec_sub(d[5], d[3]);
    vec p1 = vec_add_scaled(s1, d[2], 1.5f), p2 = vec_add_scaled(s2, d[3], 1.5f);
    t[0] = vec_add_scaled(vec_sub(s2, s0), s1, 1.5f);
    t[1] = vec_add(p2, p1);
    t[2] = vec_sub(p2, p1);
    t[3] = vec_add_scaled(s2, s1, 2.0f);
    t[4] = vec_add_scaled(s2, s1, -0.5f);
    t[5] = vec_add_scaled(vec_sub(s3, s1), s2, 1.5f);
}

INLINE void six_output(uint32_t out, const vec *m, vec *y)
{
    vec sum = vec_add(m[1], m[2]), difference = vec_sub(m[1], m[2]);
    y[0] = vec_add(vec_add(m[0], sum), vec_add(m[3], m[4]));
    y[1] = vec_add_scaled(vec_add_scaled(difference, m[3], 0.5f), m[4], -2.0f);
    if (out == 4) {
        y[2] = vec_add_scaled(vec_add_scaled(sum, m[3], 0.25f), m[4], 4.0f);
        y[3] = vec_add_scaled(vec_add_scaled(difference, m[3], 0.125f), m[4], -8.0f);
    }
    y[out - 1] = vec_add(y[out - 1], m[5]);
}

INLINE void six_spread(uint32_t out, const vec *y, vec *t)
{
    vec even = y[0], odd = y[1];
    t[3] = vec_add_scaled(y[0], y[1], 0.5f);
    t[4] = vec_add_scaled(y[0], y[1], -2.0f);
    if (out == 4) {
        even = vec_add(even, y[2]);
        odd = vec_add(odd, y[3]);
        t[3] = vec_add_scaled(vec_add_scaled(t[3], y[2], 0.25f), y[3], 0.125f);
        t[4] = vec_add_scaled(vec_add_scaled(t[4], y[2], 4.0f), y[3], -8.0f);
    }
    t[0] = y[0];
    t[1] = vec_add(even, odd);
    t[2] = vec_sub(even, odd);
    t[5] = y[out - 1];
}

INLINE void six_weights(uint32_t n, const vec *g, vec *u)
{
    vec even = g[0], odd = g[1], half = g[n - 1], two = g[n - 1];
    UNROLLED (uint32_t i = n - 1; i-- > 0;) {
        half = vec_add_scaled(g[i], half, 0.5f);
        two = vec_add_scaled(g[i], two, -2.0f);
    }
    UNROLLED (uint32_t i = 2; i < n; i++) {
        if (i % 2 == 0) {
            even = vec_add(even, g[i]);
        } else {
            odd = vec_add(odd, g[i]);
        }
    }
    u[0] = g[0];
    u[1] = vec_mul(vec_all(1.0f / 3.0f), vec_add(odd, even));
    u[2] = vec_mul(vec_all(1.0f / 3.0f), vec_sub(odd, even));
    u[3] = vec_mul(vec_all(-16.0f / 15.0f), half);
    u[4] = vec_mul(vec_all(1.0f / 15.0f), two);
    u[5] = g[n - 1];
}

INLINE void six_taps(uint32_t n, const vec *m, vec *g)
{
    vec third = vec_all(1.0f / 3.0f);
    vec even = vec_mul(third, vec_sub(m[1], m[2])), odd = vec_mul(third, vec_add(m[1], m[2]));
    vec half = vec_mul(vec_all(-16.0f / 15.0f), m[3]), two = vec_mul(vec_all(1.0f / 15.0f), m[4]);
    float half_power = 1.0f, two_power = 1.0f;
    UNROLLED (uint32_t i = 0; i < n; i++) {
        g[i] = vec_add_scaled(vec_add_scaled(i % 2 == 0 ? even : odd, half, half_power), two,
                              two_power);
        half_power *= 0.5f;
        two_power *= -2.0f;
    }
    g[0] = vec_add(g[0], m[0]);
    g[n - 1] = vec_add(g[n - 1], m[5]);
}

#endif
