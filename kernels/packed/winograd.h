/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.h - 3 x 3 and 5 x 5 convolutions with fewer multiplications than the definition takes
 *
 *   fw         y  = A^T [(G w G^T) . (B^T x B)] A, summed over input channels
 *   bw_input   the same with dy for x and the taps reversed
 *   bw_param   dw = G^T [(A dy A^T) . (B^T x B)] G, summed over tiles
 *
 * F(2 x 2, 3 x 3) multiplies 16 times for 36, F(4 x 4, 3 x 3) 36 times for 144, F(2 x 2, 5 x 5)
 * 36 times for 100. The sums over channels or tiles are matrix products, one for each position of
 * a transformed tile. Results differ from the exact ones by about as much as those of the
 * definition for tiles of 4 x 4, by four times that for tiles of 6 x 6 (root mean square).
 *
 * Groups are computed one by one. Blocks are cut by shape alone and each sum has one order:
 * results do not depend on threads. A NaN reaches every output of the tiles that see it; infinity
 * may become NaN there.
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

/* The tiles of a part where this is faster than a product of an unrolled image, and its scratch in
 * proportion to the images; NULL otherwise. Does not depend on threads. */
const struct uw_winograd_kind *uw_winograd_kind(const struct uw_tile *t,
                                                const struct uw_conv2d *c,
                                                enum uw_winograd_part part, uint32_t batch_n);

/* Scratch of the largest of the parts that fit. */
size_t uw_winograd_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                 uint32_t batch_n, uint32_t threads);

/* The parts, where they have tiles; contracts as those of the slots. */
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

/* Most scratch that a part may take with one thread. */
size_t uw_winograd_scratch_limit(const struct uw_conv2d *c, uint32_t batch_n);

#endif
