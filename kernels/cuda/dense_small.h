/* SPDX-License-Identifier: Apache-2.0
 *
 * dense_small.h - dense layers for a few samples (private to kernels/cuda)
 *
 * For few samples, reading the weights or the launch itself takes most of the time. Each weight is
 * read once for all samples; bias and update are fused. Shapes: dense_fw etc. of uwasa/kernels.h.
 *
 * Memory     none      Blocking   never; may be recorded into a graph
 */
#ifndef UW_KERNELS_CUDA_DENSE_SMALL_H
#define UW_KERNELS_CUDA_DENSE_SMALL_H

#include "gpu.h"

UW_C_BEGIN

/* Is it worth measuring? Up to 64 samples; above 8 (which share one read of the weights) only small
 * layers. */
bool uw_dense_small_takes(const struct uw_dense *d, uint32_t batch_n);

/* ceiling above 0: y is clamped to 0 .. ceiling. */
int uw_dense_small_fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float ceiling, float *y);
int uw_dense_small_bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate);
/* w = keep * w + scale * gradient of w, b likewise; b may be NULL. keep 1: dense_bw_param. */
int uw_dense_small_bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *x, const float *dy, float keep, float scale, float *w,
                            float *b);
/* dense_bw of uwasa/kernels_fused.h. */
int uw_dense_small_bw(const struct uw_exec *e, const struct uw_dense *d,
                      const struct uw_dense_back *b);
int uw_dense_small_bw_bias(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, float keep, float scale, float *b);

UW_C_END
#endif
