/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused slots; their kernels are in channels.cu. Our own products include bias and ReLU, and our
 * own weight gradients that of the bias, in one launch; cuDNN and cuBLAS need separate ones. */
#include "dense_plan.h"
#include "dense_small.h"
#include "products.h"

static bool conv2d_bias_apart(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n)
{
    const struct uw_exec e = {.kernels = k};
    struct uw_cuda *gpu = uw_cuda_of(&e);
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, c);
    return uw_conv2d_plan_of(gpu, s, batch_n)->part[UW_CONV2D_BW_PARAM].algorithm !=
           UW_CONV2D_OWN;
}

static bool dense_bias_apart(const struct uw_kernels *k, const struct uw_dense *d,
                             uint32_t batch_n)
{
    const struct uw_exec e = {.kernels = k};
    return !uw_dense_is_small(uw_cuda_of(&e), d, batch_n, UW_CONV2D_BW_PARAM);
}

static int dense_relu(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float ceiling, float *y)
{
    if (uw_dense_is_small(uw_cuda_of(e), d, batch_n, UW_CONV2D_FW)) {
        return uw_dense_small_fw(e, d, batch_n, x, w, b, ceiling, y);
    }
    int rc = uw_dense_fw_cuda(e, d, batch_n, x, w, NULL, y);
    return rc < 0 ? rc : uw_bias_relu_cuda(e, batch_n, d->out, 1, b, ceiling, y);
}

static bool dense_bw_takes(const struct uw_kernels *k, const struct uw_dense *d, uint32_t batch_n)
{
    const struct uw_exec e = {.kernels = k};
    const struct uw_cuda *gpu = uw_cuda_of(&e);
    return uw_dense_is_small(gpu, d, batch_n, UW_CONV2D_BW_INPUT) &&
           uw_dense_is_small(gpu, d, batch_n, UW_CONV2D_BW_PARAM);
}

const struct uw_fused_kernels uw_fused_cuda = {
    .conv2d_bias_relu = uw_conv2d_bias_relu_cuda,
    .relu_bw = uw_relu_bw_cuda,
    .relu_bw_copy = uw_relu_bw_copy_cuda,
    .add_relu = uw_add_relu_cuda,
    .dense_relu = dense_relu,
    .dense_bw_takes = dense_bw_takes,
    .dense_bw = uw_dense_small_bw,
    .batchnorm_bw = uw_batchnorm_bw_cuda,
    .conv2d_bias_apart = conv2d_bias_apart,
    .dense_bias_apart = dense_bias_apart,
};
