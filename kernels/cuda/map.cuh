/* SPDX-License-Identifier: Apache-2.0
 *
 * map.cuh - elementwise kernels at memory bandwidth
 *
 * uw_map calls f(i, in, out) for each i < n: in holds element i of the input arrays, out is then
 * stored to the output arrays, so that an array may be both. Four elements are one access if all
 * arrays have the same alignment.
 *
 *     struct relu : uw_map_plain {
 *         __device__ void operator()(size_t i, const float *in, float *out) const
 *     };
 *     return uw_map(e, n, uw_arrays<1, 1>{{x}, {y}}, relu{});
 *
 * Each thread calls f.begin() once, for what does not depend on i; false: nothing to do.
 */
#ifndef UW_KERNELS_CUDA_MAP_CUH
#define UW_KERNELS_CUDA_MAP_CUH

#include "floats.cuh"

template <int IN, int OUT> struct uw_arrays {
    const float *in[IN];
    float *out[OUT];
};

struct uw_map_plain {
    __device__ bool begin(void)
    {
        return true;
    }
};

static __device__ inline bool uw_is_finite(float x)
{
    return fabsf(x) <= 3.402823466e+38f; /* false for NaN */
}

template <int IN, int OUT, typename F>
static __device__ inline void uw_map_quad(size_t i, const uw_arrays<IN, OUT> &a, const F &f)
{
    float x[4][IN], y[4][OUT];
#pragma unroll
    for (int k = 0; k < IN; k++) {
        const uw_floats<4> in = uw_load<4>(a.in[k] + i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[j][k] = in.v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        f(i + static_cast<size_t>(j), x[j], y[j]);
    }
#pragma unroll
    for (int k = 0; k < OUT; k++) {
        uw_store<4>(a.out[k] + i, {{y[0][k], y[1][k], y[2][k], y[3][k]}});
    }
}

/* The share of thread number `thread` of `threads`: vectors of four from element `head` on, `quads`
 * in all, then the elements before and after them. */
template <int IN, int OUT, typename F>
static __device__ inline void uw_map_share(size_t n, size_t head, size_t quads,
                                           const uw_arrays<IN, OUT> &a, const F &f, size_t thread,
                                           size_t threads)
{
    for (size_t q = thread; q < quads; q += threads) {
        uw_map_quad(head + 4 * q, a, f);
    }
    for (size_t i = thread; i < n - 4 * quads; i += threads) {
        size_t at = i < head ? i : i + 4 * quads;
        float x[IN], y[OUT];
#pragma unroll
        for (int k = 0; k < IN; k++) {
            x[k] = a.in[k][at];
        }
        f(at, x, y);
#pragma unroll
        for (int k = 0; k < OUT; k++) {
            a.out[k][at] = y[k];
        }
    }
}

template <int IN, int OUT, typename F>
static __global__ void uw_map_kernel(size_t n, size_t head, size_t quads, uw_arrays<IN, OUT> a,
                                     F f)
{
    if (f.begin()) {
        uw_map_share(n, head, quads, a, f,
                     static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                     static_cast<size_t>(gridDim.x) * blockDim.x);
    }
}

/* Bytes that an address is beyond the last multiple of 16. */
static __host__ __device__ inline size_t uw_beyond_16(const void *x)
{
    return reinterpret_cast<uintptr_t>(x) % 16u;
}

/* Set where accesses of four elements begin, and their number: 0 if alignments differ. */
template <int IN, int OUT>
static __host__ __device__ inline void uw_map_cut(size_t n, const uw_arrays<IN, OUT> &a,
                                                  size_t *head, size_t *quads)
{
    size_t beyond = uw_beyond_16(a.out[0]);
    bool alike = beyond % 4 == 0;
    for (int k = 0; k < IN; k++) {
        alike = alike && uw_beyond_16(a.in[k]) == beyond;
    }
    for (int k = 1; k < OUT; k++) {
        alike = alike && uw_beyond_16(a.out[k]) == beyond;
    }
    *head = alike ? (16u - beyond) % 16u / 4u : 0;
    *head = *head < n ? *head : n;
    *quads = alike ? (n - *head) / 4u : 0;
}

template <int IN, int OUT, typename F>
static inline int uw_map(const struct uw_exec *e, size_t n, const uw_arrays<IN, OUT> &a,
                         const F &f)
{
    size_t head, quads;
    uw_map_cut(n, a, &head, &quads);
    return uw_launch(e, uw_grid(e, n, 4), UW_BLOCK, uw_map_kernel<IN, OUT, F>, n, head, quads, a,
                     f);
}

#endif
