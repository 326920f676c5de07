/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases and their gradients, also fused with a ReLU. With inner 1 (dense layers) adjacent threads
 * have adjacent channels (columns). */
#include "channels.cuh"
#include "map.cuh"

#define ROWS 8u         /* rows of a block of 32 columns */
#define IN_FLIGHT 8u    /* loads of a thread at once, summed in fp32 */

namespace {

/* Functions applied after adding the bias. */
struct uncut {
    __device__ __forceinline__ float operator()(float v) const
    {
        return v;
    }
};

struct cut_at {
    float ceiling;
    __device__ __forceinline__ float operator()(float v) const
    {
        float up = v <= 0.0f ? 0.0f : v; /* NaN stays */
        return up >= ceiling ? ceiling : up;
    }
};

/* A block's share of a channel: y = f(y + b). */
template <int W, typename F> struct bias_body {
    typedef uw_floats<W> item;
    float b;
    float *y;
    F f;

    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(y + at);
    }
    __device__ __forceinline__ void use(item v, size_t at, size_t n)
    {
        (void)n;
        for (int k = 0; k < W; k++) {
            v.v[k] = f(v.v[k] + b);
        }
        uw_store<W>(y + at, v);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

template <int W, typename F>
static __global__ void bias_kernel(struct uw_channel_cut cut, const float *b, float *y, F f)
{
    bias_body<W, F> body = {b[blockIdx.x], y, f};
    uw_each_vector<W>(cut, body);
}

template <typename F>
static __global__ void bias_columns_kernel(size_t n, uint32_t channels, const float *b, float *y,
                                           F f)
{
    UW_EACH(i, n) {
        size_t c = n <= 0xffffffffu ? static_cast<uint32_t>(i) % channels : i % channels;
        y[i] = f(y[i] + b[c]);
    }
}

struct cut_map : uw_map_plain {
    cut_at f;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = f(in[0]);
    }
};

/* in: a, b */
template <typename F> struct sum_map : uw_map_plain {
    F f;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = f(in[0] + in[1]);
    }
};

/* in: y, dy */
struct slope_map : uw_map_plain {
    float ceiling;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = in[0] > 0.0f && in[0] < ceiling ? in[1] : 0.0f;
    }
};

/* in: y, dy, and dx to add to; out: dy, dx */
template <bool ADD> struct slope_copy_map : uw_map_plain {
    float ceiling;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        float d = in[0] > 0.0f && in[0] < ceiling ? in[1] : 0.0f;
        out[0] = d;
        out[1] = ADD ? in[2] + d : d;
    }
};

} // namespace

template <typename F>
static int add_bias(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                    const float *b, float *y, const F &f)
{
    size_t n = static_cast<size_t>(batch_n) * channels * inner_n;
    if (n == 0) {
        return UW_OK;
    }
    if (inner_n == 1) {
        return uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, bias_columns_kernel<F>, n, channels, b, y,
                         f);
    }
    struct uw_channel_cut cut = uw_cut_channels(e, batch_n, channels, inner_n, uw_aligned(y), 4096,
                                                65535u);
    if (cut.width == 4) {
        return uw_launch(e, uw_channel_grid(cut), cut.threads, bias_kernel<4, F>, cut, b, y, f);
    }
    return uw_launch(e, uw_channel_grid(cut), cut.threads, bias_kernel<1, F>, cut, b, y, f);
}

int uw_add_channels_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                         size_t inner_n, const float *b, float *y)
{
    return add_bias(e, batch_n, channels, inner_n, b, y, uncut{});
}

int uw_bias_relu_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                      const float *b, float ceiling, float *y)
{
    if (b != NULL) {
        return add_bias(e, batch_n, channels, inner_n, b, y, cut_at{ceiling});
    }
    cut_map f;
    f.f.ceiling = ceiling;
    return uw_map(e, static_cast<size_t>(batch_n) * channels * inner_n,
                  uw_arrays<1, 1>{{y}, {y}}, f);
}

int uw_add_relu_cuda(const struct uw_exec *e, size_t n, const float *a, const float *b,
                     float ceiling, float *y)
{
    const uw_arrays<2, 1> arrays = {{a, b}, {y}};
    if (ceiling > 0.0f) {
        sum_map<cut_at> f;
        f.f.ceiling = ceiling;
        return uw_map(e, n, arrays, f);
    }
    return uw_map(e, n, arrays, sum_map<uncut>{});
}

