/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/direct.h"
#include "packed/direct_runs.h"
#include "packed/input_norm.h"
#include "packed/sizes.h"

#include "uwasa/status.h"

#include <string.h>

#define SUMS_MAX 64u            /* taps summed over the batch in one pass */

struct job {
    const struct uw_planes_ops *t;
    const struct uw_norm_ops *norm;     /* if c is normed */
    const struct uw_conv2d *c;
    struct uw_axis h, w;
    struct uw_plane_runs r;
    uint8_t *scratch;
    size_t thread_bytes, y_at;
    uint32_t batch_n;
    const float *x, *dy, *weight, *bias;
    float *y, *dx, *dw;
    float scale;
    bool accumulate;
};

static void set_axes(const struct uw_conv2d *c, struct uw_axis *h, struct uw_axis *w)
{
    *h = uw_axis_of(c->in_h, c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h);
    *w = uw_axis_of(c->in_w, c->out_w, c->kernel_w, c->stride_w, c->pad_w, c->dilation_w);
}

static size_t x_bytes(const struct uw_axis *h, const struct uw_axis *w,
                      const struct uw_plane_runs *r, bool of_input)
{
    size_t phases = of_input ? 1 : uw_size_mul(h->phases, w->phases);
    return area_bytes(uw_size_mul(r->x_n, phases));
}

static size_t thread_bytes(const struct uw_conv2d *c, uint32_t batch_n, bool of_input)
{
    struct uw_axis h, w;
    set_axes(c, &h, &w);
    struct uw_plane_runs r = uw_plane_runs_of(&h, &w, of_input, batch_n);
    size_t x = x_bytes(&h, &w, &r, of_input);
    size_t y = area_bytes(uw_size_mul(r.y_n, of_input && uw_axis_has_pairs(&w) ? 2 : 1));
    return x > SIZE_MAX - y ? SIZE_MAX : x + y;
}

bool uw_direct_fits(const struct uw_conv2d *c, uint32_t batch_n)
{
    uint32_t channels = c->out_channels > c->in_channels ? c->out_channels : c->in_channels;
    uint64_t pairs = (uint64_t)c->out_channels * (c->in_channels / c->groups);
    return thread_bytes(c, 1, false) <= UW_PLANE_MAX * sizeof(float) &&
           thread_bytes(c, 1, true) <= UW_PLANE_MAX * sizeof(float) &&
           (uint64_t)batch_n * channels <= UINT32_MAX && pairs <= UINT32_MAX;
}

size_t uw_direct_scratch_bytes(const struct uw_conv2d *c, uint32_t batch_n, uint32_t threads)
{
    return uw_size_mul(larger(thread_bytes(c, batch_n, false), thread_bytes(c, batch_n, true)),
                       threads);
}

static float *x_of(const struct job *j, uint32_t thread)
{
    return (float *)(void *)(j->scratch + thread * j->thread_bytes);
}

static float *y_of(const struct job *j, uint32_t thread)
{
    return (float *)(void *)(j->scratch + thread * j->thread_bytes + j->y_at);
}

static struct uw_rows rows_of(const struct uw_plane_runs *r)
{
    return (struct uw_rows){r->image_n, r->pitch};
}

/* Fill phases (a, 0) and (a, 1) in one pass over the rows. */
static void pack_pair(const struct job *j, uint32_t a, const float *src, uint32_t images,
                      float *dst)
{
    struct uw_seen h = uw_axis_seen(&j->h, a);
    struct uw_seen first = uw_axis_seen(&j->w, 0), second = uw_axis_seen(&j->w, 1);
    const struct uw_rows from = {(size_t)j->c->in_channels * j->c->in_h * j->c->in_w,
                                 (size_t)j->h.stride * j->w.in};
    float *p = dst + h.lo * j->r.pitch + first.lo;
    float *q = dst + j->r.x_n + h.lo * j->r.pitch + second.lo;
    bool even = first.at == 0;
    j->t->split(images, h.hi - h.lo, even ? first.hi - first.lo : second.hi - second.lo,
                even ? second.hi - second.lo : first.hi - first.lo, src + h.at * j->w.in, from,
                even ? p : q, even ? q : p, rows_of(&j->r));
}

