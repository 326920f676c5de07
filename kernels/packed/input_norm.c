/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/input_norm.h"

/* Comparisons with NaN are false, so NaN stays NaN. */
static inline float normed(const struct uw_norm_lines *c, uint32_t i, float x)
{
    float v = c->gamma[i] * ((x - c->mean[i]) * c->second[i]) + c->beta[i];
    v = v <= c->least ? c->least : v;
    return v >= c->most ? c->most : v;
}

static void norm_rows(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x,
                      size_t ld)
{
    for (uint32_t k = 0; k < n; k++, x += ld) {
        for (uint32_t j = 0; j < cols; j++) {
            x[j] = normed(c, k, x[j]);
        }
    }
}

static void norm_columns(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x,
                         size_t ld)
{
    for (uint32_t k = 0; k < n; k++, x += ld) {
        for (uint32_t j = 0; j < cols; j++) {
            x[j] = normed(c, j, x[j]);
        }
    }
}

static void norm_planes(uint32_t images, size_t rows, size_t cols, const struct uw_norm_lines *c,
                        float *x, struct uw_rows at)
{
    for (uint32_t i = 0; i < images; i++, x += at.image) {
        for (size_t r = 0; r < rows; r++) {
            float *row = x + r * at.row;
            for (size_t j = 0; j < cols; j++) {
                row[j] = normed(c, 0, row[j]);
            }
        }
    }
}

const struct uw_norm_ops uw_norm_ops_plain = {
    .rows = norm_rows,
    .columns = norm_columns,
    .planes = norm_planes,
};
