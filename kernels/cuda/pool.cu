/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. Forward, a thread computes one output; backward, one element of dx, as the sum over the
 * windows that contain it, in order, so that no atomics are needed. There are separate kernels for
 * averages over whole planes, with a warp per plane, and for 2 x 2 maxima with stride 2, with two
 * windows per thread. */
#include "index.cuh"

#include <math.h>

struct pool {
    uint32_t channels, in_h, in_w, out_h, out_w;
    uint32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    struct uw_divisor columns;  /* of the results: outputs, or elements of dx */
    struct uw_divisor by_h, by_w;       /* strides */
    uint32_t plane_n;           /* results of a plane */
    size_t all, in_hw, out_hw;  /* all: results of all planes */
    bool relu, exclude_pad, accumulate;
};

/* Plane, row and column of a thread's result. */
struct place {
    size_t plane;
    uint32_t row, column;
};

static __device__ __forceinline__ struct place place_of(const struct pool &p, size_t i)
{
    struct place at;
    uint32_t rest;
    if (p.all <= 0xffffffffu) {
        uint32_t plane = static_cast<uint32_t>(i) / p.plane_n;
        rest = static_cast<uint32_t>(i) - plane * p.plane_n;
        at.plane = plane;
    } else {
        at.plane = i / p.plane_n;
        rest = static_cast<uint32_t>(i - at.plane * p.plane_n);
    }
    at.row = uw_quotient(p.columns, rest);
    at.column = rest - at.row * p.columns.by;
    return at;
}

/* Taps lo .. hi-1 of the window at `first` (may be negative) are inside 0 .. n-1. */
struct span {
    int32_t lo, hi;
};

static __device__ __forceinline__ struct span taps_inside(int32_t first, uint32_t kernel, uint32_t n)
{
    struct span s;
    int32_t left = static_cast<int32_t>(n) - first;
    s.lo = first < 0 ? -first : 0;
    s.hi = left < static_cast<int32_t>(kernel) ? left : static_cast<int32_t>(kernel);
    return s;
}

/* Windows lo .. hi-1 of out_n contain element i. */
static __device__ __forceinline__ struct span windows_of(uint32_t i, uint32_t kernel,
                                                         const struct uw_divisor &stride,
                                                         uint32_t pad, uint32_t out_n)
{
    struct span s;
    uint32_t at = i + pad, last = uw_quotient(stride, at) + 1;
    s.lo = at < kernel ? 0 : static_cast<int32_t>(uw_quotient(stride, at - kernel) + 1);
    s.hi = static_cast<int32_t>(last < out_n ? last : out_n);
    return s;
}

/* The largest of a window and its tap. */
struct best {
    float value;
    uint32_t tap;
};

static __device__ __forceinline__ void consider(struct best &b, bool &found, float v, uint32_t tap)
{
    bool wins = !found || v > b.value || (v != v && b.value == b.value);
    b.value = wins ? v : b.value;
    b.tap = wins ? tap : b.tap;
    found = true;
}

/* The best of a window; KERNEL > 0: unrolled KERNEL x KERNEL windows. */
template <int KERNEL>
static __device__ __forceinline__ struct best best_of(const struct pool &p, const float *x,
                                                      int32_t top, int32_t left)
{
    const struct span rows = taps_inside(top, p.kernel_h, p.in_h);
    const struct span columns = taps_inside(left, p.kernel_w, p.in_w);
    struct best b = {-INFINITY, 0};
    bool found = false;
    if constexpr (KERNEL == 0) {
        for (int32_t kh = rows.lo; kh < rows.hi; kh++) {
            const float *row = x + static_cast<int64_t>(top + kh) * p.in_w + left;
            for (int32_t kw = columns.lo; kw < columns.hi; kw++) {
                consider(b, found, row[kw],
                         static_cast<uint32_t>(kh) * p.kernel_w + static_cast<uint32_t>(kw));
            }
        }
    } else {
        float v[KERNEL][KERNEL];
#pragma unroll
        for (int k = 0; k < KERNEL * KERNEL; k++) {
            const int kh = k / KERNEL, kw = k % KERNEL;
            bool inside = kh >= rows.lo && kh < rows.hi && kw >= columns.lo && kw < columns.hi;
            v[kh][kw] = inside ? x[static_cast<int64_t>(top + kh) * p.in_w + left + kw] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < KERNEL * KERNEL; k++) {
            const int kh = k / KERNEL, kw = k % KERNEL;
            if (kh >= rows.lo && kh < rows.hi && kw >= columns.lo && kw < columns.hi) {
                consider(b, found, v[kh][kw], static_cast<uint32_t>(k));
            }
        }
    }
    return b;
}

