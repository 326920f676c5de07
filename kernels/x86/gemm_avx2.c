/* SPDX-License-Identifier: Apache-2.0
 *
 * 6 x 16 sums in twelve of the sixteen registers: two hold a row of B, one a broadcast of A. */
#include "x86/x86.h"

#include <immintrin.h>

#define MR 6u
#define NR 16u
#define VEC_N 8u
#define STEP_ROWS 4u
#define EACH_ROWS ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5)

typedef __m256 vec;

static inline vec vec_all(float f)
{
    return _mm256_set1_ps(f);
}

static inline vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_mul_add(vec s, vec a, vec b)
{
    return _mm256_fmadd_ps(a, b, s);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_add_scaled(vec s, vec v, float f)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(f), v, s);
}

static inline float vec_sum(vec v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    h = _mm_add_ss(h, _mm_movehdup_ps(h));
    return _mm_cvtss_f32(h);
}

static inline void pack_4x4(float alpha, const float *src, size_t stride, float *dst, size_t ld)
{
    __m128 scale = _mm_set1_ps(alpha);
    __m128 r0 = _mm_mul_ps(scale, _mm_loadu_ps(src));
    __m128 r1 = _mm_mul_ps(scale, _mm_loadu_ps(src + stride));
    __m128 r2 = _mm_mul_ps(scale, _mm_loadu_ps(src + 2 * stride));
    __m128 r3 = _mm_mul_ps(scale, _mm_loadu_ps(src + 3 * stride));
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(dst, r0);
    _mm_storeu_ps(dst + ld, r1);
    _mm_storeu_ps(dst + 2 * ld, r2);
    _mm_storeu_ps(dst + 3 * ld, r3);
}

static inline void vec_copy(float *dst, const float *src, uint32_t n, float f)
{
    if (n == 8) {
        _mm256_storeu_ps(dst, _mm256_mul_ps(_mm256_set1_ps(f), _mm256_loadu_ps(src)));
        return;
    }
    uint32_t i = 0;
    if (n >= 4) {
        _mm_storeu_ps(dst, _mm_mul_ps(_mm_set1_ps(f), _mm_loadu_ps(src)));
        i = 4;
    }
    for (; i < n; i++) {
        dst[i] = f * src[i];
    }
}

static inline vec vec_load_runs(const float *p, const uint32_t *run, bool joined)
{
    (void)joined; /* a piece is a register */
    return _mm256_loadu_ps(p + run[0]);
}

#include "packed/vector_inline.h"
#include "packed/runs_inline.h"
#include "packed/small_inline.h"
#include "packed/step_inline.h"
#include "packed/winograd_inline.h"

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_rows(r, k, a, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_rows(MR, k, a, b, init, out, ldo, add); break;
    }
}

static void multiply_runs(uint32_t rows, uint32_t k, const float *a, const struct uw_runs *b,
                          const float *init, float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_runs_rows(r, true, k, a, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_runs_rows(MR, true, k, a, b, init, out, ldo, add); break;
    }
}

void uw_pack_transposed_avx2(uint32_t rows, uint32_t n, float alpha, const float *src,
                             size_t stride, float *dst, size_t ld)
{
    pack_transposed(rows, n, alpha, src, stride, dst, ld);
}

void uw_dots_avx2(uint32_t rows, size_t k, const float *x, size_t ldx, const float *w, size_t ldw,
                  float *out)
{
    dots(rows, k, x, ldx, w, ldw, out);
}

void uw_add_rows_avx2(uint32_t rows, size_t n, const float *coef, const float *x, size_t stride,
                      float *y)
{
    add_rows(rows, n, coef, x, stride, y);
}

void uw_step_rows_avx2(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                       const float *x, float *w, size_t stride, float *dx)
{
    size_t done = step_registers(rows, n, keep, dy, coef, x, w, stride, dx);
    step_rest(rows, done, n, keep, dy, coef, x, w, stride, dx);
}

const struct uw_small_ops uw_small_avx2 = {.lanes = VEC_N, .multiply = small_multiply};

const struct uw_tile uw_tile_avx2 = {
    .mr = MR, .nr = NR, .mc = 96, .kc = 256, .nc = 256,
    .multiply = multiply,
    .multiply_runs = multiply_runs,
    .pack_transposed = uw_pack_transposed_avx2,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = uw_dots_avx2,
    .add_rows = uw_add_rows_avx2,
    .step_rows = uw_step_rows_avx2,
    .small = &uw_small_avx2,
    .small_narrow = &uw_small_avx2,
    .winograd = &winograd,
};
