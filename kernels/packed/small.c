/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/small.h"
#include "packed/sizes.h"

#include "uwasa/status.h"

#include <string.h>

/* Most multiplications; fewer where a product can read whole pieces of rows in place. */
#define WORK_MAX 12582912.0
#define WORK_MAX_PIECES 3145728.0
#define TASK_WORK 131072.0      /* multiplications per task, about */
#define TASKS_MAX 8u
#define LIST_MAX 4096u          /* inner indexes */
#define BAND_MAX 32768u         /* floats of an image with its padding */
#define PACKED_MAX 65536u       /* floats of the packed operand */
#define FILLED 0.5              /* least share of lanes in use */
/* A weight gradient whose output channels fill one register at most: a packed product would use
 * each packed pixel for these few only. Of any size, within these limits. */
#define NARROW_LANES 8u         /* of the register, at least */
#define NARROW_LIST 1024u
#define NARROW_BAND 262144u

/* A padded image, so that no tap falls outside: element (channel, row, column) is at
 * channel * plane + row * pitch + column. */
struct band {
    size_t pitch, plane;
    size_t right;               /* columns from the first non-padding one on; gradient only */
    size_t front, back;         /* floats addressed before it, and read after it */
    size_t n;
};

/* One part of a convolution. */
struct small {
    const struct uw_tile *t;
    const struct uw_small_ops *ops;
    const struct uw_conv2d *c;
    bool by_channels;           /* lanes are output channels, else pixels of a row */
    uint32_t list_n;            /* inner indexes */
    struct band band;
    bool in_place;              /* the image is read in place, without a band */
    size_t packed_n, sums_n;    /* floats */
    uint32_t units;             /* rows of pixels, or groups of UW_SMALL_ROWS; divided into tasks */

    struct uw_small_at *list;
    float *image, *packed, *sums;
    const float *a, *b, *w, *bias;
    float *out;
    bool accumulate;
    uint32_t per_task;
};

static uint32_t kernel_of(const struct uw_conv2d *c)
{
    return c->kernel_h * c->kernel_w;
}

static double work_of(const struct uw_conv2d *c, uint32_t batch_n)
{
    return (double)batch_n * c->out_channels * c->in_channels * kernel_of(c) * c->out_h * c->out_w;
}

/* The number of lanes that n elements fill best; the larger one on a tie. */
static const struct uw_small_ops *lanes_for(const struct uw_tile *t, uint32_t n)
{
    bool wide = round_up(n, t->small->lanes) <= round_up(n, t->small_narrow->lanes);
    return wide ? t->small : t->small_narrow;
}

static double filled(const struct uw_small_ops *ops, uint32_t n)
{
    return (double)n / round_up(n, ops->lanes);
}

/* The input with its padding. */
static void band_of_input(struct small *s, uint32_t lanes_read)
{
    const struct uw_conv2d *c = s->c;
    size_t rows = uw_size_mul(2, c->pad_h) + c->in_h;
    s->band.pitch = uw_size_mul(2, c->pad_w) + c->in_w;
    s->band.plane = uw_size_mul(s->band.pitch, rows);
    s->band.back = lanes_read;
    s->band.n = uw_size_mul(s->band.plane, c->in_channels);
    s->in_place = c->pad_h == 0 && c->pad_w == 0 && lanes_read == 0;
}

/* dy with enough columns for every tap of every input column. Rows are not padded. */
static void band_of_gradient(struct small *s, uint32_t lanes_read)
{
    const struct uw_conv2d *c = s->c;
    size_t reach = uw_size_mul(c->kernel_w - 1, c->dilation_w);
    s->band.right = larger((size_t)c->in_w + c->pad_w, c->out_w);
    s->band.pitch = s->band.right + (reach > c->pad_w ? reach - c->pad_w : 0);
    s->band.plane = uw_size_mul(s->band.pitch, c->out_h);
    s->band.front = uw_size_mul(uw_size_mul(c->kernel_h - 1, c->dilation_h), s->band.pitch);
    s->band.back = lanes_read;
    s->band.n = uw_size_mul(s->band.plane, c->out_channels);
}

static void plan_fw(struct small *s)
{
    const struct uw_conv2d *c = s->c;
    const struct uw_small_ops *pixels = lanes_for(s->t, c->out_w);
    const struct uw_small_ops *channels = lanes_for(s->t, c->out_channels);
    s->by_channels = c->stride_w != 1 || filled(channels, c->out_channels) >
                                             filled(pixels, c->out_w);
    s->ops = s->by_channels ? channels : pixels;
    s->list_n = c->in_channels * kernel_of(c);
    band_of_input(s, s->by_channels || c->out_w >= s->ops->lanes ? 0 : s->ops->lanes);
    s->packed_n = s->by_channels ? (size_t)round_up(c->out_channels, s->ops->lanes) * s->list_n
                                 : 0;
    s->units = s->by_channels ? div_up(c->out_h * c->out_w, UW_SMALL_ROWS) : c->out_h;
}

