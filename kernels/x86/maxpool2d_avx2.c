/* SPDX-License-Identifier: Apache-2.0
 *
 * Max pooling, eight windows at a time: 2 x 2 with stride 2, and any window with a column stride of
 * 1 or 2. Windows at the edges, and other strides, use the reference one by one. A task is some
 * planes. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define WORK 8.0        /* time of a pixel, in multiply-adds */

struct job {
    const struct uw_pool2d *p;
    const float *x, *dy;
    float *y, *dx;
    uint8_t *winner;
    const uint8_t *won;
    /* Row oh of one plane's windows, x the plane. */
    void (*row)(const struct uw_pool2d *p, const float *x, uint32_t oh, float *y, uint8_t *winner);
    size_t planes;
    uint32_t planes_per_task;
    bool accumulate;
};

static bool is_halving(const struct uw_pool2d *p)
{
    return p->kernel_h == 2 && p->kernel_w == 2 && p->stride_h == 2 && p->stride_w == 2 &&
           p->pad_h == 0 && p->pad_w == 0 && p->in_h >= 2 * p->out_h && p->in_w >= 2 * p->out_w;
}

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j)
{
    size_t plane = (size_t)j->p->in_h * j->p->in_w;
    j->planes_per_task = plane == 0 || plane >= 16384 ? 1 : (uint32_t)(16384 / plane);
    double pixels = (double)j->planes * (double)plane;
    uw_workers_run(uw_workers_for(e->workers, pixels * WORK, pixels * 6.0), fn, j,
                   (uint32_t)((j->planes + j->planes_per_task - 1) / j->planes_per_task));
}

/* Set best and won to v and its tap where v is greater, or NaN while best is not NaN. */
static inline void challenge(__m256 v, int tap, __m256 *best, __m256i *won)
{
    __m256 not_below = _mm256_cmp_ps(v, *best, _CMP_NLE_UQ);
    __m256 beats = _mm256_and_ps(not_below, _mm256_cmp_ps(*best, *best, _CMP_ORD_Q));
    *best = _mm256_blendv_ps(*best, v, beats);
    *won = _mm256_blendv_epi8(*won, _mm256_set1_epi32(tap), _mm256_castps_si256(beats));
}

/* Split sixteen elements into even and odd ones. */
static inline void split(__m256 lo, __m256 hi, __m256 *even, __m256 *odd)
{
    __m256 e = _mm256_shuffle_ps(lo, hi, 0x88), o = _mm256_shuffle_ps(lo, hi, 0xdd);
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(o), 0xd8));
}

static inline void load_split(const float *x, __m256 *even, __m256 *odd)
{
    split(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), even, odd);
}

/* The inverse of split. */
static inline void join(__m256 even, __m256 odd, __m256 *lo, __m256 *hi)
{
    __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    *lo = _mm256_permute2f128_ps(a, b, 0x20);
    *hi = _mm256_permute2f128_ps(a, b, 0x31);
}

/* A mask of the first n of eight lanes. */
static inline __m256i first_lanes(uint32_t n)
{
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - n));
}

/* Store the first n lanes. Masked stores are slow on some processors. */
static inline void store_first(float *to, __m256 v, uint32_t n)
{
    if (n >= 8) {
        _mm256_storeu_ps(to, v);
        return;
    }
    __m128 q = _mm256_castps256_ps128(v);
    if ((n & 4u) != 0) {
        _mm_storeu_ps(to, q);
        q = _mm256_extractf128_ps(v, 1);
        to += 4;
    }
    if ((n & 2u) != 0) {
        _mm_storel_pi((__m64 *)(void *)to, q);
        q = _mm_movehl_ps(q, q);
        to += 2;
    }
    if ((n & 1u) != 0) {
        _mm_store_ss(to, q);
    }
}

/* Lanes of two registers of x that fewer than eight 2 x 2 windows use. */
static inline uint32_t lo_lanes(uint32_t windows)
{
    return windows < 4 ? 2 * windows : 8;
}

static inline uint32_t hi_lanes(uint32_t windows)
{
    return windows < 4 ? 0 : 2 * windows - 8;
}

