/* SPDX-License-Identifier: Apache-2.0
 *
 * Local response normalization. A thread loops over CHANNELS_EACH channels of one position, and the
 * few before and after that share windows with them; adjacent threads have adjacent positions. For
 * windows of five (AlexNet, GoogLeNet), the window stays in registers; other windows are read again
 * for each channel. */
#include "norm.cuh"

#define CHANNELS_EACH 16

struct lrn {
    uint32_t channels, inner, size, chunks;     /* chunks of CHANNELS_EACH channels */
    size_t threads;             /* batch_n * chunks * inner */
    float factor, back, beta, k;
    const float *x, *dy;
    float *y;
    bool accumulate;
};

/* A thread's channels first .. end - 1; `at` is the offset of channel 0 at its position. */
struct place {
    int32_t first, end;
    size_t at;
};

static __device__ __forceinline__ struct place place_of(const struct lrn &l, size_t i)
{
    struct place p;
    size_t image = i / (static_cast<size_t>(l.chunks) * l.inner);
    uint32_t rest = static_cast<uint32_t>(i - image * l.chunks * l.inner);
    p.first = static_cast<int32_t>(rest / l.inner * CHANNELS_EACH);
    p.end = p.first + CHANNELS_EACH;
    p.end = p.end < static_cast<int32_t>(l.channels) ? p.end : static_cast<int32_t>(l.channels);
    p.at = image * l.channels * l.inner + rest % l.inner;
    return p;
}

static __device__ __forceinline__ float power(const struct lrn &l, float base)
{
    if (l.beta == 0.75f) {
        float r = sqrtf(base);
        return r * sqrtf(r);
    }
    return powf(base, l.beta);
}

/* 0 outside of the channels */
static __device__ __forceinline__ float channel_at(const struct lrn &l, const float *x,
                                                   const struct place &p, int32_t c)
{
    bool inside = c >= 0 && c < static_cast<int32_t>(l.channels);
    return inside ? x[p.at + static_cast<size_t>(c) * l.inner] : 0.0f;
}

/* Windows of odd SIZE: symmetric. */
template <int SIZE> static __global__ void fw_kernel(struct lrn l)
{
    constexpr int reach = SIZE / 2;
    UW_EACH(i, l.threads) {
        const struct place p = place_of(l, i);
        float x[SIZE];
#pragma unroll
        for (int k = 0; k < SIZE - 1; k++) {
            x[k + 1] = channel_at(l, l.x, p, p.first - reach + k);
        }
        for (int32_t c = p.first; c < p.end; c++) {
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < SIZE - 1; k++) {
                x[k] = x[k + 1];
                sum += x[k] * x[k];
            }
            x[SIZE - 1] = channel_at(l, l.x, p, c + reach);
            sum += x[SIZE - 1] * x[SIZE - 1];
            l.y[p.at + static_cast<size_t>(c) * l.inner] =
                x[reach] / power(l, l.k + l.factor * sum);
        }
    }
}

/* dx = dy * s^-beta - 2 alpha beta / size * x * sum of dy * x * s^(-beta - 1) over the channels
 * whose windows contain this one. Each iteration computes the term of channel c, and finishes
 * channel c - reach, in the middle of the terms. */
template <int SIZE> static __global__ void bw_kernel(struct lrn l)
{
    constexpr int reach = SIZE / 2;
    UW_EACH(i, l.threads) {
        const struct place p = place_of(l, i);
        float x[SIZE + reach], term[SIZE], direct[reach + 1];
#pragma unroll
        for (int k = 0; k < SIZE + reach; k++) {
            x[k] = channel_at(l, l.x, p, p.first - 3 * reach - 1 + k);
            term[k % SIZE] = direct[k % (reach + 1)] = 0.0f;
        }
        for (int32_t c = p.first - reach; c < p.end + reach; c++) {
            /* x: channels c - 2 reach .. c + reach; term: c - 2 reach .. c; direct: c - reach .. c */
            float sum = 0.0f, terms = 0.0f;
#pragma unroll
            for (int k = 0; k < SIZE + reach - 1; k++) {
                x[k] = x[k + 1];
            }
            x[SIZE + reach - 1] = channel_at(l, l.x, p, c + reach);
#pragma unroll
            for (int k = 0; k < SIZE; k++) {
                sum += x[reach + k] * x[reach + k];
            }
#pragma unroll
            for (int k = 0; k < SIZE - 1; k++) {
                term[k] = term[k + 1];
                terms += term[k];
            }
#pragma unroll
            for (int k = 0; k < reach; k++) {
                direct[k] = direct[k + 1];
            }
            float base = l.k + l.factor * sum;
            bool inside = c >= 0 && c < static_cast<int32_t>(l.channels);
            direct[reach] = inside ? channel_at(l, l.dy, p, c) / power(l, base) : 0.0f;
            term[SIZE - 1] = inside ? direct[reach] * x[2 * reach] / base : 0.0f;
            terms += term[SIZE - 1];
            int32_t done = c - reach;
            if (done >= p.first) {
                float v = direct[0] - l.back * x[reach] * terms;
                float *dx = l.y + p.at + static_cast<size_t>(done) * l.inner;
                *dx = l.accumulate ? *dx + v : v;
            }
        }
    }
}

