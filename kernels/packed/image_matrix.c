/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/image_matrix.h"
#include "packed/input_norm.h"
#include "packed/sizes.h"

#include "uwasa/arena.h"

#include <string.h>

#define PLAIN_PANELS 2u
#define AHEAD 2u                    /* channels to prefetch ahead */
#define CHANNELS_MIN 8u             /* of taps_outer: fewer fill no registers, more much scratch */
#define CHANNELS_MAX 256u
#define LINE_N 16u                  /* floats in a cache line */

/* Offsets into src must fit in 32 bits. */
static struct uw_image set_plain(struct uw_image v)
{
    uint64_t hw = (uint64_t)v.h * v.w;
    v.plain = v.kernel_h == 1 && v.kernel_w == 1 && v.step_h == 1 && v.step_w == 1 &&
              v.top == 0 && v.left == 0 && v.out_h == v.h && v.out_w == v.w &&
              hw * v.channels <= UINT32_MAX &&
              v.image_stride <= UINT32_MAX / (v.batch_n > 0 ? v.batch_n : 1);
    return v;
}

struct uw_image uw_image_of_input(const struct uw_conv2d *c, uint32_t batch_n, const float *x,
                                  bool pixels_inner)
{
    size_t hw = (size_t)c->in_h * c->in_w;
    uint32_t group_in = c->in_channels / c->groups;
    bool far = c->kernel_w > 1 ? c->dilation_w > 1 : c->kernel_h > 1;
    return set_plain((struct uw_image){
        .src = x, .image_stride = hw * c->in_channels, .group_stride = hw * group_in,
        .batch_n = batch_n, .channels = group_in, .norm = uw_input_norm_of(c),
        .taps_outer = pixels_inner && far && c->stride_w == 1 && group_in >= CHANNELS_MIN &&
                      group_in <= CHANNELS_MAX,
        .h = c->in_h, .w = c->in_w, .top = c->pad_h, .left = c->pad_w,
        .out_h = c->out_h, .out_w = c->out_w, .pitch = c->out_w,
        .step_h = c->stride_h, .step_w = c->stride_w,
        .kernel_h = c->kernel_h, .kernel_w = c->kernel_w,
        .dilation_h = c->dilation_h, .dilation_w = c->dilation_w, .pixels_inner = pixels_inner,
    });
}

struct uw_image uw_image_of_output_gradient(const struct uw_conv2d *c,
                                            const struct uw_phase *phase, uint32_t batch_n,
                                            const float *dy)
{
    const struct uw_phase_axis *h = &phase->h, *w = &phase->w;
    size_t hw = (size_t)c->out_h * c->out_w;
    uint32_t group_out = c->out_channels / c->groups;
    return set_plain((struct uw_image){
        .src = dy, .image_stride = hw * c->out_channels, .group_stride = hw * group_out,
        .batch_n = batch_n, .channels = group_out, .h = c->out_h, .w = c->out_w,
        .top = h->before, .left = w->before,
        .out_h = h->pixels, .out_w = w->pixels, .pitch = w->pixels, .step_h = 1, .step_w = 1,
        .kernel_h = h->taps, .kernel_w = w->taps,
        .dilation_h = h->dilation, .dilation_w = w->dilation, .mirror = true,
    });
}

static bool is_wide(const struct uw_image *v)
{
    return v->pitch > v->out_w;
}

/* A multiple of the piece size if wide, so that no piece crosses into the next image. */
uint32_t uw_image_cols(const struct uw_image *v)
{
    uint32_t n = (v->out_h - 1) * v->pitch + v->out_w;
    return is_wide(v) ? (n + UW_TILE_PIECE_N - 1) / UW_TILE_PIECE_N * UW_TILE_PIECE_N : n;
}

uint32_t uw_image_pixels(const struct uw_image *v)
{
    return v->batch_n * uw_image_cols(v);
}

uint32_t uw_image_taps(const struct uw_image *v)
{
    return v->channels * v->kernel_h * v->kernel_w;
}

