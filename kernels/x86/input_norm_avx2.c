/* SPDX-License-Identifier: Apache-2.0 */
#include "x86/x86.h"

#include "packed/input_norm.h"

#include <immintrin.h>
#include <string.h>

/* One channel in all lanes, or eight channels. */
struct channel {
    __m256 mean, second, gamma, beta;
};

static inline struct channel same(const struct uw_norm_lines *c, uint32_t i)
{
    return (struct channel){_mm256_set1_ps(c->mean[i]), _mm256_set1_ps(c->second[i]),
                            _mm256_set1_ps(c->gamma[i]), _mm256_set1_ps(c->beta[i])};
}

static inline struct channel eight(const struct uw_norm_lines *c, uint32_t i)
{
    return (struct channel){_mm256_loadu_ps(c->mean + i), _mm256_loadu_ps(c->second + i),
                            _mm256_loadu_ps(c->gamma + i), _mm256_loadu_ps(c->beta + i)};
}

/* If an operand is NaN, max and min return the second one, so NaN stays NaN. */
static inline __m256 normed(const struct channel *c, __m256 least, __m256 most, __m256 x)
{
    __m256 xhat = _mm256_mul_ps(_mm256_sub_ps(x, c->mean), c->second);
    __m256 v = _mm256_add_ps(_mm256_mul_ps(c->gamma, xhat), c->beta);
    return _mm256_min_ps(most, _mm256_max_ps(least, v));
}

/* Normalize the last n < 8 floats, at x. */
static inline void norm_rest(const struct channel *c, __m256 least, __m256 most, float *x,
                             size_t n)
{
    float rest[8] = {0.0f};
    for (size_t i = 0; i < n; i++) {
        rest[i] = x[i];
    }
    _mm256_storeu_ps(rest, normed(c, least, most, _mm256_loadu_ps(rest)));
    for (size_t i = 0; i < n; i++) {
        x[i] = rest[i];
    }
}

static inline __attribute__((always_inline)) void norm_row(const struct channel *c, __m256 least,
                                                           __m256 most, float *x, size_t n)
{
    size_t j = 0;
    for (; j + 8 <= n; j += 8) {
        _mm256_storeu_ps(x + j, normed(c, least, most, _mm256_loadu_ps(x + j)));
    }
    if (j + 4 == n) { /* planes of 4 x 4 */
        __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(x + j));
        _mm_storeu_ps(x + j, _mm256_castps256_ps128(normed(c, least, most, v)));
    } else if (j < n) {
        norm_rest(c, least, most, x + j, n - j);
    }
}

static void norm_rows(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x,
                      size_t ld)
{
    const __m256 least = _mm256_set1_ps(c->least), most = _mm256_set1_ps(c->most);
    for (uint32_t k = 0; k < n; k++) {
        const struct channel one = same(c, k);
        norm_row(&one, least, most, x + k * ld, cols);
    }
}

static void norm_few_rows(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x,
                          size_t ld)
{
    const __m256 least = _mm256_set1_ps(c->least), most = _mm256_set1_ps(c->most);
    uint32_t j = 0;
    for (; j + 8 <= cols; j += 8) {
        const struct channel all = eight(c, j);
        for (uint32_t k = 0; k < n; k++) {
            float *at = x + k * ld + j;
            _mm256_storeu_ps(at, normed(&all, least, most, _mm256_loadu_ps(at)));
        }
    }
    for (uint32_t k = 0; k < n && j < cols; k++) {
        const struct channel all = eight(c, j);
        norm_rest(&all, least, most, x + k * ld + j, cols - j);
    }
}

#define ROWS_AT_ONCE 32u        /* fit in the L1 cache */

static void norm_columns(uint32_t cols, uint32_t n, const struct uw_norm_lines *c, float *x,
                         size_t ld)
{
    for (uint32_t k = 0; k < n; k += ROWS_AT_ONCE) {
        norm_few_rows(cols, n - k < ROWS_AT_ONCE ? n - k : ROWS_AT_ONCE, c, x + k * ld, ld);
    }
}

static inline __attribute__((always_inline)) void norm_planes_of(
    uint32_t images, size_t rows, size_t cols, const struct uw_norm_lines *c, float *x,
    struct uw_rows at)
{
    const __m256 least = _mm256_set1_ps(c->least), most = _mm256_set1_ps(c->most);
    const struct channel one = same(c, 0);
    for (uint32_t i = 0; i < images; i++, x += at.image) {
        for (size_t r = 0; r < rows; r++) {
            norm_row(&one, least, most, x + r * at.row, cols);
        }
    }
}

static void norm_planes(uint32_t images, size_t rows, size_t cols, const struct uw_norm_lines *c,
                        float *x, struct uw_rows at)
{
    switch (cols) {
    case 4: norm_planes_of(images, rows, 4, c, x, at); break;
    case 8: norm_planes_of(images, rows, 8, c, x, at); break;
    case 16: norm_planes_of(images, rows, 16, c, x, at); break;
    case 32: norm_planes_of(images, rows, 32, c, x, at); break;
    default: norm_planes_of(images, rows, cols, c, x, at); break;
    }
}

const struct uw_norm_ops uw_norm_ops_avx2 = {
    .rows = norm_rows,
    .columns = norm_columns,
    .planes = norm_planes,
};
