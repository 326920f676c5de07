/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/sizes.h"
#include "packed/winograd.h"
#include "packed/winograd_band.h"

#include "uwasa/status.h"

#include <string.h>

#define LANES UW_WINOGRAD_LANES

#define CHANNELS_BLOCK 128u
#define BLOCK_TILES 64u
#define TASKS_WANTED 8u
#define PARTS_BYTES_MAX (4u << 20)

struct job {
    const struct uw_tile *tile;
    const struct uw_winograd_kind *kind;
    uint32_t positions;
    struct uw_band x, dy;
    uint32_t rows_n;                /* tile rows of the batch */
    uint32_t rows_block;            /* tile rows transformed at a time */
    uint32_t in_block, out_block;   /* channels of a task */
    uint32_t in_blocks, out_blocks;
    uint32_t parts;                 /* parts of the tile rows, whose sums are added at the end */
    float scale, *dw;
    float *sums;                    /* [part][out block][in block], each as in struct areas */
    uint8_t *threads;
};

/* Sizes in scratch. Sums are [position][out][in], operands [position][tile][channel]. */
struct areas {
    size_t sum_ld, sum_plane, x_ld, x_plane, dy_ld, dy_plane, band_n;
    size_t sums_bytes, thread_bytes;
};

static struct areas areas_of(const struct job *j)
{
    uint32_t tiles = j->rows_block * j->x.tiles_w;
    struct areas a;
    a.sum_ld = round_up(round_up(j->in_block, j->tile->nr), LANES);
    a.sum_plane = a.sum_ld * j->out_block + UW_WINOGRAD_APART;
    a.x_ld = a.sum_ld + LANES;
    a.x_plane = tiles * a.x_ld + UW_WINOGRAD_APART;
    a.dy_ld = round_up(j->out_block, LANES) + LANES;
    a.dy_plane = tiles * a.dy_ld + UW_WINOGRAD_APART;
    a.band_n = larger(uw_band_n(&j->x, j->rows_block), uw_band_n(&j->dy, j->rows_block));
    a.sums_bytes = area_bytes(j->positions * a.sum_plane);
    a.thread_bytes = area_bytes(j->positions * a.x_plane) + area_bytes(j->positions * a.dy_plane) +
                     area_bytes(a.band_n);
    return a;
}

static uint32_t tasks_of(const struct job *j)
{
    return j->parts * j->out_blocks * j->in_blocks;
}

static struct job param_job(const struct uw_tile *t, const struct uw_winograd_kind *kind,
                            const struct uw_conv2d *c, uint32_t batch_n)
{
    struct job j = {.tile = t, .kind = kind, .positions = uw_winograd_positions(kind)};
    uint32_t ins = c->in_channels / c->groups, outs = c->out_channels / c->groups;
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    j.x = (struct uw_band){.tile = t, .image_n = c->in_channels * in_hw,
                           .channels = ins, .h = c->in_h, .w = c->in_w,
                           .pad_h = c->pad_h, .pad_w = c->pad_w,
                           .tiles_h = div_up(c->out_h, kind->out),
                           .tiles_w = div_up(c->out_w, kind->out),
                           .step = kind->out, .halo = kind->kernel - 1};
    j.dy = (struct uw_band){.tile = t, .image_n = c->out_channels * out_hw,
                            .channels = outs, .h = c->out_h, .w = c->out_w,
                            .tiles_h = j.x.tiles_h, .tiles_w = j.x.tiles_w, .step = kind->out};
    j.rows_n = batch_n * j.x.tiles_h;
    uint32_t rows = BLOCK_TILES / j.x.tiles_w;
    j.rows_block = min_u32(rows > 0 ? rows : 1, j.rows_n);
    j.in_blocks = div_up(ins, CHANNELS_BLOCK);
    j.out_blocks = div_up(outs, CHANNELS_BLOCK);
    j.in_block = round_up(div_up(ins, j.in_blocks), LANES);
    j.out_block = round_up(div_up(outs, j.out_blocks), LANES);
    j.in_blocks = div_up(ins, j.in_block);
    j.out_blocks = div_up(outs, j.out_block);
    uint32_t blocks = j.in_blocks * j.out_blocks;
    size_t parts_bytes = uw_winograd_scratch_limit(c, batch_n) / 4;
    parts_bytes = parts_bytes < PARTS_BYTES_MAX ? parts_bytes : PARTS_BYTES_MAX;
    uint32_t most = (uint32_t)(parts_bytes / (areas_of(&j).sums_bytes * blocks));
    most = min_u32(most, div_up(j.rows_n, j.rows_block) / 2);
    j.parts = min_u32(div_up(TASKS_WANTED, blocks), most > 0 ? most : 1);
    return j;
}