template <int KERNEL>
static __global__ void max_kernel(struct pool p, const float *x, float *y, uint8_t *winner)
{
    UW_EACH(i, p.all) {
        const struct place at = place_of(p, i);
        int32_t top = static_cast<int32_t>(at.row * p.stride_h) - static_cast<int32_t>(p.pad_h);
        int32_t left = static_cast<int32_t>(at.column * p.stride_w) - static_cast<int32_t>(p.pad_w);
        struct best b = best_of<KERNEL>(p, x + at.plane * p.in_hw, top, left);
        if (p.relu && b.value <= 0.0f) { /* false for NaN */
            b.value = 0.0f;
            b.tap = UW_POOL_NONE;
        }
        y[i] = b.value;
        if (winner != nullptr) {
            winner[i] = static_cast<uint8_t>(b.tap);
        }
    }
}

static __global__ void max_back_kernel(struct pool p, const float *dy, const uint8_t *winner,
                                       float *dx)
{
    UW_EACH(i, p.all) {
        const struct place at = place_of(p, i);
        const struct span rows = windows_of(at.row, p.kernel_h, p.by_h, p.pad_h, p.out_h);
        const struct span columns = windows_of(at.column, p.kernel_w, p.by_w, p.pad_w, p.out_w);
        float sum = p.accumulate ? dx[i] : 0.0f;
        for (int32_t oh = rows.lo; oh < rows.hi; oh++) {
            uint32_t kh = at.row + p.pad_h - static_cast<uint32_t>(oh) * p.stride_h;
            size_t row = at.plane * p.out_hw + static_cast<size_t>(oh) * p.out_w;
            for (int32_t ow = columns.lo; ow < columns.hi; ow++) {
                uint32_t kw = at.column + p.pad_w - static_cast<uint32_t>(ow) * p.stride_w;
                size_t from = row + static_cast<size_t>(ow);
                if (winner[from] == kh * p.kernel_w + kw) {
                    sum += dy[from];
                }
            }
        }
        dx[i] = sum;
    }
}

/* 2 x 2 windows with stride 2: a row of windows is two rows of x, in any plane. A thread has two
 * windows, that is four adjacent values in each row of x. */
struct pairs {
    struct uw_divisor half;     /* pairs of a row */
    size_t all;                 /* pairs */
    bool few;                   /* small enough for uw_quotient */
    bool relu, accumulate;
};

/* Offset of the pair's upper four values in x; the lower four are in_w floats further. */
static __device__ __forceinline__ size_t four_of(const struct pairs &p, size_t i)
{
    size_t row = p.few ? uw_quotient(p.half, static_cast<uint32_t>(i)) : i / p.half.by;
    return row * 8 * p.half.by + (i - row * p.half.by) * 4;
}

static __device__ __forceinline__ struct best best_of_four(bool relu, float a, float b, float c,
                                                           float d)
{
    struct best r = {-INFINITY, 0};
    bool found = false;
    consider(r, found, a, 0);
    consider(r, found, b, 1);
    consider(r, found, c, 2);
    consider(r, found, d, 3);
    if (relu && r.value <= 0.0f) { /* false for NaN */
        r.value = 0.0f;
        r.tap = UW_POOL_NONE;
    }
    return r;
}

