/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference's loops over rows, eight values at a time: the same eight double lanes and the
 * same roundings, hence the same bits. A product of two floats is exact in double, so the fused
 * multiply-add of projection_of rounds once, as the reference does. */
#include "x86/x86.h"

#include <immintrin.h>

/* Eight lanes of double: values 0..3 and 4..7 of a vector. */
struct lanes {
    __m256d lo, hi;
};

static inline struct lanes no_lanes(void)
{
    return (struct lanes){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

static inline struct lanes widen(__m256 x)
{
    return (struct lanes){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                          _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

/* The first n < 8 of eight elements. */
static inline __m256i first_of(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline double total(struct lanes s)
{
    double lane[8];
    _mm256_storeu_pd(lane, s.lo);
    _mm256_storeu_pd(lane + 4, s.hi);
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double sum_of(size_t n, const float *x)
{
    struct lanes s = no_lanes();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        struct lanes v = widen(_mm256_loadu_ps(x + i));
        s.lo = _mm256_add_pd(s.lo, v.lo);
        s.hi = _mm256_add_pd(s.hi, v.hi);
    }
    if (i < n) { /* the lanes that are left out add 0 */
        struct lanes v = widen(_mm256_maskload_ps(x + i, first_of(n - i)));
        s.lo = _mm256_add_pd(s.lo, v.lo);
        s.hi = _mm256_add_pd(s.hi, v.hi);
    }
    return total(s);
}

static inline void add_squares(struct lanes *s, __m256 x, __m256d mean, __m256i keep)
{
    struct lanes d = widen(x);
    __m256d lo = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(keep)));
    __m256d hi = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(keep, 1)));
    d.lo = _mm256_and_pd(lo, _mm256_sub_pd(d.lo, mean));
    d.hi = _mm256_and_pd(hi, _mm256_sub_pd(d.hi, mean));
    s->lo = _mm256_add_pd(s->lo, _mm256_mul_pd(d.lo, d.lo));
    s->hi = _mm256_add_pd(s->hi, _mm256_mul_pd(d.hi, d.hi));
}

static double spread_of(size_t n, const float *x, double mean)
{
    struct lanes s = no_lanes();
    __m256d m = _mm256_set1_pd(mean);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        add_squares(&s, _mm256_loadu_ps(x + i), m, _mm256_set1_epi32(-1));
    }
    if (i < n) {
        __m256i keep = first_of(n - i);
        add_squares(&s, _mm256_maskload_ps(x + i, keep), m, keep);
    }
    return total(s);
}

static inline __m256 xhat_of(__m256 x, const float *stats)
{
    return _mm256_mul_ps(_mm256_sub_ps(x, _mm256_set1_ps(stats[0])), _mm256_set1_ps(stats[1]));
}

static inline void add_products(struct lanes *s, __m256 x, __m256 dy)
{
    struct lanes a = widen(x), b = widen(dy);
    s->lo = _mm256_fmadd_pd(a.lo, b.lo, s->lo);
    s->hi = _mm256_fmadd_pd(a.hi, b.hi, s->hi);
}

static double projection_of(size_t n, const float *x, const float *dy, const float *stats)
{
    struct lanes s = no_lanes();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        add_products(&s, xhat_of(_mm256_loadu_ps(x + i), stats), _mm256_loadu_ps(dy + i));
    }
    if (i < n) {
        __m256i keep = first_of(n - i);
        __m256 xhat = xhat_of(_mm256_maskload_ps(x + i, keep), stats);
        add_products(&s, _mm256_and_ps(_mm256_castsi256_ps(keep), xhat),
                     _mm256_maskload_ps(dy + i, keep));
    }
    return total(s);
}

static inline __m256 normalized(__m256 x, const float *stats, float gamma, float beta)
{
    return _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(gamma), xhat_of(x, stats)),
                         _mm256_set1_ps(beta));
}

static void normalize(size_t n, const float *x, const float *stats, float gamma, float beta,
                      float *y)
{
    const float own[2] = {stats[0], stats[1]}; /* no part of y */
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, normalized(_mm256_loadu_ps(x + i), own, gamma, beta));
    }
    for (; i < n; i++) {
        y[i] = gamma * ((x[i] - own[0]) * own[1]) + beta;
    }
}

struct slope {
    const float *stats;
    float gamma, a, b;
};

static inline __m256 denormalized(__m256 x, __m256 dy, const struct slope *s)
{
    __m256 d = _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(s->gamma), dy), _mm256_set1_ps(s->a));
    d = _mm256_sub_ps(d, _mm256_mul_ps(xhat_of(x, s->stats), _mm256_set1_ps(s->b)));
    return _mm256_mul_ps(_mm256_set1_ps(s->stats[1]), d);
}

static void denormalize(size_t n, const float *x, const float *stats, const float *dy, float gamma,
                        float a, float b, float *dx, bool accumulate)
{
    const float own[2] = {stats[0], stats[1]};
    const struct slope s = {own, gamma, a, b};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 d = denormalized(_mm256_loadu_ps(x + i), _mm256_loadu_ps(dy + i), &s);
        d = accumulate ? _mm256_add_ps(_mm256_loadu_ps(dx + i), d) : d;
        _mm256_storeu_ps(dx + i, d);
    }
    for (; i < n; i++) {
        float xhat = (x[i] - own[0]) * own[1];
        float d = own[1] * (gamma * dy[i] - a - xhat * b);
        dx[i] = accumulate ? dx[i] + d : d;
    }
}

#include "ref/norm_inline.h"

#include "ref/groupnorm_inline.h"

static inline float root(float x)
{
    return __builtin_sqrtf(x);
}

#include "ref/lrn_inline.h"

const struct uw_norm_kernels uw_norm_avx2 = {
    .groupnorm_fw = groupnorm_fw,
    .groupnorm_bw_input = groupnorm_bw_input,
    .groupnorm_bw_param = groupnorm_bw_param,
    .batchnorm_stats = batchnorm_stats,
    .batchnorm_running = uw_batchnorm_running_ref,
    .batchnorm_fw = batchnorm_fw,
    .batchnorm_bw_sums = batchnorm_bw_sums,
    .batchnorm_bw_input = batchnorm_bw_input,
    .lrn_fw = lrn_fw,
    .lrn_bw_input = lrn_bw_input,
    .lrn_scratch_bytes = lrn_scratch_bytes,
};
