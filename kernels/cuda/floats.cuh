/* SPDX-License-Identifier: Apache-2.0
 *
 * floats.cuh - 1, 2 or 4 floats by one load or store, from where they are aligned to their size
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
    *reinterpret_cast<uw_floats<W> *>(x) = v;
}

#endif
