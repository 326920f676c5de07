/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "emulated.h"

#define N 128

static __global__ void add(size_t n, float by, float *x)
{
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] += by;
    }
}

cudaError_t launch_add(cudaStream_t stream, unsigned blocks, unsigned threads, size_t shared_bytes,
                       size_t n, float by, float *x)
{
    return uw_emulated_launch(stream, blocks, threads, shared_bytes, add, n, by, x);
}

static __global__ void copy(size_t n, const float *x, float *y)
{
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = x[i];
    }
}

cudaError_t launch_copy(cudaStream_t stream, size_t n, const float *x, float *y)
{
    return uw_emulated_launch(stream, 1, 32, 0, copy, n, x, y);
}

template <bool WAITS> static __global__ void sum(const float *x, float *sums)
{
    UW_DYNAMIC_SHARED(float, part);
    part[threadIdx.x] = x[blockIdx.x * N + threadIdx.x];
    for (unsigned half = N / 2; half > 0; half /= 2) {
        if (WAITS) {
            __syncthreads();
        }
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0];
    }
}

cudaError_t launch_sum(cudaStream_t stream, unsigned blocks, const float *x, float *sums)
{
    return uw_emulated_launch(stream, blocks, N, N * sizeof(float), sum<true>, x, sums);
}

cudaError_t launch_sum_without_barriers(cudaStream_t stream, unsigned blocks, const float *x,
                                        float *sums)
{
    return uw_emulated_launch(stream, blocks, N, N * sizeof(float), sum<false>, x, sums);
}

static __global__ void warp_sum(const float *x, float *sums)
{
    __shared__ float part[N / 32];
    float v = x[blockIdx.x * N + threadIdx.x];
    for (int by = 16; by > 0; by /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, by);
    }
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = v;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
    }
}

cudaError_t launch_warp_sum(cudaStream_t stream, unsigned blocks, const float *x, float *sums)
{
    return uw_emulated_launch(stream, blocks, N, 0, warp_sum, x, sums);
}

static __global__ void warp_functions(unsigned *out)
{
    unsigned lane = threadIdx.x % 32, odd = lane % 2;
    atomicAdd(&out[0], lane);
    atomicAdd(&out[1], __ballot_sync(0xffffffffu, odd) == 0xaaaaaaaau ? 1u : 0u);
    atomicAdd(&out[2], __shfl_down_sync(0xffffffffu, lane, 1));
    atomicAdd(&out[3], __shfl_up_sync(0xffffffffu, lane, 1));
    atomicAdd(&out[4], __shfl_sync(0xffffffffu, lane, 0, 16));
    atomicAdd(&out[5], static_cast<unsigned>(__syncthreads_count(static_cast<int>(odd))));
    if (lane < 8) { /* lanes of a mask of their own */
        atomicMax(&out[6], __shfl_xor_sync(0xffu, lane, 7));
        __syncwarp(0xffu);
    }
}

cudaError_t launch_warp_functions(cudaStream_t stream, unsigned *out)
{
    return uw_emulated_launch(stream, 1, 64, 0, warp_functions, out);
}

static __global__ void read_shared(float *y)
{
    __shared__ float fixed[4];
    UW_DYNAMIC_SHARED(float, moving);
    y[threadIdx.x] = threadIdx.x < 4 ? fixed[threadIdx.x] : moving[threadIdx.x - 4];
    __syncthreads();
    fixed[threadIdx.x % 4] = 1.0f;
    moving[threadIdx.x % 4] = 1.0f;
}

cudaError_t launch_read_shared(cudaStream_t stream, float *y)
{
    return uw_emulated_launch(stream, 2, 8, 16, read_shared, y);
}

static __global__ void half_at_barrier(void)
{
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    }
}

cudaError_t launch_half_at_barrier(cudaStream_t stream)
{
    return uw_emulated_launch(stream, 1, 64, 0, half_at_barrier);
}

static __global__ void half_in_mask(void)
{
    if (threadIdx.x % 2 == 0) {
        (void)__shfl_xor_sync(0xffffffffu, 1.0f, 2);
    }
}

cudaError_t launch_half_in_mask(cudaStream_t stream)
{
    return uw_emulated_launch(stream, 1, 64, 0, half_in_mask);
}

static __global__ void count(unsigned *counter)
{
    unsigned all = gridDim.x * gridDim.y * gridDim.z;
    __shared__ bool last;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        last = atomicAdd(&counter[0], 1u) == all - 1u;
    }
    __syncthreads();
    if (last) {
        atomicAdd(&counter[1], 1u + threadIdx.x + 100u * threadIdx.y + 10000u * threadIdx.z);
    }
}

cudaError_t launch_count(cudaStream_t stream, dim3 grid, dim3 threads, unsigned *counter)
{
    return uw_emulated_launch(stream, grid, threads, 0, count, counter);
}

static __device__ void come_between(enum launch_between between)
{
    if (between == BETWEEN_BARRIER) {
        __syncthreads();
    } else if (between == BETWEEN_WARP_SYNC) {
        __syncwarp();
    } else if (between == BETWEEN_SHUFFLE) {
        (void)__shfl_xor_sync(0xffffffffu, 1, 1);
    }
}

static __global__ void neighbours(enum launch_between between, bool turned, float *y)
{
    UW_DYNAMIC_SHARED(float, part);
    unsigned i = threadIdx.x, next = i / 32 * 32 + (i + 1) % 32;
    if (turned) {
        part[i] = 1.0f;
        __syncthreads();
        y[i] = part[next];
        come_between(between);
        part[i] = 2.0f;
    } else {
        part[i] = 1.0f;
        come_between(between);
        y[i] = part[next];
    }
}

cudaError_t launch_neighbours(cudaStream_t stream, enum launch_between between, int turned,
                              float *y)
{
    return uw_emulated_launch(stream, 1, N, N * sizeof(float), neighbours, between, turned != 0, y);
}

static __global__ void last_block(enum launch_between between, unsigned *ticket, float *parts,
                                  float *y)
{
    __shared__ bool last;
    if (threadIdx.x == 5) {
        parts[blockIdx.x] = 1.0f;
    }
    if (between == BETWEEN_FENCES) {
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        last = between == BETWEEN_NOTHING ? blockIdx.x == 1
                                          : atomicAdd(ticket, 1u) == gridDim.x - 1u;
    }
    __syncthreads();
    if (between == BETWEEN_FENCES) {
        __threadfence();
    }
    if (last && threadIdx.x == 7) {
        *y = parts[0] + parts[1];
    }
}

cudaError_t launch_last_block(cudaStream_t stream, enum launch_between between, unsigned *ticket,
                              float *parts, float *y)
{
    return uw_emulated_launch(stream, 2, N, 0, last_block, between, ticket, parts, y);
}

static __global__ void raise_flag(bool is_volatile, unsigned *flag)
{
    if (is_volatile) {
        *static_cast<volatile unsigned *>(flag) = 1;
    } else {
        *flag = 1;
    }
}

cudaError_t launch_raise(cudaStream_t stream, int is_volatile, unsigned *flag)
{
    return uw_emulated_launch(stream, 2, N, 0, raise_flag, is_volatile != 0, flag);
}
