/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "packed/packed.h"
#include "ref/ref.h"
#include "x86/x86.h"

/* AVX-512 has a register tile of its own, and with it all products. */
#define TABLE(isa)                                                                   \
    const struct uw_kernels uw_kernels_##isa = {                                     \
        .name = #isa,                                                                \
        .tile = &uw_tile_##isa,                                                      \
        .gemm = uw_gemm_packed,                                                      \
        .gemm_scratch_bytes = uw_gemm_scratch_bytes_packed,                          \
        .conv2d_fw = uw_conv2d_fw_packed,                                            \
        .conv2d_bw_input = uw_conv2d_bw_input_packed,                                \
        .conv2d_bw_param = uw_conv2d_bw_param_packed,                                \
        .conv2d_takes_norm = uw_conv2d_takes_norm_packed,                            \
        .conv2d_scratch_bytes = uw_conv2d_scratch_bytes_packed,                      \
        .add_channels = uw_add_channels_avx2,                                        \
        .sum_channels = uw_sum_channels_packed,                                      \
        .dense_fw = uw_dense_fw_packed,                                              \
        .dense_bw_input = uw_dense_bw_input_packed,                                  \
        .dense_bw_param = uw_dense_bw_param_packed,                                  \
        .dense_bw_step = uw_dense_bw_step_packed,                                    \
        .dense_scratch_bytes = uw_dense_scratch_bytes_packed,                        \
        .maxpool2d_fw = uw_maxpool2d_fw_avx2,                                        \
        .maxpool2d_bw_input = uw_maxpool2d_bw_input_avx2,                            \
        .avgpool2d_fw = uw_avgpool2d_fw_avx2,                                        \
        .avgpool2d_bw_input = uw_avgpool2d_bw_input_avx2,                            \
        .relu_fw = uw_relu_fw_avx2,                                                  \
        .relu_bw_input = uw_relu_bw_input_avx2,                                      \
        .softmax_xent_fw = uw_softmax_xent_fw_ref,                                   \
        .softmax_xent_bw_input = uw_softmax_xent_bw_input_ref,                       \
        .axpby = uw_axpby_avx2,                                                      \
        .sgd_update = uw_sgd_update_avx2,                                            \
        .all_finite = uw_all_finite_avx2,                                            \
        .distance_sq = uw_distance_sq_avx2,                                          \
        .copy = &uw_copy_avx2,                                                       \
        .sequence = &uw_sequence_ref,                                                \
        .norm = &uw_norm_avx2,                                                       \
        .activation = &uw_activation_avx2,                                           \
        .loss = &uw_loss_ref,                                                        \
        .update = &uw_update_avx2,                                                   \
    }

TABLE(avx2);
TABLE(avx512);
