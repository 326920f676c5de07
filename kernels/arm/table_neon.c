/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "packed/packed.h"
#include "ref/ref.h"
#include "arm/arm.h"

#define TILE &uw_tile_neon

static int gemm(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c)
{
    return uw_gemm_packed(TILE, e, g, a, b, c);
}

static size_t gemm_scratch_bytes(const struct uw_gemm *g, uint32_t threads)
{
    return uw_gemm_scratch_bytes_packed(TILE, g, threads);
}

static int conv2d_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y)
{
    return uw_conv2d_fw_packed(TILE, e, c, batch_n, x, w, b, y);
}

static int conv2d_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    return uw_conv2d_bw_input_packed(TILE, e, c, batch_n, dy, w, dx, accumulate);
}

static int conv2d_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    return uw_conv2d_bw_param_packed(TILE, e, c, batch_n, x, dy, scale, dw, db);
}

static size_t conv2d_scratch_bytes(const struct uw_conv2d *c, uint32_t batch_n, uint32_t threads)
{
    return uw_conv2d_scratch_bytes_packed(TILE, c, batch_n, threads);
}

static int dense_fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y)
{
    return uw_dense_fw_packed(TILE, e, d, batch_n, x, w, b, y);
}

static int dense_bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate)
{
    return uw_dense_bw_input_packed(TILE, e, d, batch_n, dy, w, dx, accumulate);
}

static int dense_bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db)
{
    return uw_dense_bw_param_packed(TILE, e, d, batch_n, x, dy, scale, dw, db);
}

static size_t dense_scratch_bytes(const struct uw_dense *d, uint32_t batch_n, uint32_t threads)
{
    return uw_dense_scratch_bytes_packed(TILE, d, batch_n, threads);
}

const struct uw_kernels uw_kernels_neon = {
    .name = "neon",
    .gemm = gemm,
    .gemm_scratch_bytes = gemm_scratch_bytes,
    .conv2d_fw = conv2d_fw,
    .conv2d_bw_input = conv2d_bw_input,
    .conv2d_bw_param = conv2d_bw_param,
    .conv2d_scratch_bytes = conv2d_scratch_bytes,
    .dense_fw = dense_fw,
    .dense_bw_input = dense_bw_input,
    .dense_bw_param = dense_bw_param,
    .dense_scratch_bytes = dense_scratch_bytes,
    .maxpool2d_fw = uw_maxpool2d_fw_ref,
    .maxpool2d_bw_input = uw_maxpool2d_bw_input_ref,
    .relu_fw = uw_relu_fw_ref,
    .relu_bw_input = uw_relu_bw_input_ref,
    .softmax_xent_fw = uw_softmax_xent_fw_ref,
    .softmax_xent_bw_input = uw_softmax_xent_bw_input_ref,
    .axpby = uw_axpby_ref,
    .sgd_update = uw_sgd_update_ref,
    .all_finite = uw_all_finite_ref,
    .distance_sq = uw_distance_sq_ref,
};
