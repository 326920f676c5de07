/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/sparse.h"
#include "packed/sizes.h"

#include "uwasa/status.h"

#include <string.h>

#define SHARE 0.3               /* largest non-zero share of dy */
#define SAMPLE_ROWS 4u          /* one of this many rows of dy is sampled */
#define FILLED 0.5              /* least share of lanes in use */
#define FLOATS_MAX 524288u      /* of an area */
#define SPLIT_WORTH 65536.0     /* vector multiply-adds from which work is divided into tasks */
#define TASKS 8u
#define INPUT_TASKS 4u          /* few: rows of dy that reach two tasks are scanned twice */

/* One gradient. Pixel (row, column) of a block's image is at row * pitch + column * pixel. */
struct sparse {
    const struct uw_tile *t;
    const struct uw_small_ops *ops;
    const struct uw_conv2d *c;
    uint32_t pixel;             /* floats of a pixel: lanes, or all channels if lanes are taps */
    uint32_t channels, blocks;  /* channels of a block, blocks */
    uint32_t vecs;              /* registers of a row of taps */
    size_t pitch, plane;        /* of a row, of a block's image */
    size_t image_n, sums_n, terms_n, transposed_n;
    uint32_t units, per_task, tasks;    /* output channels, or rows of dx */

    float *image, *sums;
    uint8_t *of_tasks;
    size_t task_bytes;
    const float *w, *dy;
    float *dx, scale;
    bool accumulate;
};

static uint32_t taps_of(const struct uw_conv2d *c)
{
    return c->kernel_h * c->kernel_w;
}

static size_t out_plane(const struct uw_conv2d *c)
{
    return (size_t)c->out_h * c->out_w;
}

static bool choose_lanes(struct sparse *s, uint32_t n)
{
    const struct uw_small_ops *wide = s->t->small, *narrow = s->t->small_narrow;
    s->ops = round_up(n, wide->lanes) <= round_up(n, narrow->lanes) ? wide : narrow;
    return n >= FILLED * round_up(n, s->ops->lanes);
}

static bool plan_lanes(struct sparse *s, enum uw_small_part part)
{
    const struct uw_conv2d *c = s->c;
    if (choose_lanes(s, c->in_channels)) {
        s->pixel = s->channels = s->ops->lanes;
        s->blocks = div_up(c->in_channels, s->ops->lanes);
        s->vecs = c->kernel_w;
        return true;
    }
    s->pixel = s->channels = c->in_channels;
    s->blocks = 1;
    if (part == UW_SMALL_BW_INPUT || !choose_lanes(s, c->kernel_w * c->in_channels)) {
        return false;
    }
    s->vecs = div_up(c->kernel_w * c->in_channels, s->ops->lanes);
    return true;
}

static void plan_sizes(struct sparse *s, enum uw_small_part part)
{
    const struct uw_conv2d *c = s->c;
    bool input = part == UW_SMALL_BW_INPUT;
    size_t reach_h = uw_size_mul(c->out_h - 1, c->stride_h) +
                     uw_size_mul(c->kernel_h - 1, c->dilation_h) + 1;
    size_t reach_w = uw_size_mul(c->out_w - 1, c->stride_w) + c->kernel_w;
    size_t rows = input ? c->in_h : larger(reach_h, (size_t)c->in_h + c->pad_h);
    s->pitch = uw_size_mul(larger(reach_w, (size_t)c->in_w + c->pad_w), s->pixel);
    s->plane = uw_size_mul(rows, s->pitch);
    s->image_n = uw_size_mul(s->plane, s->blocks) + s->ops->lanes;
    size_t of_row = (size_t)s->vecs * s->ops->lanes * c->kernel_h;
    s->sums_n = uw_size_mul(uw_size_mul(of_row, s->blocks), c->out_channels);
    s->terms_n = uw_size_mul(c->out_w, input ? c->out_channels : c->out_h) + UW_SMALL_LANES_MAX;
    s->transposed_n = input ? larger(uw_size_mul(c->out_w, c->out_channels),
                                 uw_size_mul(c->in_w, s->channels))
                        : (size_t)s->channels * taps_of(c);
    s->units = input ? c->in_h : c->out_channels;
    double work = (double)s->sums_n / s->ops->lanes * (double)out_plane(c) * SHARE / SPLIT_WORTH;
    uint32_t tasks = work < 1.0 ? 1 : input ? INPUT_TASKS : TASKS;
    s->per_task = div_up(s->units, tasks);
    s->tasks = div_up(s->units, s->per_task);
}

