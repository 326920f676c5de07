/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile of 6 x 16: accumulators in twelve of the sixteen registers, two for a row of B, one
 * for a broadcast element of A. */
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
    if (n >= 4) { /* two halves that may overlap */
        _mm_storeu_ps(dst, _mm_mul_ps(_mm_set1_ps(f), _mm_loadu_ps(src)));
        _mm_storeu_ps(dst + n - 4, _mm_mul_ps(_mm_set1_ps(f), _mm_loadu_ps(src + n - 4)));
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        dst[i] = f * src[i];
    }
}

static inline vec vec_load_runs(const float *p, const uint32_t *run, bool joined)
{
    (void)joined; /* a piece is a register */
    return _mm256_loadu_ps(p + run[0]);
}

static inline vec vec_evens(vec a, vec b)
{
    __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)); /* of a, b, a, b */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

static inline vec vec_odds(vec a, vec b)
{
    __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

static inline void vec_zip(vec a, vec b, vec *lo, vec *hi)
{
    vec l = _mm256_unpacklo_ps(a, b), h = _mm256_unpackhi_ps(a, b);
    *lo = _mm256_permute2f128_ps(l, h, 0x20);
    *hi = _mm256_permute2f128_ps(l, h, 0x31);
}

#include "packed/vector_inline.h"
static inline void split_4(const float *src, float *even, float *odd)
{
    __m128 a = _mm_loadu_ps(src), b = _mm_loadu_ps(src + 4);
    _mm_storeu_ps(even, _mm_shuffle_ps(a, b, 0x88));
    _mm_storeu_ps(odd, _mm_shuffle_ps(a, b, 0xdd));
}

static inline void join_4(const float *even, const float *odd, float *dst)
{
    __m128 a = _mm_loadu_ps(even), b = _mm_loadu_ps(odd);
    _mm_storeu_ps(dst, _mm_unpacklo_ps(a, b));
    _mm_storeu_ps(dst + 4, _mm_unpackhi_ps(a, b));
}

#define PLANES_OPS const struct uw_planes_ops uw_planes_avx2
#include "packed/planes_inline.h"
#include "packed/runs_inline.h"
#include "packed/small_inline.h"
#include "packed/step_inline.h"
#include "packed/winograd_inline.h"

static void multiply_stored(uint32_t rows, uint32_t k, const float *a, size_t step, const float *b,
                            const float *init, float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_stored_rows(r, k, a, step, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_stored_rows(MR, k, a, step, b, init, out, ldo, add); break;
    }
}

static void multiply(uint32_t rows, uint32_t k, const float *a, const float *b, const float *init,
                     float *out, size_t ldo, bool add)
{
    multiply_stored(rows, k, a, MR, b, init, out, ldo, add);
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

static inline void pack_8x8(__m256 scale, const float *src, size_t stride, float *dst, size_t ld)
{
    __m256 r[8], t[8];
    UNROLLED (uint32_t i = 0; i < 8; i++) {
        r[i] = _mm256_mul_ps(scale, _mm256_loadu_ps(src + i * stride));
    }
    UNROLLED (uint32_t i = 0; i < 8; i += 2) { /* pairs of rows */
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLLED (uint32_t i = 0; i < 8; i += 4) { /* columns 0, 1, 2, 3 and 4, 5, 6, 7 of four rows */
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLLED (uint32_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Eight rows, n >= 8. Prefetches the next eight, which are far apart and probably needed next. */
static void pack_transposed_8(uint32_t n, float alpha, const float *src, size_t stride, float *dst,
                              size_t ld)
{
    __m256 scale = _mm256_set1_ps(alpha);
    for (uint32_t k = 0; k + 8 <= n; k += 8) {
        const float *behind = src + (k % 16 == 0 ? 8 : 12) * stride + k;
        UNROLLED (uint32_t i = 0; i < 4; i++) { /* half of the rows each time */
            _mm_prefetch((const char *)(behind + i * stride), _MM_HINT_T0);
        }
        pack_8x8(scale, src + k, stride, dst + k * ld, ld);
    }
    if (n % 8 != 0) {
        pack_8x8(scale, src + n - 8, stride, dst + (n - 8) * ld, ld);
    }
}

void uw_pack_transposed_avx2(uint32_t rows, uint32_t n, float alpha, const float *src,
                             size_t stride, float *dst, size_t ld)
{
    if (rows < 8 || n < 8) {
        pack_transposed(rows, n, alpha, src, stride, dst, ld);
        return;
    }
    for (uint32_t i = 0; i + 8 <= rows; i += 8) {
        pack_transposed_8(n, alpha, src + i * stride, stride, dst + i, ld);
    }
    if (rows % 8 != 0) { /* the last eight rows overlap those before */
        pack_transposed_8(n, alpha, src + (rows - 8) * stride, stride, dst + rows - 8, ld);
    }
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
                       const float *x, float *const *w, float *dx)
{
    size_t done = step_registers(rows, n, keep, dy, coef, x, w, dx);
    step_rest(rows, done, n, keep, dy, coef, x, w, dx);
}

static void find_terms(uint32_t n, const float *src, float scale, uint32_t at, uint32_t step,
                       struct uw_small_terms *t)
{
    uint32_t i = 0, count = t->n;
    for (; i + VEC_N <= n; i += VEC_N) {
        __m256 some = _mm256_cmp_ps(_mm256_loadu_ps(src + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
        for (uint32_t m = (uint32_t)_mm256_movemask_ps(some); m != 0; m &= m - 1, count++) {
            uint32_t k = i + (uint32_t)__builtin_ctz(m);
            t->value[count] = scale * src[k];
            t->at[count] = at + k * step;
        }
    }
    for (; i < n; i++) {
        t->value[count] = scale * src[i];
        t->at[count] = at + i * step;
        count += src[i] != 0.0f ? 1 : 0;
    }
    t->n = count;
}

const struct uw_small_ops uw_small_avx2 = {.lanes = VEC_N,
                                           .multiply = small_multiply,
                                           .add_terms = small_add_terms,
                                           .find_terms = find_terms};

const struct uw_tile uw_tile_avx2 = {
    .mr = MR, .nr = NR, .mc = 96, .kc = 256, .nc = 256, .matrix_kc = 512, .matrix_nc = 512,
    .multiply = multiply,
    .multiply_stored = multiply_stored,
    .multiply_add = multiply_add,
    .multiply_runs = multiply_runs,
    .pack_transposed = uw_pack_transposed_avx2,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = uw_dots_avx2,
    .add_rows = uw_add_rows_avx2,
    .planes = &uw_planes_avx2,
    .step_rows = uw_step_rows_avx2,
    .small = &uw_small_avx2,
    .small_narrow = &uw_small_avx2,
    .norm = &uw_norm_ops_avx2,
    .winograd = &winograd,
};
