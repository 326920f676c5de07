/* SPDX-License-Identifier: Apache-2.0
 *
 * phase.h - the input gradient of a strided convolution, cut so that no zero is multiplied
 *
 * Input pixel p sees output pixel (p + pad - tap * dilation) / stride for those taps where that is
 * a whole number. Pixels that are a stride apart see the same taps: they are a phase, and with its
 * taps alone the gradient there is a convolution without stride.
 *
 * Units      pixels
 */
#ifndef UW_KERNELS_PHASE_H
#define UW_KERNELS_PHASE_H

#include "uwasa/kernels.h"

/* Of one axis: pixels first, first + stride, .. through taps tap, tap + tap_step, .. */
struct uw_phase_axis {
    uint32_t first, pixels;
    uint32_t tap, tap_step, taps;   /* no taps: nothing comes here */
    uint32_t dilation;              /* from tap to tap, in pixels of the output gradient */
    int64_t before;                 /* zeros before the output gradient */
};

struct uw_phase {
    struct uw_phase_axis h, w;
};

/* Phase i of a convolution, false when there are no more. Phases cut all pixels among them. */
bool uw_phase_of(const struct uw_conv2d *c, uint32_t i, struct uw_phase *phase);
uint32_t uw_phases(const struct uw_conv2d *c);

#endif