static __global__ void max_pairs_kernel(struct pairs p, const float *x, float *y, uint8_t *winner)
{
    UW_EACH(i, p.all) {
        const float *from = x + four_of(p, i);
        const float4 top = *reinterpret_cast<const float4 *>(from);
        const float4 low = *reinterpret_cast<const float4 *>(from + 4 * p.half.by);
        const struct best a = best_of_four(p.relu, top.x, top.y, low.x, low.y);
        const struct best b = best_of_four(p.relu, top.z, top.w, low.z, low.w);
        reinterpret_cast<float2 *>(y)[i] = make_float2(a.value, b.value);
        if (winner != nullptr) {
            reinterpret_cast<uchar2 *>(winner)[i] = make_uchar2(
                static_cast<unsigned char>(a.tap), static_cast<unsigned char>(b.tap));
        }
    }
}

static __device__ __forceinline__ float routed(float to, unsigned winner, unsigned tap, float dy)
{
    return winner == tap ? to + dy : to;
}

static __global__ void max_pairs_back_kernel(struct pairs p, const float *dy,
                                             const uint8_t *winner, float *dx)
{
    UW_EACH(i, p.all) {
        float *to = dx + four_of(p, i), *below = to + 4 * p.half.by;
        const float2 g = reinterpret_cast<const float2 *>(dy)[i];
        const uchar2 w = reinterpret_cast<const uchar2 *>(winner)[i];
        float4 top = make_float4(0.0f, 0.0f, 0.0f, 0.0f), low = top;
        if (p.accumulate) {
            top = *reinterpret_cast<const float4 *>(to);
            low = *reinterpret_cast<const float4 *>(below);
        }
        *reinterpret_cast<float4 *>(to) = make_float4(
            routed(top.x, w.x, 0, g.x), routed(top.y, w.x, 1, g.x), routed(top.z, w.y, 0, g.y),
            routed(top.w, w.y, 1, g.y));
        *reinterpret_cast<float4 *>(below) = make_float4(
            routed(low.x, w.x, 2, g.x), routed(low.y, w.x, 3, g.x), routed(low.z, w.y, 2, g.y),
            routed(low.w, w.y, 3, g.y));
    }
}

/* The length of a window counted for the average, on one axis: inside x, or with padding. */
static __device__ __forceinline__ uint32_t counted(uint32_t o, uint32_t n, uint32_t kernel,
                                                   uint32_t stride, uint32_t pad, bool exclude_pad)
{
    uint32_t begin = o * stride, end = begin + kernel, padded = n + 2 * pad;
    if (!exclude_pad) {
        return (end < padded ? end : padded) - begin;
    }
    begin = begin > pad ? begin : pad;
    end = end < n + pad ? end : n + pad;
    return begin < end ? end - begin : 0;
}

static __device__ __forceinline__ float divisor(const struct pool &p, uint32_t oh, uint32_t ow)
{
    uint64_t rows = counted(oh, p.in_h, p.kernel_h, p.stride_h, p.pad_h, p.exclude_pad);
    return static_cast<float>(
        rows * counted(ow, p.in_w, p.kernel_w, p.stride_w, p.pad_w, p.exclude_pad));
}

static __global__ void average_kernel(struct pool p, const float *x, float *y)
{
    UW_EACH(i, p.all) {
        const struct place at = place_of(p, i);
        int32_t top = static_cast<int32_t>(at.row * p.stride_h) - static_cast<int32_t>(p.pad_h);
        int32_t left = static_cast<int32_t>(at.column * p.stride_w) - static_cast<int32_t>(p.pad_w);
        const struct span rows = taps_inside(top, p.kernel_h, p.in_h);
        const struct span columns = taps_inside(left, p.kernel_w, p.in_w);
        float sum = 0.0f;
        for (int32_t kh = rows.lo; kh < rows.hi; kh++) {
            const float *from = x + at.plane * p.in_hw +
                                static_cast<int64_t>(top + kh) * p.in_w + left;
            float row = 0.0f;
            for (int32_t kw = columns.lo; kw < columns.hi; kw++) {
                row += from[kw];
            }
            sum += row;
        }
        y[i] = sum / divisor(p, at.row, at.column);
    }
}