static size_t span_h(const struct uw_image *v)
{
    return (size_t)(v->kernel_h - 1) * v->dilation_h + 1;
}

/* With a stride, a row of the band is split into lanes, one for all taps that read the same residue
 * modulo step_w, so that adjacent pixels read adjacent floats. bw_param needs adjacent taps
 * instead, unless the kernel is one column wide. */
static bool has_lanes(const struct uw_image *v)
{
    return v->step_w > 1 && (!v->pixels_inner || v->kernel_w == 1);
}

/* Tap kw reads lane kw % lanes_period, starting at its element kw * dilation_w / step_w. */
static uint32_t lanes_period(const struct uw_image *v)
{
    return least_multiple(v->step_w, v->dilation_w);
}

static size_t lane_width(const struct uw_image *v)
{
    return v->out_w + (size_t)(v->kernel_w - 1) * v->dilation_w / v->step_w;
}

static size_t band_width(const struct uw_image *v)
{
    if (has_lanes(v)) {
        uint32_t period = lanes_period(v);
        return lane_width(v) * (period < v->kernel_w ? period : v->kernel_w);
    }
    return (size_t)(v->out_w - 1) * v->step_w + (size_t)(v->kernel_w - 1) * v->dilation_w + 1;
}

/* What a block of pixels_n pixels needs of an image of one row: that many columns at most. */
static struct uw_image window_of(const struct uw_image *v, uint32_t pixels_n)
{
    struct uw_image w = *v;
    if (v->out_h == 1 && pixels_n < v->pitch) {
        w.out_w = w.pitch = pixels_n;
    }
    return w;
}

/* Most band rows for pixels_n consecutive pixels. They have at most `rows` rows of pixels in
 * `pieces` images, and a piece of r rows needs (r - 1) * step_h + span_h. A wide image can end
 * within a row, so that every further piece may add one. */
static size_t band_rows_max(const struct uw_image *v, uint32_t pixels_n)
{
    size_t hw = uw_image_cols(v);
    size_t rows = pixels_n < 2 ? 1 : (size_t)(pixels_n - 2) / v->pitch + 2;
    size_t pieces = pixels_n < 2 ? 1 : (pixels_n - 2) / hw + 2;
    pieces = pieces < v->batch_n ? pieces : v->batch_n;
    rows += is_wide(v) && pieces > 1 ? pieces - 1 : 0;
    rows = rows < pieces * v->out_h ? rows : pieces * v->out_h;
    size_t extra = span_h(v) > v->step_h ? span_h(v) - v->step_h : 0;
    return rows * v->step_h + pieces * extra;
}

static size_t band_channels_max(const struct uw_image *v, uint32_t taps_n)
{
    size_t kernel = (size_t)v->kernel_h * v->kernel_w;
    size_t channels = taps_n < 2 ? 1 : (taps_n - 2) / kernel + 2;
    return channels < v->channels && !v->taps_outer ? channels : v->channels;
}

/* Most floats in the band of a block, or SIZE_MAX. */
static size_t band_n_max(const struct uw_image *v, uint32_t pixels_n, uint32_t taps_n)
{
    const struct uw_image window = window_of(v, pixels_n);
    return uw_size_mul(uw_size_mul(band_rows_max(v, pixels_n), band_width(&window)),
                       band_channels_max(v, taps_n));
}

bool uw_image_fits(const struct uw_image *v, const struct uw_tile *t)
{
    struct uw_image any = *v;
    uint64_t kernel = (uint64_t)v->kernel_h * v->kernel_w;
    if ((uint64_t)v->out_h * v->out_w > UINT32_MAX || kernel > UINT32_MAX / v->channels) {
        return false;
    }
    any.batch_n = UINT32_MAX;
    /* The largest block that uw_product_cut makes, unless one kernel is larger. */
    uint32_t pixels_n = max_u32(max_u32(t->nc, t->kc), max_u32(t->matrix_nc, t->matrix_kc));
    uint32_t taps_n = kernel > pixels_n ? (uint32_t)kernel : pixels_n;
    return band_n_max(&any, pixels_n, taps_n) <= UINT32_MAX - UW_TILE_PIECE_N;
}