namespace {

/* Destination of sums: to += scale * sum, or to = sum. */
struct sum_to {
    float scale;
    bool add;
    float *to;
    __device__ __forceinline__ void put(size_t channel, double sum) const
    {
        float s = static_cast<float>(sum);
        to[channel] = add ? to[channel] + scale * s : s;
    }
};

/* The values to sum: dy, or dy after the backward pass of a ReLU with output y, which also replaces
 * dy. */
struct plain_gradient {
    const float *dy;
    template <int W> struct item {
        uw_floats<W> dy;
    };
    template <int W> __device__ __forceinline__ item<W> load(size_t at) const
    {
        return item<W>{uw_load<W>(dy + at)};
    }
    template <int W> __device__ __forceinline__ uw_floats<W> take(const item<W> &v, size_t) const
    {
        return v.dy;
    }
};

struct masked_gradient {
    const float *y;
    float *dy;
    float ceiling;
    template <int W> struct item {
        uw_floats<W> y, dy;
    };
    template <int W> __device__ __forceinline__ item<W> load(size_t at) const
    {
        return item<W>{uw_load<W>(y + at), uw_load<W>(dy + at)};
    }
    template <int W>
    __device__ __forceinline__ uw_floats<W> take(const item<W> &v, size_t at) const
    {
        uw_floats<W> d = v.dy;
        for (int k = 0; k < W; k++) {
            d.v[k] = v.y.v[k] > 0.0f && v.y.v[k] < ceiling ? d.v[k] : 0.0f;
        }
        uw_store<W>(dy + at, d);
        return d;
    }
};

template <int W, typename G> struct sum_body {
    typedef typename G::template item<W> item;
    G g;
    float chunk;
    double sum;

    __device__ __forceinline__ item load(size_t at) const
    {
        return g.template load<W>(at);
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)n;
        uw_floats<W> d = g.template take<W>(v, at);
        for (int k = 0; k < W; k++) {
            chunk += d.v[k];
        }
    }
    __device__ __forceinline__ void fold()
    {
        sum += static_cast<double>(chunk);
        chunk = 0.0f;
    }
};

} // namespace

template <int W, typename G>
static __global__ void __launch_bounds__(1024)
    sum_kernel(struct uw_channel_cut cut, G g, struct sum_to out, double *partials,
               uint32_t *tickets)
{
    sum_body<W, G> body = {g, 0.0f, 0.0};
    uw_each_vector<W>(cut, body);
    double total[1] = {body.sum};
    uw_block_sums(total);
    if (cut.splits > 1) {
        if (threadIdx.x == 0) {
            partials[static_cast<size_t>(blockIdx.x) * cut.splits + blockIdx.y] = total[0];
        }
        if (!uw_last_block(tickets + blockIdx.x, cut.splits)) {
            return;
        }
        uw_add_splits(partials, blockIdx.x, cut.splits, total);
    }
    if (threadIdx.x == 0) {
        out.put(blockIdx.x, total[0]);
    }
}

/* Sum of a column over every ROWS-th of rows begin .. end - 1, with several loads in flight. The
 * compiler cannot reorder them itself, since g may write where it reads. */
template <typename G>
static __device__ __forceinline__ double column_sum(const G &g, size_t begin, size_t end,
                                                    uint32_t channels, size_t c)
{
    double sum = 0.0;
    for (size_t r = begin; r < end; r += ROWS * IN_FLIGHT) {
        typename G::template item<1> item[IN_FLIGHT] = {};
        float chunk = 0.0f;
#pragma unroll
        for (unsigned u = 0; u < IN_FLIGHT; u++) {
            if (r + u * ROWS < end) {
                item[u] = g.template load<1>((r + u * ROWS) * channels + c);
            }
        }
#pragma unroll
        for (unsigned u = 0; u < IN_FLIGHT; u++) {
            if (r + u * ROWS < end) {
                chunk += g.template take<1>(item[u], (r + u * ROWS) * channels + c).v[0];
            }
        }
        sum += static_cast<double>(chunk);
    }
    return sum;
}

