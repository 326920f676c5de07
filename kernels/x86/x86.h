/* SPDX-License-Identifier: Apache-2.0
 *
 * x86.h - slots and tile entries shared by the x86 tables
 *
 * Contracts are those of the slots in uwasa/kernels.h and of struct uw_tile. */
#ifndef UW_KERNELS_X86_H
#define UW_KERNELS_X86_H

#include "packed/tile.h"
#include "uwasa/slots.h"

/* Entries of both the AVX2 and the AVX-512 tile. */
extern const struct uw_small_ops uw_small_avx2;
void uw_pack_transposed_avx2(uint32_t rows, uint32_t n, float alpha, const float *src,
                             size_t stride, float *dst, size_t ld);
void uw_dots_avx2(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw,
                  float *dots);
void uw_add_rows_avx2(uint32_t rows, size_t n, const float *coef, const float *x, size_t stride,
                      float *y);
extern const struct uw_planes_ops uw_planes_avx2;
extern const struct uw_norm_ops uw_norm_ops_avx2;
void uw_step_rows_avx2(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                       const float *x, float *const *w, float *dx);

/* Slots with the contracts of uwasa/kernels.h. */
__typeof__(uw_maxpool2d_fw_ref) uw_maxpool2d_fw_avx2;
__typeof__(uw_maxpool2d_bw_input_ref) uw_maxpool2d_bw_input_avx2;
__typeof__(uw_avgpool2d_fw_ref) uw_avgpool2d_fw_avx2;
__typeof__(uw_avgpool2d_bw_input_ref) uw_avgpool2d_bw_input_avx2;
__typeof__(uw_relu_fw_ref) uw_relu_fw_avx2;
__typeof__(uw_relu_bw_input_ref) uw_relu_bw_input_avx2;
__typeof__(uw_axpby_ref) uw_axpby_avx2;
__typeof__(uw_sgd_update_ref) uw_sgd_update_avx2;
__typeof__(uw_all_finite_ref) uw_all_finite_avx2;
__typeof__(uw_distance_sq_ref) uw_distance_sq_avx2;
__typeof__(uw_add_channels_ref) uw_add_channels_avx2;
extern const struct uw_copy_kernels uw_copy_avx2;
extern const struct uw_norm_kernels uw_norm_avx2;
extern const struct uw_activation_kernels uw_activation_avx2, uw_activation_avx512;
extern const struct uw_sequence_kernels uw_sequence_avx2, uw_sequence_avx512;
extern const struct uw_update_kernels uw_update_avx2;
extern const struct uw_tensor_kernels uw_tensor_avx2;

#endif
