/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots that return UW_ERR_UNSUPPORTED, for operations that the model of a table does not use.
 * kernels/CMakeLists.txt disables warnings about their unused parameters. */
#include "uwasa/slots.h"
#include "uwasa/status.h"

#include <math.h>

#define REFUSE {return UW_ERR_UNSUPPORTED;}
#define ZERO {return 0;}
#define NO {return false;}
#define NOT_A_NUMBER {return (double)NAN;}

UW_PRODUCT_FUNCTIONS(none, REFUSE, ZERO, NO)
UW_OTHER_FUNCTIONS(none, REFUSE, NO, NOT_A_NUMBER)

static int copy_copy(const struct uw_exec *e, const struct uw_copy *c, const float *x, float *y,
                     bool accumulate) REFUSE

static int copy_permute(const struct uw_exec *e, const struct uw_permute *p, uint32_t batch_n,
                        const float *x, float *y, bool accumulate) REFUSE

static int copy_gather(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                       const float *x, const float *w, float *y) REFUSE

static int copy_scatter_add(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                            const float *x, const float *dy, float scale, float *dw) REFUSE

static int copy_sum_rows(const struct uw_exec *e, size_t rows, uint32_t n, size_t step,
                         const float *dy, float scale, float *db) REFUSE

const struct uw_copy_kernels uw_copy_none = {
    .copy = copy_copy,
    .permute = copy_permute,
    .gather = copy_gather,
    .scatter_add = copy_scatter_add,
    .sum_rows = copy_sum_rows,
};

static int sequence_rnn_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                           const float *b_hh, const float *a, float *h) REFUSE

static int sequence_rnn_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h,
                           const float *dy, float *a, const float *dh) REFUSE

static int sequence_gru_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                           const float *b_hh, const float *h_prev, float *a, float *h) REFUSE

static int sequence_gru_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev,
                           const float *dy, float *a, float *dh) REFUSE

static int sequence_lstm_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                            const float *b_hh, const float *c_prev, float *a, float *h) REFUSE

static int sequence_lstm_bw(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev,
                            const float *dy, float *a, const float *dh, float *dc) REFUSE

static int sequence_softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, bool causal,
                               const float *x, float *y) REFUSE

static int sequence_softmax_bw_input(const struct uw_exec *e, size_t rows, uint32_t n,
                                     const float *y, const float *dy, float *dx) REFUSE

const struct uw_sequence_kernels uw_sequence_none = {
    .rnn_fw = sequence_rnn_fw,
    .rnn_bw = sequence_rnn_bw,
    .gru_fw = sequence_gru_fw,
    .gru_bw = sequence_gru_bw,
    .lstm_fw = sequence_lstm_fw,
    .lstm_bw = sequence_lstm_bw,
    .softmax_fw = sequence_softmax_fw,
    .softmax_bw_input = sequence_softmax_bw_input,
};

static int norm_groupnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *gamma, const float *beta, float *y,
                             float *stats) REFUSE

static int norm_groupnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *gamma,
                                   const float *stats, const float *dy, float *dx, bool accumulate)
    REFUSE

static int norm_groupnorm_bw_param(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *stats,
                                   const float *dy, float scale, float *dgamma, float *dbeta) REFUSE

static int norm_batchnorm_stats(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                                const float *x, float *stats, float *running_mean,
                                float *running_var) REFUSE

static int norm_batchnorm_running(const struct uw_exec *e, const struct uw_norm *n,
                                  const float *running_mean, const float *running_var,
                                  float *stats) REFUSE

static int norm_batchnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *stats, const float *gamma,
                             const float *beta, float *y) REFUSE

static int norm_batchnorm_bw_sums(const struct uw_exec *e, const struct uw_norm *n,
                                  uint32_t batch_n, const float *x, const float *stats,
                                  const float *gamma, const float *beta, const float *dy,
                                  float *sums) REFUSE

static int norm_batchnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *stats,
                                   const float *gamma, const float *beta, const float *sums,
                                   const float *dy, float *dx, bool accumulate) REFUSE

static int norm_batchnorm_stats_fw(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, float *stats,
                                   float *running_mean, float *running_var, const float *gamma,
                                   const float *beta, float *y) REFUSE