size_t uw_image_work_bytes(const struct uw_image *v, uint32_t pixels_n, uint32_t taps_n)
{
    size_t lists = uw_size_mul((size_t)pixels_n + taps_n, sizeof(uint32_t));
    if (v->plain) {
        return lists;
    }
    size_t band = uw_size_mul(band_n_max(v, pixels_n, taps_n), sizeof(float));
    size_t room = UW_TILE_PIECE_N * sizeof(float);
    return band > SIZE_MAX - room || lists > SIZE_MAX - room - band ? SIZE_MAX
                                                                    : band + room + lists;
}

static void copy_lanes(const struct uw_image *v, const float *src, float *dst)
{
    size_t width = lane_width(v), lanes = band_width(v) / width;
    for (size_t lane = 0; lane < lanes; lane++) {
        int64_t from = (int64_t)(lane * v->dilation_w % v->step_w) - v->left;
        size_t i = 0;
        for (; i < width && from < 0; i++, from += v->step_w) {
            dst[i] = 0.0f;
        }
        for (; i < width && from < v->w; i++, from += v->step_w) {
            dst[i] = src[from];
        }
        for (; i < width; i++) {
            dst[i] = 0.0f;
        }
        dst += width;
    }
}

/* Copy one row of one channel with its padding. Prefetches the row `ahead` floats further, which is
 * in another plane, where hardware prefetchers do not expect it. */
static void copy_row(const struct uw_image *v, const float *plane, int64_t row, size_t ahead,
                     float *dst)
{
    size_t width = band_width(v);
    int64_t from = row - v->top;
    if (from < 0 || from >= v->h) {
        memset(dst, 0, width * sizeof(float));
        return;
    }
    const float *src = plane + (size_t)from * v->w;
    __builtin_prefetch(src + ahead);
    __builtin_prefetch(src + ahead + (v->w > LINE_N ? LINE_N : 0));
    if (has_lanes(v)) {
        copy_lanes(v, src, dst);
        return;
    }
    size_t zeros = v->left > 0 ? (size_t)v->left : 0;
    zeros = zeros < width ? zeros : width;
    size_t skip = v->left < 0 ? (size_t)-v->left : 0;
    size_t have = skip < v->w ? v->w - skip : 0;
    size_t n = width - zeros < have ? width - zeros : have;
    memset(dst, 0, zeros * sizeof(float));
    if (n > 0) {
        memcpy(dst + zeros, src + skip, n * sizeof(float));
    }
    memset(dst + zeros + n, 0, (width - zeros - n) * sizeof(float));
}

struct band {
    float *at;
    uint32_t *pixel_at, *tap_at;
};

/* Offsets of n pixels, from column ow on; the first row of pixels is at offset `row` in the band */
static void list_pixels(const struct uw_image *v, size_t row, uint32_t ow, uint32_t n,
                        uint32_t *pixel_at)
{
    size_t next = v->step_h * band_width(v), step = has_lanes(v) ? 1 : v->step_w;
    while (n > 0) {
        uint32_t here = v->pitch - ow < n ? v->pitch - ow : n;
        for (uint32_t i = 0; i < here; i++) {
            pixel_at[i] = (uint32_t)(row + (ow + i) * step);
        }
        pixel_at += here;
        n -= here;
        row += next;
        ow = 0;
    }
}

/* Copy the input of pixels p0 .. p0+pn-1 from channels c0 .. c0+cn-1; fill pixel_at. The rows of
 * the band are those of window; each begins at the column of its first pixel in it.
 *
 * Returns the floats from one channel of the band to the next. */
