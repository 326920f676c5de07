/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels_layers.h - slots of the kernel table for normalization, activations, copies,
 * sequences, losses and updates
 *
 * Each family is a struct of slots that `struct uw_kernels` points to. A backend overrides families
 * as a whole. Layout, memory, context, errors and numerics are those of uwasa/kernels.h, which
 * includes this.
 */
#ifndef UWASA_KERNELS_LAYERS_H
#define UWASA_KERNELS_LAYERS_H

#include "uwasa/kernels_recurrence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_exec;
struct uw_lrn;

/* A sample is [channels][inner]. Group norm: statistics of each sample over channels / groups *
 * inner values, one weight and bias per channel. Layer norm: groups = 1, inner = 1, each row is a
 * sample. Batch norm: statistics of each channel over the minibatch and inner. */
struct uw_norm {
    uint32_t channels, inner, groups;
    float epsilon, momentum;
    float ceiling;                  /* batch norm: > 0 includes a ReLU, see batchnorm_fw; else 0 */
};

/* Statistics are pairs (mean, 1 / sqrt(biased variance + epsilon)); xhat = (x - mean) * second.
 * gamma, beta may be NULL: 1 and 0. */
struct uw_norm_kernels {
    /* y = gamma * xhat + beta; stats [batch_n][groups][2] written, may be NULL. */
    int (*groupnorm_fw)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *gamma, const float *beta, float *y,
                        float *stats);
    int (*groupnorm_bw_input)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *gamma, const float *stats,
                              const float *dy, float *dx, bool accumulate);
    /* dgamma += scale * sum of dy * xhat, dbeta += scale * sum of dy; either may be NULL. */
    int (*groupnorm_bw_param)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *dy, float scale,
                              float *dgamma, float *dbeta);
    /* stats [channels][2] of the minibatch; running (may be NULL) += momentum * (statistic -
     * running), the variance unbiased as in PyTorch; a single value does not change running_var. */
    int (*batchnorm_stats)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                           const float *x, float *stats, float *running_mean,
                           float *running_var);
    /* stats [channels][2] from running statistics. */
    int (*batchnorm_running)(const struct uw_exec *e, const struct uw_norm *n,
                             const float *running_mean, const float *running_var, float *stats);
    /* v = gamma * xhat + beta; y = v, or min(max(v, 0), ceiling) with a ReLU (infinity: no
     * ceiling). NaN stays. */
    int (*batchnorm_fw)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *stats, const float *gamma, const float *beta,
                        float *y);
    /* sums[0][channels] = sum of dv, sums[1][channels] = sum of dv * xhat; dv = dy, with a ReLU
     * where 0 < v < ceiling, else 0. */
    int (*batchnorm_bw_sums)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *stats, const float *gamma,
                             const float *beta, const float *dy, float *sums);
    /* dx from dv; dx may be dy. sums == NULL: the statistics are constants. */
    int (*batchnorm_bw_input)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *gamma,
                              const float *beta, const float *sums, const float *dy, float *dx,
                              bool accumulate);
    /* batchnorm_stats and batchnorm_fw in one, and the two slots of the backward pass in one, with
     * the same results and better use of the cache. If a channel of dx is not finite, its sums[0]
     * is NaN. */
    int (*batchnorm_stats_fw)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, float *stats, float *running_mean,
                              float *running_var, const float *gamma, const float *beta, float *y);
    int (*batchnorm_bw_sums_input)(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *stats,
                                   const float *gamma, const float *beta, const float *dy,
                                   float *sums, float *dx, bool accumulate);
    /* y = x / (k + alpha / size * sum of x^2 over the window of channels)^beta; the window of
     * channel c is c - size / 2 .. c + (size - 1) / 2. */
    int (*lrn_fw)(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                  const float *x, float *y);
    int (*lrn_bw_input)(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                        const float *x, const float *dy, float *dx, bool accumulate);
    size_t (*lrn_scratch_bytes)(const struct uw_lrn *l, uint32_t threads);
};

