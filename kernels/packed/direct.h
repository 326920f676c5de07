/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.h - direct convolution for groups with too few channels for a register tile (depthwise)
 *
 * The planes of one channel, from one image or several small ones, are copied into a buffer (a
 * run): row after row, with the padding zeros in between shared by the end of a row and the start
 * of the next. With a stride, each phase is stored separately. Every tap then reads one contiguous
 * range, so the inner loops are long vector sums over all taps, even for small planes. A task is
 * one run; results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_direct_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_DIRECT_H
#define UW_KERNELS_DIRECT_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* Do the sizes of runs and the number of tasks not overflow? The other functions require it. */
bool uw_direct_fits(const struct uw_conv2d *c, uint32_t batch_n);

/* Enough for smaller minibatches too. */
size_t uw_direct_scratch_bytes(const struct uw_conv2d *c, uint32_t batch_n, uint32_t threads);

/* As the slots of uwasa/kernels.h; dw is not NULL, db is the caller's.
 * Return UW_OK or UW_ERR_NOMEM. */
int uw_direct_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                 const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_direct_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate);
int uw_direct_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw);

#endif
