/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.h - Winograd convolution for 3 x 3 and 5 x 5 kernels
 *
 *   fw         y  = A^T [(G w G^T) . (B^T x B)] A, summed over input channels
 *   bw_input   the same with dy for x and the taps reversed
 *   bw_param   dw = G^T [(A dy A^T) . (B^T x B)] G, summed over tiles
 *
 * F(2 x 2, 3 x 3) needs 16 multiplications instead of 36, F(4 x 4, 3 x 3) 36 instead of 144,
 * F(2 x 2, 5 x 5) 36 instead of 100. The sums over channels or tiles are matrix products, one for
 * each position of a transformed tile. The rounding error (root mean square) is about that of a
 * direct convolution for 4 x 4 tiles, and four times that for 6 x 6 tiles.
 *
 * Groups are computed one by one. The order of each sum depends on the shape alone: results do not
 * depend on threads. A NaN reaches every output of the tiles that read it; infinity may become NaN
 * there.
 *
 * Memory     scratch from the caller, uw_winograd_scratch_bytes()
 * Blocking   until computed      Context  any thread
 * Source     A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016
 */
#ifndef UW_KERNELS_WINOGRAD_H
#define UW_KERNELS_WINOGRAD_H

#include "packed/tile.h"
#include "packed/winograd_tile.h"
#include "uwasa/kernels.h"

enum uw_winograd_part { UW_WINOGRAD_FW, UW_WINOGRAD_BW_INPUT, UW_WINOGRAD_BW_PARAM };

/* The tile size for a part; NULL where Winograd is not faster than a packed product, or its scratch
 * is too large compared with the images. Does not depend on threads. */
const struct uw_winograd_kind *uw_winograd_kind(const struct uw_tile *t,
                                                const struct uw_conv2d *c,
                                                enum uw_winograd_part part, uint32_t batch_n);

/* The largest scratch of the parts that have a tile size. */
size_t uw_winograd_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                 uint32_t batch_n, uint32_t threads);

/* Run a part that has a tile size; contracts as those of the slots in uwasa/kernels.h. */
int uw_winograd_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                   const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_winograd_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *dy, const float *w, float *dx, bool accumulate);
int uw_winograd_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *x, const float *dy, float scale, float *dw);

/* Scratch of one part: fw or bw_input, and bw_param. */
size_t uw_winograd_image_scratch_bytes(const struct uw_tile *t,
                                       const struct uw_winograd_kind *kind,
                                       const struct uw_conv2d *c, bool bw_input, uint32_t batch_n,
                                       uint32_t threads);
size_t uw_winograd_param_scratch_bytes(const struct uw_tile *t,
                                       const struct uw_winograd_kind *kind,
                                       const struct uw_conv2d *c, uint32_t batch_n,
                                       uint32_t threads);

/* Upper limit of a part's scratch with one thread. */
size_t uw_winograd_scratch_limit(const struct uw_conv2d *c, uint32_t batch_n);

#endif
