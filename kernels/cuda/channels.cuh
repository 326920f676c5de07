/* SPDX-License-Identifier: Apache-2.0
 *
 * channels.cuh - loops and sums over the values of one channel of [N][C][inner]
 *
 * A channel is processed by one block, or by `splits` of them; threads take vectors of `width`
 * floats in turn, with several loads in flight. Sums are in fp32 over a chunk of up to 16 values,
 * then in double; the order of sums depends on struct uw_channel_cut only: the same bits each time.
 *
 * grid = (channels, splits), block = threads, a multiple of 32.
 */
#ifndef UW_KERNELS_CUDA_CHANNELS_CUH
#define UW_KERNELS_CUDA_CHANNELS_CUH

#include "floats.cuh"
#include "reduce.cuh"

#define UW_SPLITS_MAX 64u

struct uw_channel_cut {
    uint32_t channels, width, threads, splits;
    size_t vectors;             /* of a plane: inner / width */
    size_t all, per_split;      /* vectors of a channel, of one of its blocks */
    size_t step_n, step_j;      /* `threads` vectors are step_n planes and step_j vectors */
};

static inline bool uw_aligned(const void *p)
{
    return reinterpret_cast<uintptr_t>(p) % 16u == 0;
}

/* Vectors of four where planes and addresses are aligned. A channel of up to one_block values gets
 * one block; larger ones are split until the GPU is full. splits_max 1: never split; above
 * UW_SPLITS_MAX: for elementwise kernels, without sums. Those, and split ones, have blocks of at
 * most 512 threads, since more would have too few registers. */
static inline struct uw_channel_cut uw_cut_channels(const struct uw_exec *e, uint32_t batch_n,
                                                    uint32_t channels, size_t inner, bool aligned,
                                                    size_t one_block, unsigned splits_max)
{
    struct uw_channel_cut c;
    c.channels = channels;
    c.width = aligned && inner % 4 == 0 ? 4 : 1;
    c.vectors = inner / c.width;
    c.all = c.vectors * batch_n;
    size_t each = c.width == 4 ? 4 : 8, most = 4u * uw_cuda_of(e)->multiprocessors;
    size_t splits = 1;
    if (c.all * c.width > one_block) {
        splits = (most + channels - 1) / channels;
        splits = splits < splits_max ? splits : splits_max;
        size_t useful = (c.all + 256 * each - 1) / (256 * each);
        splits = splits < useful ? splits : useful;
    }
    c.per_split = (c.all + splits - 1) / splits;
    c.splits = static_cast<uint32_t>((c.all + c.per_split - 1) / c.per_split);
    unsigned threads = UW_LANES, threads_max = 1024;
    if (splits > 1 || splits_max > UW_SPLITS_MAX) {
        threads_max = 512;
    }
    while (threads < threads_max && threads * each < c.per_split) {
        threads *= 2;
    }
    c.threads = threads;
    c.step_n = threads / c.vectors;
    c.step_j = threads % c.vectors;
    return c;
}

static inline dim3 uw_channel_grid(const struct uw_channel_cut &c)
{
    return dim3(c.channels, c.splits);
}

/* Call body.use(body.load(at), at, n) for each vector of the block, `at` being its offset and n its
 * image, and body.fold() after each chunk. */
