/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.cuh - sums and maxima over a warp, a block, a grid
 *
 * Reduction trees are fixed: the same values give the same bits, whatever the scheduling. Every
 * thread of the warp or block must call, and all get the result. Blocks are one-dimensional, of
 * whole warps.
 *
 * A sum over a grid is one launch: each of uw_parts_of blocks writes its sum to c->partials, and
 * the last one to finish (uw_last_block) adds all of them with uw_parts_sum, in a fixed order.
 * Partials and tickets belong to the running slot.
 *
 * Units      T: float, double, uint32_t     Memory     shared: [UW_WARPS] of the caller's
 *                                                      __shared__ memory, free for use afterwards
 */
#ifndef UW_KERNELS_CUDA_REDUCE_CUH
#define UW_KERNELS_CUDA_REDUCE_CUH

#include "launch.cuh"

#define UW_LANES 32u
#define UW_ALL_LANES 0xffffffffu
#define UW_WARPS 32u                    /* of the largest block */
#define UW_PARTS_MAX 1024u              /* blocks with a partial sum: 8 KB of doubles per sum */

template <typename T> static __device__ inline T uw_warp_sum(T v)
{
    for (unsigned by = UW_LANES / 2; by > 0; by /= 2) {
        v += __shfl_xor_sync(UW_ALL_LANES, v, static_cast<int>(by));
    }
    return v;
}

/* Ignores NaN, unless all values are NaN. */
static __device__ inline float uw_warp_max(float v)
{
    for (unsigned by = UW_LANES / 2; by > 0; by /= 2) {
        v = fmaxf(v, __shfl_xor_sync(UW_ALL_LANES, v, static_cast<int>(by)));
    }
    return v;
}

template <typename T> static __device__ inline T uw_block_sum(T v, T *shared)
{
    unsigned lane = threadIdx.x % UW_LANES, warp = threadIdx.x / UW_LANES;
    v = uw_warp_sum(v);
    if (blockDim.x == UW_LANES) {
        return v;
    }
    __syncthreads(); /* other threads may still read shared from the previous call */
    if (lane == 0) {
        shared[warp] = v;
    }
    __syncthreads();
    return uw_warp_sum(lane < blockDim.x / UW_LANES ? shared[lane] : static_cast<T>(0));
}

static __device__ inline float uw_block_max(float v, float *shared)
{
    unsigned lane = threadIdx.x % UW_LANES, warp = threadIdx.x / UW_LANES;
    v = uw_warp_max(v);
    if (blockDim.x == UW_LANES) {
        return v;
    }
    __syncthreads();
    if (lane == 0) {
        shared[warp] = v;
    }
    __syncthreads();
    return uw_warp_max(shared[lane < blockDim.x / UW_LANES ? lane : 0]);
}

/* Blocks of UW_BLOCK threads, one partial each, for n items, at least `each` per thread. */
static inline unsigned uw_parts_of(const struct uw_exec *e, size_t n, unsigned each)
{
    unsigned blocks = uw_grid(e, n, each);
    return blocks < 1 ? 1 : blocks < UW_PARTS_MAX ? blocks : UW_PARTS_MAX;
}

/* Is this the last of `blocks` blocks to call with this ticket? It sees what the others wrote
 * before their calls; no block waits for another. All threads of the block call. The ticket is 0
 * again afterwards, for the next launch and for the replay of a captured step.
 *
 * A thread's writes are visible on the whole GPU before its block increments the ticket (fence,
 * barrier, atomic). The last block reads after a fence too, and with __ldcg, since the L1 cache of
 * its multiprocessor may be stale. */
static __device__ inline bool uw_last_block(uint32_t *ticket, uint32_t blocks)
{
    __threadfence();
    __syncthreads();
    bool last = false;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        last = atomicAdd(ticket, 1u) == blocks - 1u;
        if (last) {
            *ticket = 0; /* all blocks have incremented it */
        }
    }
    last = __syncthreads_or(last) != 0;
    __threadfence();
    return last;
}

#define UW_SQUARES 8                    /* terms of one uw_squares */

/* Sum of (x[k] - y[k])^2. GPUs of embedded devices have one unit for double per 64 for fp32, so the
 * sum is a pair of floats, the second of which holds the rounding error of the first (Knuth's sum
 * and difference, Dekker's product by fma). The relative error is below UW_SQUARES * 2^-46. If
 * squares or their rounding errors would overflow or underflow, it is computed in double. */
static __device__ inline double uw_squares(const float (&x)[UW_SQUARES],
                                           const float (&y)[UW_SQUARES])
{
    float high = 0.0f, low = 0.0f, most = 0.0f;
#pragma unroll
    for (int k = 0; k < UW_SQUARES; k++) {
        float d = __fsub_rn(x[k], y[k]), back = __fsub_rn(d, x[k]);
        float rest = __fsub_rn(__fsub_rn(x[k], __fsub_rn(d, back)), __fadd_rn(y[k], back));
        float square = __fmul_rn(d, d);
        float error = fmaf(2.0f * d, rest, fmaf(d, d, -square));
        float sum = __fadd_rn(high, square), part = __fsub_rn(sum, high);
        error = __fadd_rn(error, __fadd_rn(__fsub_rn(high, __fsub_rn(sum, part)),
                                           __fsub_rn(square, part)));
        low = __fadd_rn(low, error);
        high = sum;
        most = fmaxf(most, fabsf(d)); /* ignores NaN, which is in the sum */
    }
    if (most == 0.0f || (most > 1e-10f && most < 1e18f)) {
        return static_cast<double>(high) + static_cast<double>(low);
    }
    double all = 0.0;
#pragma unroll /* indexing in a loop would put x and y into local memory, also for the code above */
    for (int k = 0; k < UW_SQUARES; k++) {
        double d = static_cast<double>(x[k]) - static_cast<double>(y[k]);
        all += d * d;
    }
    return all;
}

/* One thread's share of the sum over n in a one-dimensional grid; y NULL: zeros. */
static __device__ inline double uw_squares_share(size_t n, const float *x, const float *y)
{
    const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
    double sum = 0.0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += UW_SQUARES * threads) {
        float a[UW_SQUARES], b[UW_SQUARES];
#pragma unroll
        for (int k = 0; k < UW_SQUARES; k++) {
            size_t at = i + static_cast<size_t>(k) * threads;
            a[k] = at < n ? x[at] : 0.0f;
            b[k] = at < n && y != NULL ? y[at] : 0.0f;
        }
        sum += uw_squares(a, b);
    }
    return sum;
}

/* Sum of parts[0 .. parts_n - 1], by one block. */
template <typename T>
static __device__ inline T uw_parts_sum(const T *parts, unsigned parts_n, T *shared)
{
    T v = 0;
    for (unsigned i = threadIdx.x; i < parts_n; i += blockDim.x) {
        v += __ldcg(parts + i);
    }
    return uw_block_sum(v, shared);
}

#endif
