/* SPDX-License-Identifier: Apache-2.0
 *
 * Group norm has the reference's loops over rows, eight values at a time: the same eight double
 * lanes and roundings, hence the same bits. A product of two floats is exact in double, so the
 * fused multiply-add of projection_of rounds once, as the reference does.
 *
 * Batch norm computes mean and spread in one pass over a channel, as sums in double of differences
 * to the channel's first value. That value is within sqrt(n) deviations of the mean, so that the
 * cancellation error is far below a float's rounding. Its sums of gradients are in float over
 * BLOCK_N values, then in double. */
#include "x86/x86.h"

#include "ref/ref.h"

#include <immintrin.h>
#include <string.h>

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

/* A mask of the first n < 8 of eight elements. */
static inline __m256i first_of(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Store the first n < 8 floats. A masked store is slow on processors that do it in microcode. */
static inline void store_rest(float *dst, const float *rest, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dst[i] = rest[i];
    }
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
    if (i < n) { /* the unused lanes add 0 */
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

static void weighted_sums(size_t n, const float *x, const float *dy, const float *gamma,
                          const float *stats, double *a, double *b)
{
    const __m128 mean = _mm_set1_ps(stats[0]), second = _mm_set1_ps(stats[1]);
    __m256d plain = _mm256_setzero_pd(), projected = plain;
    for (size_t c = 0; c < n; c += 4) {
        float some[3][4] = {{0.0f}, {0.0f}, {1.0f, 1.0f, 1.0f, 1.0f}};
        const float *xs = x + c, *dys = dy + c, *gs = gamma != NULL ? gamma + c : some[2];
        if (n - c < 4) {                /* dy 0 adds nothing */
            memcpy(some[0], xs, (n - c) * sizeof *xs);
            memcpy(some[1], dys, (n - c) * sizeof *dys);
            memcpy(some[2], gs, (n - c) * sizeof *gs);
            xs = some[0], dys = some[1], gs = some[2];
        }
        __m128 xhat = _mm_mul_ps(_mm_sub_ps(_mm_loadu_ps(xs), mean), second);
        __m256d g = _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(gs)),
                                  _mm256_cvtps_pd(_mm_loadu_ps(dys)));
        plain = _mm256_add_pd(plain, g);
        projected = _mm256_add_pd(projected, _mm256_mul_pd(g, _mm256_cvtps_pd(xhat)));
    }
    double lane[2][4];
    _mm256_storeu_pd(lane[0], plain);
    _mm256_storeu_pd(lane[1], projected);
    *a = (lane[0][0] + lane[0][1]) + (lane[0][2] + lane[0][3]);
    *b = (lane[1][0] + lane[1][1]) + (lane[1][2] + lane[1][3]);
}

static inline __m256 normalized(__m256 x, const float *stats, float gamma, float beta)
{
    return _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(gamma), xhat_of(x, stats)),
                         _mm256_set1_ps(beta));
}

static void normalize(size_t n, const float *x, const float *stats, float gamma, float beta,
                      float *y)
{
    const float own[2] = {stats[0], stats[1]}; /* a copy: cannot alias y */
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

#define BLOCK_N 64u

/* Prefetch a row that is too far away for the hardware prefetcher. */
static inline void prefetch_row(const float *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T1);
}

static inline void add_lanes(struct lanes *s, __m256 x)
{
    struct lanes v = widen(x);
    s->lo = _mm256_add_pd(s->lo, v.lo);
    s->hi = _mm256_add_pd(s->hi, v.hi);
}

static inline __m256d square_add(__m256d s, __m256d d)
{
    return _mm256_fmadd_pd(d, d, s);
}

/* Sum and sum of squares of x - first. */
struct moments {
    struct lanes sum, square;
};

static inline void add_moments(struct moments *m, __m256 x, __m256d first)
{
    struct lanes d = widen(x);
    d.lo = _mm256_sub_pd(d.lo, first);
    d.hi = _mm256_sub_pd(d.hi, first);
    m->sum.lo = _mm256_add_pd(m->sum.lo, d.lo);
    m->sum.hi = _mm256_add_pd(m->sum.hi, d.hi);
    m->square.lo = square_add(m->square.lo, d.lo);
    m->square.hi = square_add(m->square.hi, d.hi);
}

