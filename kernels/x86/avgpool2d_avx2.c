/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling for windows of 1 x 1 with any stride, 2 x 2 with stride 2, and whole planes;
 * others call the reference. A task is some planes. */
#include "x86/x86.h"

#include "ref/ref.h"
#include "uwasa/status.h"

#include <immintrin.h>
#include <string.h>

#define TASK_N 16384u               /* values of one task, at least */

struct job {
    const struct uw_pool2d *p;
    const float *x, *dy;
    float *y, *dx;
    void (*plane)(const struct job *j, const float *from, float *to);   /* NULL: the reference */
    size_t planes;
    uint32_t planes_per_task;
    bool accumulate;
};

static void run(const struct uw_exec *e, uw_task_fn fn, struct job *j)
{
    size_t plane = (size_t)j->p->in_h * j->p->in_w;
    j->planes_per_task = plane >= TASK_N ? 1 : (uint32_t)(TASK_N / (plane + 1)) + 1;
    uw_workers_run(e->workers, fn, j,
                   (uint32_t)((j->planes + j->planes_per_task - 1) / j->planes_per_task));
}

static bool covers_inside(const struct uw_pool2d *p, uint32_t kernel, uint32_t stride)
{
    return p->kernel_h == kernel && p->kernel_w == kernel && p->pad_h == 0 && p->pad_w == 0 &&
           p->stride_h >= stride && p->stride_w >= stride &&
           (uint64_t)(p->out_h - 1) * p->stride_h + kernel <= p->in_h &&
           (uint64_t)(p->out_w - 1) * p->stride_w + kernel <= p->in_w;
}

static bool is_picking(const struct uw_pool2d *p)
{
    return covers_inside(p, 1, 1);
}

static bool is_halving(const struct uw_pool2d *p)
{
    return covers_inside(p, 2, 2) && p->stride_h == 2 && p->stride_w == 2;
}

static bool is_whole_plane(const struct uw_pool2d *p)
{
    return p->out_h == 1 && p->out_w == 1 && p->kernel_h == p->in_h && p->kernel_w == p->in_w &&
           p->pad_h == 0 && p->pad_w == 0;
}

/* Split sixteen elements into even and odd ones. */
static inline void split(const float *x, __m256 *even, __m256 *odd)
{
    __m256 lo = _mm256_loadu_ps(x), hi = _mm256_loadu_ps(x + 8);
    __m256 e = _mm256_shuffle_ps(lo, hi, 0x88), o = _mm256_shuffle_ps(lo, hi, 0xdd);
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(o), 0xd8));
}

/* Interleave: x[0] (+)= even[0], x[1] (+)= odd[0], x[2] (+)= even[1], .. */
static inline void merge(__m256 even, __m256 odd, float *x, bool accumulate)
{
    __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    __m256 lo = _mm256_permute2f128_ps(a, b, 0x20), hi = _mm256_permute2f128_ps(a, b, 0x31);
    if (accumulate) {
        lo = _mm256_add_ps(_mm256_loadu_ps(x), lo);
        hi = _mm256_add_ps(_mm256_loadu_ps(x + 8), hi);
    }
    _mm256_storeu_ps(x, lo);
    _mm256_storeu_ps(x + 8, hi);
}

static void pick(const struct job *j, const float *x, float *y)
{
    const struct uw_pool2d *p = j->p;
    for (uint32_t oh = 0; oh < p->out_h; oh++, y += p->out_w) {
        const float *row = x + (size_t)oh * p->stride_h * p->in_w;
        uint32_t ow = 0;
        for (; p->stride_w == 2 && ow + 8 <= p->out_w && 2 * ow + 16 <= p->in_w; ow += 8) {
            __m256 even, odd;
            split(row + 2 * ow, &even, &odd);
            _mm256_storeu_ps(y + ow, even);
        }
        for (; ow < p->out_w; ow++) {
            y[ow] = row[(size_t)ow * p->stride_w];
        }
    }
}

static void pick_back(const struct job *j, const float *dy, float *dx)
{
    const struct uw_pool2d *p = j->p;
    for (uint32_t oh = 0; oh < p->out_h; oh++, dy += p->out_w) {
        float *row = dx + (size_t)oh * p->stride_h * p->in_w;
        uint32_t ow = 0;
        for (; p->stride_w == 2 && ow + 8 <= p->out_w && 2 * ow + 16 <= p->in_w; ow += 8) {
            merge(_mm256_loadu_ps(dy + ow), _mm256_setzero_ps(), row + 2 * ow, j->accumulate);
        }
        for (; ow < p->out_w; ow++) {
            row[(size_t)ow * p->stride_w] += dy[ow];
        }
    }
}

