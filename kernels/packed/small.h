/* SPDX-License-Identifier: Apache-2.0
 *
 * small.h - convolutions so small that packing both operands would cost as much as the arithmetic
 *
 * The micro-kernel computes a few rows by one vector register (lanes) with the operands in place:
 * for each inner index a list gives the offset of the left element, which is broadcast to all
 * lanes, and of the right lanes. Lanes are pixels of a row, or channels; at most one operand is
 * packed. The order of each sum is fixed: results depend neither on threads nor on tasks.
 *
 * Memory     scratch from the caller, uw_small_scratch_bytes()
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_SMALL_H
#define UW_KERNELS_SMALL_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

#define UW_SMALL_ROWS 8u
#define UW_SMALL_LANES_MAX 16u

/* Offsets of one inner index in both operands. */
struct uw_small_at {
    uint32_t a, b;
};

/* Element (row i, inner index k): a[at[k].a + row[i]]; lane l: b[at[k].b + l]. */
struct uw_small_sides {
    const float *a, *b;
    const struct uw_small_at *at;
    uint32_t row[UW_SMALL_ROWS];
};

/* Limits of uw_small_ops.add_terms: rows, registers of a row, accumulators. */
#define UW_SMALL_TERM_ROWS 5u
#define UW_SMALL_TERM_VECS 7u
#define UW_SMALL_TERM_SUMS 15u

/* The non-zero elements of a gradient, and the offset of the factor of each. */
struct uw_small_terms {
    uint32_t n;
    float *value;
    uint32_t *at;
};

/* Inner loops, one implementation per instruction set. */
struct uw_small_ops {
    uint32_t lanes;
    /* out[i * ldo + l] = init[i] + sum over k < n of a(i, k) * b(k, l), all lanes l, i < rows <=
     * UW_SMALL_ROWS; init NULL: out is added to. */
    void (*multiply)(uint32_t rows, uint32_t n, const struct uw_small_sides *s, const float *init,
                     float *out, size_t ldo);
    /* out[i * ldo + l] (+)= sum over k of value[k] * b[at[k] + i * ldb + l], l < vecs * lanes;
     * i < rows <= UW_SMALL_TERM_ROWS, vecs <= UW_SMALL_TERM_VECS, the product of the two at most
     * UW_SMALL_TERM_SUMS. add false: out is not read. */
    void (*add_terms)(uint32_t rows, uint32_t vecs, const struct uw_small_terms *t, const float *b,
                      size_t ldb, bool add, float *out, size_t ldo);
    /* Append scale * src[i] with offset at + i * step for each non-zero src[i], i < n. Up to
     * UW_SMALL_LANES_MAX elements after the last term are overwritten. */
    void (*find_terms)(uint32_t n, const float *src, float scale, uint32_t at, uint32_t step,
                       struct uw_small_terms *t);
};

enum uw_small_part { UW_SMALL_FW, UW_SMALL_BW_INPUT, UW_SMALL_BW_PARAM };

/* Should this part use these functions? If so, every smaller minibatch should too. The other
 * functions require it. */
bool uw_small_fits(const struct uw_tile *t, const struct uw_conv2d *c, enum uw_small_part part,
                   uint32_t batch_n);

/* Scratch of all parts that fit for some minibatch. */
size_t uw_small_scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c);

/* As the slots of uwasa/kernels.h; dw is not NULL, db is the caller's.
 * Return UW_OK or UW_ERR_NOMEM. */
int uw_small_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_small_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *dy, const float *w, float *dx, bool accumulate);
int uw_small_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *dy, float scale, float *dw);

#endif
