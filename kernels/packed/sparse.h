/* SPDX-License-Identifier: Apache-2.0
 *
 * sparse.h - gradients of a convolution when dy is mostly zeros
 *
 * Before a max pool with k x k windows at most one in k * k elements of dy is not zero, and fewer
 * with a ReLU. Only the non-zero elements are multiplied, by all their taps. Vector lanes are
 * channels of the input, which is transposed to [pixel][channel]; with too few channels they are
 * the taps of a kernel row. A NaN or infinity in x or w that meets a zero of dy has no effect.
 *
 * Each sum goes through the pixels of dy in a fixed order: results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_sparse_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_SPARSE_H
#define UW_KERNELS_SPARSE_H

#include "packed/small.h"

/* Is this dy sparse enough, and the shape supported? part is UW_SMALL_BW_INPUT or
 * UW_SMALL_BW_PARAM. */
bool uw_sparse_is_worth(const struct uw_tile *t, const struct uw_conv2d *c,
                        enum uw_small_part part, uint32_t batch_n, const float *dy);

/* Scratch of a part; 0: the shape is not supported. */
size_t uw_sparse_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                               enum uw_small_part part);

/* As the slots of uwasa/kernels.h; dw is not NULL, db is the caller's.
 * Return UW_OK or UW_ERR_NOMEM. */
int uw_sparse_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate);
int uw_sparse_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw);

#endif