/* Returns false if the part is not supported. */
static bool plan(struct sparse *s, const struct uw_tile *t, const struct uw_conv2d *c,
                 enum uw_small_part part)
{
    *s = (struct sparse){.t = t, .c = c};
    if (part == UW_SMALL_FW || t->small == NULL || c->groups != 1 || c->dilation_w != 1 ||
        taps_of(c) == 1 || !plan_lanes(s, part) || s->vecs > UW_SMALL_TERM_VECS) {
        return false;
    }
    plan_sizes(s, part);
    return s->image_n <= FLOATS_MAX && s->sums_n <= FLOATS_MAX && s->terms_n <= FLOATS_MAX &&
           s->transposed_n <= FLOATS_MAX;
}

static size_t start_bytes(const struct sparse *s)
{
    return uw_arena_padded(((size_t)s->c->out_w + 1) * sizeof(uint32_t));
}

/* Lay out the areas in scratch and return their bytes; scratch NULL: only the bytes. */
static size_t place(struct sparse *s, uint8_t *scratch)
{
    size_t image = area_bytes(s->image_n), sums = area_bytes(s->sums_n);
    s->task_bytes = 2 * area_bytes(s->terms_n) + area_bytes(s->transposed_n) + start_bytes(s);
    if (scratch != NULL) {
        s->image = (float *)(void *)scratch;
        s->sums = (float *)(void *)(scratch + image);
        s->of_tasks = scratch + image + sums;
    }
    return image + sums + s->tasks * s->task_bytes;
}

/* The private memory of a task. */
static struct uw_small_terms terms_of(const struct sparse *s, uint32_t task, float **transposed,
                                      uint32_t **start)
{
    uint8_t *at = s->of_tasks + task * s->task_bytes;
    size_t bytes = area_bytes(s->terms_n);
    *transposed = (float *)(void *)(at + 2 * bytes);
    *start = (uint32_t *)(void *)(at + 2 * bytes + area_bytes(s->transposed_n));
    return (struct uw_small_terms){0, (float *)(void *)at, (uint32_t *)(void *)(at + bytes)};
}

size_t uw_sparse_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c,
                               enum uw_small_part part)
{
    struct sparse s;
    return plan(&s, t, c, part) ? place(&s, NULL) : 0;
}

bool uw_sparse_is_worth(const struct uw_tile *t, const struct uw_conv2d *c,
                        enum uw_small_part part, uint32_t batch_n, const float *dy)
{
    struct sparse s;
    size_t rows = uw_size_mul(batch_n, c->out_channels) * c->out_h;
    uint32_t found = 0, seen = 0;
    if (!plan(&s, t, c, part)) {
        return false;
    }
    for (size_t row = 0; row < rows; row += SAMPLE_ROWS) {
        const float *from = dy + row * c->out_w;
        for (uint32_t i = 0; i < c->out_w; i++) {
            found += from[i] != 0.0f ? 1 : 0;
        }
        seen += c->out_w;
        if (seen > 256 && found > 0.6 * seen) {
            return false;
        }
    }
    return found <= SHARE * seen;
}

/* Add the terms to tap rows from .. to-1. */
static void add_terms(const struct sparse *s, const struct uw_small_terms *terms, uint32_t from,
                      uint32_t to, const float *b, size_t ldb, bool add, float *out, size_t ldo)
{
    uint32_t most = min_u32(UW_SMALL_TERM_SUMS / s->vecs, UW_SMALL_TERM_ROWS);
    for (uint32_t kh = from, rows; kh < to; kh += rows) {
        uint32_t left = to - kh;
        rows = left > most ? min_u32(most, div_up(left, 2)) : left;
        s->ops->add_terms(rows, s->vecs, terms, b + kh * ldb, ldb, add, out + kh * ldo, ldo);
    }
}

/* Transpose n pixels of a block's channels from [channel][stride] to [n][pixel]. */
static void transpose_pixels(const struct sparse *s, uint32_t channels, uint32_t n,
                             const float *src, size_t stride, float *dst)
{
    s->t->pack_transposed(channels, n, 1.0f, src, stride, dst, s->pixel);
}

/* Transpose a sample's input, with padding, into the blocks. */
static void transpose_input(const struct sparse *s, const float *x)
{
    const struct uw_conv2d *c = s->c;
    size_t plane = (size_t)c->in_h * c->in_w;
    bool padded = s->pitch != (size_t)c->in_w * s->pixel || c->pad_h > 0 || c->pad_w > 0;
    if (padded) {
        memset(s->image, 0, s->image_n * sizeof(float));
    }
    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t channels = min_u32(s->channels, c->in_channels - b * s->channels);
        const float *from = x + b * s->channels * plane;
        float *to = s->image + b * s->plane + c->pad_h * s->pitch + c->pad_w * s->pixel;
        if (!padded) {
            transpose_pixels(s, channels, (uint32_t)plane, from, plane, to);
            continue;
        }
        for (uint32_t row = 0; row < c->in_h; row++, from += c->in_w, to += s->pitch) {
            if (s->pixel == 1) {
                memcpy(to, from, c->in_w * sizeof(float));
            } else {
                transpose_pixels(s, channels, c->in_w, from, plane, to);
            }
        }
    }
}