static void plan_bw_input(struct small *s)
{
    const struct uw_conv2d *c = s->c;
    s->ops = lanes_for(s->t, c->in_w);
    s->list_n = c->out_channels * kernel_of(c);
    band_of_gradient(s, s->ops->lanes);
    s->units = c->in_h;
}

static void plan_bw_param(struct small *s)
{
    const struct uw_conv2d *c = s->c;
    uint32_t taps = c->in_channels * kernel_of(c);
    s->ops = lanes_for(s->t, c->out_channels);
    s->by_channels = true;
    s->list_n = c->out_h * c->out_w;
    band_of_input(s, 0);
    size_t lanes_n = round_up(c->out_channels, s->ops->lanes);
    s->packed_n = lanes_n * s->list_n;
    s->sums_n = (lanes_n + s->ops->lanes) * taps;   /* and one block transposed */
    s->units = div_up(taps, UW_SMALL_ROWS);
}

static struct small plan_of(const struct uw_tile *t, const struct uw_conv2d *c,
                            enum uw_small_part part)
{
    struct small s = {.t = t, .c = c};
    switch (part) {
    case UW_SMALL_FW: plan_fw(&s); break;
    case UW_SMALL_BW_INPUT: plan_bw_input(&s); break;
    case UW_SMALL_BW_PARAM: plan_bw_param(&s); break;
    }
    return s;
}

static bool is_narrow(const struct small *s, enum uw_small_part part)
{
    return part == UW_SMALL_BW_PARAM && s->c->out_channels <= s->ops->lanes &&
           s->ops->lanes >= NARROW_LANES && s->list_n <= NARROW_LIST;
}

bool uw_small_fits(const struct uw_tile *t, const struct uw_conv2d *c, enum uw_small_part part,
                   uint32_t batch_n)
{
    if (t->small == NULL || c->groups != 1 || batch_n == 0 ||
        kernel_of(c) == 1 ||        /* a packed product needs no band */
        (part == UW_SMALL_BW_INPUT && (c->stride_h != 1 || c->stride_w != 1))) {
        return false;
    }
    struct small s = plan_of(t, c, part);
    double most = c->out_w % UW_TILE_PIECE_N == 0 ? WORK_MAX_PIECES : WORK_MAX;
    bool narrow = is_narrow(&s, part);
    if (!narrow && work_of(c, batch_n) > most) {
        return false;
    }
    uint32_t pixels = part == UW_SMALL_FW ? c->out_w : c->in_w;
    double share = filled(s.ops, s.by_channels ? c->out_channels : pixels);
    return share >= FILLED && s.list_n <= LIST_MAX &&
           s.band.n <= (narrow ? NARROW_BAND : BAND_MAX) && s.band.front <= BAND_MAX &&
           s.packed_n <= PACKED_MAX && s.sums_n <= PACKED_MAX;
}

/* Lay out the areas in scratch and return their bytes; scratch NULL: only the bytes. */
static size_t place(struct small *s, uint8_t *scratch)
{
    size_t list = uw_arena_padded(s->list_n * sizeof(struct uw_small_at));
    size_t image = s->in_place ? 0 : area_bytes(s->band.front + s->band.n + s->band.back);
    size_t packed = area_bytes(s->packed_n), sums = area_bytes(s->sums_n);
    if (scratch != NULL) {
        s->list = (struct uw_small_at *)(void *)scratch;
        s->image = (float *)(void *)(scratch + list) + s->band.front;
        s->packed = (float *)(void *)(scratch + list + image);
        s->sums = (float *)(void *)(scratch + list + image + packed);
    }
    return list + image + packed + sums;
}

size_t uw_small_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c)
{
    size_t most = 0;
    for (enum uw_small_part part = UW_SMALL_FW; part <= UW_SMALL_BW_PARAM; part++) {
        if (uw_small_fits(t, c, part, 1)) {
            struct small s = plan_of(t, c, part);
            most = larger(most, place(&s, NULL));
        }
    }
    return most;
}

static int begin(struct small *s, const struct uw_exec *e)
{
    if (e->scratch_bytes < place(s, NULL)) {
        return UW_ERR_NOMEM;
    }
    place(s, e->scratch);
    double tasks = work_of(s->c, 1) / TASK_WORK;
    s->per_task = div_up(s->units, tasks < TASKS_MAX ? (uint32_t)tasks + 1 : TASKS_MAX);
    return UW_OK;
}

