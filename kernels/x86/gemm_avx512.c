/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile of 14 x 32: accumulators in twenty-eight of the thirty-two registers, two for a row
 * of B; elements of A are broadcast from memory by the multiply-add. Other entries are AVX2's. */
#include "x86/x86.h"

#include <immintrin.h>

#define MR 14u
#define NR 32u
#define VEC_N 16u
#define STEP_ROWS 8u
#define EACH_ROWS                                                                                 \
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)                                       \
    ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13)

typedef __m512 vec;

static inline vec vec_all(float f)
{
    return _mm512_set1_ps(f);
}

static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_mul_add(vec s, vec a, vec b)
{
    return _mm512_fmadd_ps(a, b, s);
}

static inline vec vec_add_scaled(vec s, vec v, float f)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(f), v, s);
}

static inline void vec_copy(float *dst, const float *src, uint32_t n, float f)
{
    if (n == VEC_N) {
        _mm512_storeu_ps(dst, _mm512_mul_ps(_mm512_set1_ps(f), _mm512_loadu_ps(src)));
        return;
    }
    if (n >= 8) { /* two halves that overlap */
        _mm256_storeu_ps(dst, _mm256_mul_ps(_mm256_set1_ps(f), _mm256_loadu_ps(src)));
        _mm256_storeu_ps(dst + n - 8,
                         _mm256_mul_ps(_mm256_set1_ps(f), _mm256_loadu_ps(src + n - 8)));
        return;
    }
    const __mmask16 mask = (__mmask16)(0xffffu >> (VEC_N - n));
    __m512 v = _mm512_mul_ps(_mm512_set1_ps(f), _mm512_maskz_loadu_ps(mask, src));
    _mm512_mask_storeu_ps(dst, mask, v);
}

static inline vec vec_load_runs(const float *p, const uint32_t *run, bool joined)
{
    if (joined) {
        return _mm512_loadu_ps(p + run[0]);
    }
    __m512d lo = _mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(p + run[0])));
    __m256d hi = _mm256_castps_pd(_mm256_loadu_ps(p + run[1]));
    return _mm512_castpd_ps(_mm512_insertf64x4(lo, hi, 1));
}

#include "packed/tile_inline.h"
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

static void multiply_joined(uint32_t rows, uint32_t k, const float *a, const struct uw_runs *b,
                            const float *init, float *out, size_t ldo, bool add)
{
    switch (rows) {
#define ROWS(r) case r: multiply_runs_rows(r, true, k, a, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_runs_rows(MR, true, k, a, b, init, out, ldo, add); break;
    }
}

static void multiply_runs(uint32_t rows, uint32_t k, const float *a, const struct uw_runs *b,
                          const float *init, float *out, size_t ldo, bool add)
{
    if (b->run[1] == b->run[0] + 8 && b->run[3] == b->run[2] + 8) {
        multiply_joined(rows, k, a, b, init, out, ldo, add);
        return;
    }
    switch (rows) {
#define ROWS(r) case r: multiply_runs_rows(r, false, k, a, b, init, out, ldo, add); break;
    EACH_ROWS
#undef ROWS
    default: multiply_runs_rows(MR, false, k, a, b, init, out, ldo, add); break;
    }
}

/* A 4 x 4 transpose in each 128-bit lane: element 4l + i of row j goes to 4l + j of row i. */
static inline __attribute__((always_inline)) void transpose_4x4(__m512 *r)
{
    __m512d lo01 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
    __m512d hi01 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
    __m512d lo23 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
    __m512d hi23 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
    r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo01, lo23));
    r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo01, lo23));
    r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(hi01, hi23));
    r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(hi01, hi23));
}

/* A 4 x 4 transpose of whole 128-bit lanes. */
static inline __attribute__((always_inline)) void transpose_blocks(__m512 *a, __m512 *b,
                                                                   __m512 *c, __m512 *d)
{
    __m512 ab_even = _mm512_shuffle_f32x4(*a, *b, 0x88);
    __m512 ab_odd = _mm512_shuffle_f32x4(*a, *b, 0xdd);
    __m512 cd_even = _mm512_shuffle_f32x4(*c, *d, 0x88);
    __m512 cd_odd = _mm512_shuffle_f32x4(*c, *d, 0xdd);
    *a = _mm512_shuffle_f32x4(ab_even, cd_even, 0x88);
    *b = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88);
    *c = _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
    *d = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
}

/* pack_transposed for 13 to 16 rows and n, a multiple of 16. Reads whole cache lines of each row,
 * because rows a power of two apart evict each other. Stores all sixteen elements where the next
 * step overwrites the excess ones. */
