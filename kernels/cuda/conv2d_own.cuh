/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_own.cuh - shape and arguments of convolution kernels (see conv2d_own.h)
 */
#ifndef UW_KERNELS_CUDA_CONV2D_OWN_CUH
#define UW_KERNELS_CUDA_CONV2D_OWN_CUH

#include "conv2d_own.h"
#include "index.cuh"

struct uw_conv {
    uint32_t batch_n, groups, group_in, group_out;
    int32_t in_h, in_w, out_h, out_w, kernel_h, kernel_w;
    int32_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    uint32_t in_hw, out_hw, taps;       /* below 2^31 / batch_n */
    const float *x, *w, *b, *dy;
    float *y;                           /* y, dx or dw */
    float *db;
    float scale, ceiling;               /* ceiling: fw ends in a ReLU up to it; 0: no ReLU */
    bool accumulate, split;
};

/* Apply the ReLU, if there is one; NaN stays NaN. */
static __device__ __forceinline__ float uw_conv_cut(const struct uw_conv &c, float v)
{
    if (c.ceiling > 0.0f) {
        v = v <= 0.0f ? 0.0f : v;
        v = v >= c.ceiling ? c.ceiling : v;
    }
    return v;
}

/* Depthwise convolutions: one group per input channel, 3 x 3 or 5 x 5 kernels, stride 1 or 2. */
bool uw_depthwise_takes(const struct uw_conv2d *c);
int uw_depthwise_fw(const struct uw_exec *e, const struct uw_conv &c);
int uw_depthwise_bw_input(const struct uw_exec *e, const struct uw_conv &c);
int uw_depthwise_bw_param(const struct uw_exec *e, const struct uw_conv &c);

/* The general kernel, for every shape. */
int uw_implicit_fw(const struct uw_exec *e, const struct uw_conv &c);
int uw_implicit_bw_input(const struct uw_exec *e, const struct uw_conv &c);
int uw_implicit_bw_param(const struct uw_exec *e, const struct uw_conv &c);

/* fw or bw_input: the number of blocks to divide an output's sum among; 1: not worth it. */
uint32_t uw_implicit_splits(const struct uw_exec *e, const struct uw_conv &c,
                            enum uw_conv2d_part part);

#endif
