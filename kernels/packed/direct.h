/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.h - convolution plane by plane, for groups too thin to fill a register tile
 *
 * Planes of one channel, of one image or of several small ones, are copied into a run: rows one
 * behind another with the zeros between them that the taps need, which a row's end shares with the
 * next one's beginning. Split by the strides, every tap of the kernel then sees one stretch of
 * memory, whatever the size of a plane, and each part is sums of long runs, all taps at once. Runs
 * are tasks; results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_direct_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_DIRECT_H
#define UW_KERNELS_DIRECT_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* Can runs and tasks be counted? The rest of this file asks for that. */
bool uw_direct_fits(const struct uw_conv2d *c, uint32_t batch_n);

/* Does for smaller minibatches too. */
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
