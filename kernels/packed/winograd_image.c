/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/sizes.h"
#include "packed/winograd.h"
#include "packed/winograd_band.h"

#include "uwasa/status.h"

#include <string.h>

#define LANES UW_WINOGRAD_LANES

#define BLOCK_N 16384u              /* channels x tiles of a block */
#define BLOCK_TILES_MAX 256u
#define BLOCK_TILES_MAX_SIX 56u     /* tiles of 6 x 6 */
#define BLOCK_TILES_MIN 48u
#define WEIGHTS_BYTES_LARGE (9u << 20)
#define WEIGHTS_BYTES_SMALL (9u << 18)
#define WEIGHTS_BYTES_KEPT (9u << 17)
#define KEPT_N 524288u              /* most floats of V for a batch to keep them all */
#define KEPT_BLOCK_TILES 28u
#define INNER_BLOCK 128u            /* channels summed at a time: longer sums round more */
#define WEIGHT_ROWS 64u             /* inner channels per task of transform_weights */

/* One group of fw or bw_input. Input tiles are transformed to V, weights to U; for each position
 * M = V U, with a column per output channel; M is transformed to the result. */
struct job {
    const struct uw_tile *tile;
    const struct uw_winograd_kind *kind;
    uint32_t positions;
    struct uw_band in;
    uint32_t rows_n;                /* tile rows of the batch */
    uint32_t out_n, out_h, out_w;
    const float *w, *bias;
    bool mirror;                    /* bw_input: w is [in][out][taps reversed] */
    bool accumulate;
    float *y;
    size_t image_n;                 /* floats from one image of y to the next */
    uint32_t threads_n;
    uint32_t rows_room, rows_block; /* tile rows that areas have room for, and of a task */
    uint32_t out_block;             /* columns whose U is held at a time */
    bool kept;                      /* V of all tiles is computed once */

    uint32_t out0, out_now;         /* current columns: the first, how many */
    float *u;
    uint8_t *tasks, *threads;       /* V of each task when kept; areas of each thread */
};

/* Sizes in scratch, in floats, then in bytes. U is shared; V is per task when kept, else per
 * thread; the others are per thread. */
struct areas {
    size_t u_plane, v_plane, m_plane, band_n, out_n;
    size_t u_bytes, v_bytes, m_bytes, thread_bytes;
};

static uint32_t block_tiles(const struct job *j)
{
    return j->rows_room * j->in.tiles_w;
}

static uint32_t row_of_m(const struct job *j)
{
    return round_up(round_up(j->out_block, j->tile->nr), LANES);
}

/* Floats of one panel of V. */
static size_t panel_n(const struct job *j)
{
    return (size_t)j->tile->mr * round_up(j->in.channels, LANES);
}

static struct areas areas_of(const struct job *j)
{
    const struct uw_tile *t = j->tile;
    uint32_t tiles = block_tiles(j);
    struct areas a;
    a.u_plane = (size_t)round_up(j->out_block, t->nr) * j->in.channels + UW_WINOGRAD_APART;
    a.v_plane = div_up(tiles, t->mr) * panel_n(j) + UW_WINOGRAD_APART;
    a.m_plane = (size_t)tiles * row_of_m(j) + UW_WINOGRAD_APART;
    a.band_n = uw_band_n(&j->in, j->rows_room);
    a.out_n = (size_t)tiles * j->kind->out * j->kind->out * LANES;
    a.u_bytes = area_bytes(j->positions * a.u_plane);
    a.v_bytes = area_bytes(j->positions * a.v_plane);
    a.m_bytes = area_bytes(j->positions * a.m_plane);
    a.thread_bytes = (j->kept ? 0 : a.v_bytes) + a.m_bytes + area_bytes(a.band_n) +
                     2 * area_bytes(a.out_n);
    return a;
}

static uint32_t blocks_of(const struct job *j)
{
    return div_up(j->rows_n, j->rows_block);
}