static inline void load_few(const float *x, uint32_t windows, __m256 *lo, __m256 *hi)
{
    *lo = _mm256_maskload_ps(x, first_lanes(lo_lanes(windows)));
    *hi = _mm256_maskload_ps(x + 8, first_lanes(hi_lanes(windows)));
}

/* Load and store n bytes, n from 1 to 7. */
static inline uint64_t load_bytes(const uint8_t *from, uint32_t n)
{
    uint32_t first, last;
    if (n < 4) {
        return from[0] | (uint64_t)from[n / 2] << n / 2 * 8 | (uint64_t)from[n - 1] << (n - 1) * 8;
    }
    memcpy(&first, from, sizeof first);
    memcpy(&last, from + n - 4, sizeof last);
    return first | (uint64_t)last << (n - 4) * 8;
}

static inline void store_bytes(uint8_t *to, uint64_t bytes, uint32_t n)
{
    for (; n >= 4; n -= 4, bytes >>= 32, to += 4) {
        uint32_t four = (uint32_t)bytes;
        memcpy(to, &four, sizeof four);
    }
    for (; n > 0; n--, bytes >>= 8) {
        *to++ = (uint8_t)bytes;
    }
}

static inline void rectify(__m256 *best, __m256i *won)
{
    __m256 none = _mm256_cmp_ps(*best, _mm256_setzero_ps(), _CMP_LE_OQ);
    *best = _mm256_andnot_ps(none, *best);
    *won = _mm256_blendv_epi8(*won, _mm256_set1_epi32(UW_POOL_NONE), _mm256_castps_si256(none));
}

static inline __m128i bytes_of(__m256i won)
{
    __m128i w16 = _mm_packs_epi32(_mm256_castsi256_si128(won), _mm256_extracti128_si256(won, 1));
    return _mm_packus_epi16(w16, w16);
}

static inline void finish_eight(__m256 best, __m256i won, float *y, uint8_t *winner)
{
    _mm256_storeu_ps(y, best);
    _mm_storel_epi64((__m128i *)(void *)winner, bytes_of(won));
}

/* The maximum of 2 x 2 windows: v0, v1 are the upper taps, v2, v3 the lower ones. */
static inline __m256 best_of_four(__m256 v0, __m256 v1, __m256 v2, __m256 v3, bool relu,
                                  __m256i *won)
{
    __m256 best = v0;
    *won = _mm256_setzero_si256();
    challenge(v1, 1, &best, won);
    challenge(v2, 2, &best, won);
    challenge(v3, 3, &best, won);
    if (relu) {
        rectify(&best, won);
    }
    return best;
}

/* Eight windows whose top rows begin at x. */
static inline void eight_windows(const float *x, size_t in_w, bool relu, float *y, uint8_t *winner)
{
    __m256 v0, v1, v2, v3;
    __m256i won;
    load_split(x, &v0, &v1);
    load_split(x + in_w, &v2, &v3);
    __m256 best = best_of_four(v0, v1, v2, v3, relu, &won);
    finish_eight(best, won, y, winner);
}

static inline void few_windows(const float *x, size_t in_w, uint32_t n, bool relu, float *y,
                               uint8_t *winner)
{
    __m256 lo, hi, v0, v1, v2, v3;
    __m256i won;
    load_few(x, n, &lo, &hi);
    split(lo, hi, &v0, &v1);
    load_few(x + in_w, n, &lo, &hi);
    split(lo, hi, &v2, &v3);
    store_first(y, best_of_four(v0, v1, v2, v3, relu, &won), n);
    if (winner != NULL) {
        store_bytes(winner, (uint64_t)_mm_cvtsi128_si64(bytes_of(won)), n);
    }
}

/* Eight windows of any size inside the rows kh0 .. kh1-1 of the kernel; x is their first tap. */
static inline void eight_of_any(const struct uw_pool2d *p, const float *x, uint32_t kh0,
                                uint32_t kh1, float *y, uint8_t *winner)
{
    __m256 best = _mm256_set1_ps(-INFINITY), odd;
    __m256i won = _mm256_set1_epi32((int)(kh0 * p->kernel_w));
    for (uint32_t kh = kh0; kh < kh1; kh++) {
        for (uint32_t kw = 0; kw < p->kernel_w; kw++) {
            const float *from = x + (size_t)kh * p->in_w + kw;
            __m256 v;
            if (p->stride_w == 1) {
                v = _mm256_loadu_ps(from);
            } else {
                load_split(from, &v, &odd);
            }
            challenge(v, (int)(kh * p->kernel_w + kw), &best, &won);
        }
    }
    if (p->relu) {
        rectify(&best, &won);
    }
    finish_eight(best, won, y, winner);
}