/* Fill phase (a, b). */
static void pack_phase(const struct job *j, uint32_t a, uint32_t b, const float *src,
                       uint32_t images, float *dst)
{
    struct uw_seen h = uw_axis_seen(&j->h, a), w = uw_axis_seen(&j->w, b);
    const struct uw_rows from = {(size_t)j->c->in_channels * j->c->in_h * j->c->in_w,
                                 (size_t)j->h.stride * j->w.in};
    size_t rows = h.hi - h.lo, cols = w.hi - w.lo, stride = j->w.stride;
    src += h.at * j->w.in + w.at;
    dst += h.lo * j->r.pitch + w.lo;
    if (stride == 1) {
        j->t->copy(images, rows, cols, src, from, dst, rows_of(&j->r));
        return;
    }
    for (uint32_t i = 0; i < images; i++) {
        for (size_t r = 0; r < rows; r++) {
            const float *row = src + i * from.image + r * from.row;
            float *out = dst + i * j->r.image_n + r * j->r.pitch;
            for (size_t k = 0; k < cols; k++) {
                out[k] = row[k * stride];
            }
        }
    }
}

/* Apply the fused batch norm to the input in phase (a, b). */
static void norm_phase(const struct job *j, uint32_t a, uint32_t b,
                       const struct uw_norm_lines *lines, uint32_t images, float *phase)
{
    struct uw_seen h = uw_axis_seen(&j->h, a), w = uw_axis_seen(&j->w, b);
    j->norm->planes(images, h.hi - h.lo, w.hi - w.lo, lines,
                    phase + h.lo * j->r.pitch + w.lo, rows_of(&j->r));
}

static void norm_input(const struct job *j, uint32_t channel, uint32_t images, float *phase)
{
    struct uw_norm_lines lines;
    uw_norm_lines_of(uw_input_norm_of(j->c), channel, 1, &lines);
    for (uint32_t a = 0; a < j->h.phases; a++) {
        for (uint32_t b = 0; b < j->w.phases; b++, phase += j->r.x_n) {
            norm_phase(j, a, b, &lines, images, phase);
        }
    }
}

/* Fill all phases of one channel for images n0 .. n0+images-1. zeros: the padding is already 0. */
static void pack_input(const struct job *j, uint32_t channel, uint32_t n0, uint32_t images,
                       float *dst, bool zeros)
{
    const struct uw_conv2d *c = j->c;
    const float *src = j->x + ((size_t)n0 * c->in_channels + channel) * c->in_h * c->in_w;
    float *first = dst;
    if (!zeros) {
        memset(dst, 0, j->r.x_n * j->h.phases * j->w.phases * sizeof(float));
    }
    for (uint32_t a = 0; a < j->h.phases; a++) {
        if (uw_axis_has_pairs(&j->w)) {
            pack_pair(j, a, src, images, dst);
            dst += 2 * j->r.x_n;
            continue;
        }
        for (uint32_t b = 0; b < j->w.phases; b++, dst += j->r.x_n) {
            pack_phase(j, a, b, src, images, dst);
        }
    }
    if (c->normed) {
        norm_input(j, channel, images, first);
    }
}

/* Fill dst [dst_n] with one channel of dy. */
static void pack_output(const struct job *j, uint32_t channel, uint32_t n0, uint32_t images,
                        float *dst, size_t dst_n, bool zeros)
{
    const struct uw_conv2d *c = j->c;
    size_t out_hw = (size_t)c->out_h * c->out_w;
    const struct uw_rows from = {c->out_channels * out_hw, c->out_w};
    if (!zeros) {
        memset(dst, 0, dst_n * sizeof(float));
    }
    j->t->copy(images, c->out_h, c->out_w,
               j->dy + ((size_t)n0 * c->out_channels + channel) * out_hw, from,
               dst + j->r.h.lead * j->r.pitch + j->r.w.lead, rows_of(&j->r));
}

