/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels_fused.h - optional slots of the kernel table that fuse two operations
 *
 * For GPUs, where passes over memory cost most. Layout, memory, context, errors and numerics are
 * those of uwasa/kernels.h, which includes this.
 */
#ifndef UWASA_KERNELS_FUSED_H
#define UWASA_KERNELS_FUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_conv2d;
struct uw_dense;
struct uw_exec;
struct uw_input_norm;
struct uw_kernels;
struct uw_norm;

/* Arguments of dense_bw. */
struct uw_dense_back {
    uint32_t batch_n;
    const float *x, *w, *dy;
    const float *y;             /* output of the ReLU behind; NULL: no ReLU */
    float ceiling;
    float *dx;                  /* may be NULL */
    bool accumulate;            /* dx += */
    float *dw, *db;             /* += ; db may be NULL */
};

/* Values are [batch_n][channels][inner_n]. A ReLU clamps to 0 .. ceiling (infinity: no ceiling) and
 * keeps NaN; its gradient is dy where 0 < y < ceiling, else 0. */
struct uw_fused_kernels {
    /* y = min(max(conv2d_fw's y + b[c], 0), ceiling), with its scratch; b may be NULL: 0. c is not
     * normed. */
    int (*conv2d_bias_relu)(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *x, const float *w, const float *b, float ceiling,
                            float *y);
    /* dy becomes the gradient in front of the ReLU whose output is y; sums[c] = sum over n, i of
     * it. sums may be NULL. */
    int (*relu_bw)(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                   float ceiling, const float *y, float *dy, float *sums);
    /* relu_bw of n values without sums, and dx = what dy became; accumulate: dx += instead. */
    int (*relu_bw_copy)(const struct uw_exec *e, size_t n, float ceiling, const float *y,
                        float *dy, float *dx, bool accumulate);
    /* y = a + b, with ceiling > 0 min(max(a + b, 0), ceiling); y may be a or b. */
    int (*add_relu)(const struct uw_exec *e, size_t n, const float *a, const float *b,
                    float ceiling, float *y);
    /* y = min(max(dense_fw's y, 0), ceiling) */
    int (*dense_relu)(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float ceiling, float *y);
    /* relu_bw (without changing dy), dense_bw_input and dense_bw_param in one, with the same
     * results, if dense_bw_takes allows it. */
    bool (*dense_bw_takes)(const struct uw_kernels *k, const struct uw_dense *d, uint32_t batch_n);
    int (*dense_bw)(const struct uw_exec *e, const struct uw_dense *d,
                    const struct uw_dense_back *b);
    /* batchnorm_bw_sums_input of uwasa/kernels_layers.h with sums[0] in dbeta, sums[1] in dgamma,
     * both written; batchnorm_bw_sums with dx NULL. norm has the statistics, gamma and beta; its
     * ceiling is n's. */
    int (*batchnorm_bw)(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const struct uw_input_norm *norm, const float *dy,
                        float *dgamma, float *dbeta, float *dx, bool accumulate);
    /* Does bw_param need another pass over dy for a bias? Sums of relu_bw avoid it. */
    bool (*conv2d_bias_apart)(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n);
    bool (*dense_bias_apart)(const struct uw_kernels *k, const struct uw_dense *d,
                             uint32_t batch_n);
};

#endif