static size_t scratch_of(const struct job *j, uint32_t threads)
{
    struct areas a = areas_of(j);
    return a.u_bytes + (j->kept ? blocks_of(j) * a.v_bytes : 0) + a.thread_bytes * threads;
}

/* Depends on the shape, and on the batch only where it is smaller than a block. */
static void set_blocks(struct job *j, uint32_t tiles, size_t weights_bytes)
{
    uint32_t rows = tiles / j->in.tiles_w;
    j->rows_room = min_u32(rows > 0 ? rows : 1, j->rows_n);
    j->rows_block = j->rows_room;
    size_t column = (size_t)j->positions * j->in.channels * sizeof(float);
    uint32_t most = (uint32_t)(weights_bytes / column / j->tile->nr) * j->tile->nr;
    most = most > 0 ? most : j->tile->nr;
    j->out_block = j->out_n;
    if (j->out_n > most) {
        j->out_block = round_up(div_up(j->out_n, div_up(j->out_n, most)), j->tile->nr);
    }
}

static struct job fit_to_limit(struct job j, const struct uw_conv2d *c, uint32_t batch_n)
{
    uint32_t tiles = BLOCK_N / j.in.channels;
    tiles = min_u32(tiles, j.kind->in == 6 ? BLOCK_TILES_MAX_SIX : BLOCK_TILES_MAX);
    tiles = tiles < BLOCK_TILES_MIN ? BLOCK_TILES_MIN : tiles;
    j.rows_n = batch_n * j.in.tiles_h;
    set_blocks(&j, tiles, WEIGHTS_BYTES_LARGE);
    size_t limit = uw_winograd_scratch_limit(c, batch_n);
    if (scratch_of(&j, 1) > limit) {
        j.kept = (size_t)j.rows_n * j.in.tiles_w * j.in.channels * j.positions <= KEPT_N;
        if (j.kept) {
            set_blocks(&j, KEPT_BLOCK_TILES, WEIGHTS_BYTES_KEPT);
        } else {
            set_blocks(&j, tiles, WEIGHTS_BYTES_SMALL);
        }
    }
    if (!j.kept && j.threads_n > 1) { /* equal shares; sums do not cross tiles */
        j.rows_block = div_up(j.rows_n, round_up(div_up(j.rows_n, j.rows_room), j.threads_n));
    }
    return j;
}

/* pad_h, pad_w: zeros above and left of the image at the first tile. */
static void set_tiles(struct job *j, const struct uw_winograd_kind *kind, uint32_t pad_h,
                      uint32_t pad_w)
{
    j->kind = kind;
    j->positions = uw_winograd_positions(kind);
    j->in.tile = j->tile;
    j->in.pad_h = pad_h;
    j->in.pad_w = pad_w;
    j->in.step = kind->out;
    j->in.halo = kind->kernel - 1;
    j->in.tiles_h = div_up(j->out_h, kind->out);
    j->in.tiles_w = div_up(j->out_w, kind->out);
}

static struct job fw_job(const struct uw_tile *t, const struct uw_winograd_kind *kind,
                         const struct uw_conv2d *c, uint32_t batch_n, uint32_t threads)
{
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    struct job j = {.tile = t, .threads_n = threads, .out_n = c->out_channels / c->groups,
                    .out_h = c->out_h, .out_w = c->out_w, .image_n = c->out_channels * out_hw};
    j.in = (struct uw_band){.image_n = c->in_channels * in_hw,
                            .channels = c->in_channels / c->groups, .h = c->in_h, .w = c->in_w};
    set_tiles(&j, kind, c->pad_h, c->pad_w);
    return fit_to_limit(j, c, batch_n);
}

