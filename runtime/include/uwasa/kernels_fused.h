/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels_fused.h - slots of the kernel table that do the work of two in one pass
 *
 * Where passes over memory cost most, on a GPU; a table may have none of them, and then all of its
 * results are those of the single slots. Layout, memory, context, errors and numerics are those of
 * uwasa/kernels.h, which includes this.
 */
#ifndef UWASA_KERNELS_FUSED_H
#define UWASA_KERNELS_FUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_conv2d;
struct uw_dense;
struct uw_exec;
struct uw_kernels;

/* Values are [batch_n][channels][inner_n]. A ReLU cuts to 0 .. ceiling (infinity: no ceiling), NaN
 * stays; its gradient is dy where 0 < y < ceiling, else 0. */
struct uw_fused_kernels {
    /* y = min(max(y + b[c], 0), ceiling); b may be NULL: 0. */
    int (*bias_relu)(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                     const float *b, float ceiling, float *y);
    /* y = min(max(conv2d_fw's y + b[c], 0), ceiling), with its scratch; b may be NULL: 0. c is not
     * normed. */
    int (*conv2d_bias_relu)(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *x, const float *w, const float *b, float ceiling,
                            float *y);
    /* dy becomes the gradient in front of the ReLU whose output is y; sums[c] = sum over n, i of
     * it. sums may be NULL. */
    int (*relu_bw)(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                   float ceiling, const float *y, float *dy, float *sums);
    /* y = a + b, with ceiling > 0 min(max(a + b, 0), ceiling); y may be a or b. */
    int (*add_relu)(const struct uw_exec *e, size_t n, const float *a, const float *b,
                    float ceiling, float *y);
    /* Does bw_param go over dy once more for a bias? Then sums of relu_bw spare that. */
    bool (*conv2d_bias_apart)(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n);
    bool (*dense_bias_apart)(const struct uw_kernels *k, const struct uw_dense *d,
                             uint32_t batch_n);
};

#endif
