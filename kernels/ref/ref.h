/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.h - the reference slots by name, for tuned tables that use some of them
 *
 * Contracts are those of the slots in uwasa/kernels.h. */
#ifndef UW_KERNELS_REF_H
#define UW_KERNELS_REF_H

#include "uwasa/kernels.h"
#include "uwasa/slots.h"

/* Output positions lo .. hi-1 along one axis for which a tap is inside the input. */
struct uw_span {
    uint32_t lo, hi;
};

/* Positions o of out_n with 0 <= o * stride + tap * dilation - pad < in_n; lo == hi when none. */
struct uw_span uw_span_of_tap(uint32_t out_n, uint32_t in_n, uint32_t stride, uint32_t pad,
                              uint32_t tap, uint32_t dilation);

/* Terms of a block of a sum of products, see uwasa/exact.h. */
#define UW_BLOCK_REF 64u

/* Rows of out_w values in one block. */
static inline uint32_t uw_block_rows_ref(uint32_t out_w)
{
    return out_w < UW_BLOCK_REF ? UW_BLOCK_REF / out_w : 1;
}

/* Sum of x[i] * y[i]. */
float uw_dot_ref(size_t n, const float *x, const float *y);

/* The products for the parts of a dense layer; the first one also writes the bias, if any, to y. */
struct uw_gemm uw_dense_fw_gemm_ref(const struct uw_dense *d, uint32_t batch_n, const float *b,
                                    float *y);
struct uw_gemm uw_dense_bw_input_gemm_ref(const struct uw_dense *d, uint32_t batch_n,
                                          bool accumulate);
struct uw_gemm uw_dense_bw_param_gemm_ref(const struct uw_dense *d, uint32_t batch_n, float scale);

/* Maximum of a window of plane x whose first tap is at (top, left); winner: its tap number. The
 * first NaN wins, else the first of the largest. */
float uw_window_max_ref(const struct uw_pool2d *p, const float *x, int64_t top, int64_t left,
                        uint8_t *winner);

/* For batch norm's loops: one channel's rows, and its parameters. `count` rows of n floats, stride
 * floats apart; data `ahead` floats further is to be prefetched. */
struct norm_rows {
    size_t count, stride, n, ahead;
};

struct norm_channel {
    float mean, second, gamma, beta;
    float ceiling;              /* 0: no ReLU */
};

int uw_batchnorm_running_ref(const struct uw_exec *e, const struct uw_norm *n,
                             const float *running_mean, const float *running_var, float *stats);

int uw_dropout_ref(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first, size_t n,
                   const float *x, float *y, bool accumulate);
int uw_gather_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                  const float *x, const float *w, float *y);
int uw_scatter_add_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                       const float *x, const float *dy, float scale, float *dw);

#endif