struct uw_lrn {
    uint32_t channels, inner, size;
    float alpha, beta, k;
};

enum uw_activation_kind {
    UW_ACTIVATION_RELU6 = 0,
    UW_ACTIVATION_LEAKY_RELU,
    UW_ACTIVATION_SIGMOID,
    UW_ACTIVATION_TANH,
    UW_ACTIVATION_GELU,             /* x * Phi(x), by the error function */
    UW_ACTIVATION_GELU_TANH,
    UW_ACTIVATION_SILU
};
#define UW_ACTIVATION_FUNCTION 16u  /* and an enum uw_function on top */

struct uw_activation {
    uint32_t kind;                  /* enum uw_activation_kind, or UW_ACTIVATION_FUNCTION + one */
    float slope;                    /* leaky ReLU, above 0 */
    float a, b;                     /* of a function */
};

struct uw_dropout {
    uint64_t noise;                 /* of the step */
    uint32_t layer;
    float rate;                     /* below 1 */
};

struct uw_activation_kernels {
    /* y = f(x); y may be x. */
    int (*forward)(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                   const float *x, float *y);
    /* dx = f'(x) dy; v is y, or x for GELU, SiLU and functions. dx may be dy; accumulate:
     * dx += instead. */
    int (*bw_input)(const struct uw_exec *e, const struct uw_activation *a, size_t n,
                    const float *v, const float *dy, float *dx, bool accumulate);
    /* y[i] = x[i] / (1 - rate) where element first + i of stream uw_rng_mix(noise, layer) is kept,
     * else 0. Also computes the gradient, from dy. y may be x; accumulate: y += instead. */
    int (*dropout)(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first, size_t n,
                   const float *x, float *y, bool accumulate);
};

/* Blocks i < rows of row_n floats, from x + i * x_step to y + i * y_step. */
struct uw_copy {
    size_t rows, row_n, x_step, y_step;
};

/* Permutation of axes of size dim: output axis i is input axis order[i]. */
struct uw_permute {
    uint32_t dim[3], order[3];
};

struct uw_copy_kernels {
    /* accumulate: y += instead. */
    int (*copy)(const struct uw_exec *e, const struct uw_copy *c, const float *x, float *y,
                bool accumulate);
    int (*permute)(const struct uw_exec *e, const struct uw_permute *p, uint32_t batch_n,
                   const float *x, float *y, bool accumulate);
    /* y[i] = w[x[i]], rows of row_n floats; UW_ERR_INVALID: an index is not an integer < rows. */
    int (*gather)(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                  const float *x, const float *w, float *y);
    /* dw[x[i]] += scale * dy[i]; in the order of i. */
    int (*scatter_add)(const struct uw_exec *e, size_t n, uint32_t rows, uint32_t row_n,
                       const float *x, const float *dy, float scale, float *dw);
    /* db[j] += scale * sum over i of dy[i * step + j], j < n. */
    int (*sum_rows)(const struct uw_exec *e, size_t rows, uint32_t n, size_t step, const float *dy,
                    float scale, float *db);
};

struct uw_recurrent {
    uint32_t steps, in, hidden;
    bool reverse, last, relu;
};

struct uw_attention {
    uint32_t steps, features, heads;
    bool causal;
};

/* One time step of batch_n sequences. A row of gates a holds blocks of `hidden` floats: before the
 * forward pass the products W_ih x and W_hh h, after it the activated gates, after the backward
 * pass their gradients. Biases may be NULL: 0. The previous state may be NULL: 0; it may be the
 * same memory as the new one. */
struct uw_cell {
    uint32_t batch_n, hidden;
    size_t a_step, h_step;          /* floats from one sample to the next: gates, states */
    size_t dy_step;                 /* the same of dy */
    bool relu;                      /* rnn: ReLU in place of tanh */
};

/* Sequences. In the bw slots dy (may be NULL: 0) is the gradient of h from outside, dh
 * [batch_n][hidden] that from the later step; gradients of pre-activations replace the gates. */
