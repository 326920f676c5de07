/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/direct_runs.h"
#include "packed/sizes.h"

#define RUN_WANTED 2048u        /* floats of a run of small planes: two fit in the L1 cache */

struct uw_axis uw_axis_of(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                          uint32_t pad, uint32_t dilation)
{
    struct uw_axis a = {in, out, kernel, stride, pad, dilation, 0, 0};
    uint64_t span = (uint64_t)(kernel - 1) * dilation + 1;
    a.phases = span < stride ? (uint32_t)span : stride;
    a.reach = (size_t)((span - 1) / stride) + out;
    return a;
}

struct uw_seen uw_axis_seen(const struct uw_axis *a, uint32_t phase)
{
    size_t end = (size_t)a->in + a->pad, stride = a->stride;
    struct uw_seen s;
    s.lo = a->pad > phase ? (a->pad - phase + stride - 1) / stride : 0;
    s.hi = end > phase ? (end - phase + stride - 1) / stride : 0;
    s.at = s.lo * stride + phase - a->pad;
    s.lo = s.lo < a->reach ? s.lo : a->reach;
    s.hi = s.hi < a->reach ? s.hi : a->reach;
    s.hi = s.hi > s.lo ? s.hi : s.lo;
    return s;
}

bool uw_axis_is_covered(const struct uw_axis *a)
{
    size_t n = ((size_t)a->in + a->pad + a->stride - 1) / a->stride;
    return a->phases == a->stride && n <= a->reach && (a->stride == 1 || a->dilation == 1);
}

static struct uw_line line_of_output(const struct uw_axis *a)
{
    struct uw_line l = {.n = a->out};
    l.length = larger(a->out, uw_axis_seen(a, 0).hi);        /* hi and lo decrease with phase */
    l.length = larger(l.length, a->reach - uw_axis_seen(a, a->phases - 1).lo);
    return l;
}

static struct uw_line line_of_input(const struct uw_axis *a)
{
    struct uw_line l = {.begin = uw_axis_seen(a, a->phases - 1).lo};
    size_t shift = a->reach - a->out, end = uw_axis_seen(a, 0).hi;
    l.begin = l.begin < shift ? l.begin : shift;
    l.n = end > l.begin ? end - l.begin : 0;
    l.lead = shift - l.begin;
    l.length = larger(l.lead + a->out, end);
    return l;
}

size_t uw_plane_runs_n(const struct uw_plane_runs *r, uint32_t images)
{
    if (r->h.n == 0 || r->w.n == 0 || images == 0) {
        return 0;
    }
    size_t n = (images - 1) * r->image_n + (r->h.n - 1) * r->pitch + r->w.n;
    return (n + UW_PLANES_RUN_N - 1) / UW_PLANES_RUN_N * UW_PLANES_RUN_N;
}

struct uw_plane_runs uw_plane_runs_of(const struct uw_axis *h, const struct uw_axis *w,
                                      bool of_input, uint32_t batch_n)
{
    struct uw_plane_runs r = {.h = of_input ? line_of_input(h) : line_of_output(h),
                     .w = of_input ? line_of_input(w) : line_of_output(w)};
    r.pitch = r.w.length;
    r.image_n = uw_size_mul(r.h.length, r.pitch);
    size_t images = r.image_n < RUN_WANTED ? RUN_WANTED / larger(r.image_n, 1) : 1;
    r.images = images < batch_n ? (uint32_t)images : batch_n;
    r.images = r.images > 0 ? r.images : 1;
    r.count = div_up(batch_n, r.images);
    r.shift = uw_size_mul(h->reach - h->out, r.pitch);
    if (r.image_n > UW_PLANE_MAX || r.shift > UW_PLANE_MAX || w->reach > UW_PLANE_MAX) {
        r.x_n = r.y_n = SIZE_MAX;
        return r;
    }
    r.shift += w->reach - w->out;
    size_t n = uw_plane_runs_n(&r, r.images), whole = r.images * r.image_n;
    r.y_n = larger(n, whole);
    r.x_n = larger(n + r.shift, whole);
    return r;
}
