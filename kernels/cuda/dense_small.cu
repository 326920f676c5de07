/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense layers for few samples: weights are read once for eight of them, in vectors if aligned. The
 * order of sums depends on the shape only, not on the GPU; they are written as fma, so that the
 * fused launch of all gradients has the same bits as separate ones. */
#include "dense_small.h"

#include "launch.cuh"

#define SAMPLES_MAX 64u
#define AT_ONCE 8u              /* samples that share one read of a weight */
#define WARP 32u
#define FEW_WEIGHTS (1u << 18)  /* they fit in the cache */

bool uw_dense_small_takes(const struct uw_dense *d, uint32_t batch_n)
{
    uint64_t weights = static_cast<uint64_t>(d->in) * d->out;
    return batch_n >= 1 && batch_n <= SAMPLES_MAX && weights >= 1 &&
           (batch_n <= AT_ONCE || weights <= FEW_WEIGHTS);
}

/* Four floats, at an aligned address, or one. */
template <unsigned V> struct lanes;
template <> struct lanes<1> {
    float v[1];
    __device__ void load(const float *p) { v[0] = *p; }
    __device__ void store(float *p) const { *p = v[0]; }
};
template <> struct lanes<4> {
    float v[4];
    __device__ void load(const float *p)
    {
        float4 f = *reinterpret_cast<const float4 *>(p);
        v[0] = f.x;
        v[1] = f.y;
        v[2] = f.z;
        v[3] = f.w;
    }
    __device__ void store(float *p) const
    {
        float4 f;
        f.x = v[0];
        f.y = v[1];
        f.z = v[2];
        f.w = v[3];
        *reinterpret_cast<float4 *>(p) = f;
    }
};

