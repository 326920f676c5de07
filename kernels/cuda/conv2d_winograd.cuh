/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_winograd.cuh - one-dimensional Winograd transforms: six values, four results, three taps
 *
 *   B^T = 1 -3/2 -2    3/2  1    0     A^T = 1  1  1  1   1  0     G = 1       0       0
 *         0 -1    1/2  5/2  1    0           0  1 -1 1/2 -2  0         1/3     1/3     1/3
 *         0  1   -5/2  1/2  1    0           0  1  1 1/4  4  0        -1/3     1/3    -1/3
 *         0 -2   -1    2    1    0           0  1 -1 1/8 -8  1       -16/15   -8/15   -4/15
 *         0  1/2 -1   -1/2  1    0                                     1/15   -2/15    4/15
 *         0  1   -3/2 -2    3/2  1                                     0       0       1
 *
 * Source     B. Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd
 *            Convolution for Deep Neural Networks", 2020: on the choice of points
 */
#ifndef UW_KERNELS_CUDA_CONV2D_WINOGRAD_CUH
#define UW_KERNELS_CUDA_CONV2D_WINOGRAD_CUH

#include "launch.cuh"

/* t = B^T d */
static __device__ __forceinline__ void uw_winograd_row_input(const float *d, float *t)
{
    float s0 = d[2] - d[0], s1 = d[3] - d[1], s2 = d[4] - d[2], s3 = d[5] - d[3];
    float p1 = s1 + 1.5f * d[2], p2 = s2 + 1.5f * d[3];
    t[0] = s2 - s0 + 1.5f * s1;
    t[1] = p2 + p1;
    t[2] = p2 - p1;
    t[3] = s2 + 2.0f * s1;
    t[4] = s2 - 0.5f * s1;
    t[5] = s3 - s1 + 1.5f * s2;
}

/* y = A^T m */
static __device__ __forceinline__ void uw_winograd_row_output(const float *m, float *y)
{
    float sum = m[1] + m[2], difference = m[1] - m[2];
    y[0] = m[0] + sum + (m[3] + m[4]);
    y[1] = difference + 0.5f * m[3] - 2.0f * m[4];
    y[2] = sum + 0.25f * m[3] + 4.0f * m[4];
    y[3] = difference + 0.125f * m[3] - 8.0f * m[4] + m[5];
}

/* t = A y */
static __device__ __forceinline__ void uw_winograd_row_spread(const float *y, float *t)
{
    float even = y[0] + y[2], odd = y[1] + y[3];
    t[0] = y[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = y[0] + 0.5f * y[1] + 0.25f * y[2] + 0.125f * y[3];
    t[4] = y[0] - 2.0f * y[1] + 4.0f * y[2] - 8.0f * y[3];
    t[5] = y[3];
}

/* u = G g */
static __device__ __forceinline__ void uw_winograd_row_weights(const float *g, float *u)
{
    const float third = 1.0f / 3.0f;
    float even = g[0] + g[2];
    u[0] = g[0];
    u[1] = third * (g[1] + even);
    u[2] = third * (g[1] - even);
    u[3] = -16.0f / 15.0f * (g[0] + 0.5f * (g[1] + 0.5f * g[2]));
    u[4] = 1.0f / 15.0f * (g[0] - 2.0f * (g[1] - 2.0f * g[2]));
    u[5] = g[2];
}

/* g = G^T m */
static __device__ __forceinline__ void uw_winograd_row_taps(const float *m, float *g)
{
    const float third = 1.0f / 3.0f;
    float even = third * (m[1] - m[2]), odd = third * (m[1] + m[2]);
    float half = -16.0f / 15.0f * m[3], two = 1.0f / 15.0f * m[4];
    g[0] = m[0] + (even + half + two);
    g[1] = odd + 0.5f * half - 2.0f * two;
    g[2] = even + 0.25f * half + 4.0f * two + m[5];
}

#endif
