/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/direct.h"

#include "uwasa/arena.h"
#include "uwasa/status.h"

#include <string.h>

#define PLANE_MAX 0x10000000u   /* floats */
#define COEFS 16u

/* The planes of one convolution. The input's is [stride_h][stride_w][rows][pitch], element
 * (r, j) of phase (a, b) is the padded input's (r * stride_h + a, j * stride_w + b); behind it is
 * room for three taps that are read but not used. The output's is [out_h][pitch]. */
struct planes {
    size_t rows, pitch;
    size_t phase_n;             /* floats of one phase */
    size_t x_n, y_n;            /* floats of a plane */
    size_t n;                   /* floats of y from its first to its last pixel */
};

static struct planes planes_of(const struct uw_conv2d *c)
{
    struct planes p;
    p.rows = (size_t)(c->kernel_h - 1) * c->dilation_h / c->stride_h + c->out_h;
    p.pitch = (size_t)(c->kernel_w - 1) * c->dilation_w / c->stride_w + c->out_w;
    p.phase_n = uw_size_mul(p.rows, p.pitch);
    p.x_n = uw_size_mul(p.phase_n, uw_size_mul(c->stride_h, c->stride_w));
    p.y_n = uw_size_mul(c->out_h, p.pitch);
    p.n = p.y_n - (p.pitch - c->out_w);
    return p;
}

static size_t x_bytes(const struct uw_conv2d *c, const struct planes *p)
{
    return uw_arena_padded((p->x_n + 3 * (size_t)c->dilation_w) * sizeof(float));
}

static size_t thread_bytes(const struct uw_conv2d *c, const struct planes *p)
{
    return x_bytes(c, p) + uw_arena_padded(p->y_n * sizeof(float));
}

bool uw_direct_fits(const struct uw_conv2d *c, uint32_t batch_n)
{
    struct planes p = planes_of(c);
    uint32_t channels = c->out_channels > c->in_channels ? c->out_channels : c->in_channels;
    uint64_t pairs = (uint64_t)c->out_channels * (c->in_channels / c->groups);
    return p.x_n <= PLANE_MAX && p.y_n <= PLANE_MAX && c->dilation_w <= PLANE_MAX &&
           (uint64_t)batch_n * channels <= UINT32_MAX && pairs <= UINT32_MAX;
}

size_t uw_direct_scratch_bytes(const struct uw_conv2d *c, uint32_t threads)
{
    struct planes p = planes_of(c);
    return uw_size_mul(thread_bytes(c, &p), threads);
}

struct job {
    const struct uw_tile *t;
    const struct uw_conv2d *c;
    struct planes p;
    uint8_t *scratch;
    uint32_t batch_n;
    const float *x, *dy, *w, *b;
    float *y, *dx, *dw;
    float scale;
    bool accumulate;
};

static float *x_plane(const struct job *j, uint32_t thread)
{
    return (float *)(void *)(j->scratch + thread * thread_bytes(j->c, &j->p));
}

static float *y_plane(const struct job *j, uint32_t thread)
{
    return (float *)(void *)(j->scratch + thread * thread_bytes(j->c, &j->p) +
                             x_bytes(j->c, &j->p));
}

/* The elements of a phase's row that lie in a row of the input: lo .. hi-1, the first of them at
 * input column `at`. */
struct stretch {
    size_t lo, hi, at;
};

