/* SPDX-License-Identifier: Apache-2.0
 *
 * small.h - convolutions of so little work that packing both sides would cost as much as the sums
 *
 * Sums of a few rows by one register of lanes are made where the numbers lie: lists say where each
 * inner index finds its element of the left side, one of which meets all lanes, and its lanes on
 * the right. Lanes are a row's pixels, or channels; at most one of the two sides is rearranged.
 *
 * Every sum goes through its inner indexes in one order: results depend neither on threads nor on
 * the cut into tasks.
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

/* Where inner index k lies on both sides. */
struct uw_small_at {
    uint32_t a, b;
};

/* Row i, inner index k: a[at[k].a + row[i]]; lane l: b[at[k].b + l]. */
struct uw_small_sides {
    const float *a, *b;
    const struct uw_small_at *at;
    uint32_t row[UW_SMALL_ROWS];
};

/* Rows and registers of uw_small_ops.add_terms. */
#define UW_SMALL_TERM_ROWS 5u
#define UW_SMALL_TERM_VECS 7u
#define UW_SMALL_TERM_SUMS 15u

/* What differs from zero, and where it finds what it is multiplied by. */
struct uw_small_terms {
    uint32_t n;
    float *value;
    uint32_t *at;
};

/* What an instruction set gives. */
struct uw_small_ops {
    uint32_t lanes;
    /* out[i * ldo + l] = init[i] + sum over k < n of row i times lane l, all lanes, i < rows <=
     * UW_SMALL_ROWS; init NULL: out is added to. */
    void (*multiply)(uint32_t rows, uint32_t n, const struct uw_small_sides *s, const float *init,
                     float *out, size_t ldo);
    /* out[i * ldo + l] (+)= sum over k of value[k] * b[at[k] + i * ldb + l], l < vecs * lanes;
     * i < rows <= UW_SMALL_TERM_ROWS, vecs <= UW_SMALL_TERM_VECS, the product of the two at most
     * UW_SMALL_TERM_SUMS. add false: out is not read. */
    void (*add_terms)(uint32_t rows, uint32_t vecs, const struct uw_small_terms *t, const float *b,
                      size_t ldb, bool add, float *out, size_t ldo);
    /* Append scale * src[i], at + i * step, i < n, of all that differ from zero. Up to
     * UW_SMALL_LANES_MAX elements behind the last are written. */
    void (*find_terms)(uint32_t n, const float *src, float scale, uint32_t at, uint32_t step,
                       struct uw_small_terms *t);
};

enum uw_small_part { UW_SMALL_FW, UW_SMALL_BW_INPUT, UW_SMALL_BW_PARAM };

/* Should the part of the convolution go this way? If so, then with every smaller minibatch too.
 * The rest of this file asks for that. */
bool uw_small_fits(const struct uw_tile *t, const struct uw_conv2d *c, enum uw_small_part part,
                   uint32_t batch_n);

/* Scratch of the parts that some minibatch takes this way. */
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
