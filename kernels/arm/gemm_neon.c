/* SPDX-License-Identifier: Apache-2.0
 *
 * 8 x 12 sums in twenty-four of the thirty-two registers; three hold a row of B, two eight
 * elements of A, which the multiply-add takes lane by lane. */
#include "arm/arm.h"
#include "packed/pack_inline.h"

#include <arm_neon.h>

#define MR 8u
#define NR 12u

/* rows is a constant at every call, so the loops over it unroll and the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_rows(
    uint32_t rows, uint32_t k, const float *a, const float *b, const float *init, float *out,
    size_t ldo, bool add)
{
    float32x4_t s[MR][3];
#pragma GCC unroll 8
    for (uint32_t i = 0; i < rows; i++) {
        s[i][0] = s[i][1] = s[i][2] = vdupq_n_f32(init[i]);
    }
    for (uint32_t p = 0; p < k; p++) {
        float32x4_t b0 = vld1q_f32(b), b1 = vld1q_f32(b + 4), b2 = vld1q_f32(b + 8);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < rows; i++) {
            s[i][0] = vfmaq_n_f32(s[i][0], b0, a[i]);
            s[i][1] = vfmaq_n_f32(s[i][1], b1, a[i]);
            s[i][2] = vfmaq_n_f32(s[i][2], b2, a[i]);
        }
        a += MR;
        b += NR;
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 3; j++) {
            float *at = out + i * ldo + 4 * j;
            vst1q_f32(at, add ? vaddq_f32(vld1q_f32(at), s[i][j]) : s[i][j]);
        }
    }
}

/* All eight rows: A comes in two registers. */
static void multiply_all(uint32_t k, const float *a, const float *b, const float *init, float *out,
                         size_t ldo, bool add)
{
    float32x4_t s[MR][3];
#pragma GCC unroll 8
    for (uint32_t i = 0; i < MR; i++) {
        s[i][0] = s[i][1] = s[i][2] = vdupq_n_f32(init[i]);
    }
    for (uint32_t p = 0; p < k; p++) {
        float32x4_t a0 = vld1q_f32(a), a1 = vld1q_f32(a + 4);
#define COLUMN(j)                                                                                 \
    do {                                                                                          \
        float32x4_t bj = vld1q_f32(b + 4 * (j));                                                  \
        s[0][j] = vfmaq_laneq_f32(s[0][j], bj, a0, 0);                                            \
        s[1][j] = vfmaq_laneq_f32(s[1][j], bj, a0, 1);                                            \
        s[2][j] = vfmaq_laneq_f32(s[2][j], bj, a0, 2);                                            \
        s[3][j] = vfmaq_laneq_f32(s[3][j], bj, a0, 3);                                            \
        s[4][j] = vfmaq_laneq_f32(s[4][j], bj, a1, 0);                                            \
        s[5][j] = vfmaq_laneq_f32(s[5][j], bj, a1, 1);                                            \
        s[6][j] = vfmaq_laneq_f32(s[6][j], bj, a1, 2);                                            \
        s[7][j] = vfmaq_laneq_f32(s[7][j], bj, a1, 3);                                            \
    } while (0)
        COLUMN(0);
        COLUMN(1);
        COLUMN(2);
#undef COLUMN
        a += MR;
        b += NR;
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < MR; i++) {
        for (uint32_t j = 0; j < 3; j++) {
            float *at = out + i * ldo + 4 * j;
            vst1q_f32(at, add ? vaddq_f32(vld1q_f32(at), s[i][j]) : s[i][j]);
        }
    }
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
    case 8: multiply_all(k, a, b, init, out, ldo, add); break;
    case 7: multiply_rows(7, k, a, b, init, out, ldo, add); break;
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
    uint32_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *from = src + i * stride;
        float *to = dst + i;
        uint32_t k = 0;
        for (; k + 4 <= n; k += 4) {
            float32x4_t r0 = vmulq_n_f32(vld1q_f32(from + k), alpha);
            float32x4_t r1 = vmulq_n_f32(vld1q_f32(from + stride + k), alpha);
            float32x4_t r2 = vmulq_n_f32(vld1q_f32(from + 2 * stride + k), alpha);
            float32x4_t r3 = vmulq_n_f32(vld1q_f32(from + 3 * stride + k), alpha);
            float32x4x2_t t01 = vtrnq_f32(r0, r1), t23 = vtrnq_f32(r2, r3);
            vst1q_f32(to, vcombine_f32(vget_low_f32(t01.val[0]), vget_low_f32(t23.val[0])));
            vst1q_f32(to + ld, vcombine_f32(vget_low_f32(t01.val[1]), vget_low_f32(t23.val[1])));
            vst1q_f32(to + 2 * ld,
                      vcombine_f32(vget_high_f32(t01.val[0]), vget_high_f32(t23.val[0])));
            vst1q_f32(to + 3 * ld,
                      vcombine_f32(vget_high_f32(t01.val[1]), vget_high_f32(t23.val[1])));
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

static inline __attribute__((always_inline)) void dots_rows(
    uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw, float *out)
{
    float32x4_t s[3][4];
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            s[i][j] = vdupq_n_f32(0.0f);
        }
    }
    size_t p = 0;
    for (; p + 4 <= k; p += 4) {
        float32x4_t xi[3];
        for (uint32_t i = 0; i < rows; i++) {
            xi[i] = vld1q_f32(x + i * ldx + p);
        }
        for (uint32_t j = 0; j < 4; j++) {
            float32x4_t wj = vld1q_f32(w + j * ldw + p);
            for (uint32_t i = 0; i < rows; i++) {
                s[i][j] = vfmaq_f32(s[i][j], xi[i], wj);
            }
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            float sum = vaddvq_f32(s[i][j]);
            for (size_t q = p; q < k; q++) {
                sum += x[i * ldx + q] * w[j * ldw + q];
            }
            out[i * 4 + j] = sum;
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
    for (; j + 4 <= n; j += 4) {
        float32x4_t s = vld1q_f32(y + j);
        for (uint32_t i = 0; i < rows; i++) {
            s = vfmaq_n_f32(s, vld1q_f32(x + i * stride + j), coef[i]);
        }
        vst1q_f32(y + j, s);
    }
    for (; j < n; j++) {
        for (uint32_t i = 0; i < rows; i++) {
            y[j] += coef[i] * x[i * stride + j];
        }
    }
}

const struct uw_tile uw_tile_neon = {
    .mr = MR, .nr = NR, .mc = 96, .kc = 256, .nc = 240,
    .multiply = multiply,
    .pack_transposed = pack_transposed,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = dots,
    .add_rows = add_rows,
};