static struct job bw_input_job(const struct uw_tile *t, const struct uw_winograd_kind *kind,
                               const struct uw_conv2d *c, uint32_t batch_n, uint32_t threads)
{
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    struct job j = {.tile = t, .threads_n = threads, .out_n = c->in_channels / c->groups,
                    .out_h = c->in_h, .out_w = c->in_w, .image_n = c->in_channels * in_hw,
                    .mirror = true};
    j.in = (struct uw_band){.image_n = c->out_channels * out_hw,
                            .channels = c->out_channels / c->groups, .h = c->out_h,
                            .w = c->out_w};
    set_tiles(&j, kind, c->kernel_h - 1 - c->pad_h, c->kernel_w - 1 - c->pad_w);
    return fit_to_limit(j, c, batch_n);
}

size_t uw_winograd_image_scratch_bytes(const struct uw_tile *t,
                                       const struct uw_winograd_kind *kind,
                                       const struct uw_conv2d *c, bool bw_input, uint32_t batch_n,
                                       uint32_t threads)
{
    struct job j = bw_input ? bw_input_job(t, kind, c, batch_n, threads)
                            : fw_job(t, kind, c, batch_n, threads);
    return scratch_of(&j, threads);
}

/* U for nr columns and up to WEIGHT_ROWS inner channels: [position][panel][channel][nr]. */
static void transform_weights(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_tile *t = j->tile;
    uint32_t panels_n = div_up(j->out_now, t->nr), panel = task % panels_n;
    uint32_t k0 = task / panels_n * WEIGHT_ROWS, in_n = j->in.channels;
    uint32_t k1 = min_u32(k0 + WEIGHT_ROWS, in_n);
    uint32_t at = panel * t->nr, cols = min_u32(t->nr, j->out_now - at);
    size_t plane = areas_of(j).u_plane;
    uint32_t taps = j->kind->kernel * j->kind->kernel;
    size_t column = j->out0 + at, row_stride = j->mirror ? taps : (size_t)in_n * taps;
    size_t k_stride = j->mirror ? (size_t)j->out_n * taps : taps;
    float g[4 * UW_WINOGRAD_TAPS_MAX * UW_TILE_NR_MAX];
    memset(g, 0, sizeof g);
    for (uint32_t k = k0; k < k1;) {
        uint32_t n = j->mirror ? 1 : min_u32(4, k1 - k);
        t->pack_transposed(cols, taps * n, 1.0f, j->w + column * row_stride + k * k_stride,
                           row_stride, g, t->nr);
        for (uint32_t i = 0; i < n; i++, k++) {
            j->kind->weights(g + (size_t)taps * i * t->nr, j->mirror,
                             j->u + ((size_t)panel * in_n + k) * t->nr, plane);
        }
    }
}

/* The tile rows of a task, and its memory. */
struct block {
    uint32_t row0, rows, tiles;
    uint32_t panel_rows;            /* tiles of a panel */
    float *v, *m, *band, *out, *sum;
};

/* V as panels: [position][panel][channels / lanes][mr][lane]. */
static void transform_input(const struct job *j, const struct areas *a, const struct block *b)
{
    size_t pitch = uw_band_pitch(&j->in);
    memset(b->band, 0, a->band_n * sizeof *b->band);
    for (uint32_t c0 = 0; c0 < j->in.channels; c0 += LANES) {
        uw_band_fill(&j->in, b->row0, b->rows, c0, b->band);
        const float *at = b->band;
        uint32_t panel = 0, used = 0;
        for (uint32_t r = 0; r < b->rows; r++) {
            for (uint32_t tx = 0; tx < j->in.tiles_w;) {
                uint32_t n = min_u32(b->panel_rows - used, j->in.tiles_w - tx);
                j->kind->input(
                    n, at + (size_t)tx * j->kind->out * LANES, pitch,
                    b->v + panel * panel_n(j) + (size_t)c0 * j->tile->mr + used * LANES, LANES,
                    a->v_plane);
                tx += n;
                used += n;
                if (used == b->panel_rows) {
                    panel++;
                    used = 0;
                }
            }
            at = uw_band_next(&j->in, b->row0 + r, at);
        }
    }
}