template <int W, typename Body>
static __device__ __forceinline__ void uw_each_vector(const struct uw_channel_cut &c, Body &body)
{
    constexpr unsigned in_flight = W == 4 ? 4 : 8;
    size_t begin = c.per_split * blockIdx.y, left = c.all - begin;
    size_t end = begin + (left < c.per_split ? left : c.per_split);
    size_t plane = c.vectors * W, stride = plane * c.channels;
    size_t i = begin + threadIdx.x, n, j;
    if (c.all <= 0xffffffffu) {
        n = static_cast<uint32_t>(i) / static_cast<uint32_t>(c.vectors);
        j = static_cast<uint32_t>(i) - static_cast<uint32_t>(n) * static_cast<uint32_t>(c.vectors);
    } else {
        n = i / c.vectors;
        j = i % c.vectors;
    }
    const size_t step = c.step_n * stride + c.step_j * W, wrap = stride - plane;
    size_t next = plane * blockIdx.x + n * stride + j * W;
    for (; i < end; i += static_cast<size_t>(in_flight) * blockDim.x) {
        typename Body::item item[in_flight] = {};
        size_t at[in_flight], image[in_flight];
        const size_t rest = end - i;
        const uint32_t left = rest < 0xffffffffu ? static_cast<uint32_t>(rest) : 0xffffffffu;
#pragma unroll
        for (unsigned u = 0; u < in_flight; u++) {
            at[u] = next;
            image[u] = n;
            if (u * blockDim.x < left) {
                item[u] = body.load(at[u]);
            }
            n += c.step_n;
            j += c.step_j;
            next += step;
            if (j >= c.vectors) {
                j -= c.vectors;
                n++;
                next += wrap;
            }
        }
#pragma unroll
        for (unsigned u = 0; u < in_flight; u++) {
            if (u * blockDim.x < left) {
                body.use(item[u], at[u], image[u]);
            }
        }
        body.fold();
    }
}

/* Sums of v[k] over a warp, for all its lanes. */
template <int N> static __device__ __forceinline__ void uw_warp_sums(double (&v)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        v[k] = uw_warp_sum(v[k]);
    }
}

/* Sums of v[k] over a one-dimensional block, for all its threads. One warp does most additions: on
 * GPUs with few units for double, repeating them in every warp, as uw_block_sum does, is slow. */
template <int N> static __device__ __forceinline__ void uw_block_sums(double (&v)[N])
{
    constexpr unsigned half = UW_LANES / 2, at_once = 4;
    __shared__ double part[N][UW_WARPS * half];
    const unsigned lane = threadIdx.x % UW_LANES, n = blockDim.x / 2;
    if (blockDim.x == UW_LANES) {
        uw_warp_sums(v);
        return;
    }
    __syncthreads(); /* other threads may still read part from the previous call */
#pragma unroll
    for (int k = 0; k < N; k++) {
        v[k] += __shfl_xor_sync(UW_ALL_LANES, v[k], static_cast<int>(half));
        if (lane < half) {
            part[k][threadIdx.x / UW_LANES * half + lane] = v[k];
        }
    }
    __syncthreads();
    if (threadIdx.x < UW_LANES) {
        double some[N][at_once] = {};
        for (unsigned i = lane; i < n; i += at_once * UW_LANES) {
#pragma unroll
            for (unsigned u = 0; u < N * at_once; u++) {
                const unsigned at = i + u % at_once * UW_LANES;
                some[u / at_once][u % at_once] += at < n ? part[u / at_once][at] : 0.0;
            }
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            v[k] = (some[k][0] + some[k][1]) + (some[k][2] + some[k][3]);
        }
        uw_warp_sums(v);
        for (int k = 0; k < N && lane == 0; k++) {
            part[k][0] = v[k];  /* lane 0 has read its old value */
        }
    }
    __syncthreads();
    for (int k = 0; k < N; k++) {
        v[k] = part[k][0];
    }
}

/* Add the partial sums of a channel's blocks, [channels][splits][N], by one warp, for all lanes. */
template <int N>
static __device__ __forceinline__ void uw_add_splits(const double *partials, uint32_t channel,
                                                     uint32_t splits, double (&v)[N])
{
    const double *from = partials + static_cast<size_t>(channel) * splits * N;
    for (int k = 0; k < N; k++) {
        v[k] = 0.0;
    }
    for (uint32_t s = threadIdx.x % UW_LANES; s < splits; s += UW_LANES) {
        for (int k = 0; k < N; k++) {
            v[k] += __ldcg(from + s * N + k);
        }
    }
    uw_warp_sums(v);
}

#endif
