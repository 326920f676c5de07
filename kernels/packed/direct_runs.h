/* SPDX-License-Identifier: Apache-2.0
 *
 * direct_runs.h - the layout of a run (private to direct.h)
 *
 * Units      floats, but for positions, rows and images
 */
#ifndef UW_KERNELS_DIRECT_RUNS_H
#define UW_KERNELS_DIRECT_RUNS_H

#include "packed/planes_tile.h"

#define UW_PLANE_MAX 0x10000000u    /* floats */

/* One axis of a convolution. The padded input is split into phases: position j of phase p is its
 * element j * stride + p. Tap k of output o reads position o + k * dilation / stride of phase
 * k * dilation % stride. Only positions < reach of phases < phases are read. */
struct uw_axis {
    uint32_t in, out, kernel, stride, pad, dilation;
    uint32_t phases;
    size_t reach;
};

struct uw_axis uw_axis_of(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                          uint32_t pad, uint32_t dilation);

/* Positions lo .. hi-1 of a phase hold input; position lo is element `at` of the input. */
struct uw_seen {
    size_t lo, hi, at;
};

struct uw_seen uw_axis_seen(const struct uw_axis *a, uint32_t phase);

/* Is every element of the input read by some tap? */
bool uw_axis_is_covered(const struct uw_axis *a);

/* Is the input split into two phases, so that one pass can fill both? */
static inline bool uw_axis_has_pairs(const struct uw_axis *a)
{
    return a->stride == 2 && a->phases == 2;
}

/* A tap's phase and position. */
struct uw_tap {
    uint32_t phase;
    size_t at;
};

static inline struct uw_tap uw_axis_tap(const struct uw_axis *a, uint32_t k)
{
    size_t at = (size_t)k * a->dilation;
    if (a->stride == 1) {
        return (struct uw_tap){0, at};
    }
    return (struct uw_tap){(uint32_t)(at % a->stride), at / a->stride};
}

/* The layout of one axis in a run. The outputs are begin .. begin+n-1 (of y, or of a phase of dx).
 * A line has `length` floats; the source begins `lead` floats after the start of its line (0 when
 * the phases have their own positions, uw_seen). Zeros at a line's end also pad the next one. */
struct uw_line {
    size_t begin, n, length, lead;
};

/* Runs of several images. Source position (image, r, c) is at image * image_n + r * pitch + c; an
 * output reads from its own position onwards. */
struct uw_plane_runs {
    struct uw_line h, w;
    size_t pitch, image_n;
    uint32_t images, count;     /* images of a run, runs of a batch */
    size_t shift;               /* from an output to the last position that it reads */
    size_t x_n, y_n;            /* floats of a phase and of the outputs; SIZE_MAX: too large */
};

/* of_input: the outputs are dx, the source is dy. */
struct uw_plane_runs uw_plane_runs_of(const struct uw_axis *h, const struct uw_axis *w,
                                      bool of_input, uint32_t batch_n);

/* Floats from the first to the last output of that many images, a multiple of UW_PLANES_RUN_N. */
size_t uw_plane_runs_n(const struct uw_plane_runs *r, uint32_t images);

#endif