size_t uw_winograd_param_scratch_bytes(const struct uw_tile *t,
                                       const struct uw_winograd_kind *kind,
                                       const struct uw_conv2d *c, uint32_t batch_n,
                                       uint32_t threads)
{
    struct job j = param_job(t, kind, c, batch_n);
    struct areas a = areas_of(&j);
    return a.sums_bytes * (j.parts > 1 ? tasks_of(&j) : threads) + a.thread_bytes * threads;
}

typedef void (*transform_fn)(uint32_t tiles, const float *band, size_t pitch, float *v,
                             size_t step, size_t plane);

/* An operand of a task: channels c0 .. c0+channels-1, transformed into v. */
struct operand {
    const struct uw_band *b;
    transform_fn fn;
    uint32_t c0, channels;
    float *v;
    size_t ld, plane;
};

/* Transform some tile rows; band is [band_n], work space. */
static void transform(const struct operand *o, uint32_t row0, uint32_t rows, float *band,
                      size_t band_n)
{
    const struct uw_band *b = o->b;
    size_t pitch = uw_band_pitch(b);
    memset(band, 0, band_n * sizeof *band);
    for (uint32_t c = 0; c < o->channels; c += LANES) {
        uw_band_fill(b, row0, rows, o->c0 + c, band);
        const float *at = band;
        for (uint32_t r = 0; r < rows; r++) {
            o->fn(b->tiles_w, at, pitch, o->v + (size_t)r * b->tiles_w * o->ld + c, o->ld,
                  o->plane);
            at = uw_band_next(b, row0 + r, at);
        }
    }
}

/* sums (+)= dy^T x over the tiles, for each position. */
static void multiply(const struct job *j, const struct areas *a, uint32_t tiles,
                     const struct operand *x, const struct operand *dy, float *sums, bool add)
{
    const struct uw_tile *t = j->tile;
    uint32_t outs = dy->channels, ins = x->channels;
    uint32_t panels = div_up(outs, t->mr), each = div_up(outs, panels);
    for (uint32_t p = 0; p < j->positions; p++) {
        for (uint32_t col = 0; col < ins; col += t->nr) {
            uint32_t cols = min_u32(t->nr, ins - col);
            for (uint32_t i = 0; i < outs; i += each) {
                t->winograd->multiply_columns(
                    min_u32(each, outs - i), cols, tiles, dy->v + p * dy->plane + i, dy->ld,
                    x->v + p * x->plane + col, x->ld,
                    sums + p * a->sum_plane + i * a->sum_ld + col, a->sum_ld, add);
            }
        }
    }
}

/* Add one output channel to dw: sum the parts, `next` floats apart, in order, then transform. */
static void store_row(const struct job *j, const struct areas *a, const float *sums,
                      uint32_t parts, size_t next, uint32_t out, uint32_t in0, uint32_t ins)
{
    uint32_t taps_n = j->kind->kernel * j->kind->kernel;
    float m[UW_WINOGRAD_POSITIONS_MAX * LANES];
    float g[UW_WINOGRAD_TAPS_MAX * LANES], taps[UW_WINOGRAD_TAPS_MAX * LANES];
    for (uint32_t c = 0; c < ins; c += LANES) {
        for (uint32_t p = 0; p < j->positions; p++) {
            const float *from = sums + p * a->sum_plane + c;
            float *to = m + (size_t)p * LANES;
            memcpy(to, from, LANES * sizeof *to);
            for (uint32_t s = 1; s < parts; s++) {
                from += next;
                for (uint32_t l = 0; l < LANES; l++) {
                    to[l] += from[l];
                }
            }
        }
        uint32_t n = min_u32(LANES, ins - c);
        j->kind->taps(m, LANES, g);
        j->tile->pack_transposed(taps_n, n, j->scale, g, LANES, taps, taps_n);
        float *dw = j->dw + ((size_t)out * j->x.channels + in0 + c) * taps_n;
        for (uint32_t i = 0; i < taps_n * n; i++) {
            dw[i] += taps[i];
        }
    }
}