static size_t fill_band(const struct uw_image *v, struct uw_image window, const float *group,
                        struct band *b, uint32_t p0, uint32_t pn, uint32_t c0, uint32_t cn)
{
    bool cut = window.pitch < v->pitch;
    size_t width = band_width(&window), hw = (size_t)v->h * v->w;
    uint32_t cols = uw_image_cols(v);
    size_t rows_n = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {         /* count the rows, then copy them */
        size_t row0 = 0, plane_n = rows_n * width;
        uint32_t p = p0;
        while (p < p0 + pn) {
            uint32_t image = p / cols, q = p % cols, first = q / v->pitch;
            uint32_t n = cols - q < p0 + pn - p ? cols - q : p0 + pn - p;
            uint32_t last = (q + n - 1) / v->pitch;
            last = last < v->out_h ? last : v->out_h - 1; /* ignore what pads a piece */
            size_t rows = (size_t)(last - first) * v->step_h + span_h(v);
            window.left = v->left - (cut ? (int64_t)q * v->step_w : 0);
            for (uint32_t c = 0; pass == 1 && c < cn; c++) {
                const float *plane = group + image * v->image_stride + (c0 + c) * hw;
                for (size_t r = 0; r < rows; r += v->kernel_h == 1 ? v->step_h : 1) {
                    copy_row(&window, plane, (int64_t)((size_t)first * v->step_h + r),
                             c + AHEAD < cn ? AHEAD * hw : 0,
                             b->at + c * plane_n + (row0 + r) * width);
                }
            }
            if (pass == 1) {
                list_pixels(&window, row0 * width, cut ? 0 : q % v->pitch, n,
                            b->pixel_at + (p - p0));
            }
            row0 += rows;
            p += n;
        }
        rows_n = row0;
    }
    return rows_n * width;
}

/* Offsets of taps t0 .. t0+tn-1. The channels begin with that of t0, or with 0 if taps_outer. */
static void list_taps(const struct uw_image *v, size_t plane_n, uint32_t t0, uint32_t tn,
                      uint32_t *tap_at)
{
    uint32_t kernel = v->kernel_h * v->kernel_w;
    uint32_t tap = v->taps_outer ? t0 / v->channels : t0 % kernel;
    uint32_t channel = v->taps_outer ? t0 % v->channels : 0;
    size_t width = band_width(v);
    bool lanes = has_lanes(v);
    uint32_t period = lanes ? lanes_period(v) : 1;
    for (uint32_t i = 0; i < tn; i++) {
        uint32_t kh = tap / v->kernel_w, kw = tap % v->kernel_w;
        uint32_t h = v->mirror ? v->kernel_h - 1 - kh : kh;
        uint32_t w = v->mirror ? v->kernel_w - 1 - kw : kw;
        size_t column = (size_t)w * v->dilation_w;
        if (lanes) {
            column = w % period * lane_width(v) + column / v->step_w;
        }
        tap_at[i] = (uint32_t)(channel * plane_n + (size_t)h * v->dilation_h * width + column);
        uint32_t *inner = v->taps_outer ? &channel : &tap, *outer = v->taps_outer ? &tap : &channel;
        if (++*inner == (v->taps_outer ? v->channels : kernel)) {
            *inner = 0;
            ++*outer;
        }
    }
}

/* Divide columns into pieces of at most UW_TILE_PIECE_N consecutive elements. */
static uint32_t list_pieces(uint32_t cols, const uint32_t *at, struct uw_piece *piece)
{
    uint32_t n = 0, begin = 0;
    for (uint32_t j = 0; j < cols; j++) {
        if (j == 0 || at[j] != at[j - 1] + 1 || j - begin == UW_TILE_PIECE_N) {
            piece[n].dst = j;
            piece[n].src = at[j];
            n++;
            begin = j;
        }
    }
    return n;
}

/* dst[k * nr + j] = band[inner[k] + column[j]] */
static void pack_panel(const struct uw_tile *t, const float *band, uint32_t kn,
                       const uint32_t *inner, uint32_t cols, const uint32_t *column, float *dst)
{
    struct uw_piece piece[UW_TILE_NR_MAX];
    uint32_t pieces_n = list_pieces(cols, column, piece);
    if (pieces_n <= cols / 2) {
        t->pack_runs(pieces_n, piece, kn, inner, band, dst, t->nr);
        return;
    }
    for (uint32_t k = 0; k < kn; k++) {
        const float *from = band + inner[k];
        for (uint32_t j = 0; j < cols; j++) {
            dst[j] = from[column[j]];
        }
        dst += t->nr;
    }
}