static void pack_rows(uint32_t rows, uint32_t n, float alpha, const float *src, size_t stride,
                      float *dst, size_t ld)
{
    const __mmask16 mask = (__mmask16)(0xffffu >> (VEC_N - rows));
    const __m512 scale = _mm512_set1_ps(alpha);
    for (uint32_t k = 0; k < n; k += VEC_N) {
        __m512 r[VEC_N];
        UNROLLED (uint32_t i = 0; i < VEC_N; i++) {
            const float *at = src + (i < rows ? i : 0) * stride + k;
            _mm_prefetch((const char *)(at + 4 * VEC_N), _MM_HINT_T0);
            r[i] = _mm512_mul_ps(scale, _mm512_loadu_ps(at));
        }
        UNROLLED (uint32_t i = 0; i < VEC_N; i += 4) {
            transpose_4x4(r + i);
        }
        UNROLLED (uint32_t i = 0; i < 4; i++) {
            transpose_blocks(r + i, r + 4 + i, r + 8 + i, r + 12 + i);
        }
        UNROLLED (uint32_t i = 0; i < VEC_N; i++) {
            if (i + 1 < VEC_N || (k + VEC_N < n && ld <= VEC_N)) {
                _mm512_storeu_ps(dst + i * ld, r[i]);
            } else {
                _mm512_mask_storeu_ps(dst + i * ld, mask, r[i]);
            }
        }
        dst += VEC_N * ld;
    }
}

static void pack_transposed(uint32_t rows, uint32_t n, float alpha, const float *src,
                            size_t stride, float *dst, size_t ld)
{
    uint32_t whole = n / VEC_N * VEC_N;
    for (; rows > 12 && (rows >= VEC_N || ld == MR); rows -= rows < VEC_N ? rows : VEC_N) {
        uint32_t here = rows < VEC_N ? rows : VEC_N;
        pack_rows(here, whole, alpha, src, stride, dst, ld);
        uw_pack_transposed_avx2(here, n - whole, alpha, src + whole, stride, dst + whole * ld, ld);
        src += here * stride;
        dst += here;
    }
    uw_pack_transposed_avx2(rows, n, alpha, src, stride, dst, ld);
}

/* The tail of a row rounds as in AVX2's add_rows. */
static void step_rows(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                      const float *x, float *const *w, float *dx)
{
    size_t done = step_registers(rows, n, keep, dy, coef, x, w, dx);
    float *rest[UW_TILE_STEP_ROWS];
    if (done == n) {
        return;
    }
    for (uint32_t i = 0; i < rows; i++) {
        rest[i] = w[i] + done;
    }
    uw_step_rows_avx2(rows, n - done, keep, dy, coef, x + done, rest,
                      dx != NULL ? dx + done : NULL);
}

static void find_terms(uint32_t n, const float *src, float scale, uint32_t at, uint32_t step,
                       struct uw_small_terms *t)
{
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i further = _mm512_set1_epi32((int)(VEC_N * step));
    __m512i where = _mm512_add_epi32(_mm512_set1_epi32((int)at),
                                     _mm512_mullo_epi32(first, _mm512_set1_epi32((int)step)));
    uint32_t count = t->n;
    for (uint32_t i = 0; i < n; i += VEC_N) {
        const __mmask16 there = (__mmask16)(n - i < VEC_N ? 0xffffu >> (VEC_N - (n - i)) : 0xffffu);
        __m512 v = _mm512_maskz_loadu_ps(there, src + i);
        __mmask16 some = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        v = _mm512_mul_ps(v, _mm512_set1_ps(scale));
        _mm512_storeu_ps(t->value + count, _mm512_maskz_compress_ps(some, v));
        _mm512_storeu_si512(t->at + count, _mm512_maskz_compress_epi32(some, where));
        count += (uint32_t)__builtin_popcount(some);
        where = _mm512_add_epi32(where, further);
    }
    t->n = count;
}

static const struct uw_small_ops small = {.lanes = VEC_N,
                                          .multiply = small_multiply,
                                          .add_terms = small_add_terms,
                                          .find_terms = find_terms};

const struct uw_tile uw_tile_avx512 = {
    .mr = MR, .nr = NR, .mc = 98, .kc = 256, .nc = 256, .matrix_kc = 512, .matrix_nc = 512,
    .multiply = multiply,
    .multiply_stored = multiply_stored,
    .multiply_add = multiply_add,
    .multiply_runs = multiply_runs,
    .pack_transposed = pack_transposed,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = uw_dots_avx2,
    .add_rows = uw_add_rows_avx2,
    .planes = &uw_planes_avx2,
    .step_rows = step_rows,
    .small = &small,
    .small_narrow = &uw_small_avx2,
    .norm = &uw_norm_ops_avx2,
    .winograd = &winograd,
};