/* A block has 32 columns and a share of the rows. */
template <typename G>
static __global__ void __launch_bounds__(ROWS *UW_LANES)
    sum_columns_kernel(uint32_t rows, uint32_t per_split, uint32_t channels, G g,
                       struct sum_to out, double *partials, uint32_t *tickets)
{
    __shared__ double part[ROWS][UW_LANES];
    size_t c = static_cast<size_t>(blockIdx.x) * UW_LANES + threadIdx.x;
    size_t begin = static_cast<size_t>(blockIdx.y) * per_split;
    size_t end = begin + per_split < rows ? begin + per_split : rows;
    const bool adds = threadIdx.y == 0 && c < channels;
    part[threadIdx.y][threadIdx.x] =
        c < channels ? column_sum(g, begin + threadIdx.y, end, channels, c) : 0.0;
    __syncthreads();
    double sum = 0.0;
    for (unsigned i = 0; i < ROWS && adds; i++) {
        sum += part[i][threadIdx.x];
    }
    if (gridDim.y > 1) {
        if (adds) {
            partials[c * gridDim.y + blockIdx.y] = sum;
        }
        if (!uw_last_block(tickets + blockIdx.x, gridDim.y)) {
            return;
        }
        sum = 0.0;
        for (unsigned s = 0; s < gridDim.y && adds; s++) {
            sum += __ldcg(partials + c * gridDim.y + s);
        }
    }
    if (adds) {
        out.put(c, sum);
    }
}

template <typename G>
static int sum_columns(const struct uw_exec *e, uint32_t rows, uint32_t channels, const G &g,
                       const struct sum_to &out)
{
    uint32_t blocks = (channels - 1) / UW_LANES + 1, splits = 1;
    while (rows / splits > 512 && splits < 16 && blocks <= UW_CUDA_TICKETS &&
           blocks * splits < 2 * uw_cuda_of(e)->multiprocessors) {
        splits *= 2;
    }
    uint32_t per_split = (rows - 1) / splits + 1;
    return uw_launch(e, dim3(blocks, splits), dim3(UW_LANES, ROWS), sum_columns_kernel<G>, rows,
                     per_split, channels, g, out, static_cast<double *>(uw_cuda_of(e)->partials),
                     uw_cuda_of(e)->tickets);
}

/* Sums over a non-empty batch. */
template <typename G>
static int sum_planes(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                      bool aligned, const G &g, const struct sum_to &out)
{
    if (inner_n == 1) {
        return sum_columns(e, batch_n, channels, g, out);
    }
    struct uw_channel_cut cut = uw_cut_channels(e, batch_n, channels, inner_n, aligned, 16384,
                                                channels <= UW_CUDA_TICKETS ? UW_SPLITS_MAX : 1);
    return uw_launch(e, uw_channel_grid(cut), cut.threads,
                     cut.width == 4 ? sum_kernel<4, G> : sum_kernel<1, G>, cut, g, out,
                     static_cast<double *>(uw_cuda_of(e)->partials), uw_cuda_of(e)->tickets);
}

int uw_sum_channels_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                         size_t inner_n, const float *dy, float scale, float *db)
{
    if (batch_n == 0 || channels == 0 || inner_n == 0) {
        return UW_OK;
    }
    return sum_planes(e, batch_n, channels, inner_n, uw_aligned(dy), plain_gradient{dy},
                      sum_to{scale, true, db});
}

int uw_relu_bw_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels, size_t inner_n,
                    float ceiling, const float *y, float *dy, float *sums)
{
    size_t n = static_cast<size_t>(batch_n) * channels * inner_n;
    if (sums != NULL && n == 0) {
        return uw_cuda_launched(e, cudaMemsetAsync(sums, 0, channels * sizeof *sums,
                                                   uw_cuda_of(e)->stream));
    }
    if (sums != NULL) {
        return sum_planes(e, batch_n, channels, inner_n, uw_aligned(y) && uw_aligned(dy),
                          masked_gradient{y, dy, ceiling}, sum_to{1.0f, false, sums});
    }
    slope_map f;
    f.ceiling = ceiling;
    return uw_map(e, n, uw_arrays<2, 1>{{y, dy}, {dy}}, f);
}

int uw_relu_bw_copy_cuda(const struct uw_exec *e, size_t n, float ceiling, const float *y,
                         float *dy, float *dx, bool accumulate)
{
    if (accumulate) {
        slope_copy_map<true> f;
        f.ceiling = ceiling;
        return uw_map(e, n, uw_arrays<3, 2>{{y, dy, dx}, {dy, dx}}, f);
    }
    slope_copy_map<false> f;
    f.ceiling = ceiling;
    return uw_map(e, n, uw_arrays<2, 2>{{y, dy}, {dy, dx}}, f);
}
