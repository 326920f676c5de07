/* SPDX-License-Identifier: Apache-2.0
 *
 * input_norm.h - a batch norm before a convolution, fused into the packing of its input
 *
 * Inner loops for one instruction set, in place on values just packed. They round as batchnorm_fw
 * does.
 *
 * Units      floats
 * Blocking   until computed      Context  any thread
 */
#ifndef UW_KERNELS_INPUT_NORM_H
#define UW_KERNELS_INPUT_NORM_H

#include "packed/planes_tile.h"
#include "packed/tile.h"
#include "uwasa/kernels.h"

#include <math.h>

/* Plain C, for any instruction set. */
extern const struct uw_norm_ops uw_norm_ops_plain;

/* The batch norm fused into a convolution; NULL: none. */
static inline const struct uw_input_norm *uw_input_norm_of(const struct uw_conv2d *c)
{
    return c->normed ? &((const struct uw_normed_conv2d *)(const void *)c)->norm : NULL;
}

/* y = min(max(gamma * ((x - mean) * second) + beta, least), most), per channel; NaN stays NaN. */
struct uw_norm_lines {
    float mean[UW_TILE_NR_MAX], second[UW_TILE_NR_MAX], gamma[UW_TILE_NR_MAX],
        beta[UW_TILE_NR_MAX];
    float least, most;
};

struct uw_norm_ops {
    /* x[k * ld + j], k < n <= UW_TILE_NR_MAX, j < cols: row k belongs to channel k */
    void (*rows)(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x, size_t ld);
    /* x[k * ld + j], k < n, j < cols <= UW_TILE_NR_MAX: column j belongs to channel j */
    void (*columns)(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x, size_t ld);
    /* Rows of cols floats, all of channel 0. */
    void (*planes)(uint32_t images, size_t rows, size_t cols, const struct uw_norm_lines *c,
                   float *x, struct uw_rows at);
};

/* Set c for channels first .. first+n-1, n <= UW_TILE_NR_MAX. */
static inline void uw_norm_lines_of(const struct uw_input_norm *s, size_t first, uint32_t n,
                                    struct uw_norm_lines *c)
{
    for (uint32_t i = 0; i < n; i++) {
        c->mean[i] = s->stats[2 * (first + i)];
        c->second[i] = s->stats[2 * (first + i) + 1];
        c->gamma[i] = s->gamma != NULL ? s->gamma[first + i] : 1.0f;
        c->beta[i] = s->beta != NULL ? s->beta[first + i] : 0.0f;
    }
    c->least = s->ceiling > 0.0f ? 0.0f : -INFINITY;
    c->most = s->ceiling > 0.0f ? s->ceiling : INFINITY;
}

#endif