/* Taps of one call of add_taps. */
struct taps {
    uint32_t n, at[UW_PLANES_TAPS];
    float coef[UW_PLANES_TAPS];
};

/* Offsets of taps first .. first+n-1 of the kernel in the phases of the input. */
static void list_taps(const struct job *j, uint32_t first, uint32_t n, uint32_t *at)
{
    uint32_t kh = first / j->c->kernel_w, kw = first % j->c->kernel_w;
    for (uint32_t i = 0; i < n; i++) {
        struct uw_tap h = uw_axis_tap(&j->h, kh), w = uw_axis_tap(&j->w, kw);
        at[i] = (uint32_t)(((size_t)h.phase * j->w.phases + w.phase) * j->r.x_n +
                           h.at * j->r.pitch + w.at);
        kw++;
        kh += kw == j->c->kernel_w;
        kw = kw == j->c->kernel_w ? 0 : kw;
    }
}

static uint32_t images_of(const struct job *j, uint32_t n0)
{
    return min_u32(j->r.images, j->batch_n - n0);
}

/* Store rows of outputs, `step` floats from one element to the next. */
static void unpack(const struct job *j, uint32_t images, size_t rows, size_t cols,
                   const float *src, float *dst, struct uw_rows to, size_t step)
{
    if (step == 1 && !j->accumulate) {
        j->t->copy(images, rows, cols, src, rows_of(&j->r), dst, to);
        return;
    }
    for (uint32_t i = 0; i < images; i++) {
        for (size_t r = 0; r < rows; r++) {
            const float *row = src + i * j->r.image_n + r * j->r.pitch;
            float *out = dst + i * to.image + r * to.row;
            for (size_t k = 0; k < cols; k++, out += step) {
                *out = j->accumulate ? *out + row[k] : row[k];
            }
        }
    }
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t n0 = task / c->out_channels * j->r.images, co = task % c->out_channels;
    uint32_t images = images_of(j, n0), group_in = c->in_channels / c->groups;
    uint32_t first = co / (c->out_channels / c->groups) * group_in;
    uint32_t kernel = c->kernel_h * c->kernel_w;
    const float *weight = j->weight + (size_t)co * group_in * kernel;
    size_t n = uw_plane_runs_n(&j->r, images);
    float *x = x_of(j, thread), *y = y_of(j, thread);
    for (uint32_t ci = 0; ci < group_in; ci++, weight += kernel) {
        pack_input(j, first + ci, n0, images, x, ci > 0);
        for (uint32_t k = 0; k < kernel; k += UW_PLANES_TAPS) {
            uint32_t at[UW_PLANES_TAPS], taps = min_u32(UW_PLANES_TAPS, kernel - k);
            list_taps(j, k, taps, at);
            j->t->add_taps(taps, n, weight + k, at, x, j->bias != NULL ? j->bias[co] : 0.0f, y,
                           ci > 0 || k > 0);
        }
    }
    const struct uw_rows to = {(size_t)c->out_channels * c->out_h * c->out_w, c->out_w};
    float *out = j->y + ((size_t)n0 * c->out_channels + co) * c->out_h * c->out_w;
    unpack(j, images, c->out_h, c->out_w, y, out, to, 1);
}

/* y (+)= the gradient of phase (a, b) of the padded input from one kernel. Returns whether any tap
 * reads the phase. */