/* M = V U: [position][tile][column] */
static void multiply(const struct job *j, const struct areas *a, const struct block *b)
{
    const struct uw_tile *t = j->tile;
    uint32_t in_n = j->in.channels, ld = row_of_m(j);
    for (uint32_t p = 0; p < j->positions; p++) {
        for (uint32_t col = 0; col < j->out_now; col += t->nr) {
            uint32_t cols = min_u32(t->nr, j->out_now - col);
            const float *u = j->u + p * a->u_plane + (size_t)col * in_n;
            for (uint32_t k0 = 0; k0 < in_n; k0 += INNER_BLOCK) {
                const float *v = b->v + p * a->v_plane + (size_t)k0 * t->mr;
                uint32_t kn = min_u32(INNER_BLOCK, in_n - k0);
                for (uint32_t i = 0; i < b->tiles; i += b->panel_rows) {
                    t->winograd->multiply(min_u32(b->panel_rows, b->tiles - i), cols,
                                          kn, v, u + (size_t)k0 * t->nr,
                                          b->m + p * a->m_plane + (size_t)i * ld + col, ld,
                                          k0 > 0);
                    v += panel_n(j);
                }
            }
        }
    }
}

/* Store contiguous pixels of y from [pixel][lane]. Four channels at a time: the rows of more might
 * share cache sets. */
static void store_pixels(const struct job *j, uint32_t channels, uint32_t pixels,
                         const float *from, float *sum, float *y)
{
    const struct uw_tile *t = j->tile;
    size_t hw = (size_t)j->out_h * j->out_w;
    for (uint32_t c = 0; c < channels; c += 4) {
        uint32_t n = min_u32(4, channels - c);
        if (!j->accumulate) {
            t->pack_transposed(pixels, n, 1.0f, from + c, LANES, y + c * hw, hw);
            continue;
        }
        t->pack_transposed(pixels, n, 1.0f, from + c, LANES, sum, pixels);
        for (uint32_t k = 0; k < n; k++) {
            float *row = y + (c + k) * hw;
            for (uint32_t i = 0; i < pixels; i++) {
                row[i] += sum[k * pixels + i];
            }
        }
    }
}

/* Transform and store tile rows of one image for LANES channels. m: M of the first tile. */
static void store_image(const struct job *j, const struct areas *a, const struct block *b,
                        uint32_t row, uint32_t rows, uint32_t channel, const float *m,
                        const float *bias)
{
    uint32_t out = j->kind->out, ld = row_of_m(j);
    uint32_t width = out * j->in.tiles_w, top = row % j->in.tiles_h * out;
    size_t pitch = (size_t)width * LANES;
    for (uint32_t r = 0; r < rows; r++) {
        j->kind->output(j->in.tiles_w, m + (size_t)r * j->in.tiles_w * ld, ld, a->m_plane, bias,
                        b->out + out * r * pitch, pitch);
    }
    uint32_t image = row / j->in.tiles_h, lines = min_u32(out * rows, j->out_h - top);
    uint32_t channels = min_u32(LANES, j->out0 + j->out_now - channel);
    float *y = j->y + image * j->image_n + ((size_t)channel * j->out_h + top) * j->out_w;
    if (width == j->out_w) {
        store_pixels(j, channels, lines * width, b->out, b->sum, y);
        return;
    }
    for (uint32_t r = 0; r < lines; r++) {
        store_pixels(j, channels, j->out_w, b->out + r * pitch, b->sum, y + (size_t)r * j->out_w);
    }
}

static void store(const struct job *j, const struct areas *a, const struct block *b)
{
    for (uint32_t c = 0; c < j->out_now; c += LANES) {
        float bias[LANES] = {0.0f};
        if (j->bias != NULL) {
            memcpy(bias, j->bias + j->out0 + c,
                   min_u32(LANES, j->out_now - c) * sizeof *bias);
        }
        for (uint32_t r = 0; r < b->rows;) {
            uint32_t row = b->row0 + r;
            uint32_t n = min_u32(j->in.tiles_h - row % j->in.tiles_h, b->rows - r);
            store_image(j, a, b, row, n, j->out0 + c,
                        b->m + (size_t)r * j->in.tiles_w * row_of_m(j) + c, bias);
            r += n;
        }
    }
}