/* One row of windows of 2 x 2 with stride 2. */
static void halving_row(const struct uw_pool2d *p, const float *x, uint32_t oh, float *y,
                        uint8_t *winner)
{
    size_t in_w = p->in_w;
    uint32_t out_w = p->out_w, ow = 0;
    uint8_t tap[8];
    x += 2 * oh * in_w;
    for (; ow + 8 <= out_w; ow += 8) {
        eight_windows(x + 2 * ow, in_w, p->relu, y + ow, winner != NULL ? winner + ow : tap);
    }
    if (ow < out_w && out_w >= 8) {     /* the last eight overlap those before */
        ow = out_w - 8;
        eight_windows(x + 2 * ow, in_w, p->relu, y + ow, winner != NULL ? winner + ow : tap);
    } else if (ow < out_w) {
        few_windows(x, in_w, out_w, p->relu, y, winner);
    }
}

/* One row of windows of any size. */
static void any_row(const struct uw_pool2d *p, const float *x, uint32_t oh, float *y,
                    uint8_t *winner)
{
    int64_t top = (int64_t)oh * p->stride_h - p->pad_h;
    uint32_t kh0 = top < 0 ? (uint32_t)-top : 0;
    uint32_t kh1 = top + p->kernel_h > p->in_h ? (uint32_t)(p->in_h - top) : p->kernel_h;
    bool eights = p->stride_w <= 2 && top + kh0 < p->in_h && kh0 < kh1;
    uint8_t tap[8];
    for (uint32_t ow = 0; ow < p->out_w;) {
        int64_t left = (int64_t)ow * p->stride_w - p->pad_w;
        bool inside = left >= 0 && left + p->kernel_w - 1 + 8 * p->stride_w <= p->in_w;
        if (eights && inside && ow + 8 <= p->out_w) {
            eight_of_any(p, x + top * p->in_w + left, kh0, kh1, y + ow,
                         winner != NULL ? winner + ow : tap);
            ow += 8;
        } else {
            y[ow] = uw_window_max_ref(p, x, top, left, winner != NULL ? winner + ow : tap);
            ow++;
        }
    }
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_pool2d *p = j->p;
    size_t plane = (size_t)task * j->planes_per_task, end = plane + j->planes_per_task;
    end = end < j->planes ? end : j->planes;
    for (; plane < end; plane++) {
        size_t out = plane * p->out_h * p->out_w;
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            j->row(p, j->x + plane * p->in_h * p->in_w, oh, j->y + out,
                   j->winner != NULL ? j->winner + out : NULL);
            out += p->out_w;
        }
    }
}

int uw_maxpool2d_fw_avx2(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y, uint8_t *winner)
{
    struct job j = {.p = p, .x = x, .y = y, .winner = winner,
                    .row = is_halving(p) ? halving_row : any_row,
                    .planes = (size_t)batch_n * p->channels};
    run(e, fw_task, &j);
    return UW_OK;
}

static inline __m256 routed(__m256 dy, __m256i won, int tap)
{
    __m256i here = _mm256_cmpeq_epi32(won, _mm256_set1_epi32(tap));
    return _mm256_and_ps(_mm256_castsi256_ps(here), dy);
}

static inline void write_sixteen(__m256 even, __m256 odd, bool accumulate, float *dx)
{
    __m256 lo, hi;
    join(even, odd, &lo, &hi);
    _mm256_storeu_ps(dx, accumulate ? _mm256_add_ps(_mm256_loadu_ps(dx), lo) : lo);
    _mm256_storeu_ps(dx + 8, accumulate ? _mm256_add_ps(_mm256_loadu_ps(dx + 8), hi) : hi);
}

