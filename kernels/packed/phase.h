/* SPDX-License-Identifier: Apache-2.0
 *
 * phase.h - the input gradient of a strided convolution as convolutions without stride
 *
 * The gradient of input pixel p sums output pixels (p + pad - tap * dilation) / stride over the
 * taps for which that is a whole number. Pixels a stride apart have the same taps; they form a
 * phase. The gradient of one phase is a convolution without stride, which multiplies no zeros.
 *
 * Units      pixels
 */
#ifndef UW_KERNELS_PHASE_H
#define UW_KERNELS_PHASE_H

#include "uwasa/kernels.h"

/* One axis of a phase: pixels first, first + stride, ..; taps tap, tap + tap_step, .. */
struct uw_phase_axis {
    uint32_t first, pixels;
    uint32_t tap, tap_step, taps;   /* taps 0: the gradient is 0 */
    uint32_t dilation;              /* from tap to tap, in pixels of the output gradient */
    int64_t before;                 /* zeros to pad in front of the output gradient */
};

struct uw_phase {
    struct uw_phase_axis h, w;
};

/* Phase i of a convolution; false when there are no more. Every pixel is in exactly one phase. */
bool uw_phase_of(const struct uw_conv2d *c, uint32_t i, struct uw_phase *phase);
uint32_t uw_phases(const struct uw_conv2d *c);

#endif
