/* SPDX-License-Identifier: Apache-2.0
 *
 * exact_product.h - vectorized matrix products with the reference's order of sums
 *
 * C[m][n] (+)= sum over k of A[i][k] B[k][j]. B is packed into panels of UW_EXACT_NR columns, a
 * block of k at a time; A is read in place. A task is one panel and a band of rows. */
#ifndef UW_KERNELS_EXACT_PRODUCT_H
#define UW_KERNELS_EXACT_PRODUCT_H

#include "uwasa/slots.h"

#define UW_EXACT_NR 16u             /* columns of a panel */

struct uw_exact_product;

/* Write panel [k_n][UW_EXACT_NR]: rows k .. k+k_n-1 and columns j .. j+n-1 of an image and group of
 * B; the panel's columns from n on are 0. */
typedef void (*uw_exact_pack)(const struct uw_exact_product *p, uint32_t image, uint32_t group,
                              uint32_t k, uint32_t k_n, uint32_t j, uint32_t n, float *panel);

struct uw_exact_product {
    uint32_t m, n, k;
    uint32_t images, groups;        /* images * groups products of this shape */
    uint32_t block;                 /* terms of a block */
    uint32_t period;                /* blocks also end at multiples of it; 0: they do not */
    bool chained;                   /* a block continues the previous sum; else it begins at 0 and
                                       is added */
    const float *a;                 /* A[i][k]: i * row_a + k / inner_a * outer_a + k % inner_a *
                                       step_a */
    size_t row_a, step_a, outer_a, image_a, group_a;
    uint32_t inner_a;
    float alpha;                    /* A is multiplied by it first */
    uw_exact_pack pack;
    const void *b;                  /* for pack */
    const struct uw_conv2d *conv;
    size_t row_b;
    float *c;
    size_t row_c, image_c, group_c;
    float beta;                     /* sums begin at beta C + bias[i] */
    const float *bias;              /* [groups][m] or NULL */
    float scale;                    /* not 0: sums begin at 0, and C += scale * sum at the end */
};

/* Scratch for blocks of up to `block` terms. */
size_t uw_exact_product_scratch(uint32_t block, uint32_t threads);

/* Returns UW_OK or UW_ERR_NOMEM. */
int uw_exact_product_run(const struct uw_exec *e, const struct uw_exact_product *p);

/* Slots with the contracts of uwasa/kernels.h. */
__typeof__(uw_gemm_ref) uw_gemm_exact;
__typeof__(uw_gemm_scratch_bytes_ref) uw_gemm_scratch_bytes_exact;
__typeof__(uw_conv2d_fw_ref) uw_conv2d_fw_exact;
__typeof__(uw_conv2d_bw_input_ref) uw_conv2d_bw_input_exact;
__typeof__(uw_conv2d_bw_param_ref) uw_conv2d_bw_param_exact;
__typeof__(uw_conv2d_scratch_bytes_ref) uw_conv2d_scratch_bytes_exact;
__typeof__(uw_dense_fw_ref) uw_dense_fw_exact;
__typeof__(uw_dense_bw_input_ref) uw_dense_bw_input_exact;
__typeof__(uw_dense_bw_param_ref) uw_dense_bw_param_exact;
__typeof__(uw_dense_scratch_bytes_ref) uw_dense_scratch_bytes_exact;

extern const struct uw_activation_kernels uw_activation_exact;
extern const struct uw_sequence_kernels uw_sequence_exact;

/* Their entries in a table. */
#define UW_EXACT_ENTRIES                                                                          \
    .gemm = uw_gemm_exact,                                                                        \
    .gemm_scratch_bytes = uw_gemm_scratch_bytes_exact,                                            \
    .conv2d_fw = uw_conv2d_fw_exact,                                                              \
    .conv2d_bw_input = uw_conv2d_bw_input_exact,                                                  \
    .conv2d_bw_param = uw_conv2d_bw_param_exact,                                                  \
    .conv2d_scratch_bytes = uw_conv2d_scratch_bytes_exact,                                        \
    .dense_fw = uw_dense_fw_exact,                                                                \
    .dense_bw_input = uw_dense_bw_input_exact,                                                    \
    .dense_bw_param = uw_dense_bw_param_exact,                                                    \
    .dense_scratch_bytes = uw_dense_scratch_bytes_exact,                                          \
    .activation = &uw_activation_exact,                                                           \
    .sequence = &uw_sequence_exact

#endif