static struct block block_of(const struct job *j, const struct areas *a, uint32_t task,
                             uint32_t thread)
{
    struct block b = {.row0 = task * j->rows_block};
    b.rows = min_u32(j->rows_block, j->rows_n - b.row0);
    b.tiles = b.rows * j->in.tiles_w;
    b.panel_rows = div_up(b.tiles, div_up(b.tiles, j->tile->mr));
    uint8_t *mine = j->threads + thread * a->thread_bytes;
    b.m = (float *)(void *)mine;
    b.band = (float *)(void *)(mine += a->m_bytes);
    b.out = (float *)(void *)(mine += area_bytes(a->band_n));
    b.sum = (float *)(void *)(mine += area_bytes(a->out_n));
    mine += area_bytes(a->out_n);
    b.v = (float *)(void *)(j->kept ? j->tasks + task * a->v_bytes : mine);
    return b;
}

static void run_input(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    struct areas a = areas_of(j);
    struct block b = block_of(j, &a, task, thread);
    transform_input(j, &a, &b);
}

static void run_block(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    struct areas a = areas_of(j);
    struct block b = block_of(j, &a, task, thread);
    if (!j->kept) {
        transform_input(j, &a, &b);
    }
    multiply(j, &a, &b);
    store(j, &a, &b);
}

/* Run one group; in.src, w, bias and y point to it. */
static void run_group(const struct uw_exec *e, struct job *j)
{
    uint32_t blocks = blocks_of(j);
    if (j->kept) {
        uw_workers_run(e->workers, run_input, j, blocks);
    }
    for (j->out0 = 0; j->out0 < j->out_n; j->out0 += j->out_block) {
        j->out_now = min_u32(j->out_block, j->out_n - j->out0);
        uw_workers_run(e->workers, transform_weights, j,
                       div_up(j->out_now, j->tile->nr) * div_up(j->in.channels, WEIGHT_ROWS));
        uw_workers_run(e->workers, run_block, j, blocks);
    }
}

static int run(const struct uw_exec *e, struct job *j, uint32_t groups)
{
    if (e->scratch_bytes < scratch_of(j, uw_workers_threads(e->workers))) {
        return UW_ERR_NOMEM;
    }
    struct areas a = areas_of(j);
    j->u = e->scratch;
    j->tasks = (uint8_t *)e->scratch + a.u_bytes;
    j->threads = j->tasks + (j->kept ? blocks_of(j) * a.v_bytes : 0);
    for (uint32_t g = 0; g < groups; g++) {
        run_group(e, j);
        j->in.src += (size_t)j->in.channels * j->in.h * j->in.w;
        j->y += (size_t)j->out_n * j->out_h * j->out_w;
        j->w += (size_t)j->in.channels * j->out_n * j->kind->kernel * j->kind->kernel;
        j->bias = j->bias != NULL ? j->bias + j->out_n : NULL;
    }
    return UW_OK;
}

int uw_winograd_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                   const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    const struct uw_tile *t = e->kernels->tile;
    struct job j = fw_job(t, uw_winograd_kind(t, c, UW_WINOGRAD_FW, batch_n), c, batch_n,
                          uw_workers_threads(e->workers));
    j.in.src = x;
    j.w = w;
    j.bias = b;
    j.y = y;
    j.accumulate = accumulate;
    return run(e, &j, c->groups);
}

int uw_winograd_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *dy, const float *w, float *dx, bool accumulate)
{
    const struct uw_tile *t = e->kernels->tile;
    struct job j = bw_input_job(t, uw_winograd_kind(t, c, UW_WINOGRAD_BW_INPUT, batch_n), c,
                                batch_n, uw_workers_threads(e->workers));
    j.in.src = dy;
    j.w = w;
    j.y = dx;
    j.accumulate = accumulate;
    return run(e, &j, c->groups);
}