static void moments_of(const struct norm_rows *r, const float *x, double *mean, double *spread)
{
    struct moments m = {no_lanes(), no_lanes()}, other = m;
    if (r->count == 0) {
        *mean = *spread = 0.0;
        return;
    }
    __m256 first = _mm256_broadcast_ss(x);
    __m256d wide = _mm256_set1_pd((double)x[0]);
    for (size_t s = 0; s < r->count; s++) {
        const float *row = x + s * r->stride;
        size_t i = 0;
        for (; i + 16 <= r->n; i += 16) {
            prefetch_row(row + r->ahead + i);
            add_moments(&m, _mm256_loadu_ps(row + i), wide);
            add_moments(&other, _mm256_loadu_ps(row + i + 8), wide);
        }
        if (i + 8 <= r->n) {
            add_moments(&m, _mm256_loadu_ps(row + i), wide);
            i += 8;
        }
        if (i < r->n) { /* in unused lanes the difference is 0 */
            __m256i keep = first_of(r->n - i);
            __m256 v = _mm256_maskload_ps(row + i, keep);
            add_moments(&other, _mm256_blendv_ps(first, v, _mm256_castsi256_ps(keep)), wide);
        }
    }
    double n = (double)r->count * (double)r->n;
    double sum = total(m.sum) + total(other.sum);
    double square = total(m.square) + total(other.square);
    *mean = (double)x[0] + sum / n;
    *spread = square - sum * (sum / n);
    *spread = *spread < 0.0 ? 0.0 : *spread; /* NaN stays */
}

/* A channel's parameters, each in all lanes. */
struct channel {
    __m256 mean, second, gamma, beta, ceiling;
};

static inline struct channel spread_out(const struct norm_channel *c)
{
    return (struct channel){_mm256_set1_ps(c->mean), _mm256_set1_ps(c->second),
                            _mm256_set1_ps(c->gamma), _mm256_set1_ps(c->beta),
                            _mm256_set1_ps(c->ceiling)};
}

static inline __m256 value_of(const struct channel *c, __m256 xhat)
{
    return _mm256_add_ps(_mm256_mul_ps(c->gamma, xhat), c->beta);
}

static inline __m256 centred(const struct channel *c, __m256 x)
{
    return _mm256_mul_ps(_mm256_sub_ps(x, c->mean), c->second);
}

/* dy after the backward pass of the ReLU. */
static inline __attribute__((always_inline)) __m256 passed(const struct channel *c, bool cut,
                                                           __m256 xhat, __m256 dy)
{
    if (!cut) {
        return dy;
    }
    __m256 v = value_of(c, xhat);
    __m256 open = _mm256_and_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ),
                                _mm256_cmp_ps(v, c->ceiling, _CMP_LT_OQ));
    return _mm256_and_ps(open, dy);
}

static inline __attribute__((always_inline)) void add_gradient(
    const struct channel *c, bool cut, __m256 x, __m256 dy, __m256 *plain, __m256 *projected)
{
    __m256 xhat = centred(c, x), d = passed(c, cut, xhat, dy);
    *plain = _mm256_add_ps(*plain, d);
    *projected = _mm256_fmadd_ps(d, xhat, *projected);
}

static inline __attribute__((always_inline)) void project_of(
    bool cut, const struct norm_rows *r, const float *x, const float *dy,
    const struct norm_channel *of, double *plain, double *projected)
{
    const struct channel c = spread_out(of);
    struct lanes sum = no_lanes(), product = sum;
    for (size_t s = 0; s < r->count; s++, x += r->stride, dy += r->stride) {
        for (size_t at = 0; at < r->n; at += BLOCK_N) {
            size_t i = at, end = r->n - at < BLOCK_N ? r->n : at + BLOCK_N;
            __m256 p0 = _mm256_setzero_ps(), p1 = p0, q0 = p0, q1 = p0;
            for (; i + 16 <= end; i += 16) {
                prefetch_row(x + r->ahead + i);
                prefetch_row(dy + r->ahead + i);
                add_gradient(&c, cut, _mm256_loadu_ps(x + i), _mm256_loadu_ps(dy + i), &p0, &q0);
                add_gradient(&c, cut, _mm256_loadu_ps(x + i + 8), _mm256_loadu_ps(dy + i + 8),
                             &p1, &q1);
            }
            if (i + 8 <= end) {
                add_gradient(&c, cut, _mm256_loadu_ps(x + i), _mm256_loadu_ps(dy + i), &p0, &q0);
                i += 8;
            }
            if (i < end) { /* unused lanes: x is the mean, dy 0 */
                __m256i keep = first_of(end - i);
                __m256 v = _mm256_blendv_ps(c.mean, _mm256_maskload_ps(x + i, keep),
                                            _mm256_castsi256_ps(keep));
                add_gradient(&c, cut, v, _mm256_maskload_ps(dy + i, keep), &p1, &q1);
            }
            add_lanes(&sum, _mm256_add_ps(p0, p1));
            add_lanes(&product, _mm256_add_ps(q0, q1));
        }
    }
    *plain = total(sum);
    *projected = total(product);
}

static void project(const struct norm_rows *r, const float *x, const float *dy,
                    const struct norm_channel *c, double *plain, double *projected)
{
    if (c->ceiling > 0.0f) {
        project_of(true, r, x, dy, c, plain, projected);
    } else {
        project_of(false, r, x, dy, c, plain, projected);
    }
}

static inline __attribute__((always_inline)) __m256 output_of(const struct channel *c, bool cut,
                                                              __m256 x)
{
    __m256 v = value_of(c, centred(c, x));
    if (cut) { /* if an operand is NaN, max and min return the second */
        v = _mm256_min_ps(c->ceiling, _mm256_max_ps(_mm256_setzero_ps(), v));
    }
    return v;
}

