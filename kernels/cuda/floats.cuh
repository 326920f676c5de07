/* SPDX-License-Identifier: Apache-2.0
 *
 * floats.cuh - load or store 1, 2 or 4 floats at once, at addresses aligned to their size
 *
 * Stores go to global memory, not shared memory, through __stwb: after a branch or an atomic, nvcc
 * splits the store of a struct or float4 into single floats, each of which fills only a quarter of
 * every cache line that it touches.
 */
#ifndef UW_KERNELS_CUDA_FLOATS_CUH
#define UW_KERNELS_CUDA_FLOATS_CUH

#include "launch.cuh"

template <int W> struct __align__(4 * W) uw_floats {
    float v[W];
};

template <int W> static __device__ __forceinline__ uw_floats<W> uw_load(const float *x)
{
    return *reinterpret_cast<const uw_floats<W> *>(x);
}

template <int W> static __device__ __forceinline__ void uw_store(float *x, const uw_floats<W> &v)
{
    static_assert(W == 1 || W == 2 || W == 4, "what one store holds");
    if constexpr (W == 4) {
        __stwb(reinterpret_cast<float4 *>(x), make_float4(v.v[0], v.v[1], v.v[2], v.v[3]));
    } else if constexpr (W == 2) {
        __stwb(reinterpret_cast<float2 *>(x), make_float2(v.v[0], v.v[1]));
    } else {
        *x = v.v[0];
    }
}

#endif