static __global__ void average_back_kernel(struct pool p, const float *dy, float *dx)
{
    UW_EACH(i, p.all) {
        const struct place at = place_of(p, i);
        const struct span rows = windows_of(at.row, p.kernel_h, p.by_h, p.pad_h, p.out_h);
        const struct span columns = windows_of(at.column, p.kernel_w, p.by_w, p.pad_w, p.out_w);
        float sum = p.accumulate ? dx[i] : 0.0f;
        for (int32_t oh = rows.lo; oh < rows.hi; oh++) {
            for (int32_t ow = columns.lo; ow < columns.hi; ow++) {
                float share = divisor(p, static_cast<uint32_t>(oh), static_cast<uint32_t>(ow));
                sum += dy[at.plane * p.out_hw + static_cast<size_t>(oh) * p.out_w +
                          static_cast<size_t>(ow)] / share;
            }
        }
        dx[i] = sum;
    }
}

/* One plane per warp, in blocks of (32, 8). */
static __global__ void average_planes_kernel(size_t planes, size_t in_hw, float share,
                                             const float *x, float *y)
{
    size_t plane = static_cast<size_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (plane >= planes) {
        return;                 /* the whole warp */
    }
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const float *from = x + plane * in_hw;
    for (size_t i = threadIdx.x; i < in_hw; i += 128) {
#pragma unroll
        for (unsigned u = 0; u < 4; u++) {
            sum[u] += i + 32 * u < in_hw ? from[i + 32 * u] : 0.0f;
        }
    }
    float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int by = 16; by > 0; by /= 2) {
        all += __shfl_xor_sync(0xffffffffu, all, by);
    }
    if (threadIdx.x == 0) {
        y[plane] = all / share;
    }
}

static __global__ void average_planes_back_kernel(size_t n, size_t in_hw, float share,
                                                  const float *dy, float *dx, bool accumulate)
{
    UW_EACH(i, n) {
        size_t plane = n <= 0xffffffffu
                           ? static_cast<uint32_t>(i) / static_cast<uint32_t>(in_hw)
                           : i / in_hw;
        float g = dy[plane] / share;
        dx[i] = accumulate ? dx[i] + g : g;
    }
}

/* back: the results are elements of dx, else outputs. */
static struct pool pool_of(const struct uw_pool2d *p, uint32_t batch_n, bool back)
{
    struct pool q = {};
    q.channels = p->channels;
    q.in_h = p->in_h;
    q.in_w = p->in_w;
    q.out_h = p->out_h;
    q.out_w = p->out_w;
    q.kernel_h = p->kernel_h;
    q.kernel_w = p->kernel_w;
    q.stride_h = p->stride_h;
    q.stride_w = p->stride_w;
    q.pad_h = p->pad_h;
    q.pad_w = p->pad_w;
    q.in_hw = static_cast<size_t>(p->in_h) * p->in_w;
    q.out_hw = static_cast<size_t>(p->out_h) * p->out_w;
    q.columns = uw_divisor_of(back ? p->in_w : p->out_w);
    q.by_h = uw_divisor_of(p->stride_h);
    q.by_w = uw_divisor_of(p->stride_w);
    q.plane_n = static_cast<uint32_t>(back ? q.in_hw : q.out_hw);
    q.all = static_cast<size_t>(batch_n) * p->channels * q.plane_n;
    q.relu = p->relu;
    q.exclude_pad = p->exclude_pad;
    return q;
}