static void run_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    struct areas a = areas_of(j);
    uint32_t in0 = task % j->in_blocks * j->in_block, rest = task / j->in_blocks;
    uint32_t out0 = rest % j->out_blocks * j->out_block, part = rest / j->out_blocks;
    uint32_t ins = min_u32(j->in_block, j->x.channels - in0);
    uint32_t outs = min_u32(j->out_block, j->dy.channels - out0);
    uint8_t *mine = j->threads + thread * a.thread_bytes;
    const struct operand x = {&j->x, j->kind->input, in0, ins, (float *)(void *)mine, a.x_ld,
                              a.x_plane};
    const struct operand dy = {&j->dy, j->kind->spread, out0, outs,
                               (float *)(void *)(mine + area_bytes(j->positions * a.x_plane)),
                               a.dy_ld, a.dy_plane};
    float *band = dy.v + area_bytes(j->positions * a.dy_plane) / sizeof(float);
    uint32_t slot = j->parts > 1 ? task : thread;
    float *sums = j->sums + slot * (a.sums_bytes / sizeof(float));
    uint32_t blocks = div_up(j->rows_n, j->rows_block);
    uint32_t first = (uint32_t)((uint64_t)blocks * part / j->parts);
    uint32_t end = (uint32_t)((uint64_t)blocks * (part + 1) / j->parts);
    for (uint32_t b = first; b < end; b++) {
        uint32_t row0 = b * j->rows_block, rows = min_u32(j->rows_block, j->rows_n - row0);
        transform(&x, row0, rows, band, a.band_n);
        transform(&dy, row0, rows, band, a.band_n);
        multiply(j, &a, rows * j->x.tiles_w, &x, &dy, sums, b > first);
    }
    for (uint32_t i = 0; j->parts == 1 && i < outs; i++) {
        store_row(j, &a, sums + i * a.sum_ld, 1, 0, out0 + i, in0, ins);
    }
}

/* Add the parts of one output channel, for all input channels. */
static void add_parts(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    struct areas a = areas_of(j);
    uint32_t block = task / j->out_block, i = task % j->out_block;
    size_t area = a.sums_bytes / sizeof(float);
    for (uint32_t b = 0; b < j->in_blocks; b++) {
        uint32_t in0 = b * j->in_block;
        store_row(j, &a, j->sums + (block * j->in_blocks + b) * area + i * a.sum_ld, j->parts,
                  (size_t)j->out_blocks * j->in_blocks * area, task, in0,
                  min_u32(j->in_block, j->x.channels - in0));
    }
}

int uw_winograd_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *x, const float *dy, float scale, float *dw)
{
    const struct uw_tile *t = e->kernels->tile;
    const struct uw_winograd_kind *kind = uw_winograd_kind(t, c, UW_WINOGRAD_BW_PARAM, batch_n);
    uint32_t threads = uw_workers_threads(e->workers);
    if (e->scratch_bytes < uw_winograd_param_scratch_bytes(t, kind, c, batch_n, threads)) {
        return UW_ERR_NOMEM;
    }
    struct job j = param_job(t, kind, c, batch_n);
    struct areas a = areas_of(&j);
    j.x.src = x;
    j.dy.src = dy;
    j.scale = scale;
    j.dw = dw;
    j.sums = e->scratch;
    j.threads = (uint8_t *)e->scratch + a.sums_bytes * (j.parts > 1 ? tasks_of(&j) : threads);
    for (uint32_t g = 0; g < c->groups; g++) {
        uw_workers_run(e->workers, run_task, &j, tasks_of(&j));
        if (j.parts > 1) {
            uw_workers_run(e->workers, add_parts, &j, j.dy.channels);
        }
        j.x.src += (size_t)j.x.channels * j.x.h * j.x.w;
        j.dy.src += (size_t)j.dy.channels * j.dy.h * j.dy.w;
        j.dw += (size_t)j.x.channels * j.dy.channels * j.kind->kernel * j.kind->kernel;
    }
    return UW_OK;
}