static struct stretch stretch_of(const struct uw_conv2d *c, uint32_t phase)
{
    struct stretch s;
    size_t end = (size_t)c->in_w + c->pad_w;
    s.lo = c->pad_w > phase ? (c->pad_w - phase + (size_t)c->stride_w - 1) / c->stride_w : 0;
    s.hi = end > phase ? (end - phase + c->stride_w - 1) / c->stride_w : 0;
    s.at = s.lo * c->stride_w + phase - c->pad_w;
    return s;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Mostly one or two floats of padding: too few for a call. */
static inline void zero(float *x, size_t n)
{
    if (n > 2) {
        memset(x, 0, n * sizeof(float));
    } else if (n > 0) {
        x[0] = 0.0f;
        x[n - 1] = 0.0f;
    }
}

static void copy_row(const struct job *j, const struct stretch *s, const float *row, float *dst)
{
    size_t stride = j->c->stride_w, n = s->hi > s->lo ? s->hi - s->lo : 0;
    zero(dst, s->lo);
    if (n > 0 && stride == 1) {
        memcpy(dst + s->lo, row + s->at, n * sizeof(float));
    }
    for (size_t i = 0; i < n && stride != 1; i++) {
        dst[s->lo + i] = row[s->at + i * stride];
    }
    zero(dst + s->lo + n, j->p.pitch - s->lo - n);
}

static void pack_input(const struct job *j, const float *plane, float *dst)
{
    const struct uw_conv2d *c = j->c;
    memset(dst + j->p.x_n, 0, 3 * (size_t)c->dilation_w * sizeof(float));
    for (uint32_t a = 0; a < c->stride_h; a++) {
        for (uint32_t b = 0; b < c->stride_w; b++) {
            struct stretch s = stretch_of(c, b);
            s.lo = least(s.lo, j->p.pitch);
            s.hi = least(s.hi, j->p.pitch);
            size_t at = a;
            for (size_t r = 0; r < j->p.rows; r++, at += c->stride_h, dst += j->p.pitch) {
                if (at < c->pad_h || at - c->pad_h >= c->in_h) {
                    memset(dst, 0, j->p.pitch * sizeof(float));
                } else {
                    copy_row(j, &s, plane + (at - c->pad_h) * c->in_w, dst);
                }
            }
        }
    }
}

static void pack_output(const struct job *j, const float *plane, float *dst)
{
    const struct uw_conv2d *c = j->c;
    for (uint32_t oh = 0; oh < c->out_h; oh++) {
        memcpy(dst, plane, c->out_w * sizeof(float));
        zero(dst + c->out_w, j->p.pitch - c->out_w);
        dst += j->p.pitch;
        plane += c->out_w;
    }
}

/* Where tap (kh, kw) of output (0, 0) lies in the input's plane. */
static size_t tap_at(const struct job *j, uint32_t kh, uint32_t kw)
{
    const struct uw_conv2d *c = j->c;
    size_t h = (size_t)kh * c->dilation_h, w = (size_t)kw * c->dilation_w;
    size_t phase = h % c->stride_h * c->stride_w + w % c->stride_w;
    return phase * j->p.phase_n + h / c->stride_h * j->p.pitch + w / c->stride_w;
}

/* Taps kw, kw + stride_w, .. of a row lie dilation_w apart in one phase: how many from kw on. */
static uint32_t taps_from(const struct uw_conv2d *c, uint32_t kw)
{
    return (c->kernel_w - kw + c->stride_w - 1) / c->stride_w;
}

/* y += the taps of one kernel over x. */
static void add_taps(const struct job *j, const float *w, const float *x, float *y)
{
    const struct uw_conv2d *c = j->c;
    for (uint32_t kh = 0; kh < c->kernel_h; kh++, w += c->kernel_w) {
        for (uint32_t first = 0; first < c->stride_w && first < c->kernel_w; first++) {
            for (uint32_t i = 0, left = taps_from(c, first); left > 0;) {
                float coef[COEFS];
                uint32_t n = left < COEFS ? left : COEFS, kw = first + i * c->stride_w;
                for (uint32_t k = 0; k < n; k++) {
                    coef[k] = w[kw + k * c->stride_w];
                }
                j->t->add_rows(n, j->p.n, coef, x + tap_at(j, kh, kw), c->dilation_w, y);
                i += n;
                left -= n;
            }
        }
    }
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t n = task / c->out_channels, co = task % c->out_channels;
    uint32_t group_in = c->in_channels / c->groups;
    size_t kernel = (size_t)c->kernel_h * c->kernel_w, in_hw = (size_t)c->in_h * c->in_w;
    size_t first = co / (c->out_channels / c->groups) * (size_t)group_in;
    float *x = x_plane(j, thread), *y = y_plane(j, thread);
    for (size_t i = 0; i < j->p.y_n; i++) {
        y[i] = j->b != NULL ? j->b[co] : 0.0f;
    }
    for (uint32_t ci = 0; ci < group_in; ci++) {
        pack_input(j, j->x + (n * (size_t)c->in_channels + first + ci) * in_hw, x);
        add_taps(j, j->w + ((size_t)co * group_in + ci) * kernel, x, y);
    }
    float *out = j->y + (size_t)task * c->out_h * c->out_w;
    for (uint32_t oh = 0; oh < c->out_h; oh++, y += j->p.pitch, out += c->out_w) {
        for (uint32_t ow = 0; ow < c->out_w; ow++) {
            out[ow] = j->accumulate ? out[ow] + y[ow] : y[ow];
        }
    }
}

/* A row of one phase back into the gradient; src NULL: no tap sees the row. */
static void unpack_row(const struct job *j, const struct stretch *s, const float *src, float *dx)
{
    size_t stride = j->c->stride_w;
    dx += s->at;
    if (stride == 1 && !j->accumulate && src != NULL && s->hi <= j->p.pitch && s->lo < s->hi) {
        memcpy(dx, src + s->lo, (s->hi - s->lo) * sizeof(float));
        return;
    }
    for (size_t i = s->lo; i < s->hi; i++, dx += stride) {
        float v = src != NULL && i < j->p.pitch ? src[i] : 0.0f;
        *dx = j->accumulate ? *dx + v : v;
    }
}

static void unpack_input(const struct job *j, const float *src, float *plane)
{
    const struct uw_conv2d *c = j->c;
    for (uint32_t b = 0; b < c->stride_w; b++) {
        struct stretch s = stretch_of(c, b);
        size_t row = c->pad_h / c->stride_h, a = c->pad_h % c->stride_h;
        for (uint32_t ih = 0; ih < c->in_h; ih++) {
            const float *phase = src + (a * c->stride_w + b) * j->p.phase_n;
            unpack_row(j, &s, row < j->p.rows ? phase + row * j->p.pitch : NULL,
                       plane + (size_t)ih * c->in_w);
            a++;
            row += a == c->stride_h;
            a = a == c->stride_h ? 0 : a;
        }
    }
}

static void bw_input_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t n = task / c->in_channels, at = task % c->in_channels;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    uint32_t ci = at % group_in, first = at / group_in * group_out;
    size_t kernel = (size_t)c->kernel_h * c->kernel_w, out_hw = (size_t)c->out_h * c->out_w;
    float *x = x_plane(j, thread), *y = y_plane(j, thread);
    memset(x, 0, j->p.x_n * sizeof(float));
    for (uint32_t co = first; co < first + group_out; co++) {
        const float *w = j->w + ((size_t)co * group_in + ci) * kernel;
        pack_output(j, j->dy + (n * (size_t)c->out_channels + co) * out_hw, y);
        for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
            for (uint32_t kw = 0; kw < c->kernel_w; kw++, w++) {
                j->t->add_rows(1, j->p.n, w, y, 0, x + tap_at(j, kh, kw));
            }
        }
    }
    unpack_input(j, x, j->dx + (size_t)task * c->in_h * c->in_w);
}

