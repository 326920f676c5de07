/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.cuh - launch kernels
 *
 * Kernels are C++ for nvcc and for an ordinary compiler: with UW_CUDA_EMULATED, tests/gpu/emulated
 * runs blocks and threads on the processor, which tests index arithmetic without a GPU. Therefore
 * use uw_launch instead of <<<>>>, UW_DYNAMIC_SHARED for dynamic shared memory, and only those
 * device functions of CUDA that emulated.h has.
 */
#ifndef UW_KERNELS_CUDA_LAUNCH_CUH
#define UW_KERNELS_CUDA_LAUNCH_CUH

#include "gpu.h"
#include "uwasa/status.h"

#ifdef UW_CUDA_EMULATED
#include "emulated.h"
#else
#include <cuda_runtime.h>
#define UW_DYNAMIC_SHARED(type, name)                                                             \
    extern __shared__ __align__(16) unsigned char uw_dynamic_shared[];                            \
    type *name = reinterpret_cast<type *>(uw_dynamic_shared)
#endif

/* Default number of threads in a block. */
#define UW_BLOCK 256u

/* kernel<<<grid, threads, shared_bytes, stream>>>(args...); does nothing if the grid is empty. */
template <typename... P, typename... A>
static inline int uw_launch_shared(const struct uw_exec *e, dim3 grid, dim3 threads,
                                   size_t shared_bytes, void (*kernel)(P...), A... args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
        return UW_OK;
    }
#ifdef UW_CUDA_EMULATED
    return uw_cuda_launched(e, uw_emulated_launch(uw_cuda_of(e)->stream, grid, threads,
                                                  shared_bytes, kernel, P(args)...));
#else
    kernel<<<grid, threads, shared_bytes, uw_cuda_of(e)->stream>>>(static_cast<P>(args)...);
    return uw_cuda_launched(e, cudaGetLastError()); /* also clears it */
#endif
}

template <typename... P, typename... A>
static inline int uw_launch(const struct uw_exec *e, dim3 grid, dim3 threads,
                            void (*kernel)(P...), A... args)
{
    return uw_launch_shared(e, grid, threads, 0, kernel, args...);
}

/* Blocks for n items, at least `each` per thread, but no more than fill the GPU: kernels loop with
 * a stride of the grid's size (UW_EACH). */
static inline unsigned uw_grid(const struct uw_exec *e, size_t n, unsigned each)
{
    size_t per_block = static_cast<size_t>(UW_BLOCK) * each;
    size_t most = static_cast<size_t>(uw_cuda_of(e)->multiprocessors) * 16u;
    size_t blocks = (n + per_block - 1u) / per_block;
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/* *at, which other threads of the same launch may write meanwhile: a single access, a word at
 * most. */
template <typename T> static __device__ inline volatile T &uw_racing(T *at)
{
    return *at;
}

/* Divide 0 .. n-1 among all threads of a one-dimensional grid. */
#define UW_EACH(i, n)                                                                             \
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n);          \
         i += static_cast<size_t>(gridDim.x) * blockDim.x)

#endif