static inline __attribute__((always_inline)) void normalize_rows_of(
    bool cut, const struct norm_rows *r, const float *x, const struct norm_channel *of, float *y)
{
    const struct channel c = spread_out(of);
    for (size_t s = 0; s < r->count; s++, x += r->stride, y += r->stride) {
        size_t i = 0;
        for (; i + 16 <= r->n; i += 16) {
            prefetch_row(y + r->ahead + i);
            _mm256_storeu_ps(y + i, output_of(&c, cut, _mm256_loadu_ps(x + i)));
            _mm256_storeu_ps(y + i + 8, output_of(&c, cut, _mm256_loadu_ps(x + i + 8)));
        }
        if (i + 8 <= r->n) {
            _mm256_storeu_ps(y + i, output_of(&c, cut, _mm256_loadu_ps(x + i)));
            i += 8;
        }
        if (i < r->n) {
            float rest[8];
            __m256 v = _mm256_maskload_ps(x + i, first_of(r->n - i));
            _mm256_storeu_ps(rest, output_of(&c, cut, v));
            store_rest(y + i, rest, r->n - i);
        }
    }
}

static void normalize_rows(const struct norm_rows *r, const float *x,
                           const struct norm_channel *c, float *y)
{
    if (c->ceiling > 0.0f) {
        normalize_rows_of(true, r, x, c, y);
    } else {
        normalize_rows_of(false, r, x, c, y);
    }
}

struct step {
    __m256 a, b;
};

static inline __attribute__((always_inline)) __m256 gradient_of(
    const struct channel *c, const struct step *s, bool cut, __m256 x, __m256 dy)
{
    __m256 xhat = centred(c, x);
    __m256 d = _mm256_sub_ps(_mm256_mul_ps(c->gamma, passed(c, cut, xhat, dy)), s->a);
    return _mm256_mul_ps(c->second, _mm256_sub_ps(d, _mm256_mul_ps(xhat, s->b)));
}

/* 0 in lanes where all d so far were finite, else NaN. */
static inline __m256 not_finite(__m256 so_far, __m256 d)
{
    return _mm256_fmadd_ps(d, _mm256_setzero_ps(), so_far);
}

static inline __attribute__((always_inline)) bool denormalize_rows_of(
    bool cut, bool add, const struct norm_rows *r, const float *x, const float *dy,
    const struct norm_channel *of, float a, float b, float *dx)
{
    const struct channel c = spread_out(of);
    const struct step s = {_mm256_set1_ps(a), _mm256_set1_ps(b)};
    __m256 bad = _mm256_setzero_ps();
    for (size_t k = 0; k < r->count; k++, x += r->stride, dy += r->stride, dx += r->stride) {
        size_t i = 0;
        for (; i + 8 <= r->n; i += 8) {
            __m256 d = gradient_of(&c, &s, cut, _mm256_loadu_ps(x + i), _mm256_loadu_ps(dy + i));
            d = add ? _mm256_add_ps(_mm256_loadu_ps(dx + i), d) : d;
            bad = not_finite(bad, d);
            _mm256_storeu_ps(dx + i, d);
        }
        if (i < r->n) {
            float rest[8];
            __m256i keep = first_of(r->n - i);
            __m256 d = gradient_of(&c, &s, cut, _mm256_maskload_ps(x + i, keep),
                                   _mm256_maskload_ps(dy + i, keep));
            d = add ? _mm256_add_ps(_mm256_maskload_ps(dx + i, keep), d) : d;
            bad = not_finite(bad, _mm256_and_ps(_mm256_castsi256_ps(keep), d));
            _mm256_storeu_ps(rest, d);
            store_rest(dx + i, rest, r->n - i);
        }
    }
    return _mm256_movemask_ps(_mm256_cmp_ps(bad, bad, _CMP_UNORD_Q)) == 0;
}

static bool denormalize_rows(const struct norm_rows *r, const float *x, const float *dy,
                             const struct norm_channel *c, float a, float b, float *dx,
                             bool accumulate)
{
    switch ((c->ceiling > 0.0f ? 2 : 0) + (accumulate ? 1 : 0)) {
    case 0: return denormalize_rows_of(false, false, r, x, dy, c, a, b, dx);
    case 1: return denormalize_rows_of(false, true, r, x, dy, c, a, b, dx);
    case 2: return denormalize_rows_of(true, false, r, x, dy, c, a, b, dx);
    default: return denormalize_rows_of(true, true, r, x, dy, c, a, b, dx);
    }
}

#include "ref/norm_inline.h"

#include "ref/groupnorm_inline.h"

static inline float root(float x)
{
    return __builtin_sqrtf(x);
}

#include "ref/lrn_inline.h"

const struct uw_norm_kernels uw_norm_avx2 = {NORM_ENTRIES};
