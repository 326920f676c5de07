/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/product.h"
#include "packed/sizes.h"

#include "uwasa/status.h"

#include <string.h>

#define TASKS_WANTED 16u
#define PARTS_MAX 8u
#define PARTS_BYTES_MAX (256u * 1024u)
#define SMALL_WORK 1048576.0    /* up to this many multiplications: small blocks to save scratch */
#define SMALL_PANELS 2u
#define SMALL_K 256u
#define SPLIT_WORTH 65536.0     /* multiplications per task, about */
#define ROWS_WORTH 8u           /* least register tiles of a task, in rows and in columns */
#define COLUMNS_WORTH 4u
#define STORED_MAX 512u         /* floats from row to row of A in place: further apart, they fall
                                   into few cache sets */

/* Saturates: a shape too large for any memory needs SIZE_MAX bytes. */
static size_t sum_size(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* The least block size, a multiple of unit, that divides n into as few blocks as `most` does. */
static uint32_t even_block(uint32_t n, uint32_t most, uint32_t unit)
{
    return div_up(div_up(n, div_up(n, most)), unit) * unit;
}

/* Large, roughly square blocks of C, two per thread, so that each packed row and column is reused
 * often. Dividing rows and columns changes no sum, so it may depend on the number of threads. */
static void cut_for_threads(struct uw_product *p)
{
    uint32_t wanted = p->threads > 1 ? 2 * p->threads : 1;
    uint32_t rows_min = ROWS_WORTH * p->tile->mr, columns_min = COLUMNS_WORTH * p->tile->nr;
    uint32_t m_parts = 1, n_parts = div_up(p->n, p->tile->matrix_nc);
    n_parts = n_parts > 1 ? round_up(n_parts, p->threads) : n_parts;
    while (m_parts * n_parts * p->groups < wanted) {
        uint32_t rows = p->m / m_parts, columns = p->n / n_parts;
        if (rows >= columns && rows >= 2 * rows_min) {
            m_parts++;
        } else if (columns >= 2 * columns_min) {
            n_parts++;
        } else if (rows >= 2 * rows_min) {
            m_parts++;
        } else {
            break;
        }
    }
    p->m_block = round_up(div_up(p->m, m_parts), p->tile->mr);
    p->n_block = round_up(div_up(p->n, n_parts), p->tile->nr);
}

static void cut_by_shape(struct uw_product *p, uint32_t k_unit, bool split)
{
    const struct uw_tile *tile = p->tile;
    uint32_t kc = tile->kc;
    if (p->k > 0 && k_unit <= tile->matrix_kc) {
        kc = even_block(p->k, tile->matrix_kc / k_unit * k_unit, k_unit);
    }
    p->k_block = k_unit >= kc ? k_unit : kc / k_unit * k_unit;
    p->k_block = min_u32(p->k_block, p->k);
    double work = (double)p->m * p->n * p->k * p->groups;
    uint32_t n_block = div_up(div_up(p->n, 8), tile->nr) * tile->nr;
    n_block = n_block < 8 * tile->nr ? 8 * tile->nr : n_block;
    if (work <= SMALL_WORK && p->b.locate != NULL) {
        n_block = p->n; /* without panels, all columns need little scratch */
    } else if (work <= SMALL_WORK) {
        n_block = SMALL_PANELS * tile->nr;
        if (p->k_block > SMALL_K && k_unit <= SMALL_K) {
            p->k_block = even_block(p->k, SMALL_K / k_unit * k_unit, k_unit);
        }
    }
    p->n_block = min_u32(min_u32(n_block, tile->nc), div_up(p->n, tile->nr) * tile->nr);
    p->m_block = p->m;
    p->k_parts = 1;

    uint32_t tasks = p->n_block == 0 ? 1 : div_up(p->n, p->n_block) * p->groups;
    uint32_t wanted = work >= SPLIT_WORTH * TASKS_WANTED ? TASKS_WANTED
                                                         : (uint32_t)(work / SPLIT_WORTH) + 1;
    if (tasks >= wanted || p->m == 0 || p->k == 0) {
        return;
    }
    uint32_t more = div_up(wanted, tasks);
    uint32_t rows = max_u32(div_up(p->m, more), 8 * tile->mr), m_parts = div_up(p->m, rows);
    tasks *= m_parts;
    size_t part_bytes = (size_t)p->groups * p->m * p->n * sizeof(float);
    if (split && tasks < wanted && part_bytes <= PARTS_BYTES_MAX / 2) {
        uint32_t parts = min_u32(div_up(wanted, tasks), PARTS_MAX);
        parts = min_u32(parts, (uint32_t)(PARTS_BYTES_MAX / part_bytes));
        p->k_parts = min_u32(parts, div_up(p->k, p->k_block));
    }
    if (p->threads > 1) {       /* one thread packs B once */
        p->m_block = min_u32(even_block(p->m, rows, tile->mr), p->m);
    }
}

void uw_product_cut(struct uw_product *p, const struct uw_tile *tile, uint32_t k_unit, bool split)
{
    p->tile = tile;
    cut_by_shape(p, k_unit, split);
    double work = (double)p->m * p->n * p->k * p->groups;
    if (p->k_parts == 1 && work > SMALL_WORK) {
        cut_for_threads(p);
    }
    p->k_room = p->k_block;
    p->n_room = p->n_block;
}

void uw_product_widen(struct uw_product *p, bool inner)
{
    const struct uw_tile *t = p->tile;
    if (inner) {
        struct uw_product whole = *p; /* a smaller k may be computed without k_parts */
        cut_for_threads(&whole);
        p->k_room = min_u32(max_u32(t->kc, t->matrix_kc), p->k);
        p->n_room = p->k_parts > 1 ? max_u32(p->n_room, whole.n_block) : p->n_room;
    } else {
        p->n_room = min_u32(max_u32(t->nc, t->matrix_nc), round_up(p->n, t->nr));
    }
}

void uw_product_keep(struct uw_product *p)
{
    p->b.keep = true;
    p->m_block = p->m;
    p->n_block = p->n_room = round_up(p->n, p->tile->nr);
    p->k_room = p->k;
}

/* Scratch of one thread. */
struct areas {
    size_t a, b, work, bytes;   /* offsets, and total size */
};

static struct areas areas_of(const struct uw_product *p)
{
    const struct uw_tile *t = p->tile;
    struct areas s;
    uint32_t rows = min_u32(t->mc, p->m_block);
    s.a = 0;
    size_t a_n = uw_size_mul((size_t)div_up(rows, t->mr) * t->mr, p->k_room);
    size_t b_n = p->b.locate != NULL ? 0
                                     : sum_size(uw_size_mul(p->n_room, p->k_room),
                                                UW_TILE_PIECE_N);
    s.b = area_bytes(a_n);
    s.work = sum_size(s.b, area_bytes(b_n));
    s.bytes = sum_size(s.work, uw_arena_padded(p->b.work_bytes));
    return s;
}

static size_t part_n(const struct uw_product *p)
{
    return (size_t)p->groups * p->m * p->n;
}

size_t uw_product_scratch_bytes(const struct uw_product *p, uint32_t threads)
{
    size_t parts = p->k_parts > 1 ? area_bytes(part_n(p) * p->k_parts) : 0;
    return sum_size(parts, uw_size_mul(areas_of(p).bytes, threads));
}

struct run {
    const struct uw_exec *e;
    const struct uw_product *p;
    struct areas areas;
    float *parts;               /* [k_parts][groups][m][n] when k is split */
    uint8_t *threads;           /* areas of all threads */
    uint32_t n_blocks, m_blocks;
};

/* First row of a panel when rows are spread evenly over the panels. */
static uint32_t panel_begin(uint32_t rows, uint32_t panels, uint32_t panel)
{
    uint32_t each = rows / panels, more = rows % panels;
    return panel * each + min_u32(panel, more);
}

/* Pack elements t .. t+n-1 of a segment that is not contiguous (line_n > 0). */
static void pack_lines(const struct uw_left *a, const float *segment, size_t t, uint32_t rows,
                       uint32_t n, float *dst, size_t ld)
{
    size_t line = t / a->line_n;
    uint32_t at = (uint32_t)(t % a->line_n);
    for (uint32_t k = 0; k < n; k++) {
        const float *from = segment + line * a->line_stride + (size_t)at * a->step;
        for (uint32_t i = 0; i < rows; i++) {
            dst[i] = a->alpha * from[i * a->row_stride];
        }
        dst += ld;
        if (++at == a->line_n) {
            at = 0;
            line++;
        }
    }
}

static void pack_left_panel(const struct uw_product *p, const float *base, uint32_t i0,
                            uint32_t rows, uint32_t k0, uint32_t kn, float *dst)
{
    const struct uw_tile *t = p->tile;
    const struct uw_left *a = &p->a;
    while (kn > 0) {
        size_t segment = k0 / a->segment_n, at = k0 % a->segment_n;
        uint32_t n = a->segment_n - at < kn ? (uint32_t)(a->segment_n - at) : kn;
        const float *from = base + segment * a->segment_stride + i0 * a->row_stride;
        if (a->line_n > 0) {
            pack_lines(a, from, at, rows, n, dst, t->mr);
        } else {
            t->pack_transposed(rows, n, a->alpha, from + at, a->row_stride, dst, t->mr);
        }
        dst += (size_t)n * t->mr;
        k0 += n;
        kn -= n;
    }
}

static void pack_left(const struct uw_product *p, const struct uw_block *b, uint32_t i0,
                      uint32_t rows, float *panels)
{
    const float *base = p->a.base + b->group * p->a.group_stride;
    const struct uw_tile *t = p->tile;
    uint32_t panels_n = div_up(rows, t->mr);
    for (uint32_t k = 0; p->a.trans && k < b->kn; k += UW_ROWS_AT_ONCE) {
        uint32_t kn = min_u32(UW_ROWS_AT_ONCE, b->kn - k);
        const float *from = base + (size_t)(b->k0 + k) * p->a.row_stride + i0;
        for (uint32_t i = 0; i < panels_n; i++) {
            uint32_t lo = panel_begin(rows, panels_n, i), hi = panel_begin(rows, panels_n, i + 1);
            t->pack_copy(hi - lo, kn, p->a.alpha, from + lo, p->a.row_stride,
                         panels + ((size_t)i * b->kn + k) * t->mr, t->mr);
        }
    }
    uint32_t step = p->a.line_n > 0 ? UW_ROWS_AT_ONCE * (uint32_t)p->a.segment_n : b->kn;
    for (uint32_t k = 0; k < b->kn && !p->a.trans; k += step) {
        for (uint32_t i = 0; i < panels_n; i++) {
            uint32_t lo = panel_begin(rows, panels_n, i), hi = panel_begin(rows, panels_n, i + 1);
            pack_left_panel(p, base, i0 + lo, hi - lo, b->k0 + k, min_u32(step, b->kn - k),
                            panels + ((size_t)i * b->kn + k) * t->mr);
        }
    }
}

static void put_line(uint32_t n, const float *tile, float *out, uint32_t step, bool add)
{
    if (step != 1) {
        for (uint32_t j = 0; j < n; j++) {
            float v = tile[j];
            out[(size_t)j * step] = add ? out[(size_t)j * step] + v : v;
        }
        return;
    }
    for (uint32_t j = 0; j < n; j++) {
        float v = tile[j];
        out[j] = add ? out[j] + v : v;
    }
}

/* Rows and columns of one group of C. */
struct part {
    const struct uw_sink *c;
    float *group;
    uint32_t i0, rows, j0, cols;
    bool add;                   /* to the values in C */
};

/* Store a tile whose columns are lines of c->pitch, of which only some columns are kept. */
static void scatter_lines(const struct part *part, const float *tile, uint32_t nr)
{
    const struct uw_sink *c = part->c;
    uint32_t j0 = part->j0, cols = part->cols, image = j0 / c->image_cols, q = j0 % c->image_cols;
    uint32_t line = q / c->pitch, at = q % c->pitch;
    while (cols > 0) {
        uint32_t here = min_u32(min_u32(cols, c->pitch - at),
                                c->image_cols - (line * c->pitch + at));
        uint32_t n = at < c->line_cols && line < c->lines ? min_u32(here, c->line_cols - at) : 0;
        float *out = part->group + image * c->image_stride + part->i0 * c->row_stride +
                     line * c->line_stride + (size_t)at * c->step;
        for (uint32_t i = 0; i < part->rows && n > 0; i++) {
            put_line(n, tile + (size_t)i * nr, out, c->step, part->add);
            out += c->row_stride;
        }
        tile += here;
        cols -= here;
        at += here;
        if (line * c->pitch + at == c->image_cols) {
            image++;
            line = at = 0;
        } else if (at == c->pitch) {
            line++;
            at = 0;
        }
    }
}

/* Store a tile whose columns are not contiguous in C. */
static void scatter(const struct part *part, const float *tile, uint32_t nr)
{
    const struct uw_sink *c = part->c;
    uint32_t j0 = part->j0, cols = part->cols;
    if (c->pitch > 0) {
        scatter_lines(part, tile, nr);
        return;
    }
    while (cols > 0) {
        uint32_t image = j0 / c->image_cols, at = j0 % c->image_cols;
        uint32_t n = min_u32(cols, c->image_cols - at);
        float *out = part->group + image * c->image_stride + part->i0 * c->row_stride + at;
        for (uint32_t i = 0; i < part->rows; i++) {
            put_line(n, tile + (size_t)i * nr, out, 1, part->add);
            out += c->row_stride;
        }
        tile += n;
        j0 += n;
        cols -= n;
    }
}

/* A panel of B: packed, or in place. */
struct panel {
    const float *packed;        /* NULL: runs, in place */
    struct uw_runs runs;
};

/* Columns j .. j+cols-1 in place; the rest of the register tile repeats column j. */
static struct panel panel_at(const struct uw_tile *t, const struct uw_columns *c, uint32_t j,
                             uint32_t cols)
{
    struct panel b = {.runs = {.base = c->base, .at = c->at}};
    for (uint32_t i = 0; i < t->nr / UW_TILE_PIECE_N; i++) {
        uint32_t at = i * UW_TILE_PIECE_N;
        b.runs.run[i] = c->column[j + (at < cols ? at : 0)];
    }
    return b;
}

/* Panels of A: packed, or rows `step` floats apart in place. */
struct left {
    const float *at;
    size_t step;                /* 0: packed */
};

static void multiply(const struct uw_tile *t, uint32_t rows, uint32_t k, const float *a,
                     size_t step, const struct panel *b, const float *init, float *out, size_t ldo,
                     bool add)
{
    if (step > 0) {
        t->multiply_stored(rows, k, a, step, b->packed, init, out, ldo, add);
    } else if (b->packed != NULL) {
        t->multiply(rows, k, a, b->packed, init, out, ldo, add);
    } else {
        t->multiply_runs(rows, k, a, &b->runs, init, out, ldo, add);
    }
}

/* Multiply the panels of A by one panel of B, kn inner indexes, into some columns of C. */
static void multiply_panel(const struct uw_tile *t, const struct part *whole, uint32_t kn,
                           struct left a, const struct panel *b, const float *bias)
{
    static const float zeros[UW_TILE_MR_MAX];
    const struct uw_sink *c = whole->c;
    uint32_t panels_n = div_up(whole->rows, t->mr);
    uint32_t image = whole->j0 / c->image_cols, at = whole->j0 % c->image_cols;
    bool together = whole->cols == t->nr && c->image_cols - at >= whole->cols && c->pitch == 0;
    float *column = whole->group + image * c->image_stride + at;
    struct part part = *whole;
    for (uint32_t i = 0; i < panels_n; i++) {
        uint32_t first = panel_begin(whole->rows, panels_n, i);
        const float *panel = a.at + (a.step > 0 ? first : (size_t)i * t->mr * kn);
        part.i0 = whole->i0 + first;
        part.rows = whole->i0 + panel_begin(whole->rows, panels_n, i + 1) - part.i0;
        const float *init = bias != NULL ? bias + part.i0 : zeros;
        if (together) {
            multiply(t, part.rows, kn, panel, a.step, b, init, column + part.i0 * c->row_stride,
                     c->row_stride, part.add);
        } else {
            float tile[UW_TILE_MR_MAX * UW_TILE_NR_MAX];
            multiply(t, part.rows, kn, panel, a.step, b, init, tile, t->nr, false);
            scatter(&part, tile, t->nr);
        }
    }
}

static void scale_block(const struct part *part, float beta)
{
    const struct uw_sink *c = part->c;
    for (uint32_t i = part->i0; i < part->i0 + part->rows; i++) {
        for (uint32_t j = part->j0; j < part->j0 + part->cols; j++) {
            part->group[(size_t)(j / c->image_cols) * c->image_stride + i * c->row_stride +
                        j % c->image_cols] *= beta;
        }
    }
}

/* Rows and inner indexes of A in place, or packed into panels. */
static struct left left_block(const struct uw_product *p, const struct uw_block *b, uint32_t i0,
                              uint32_t rows, float *panels)
{
    if (p->a.trans && p->a.alpha == 1.0f && p->a.row_stride <= STORED_MAX &&
        p->b.locate == NULL && p->tile->multiply_stored != NULL) {
        return (struct left){p->a.base + b->group * p->a.group_stride +
                                 (size_t)b->k0 * p->a.row_stride + i0, p->a.row_stride};
    }
    pack_left(p, b, i0, rows, panels);
    return (struct left){.at = panels};
}

/* Locate a block of B in place, or return its panels in the scratch of a thread. */
static const float *right_block(const struct run *r, const struct uw_block *block, uint8_t *mine,
                                struct uw_columns *columns)
{
    const struct uw_product *p = r->p;
    size_t at = p->b.keep ? (size_t)block->k0 * p->n_room : 0;
    float *b = (float *)(void *)(mine + r->areas.b) + at;
    if (p->b.locate != NULL) {
        p->b.locate(p, block, mine + r->areas.work, columns);
    } else if (!p->b.kept) {
        p->b.pack(p, block, b, mine + r->areas.work);
    }
    return b;
}

/* Write p->start to a part of C, just before its first sums are added. */
static void start_rows(const struct uw_product *p, const struct part *part, uint32_t cols)
{
    for (uint32_t i = part->i0; i < part->i0 + part->rows; i++) {
        memcpy(part->group + i * part->c->row_stride + part->j0, p->start + part->j0,
               cols * sizeof(float));
    }
}

/* Compute one block of C, over all of k or one of k_parts. */
static void run_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct run *r = arg;
    const struct uw_product *p = r->p;
    const struct uw_tile *t = p->tile;
    uint32_t n_at = task % r->n_blocks, rest = task / r->n_blocks;
    uint32_t m_at = rest % r->m_blocks, rest2 = rest / r->m_blocks;
    uint32_t group = rest2 % p->groups, part = rest2 / p->groups;
    uint8_t *mine = r->threads + thread * r->areas.bytes;
    float *a = (float *)(void *)(mine + r->areas.a);

    struct uw_sink c = p->c;
    if (p->k_parts > 1) {
        c = (struct uw_sink){.base = r->parts + part * part_n(p), .row_stride = p->n,
                             .image_cols = p->n, .group_stride = (size_t)p->m * p->n};
    }
    float beta = p->k_parts > 1 ? 0.0f : p->beta;
    struct part whole = {.c = &c, .group = c.base + group * c.group_stride};
    const float *bias = p->bias != NULL ? p->bias + (size_t)group * p->m : NULL;

    uint32_t i_begin = m_at * p->m_block, i_end = min_u32(p->m, i_begin + p->m_block);
    uint32_t rows_most = even_block(i_end - i_begin, t->mc, t->mr);
    struct uw_block block = {.group = group, .j0 = n_at * p->n_block};
    block.jn = min_u32(p->n_block, p->n - block.j0);
    uint32_t k_blocks = div_up(p->k, p->k_block);
    uint32_t block_begin = panel_begin(k_blocks, p->k_parts, part);
    uint32_t block_end = panel_begin(k_blocks, p->k_parts, part + 1);
    if (beta != 0.0f && beta != 1.0f) {
        whole.i0 = i_begin;
        whole.rows = i_end - i_begin;
        whole.j0 = block.j0;
        whole.cols = block.jn;
        scale_block(&whole, beta);
    }
    for (uint32_t kb = block_begin; kb < block_end; kb++) {
        block.k0 = kb * p->k_block;
        block.kn = min_u32(p->k_block, p->k - block.k0);
        struct uw_columns columns = {0};
        const float *b = right_block(r, &block, mine, &columns);
        bool first = kb == block_begin;
        whole.add = !first || beta != 0.0f;
        for (whole.i0 = i_begin; whole.i0 < i_end; whole.i0 += rows_most) {
            whole.rows = min_u32(rows_most, i_end - whole.i0);
            if (first && p->start != NULL) {
                whole.j0 = block.j0;
                start_rows(p, &whole, block.jn);
            }
            struct left left = left_block(p, &block, whole.i0, whole.rows, a);
            for (uint32_t j = 0; j < block.jn; j += t->nr) {
                whole.j0 = block.j0 + j;
                whole.cols = min_u32(t->nr, block.jn - j);
                struct panel panel = {.packed = b + (size_t)j * block.kn};
                if (columns.base != NULL) {
                    panel = panel_at(t, &columns, j, whole.cols);
                }
                multiply_panel(t, &whole, block.kn, left, &panel, first ? bias : NULL);
            }
        }
    }
}