static bool in_fours(uint32_t n, const void *a, const void *b)
{
    return n % 4u == 0 && (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 16u ==
                              0;
}

/* dy after the backward pass of a ReLU with output y; y NULL: no ReLU. */
struct masked {
    const float *dy, *y;
    float ceiling;
    __device__ float at(size_t i) const
    {
        float d = dy[i];
        if (y != nullptr) {
            d = y[i] > 0.0f && y[i] < ceiling ? d : 0.0f;
        }
        return d;
    }
};

/* v, or with a ceiling above 0 clamped to 0 .. ceiling; NaN stays NaN. */
static __device__ float clamped(float v, float ceiling)
{
    float up = v <= 0.0f ? 0.0f : v;
    return ceiling > 0.0f ? up >= ceiling ? ceiling : up : v;
}

/* y[n][o] = b[o] + sum over i of x[n][i] w[o][i], `warps` warps of a block per o. */
template <unsigned N, unsigned V>
static __global__ void __launch_bounds__(UW_BLOCK)
    dense_fw(struct uw_dense d, uint32_t batch_n, unsigned warps, const float *x, const float *w,
             const float *b, float ceiling, float *y)
{
    __shared__ float partial[UW_BLOCK / WARP][N];
    batch_n -= blockIdx.y * N; /* N samples per row of blocks */
    x += static_cast<size_t>(blockIdx.y) * N * d.in;
    y += static_cast<size_t>(blockIdx.y) * N * d.out;
    unsigned warp = threadIdx.x / WARP, rows = UW_BLOCK / WARP / warps;
    unsigned lane = threadIdx.x % (WARP * warps);
    for (size_t first = static_cast<size_t>(blockIdx.x) * rows; first < d.out;
         first += static_cast<size_t>(gridDim.x) * rows) {
        size_t o = first + warp / warps;
        float sum[N] = {};
        for (size_t i = lane * V; i < d.in && o < d.out; i += WARP * warps * V) {
            struct lanes<V> weight, value;
            weight.load(w + o * d.in + i);
            for (unsigned n = 0; n < N; n++) {
                value.load(x + (n < batch_n ? n : 0) * static_cast<size_t>(d.in) + i);
                for (unsigned v = 0; v < V; v++) {
                    sum[n] = fmaf(weight.v[v], value.v[v], sum[n]);
                }
            }
        }
        for (unsigned n = 0; n < N; n++) {
            for (unsigned step = WARP / 2; step > 0; step /= 2) {
                sum[n] += __shfl_xor_sync(0xffffffffu, sum[n], static_cast<int>(step));
            }
            if (threadIdx.x % WARP == 0) {
                partial[warp][n] = sum[n];
            }
        }
        __syncthreads();
        unsigned row = threadIdx.x / N, n = threadIdx.x % N;
        if (row < rows && first + row < d.out && n < batch_n) {
            float all = 0.0f;
            for (unsigned i = 0; i < warps; i++) {
                all += partial[row * warps + i][n];
            }
            all = b != nullptr ? all + b[first + row] : all;
            y[static_cast<size_t>(n) * d.out + first + row] = clamped(all, ceiling);
        }
        __syncthreads();
    }
}

/* dx[n][i] = sum over o of dy[n][o] w[o][i]; a warp has 32 columns, and rows are divided among the
 * warps. The block is (column, part) of (columns / 32, minibatch / N) blocks. */
template <unsigned N>
static __device__ __forceinline__ void
input_share(const struct uw_dense &d, uint32_t batch_n, const struct masked &g, const float *w,
            float *dx, bool accumulate, unsigned column, unsigned part, float *partial)
{
    unsigned slices = blockDim.y, slice = threadIdx.y;
    const size_t skip = static_cast<size_t>(part) * N;
    batch_n -= part * N;
    dx += skip * d.in;
    size_t i = static_cast<size_t>(column) * WARP + threadIdx.x;
    float sum[N] = {};
#pragma unroll 4
    for (size_t o = slice; o < d.out; o += slices) {
        float weight = i < d.in ? w[o * d.in + i] : 0.0f;
        for (unsigned n = 0; n < N; n++) {
            sum[n] = fmaf(g.at((skip + (n < batch_n ? n : 0)) * d.out + o), weight, sum[n]);
        }
    }
    for (unsigned n = 0; n < N; n++) {
        partial[(n * slices + slice) * WARP + threadIdx.x] = sum[n];
    }
    __syncthreads();
    unsigned n = slice; /* there are at least N slices */
    if (n < N && n < batch_n && i < d.in) {
        float all = 0.0f;
        for (unsigned s = 0; s < slices; s++) {
            all += partial[(n * slices + s) * WARP + threadIdx.x];
        }
        float *to = dx + static_cast<size_t>(n) * d.in + i;
        *to = accumulate ? *to + all : all;
    }
}

template <unsigned N>
static __global__ void __launch_bounds__(N > 4 ? 512 : 1024) /* 8 samples need more registers */
    dense_bw_input(struct uw_dense d, uint32_t batch_n, const float *dy, const float *w, float *dx,
                   bool accumulate)
{
    UW_DYNAMIC_SHARED(float, partial); /* [N][slices][WARP] */
    const struct masked g = {dy, nullptr, 0.0f};
    input_share<N>(d, batch_n, g, w, dx, accumulate, blockIdx.x, blockIdx.y, partial);
}

/* w[o][i] = keep w[o][i] + scale * sum over n of dy[n][o] x[n][i]; blocks of column 0 also compute
 * b. The block is at (column, row) of a grid of `rows` rows. */
template <unsigned V>
static __device__ __forceinline__ void
param_share(const struct uw_dense &d, uint32_t batch_n, const float *x, const struct masked &g,
            float keep, float scale, float *w, float *b, unsigned column, unsigned row,
            unsigned rows)
{
    size_t i = (static_cast<size_t>(column) * blockDim.x + threadIdx.x) * V;
    if (i >= d.in) {
        return;
    }
    for (size_t o = static_cast<size_t>(row) * blockDim.y + threadIdx.y; o < d.out;
         o += static_cast<size_t>(rows) * blockDim.y) {
        struct lanes<V> weight, value, sum = {};
        float bias = 0.0f;
        weight.load(w + o * d.in + i);
#pragma unroll 8
        for (unsigned n = 0; n < batch_n; n++) {
            float of = g.at(static_cast<size_t>(n) * d.out + o);
            value.load(x + static_cast<size_t>(n) * d.in + i);
            bias += of;
            for (unsigned v = 0; v < V; v++) {
                sum.v[v] = fmaf(of, value.v[v], sum.v[v]);
            }
        }
        for (unsigned v = 0; v < V; v++) {
            weight.v[v] = fmaf(scale, sum.v[v], keep * weight.v[v]); /* two roundings */
        }
        weight.store(w + o * d.in + i);
        if (b != nullptr && i == 0) {
            b[o] = fmaf(scale, bias, keep * b[o]);
        }
    }
}

template <unsigned V>
static __global__ void __launch_bounds__(UW_BLOCK)
    dense_bw_param(struct uw_dense d, uint32_t batch_n, const float *x, const float *dy,
                   float keep, float scale, float *w, float *b)
{
    const struct masked g = {dy, nullptr, 0.0f};
    param_share<V>(d, batch_n, x, g, keep, scale, w, b, blockIdx.x, blockIdx.y, gridDim.y);
}

/* The grid of a launch for all gradients: the first blocks compute dx, the others dw and db. */
struct both {
    unsigned input_columns, inputs, param_columns, param_rows;
};

template <unsigned N, unsigned V>
static __global__ void __launch_bounds__(N > 4 ? 512 : 1024)
    dense_bw(struct uw_dense d, uint32_t batch_n, struct both s, const float *x, struct masked g,
             const float *w, float *dx, bool accumulate, float *dw, float *db)
{
    UW_DYNAMIC_SHARED(float, partial); /* [N][slices][WARP] */
    if (blockIdx.x < s.inputs) {
        input_share<N>(d, batch_n, g, w, dx, accumulate, blockIdx.x % s.input_columns,
                       blockIdx.x / s.input_columns, partial);
        return;
    }
    unsigned i = blockIdx.x - s.inputs;
    param_share<V>(d, batch_n, x, g, 1.0f, 1.0f, dw, db, i % s.param_columns, i / s.param_columns,
                   s.param_rows);
}

/* The update of b, as in dense_bw_param. */
static __global__ void dense_bw_bias(uint32_t out, uint32_t batch_n, const float *dy, float keep,
                                     float scale, float *b)
{
    UW_EACH(o, out) {
        float bias = 0.0f;
        for (unsigned n = 0; n < batch_n; n++) {
            bias += dy[static_cast<size_t>(n) * out + o];
        }
        b[o] = fmaf(scale, bias, keep * b[o]);
    }
}

template <unsigned N>
static int fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n, const float *x,
              const float *w, const float *b, float ceiling, float *y)
{
    unsigned most = UW_BLOCK / WARP, warps = 1;
    bool fours = in_fours(d->in, x, w);
    unsigned each = WARP * (fours ? 4u : 1u) * 2u;  /* at least two loads per thread */
    while (warps < most && warps * each < d->in && (warps < 2 || d->out / most * warps < 1024)) {
        warps *= 2;
    }
    unsigned rows = most / warps;
    dim3 grid(uw_grid(e, static_cast<size_t>((d->out + rows - 1u) / rows) * UW_BLOCK, 1),
              (batch_n + N - 1u) / N);
    return fours ? uw_launch(e, grid, UW_BLOCK, dense_fw<N, 4>, *d, batch_n, warps, x, w, b,
                             ceiling, y)
                 : uw_launch(e, grid, UW_BLOCK, dense_fw<N, 1>, *d, batch_n, warps, x, w, b,
                             ceiling, y);
}