/* k + alpha / size * sum of x^2 over the window of channel c */
static __device__ float base_of(const struct lrn &l, const struct place &p, int32_t c)
{
    float sum = 0.0f;
    int32_t before = static_cast<int32_t>(l.size / 2), after = static_cast<int32_t>(l.size - 1) / 2;
    for (int32_t w = c - before; w <= c + after; w++) {
        float v = channel_at(l, l.x, p, w);
        sum += v * v;
    }
    return l.k + l.factor * sum;
}

static __global__ void fw_any_kernel(struct lrn l)
{
    UW_EACH(i, l.threads) {
        const struct place p = place_of(l, i);
        for (int32_t c = p.first; c < p.end; c++) {
            size_t at = p.at + static_cast<size_t>(c) * l.inner;
            l.y[at] = l.x[at] / power(l, base_of(l, p, c));
        }
    }
}

static __global__ void bw_any_kernel(struct lrn l)
{
    int32_t before = static_cast<int32_t>(l.size - 1) / 2, after = static_cast<int32_t>(l.size / 2);
    UW_EACH(i, l.threads) {
        const struct place p = place_of(l, i);
        for (int32_t c = p.first; c < p.end; c++) {
            size_t at = p.at + static_cast<size_t>(c) * l.inner;
            float direct = 0.0f, terms = 0.0f;
            for (int32_t w = c - before; w <= c + after; w++) {
                if (w < 0 || w >= static_cast<int32_t>(l.channels)) {
                    continue;
                }
                float base = base_of(l, p, w);
                float d = channel_at(l, l.dy, p, w) / power(l, base);
                terms += d * channel_at(l, l.x, p, w) / base;
                direct = w == c ? d : direct;
            }
            float v = direct - l.back * l.x[at] * terms;
            l.y[at] = l.accumulate ? l.y[at] + v : v;
        }
    }
}

static struct lrn lrn_of(const struct uw_lrn *l, uint32_t batch_n, const float *x, float *y)
{
    struct lrn r = {};
    r.channels = l->channels;
    r.inner = l->inner;
    r.size = l->size;
    r.chunks = (l->channels + CHANNELS_EACH - 1) / CHANNELS_EACH;
    r.threads = static_cast<size_t>(batch_n) * r.chunks * l->inner;
    r.factor = l->alpha / static_cast<float>(l->size);
    r.back = 2.0f * l->alpha * l->beta / static_cast<float>(l->size);
    r.beta = l->beta;
    r.k = l->k;
    r.x = x;
    r.y = y;
    return r;
}

int uw_lrn_fw_cuda(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                   const float *x, float *y)
{
    struct lrn r = lrn_of(l, batch_n, x, y);
    return uw_launch(e, uw_grid(e, r.threads, 1), UW_BLOCK,
                     l->size == 5 ? fw_kernel<5> : fw_any_kernel, r);
}

int uw_lrn_bw_input_cuda(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                         const float *x, const float *dy, float *dx, bool accumulate)
{
    struct lrn r = lrn_of(l, batch_n, x, dx);
    r.dy = dy;
    r.accumulate = accumulate;
    return uw_launch(e, uw_grid(e, r.threads, 1), UW_BLOCK,
                     l->size == 5 ? bw_kernel<5> : bw_any_kernel, r);
}

size_t uw_lrn_scratch_bytes_cuda(const struct uw_lrn *l, uint32_t threads)
{
    (void)l;
    (void)threads;
    return 0;
}
