/* SPDX-License-Identifier: Apache-2.0
 *
 * 6 x 16 sums in twelve of the sixteen registers: two hold a row of B, one a broadcast of A. */
#include "packed/pack_inline.h"
#include "x86/x86.h"

#include <immintrin.h>

#define MR 6u
#define NR 16u

/* rows is a constant at every call, so the loops over it unroll and the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_rows(
    uint32_t rows, uint32_t k, const float *a, const float *b, const float *init, float *out,
    size_t ldo, bool add)
{
    __m256 s[MR][2];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < rows; i++) {
        s[i][0] = s[i][1] = _mm256_broadcast_ss(init + i);
    }
    for (uint32_t p = 0; p < k; p++) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
        for (uint32_t i = 0; i < rows; i++) {
            __m256 ai = _mm256_broadcast_ss(a + i);
            s[i][0] = _mm256_fmadd_ps(ai, b0, s[i][0]);
            s[i][1] = _mm256_fmadd_ps(ai, b1, s[i][1]);
        }
        a += MR;
        b += NR;
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < rows; i++) {
        float *row = out + i * ldo;
        if (add) {
            s[i][0] = _mm256_add_ps(s[i][0], _mm256_loadu_ps(row));
            s[i][1] = _mm256_add_ps(s[i][1], _mm256_loadu_ps(row + 8));
        }
        _mm256_storeu_ps(row, s[i][0]);
        _mm256_storeu_ps(row + 8, s[i][1]);
    }
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
    case 6: multiply_rows(6, k, a, b, init, out, ldo, add); break;
    case 5: multiply_rows(5, k, a, b, init, out, ldo, add); break;
    case 4: multiply_rows(4, k, a, b, init, out, ldo, add); break;
    case 3: multiply_rows(3, k, a, b, init, out, ldo, add); break;
    case 2: multiply_rows(2, k, a, b, init, out, ldo, add); break;
    default: multiply_rows(1, k, a, b, init, out, ldo, add); break;
    }
}

/* Four rows at a time through a 4 x 4 transposition. */
static void pack_transposed(uint32_t rows, uint32_t n, float alpha, const float *src,
                            size_t stride, float *dst, size_t ld)
{
    __m128 scale = _mm_set1_ps(alpha);
    uint32_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *from = src + i * stride;
        float *to = dst + i;
        uint32_t k = 0;
        for (; k + 4 <= n; k += 4) {
            __m128 r0 = _mm_mul_ps(scale, _mm_loadu_ps(from + k));
            __m128 r1 = _mm_mul_ps(scale, _mm_loadu_ps(from + stride + k));
            __m128 r2 = _mm_mul_ps(scale, _mm_loadu_ps(from + 2 * stride + k));
            __m128 r3 = _mm_mul_ps(scale, _mm_loadu_ps(from + 3 * stride + k));
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            _mm_storeu_ps(to, r0);
            _mm_storeu_ps(to + ld, r1);
            _mm_storeu_ps(to + 2 * ld, r2);
            _mm_storeu_ps(to + 3 * ld, r3);
            to += 4 * ld;
        }
        pack_transposed_inline(4, n - k, alpha, from + k, stride, to, ld);
    }
    pack_transposed_inline(rows - i, n, alpha, src + i * stride, stride, dst + i, ld);
}

static void pack_copy(uint32_t cols, uint32_t n, float alpha, const float *src, size_t stride,
                      float *dst, size_t ld)
{
    pack_copy_inline(cols, n, alpha, src, stride, dst, ld);
}

static void pack_runs(uint32_t pieces_n, const struct uw_piece *piece, uint32_t n,
                      const uint32_t *at, const float *src, float *dst, size_t ld)
{
    pack_runs_inline(pieces_n, piece, n, at, src, dst, ld);
}

static float sum_of(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    h = _mm_add_ss(h, _mm_movehdup_ps(h));
    return _mm_cvtss_f32(h);
}

static inline __attribute__((always_inline)) void dots_rows(
    uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw, float *dots)
{
    __m256 s[3][4];
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            s[i][j] = _mm256_setzero_ps();
        }
    }
    size_t p = 0;
    for (; p + 8 <= k; p += 8) {
        __m256 xi[3];
        for (uint32_t i = 0; i < rows; i++) {
            xi[i] = _mm256_loadu_ps(x + i * ldx + p);
        }
        for (uint32_t j = 0; j < 4; j++) {
            __m256 wj = _mm256_loadu_ps(w + j * ldw + p);
            for (uint32_t i = 0; i < rows; i++) {
                s[i][j] = _mm256_fmadd_ps(xi[i], wj, s[i][j]);
            }
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            float sum = sum_of(s[i][j]);
            for (size_t q = p; q < k; q++) {
                sum += x[i * ldx + q] * w[j * ldw + q];
            }
            dots[i * 4 + j] = sum;
        }
    }
}

static void dots(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw,
                 float *out)
{
    switch (rows) {
    case 3: dots_rows(3, k, x, ldx, w, ldw, out); break;
    case 2: dots_rows(2, k, x, ldx, w, ldw, out); break;
    default: dots_rows(1, k, x, ldx, w, ldw, out); break;
    }
}

static void add_rows(uint32_t rows, size_t n, const float *coef, const float *x, size_t stride,
                     float *y)
{
    size_t j = 0;
    for (; j + 8 <= n; j += 8) {
        __m256 s = _mm256_loadu_ps(y + j);
        for (uint32_t i = 0; i < rows; i++) {
            s = _mm256_fmadd_ps(_mm256_broadcast_ss(coef + i), _mm256_loadu_ps(x + i * stride + j),
                                s);
        }
        _mm256_storeu_ps(y + j, s);
    }
    for (; j < n; j++) {
        for (uint32_t i = 0; i < rows; i++) {
            y[j] += coef[i] * x[i * stride + j];
        }
    }
}

const struct uw_tile uw_tile_avx2 = {
    .mr = MR, .nr = NR, .mc = 96, .kc = 256, .nc = 256,
    .multiply = multiply,
    .pack_transposed = pack_transposed,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = dots,
    .add_rows = add_rows,
};
