/* SPDX-License-Identifier: Apache-2.0
 *
 * table_inline.h - the kernel table of a processor that gives a register tile and no more: products
 * and convolutions are packed, everything else is the reference's
 */
#ifndef UW_KERNELS_TABLE_INLINE_H
#define UW_KERNELS_TABLE_INLINE_H

#include "packed/packed.h"
#include "ref/ref.h"

/* Initializer of a struct uw_kernels. */
#define UW_TABLE_OF_TILE(table_name, register_tile)                                               \
    {                                                                                             \
        .name = table_name,                                                                       \
        .tile = &(register_tile),                                                                 \
        .gemm = uw_gemm_packed,                                                                   \
        .gemm_scratch_bytes = uw_gemm_scratch_bytes_packed,                                       \
        .conv2d_fw = uw_conv2d_fw_packed,                                                         \
        .conv2d_bw_input = uw_conv2d_bw_input_packed,                                             \
        .conv2d_bw_param = uw_conv2d_bw_param_packed,                                             \
        .conv2d_takes_norm = uw_conv2d_takes_norm_packed,                                         \
        .conv2d_scratch_bytes = uw_conv2d_scratch_bytes_packed,                                   \
        .add_channels = uw_add_channels_ref,                                                      \
        .sum_channels = uw_sum_channels_packed,                                                   \
        .dense_fw = uw_dense_fw_packed,                                                           \
        .dense_bw_input = uw_dense_bw_input_packed,                                               \
        .dense_bw_param = uw_dense_bw_param_packed,                                               \
        .dense_bw_step = uw_dense_bw_step_packed,                                                 \
        .dense_scratch_bytes = uw_dense_scratch_bytes_packed,                                     \
        .maxpool2d_fw = uw_maxpool2d_fw_ref,                                                      \
        .maxpool2d_bw_input = uw_maxpool2d_bw_input_ref,                                          \
        .avgpool2d_fw = uw_avgpool2d_fw_ref,                                                      \
        .avgpool2d_bw_input = uw_avgpool2d_bw_input_ref,                                          \
        .relu_fw = uw_relu_fw_ref,                                                                \
        .relu_bw_input = uw_relu_bw_input_ref,                                                    \
        .softmax_xent_fw = uw_softmax_xent_fw_ref,                                                \
        .softmax_xent_bw_input = uw_softmax_xent_bw_input_ref,                                    \
        .axpby = uw_axpby_ref,                                                                    \
        .sgd_update = uw_sgd_update_ref,                                                          \
        .all_finite = uw_all_finite_ref,                                                          \
        .distance_sq = uw_distance_sq_ref,                                                        \
        .copy = &uw_copy_ref,                                                                     \
        .sequence = &uw_sequence_ref,                                                             \
        .norm = &uw_norm_ref,                                                                     \
        .activation = &uw_activation_ref,                                                         \
        .loss = &uw_loss_ref,                                                                     \
        .update = &uw_update_ref,                                                                 \
    }

#endif