static inline void bw_eight(const float *dy, const uint8_t *won, size_t in_w, bool accumulate,
                            float *dx)
{
    __m256 g = _mm256_loadu_ps(dy);
    __m256i w = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)won));
    write_sixteen(routed(g, w, 0), routed(g, w, 1), accumulate, dx);
    write_sixteen(routed(g, w, 2), routed(g, w, 3), accumulate, dx + in_w);
}

static inline void write_few(uint32_t n, __m256 even, __m256 odd, bool accumulate, float *dx)
{
    __m256 lo, hi, old_lo, old_hi;
    join(even, odd, &lo, &hi);
    if (accumulate) {
        load_few(dx, n, &old_lo, &old_hi);
        lo = _mm256_add_ps(old_lo, lo);
        hi = _mm256_add_ps(old_hi, hi);
    }
    store_first(dx, lo, lo_lanes(n));
    store_first(dx + 8, hi, hi_lanes(n));
}

static inline void bw_few(const float *dy, const uint8_t *won, uint32_t n, size_t in_w,
                          bool accumulate, float *dx)
{
    __m256 g = _mm256_maskload_ps(dy, first_lanes(n));
    __m256i w = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)load_bytes(won, n)));
    write_few(n, routed(g, w, 0), routed(g, w, 1), accumulate, dx);
    write_few(n, routed(g, w, 2), routed(g, w, 3), accumulate, dx + in_w);
}

/* The gradients of the two rows of x that a row of 2 x 2 windows covers. */
static void bw_row(const struct uw_pool2d *p, const float *dy, const uint8_t *won, bool accumulate,
                   float *dx)
{
    size_t in_w = p->in_w, left = in_w - 2 * (size_t)p->out_w;
    uint32_t ow = 0;
    for (; ow + 8 <= p->out_w; ow += 8) {
        bw_eight(dy + ow, won + ow, in_w, accumulate, dx + 2 * ow);
    }
    if (ow < p->out_w && ow > 0 && !accumulate) {   /* the last eight overlap those before */
        ow = p->out_w - 8;
        bw_eight(dy + ow, won + ow, in_w, false, dx + 2 * ow);
    } else if (ow < p->out_w) {
        bw_few(dy + ow, won + ow, p->out_w - ow, in_w, accumulate, dx + 2 * ow);
    }
    if (left > 0 && !accumulate) {
        memset(dx + in_w - left, 0, left * sizeof(float));
        memset(dx + 2 * in_w - left, 0, left * sizeof(float));
    }
}

static void bw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_pool2d *p = j->p;
    size_t plane = (size_t)task * j->planes_per_task, end = plane + j->planes_per_task;
    end = end < j->planes ? end : j->planes;
    for (; plane < end; plane++) {
        size_t out = plane * p->out_h * p->out_w, rows = 2 * (size_t)p->out_h;
        float *dx = j->dx + plane * p->in_h * p->in_w;
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            bw_row(p, j->dy + out, j->won + out, j->accumulate, dx + 2 * (size_t)oh * p->in_w);
            out += p->out_w;
        }
        if (!j->accumulate) {
            memset(dx + rows * p->in_w, 0, (p->in_h - rows) * p->in_w * sizeof(float));
        }
    }
}

static void any_bw_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_exec alone = {.scratch = NULL};
    struct uw_pool2d p = *j->p;
    size_t plane = (size_t)task * j->planes_per_task, left = j->planes - plane;
    (void)thread;
    size_t out = plane * p.out_h * p.out_w;
    p.channels = (uint32_t)(left < j->planes_per_task ? left : j->planes_per_task);
    uw_maxpool2d_bw_input_ref(&alone, &p, 1, j->dy + out, j->won + out,
                              j->dx + plane * p.in_h * p.in_w, j->accumulate);
}

int uw_maxpool2d_bw_input_avx2(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, const uint8_t *winner,
                               float *dx, bool accumulate)
{
    struct job j = {.p = p, .dy = dy, .won = winner, .dx = dx, .accumulate = accumulate,
                    .planes = (size_t)batch_n * p->channels};
    run(e, is_halving(p) ? bw_task : any_bw_task, &j);
    return UW_OK;
}