static void run(struct small *s, const struct uw_exec *e, uw_task_fn fn)
{
    uw_workers_run(e->workers, fn, s, div_up(s->units, s->per_task));
}

/* List the inner indexes in the order of the weights (the left operand if lanes are pixels). */
static void list_taps(const struct small *s)
{
    const struct uw_conv2d *c = s->c;
    struct uw_small_at *at = s->list;
    uint32_t k = 0;
    for (uint32_t ci = 0; ci < c->in_channels; ci++) {
        for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
            uint32_t tap = (uint32_t)(ci * s->band.plane + kh * s->band.pitch * c->dilation_h);
            for (uint32_t kw = 0; kw < c->kernel_w; kw++, k++, tap += c->dilation_w) {
                *at++ = s->by_channels ? (struct uw_small_at){tap, k * s->ops->lanes}
                                       : (struct uw_small_at){k, tap};
            }
        }
    }
}

/* Zero the band and copy planes of h rows of w floats into it, from offset `first`. */
static void fill(const struct small *s, uint32_t planes, uint32_t h, uint32_t w, const float *src,
                 size_t first)
{
    memset(s->image, 0, (s->band.n + s->band.back) * sizeof(float));
    for (uint32_t i = 0; i < planes; i++) {
        float *to = s->image + i * s->band.plane + first;
        for (uint32_t row = 0; row < h; row++, to += s->band.pitch, src += w) {
            memcpy(to, src, w * sizeof(float));
        }
    }
}

/* The padded input: a copy, or x itself. */
static const float *fill_input(const struct small *s, const float *x)
{
    const struct uw_conv2d *c = s->c;
    if (!s->in_place) {
        fill(s, c->in_channels, c->in_h, c->in_w, x, c->pad_h * s->band.pitch + c->pad_w);
    }
    return s->in_place ? x : s->image;
}

/* dst[k][lane] = alpha * src[lane][k], in blocks of all lanes; empty lanes are 0. */
static void pack_lanes(const struct small *s, uint32_t channels, uint32_t n, float alpha,
                       const float *src, float *dst)
{
    uint32_t lanes = s->ops->lanes;
    for (uint32_t i = 0; i < channels; i += lanes, dst += (size_t)n * lanes) {
        uint32_t rows = min_u32(lanes, channels - i);
        if (rows < lanes) {
            memset(dst, 0, (size_t)n * lanes * sizeof(float));
        }
        s->t->pack_transposed(rows, n, alpha, src + (size_t)i * n, n, dst, lanes);
    }
}

/* First row of a unit when n rows are spread evenly over the units. */
static uint32_t unit_begin(uint32_t n, uint32_t units, uint32_t unit)
{
    return unit * (n / units) + min_u32(unit, n % units);
}

static void put(uint32_t n, const float *from, bool accumulate, float *to)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = accumulate ? to[i] + from[i] : from[i];
    }
}

/* Compute one row of `width` pixels, which are lanes, for all channels, `plane` apart in out. */
static void row_of_pixels(const struct small *s, struct uw_small_sides *sides, uint32_t n,
                          uint32_t channels, uint32_t weights_apart, uint32_t width, float *out,
                          size_t plane)
{
    static const float zeros[UW_SMALL_ROWS];
    uint32_t lanes = s->ops->lanes, groups = div_up(channels, UW_SMALL_ROWS);
    const float *b = sides->b;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t begin = unit_begin(channels, groups, g);
        uint32_t rows = unit_begin(channels, groups, g + 1) - begin;
        const float *init = s->bias != NULL ? s->bias + begin : zeros;
        for (uint32_t i = 0; i < rows; i++) {
            sides->row[i] = (begin + i) * weights_apart;
        }
        for (uint32_t from = 0; from < width; from += lanes) {
            /* The last lanes overlap those before where the row is wide enough. */
            uint32_t at = from + lanes > width && width >= lanes ? width - lanes : from;
            float *to = out + begin * plane + at, tile[UW_SMALL_ROWS * UW_SMALL_LANES_MAX];
            sides->b = b + at;
            if (width >= lanes && !s->accumulate) {
                s->ops->multiply(rows, n, sides, init, to, plane);
                continue;
            }
            s->ops->multiply(rows, n, sides, init, tile, lanes);
            for (uint32_t i = 0; i < rows; i++) {
                put(min_u32(lanes, width - from), tile + i * lanes + (from - at), s->accumulate,
                    to + i * plane + (from - at));
            }
        }
    }
}

