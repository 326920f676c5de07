/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.cuh - reductions over rows, one row per part of a warp, warp, or block of UW_BLOCK threads
 *
 * LANES is a power of two up to 32, or UW_BLOCK; all lanes of a row call together. With several
 * rows in a warp, some rows may not exist. The order of sums is fixed.
 *
 * Memory     shared as in reduce.cuh, only read and written where LANES is UW_BLOCK
 */
#ifndef UW_KERNELS_CUDA_ROWS_CUH
#define UW_KERNELS_CUDA_ROWS_CUH

#include "reduce.cuh"

/* The lanes of this thread's row. */
template <unsigned LANES> static __device__ inline unsigned uw_row_mask(void)
{
    unsigned first = threadIdx.x % UW_LANES / LANES * LANES;
    return LANES >= UW_LANES ? UW_ALL_LANES : ((1u << LANES % UW_LANES) - 1u) << first;
}

/* Barrier for the lanes of a row. */
template <unsigned LANES> static __device__ inline void uw_row_wait(void)
{
    if constexpr (LANES > UW_LANES) {
        __syncthreads();
    } else {
        __syncwarp(uw_row_mask<LANES>());
    }
}

template <unsigned LANES, typename T> static __device__ inline T uw_row_sum(T v, T *shared)
{
    if constexpr (LANES > UW_LANES) {
        return uw_block_sum(v, shared);
    } else {
        for (unsigned by = LANES / 2; by > 0; by /= 2) {
            v += __shfl_xor_sync(uw_row_mask<LANES>(), v, static_cast<int>(by));
        }
        return v;
    }
}

/* Ignores NaN, unless all values are NaN. */
template <unsigned LANES> static __device__ inline float uw_row_max(float v, float *shared)
{
    if constexpr (LANES > UW_LANES) {
        return uw_block_max(v, shared);
    } else {
        for (unsigned by = LANES / 2; by > 0; by /= 2) {
            v = fmaxf(v, __shfl_xor_sync(uw_row_mask<LANES>(), v, static_cast<int>(by)));
        }
        return v;
    }
}

/* A row's largest element, the first of equals; a NaN counts only as the first element. */
struct uw_top {
    float value;
    uint32_t index;
};

static __device__ inline struct uw_top uw_larger(struct uw_top a, struct uw_top b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

template <unsigned LANES>
static __device__ inline struct uw_top uw_lanes_top(struct uw_top top, unsigned mask)
{
    for (unsigned by = LANES / 2; by > 0; by /= 2) {
        struct uw_top other;
        other.value = __shfl_xor_sync(mask, top.value, static_cast<int>(by));
        other.index = __shfl_xor_sync(mask, top.index, static_cast<int>(by));
        top = uw_larger(top, other);
    }
    return top;
}

/* shared: two floats per warp */
template <unsigned LANES>
static __device__ inline struct uw_top uw_row_top(uint32_t n, const float *x, unsigned lane,
                                                  float *shared)
{
    float first = x[0];
    struct uw_top top = {-INFINITY, UINT32_MAX};
    for (uint32_t i = lane; i < n; i += LANES) {
        top = uw_larger(top, {x[i], i});
    }
    top = uw_lanes_top<LANES < UW_LANES ? LANES : UW_LANES>(top, uw_row_mask<LANES>());
    if constexpr (LANES > UW_LANES) {
        unsigned in_warp = threadIdx.x % UW_LANES, warps = LANES / UW_LANES;
        __syncthreads();
        if (in_warp == 0) {
            shared[threadIdx.x / UW_LANES * 2] = top.value;
            shared[threadIdx.x / UW_LANES * 2 + 1] = __uint_as_float(top.index);
        }
        __syncthreads();
        unsigned of = in_warp < warps ? in_warp : 0;
        top.value = shared[of * 2];
        top.index = __float_as_uint(shared[of * 2 + 1]);
        top = uw_lanes_top<UW_LANES>(top, UW_ALL_LANES);
    }
    if (first != first) {
        top = {first, 0};
    }
    return top;
}

#endif