static bool add_phase(const struct job *j, uint32_t a, uint32_t b, const float *weight, size_t n,
                      const float *x, float *y, bool add)
{
    struct taps t = {0};
    bool seen = false;
    for (uint32_t kh = 0; kh < j->c->kernel_h; kh++, weight += j->c->kernel_w) {
        struct uw_tap h = uw_axis_tap(&j->h, kh);
        for (uint32_t kw = 0; h.phase == a && kw < j->c->kernel_w; kw++) {
            struct uw_tap w = uw_axis_tap(&j->w, kw);
            if (w.phase != b) {
                continue;
            }
            t.at[t.n] = (uint32_t)(j->r.shift - h.at * j->r.pitch - w.at);
            t.coef[t.n++] = weight[kw];
            if (t.n == UW_PLANES_TAPS) {
                j->t->add_taps(t.n, n, t.coef, t.at, x, 0.0f, y, add || seen);
                seen = true;
                t.n = 0;
            }
        }
    }
    if (t.n > 0) {
        j->t->add_taps(t.n, n, t.coef, t.at, x, 0.0f, y, add || seen);
    }
    return seen || t.n > 0;
}

/* Strides in dx between images and between the rows of phases (a, ..). */
static struct uw_rows to_input(const struct job *j)
{
    return (struct uw_rows){(size_t)j->c->in_channels * j->c->in_h * j->c->in_w,
                            (size_t)j->h.stride * j->w.in};
}

/* Store phases (a, 0) and (a, 1), y_n floats apart, in dx. */
static void unpack_pair(const struct job *j, uint32_t a, uint32_t images, const float *src,
                        float *dx)
{
    struct uw_seen h = uw_axis_seen(&j->h, a);
    struct uw_seen first = uw_axis_seen(&j->w, 0), second = uw_axis_seen(&j->w, 1);
    const float *p = src + (h.lo - j->r.h.begin) * j->r.pitch + first.lo - j->r.w.begin;
    const float *q = src + j->r.y_n + (h.lo - j->r.h.begin) * j->r.pitch + second.lo -
                     j->r.w.begin;
    bool even = first.at == 0;
    j->t->join(images, h.hi - h.lo, even ? first.hi - first.lo : second.hi - second.lo,
               even ? second.hi - second.lo : first.hi - first.lo, even ? p : q, even ? q : p,
               rows_of(&j->r), dx + h.at * j->w.in, to_input(j));
}

static void unpack_phase(const struct job *j, uint32_t a, uint32_t b, uint32_t images,
                         const float *src, float *dx)
{
    struct uw_seen h = uw_axis_seen(&j->h, a), w = uw_axis_seen(&j->w, b);
    unpack(j, images, h.hi - h.lo, w.hi - w.lo,
           src + (h.lo - j->r.h.begin) * j->r.pitch + w.lo - j->r.w.begin,
           dx + h.at * j->w.in + w.at, to_input(j), j->w.stride);
}

static void bw_input_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t n0 = task / c->in_channels * j->r.images, channel = task % c->in_channels;
    uint32_t images = images_of(j, n0);
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    uint32_t ci = channel % group_in, first = channel / group_in * group_out;
    size_t kernel = (size_t)c->kernel_h * c->kernel_w, in_hw = (size_t)c->in_h * c->in_w;
    size_t n = uw_plane_runs_n(&j->r, images);
    float *x = x_of(j, thread), *y = y_of(j, thread);
    float *dx = j->dx + ((size_t)n0 * c->in_channels + channel) * in_hw;
    bool covered = uw_axis_is_covered(&j->h) && uw_axis_is_covered(&j->w);
    bool zeros = false, holes = !j->accumulate && !covered;
    bool pairs = uw_axis_has_pairs(&j->w) && !j->accumulate &&
                 c->dilation_w % 2 == 1; /* both have taps */
    for (uint32_t i = 0; i < images && holes; i++) {
        memset(dx + i * c->in_channels * in_hw, 0, in_hw * sizeof(float));
    }
    for (uint32_t a = 0; a < j->h.phases && n > 0; a++) {
        for (uint32_t b = 0; b < j->w.phases; b++) {
            float *out = pairs ? y + b * j->r.y_n : y;
            bool seen = false;
            for (uint32_t co = first; co < first + group_out; co++) {
                if (!zeros || group_out > 1) {
                    pack_output(j, co, n0, images, x, j->r.x_n, zeros);
                    zeros = true;
                }
                seen = add_phase(j, a, b, j->weight + ((size_t)co * group_in + ci) * kernel, n, x,
                                 out, seen);
            }
            if (seen && pairs && b == 1) {
                unpack_pair(j, a, images, y, dx);
            } else if (seen && !pairs) {
                unpack_phase(j, a, b, images, out, dx);
            }
        }
    }
}

