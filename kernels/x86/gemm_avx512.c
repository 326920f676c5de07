/* SPDX-License-Identifier: Apache-2.0
 *
 * 14 x 32 sums in twenty-eight of the thirty-two registers; two hold a row of B, and A is
 * broadcast from memory inside the multiply-add. The rest is as for AVX2. */
#include "packed/pack_inline.h"
#include "x86/x86.h"

#include <immintrin.h>

#define MR 14u
#define NR 32u

/* rows is a constant at every call, so the loops over it unroll and the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_rows(
    uint32_t rows, uint32_t k, const float *a, const float *b, const float *init, float *out,
    size_t ldo, bool add)
{
    __m512 s[MR][2];
#pragma GCC unroll 14
    for (uint32_t i = 0; i < rows; i++) {
        s[i][0] = s[i][1] = _mm512_set1_ps(init[i]);
    }
    for (uint32_t p = 0; p < k; p++) {
        __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 14
        for (uint32_t i = 0; i < rows; i++) {
            __m512 ai = _mm512_set1_ps(a[i]);
            s[i][0] = _mm512_fmadd_ps(ai, b0, s[i][0]);
            s[i][1] = _mm512_fmadd_ps(ai, b1, s[i][1]);
        }
        a += MR;
        b += NR;
    }
#pragma GCC unroll 14
    for (uint32_t i = 0; i < rows; i++) {
        float *row = out + i * ldo;
        if (add) {
            s[i][0] = _mm512_add_ps(s[i][0], _mm512_loadu_ps(row));
            s[i][1] = _mm512_add_ps(s[i][1], _mm512_loadu_ps(row + 16));
        }
        _mm512_storeu_ps(row, s[i][0]);
        _mm512_storeu_ps(row + 16, s[i][1]);
    }
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_rows(r, k, a, b, init, out, ldo, add); break;
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)
    ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13)
#undef ROWS
    default: multiply_rows(14, k, a, b, init, out, ldo, add); break;
    }
}

static void pack_transposed(uint32_t rows, uint32_t n, float alpha, const float *src,
                            size_t stride, float *dst, size_t ld)
{
    uw_tile_avx2.pack_transposed(rows, n, alpha, src, stride, dst, ld);
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

static void dots(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw,
                 float *out)
{
    uw_tile_avx2.dots(rows, k, x, ldx, w, ldw, out);
}

static void add_rows(uint32_t rows, size_t n, const float *coef, const float *x, size_t stride,
                     float *y)
{
    uw_tile_avx2.add_rows(rows, n, coef, x, stride, y);
}

const struct uw_tile uw_tile_avx512 = {
    .mr = MR, .nr = NR, .mc = 98, .kc = 256, .nc = 256,
    .multiply = multiply,
    .pack_transposed = pack_transposed,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = dots,
    .add_rows = add_rows,
};