static int norm_batchnorm_bw_sums_input(const struct uw_exec *e, const struct uw_norm *n,
                                        uint32_t batch_n, const float *x, const float *stats,
                                        const float *gamma, const float *beta, const float *dy,
                                        float *sums, float *dx, bool accumulate) REFUSE

static int norm_lrn_fw(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                       const float *x, float *y) REFUSE

static int norm_lrn_bw_input(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                             const float *x, const float *dy, float *dx, bool accumulate) REFUSE

static size_t norm_lrn_scratch_bytes(const struct uw_lrn *l, uint32_t threads) ZERO

const struct uw_norm_kernels uw_norm_none = {
    .groupnorm_fw = norm_groupnorm_fw,
    .groupnorm_bw_input = norm_groupnorm_bw_input,
    .groupnorm_bw_param = norm_groupnorm_bw_param,
    .batchnorm_stats = norm_batchnorm_stats,
    .batchnorm_running = norm_batchnorm_running,
    .batchnorm_fw = norm_batchnorm_fw,
    .batchnorm_bw_sums = norm_batchnorm_bw_sums,
    .batchnorm_bw_input = norm_batchnorm_bw_input,
    .batchnorm_stats_fw = norm_batchnorm_stats_fw,
    .batchnorm_bw_sums_input = norm_batchnorm_bw_sums_input,
    .lrn_fw = norm_lrn_fw,
    .lrn_bw_input = norm_lrn_bw_input,
    .lrn_scratch_bytes = norm_lrn_scratch_bytes,
};

static int activation_forward(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                              const float *x, float *y) REFUSE

static int activation_bw_input(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                               const float *v, const float *dy, float *dx, bool accumulate) REFUSE

static int activation_dropout(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first,
                              size_t n, const float *x, float *y, bool accumulate) REFUSE

const struct uw_activation_kernels uw_activation_none = {
    .forward = activation_forward,
    .bw_input = activation_bw_input,
    .dropout = activation_dropout,
};

static int loss_forward(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta,
                        size_t n, const float *z, const float *t, double *sum) REFUSE

static int loss_bw_input(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta,
                         size_t n, const float *z, const float *t, float scale, float *dz) REFUSE

const struct uw_loss_kernels uw_loss_none = {
    .forward = loss_forward,
    .bw_input = loss_bw_input,
};

static int update_adam(const struct uw_exec *e, size_t n, const struct uw_adam *a, const float *g,
                       float *w, float *m, float *v) REFUSE

static int update_rmsprop(const struct uw_exec *e, size_t n, const struct uw_rmsprop *r,
                          const float *g, float *w, float *v, float *b) REFUSE

static int tensor_arithmetic_fw(const struct uw_exec *e, const struct uw_arithmetic *g,
                                const float *a, const float *b, float *y) REFUSE

static int tensor_arithmetic_bw(const struct uw_exec *e, const struct uw_arithmetic *g,
                                uint32_t which, const float *a, const float *b, const float *dy,
                                float *dx, bool accumulate) REFUSE

static int tensor_reduce_fw(const struct uw_exec *e, const struct uw_reduce *r, const float *x,
                            float *y) REFUSE

static int tensor_reduce_bw(const struct uw_exec *e, const struct uw_reduce *r, const float *x,
                            const float *y, const float *dy, float *dx, bool accumulate) REFUSE

static int tensor_log_softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, const float *x,
                                 float *y) REFUSE

static int tensor_log_softmax_bw(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                                 const float *dy, float *dx) REFUSE

static int tensor_take_fw(const struct uw_exec *e, const struct uw_take *t, const float *x,
                          float *y) REFUSE

static int tensor_take_bw(const struct uw_exec *e, const struct uw_take *t, const float *dy,
                          float *dx, bool accumulate) REFUSE

const struct uw_tensor_kernels uw_tensor_none = {
    .arithmetic_fw = tensor_arithmetic_fw,
    .arithmetic_bw = tensor_arithmetic_bw,
    .reduce_fw = tensor_reduce_fw,
    .reduce_bw = tensor_reduce_bw,
    .log_softmax_fw = tensor_log_softmax_fw,
    .log_softmax_bw = tensor_log_softmax_bw,
    .take_fw = tensor_take_fw,
    .take_bw = tensor_take_bw,
};

const struct uw_update_kernels uw_update_none = {
    .adam = update_adam,
    .rmsprop = update_rmsprop,
};
