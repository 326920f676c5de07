/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution, limited by memory bandwidth. A thread computes ROWS values of one column:
 * adjacent threads read adjacent columns, and a loaded row is used for all taps that need it. The
 * weight gradient loops over outputs in the same way, with one or several blocks per channel; the
 * last block adds the partial sums. */
#include "conv2d_own.cuh"
#include "reduce.cuh"

#define ROWS 4
#define BLOCK 256u
#define SPLITS_MAX 64u

/* Work items: columns first, then strips of ROWS rows, then planes or images. */
struct strips {
    struct uw_divisor columns, strips, channels;
    uint32_t all;
};

static struct strips strips_of(int32_t height, int32_t width, uint32_t channels, uint32_t planes)
{
    struct strips s;
    uint32_t n = (static_cast<uint32_t>(height) + ROWS - 1) / ROWS;
    s.columns = uw_divisor_of(static_cast<uint32_t>(width));
    s.strips = uw_divisor_of(n);
    s.channels = uw_divisor_of(channels);
    s.all = planes * n * static_cast<uint32_t>(width);
    return s;
}

struct strip {
    uint32_t plane;
    int32_t row, column;
};

static __device__ __forceinline__ struct strip strip_of(const struct strips &s, uint32_t i)
{
    uint32_t t = uw_quotient(s.columns, i), plane = uw_quotient(s.strips, t);
    return {plane, static_cast<int32_t>((t - plane * s.strips.by) * ROWS),
            static_cast<int32_t>(i - t * s.columns.by)};
}

static __device__ __forceinline__ float at_or_zero(const float *x, int32_t row, int32_t column,
                                                   int32_t h, int32_t w)
{
    bool inside = row >= 0 && row < h && column >= 0 && column < w;
    return inside ? x[row * w + column] : 0.0f;
}

template <int KERNEL>
static __device__ __forceinline__ void load_weights(const float *w, bool flipped,
                                                    float (&to)[KERNEL * KERNEL])
{
#pragma unroll
    for (int k = 0; k < KERNEL * KERNEL; k++) {
        to[k] = w[flipped ? KERNEL * KERNEL - 1 - k : k];
    }
}

/* The windows of a strip in a plane x. */
struct window {
    const float *x;
    int32_t h, w, top, left;
};

template <int KERNEL, int STRIDE>
static __device__ __forceinline__ void slide(const struct window &v,
                                             const float (&w)[KERNEL * KERNEL], float (&sum)[ROWS])
{
    constexpr int rows = (ROWS - 1) * STRIDE + KERNEL;
#pragma unroll
    for (int r = 0; r < rows; r++) {
        float x[KERNEL];
#pragma unroll
        for (int k = 0; k < KERNEL; k++) {
            x[k] = at_or_zero(v.x, v.top + r, v.left + k, v.h, v.w);
        }
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            const int kh = r - o * STRIDE;
            if (kh >= 0 && kh < KERNEL) {
#pragma unroll
                for (int k = 0; k < KERNEL; k++) {
                    sum[o] = fmaf(w[kh * KERNEL + k], x[k], sum[o]);
                }
            }
        }
    }
}

static __device__ __forceinline__ void store(float *y, const struct strip &s, int32_t h, int32_t w,
                                             const float (&sum)[ROWS], bool accumulate)
{
#pragma unroll
    for (int o = 0; o < ROWS; o++) {
        if (s.row + o < h) {
            float *to = y + (s.row + o) * w + s.column;
            *to = accumulate ? *to + sum[o] : sum[o];
        }
    }
}

template <int KERNEL, int STRIDE>
static __global__ void __launch_bounds__(BLOCK) fw_kernel(struct uw_conv c, struct strips all)
{
    for (uint32_t i = blockIdx.x * BLOCK + threadIdx.x; i < all.all; i += gridDim.x * BLOCK) {
        const struct strip s = strip_of(all, i);
        uint32_t image = uw_quotient(all.channels, s.plane);
        uint32_t co = s.plane - image * all.channels.by, ci = co / c.group_out;
        float w[KERNEL * KERNEL], sum[ROWS];
        load_weights<KERNEL>(c.w + static_cast<size_t>(co) * KERNEL * KERNEL, false, w);
        float bias = c.b != nullptr ? c.b[co] : 0.0f;
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            sum[o] = bias;
        }
        struct window v = {c.x + (static_cast<size_t>(image) * c.groups + ci) * c.in_hw, c.in_h,
                           c.in_w, s.row * STRIDE - c.pad_h, s.column * STRIDE - c.pad_w};
        slide<KERNEL, STRIDE>(v, w, sum);
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            sum[o] = uw_conv_cut(c, sum[o]);
        }
        store(c.y + static_cast<size_t>(s.plane) * c.out_hw, s, c.out_h, c.out_w, sum,
              c.accumulate);
    }
}

/* dx with a stride of 2. Only taps of one parity per direction reach an element. For the strip's
 * first row it is ODD, which depends on the padding only; for the column it differs by thread and
 * selects among the weights. */
