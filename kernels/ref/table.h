/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - entries of a kernel table, all of one variant
 *
 * A table lists the variants of most of its slots first, then the slots that differ, since a later
 * entry replaces an earlier one. */
#ifndef UW_KERNELS_TABLE_H
#define UW_KERNELS_TABLE_H

#include "ref/ref.h"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

#define UW_PRODUCT_ENTRIES(of)                                                                    \
    .gemm = uw_gemm_##of,                                                                         \
    .gemm_scratch_bytes = uw_gemm_scratch_bytes_##of,                                             \
    .conv2d_fw = uw_conv2d_fw_##of,                                                               \
    .conv2d_bw_input = uw_conv2d_bw_input_##of,                                                   \
    .conv2d_bw_param = uw_conv2d_bw_param_##of,                                                   \
    .conv2d_takes_norm = uw_conv2d_takes_norm_##of,                                               \
    .conv2d_scratch_bytes = uw_conv2d_scratch_bytes_##of,                                         \
    .sum_channels = uw_sum_channels_##of,                                                         \
    .dense_fw = uw_dense_fw_##of,                                                                 \
    .dense_bw_input = uw_dense_bw_input_##of,                                                     \
    .dense_bw_param = uw_dense_bw_param_##of,                                                     \
    .dense_bw_step = uw_dense_bw_step_##of,                                                       \
    .dense_scratch_bytes = uw_dense_scratch_bytes_##of

#define UW_OTHER_ENTRIES(of)                                                                      \
    .add_channels = uw_add_channels_##of,                                                         \
    .maxpool2d_fw = uw_maxpool2d_fw_##of,                                                         \
    .maxpool2d_bw_input = uw_maxpool2d_bw_input_##of,                                             \
    .avgpool2d_fw = uw_avgpool2d_fw_##of,                                                         \
    .avgpool2d_bw_input = uw_avgpool2d_bw_input_##of,                                             \
    .relu_fw = uw_relu_fw_##of,                                                                   \
    .relu_bw_input = uw_relu_bw_input_##of,                                                       \
    .softmax_xent_fw = uw_softmax_xent_fw_##of,                                                   \
    .softmax_xent_bw_input = uw_softmax_xent_bw_input_##of,                                       \
    .axpby = uw_axpby_##of,                                                                       \
    .sgd_update = uw_sgd_update_##of,                                                             \
    .all_finite = uw_all_finite_##of,                                                             \
    .distance_sq = uw_distance_sq_##of,                                                           \
    .copy = &uw_copy_##of,                                                                        \
    .sequence = &uw_sequence_##of,                                                                \
    .norm = &uw_norm_##of,                                                                        \
    .activation = &uw_activation_##of,                                                            \
    .loss = &uw_loss_##of,                                                                        \
    .update = &uw_update_##of,                                                                    \
    .tensor = &uw_tensor_##of

#endif
