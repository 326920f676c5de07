/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd.h - 3 x 3 convolution with 16 multiplications where the definition takes 36
 *
 *   fw         y  = A^T [(G w G^T) . (B^T x B)] A, summed over input channels
 *   bw_input   the same with dy for x and the taps reversed
 *   bw_param   dw = G^T [(A dy A^T) . (B^T x B)] G, summed over tiles
 *
 * for tiles of 2 x 2 outputs that see 4 x 4 inputs. The sums over channels or tiles are sixteen
 * matrix products, one for each position of a transformed tile.
 *
 * Blocks are cut by shape alone and each sum has one order: results do not depend on threads. A
 * NaN reaches every output of the tiles that see it; infinity may become NaN there.
 *
 * Memory     scratch from the caller, uw_winograd_scratch_bytes()
 * Blocking   until computed      Context  any thread
 * Source     A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016
 */
#ifndef UW_KERNELS_WINOGRAD_H
#define UW_KERNELS_WINOGRAD_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* Whether this is faster than a product of an unrolled image, and the scratch is in proportion:
 * a shape that fits in a minibatch fits in every larger one. */
bool uw_winograd_fits(const struct uw_tile *t, const struct uw_conv2d *c, uint32_t batch_n);

/* Scratch of the largest of the three parts, of a shape that fits. */
size_t uw_winograd_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                 uint32_t batch_n, uint32_t threads);

/* The parts; for shapes that fit, contracts as those of the slots. */
int uw_winograd_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                   const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_winograd_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *dy, const float *w, float *dx, bool accumulate);
int uw_winograd_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *x, const float *dy, float scale, float *dw);

/* Scratch of bw_param alone. */
size_t uw_winograd_param_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                                       uint32_t batch_n, uint32_t threads);

#endif