int uw_dense_small_fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float ceiling, float *y)
{
    return batch_n == 1   ? fw<1>(e, d, batch_n, x, w, b, ceiling, y)
           : batch_n == 2 ? fw<2>(e, d, batch_n, x, w, b, ceiling, y)
           : batch_n <= 4 ? fw<4>(e, d, batch_n, x, w, b, ceiling, y)
                          : fw<8>(e, d, batch_n, x, w, b, ceiling, y);
}

/* Warps of a block that computes dx of N samples at a time. */
template <unsigned N> static unsigned slices_of(const struct uw_dense *d)
{
    return d->out < 128 ? AT_ONCE : N > 4 ? 16u : 32u;
}

template <unsigned N>
static int bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *dy, const float *w, float *dx, bool accumulate)
{
    unsigned slices = slices_of<N>(d);
    dim3 grid((d->in + WARP - 1u) / WARP, (batch_n + N - 1u) / N), threads(WARP, slices);
    return uw_launch_shared(e, grid, threads, N * slices * WARP * sizeof(float),
                            dense_bw_input<N>, *d, batch_n, dy, w, dx, accumulate);
}

int uw_dense_small_bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate)
{
    return batch_n == 1   ? bw_input<1>(e, d, batch_n, dy, w, dx, accumulate)
           : batch_n == 2 ? bw_input<2>(e, d, batch_n, dy, w, dx, accumulate)
           : batch_n <= 4 ? bw_input<4>(e, d, batch_n, dy, w, dx, accumulate)
                          : bw_input<8>(e, d, batch_n, dy, w, dx, accumulate);
}