template <int KERNEL, int ODD>
static __device__ __forceinline__ void gather(const struct uw_conv &c, const float *dy,
                                              const struct strip &s,
                                              const float (&w)[KERNEL * KERNEL],
                                              float (&sum)[ROWS])
{
    static_assert(KERNEL % 2 == 1 && ROWS % 2 == 0, "strips begin at even rows");
    constexpr int slots = (KERNEL + 1) / 2, rows = (KERNEL - 1 - ODD + ROWS - 1) / 2 + 1;
    const int32_t at = s.column + c.pad_w, odd = at & 1;
    /* Both dividends are even. */
    const int32_t top = (s.row + c.pad_h - (KERNEL - 1) + ODD) / 2;
    const int32_t left = (at - (KERNEL - 1) + odd) / 2;
    float by[KERNEL][slots];
#pragma unroll
    for (int k = 0; k < KERNEL * slots; k++) {
        const int kh = k / slots, j = k % slots, kw = KERNEL - 1 - 2 * j;
        by[kh][j] = odd == 0 ? w[kh * KERNEL + kw] : kw > 0 ? w[kh * KERNEL + kw - 1] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < rows; i++) {
        float g[slots];
#pragma unroll
        for (int j = 0; j < slots; j++) {
            bool on = odd == 0 || j + 1 < slots;
            g[j] = on ? at_or_zero(dy, top + i, left + j, c.out_h, c.out_w) : 0.0f;
        }
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            const int kh = KERNEL - 1 - ODD + o - 2 * i;
            if (kh >= 0 && kh < KERNEL) {
#pragma unroll
                for (int j = 0; j < slots; j++) {
                    sum[o] = fmaf(by[kh][j], g[j], sum[o]);
                }
            }
        }
    }
}

template <int KERNEL, int STRIDE>
static __global__ void __launch_bounds__(BLOCK) bw_input_kernel(struct uw_conv c, struct strips all)
{
    for (uint32_t i = blockIdx.x * BLOCK + threadIdx.x; i < all.all; i += gridDim.x * BLOCK) {
        const struct strip s = strip_of(all, i);
        uint32_t image = uw_quotient(all.channels, s.plane), ci = s.plane - image * c.groups;
        float w[KERNEL * KERNEL], sum[ROWS] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t m = 0; m < c.group_out; m++) {
            uint32_t co = ci * c.group_out + m;
            const float *dy = c.dy + (static_cast<size_t>(image) * c.groups * c.group_out + co) *
                                         c.out_hw;
            load_weights<KERNEL>(c.w + static_cast<size_t>(co) * KERNEL * KERNEL, STRIDE == 1, w);
            if constexpr (STRIDE == 1) { /* forward with the kernel reversed */
                struct window v = {dy, c.out_h, c.out_w, s.row + c.pad_h - (KERNEL - 1),
                                   s.column + c.pad_w - (KERNEL - 1)};
                slide<KERNEL, 1>(v, w, sum);
            } else if (c.pad_h % 2 == 0) {
                gather<KERNEL, 0>(c, dy, s, w, sum);
            } else {
                gather<KERNEL, 1>(c, dy, s, w, sum);
            }
        }
        store(c.y + static_cast<size_t>(s.plane) * c.in_hw, s, c.in_h, c.in_w, sum, c.accumulate);
    }
}

/* sum[tap] += the products of up to ROWS outputs of one column; the last sum is for the bias. */
template <int KERNEL, int STRIDE>
static __device__ __forceinline__ void correlate(const struct window &v, const float (&dy)[ROWS],
                                                 int32_t outs, float (&sum)[KERNEL * KERNEL + 1])
{
    constexpr int rows = (ROWS - 1) * STRIDE + KERNEL;
#pragma unroll
    for (int r = 0; r < rows; r++) {
        float x[KERNEL];
#pragma unroll
        for (int k = 0; k < KERNEL; k++) {
            x[k] = at_or_zero(v.x, v.top + r, v.left + k, v.h, v.w);
        }
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            const int kh = r - o * STRIDE;
            if (kh >= 0 && kh < KERNEL && o < outs) {
#pragma unroll
                for (int k = 0; k < KERNEL; k++) {
                    sum[kh * KERNEL + k] = fmaf(dy[o], x[k], sum[kh * KERNEL + k]);
                }
            }
        }
    }
#pragma unroll
    for (int o = 0; o < ROWS; o++) {
        sum[KERNEL * KERNEL] += dy[o];
    }
}

/* Store a channel's sum k, or this split's part of it. */
template <int KERNEL>
static __device__ __forceinline__ void store_sum(const struct uw_conv &c, float *partials,
                                                 uint32_t splits, uint32_t co, uint32_t split,
                                                 int k, float sum)
{
    constexpr int taps = KERNEL * KERNEL;
    if (splits > 1) {
        partials[(static_cast<size_t>(co) * splits + split) * (taps + 1) + k] = sum;
    } else if (k < taps) {
        c.y[static_cast<size_t>(co) * taps + k] += c.scale * sum;
    } else if (c.db != nullptr) {
        c.db[co] += c.scale * sum;
    }
}