/* C = beta * C + the sum of the parts in order, for one row. */
static void add_parts(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    static const float ones[PARTS_MAX] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    const struct run *r = arg;
    const struct uw_product *p = r->p;
    uint32_t group = task / p->m, i = task % p->m;
    float *out = p->c.base + group * p->c.group_stride + i * p->c.row_stride;
    float *sum = r->parts + (size_t)task * p->n;
    p->tile->add_rows(p->k_parts - 1, p->n, ones, sum + part_n(p), part_n(p), sum);
    if (p->c.pitch == 0 && p->beta == 1.0f) {
        p->tile->add_rows(1, p->n, ones, sum, 0, out);
        return;
    }
    uint32_t line_n = p->c.pitch > 0 ? p->c.pitch : p->n, step = p->c.pitch > 0 ? p->c.step : 1;
    for (uint32_t j = 0; j < p->n; out += p->c.line_stride) {
        for (uint32_t at = 0; at < line_n && j < p->n; at++, j++) {
            float *to = out + (size_t)at * step;
            *to = p->beta == 0.0f ? sum[j] : p->beta * *to + sum[j];
        }
    }
}

int uw_product_run(const struct uw_exec *e, const struct uw_product *p)
{
    if (p->groups == 0 || p->m == 0 || p->n == 0) {
        return UW_OK;
    }
    uint32_t threads = uw_workers_threads(e->workers);
    if (e->scratch_bytes < uw_product_scratch_bytes(p, threads)) {
        return UW_ERR_NOMEM;
    }
    struct run r = {.e = e, .p = p, .areas = areas_of(p)};
    size_t parts = p->k_parts > 1 ? area_bytes(part_n(p) * p->k_parts) : 0;
    r.parts = e->scratch;
    r.threads = (uint8_t *)e->scratch + parts;
    r.n_blocks = div_up(p->n, p->n_block);
    r.m_blocks = div_up(p->m, p->m_block);
    uw_workers_run(e->workers, run_task, &r, r.n_blocks * r.m_blocks * p->groups * p->k_parts);
    if (p->k_parts > 1) {
        uw_workers_run(e->workers, add_parts, &r, p->groups * p->m);
    }
    return UW_OK;
}
