/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/phase.h"
#include "packed/sizes.h"

static uint32_t phases_of_axis(uint32_t stride, uint32_t in_n)
{
    return stride < in_n ? stride : in_n;
}

static struct uw_phase_axis phase_of_axis(uint32_t first, uint32_t in_n, uint32_t kernel,
                                          uint32_t stride, uint32_t dilation, uint32_t pad)
{
    struct uw_phase_axis a = {.first = first, .pixels = (in_n - 1 - first) / stride + 1};
    int64_t at = (int64_t)first + pad;
    while (a.tap < kernel && a.tap < stride && (at - (int64_t)a.tap * dilation) % stride != 0) {
        a.tap++;
    }
    if (a.tap == kernel || a.tap == stride) {
        return a;
    }
    a.tap_step = least_multiple(stride, dilation);
    a.taps = (kernel - 1 - a.tap) / a.tap_step + 1;
    a.dilation = (uint32_t)((uint64_t)a.tap_step * dilation / stride);
    a.before = (int64_t)(a.taps - 1) * a.dilation - (at - (int64_t)a.tap * dilation) / stride;
    return a;
}

uint32_t uw_phases(const struct uw_conv2d *c)
{
    uint64_t n = (uint64_t)phases_of_axis(c->stride_h, c->in_h) *
                 phases_of_axis(c->stride_w, c->in_w);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

bool uw_phase_of(const struct uw_conv2d *c, uint32_t i, struct uw_phase *phase)
{
    uint32_t wide = phases_of_axis(c->stride_w, c->in_w);
    if (i >= uw_phases(c)) {
        return false;
    }
    phase->h = phase_of_axis(i / wide, c->in_h, c->kernel_h, c->stride_h, c->dilation_h,
                             c->pad_h);
    phase->w = phase_of_axis(i % wide, c->in_w, c->kernel_w, c->stride_w, c->dilation_w,
                             c->pad_w);
    return true;
}