/* Blocks of dw: columns of 32 vectors; rows, at_once per block and iteration. */
static dim3 param_grid(const struct uw_exec *e, const struct uw_dense *d, bool fours,
                       unsigned at_once)
{
    unsigned columns = fours ? d->in / 4u : d->in;
    dim3 grid((columns + WARP - 1u) / WARP);
    unsigned rows = (d->out + at_once - 1u) / at_once;
    unsigned most = uw_cuda_of(e)->multiprocessors * 16u / grid.x + 1u;
    grid.y = rows < most ? rows : most;
    return grid;
}

int uw_dense_small_bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *x, const float *dy, float keep, float scale, float *w,
                            float *b)
{
    bool fours = in_fours(d->in, x, w);
    dim3 threads(WARP, UW_BLOCK / WARP), grid = param_grid(e, d, fours, threads.y);
    return fours ? uw_launch(e, grid, threads, dense_bw_param<4>, *d, batch_n, x, dy, keep, scale,
                             w, b)
                 : uw_launch(e, grid, threads, dense_bw_param<1>, *d, batch_n, x, dy, keep, scale,
                             w, b);
}

template <unsigned N>
static int bw(const struct uw_exec *e, const struct uw_dense *d, const struct uw_dense_back *b)
{
    unsigned slices = slices_of<N>(d);
    bool fours = in_fours(d->in, b->x, b->dw);
    const dim3 param = param_grid(e, d, fours, slices), threads(WARP, slices);
    struct both s;
    s.input_columns = (d->in + WARP - 1u) / WARP;
    s.inputs = b->dx != nullptr ? s.input_columns * ((b->batch_n + N - 1u) / N) : 0;
    s.param_columns = param.x;
    s.param_rows = param.y;
    const struct masked g = {b->dy, b->y, b->ceiling};
    return uw_launch_shared(e, s.inputs + param.x * param.y, threads,
                            b->dx != nullptr ? N * slices * WARP * sizeof(float) : 0,
                            fours ? dense_bw<N, 4> : dense_bw<N, 1>, *d, b->batch_n, s, b->x, g,
                            b->w, b->dx, b->accumulate, b->dw, b->db);
}

int uw_dense_small_bw(const struct uw_exec *e, const struct uw_dense *d,
                      const struct uw_dense_back *b)
{
    return b->batch_n == 1   ? bw<1>(e, d, b)
           : b->batch_n == 2 ? bw<2>(e, d, b)
           : b->batch_n <= 4 ? bw<4>(e, d, b)
                             : bw<8>(e, d, b);
}

int uw_dense_small_bw_bias(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, float keep, float scale, float *b)
{
    return uw_launch(e, uw_grid(e, d->out, 1), UW_BLOCK, dense_bw_bias, d->out, batch_n, dy, keep,
                     scale, b);
}