/* Is there one window, the whole plane? */
static bool whole(const struct uw_pool2d *p)
{
    return p->out_h == 1 && p->out_w == 1 && p->pad_h == 0 && p->pad_w == 0 &&
           p->kernel_h >= p->in_h && p->kernel_w >= p->in_w;
}

static bool fits(const void *at, unsigned bytes)
{
    return reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

/* Can the kernels with two windows per thread be used? large: x or dx, small: y or dy. */
static bool in_pairs(const struct uw_pool2d *p, const float *large, const float *small,
                     const uint8_t *winner)
{
    return p->kernel_h == 2 && p->kernel_w == 2 && p->stride_h == 2 && p->stride_w == 2 &&
           p->pad_h == 0 && p->pad_w == 0 && p->in_h == 2 * p->out_h && p->in_w == 2 * p->out_w &&
           p->out_w % 2 == 0 && fits(large, 16) && fits(small, 8) && fits(winner, 2);
}

static struct pairs pairs_of(const struct uw_pool2d *p, uint32_t batch_n)
{
    struct pairs q = {};
    q.half = uw_divisor_of(p->out_w / 2);
    q.all = static_cast<size_t>(batch_n) * p->channels * p->out_h * (p->out_w / 2);
    q.few = q.all < 1u << 31;
    q.relu = p->relu;
    return q;
}

int uw_maxpool2d_fw_cuda(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y, uint8_t *winner)
{
    if (in_pairs(p, x, y, winner)) {
        const struct pairs two = pairs_of(p, batch_n);
        return uw_launch(e, uw_grid(e, two.all, 1), UW_BLOCK, max_pairs_kernel, two, x, y, winner);
    }
    struct pool q = pool_of(p, batch_n, false);
    uint32_t side = p->kernel_h == p->kernel_w ? p->kernel_h : 0;
    return uw_launch(e, uw_grid(e, q.all, 1), UW_BLOCK,
                     side == 2   ? max_kernel<2>
                     : side == 3 ? max_kernel<3>
                                 : max_kernel<0>,
                     q, x, y, winner);
}

int uw_maxpool2d_bw_input_cuda(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, const uint8_t *winner, float *dx,
                               bool accumulate)
{
    if (in_pairs(p, dx, dy, winner)) {
        struct pairs two = pairs_of(p, batch_n);
        two.accumulate = accumulate;
        return uw_launch(e, uw_grid(e, two.all, 1), UW_BLOCK, max_pairs_back_kernel, two, dy,
                         winner, dx);
    }
    struct pool q = pool_of(p, batch_n, true);
    q.accumulate = accumulate;
    return uw_launch(e, uw_grid(e, q.all, 1), UW_BLOCK, max_back_kernel, q, dy, winner, dx);
}

int uw_avgpool2d_fw_cuda(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                         const float *x, float *y)
{
    struct pool q = pool_of(p, batch_n, false);
    size_t planes = static_cast<size_t>(batch_n) * p->channels;
    if (whole(p) && q.in_hw >= 32 && planes > 0) {
        return uw_launch(e, static_cast<unsigned>((planes - 1) / 8 + 1), dim3(32, 8),
                         average_planes_kernel, planes, q.in_hw, static_cast<float>(q.in_hw), x, y);
    }
    return uw_launch(e, uw_grid(e, q.all, 1), UW_BLOCK, average_kernel, q, x, y);
}

int uw_avgpool2d_bw_input_cuda(const struct uw_exec *e, const struct uw_pool2d *p,
                               uint32_t batch_n, const float *dy, float *dx, bool accumulate)
{
    struct pool q = pool_of(p, batch_n, true);
    q.accumulate = accumulate;
    if (whole(p)) {
        return uw_launch(e, uw_grid(e, q.all, 2), UW_BLOCK, average_planes_back_kernel, q.all,
                         q.in_hw, static_cast<float>(q.in_hw), dy, dx, accumulate);
    }
    return uw_launch(e, uw_grid(e, q.all, 1), UW_BLOCK, average_back_kernel, q, dy, dx);
}