/* grid = (output channels, splits); `all` counts columns, strips and images */
template <int KERNEL, int STRIDE>
static __global__ void __launch_bounds__(BLOCK)
    bw_param_kernel(struct uw_conv c, struct strips all, float *partials, uint32_t *tickets)
{
    constexpr int sums = KERNEL * KERNEL + 1;
    __shared__ float part[BLOCK / UW_LANES][sums];
    const uint32_t co = blockIdx.x, ci = co / c.group_out;
    const size_t outs = static_cast<size_t>(c.groups) * c.group_out;
    float sum[sums];
#pragma unroll
    for (int k = 0; k < sums; k++) {
        sum[k] = 0.0f;
    }
    for (uint32_t i = blockIdx.y * BLOCK + threadIdx.x; i < all.all; i += gridDim.y * BLOCK) {
        const struct strip s = strip_of(all, i);
        const float *from = c.dy + (s.plane * outs + co) * c.out_hw;
        float dy[ROWS];
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            dy[o] = s.row + o < c.out_h ? from[(s.row + o) * c.out_w + s.column] : 0.0f;
        }
        struct window v = {c.x + (static_cast<size_t>(s.plane) * c.groups + ci) * c.in_hw, c.in_h,
                           c.in_w, s.row * STRIDE - c.pad_h, s.column * STRIDE - c.pad_w};
        correlate<KERNEL, STRIDE>(v, dy, c.out_h - s.row, sum);
    }
#pragma unroll
    for (int k = 0; k < sums; k++) {
        float all_lanes = uw_warp_sum(sum[k]);
        if (threadIdx.x % UW_LANES == 0) {
            part[threadIdx.x / UW_LANES][k] = all_lanes;
        }
    }
    __syncthreads();
    if (threadIdx.x < sums) {
        float total = 0.0f;
        for (unsigned warp = 0; warp < BLOCK / UW_LANES; warp++) {
            total += part[warp][threadIdx.x];
        }
        store_sum<KERNEL>(c, partials, gridDim.y, co, blockIdx.y, static_cast<int>(threadIdx.x),
                          total);
    }
    if (gridDim.y == 1 || !uw_last_block(tickets + co, gridDim.y) || threadIdx.x >= sums) {
        return;
    }
    float total = 0.0f;
    for (uint32_t s = 0; s < gridDim.y; s++) {
        total += __ldcg(partials + (static_cast<size_t>(co) * gridDim.y + s) * sums + threadIdx.x);
    }
    store_sum<KERNEL>(c, nullptr, 1, co, 0, static_cast<int>(threadIdx.x), total);
}

bool uw_depthwise_takes(const struct uw_conv2d *c)
{
    return c->groups == c->in_channels && c->kernel_h == c->kernel_w &&
           (c->kernel_h == 3 || c->kernel_h == 5) && c->stride_h == c->stride_w &&
           (c->stride_h == 1 || c->stride_h == 2) && c->dilation_h == 1 && c->dilation_w == 1;
}

/* kernel<3, 1>, kernel<3, 2>, kernel<5, 1> or kernel<5, 2> */
#define OF_SHAPE(kernel, c)                                                                       \
    ((c).kernel_h == 3 ? ((c).stride_h == 1 ? kernel<3, 1> : kernel<3, 2>)                        \
                       : ((c).stride_h == 1 ? kernel<5, 1> : kernel<5, 2>))

int uw_depthwise_fw(const struct uw_exec *e, const struct uw_conv &c)
{
    uint32_t channels = c.groups * c.group_out;
    struct strips all = strips_of(c.out_h, c.out_w, channels, c.batch_n * channels);
    return uw_launch(e, uw_grid(e, all.all, 1), BLOCK, OF_SHAPE(fw_kernel, c), c, all);
}

int uw_depthwise_bw_input(const struct uw_exec *e, const struct uw_conv &c)
{
    struct strips all = strips_of(c.in_h, c.in_w, c.groups, c.batch_n * c.groups);
    return uw_launch(e, uw_grid(e, all.all, 1), BLOCK, OF_SHAPE(bw_input_kernel, c), c, all);
}

int uw_depthwise_bw_param(const struct uw_exec *e, const struct uw_conv &c)
{
    float *partials = static_cast<float *>(uw_cuda_of(e)->partials);
    uint32_t channels = c.groups * c.group_out, most = 4 * uw_cuda_of(e)->multiprocessors;
    struct strips all = strips_of(c.out_h, c.out_w, channels, c.batch_n);
    uint32_t splits = channels < most ? (most + channels - 1) / channels : 1;
    uint32_t useful = (all.all + 2 * BLOCK - 1) / (2 * BLOCK);
    splits = splits < useful ? splits : useful;
    splits = splits < SPLITS_MAX ? splits : SPLITS_MAX;
    splits = channels <= UW_CUDA_TICKETS ? splits : 1;
    return uw_launch(e, dim3(channels, splits), BLOCK, OF_SHAPE(bw_param_kernel, c), c, all,
                     partials, uw_cuda_of(e)->tickets);
}