static void bw_param_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    uint32_t co = task / group_in, ci = co / group_out * group_in + task % group_in;
    uint32_t kernel = c->kernel_h * c->kernel_w;
    float *x = x_of(j, thread), *y = y_of(j, thread);
    float *dw = j->dw + (size_t)task * kernel;
    for (uint32_t k0 = 0; k0 < kernel; k0 += SUMS_MAX) {
        uint32_t end = min_u32(kernel, k0 + SUMS_MAX);
        float sums[SUMS_MAX] = {0.0f};
        for (uint32_t n0 = 0; n0 < j->batch_n; n0 += j->r.images) {
            uint32_t images = images_of(j, n0);
            size_t n = uw_plane_runs_n(&j->r, images);
            bool zeros = n0 > 0 && images == j->r.images;
            pack_input(j, ci, n0, images, x, zeros);
            pack_output(j, co, n0, images, y, larger(n, images * j->r.image_n), zeros);
            for (uint32_t k = k0; k < end; k += UW_PLANES_TAPS) {
                uint32_t at[UW_PLANES_TAPS], taps = min_u32(UW_PLANES_TAPS, end - k);
                list_taps(j, k, taps, at);
                j->t->sum_taps(taps, n, y, x, at, sums + (k - k0));
            }
        }
        for (uint32_t k = k0; k < end; k++) {
            dw[k] += j->scale * sums[k - k0];
        }
    }
}

static int run(const struct uw_exec *e, uw_task_fn fn, struct job *j, bool of_input,
               uint32_t planes)
{
    if (j->batch_n == 0) {
        return UW_OK;
    }
    uint32_t threads = uw_workers_threads(e->workers);
    if (e->scratch_bytes < uw_direct_scratch_bytes(j->c, j->batch_n, threads)) {
        return UW_ERR_NOMEM;
    }
    j->t = e->kernels->tile->planes;
    j->norm = e->kernels->tile->norm;
    set_axes(j->c, &j->h, &j->w);
    j->r = uw_plane_runs_of(&j->h, &j->w, of_input, j->batch_n);
    j->scratch = e->scratch;
    j->thread_bytes = thread_bytes(j->c, j->batch_n, of_input);
    j->y_at = x_bytes(&j->h, &j->w, &j->r, of_input);
    uw_workers_run(e->workers, fn, j, planes * (fn == bw_param_task ? 1 : j->r.count));
    return UW_OK;
}

int uw_direct_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                 const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    struct job j = {.c = c, .batch_n = batch_n, .x = x, .weight = w, .bias = b, .y = y,
                    .accumulate = accumulate};
    return run(e, fw_task, &j, false, c->out_channels);
}

int uw_direct_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate)
{
    struct job j = {.c = c, .batch_n = batch_n, .dy = dy, .weight = w, .dx = dx,
                    .accumulate = accumulate};
    return run(e, bw_input_task, &j, true, c->in_channels);
}

int uw_direct_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw)
{
    struct job j = {.c = c, .batch_n = batch_n, .x = x, .dy = dy, .scale = scale, .dw = dw};
    return run(e, bw_param_task, &j, false, c->out_channels * (c->in_channels / c->groups));
}
