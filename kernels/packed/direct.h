/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.h - convolution plane by plane, for groups too thin to fill a register tile
 *
 * An input plane is copied with its padding and split by the strides, so that every tap of the
 * kernel sees one stretch of memory: element (oh, ow) at oh * pitch + ow from where the tap
 * begins. Each part is then sums of long rows. Planes are tasks; results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_direct_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_DIRECT_H
#define UW_KERNELS_DIRECT_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* Can planes and tasks be counted? The rest of this file asks for that. */
bool uw_direct_fits(const struct uw_conv2d *c, uint32_t batch_n);

size_t uw_direct_scratch_bytes(const struct uw_conv2d *c, uint32_t threads);

/* As the slots of uwasa/kernels.h; dw is not NULL, db is the caller's.
 * Return UW_OK or UW_ERR_NOMEM. */
int uw_direct_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                 const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_direct_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate);
int uw_direct_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw);

#endif
