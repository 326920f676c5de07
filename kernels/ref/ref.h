/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.h - the reference slots by name, so that a tuned table can borrow what it does not tune
 *
 * Contracts are those of the slots in uwasa/kernels.h. */
#ifndef UW_KERNELS_REF_H
#define UW_KERNELS_REF_H

#include "uwasa/kernels.h"

/* Output positions lo .. hi-1 along one axis for which a tap lies inside the input. */
struct uw_span {
    uint32_t lo, hi;
};

/* Positions o of out_n with 0 <= o * stride + tap * dilation - pad < in_n; lo == hi when none. */
struct uw_span uw_span_of_tap(uint32_t out_n, uint32_t in_n, uint32_t stride, uint32_t pad,
                              uint32_t tap, uint32_t dilation);

/* Sums of products run in blocks of so many terms, see uwasa/exact.h. */
#define UW_BLOCK_REF 64u

/* Rows of out_w values that make one block. */
static inline uint32_t uw_block_rows_ref(uint32_t out_w)
{
    return out_w < UW_BLOCK_REF ? UW_BLOCK_REF / out_w : 1;
}

/* Sum of x[i] * y[i]. */
float uw_dot_ref(size_t n, const float *x, const float *y);

int uw_gemm_ref(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c);
size_t uw_gemm_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_gemm *g,
                                 uint32_t threads);

int uw_conv2d_fw_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_conv2d_bw_input_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate);
int uw_conv2d_bw_param_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db);
bool uw_conv2d_takes_norm_ref(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n);
size_t uw_conv2d_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_conv2d *c,
                                   uint32_t batch_n, uint32_t threads);

int uw_add_channels_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *b, float *y);
int uw_sum_channels_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *dy, float scale, float *db);

/* The products that dense is; the first one puts the bias, where there is one, into y. */
struct uw_gemm uw_dense_fw_gemm_ref(const struct uw_dense *d, uint32_t batch_n, const float *b,
                                    float *y);
struct uw_gemm uw_dense_bw_input_gemm_ref(const struct uw_dense *d, uint32_t batch_n,
                                          bool accumulate);
struct uw_gemm uw_dense_bw_param_gemm_ref(const struct uw_dense *d, uint32_t batch_n, float scale);

int uw_dense_fw_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y);
int uw_dense_bw_input_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate);
int uw_dense_bw_param_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db);
/* Made of the slots of e->kernels. */
int uw_dense_bw_step_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                         const float *x, const float *dy, float keep, float scale, float *w,
                         float *b, float *dx, bool accumulate);
size_t uw_dense_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_dense *d,
                                  uint32_t batch_n, uint32_t threads);

/* Largest of the window of one plane x whose first tap is (top, left), and its tap number. A NaN
 * wins over every number, the first one over later ones. */
float uw_window_max_ref(const struct uw_pool2d *p, const float *x, int64_t top, int64_t left,
                        uint8_t *winner);
int uw_maxpool2d_fw_ref(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y, uint8_t *winner);
int uw_maxpool2d_bw_input_ref(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, const uint8_t *winner, float *dx,
                              bool accumulate);

int uw_avgpool2d_fw_ref(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y);
int uw_avgpool2d_bw_input_ref(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, float *dx, bool accumulate);

int uw_relu_fw_ref(const struct uw_exec *e, size_t n, const float *x, float *y);
int uw_relu_bw_input_ref(const struct uw_exec *e, size_t n, const float *y, const float *dy,
                         float *dx, bool accumulate);
int uw_softmax_xent_fw_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                           float smoothing, const float *logits, const uint32_t *label, float *p,
                           double *loss_sum, uint32_t *correct_n);
int uw_softmax_xent_bw_input_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                 float smoothing, const float *p, const uint32_t *label,
                                 float scale, float *dlogits);
int uw_axpby_ref(const struct uw_exec *e, size_t n, float a, const float *x, float b, float *y);
int uw_sgd_update_ref(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                      float *w, float *v);
bool uw_all_finite_ref(const struct uw_exec *e, size_t n, const float *x);
double uw_distance_sq_ref(const struct uw_exec *e, size_t n, const float *x, const float *y);

extern const struct uw_copy_kernels uw_copy_ref;
extern const struct uw_sequence_kernels uw_sequence_ref;
int uw_batchnorm_running_ref(const struct uw_exec *e, const struct uw_norm *n,
                             const float *running_mean, const float *running_var, float *stats);

int uw_dropout_ref(const struct uw_exec *e, uint64_t key, uint64_t first, size_t n, float rate,
                   const float *x, float *y, bool accumulate);
int uw_gather_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                  const float *x, const float *w, float *y);
int uw_scatter_add_ref(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                       const float *x, const float *dy, float scale, float *dw);

extern const struct uw_norm_kernels uw_norm_ref;
extern const struct uw_activation_kernels uw_activation_ref;
extern const struct uw_loss_kernels uw_loss_ref;
extern const struct uw_update_kernels uw_update_ref;

#endif
