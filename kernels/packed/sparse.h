/* SPDX-License-Identifier: Apache-2.0
 *
 * sparse.h - gradients of a convolution whose output's gradient is mostly zeros
 *
 * Below a max pool of k x k windows at most one in k * k elements of dy differs from zero, fewer
 * still where a ReLU cut. Each of those elements alone is multiplied, by all its taps: lanes are
 * channels of the input, which is turned so that a pixel's channels are neighbours, or where it has
 * too few, taps of a row. What a NaN or an infinity in x or w would make of a zero is not computed.
 *
 * Every sum goes through the pixels of dy in one order: results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_sparse_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_SPARSE_H
#define UW_KERNELS_SPARSE_H

#include "packed/small.h"

/* Is it worth it, for this dy and scratch that holds UW_SMALL_BW_INPUT's or UW_SMALL_BW_PARAM's
 * uw_sparse_scratch_bytes()? */
bool uw_sparse_is_worth(const struct uw_tile *t, const struct uw_conv2d *c,
                        enum uw_small_part part, uint32_t batch_n, const float *dy);

/* Scratch of a part; 0: it never goes this way. */
size_t uw_sparse_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                               enum uw_small_part part);

/* As the slots of uwasa/kernels.h; dw is not NULL, db is the caller's.
 * Return UW_OK or UW_ERR_NOMEM. */
int uw_sparse_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate);
int uw_sparse_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw);

#endif