/* Pixels as the inner index, channels as columns: consecutive pixels are packed by transposing
 * columns that are equally far apart. */
static void pack_channels(const struct uw_tile *t, const struct uw_columns *c, uint32_t kn,
                          uint32_t j0, uint32_t cols, float *dst)
{
    const uint32_t *at = c->at, *column = c->column + j0;
    for (uint32_t j = 0, some; j < cols; j += some) {
        const float *from = c->base + column[j];
        bool onward = j + 1 < cols && column[j + 1] > column[j];
        uint32_t apart = onward ? column[j + 1] - column[j] : 0;
        some = 1;
        while (j + some < cols && column[j + some] - column[j + some - 1] == apart) {
            some++;
        }
        for (uint32_t k = 0, n; k < kn; k += n) {
            n = 1;
            while (k + n < kn && at[k + n] == at[k] + n) {
                n++;
            }
            t->pack_transposed(some, n, 1.0f, from + at[k], apart, dst + (size_t)k * t->nr + j,
                               t->nr);
        }
    }
}

/* Offsets of pixels and channels in a plain image, used in place. */
static struct uw_columns list_plain(const struct uw_image *v, const struct uw_block *block,
                                    void *work)
{
    uint32_t *pixel_at = work, *tap_at = pixel_at + block->jn, hw = v->h * v->w;
    uint32_t image = block->j0 / hw, q = block->j0 % hw;
    for (uint32_t j = 0; j < block->jn; j++) {
        pixel_at[j] = (uint32_t)(image * v->image_stride) + q;
        if (++q == hw) {
            image++;
            q = 0;
        }
    }
    for (uint32_t k = 0; k < block->kn; k++) {
        tap_at[k] = (block->k0 + k) * hw;
    }
    return (struct uw_columns){.base = v->src + block->group * v->group_stride, .at = tap_at,
                               .column = pixel_at};
}

/* How many of pixels p .. p+n-1 are in the image of p. */
static uint32_t in_one_image(uint32_t hw, uint32_t p, uint32_t n)
{
    uint32_t left = hw - p % hw;
    return left < n ? left : n;
}

/* Pack from a plain image without a band: a few channels at a time into all panels. */
static void pack_plain(const struct uw_image *v, const struct uw_tile *t,
                       const struct uw_block *block, float *panels)
{
    uint32_t hw = v->h * v->w;
    const float *src = v->src + block->group * v->group_stride;
    for (uint32_t k = 0; k < block->kn; k += UW_ROWS_AT_ONCE) {
        uint32_t rows = block->kn - k < UW_ROWS_AT_ONCE ? block->kn - k : UW_ROWS_AT_ONCE;
        const float *from = src + (size_t)(block->k0 + k) * hw;
        struct uw_norm_lines lines;
        if (v->norm != NULL) {
            uw_norm_lines_of(v->norm, block->k0 + k, rows, &lines);
        }
        for (uint32_t j = 0; j < block->jn;) {
            uint32_t p = block->j0 + j, room = t->nr - j % t->nr;
            uint32_t n = in_one_image(hw, p, room < block->jn - j ? room : block->jn - j);
            float *dst = panels + (size_t)(j - j % t->nr) * block->kn + (size_t)k * t->nr +
                         j % t->nr;
            t->pack_copy(n, rows, 1.0f, from + p / hw * v->image_stride + p % hw, hw, dst, t->nr);
            if (v->norm != NULL) {
                t->norm->rows(n, rows, &lines, dst, t->nr);
            }
            j += n;
        }
    }
}