static float *sums_of(const struct sparse *s, uint32_t channel, uint32_t block)
{
    size_t of_row = (size_t)s->vecs * s->ops->lanes * s->c->kernel_h;
    return s->sums + ((size_t)block * s->c->out_channels + channel) * of_row;
}

static void param_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct sparse *s = arg;
    const struct uw_conv2d *c = s->c;
    float *transposed;
    uint32_t *start;
    struct uw_small_terms terms = terms_of(s, task, &transposed, &start);
    uint32_t end = min_u32(s->units, (task + 1) * s->per_task);
    for (uint32_t co = task * s->per_task; co < end; co++) {
        const float *dy = s->dy + co * out_plane(c);
        terms.n = 0;
        for (uint32_t oh = 0; oh < c->out_h; oh++, dy += c->out_w) {
            s->t->small->find_terms(c->out_w, dy, s->scale,
                                    (uint32_t)(oh * c->stride_h * s->pitch),
                                    c->stride_w * s->pixel, &terms);
        }
        for (uint32_t b = 0; b < s->blocks; b++) {
            add_terms(s, &terms, 0, c->kernel_h, s->image + b * s->plane,
                      c->dilation_h * s->pitch, s->accumulate, sums_of(s, co, b),
                      (size_t)s->vecs * s->ops->lanes);
        }
    }
}

/* dw += the sums, whose lanes are taps. */
static void add_tap_lanes(const struct sparse *s, float *dw)
{
    const struct uw_conv2d *c = s->c;
    size_t of_row = (size_t)s->vecs * s->ops->lanes;
    for (uint32_t co = 0; co < c->out_channels; co++) {
        for (uint32_t ci = 0; ci < c->in_channels; ci++) {
            const float *from = sums_of(s, co, 0) + ci;
            for (uint32_t kh = 0; kh < c->kernel_h; kh++, from += of_row, dw += c->kernel_w) {
                for (uint32_t kw = 0; kw < c->kernel_w; kw++) {
                    dw[kw] += from[kw * s->pixel];
                }
            }
        }
    }
}

static void add_sums(const struct sparse *s, float *transposed, float *dw)
{
    const struct uw_conv2d *c = s->c;
    const float one = 1.0f;
    uint32_t taps = taps_of(c);
    if (s->pixel < s->ops->lanes) {
        add_tap_lanes(s, dw);
        return;
    }
    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t channels = min_u32(s->channels, c->in_channels - b * s->channels);
        float *to = dw + (size_t)b * s->channels * taps;
        for (uint32_t co = 0; co < c->out_channels; co++) {
            s->t->pack_transposed(taps, channels, 1.0f, sums_of(s, co, b), s->ops->lanes,
                                  transposed, taps);
            s->t->add_rows(1, (size_t)channels * taps, &one, transposed, 0, to);
            to += (size_t)c->in_channels * taps;
        }
    }
}

int uw_sparse_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *dy, float scale, float *dw)
{
    struct sparse s;
    if (!plan(&s, e->kernels->tile, c, UW_SMALL_BW_PARAM) ||
        e->scratch_bytes < place(&s, e->scratch)) {
        return UW_ERR_NOMEM;
    }
    s.scale = scale;
    for (uint32_t n = 0; n < batch_n; n++) {
        transpose_input(&s, x + (size_t)n * c->in_channels * c->in_h * c->in_w);
        s.dy = dy + n * c->out_channels * out_plane(c);
        s.accumulate = n > 0;
        uw_workers_run(e->workers, param_task, &s, s.tasks);
    }
    float *transposed;
    uint32_t *start;
    terms_of(&s, 0, &transposed, &start);
    add_sums(&s, transposed, dw);
    return UW_OK;
}

/* Transpose the weights to input channels as lanes, into sums. Whole registers are copied where
 * that stays inside w; results of lanes without a channel are not used. */
static void transpose_weights(const struct sparse *s, const float *w)
{
    const struct uw_conv2d *c = s->c;
    uint32_t taps = taps_of(c), lanes = s->ops->lanes, all = c->out_channels * c->in_channels;
    for (uint32_t b = 0; b < s->blocks; b++) {
        for (uint32_t co = 0; co < c->out_channels; co++) {
            uint32_t row = co * c->in_channels + b * lanes;
            uint32_t rows = row + lanes <= all ? lanes : all - row;
            s->t->pack_transposed(rows, taps, 1.0f, w + (size_t)row * taps, taps,
                                  sums_of(s, co, b), lanes);
        }
    }
}