struct uw_sequence_kernels {
    /* h = tanh or ReLU of a + b_ih + b_hh */
    int (*rnn_fw)(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *a, float *h);
    /* a = (dy + dh) * f'(h); dh is unchanged. */
    int (*rnn_bw)(const struct uw_exec *e, const struct uw_cell *c, const float *h,
                  const float *dy, float *a, const float *dh);
    /* a is [r z n m]. Before: W_ir x + W_hr h, W_iz x + W_hz h, W_in x, W_hn h (the last is not
     * read when h_prev is NULL).
     *   r, z = sigmoid(. + b_ih + b_hh);  m += b_hn;  n = tanh(. + b_in + r m)
     *   h = (1 - z) n + z h_prev */
    int (*gru_fw)(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *h_prev, float *a, float *h);
    /* dh becomes the part of h_prev's gradient without weights, (dy + dh) z. */
    int (*gru_bw)(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev,
                  const float *dy, float *a, float *dh);
    /* a is [i f g o c], PyTorch's order and the cell state; rows of c_prev are a_step apart, too.
     *   i, f, o = sigmoid(.), g = tanh(.) with b_ih + b_hh;  c = f c_prev + i g;  h = o tanh(c) */
    int (*lstm_fw)(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                   const float *b_hh, const float *c_prev, float *a, float *h);
    /* dc [batch_n][hidden]: in, the gradient of c from the later step; out, that of c_prev. dh and
     * c are unchanged. */
    int (*lstm_bw)(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev,
                   const float *dy, float *a, const float *dh, float *dc);
    /* y[r][j] = softmax over the first `seen` of n columns, seen = causal ? r % n + 1 : n, the
     * others 0; y may be x. */
    int (*softmax_fw)(const struct uw_exec *e, size_t rows, uint32_t n, bool causal,
                      const float *x, float *y);
    /* dx = y * (dy - sum of y * dy); dx may be dy. */
    int (*softmax_bw_input)(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                            const float *dy, float *dx);
    const struct uw_recurrence_kernels *recurrence;     /* NULL: none */
};

/* Elementwise losses; n values, z the outputs, t the targets. */
enum uw_elementwise_loss {
    UW_ELEMENTWISE_BCE = 0,         /* of logits: max(z, 0) - z t + log(1 + exp(-|z|)) */
    UW_ELEMENTWISE_MSE,             /* (z - t)^2 */
    UW_ELEMENTWISE_L1,              /* |z - t| */
    UW_ELEMENTWISE_HUBER            /* d^2 / 2 up to delta, then delta (|d| - delta / 2) */
};

struct uw_loss_kernels {
    /* *sum = sum of the losses of n values */
    int (*forward)(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
                   const float *z, const float *t, double *sum);
    /* dz = scale * derivative; dz may be t. */
    int (*bw_input)(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
                    const float *z, const float *t, float scale, float *dz);
};

/* One step of Adam: g += weight_decay * w (adamw: w -= lr * weight_decay * w instead);
 *   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *   w -= lr * (m / correction1) / (sqrt(v / correction2) + epsilon) */
struct uw_adam {
    float lr, beta1, beta2, epsilon, weight_decay;
    float correction1, correction2; /* 1 - beta^t */
    bool decoupled;                 /* AdamW */
};

/* One step of RMSprop: g += weight_decay * w;  v = alpha v + (1 - alpha) g^2;
 *   d = g / (sqrt(v) + epsilon);  b = momentum b + d;  w -= lr * b, or lr * d without momentum */
struct uw_rmsprop {
    float lr, alpha, epsilon, weight_decay, momentum;
};

struct uw_update_kernels {
    /* Update w, m and v of n parameters from g. */
    int (*adam)(const struct uw_exec *e, size_t n, const struct uw_adam *a, const float *g,
                float *w, float *m, float *v);
    /* b may be NULL without momentum. */
    int (*rmsprop)(const struct uw_exec *e, size_t n, const struct uw_rmsprop *r, const float *g,
                   float *w, float *v, float *b);
};

#endif