/* The same with pixels as the inner index and channels as columns. */
static void pack_plain_pixels(const struct uw_image *v, const struct uw_tile *t,
                              const struct uw_block *block, float *panels)
{
    uint32_t hw = v->h * v->w;
    const float *src = v->src + block->group * v->group_stride + (size_t)block->j0 * hw;
    for (uint32_t j = 0; j < block->jn; j += t->nr) {
        uint32_t cols = block->jn - j < t->nr ? block->jn - j : t->nr;
        struct uw_norm_lines lines;
        if (v->norm != NULL) {
            uw_norm_lines_of(v->norm, block->j0 + j, cols, &lines);
        }
        for (uint32_t k = 0; k < block->kn;) {
            uint32_t p = block->k0 + k, n = in_one_image(hw, p, block->kn - k);
            float *dst = panels + (size_t)j * block->kn + (size_t)k * t->nr;
            t->pack_transposed(cols, n, 1.0f,
                               src + (size_t)j * hw + p / hw * v->image_stride + p % hw, hw, dst,
                               t->nr);
            if (v->norm != NULL) {
                t->norm->columns(cols, n, &lines, dst, t->nr);
            }
            k += n;
        }
    }
}

/* Fill the band for a block, and list the offsets of its inner indexes and columns in it. */
static struct uw_columns prepare(const struct uw_image *v, const struct uw_block *block,
                                 void *work)
{
    uint32_t p0 = v->pixels_inner ? block->k0 : block->j0;
    uint32_t pn = v->pixels_inner ? block->kn : block->jn;
    uint32_t t0 = v->pixels_inner ? block->j0 : block->k0;
    uint32_t tn = v->pixels_inner ? block->jn : block->kn;
    uint32_t kernel = v->kernel_h * v->kernel_w, c0 = t0 / kernel;
    uint32_t cn = (t0 + tn - 1) / kernel + 1 - c0;
    if (v->taps_outer) {
        c0 = 0;
        cn = v->channels;
    }
    struct band b = {.pixel_at = work};
    b.tap_at = b.pixel_at + pn;
    b.at = (float *)(void *)(b.tap_at + tn);
    const struct uw_image window = window_of(v, pn);
    size_t plane_n = fill_band(v, window, v->src + block->group * v->group_stride, &b, p0, pn, c0,
                               cn);
    list_taps(&window, plane_n, t0, tn, b.tap_at);
    return (struct uw_columns){.base = b.at, .at = v->pixels_inner ? b.pixel_at : b.tap_at,
                               .column = v->pixels_inner ? b.tap_at : b.pixel_at};
}

bool uw_image_has_runs(const struct uw_image *v, const struct uw_tile *t, uint32_t rows)
{
    if (v->norm != NULL || (v->plain && rows > PLAIN_PANELS * t->mr)) {
        return false; /* planes are far apart: pack them once */
    }
    uint32_t run = v->plain ? v->out_h * v->out_w : v->out_w;
    return t->multiply_runs != NULL && !v->pixels_inner && (v->step_w == 1 || has_lanes(v)) &&
           (is_wide(v) || run % UW_TILE_PIECE_N == 0);
}

void uw_image_widen(struct uw_image *v)
{
    v->pitch = (uint32_t)band_width(v);
}

void uw_image_locate(const struct uw_product *p, const struct uw_block *block, void *work,
                     struct uw_columns *columns)
{
    const struct uw_image *v = p->b.source;
    *columns = v->plain ? list_plain(v, block, work) : prepare(v, block, work);
}

void uw_image_pack(const struct uw_product *p, const struct uw_block *block, float *panels,
                   void *work)
{
    const struct uw_tile *t = p->tile;
    const struct uw_image *v = p->b.source;
    if (v->plain) {
        (v->pixels_inner ? pack_plain_pixels : pack_plain)(v, t, block, panels);
        return;
    }
    struct uw_columns c = prepare(v, block, work);
    bool rows = v->taps_outer || (v->pixels_inner && v->kernel_h == 1 && v->kernel_w == 1);
    for (uint32_t j = 0; j < block->jn; j += t->nr) {
        uint32_t cols = block->jn - j < t->nr ? block->jn - j : t->nr;
        if (rows) {
            pack_channels(t, &c, block->kn, j, cols, panels);
            panels += (size_t)block->kn * t->nr;
            continue;
        }
        pack_panel(t, c.base, block->kn, c.at, cols, c.column + j, panels);
        panels += (size_t)block->kn * t->nr;
    }
}
