/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference's bits from little code, for small minibatches on a scalar FPU. */
#include "uwasa/backends.h"

#include "ref/ref.h"

const struct uw_kernels uw_kernels_lean = {
    .name = "lean",
    .exact = true,
    .gemm = uw_gemm_ref,
    .gemm_scratch_bytes = uw_gemm_scratch_bytes_ref,
    .conv2d_fw = uw_conv2d_fw_lean,
    .conv2d_bw_input = uw_conv2d_bw_input_lean,
    .conv2d_bw_param = uw_conv2d_bw_param_ref,
    .conv2d_takes_norm = uw_conv2d_takes_norm_ref,
    .conv2d_scratch_bytes = uw_conv2d_scratch_bytes_ref,
    .add_channels = uw_add_channels_ref,
    .sum_channels = uw_sum_channels_ref,
    .dense_fw = uw_dense_fw_lean,
    .dense_bw_input = uw_dense_bw_input_lean,
    .dense_bw_param = uw_dense_bw_param_lean,
    .dense_bw_step = uw_dense_bw_step_ref,
    .dense_scratch_bytes = uw_dense_scratch_bytes_ref,
    .maxpool2d_fw = uw_maxpool2d_fw_ref,
    .maxpool2d_bw_input = uw_maxpool2d_bw_input_ref,
    .avgpool2d_fw = uw_avgpool2d_fw_ref,
    .avgpool2d_bw_input = uw_avgpool2d_bw_input_ref,
    .relu_fw = uw_relu_fw_ref,
    .relu_bw_input = uw_relu_bw_input_ref,
    .softmax_xent_fw = uw_softmax_xent_fw_ref,
    .softmax_xent_bw_input = uw_softmax_xent_bw_input_ref,
    .axpby = uw_axpby_ref,
    .sgd_update = uw_sgd_update_ref,
    .all_finite = uw_all_finite_ref,
    .distance_sq = uw_distance_sq_ref,
    .copy = &uw_copy_ref,
    .sequence = &uw_sequence_ref,
    .norm = &uw_norm_ref,
    .activation = &uw_activation_ref,
    .loss = &uw_loss_ref,
    .update = &uw_update_ref,
};