/* Find the terms of each pixel of a row of dy, channel by channel. */
static void find_row(const struct sparse *s, uint32_t oh, struct uw_small_terms *terms,
                     float *transposed, uint32_t *start)
{
    const struct uw_conv2d *c = s->c;
    uint32_t of_channel = taps_of(c) * s->ops->lanes;
    s->t->pack_transposed(c->out_channels, c->out_w, 1.0f, s->dy + (size_t)oh * c->out_w,
                          out_plane(c), transposed, c->out_channels);
    terms->n = 0;
    for (uint32_t ow = 0; ow < c->out_w; ow++) {
        start[ow] = terms->n;
        s->t->small->find_terms(c->out_channels, transposed + (size_t)ow * c->out_channels, 1.0f, 0,
                                of_channel, terms);
    }
    start[c->out_w] = terms->n;
}

/* Store rows of the image in dx. */
static void put_rows(const struct sparse *s, uint32_t from, uint32_t to, float *transposed)
{
    const struct uw_conv2d *c = s->c;
    const float one = 1.0f;
    size_t plane = (size_t)c->in_h * c->in_w;
    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t channels = min_u32(s->channels, c->in_channels - b * s->channels);
        for (uint32_t row = from; row < to; row++) {
            const float *src = s->image + b * s->plane + row * s->pitch + c->pad_w * s->pixel;
            float *dst = s->dx + b * s->channels * plane + (size_t)row * c->in_w;
            if (!s->accumulate) {
                s->t->pack_transposed(c->in_w, channels, 1.0f, src, s->pixel, dst, plane);
                continue;
            }
            s->t->pack_transposed(c->in_w, channels, 1.0f, src, s->pixel, transposed, c->in_w);
            for (uint32_t i = 0; i < channels; i++) {
                s->t->add_rows(1, c->in_w, &one, transposed + (size_t)i * c->in_w, 0,
                               dst + i * plane);
            }
        }
    }
}

static void input_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct sparse *s = arg;
    const struct uw_conv2d *c = s->c;
    float *transposed;
    uint32_t *start, from = task * s->per_task, to = min_u32(s->units, from + s->per_task);
    struct uw_small_terms terms = terms_of(s, task, &transposed, &start);
    size_t ldo = c->dilation_h * s->pitch, ldb = (size_t)s->vecs * s->ops->lanes;
    for (uint32_t b = 0; b < s->blocks; b++) {
        memset(s->image + b * s->plane + from * s->pitch, 0,
               (to - from) * s->pitch * sizeof(float));
    }
    for (uint32_t oh = 0; oh < c->out_h; oh++) {
        int64_t top = (int64_t)oh * c->stride_h - c->pad_h;
        uint32_t kh0 = 0, kh1 = 0;
        for (uint32_t kh = 0; kh < c->kernel_h; kh++) {     /* kh0 .. kh1-1 reach the task's rows */
            int64_t ih = top + (int64_t)kh * c->dilation_h;
            kh0 += ih < from ? 1 : 0;
            kh1 += ih < to ? 1 : 0;
        }
        if (kh0 >= kh1) {
            continue;
        }
        find_row(s, oh, &terms, transposed, start);
        for (uint32_t b = 0; b < s->blocks; b++) {
            for (uint32_t ow = 0; ow < c->out_w; ow++) {
                struct uw_small_terms here = {start[ow + 1] - start[ow], terms.value + start[ow],
                                              terms.at + start[ow]};
                if (here.n > 0) {
                    int64_t at = (top + (int64_t)kh0 * c->dilation_h) * (int64_t)s->pitch;
                    add_terms(s, &here, 0, kh1 - kh0, sums_of(s, 0, b) + kh0 * ldb, ldb, true,
                              s->image + b * s->plane + at + ow * c->stride_w * s->pixel, ldo);
                }
            }
        }
    }
    put_rows(s, from, to, transposed);
}

int uw_sparse_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *dy, const float *w, float *dx, bool accumulate)
{
    struct sparse s;
    if (!plan(&s, e->kernels->tile, c, UW_SMALL_BW_INPUT) ||
        e->scratch_bytes < place(&s, e->scratch)) {
        return UW_ERR_NOMEM;
    }
    transpose_weights(&s, w);
    s.accumulate = accumulate;
    for (uint32_t n = 0; n < batch_n; n++) {
        s.dy = dy + n * c->out_channels * out_plane(c);
        s.dx = dx + (size_t)n * c->in_channels * c->in_h * c->in_w;
        uw_workers_run(e->workers, input_task, &s, s.tasks);
    }
    return UW_OK;
}
