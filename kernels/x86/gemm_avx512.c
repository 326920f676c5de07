/* SPDX-License-Identifier: Apache-2.0
 *
 * 14 x 32 sums in twenty-eight of the thirty-two registers; two hold a row of B, and A is
 * broadcast from memory inside the multiply-add. The rest is AVX2's. */
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

/* What is left of a row rounds as in AVX2's add_rows. */
static void step_rows(uint32_t rows, size_t n, float keep, const float *dy, const float *coef,
                      const float *x, float *w, size_t stride, float *dx)
{
    size_t done = step_registers(rows, n, keep, dy, coef, x, w, stride, dx);
    uw_step_rows_avx2(rows, n - done, keep, dy, coef, x + done, w + done, stride,
                      dx != NULL ? dx + done : NULL);
}

static const struct uw_small_ops small = {.lanes = VEC_N, .multiply = small_multiply};

const struct uw_tile uw_tile_avx512 = {
    .mr = MR, .nr = NR, .mc = 98, .kc = 256, .nc = 256,
    .multiply = multiply,
    .multiply_runs = multiply_runs,
    .pack_transposed = uw_pack_transposed_avx2,
    .pack_copy = pack_copy,
    .pack_runs = pack_runs,
    .dots = uw_dots_avx2,
    .add_rows = uw_add_rows_avx2,
    .step_rows = step_rows,
    .small = &small,
    .small_narrow = &uw_small_avx2,
    .winograd = &winograd,
};