static void fw_pixels(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct small *s = arg;
    const struct uw_conv2d *c = s->c;
    uint32_t end = min_u32(s->units, (task + 1) * s->per_task);
    for (uint32_t oh = task * s->per_task; oh < end; oh++) {
        struct uw_small_sides sides = {.a = s->w, .at = s->list,
                                       .b = s->b + (size_t)oh * c->stride_h * s->band.pitch};
        row_of_pixels(s, &sides, s->list_n, c->out_channels, s->list_n, c->out_w,
                      s->out + (size_t)oh * c->out_w, (size_t)c->out_h * c->out_w);
    }
}

static void fw_channels(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct small *s = arg;
    const struct uw_conv2d *c = s->c;
    uint32_t end = min_u32(s->units, (task + 1) * s->per_task), lanes = s->ops->lanes;
    uint32_t pixels = c->out_h * c->out_w;
    for (uint32_t unit = task * s->per_task; unit < end; unit++) {
        uint32_t p = unit_begin(pixels, s->units, unit);
        uint32_t rows = unit_begin(pixels, s->units, unit + 1) - p;
        struct uw_small_sides sides = {.a = s->a, .at = s->list};
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t oh = (p + i) / c->out_w, ow = (p + i) % c->out_w;
            sides.row[i] = (uint32_t)(oh * c->stride_h * s->band.pitch + ow * c->stride_w);
        }
        for (uint32_t co = 0; co < c->out_channels; co += lanes) {
            uint32_t n = min_u32(lanes, c->out_channels - co);
            float tile[UW_SMALL_ROWS * UW_SMALL_LANES_MAX] = {0.0f};
            float transposed[UW_SMALL_ROWS * UW_SMALL_LANES_MAX];
            for (uint32_t i = 0; i < rows && s->bias != NULL; i++) {
                memcpy(tile + i * lanes, s->bias + co, n * sizeof(float));
            }
            sides.b = s->packed + (size_t)co * s->list_n;
            s->ops->multiply(rows, s->list_n, &sides, NULL, tile, lanes);
            s->t->pack_transposed(rows, n, 1.0f, tile, lanes, transposed, UW_SMALL_ROWS);
            for (uint32_t i = 0; i < n; i++) {
                put(rows, transposed + i * UW_SMALL_ROWS, s->accumulate,
                    s->out + ((size_t)co + i) * pixels + p);
            }
        }
    }
}

int uw_small_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    struct small s = plan_of(e->kernels->tile, c, UW_SMALL_FW);
    int rc = begin(&s, e);
    if (rc < 0) {
        return rc;
    }
    list_taps(&s);
    if (s.by_channels) {
        pack_lanes(&s, c->out_channels, s.list_n, 1.0f, w, s.packed);
    }
    s.w = w;
    s.bias = b;
    s.accumulate = accumulate;
    for (uint32_t n = 0; n < batch_n; n++) {
        s.a = s.b = fill_input(&s, x + (size_t)n * c->in_channels * c->in_h * c->in_w);
        s.out = y + (size_t)n * c->out_channels * c->out_h * c->out_w;
        run(&s, e, s.by_channels ? fw_channels : fw_pixels);
    }
    return UW_OK;
}

/* List the inner indexes in the order kernel row, output channel, kernel column, so that the kernel
 * rows outside the image at a border are at an end of the list. */
static void list_weights(const struct small *s)
{
    const struct uw_conv2d *c = s->c;
    struct uw_small_at *at = s->list;
    uint32_t reach_h = (c->kernel_h - 1) * c->dilation_h;
    uint32_t reach_w = (c->kernel_w - 1) * c->dilation_w;
    uint32_t first = reach_w > c->pad_w ? reach_w : c->pad_w;     /* column of tap 0, pixel 0 */
    for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
        for (uint32_t co = 0; co < c->out_channels; co++) {
            for (uint32_t kw = 0; kw < c->kernel_w; kw++, at++) {
                at->a = (co * c->in_channels * c->kernel_h + kh) * c->kernel_w + kw;
                at->b = (uint32_t)(co * s->band.plane +
                                   (reach_h - kh * c->dilation_h) * s->band.pitch) +
                        first - kw * c->dilation_w;
            }
        }
    }
}

