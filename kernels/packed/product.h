/* SPDX-License-Identifier: Apache-2.0
 *
 * product.h - the blocked matrix product that every packed kernel is made of
 *
 * C (+)= A B for `groups` independent products of one shape. A and C are described by strides, B
 * by a function that packs a block of it; a convolution is a product whose B is an image.
 *
 * The blocks of k depend on the shape alone, so each element of C is summed in the same order
 * however rows and columns are divided into tasks: results do not depend on threads.
 *
 * Memory     scratch from the caller, uw_product_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_PRODUCT_H
#define UW_KERNELS_PRODUCT_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* The matrix A. Element (row i, inner index k = s * segment_n + t) is
 * base[s * segment_stride + i * row_stride + t]; with line_n > 0 the last term is
 * t / line_n * line_stride + t % line_n * step. trans: base[k * row_stride + i]. */
struct uw_left {
    const float *base;
    bool trans;
    float alpha;                /* factor of every element */
    size_t row_stride;
    size_t segment_n, segment_stride;
    uint32_t line_n, step;
    size_t line_stride;
    size_t group_stride;
};

/* A block of B: inner indexes k0 .. k0+kn-1, columns j0 .. j0+jn-1 of one group. */
struct uw_block {
    uint32_t group, k0, kn, j0, jn;
};

struct uw_product;

/* A block of B in place: element (k, j) is base[at[k] + column[j]]. */
struct uw_columns {
    const float *base;
    const uint32_t *at, *column;
};

struct uw_right {
    /* Write the block's panels, each kn * nr floats; columns from jn on may hold anything.
     * work: work_bytes of private memory for this call. */
    void (*pack)(const struct uw_product *p, const struct uw_block *block, float *panels,
                 void *work);
    /* Instead of packing: prepare the block in work and set the offsets of its inner indexes and
     * columns. Each aligned group of UW_TILE_PIECE_N columns is consecutive. NULL: pack. */
    void (*locate)(const struct uw_product *p, const struct uw_block *block, void *work,
                   struct uw_columns *columns);
    const void *source;         /* for pack and locate */
    size_t work_bytes;
    bool keep, kept;            /* see uw_product_keep */
};

/* The matrix C. Element (row i, column j = image * image_cols + q) is
 * base[image * image_stride + i * row_stride + q]. pitch > 0: q = line * pitch + at; only columns
 * at < line_cols of the first `lines` lines are stored, with line * line_stride + at * step in
 * place of q. Then beta is 0 or 1. */
struct uw_sink {
    float *base;
    size_t row_stride;
    uint32_t image_cols;
    uint32_t pitch, line_cols, lines, step;
    size_t line_stride;
    size_t image_stride;
    size_t group_stride;
};

/* Rows of a matrix packed at a time into all panels: packing then touches few memory pages. */
#define UW_ROWS_AT_ONCE 8u

struct uw_product {
    const struct uw_tile *tile;
    uint32_t groups, m, n, k;
    uint32_t threads;           /* rows and columns are divided for this many */
    uint32_t m_block, k_block, n_block; /* from uw_product_cut */
    uint32_t k_room, n_room;    /* block size that scratch has room for, >= k_block, n_block */
    uint32_t k_parts;           /* > 1: k is split into parts whose sums are added at the end */
    struct uw_left a;
    struct uw_right b;
    struct uw_sink c;
    float beta;                 /* 0 never reads C */
    const float *bias;          /* [groups * m], added to each row; NULL: none */
    const float *start;         /* [n]: what every row of C is first; one group, k_parts 1, beta 1,
                                   no pitch; NULL: none */
};

/* Choose block sizes from groups, m, n, k, threads and b.locate. k_unit: k_block becomes a multiple
 * of it (or all of k). split: allow k_parts > 1 (then image_cols must be n). */
void uw_product_cut(struct uw_product *p, const struct uw_tile *tile, uint32_t k_unit, bool split);

/* Enlarge k_room and n_room, so that scratch for this minibatch suffices for a smaller one, whose
 * product has fewer columns (inner: fewer inner indexes) and may have larger blocks. */
void uw_product_widen(struct uw_product *p, bool inner);

/* For one thread: keep all panels of B in scratch. With b.kept they are there already. */
void uw_product_keep(struct uw_product *p);

/* Scratch of a product after uw_product_cut, with b.work_bytes filled in. */
size_t uw_product_scratch_bytes(const struct uw_product *p, uint32_t threads);

/* Compute. Returns UW_OK or UW_ERR_NOMEM. */
int uw_product_run(const struct uw_exec *e, const struct uw_product *p);

#endif
