/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases and their gradients. Planes of one value (dense layers) go by columns: neighbouring
 * threads take neighbouring channels. */
#include "channels.cuh"

#define ROWS 8u         /* of a block that goes by columns, 32 columns wide */

/* One block's share of a channel: y += b. */
template <int W> struct bias_body {
    typedef uw_floats<W> item;
    float b;
    float *y;

    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(y + at);
    }
    __device__ __forceinline__ void use(item v, size_t at, size_t n)
    {
        (void)n;
        for (int k = 0; k < W; k++) {
            v.v[k] += b;
        }
        uw_store<W>(y + at, v);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

template <int W>
static __global__ void add_kernel(struct uw_channel_cut cut, const float *b, float *y)
{
    bias_body<W> body = {b[blockIdx.x], y};
    uw_each_vector<W>(cut, body);
}

static __global__ void add_columns_kernel(size_t n, uint32_t channels, const float *b, float *y)
{
    UW_EACH(i, n) {
        y[i] += b[i % channels];
    }
}

int uw_add_channels_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                         size_t inner_n, const float *b, float *y)
{
    size_t n = static_cast<size_t>(batch_n) * channels * inner_n;
    if (n == 0) {
        return UW_OK;
    }
    if (inner_n == 1) {
        return uw_launch(e, uw_grid(e, n, 1), UW_BLOCK, add_columns_kernel, n, channels, b, y);
    }
    struct uw_channel_cut cut = uw_cut_channels(e, batch_n, channels, inner_n, uw_aligned(y), 4096,
                                                65535u);
    if (cut.width == 4) {
        return uw_launch(e, uw_channel_grid(cut), cut.threads, add_kernel<4>, cut, b, y);
    }
    return uw_launch(e, uw_channel_grid(cut), cut.threads, add_kernel<1>, cut, b, y);
}

template <int W> struct sum_body {
    typedef uw_floats<W> item;
    const float *dy;
    float chunk;
    double sum;

    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(dy + at);
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)at;
        (void)n;
        for (int k = 0; k < W; k++) {
            chunk += v.v[k];
        }
    }
    __device__ __forceinline__ void fold()
    {
        sum += static_cast<double>(chunk);
        chunk = 0.0f;
    }
};

template <int W>
static __global__ void __launch_bounds__(1024)
    sum_kernel(struct uw_channel_cut cut, const float *dy, float scale, float *db,
               double *partials)
{
    sum_body<W> body = {dy, 0.0f, 0.0};
    uw_each_vector<W>(cut, body);
    double total[1] = {body.sum};
    uw_block_sums(total);
    if (threadIdx.x == 0 && cut.splits == 1) {
        db[blockIdx.x] += scale * static_cast<float>(total[0]);
    } else if (threadIdx.x == 0) {
        partials[static_cast<size_t>(blockIdx.x) * cut.splits + blockIdx.y] = total[0];
    }
}

/* 32 columns and a share of the rows to a block. */
static __global__ void sum_columns_kernel(uint32_t rows, uint32_t per_split, uint32_t channels,
                                          const float *dy, float scale, float *db,
                                          double *partials)
{
    __shared__ double part[ROWS][UW_LANES];
    size_t c = static_cast<size_t>(blockIdx.x) * UW_LANES + threadIdx.x;
    size_t begin = static_cast<size_t>(blockIdx.y) * per_split;
    size_t end = begin + per_split < rows ? begin + per_split : rows;
    double sum = 0.0;
    for (size_t r = begin + threadIdx.y; r < end && c < channels; r += ROWS) {
        sum += static_cast<double>(dy[r * channels + c]);
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || c >= channels) {
        return;
    }
    for (unsigned i = 1; i < ROWS; i++) {
        sum += part[i][threadIdx.x];
    }
    if (gridDim.y == 1) {
        db[c] += scale * static_cast<float>(sum);
    } else {
        partials[c * gridDim.y + blockIdx.y] = sum;
    }
}

static __global__ void finish_kernel(uint32_t splits, float scale, float *db,
                                     const double *partials)
{
    double total[1];
    uw_add_splits(partials, blockIdx.x, splits, total);
    if (threadIdx.x == 0) {
        db[blockIdx.x] += scale * static_cast<float>(total[0]);
    }
}

static int sum_columns(const struct uw_exec *e, uint32_t rows, uint32_t channels, const float *dy,
                       float scale, float *db)
{
    double *partials = static_cast<double *>(uw_cuda_of(e)->partials);
    uint32_t blocks = (channels - 1) / UW_LANES + 1, splits = 1;
    while (rows / splits > 512 && splits < 16 &&
           blocks * splits < 2 * uw_cuda_of(e)->multiprocessors) {
        splits *= 2;
    }
    uint32_t per_split = (rows - 1) / splits + 1;
    int rc = uw_launch(e, dim3(blocks, splits), dim3(UW_LANES, ROWS), sum_columns_kernel, rows,
                       per_split, channels, dy, scale, db, partials);
    if (rc < 0 || splits == 1) {
        return rc;
    }
    return uw_launch(e, channels, UW_LANES, finish_kernel, splits, scale, db, partials);
}

int uw_sum_channels_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                         size_t inner_n, const float *dy, float scale, float *db)
{
    double *partials = static_cast<double *>(uw_cuda_of(e)->partials);
    if (batch_n == 0 || channels == 0 || inner_n == 0) {
        return UW_OK;
    }
    if (inner_n == 1) {
        return sum_columns(e, batch_n, channels, dy, scale, db);
    }
    struct uw_channel_cut cut = uw_cut_channels(e, batch_n, channels, inner_n, uw_aligned(dy),
                                                16384, UW_SPLITS_MAX);
    int rc = cut.width == 4 ? uw_launch(e, uw_channel_grid(cut), cut.threads, sum_kernel<4>, cut,
                                        dy, scale, db, partials)
                            : uw_launch(e, uw_channel_grid(cut), cut.threads, sum_kernel<1>, cut,
                                        dy, scale, db, partials);
    if (rc < 0 || cut.splits == 1) {
        return rc;
    }
    return uw_launch(e, channels, UW_LANES, finish_kernel, cut.splits, scale, db, partials);
}