/* dw += scale * the products of one pair of planes. */
static void add_products(const struct job *j, const float *x, const float *y, float *dw)
{
    const struct uw_conv2d *c = j->c;
    for (uint32_t kh = 0; kh < c->kernel_h; kh++, dw += c->kernel_w) {
        for (uint32_t first = 0; first < c->stride_w && first < c->kernel_w; first++) {
            uint32_t taps = taps_from(c, first);
            for (uint32_t i = 0; i < taps; i += 4) {
                float dots[4];
                uint32_t kw = first + i * c->stride_w;
                j->t->dots(1, j->p.n, y, 0, x + tap_at(j, kh, kw), c->dilation_w, dots);
                for (uint32_t k = 0; k < 4 && i + k < taps; k++) {
                    dw[kw + k * c->stride_w] += j->scale * dots[k];
                }
            }
        }
    }
}

static void bw_param_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_conv2d *c = j->c;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    uint32_t co = task / group_in, at = co / group_out * group_in + task % group_in;
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    float *x = x_plane(j, thread), *y = y_plane(j, thread);
    float *dw = j->dw + (size_t)task * c->kernel_h * c->kernel_w;
    for (uint32_t n = 0; n < j->batch_n; n++) {
        pack_input(j, j->x + (n * (size_t)c->in_channels + at) * in_hw, x);
        pack_output(j, j->dy + (n * (size_t)c->out_channels + co) * out_hw, y);
        add_products(j, x, y, dw);
    }
}

static int run(const struct uw_exec *e, uw_task_fn fn, struct job *j, uint32_t tasks)
{
    if (tasks == 0) {
        return UW_OK;
    }
    if (e->scratch_bytes < uw_direct_scratch_bytes(j->c, uw_workers_threads(e->workers))) {
        return UW_ERR_NOMEM;
    }
    j->t = e->kernels->tile;
    j->p = planes_of(j->c);
    j->scratch = e->scratch;
    uw_workers_run(e->workers, fn, j, tasks);
    return UW_OK;
}

int uw_direct_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                 const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    struct job j = {.c = c, .x = x, .w = w, .b = b, .y = y, .accumulate = accumulate};
    return run(e, fw_task, &j, batch_n * c->out_channels);
}

int uw_direct_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate)
{
    struct job j = {.c = c, .dy = dy, .w = w, .dx = dx, .accumulate = accumulate};
    return run(e, bw_input_task, &j, batch_n * c->in_channels);
}

int uw_direct_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw)
{
    struct job j = {.c = c, .batch_n = batch_n, .x = x, .dy = dy, .scale = scale, .dw = dw};
    return run(e, bw_param_task, &j, c->out_channels * (c->in_channels / c->groups));
}