static void halve(const struct job *j, const float *x, float *y)
{
    const struct uw_pool2d *p = j->p;
    for (uint32_t oh = 0; oh < p->out_h; oh++, y += p->out_w) {
        const float *top = x + (size_t)oh * 2 * p->in_w, *low = top + p->in_w;
        uint32_t ow = 0;
        for (; ow + 8 <= p->out_w; ow += 8) {
            __m256 a, b, c, d;
            split(top + 2 * ow, &a, &b);
            split(low + 2 * ow, &c, &d);
            __m256 sum = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
            _mm256_storeu_ps(y + ow, _mm256_mul_ps(sum, _mm256_set1_ps(0.25f)));
        }
        for (; ow < p->out_w; ow++) {
            y[ow] = ((top[2 * ow] + top[2 * ow + 1]) + (low[2 * ow] + low[2 * ow + 1])) * 0.25f;
        }
    }
}

static void halve_back(const struct job *j, const float *dy, float *dx)
{
    const struct uw_pool2d *p = j->p;
    for (uint32_t oh = 0; oh < p->out_h; oh++, dy += p->out_w) {
        float *top = dx + (size_t)oh * 2 * p->in_w, *low = top + p->in_w;
        uint32_t ow = 0;
        for (; ow + 8 <= p->out_w; ow += 8) {
            __m256 g = _mm256_mul_ps(_mm256_loadu_ps(dy + ow), _mm256_set1_ps(0.25f));
            merge(g, g, top + 2 * ow, j->accumulate);
            merge(g, g, low + 2 * ow, j->accumulate);
        }
        for (; ow < p->out_w; ow++) {
            float g = dy[ow] * 0.25f;
            top[2 * ow] += g;
            top[2 * ow + 1] += g;
            low[2 * ow] += g;
            low[2 * ow + 1] += g;
        }
    }
}

static void mean(const struct job *j, const float *x, float *y)
{
    size_t n = (size_t)j->p->in_h * j->p->in_w, i = 0;
    __m256 s0 = _mm256_setzero_ps(), s1 = s0;
    for (; i + 16 <= n; i += 16) {
        s0 = _mm256_add_ps(s0, _mm256_loadu_ps(x + i));
        s1 = _mm256_add_ps(s1, _mm256_loadu_ps(x + i + 8));
    }
    float lane[8];
    _mm256_storeu_ps(lane, _mm256_add_ps(s0, s1));
    float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; i++) {
        sum += x[i];
    }
    *y = sum / (float)n;
}

static void mean_back(const struct job *j, const float *dy, float *dx)
{
    size_t n = (size_t)j->p->in_h * j->p->in_w;
    float g = *dy / (float)n;
    for (size_t i = 0; i < n; i++) {
        dx[i] = j->accumulate ? dx[i] + g : g;
    }
}

/* The planes of a task, as the channels of one sample. */
static struct uw_pool2d planes_of(const struct job *j, uint32_t task, size_t *first)
{
    struct uw_pool2d p = *j->p;
    *first = (size_t)task * j->planes_per_task;
    size_t left = j->planes - *first;
    p.channels = left < j->planes_per_task ? (uint32_t)left : j->planes_per_task;
    return p;
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t first, in_hw = (size_t)j->p->in_h * j->p->in_w;
    size_t out_hw = (size_t)j->p->out_h * j->p->out_w;
    struct uw_pool2d p = planes_of(j, task, &first);
    const float *x = j->x + first * in_hw;
    float *y = j->y + first * out_hw;
    if (j->plane == NULL) {
        uw_avgpool2d_fw_ref(NULL, &p, 1, x, y);
        return;
    }
    for (uint32_t i = 0; i < p.channels; i++) {
        j->plane(j, x + i * in_hw, y + i * out_hw);
    }
}

static void bw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t first, in_hw = (size_t)j->p->in_h * j->p->in_w;
    size_t out_hw = (size_t)j->p->out_h * j->p->out_w;
    struct uw_pool2d p = planes_of(j, task, &first);
    const float *dy = j->dy + first * out_hw;
    float *dx = j->dx + first * in_hw;
    if (j->plane == NULL) {
        uw_avgpool2d_bw_input_ref(NULL, &p, 1, dy, dx, j->accumulate);
        return;
    }
    for (uint32_t i = 0; i < p.channels; i++) {
        if (!j->accumulate && j->plane != mean_back) {
            memset(dx + i * in_hw, 0, in_hw * sizeof *dx);
        }
        j->plane(j, dy + i * out_hw, dx + i * in_hw);
    }
}

int uw_avgpool2d_fw_avx2(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y)
{
    struct job j = {.p = p, .x = x, .y = y, .planes = (size_t)batch_n * p->channels};
    j.plane = is_picking(p) ? pick : is_halving(p) ? halve : is_whole_plane(p) ? mean : NULL;
    run(e, fw_task, &j);
    return UW_OK;
}

int uw_avgpool2d_bw_input_avx2(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, float *dx, bool accumulate)
{
    struct job j = {.p = p, .dy = dy, .dx = dx, .planes = (size_t)batch_n * p->channels,
                    .accumulate = accumulate};
    j.plane = is_picking(p) ? pick_back : is_halving(p) ? halve_back
                                        : is_whole_plane(p) ? mean_back : NULL;
    run(e, bw_task, &j);
    return UW_OK;
}
