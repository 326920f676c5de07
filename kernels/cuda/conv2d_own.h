/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_own.h - convolutions by kernels of our own (private to kernels/cuda)
 *
 * Three families: depthwise ones (one group per input channel), limited by memory bandwidth; small
 * ones, direct and of one launch, for minibatches that do not fill a GPU; and a general one with
 * tiles in shared memory, for every other shape, stride, dilation and number of groups.
 * conv2d_cuda.c measures them against cuDNN and uses the faster.
 *
 * Layout     as struct uw_conv2d says
 * Memory     no scratch; partial sums of bw_param are in struct uw_cuda's partials
 * Blocking   never: work for the GPU's stream, and may be recorded into a graph
 */
#ifndef UW_KERNELS_CUDA_CONV2D_OWN_H
#define UW_KERNELS_CUDA_CONV2D_OWN_H

#include "gpu.h"

UW_C_BEGIN

enum uw_conv2d_part {
    UW_CONV2D_FW = 0,
    UW_CONV2D_BW_INPUT,
    UW_CONV2D_BW_PARAM
};

/* Is there a kernel for this kind of shape that is worth measuring? Otherwise the functions below
 * use the general one, which is seldom the fastest. False for a normed convolution. */
bool uw_conv2d_own_takes(const struct uw_conv2d *c, uint32_t batch_n, enum uw_conv2d_part part);

/* Does the general kernel leave most of the GPU idle in fw or bw_input, so that dividing each
 * output's sum among several blocks is another candidate? The last block adds the parts, in order.
 * bw_param always does so. */
bool uw_conv2d_own_splits(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                          enum uw_conv2d_part part);

/* The slots conv2d_fw, conv2d_bw_input, conv2d_bw_param of uwasa/kernels.h, for every shape that is
 * not normed: bias, accumulate, scale, db and NULLs as there. With a ceiling above 0 fw is the slot
 * conv2d_bias_relu of uwasa/kernels_fused.h; accumulate is false then. split: divide each sum among
 * blocks, only where uw_conv2d_own_splits. The order of sums depends on the shape, split and the
 * GPU's number of multiprocessors only.
 *
 * Return UW_OK, UW_ERR_UNSUPPORTED (c is normed) or UW_ERR_IO (the launch failed). */
int uw_conv2d_own_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float ceiling, float *y,
                     bool accumulate, bool split);
int uw_conv2d_own_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate,
                           bool split);
int uw_conv2d_own_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db);

UW_C_END
#endif