static void bw_input_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct small *s = arg;
    const struct uw_conv2d *c = s->c;
    uint32_t end = min_u32(s->units, (task + 1) * s->per_task), kernel = kernel_of(c);
    for (uint32_t ih = task * s->per_task; ih < end; ih++) {
        uint32_t kh0 = 0, kh1 = 0;
        for (uint32_t kh = 0; kh < c->kernel_h; kh++) { /* kh0 .. kh1-1 reach the row */
            int64_t oh = (int64_t)ih + c->pad_h - (int64_t)kh * c->dilation_h;
            kh0 += oh >= c->out_h ? 1 : 0;
            kh1 += oh >= 0 ? 1 : 0;
        }
        uint32_t of_row = c->out_channels * c->kernel_w;
        struct uw_small_sides sides = {.a = s->w, .at = s->list + (size_t)kh0 * of_row};
        sides.b = s->image - s->band.front + ((size_t)ih + c->pad_h) * s->band.pitch;
        row_of_pixels(s, &sides, kh1 > kh0 ? (kh1 - kh0) * of_row : 0, c->in_channels, kernel,
                      c->in_w, s->out + (size_t)ih * c->in_w, (size_t)c->in_h * c->in_w);
    }
}

int uw_small_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *dy, const float *w, float *dx, bool accumulate)
{
    struct small s = plan_of(e->kernels->tile, c, UW_SMALL_BW_INPUT);
    int rc = begin(&s, e);
    if (rc < 0) {
        return rc;
    }
    list_weights(&s);
    s.w = w;
    s.accumulate = accumulate;
    for (uint32_t n = 0; n < batch_n; n++) {
        fill(&s, c->out_channels, c->out_h, c->out_w,
             dy + (size_t)n * c->out_channels * c->out_h * c->out_w,
             s.band.pitch - s.band.right);
        s.out = dx + (size_t)n * c->in_channels * c->in_h * c->in_w;
        run(&s, e, bw_input_task);
    }
    return UW_OK;
}

static void bw_param_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct small *s = arg;
    const struct uw_conv2d *c = s->c;
    static const float zeros[UW_SMALL_ROWS];
    uint32_t end = min_u32(s->units, (task + 1) * s->per_task), lanes = s->ops->lanes;
    uint32_t kernel = kernel_of(c), taps = c->in_channels * kernel;
    for (uint32_t unit = task * s->per_task; unit < end; unit++) {
        uint32_t tap = unit_begin(taps, s->units, unit);
        uint32_t rows = unit_begin(taps, s->units, unit + 1) - tap;
        struct uw_small_sides sides = {.a = s->a, .at = s->list};
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t ci = (tap + i) / kernel, k = (tap + i) % kernel;
            sides.row[i] = (uint32_t)(ci * s->band.plane +
                                      k / c->kernel_w * c->dilation_h * s->band.pitch +
                                      k % c->kernel_w * c->dilation_w);
        }
        for (uint32_t co = 0; co < c->out_channels; co += lanes) {
            sides.b = s->packed + (size_t)co * s->list_n;
            s->ops->multiply(rows, s->list_n, &sides, s->accumulate ? NULL : zeros,
                             s->sums + (size_t)co * taps + (size_t)tap * lanes, lanes);
        }
    }
}

/* dw[channel][tap] += sums[tap][channel] */
static void add_sums(const struct small *s, float *dw)
{
    const struct uw_conv2d *c = s->c;
    const float one = 1.0f;
    uint32_t lanes = s->ops->lanes, taps = c->in_channels * kernel_of(c);
    float *transposed = s->sums + (size_t)round_up(c->out_channels, lanes) * taps;
    for (uint32_t co = 0; co < c->out_channels; co += lanes) {
        uint32_t n = min_u32(lanes, c->out_channels - co);
        s->t->pack_transposed(taps, n, 1.0f, s->sums + (size_t)co * taps, lanes, transposed, taps);
        s->t->add_rows(1, (size_t)n * taps, &one, transposed, 0, dw + (size_t)co * taps);
    }
}

int uw_small_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *dy, float scale, float *dw)
{
    struct small s = plan_of(e->kernels->tile, c, UW_SMALL_BW_PARAM);
    int rc = begin(&s, e);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t oh = 0, p = 0; oh < c->out_h; oh++) {
        for (uint32_t ow = 0; ow < c->out_w; ow++, p++) {
            s.list[p].a = (uint32_t)(oh * c->stride_h * s.band.pitch) + ow * c->stride_w;
            s.list[p].b = p * s.ops->lanes;
        }
    }
    for (uint32_t n = 0; n < batch_n; n++) {
        const float *from = dy + (size_t)n * c->out_channels * s.list_n;
        pack_lanes(&s, c->out_channels, s.list_n, scale, from, s.packed);
        s.a = fill_input(&s, x + (size_t)n * c->in_channels * c->in_h * c->in_w);
        s.accumulate = n > 0;
        run(&s, e, bw_param_task);
    }
    add_sums(&s, dw);
    return UW_OK;
}
