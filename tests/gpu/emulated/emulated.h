/* SPDX-License-Identifier: Apache-2.0
 *
 * emulated.h - CUDA's device side on the processor, for C++ compilers (with UW_CUDA_EMULATED)
 *
 * A kernel is an ordinary function. Its blocks run one after another, the threads of a block in
 * turns: one runs until it ends or meets a barrier. What a GPU would not notice is an error here,
 * told in a sentence before abort(): a barrier that not every thread of the block reaches, a warp
 * function whose mask names a lane that is not there. Shared memory starts as NaN in each block
 * (that of templates does not: compilers ignore its section).
 * Device math is the C library's; fast approximations (__expf, ...) are not offered.
 *
 * Context    threads of one process; kernels run under one lock
 * Source     CUDA C++ Programming Guide, "C++ Language Extensions"
 */
#ifndef UW_EMULATED_H
#define UW_EMULATED_H

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

/* The header of CUDA makes these nothing outside of nvcc. */
#undef __shared__
#define __shared__ static __attribute__((section("uw_shared")))
#undef __launch_bounds__
#define __launch_bounds__(...)
#define UW_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(uw_emulated_shared())

/* Where the running thread is. */
struct uw_emulated_place {
    uint3 thread, block;
    dim3 threads, grid;
};
extern struct uw_emulated_place *uw_emulated_at;
#define threadIdx (uw_emulated_at->thread)
#define blockIdx (uw_emulated_at->block)
#define blockDim (uw_emulated_at->threads)
#define gridDim (uw_emulated_at->grid)
static constexpr int warpSize = 32;

/* Where in the source a thread waits. */
struct uw_emulated_site {
    const char *file;
    int line;
};
#define UW_EMULATED_SITE                                                                          \
    const char *file = __builtin_FILE(), int line = __builtin_LINE()

enum uw_emulated_warp_op {
    UW_EMULATED_SYNC,
    UW_EMULATED_BALLOT,
    UW_EMULATED_SHFL,
    UW_EMULATED_UP,
    UW_EMULATED_DOWN,
    UW_EMULATED_XOR
};

/* All threads of the block; how many gave a value that is not 0. */
int uw_emulated_barrier(struct uw_emulated_site site, bool value);
/* The lanes in mask; what this lane gets. `with` is a lane, a distance or a lane mask. */
uint64_t uw_emulated_warp(struct uw_emulated_site site, enum uw_emulated_warp_op op, unsigned mask,
                          uint64_t value, unsigned with, unsigned width);
unsigned uw_emulated_active(void);
void *uw_emulated_shared(void);
/* What orders threads beside barriers, see races.h: before an atomic's access, at a fence. */
void uw_emulated_atomic(const void *at);
void uw_emulated_fence(void);

/* Where a file's own __shared__ variables are: they are filled before each block. */
struct uw_emulated_range {
    unsigned char *from, *to;
};

/* Put one kernel into a stream. Returns as a launch does. */
struct uw_emulated_kernel {
    const void *function;
    dim3 grid, threads;
    size_t shared_bytes;
    struct uw_emulated_range own;
    std::function<void()> thread;
};
cudaError_t uw_emulated_enqueue(cudaStream_t stream, const struct uw_emulated_kernel &k);

/* A kernel's argument: an address has to be in memory that the GPU sees. */
void uw_emulated_check_address(const void *at);

template <typename T> static inline void uw_emulated_check(T)
{
}

template <typename T> static inline void uw_emulated_check(T *at)
{
    uw_emulated_check_address(at);
}

extern "C" {
extern unsigned char __start_uw_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_uw_shared[] __attribute__((weak, visibility("hidden")));
}

template <typename... P, typename... A>
static inline cudaError_t uw_emulated_launch(cudaStream_t stream, dim3 grid, dim3 threads,
                                             size_t shared_bytes, void (*kernel)(P...), A... args)
{
    std::tuple<P...> kept(static_cast<P>(args)...);
    struct uw_emulated_kernel k;
    (uw_emulated_check(static_cast<P>(args)), ...);
    k.function = reinterpret_cast<const void *>(kernel);
    k.grid = grid;
    k.threads = threads;
    k.shared_bytes = shared_bytes;
    k.own.from = __start_uw_shared;
    k.own.to = __stop_uw_shared;
    k.thread = [kernel, kept]() { std::apply(kernel, kept); };
    return uw_emulated_enqueue(stream, k);
}

template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute what,
                                               int value)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), what, value);
}

template <typename... P>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                        void (*kernel)(P...),
                                                                        int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, reinterpret_cast<const void *>(kernel), threads, shared);
}

/* Barriers. */
static inline void __syncthreads(UW_EMULATED_SITE)
{
    (void)uw_emulated_barrier({file, line}, false);
}

static inline int __syncthreads_count(int value, UW_EMULATED_SITE)
{
    return uw_emulated_barrier({file, line}, value != 0);
}

static inline int __syncthreads_or(int value, UW_EMULATED_SITE)
{
    return uw_emulated_barrier({file, line}, value != 0) != 0;
}

static inline int __syncthreads_and(int value, UW_EMULATED_SITE)
{
    return uw_emulated_barrier({file, line}, value == 0) == 0;
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, UW_EMULATED_SITE)
{
    (void)uw_emulated_warp({file, line}, UW_EMULATED_SYNC, mask, 0, 0, 32);
}

/* Warps. */
template <typename T>
static inline T uw_emulated_shuffle(struct uw_emulated_site site, enum uw_emulated_warp_op op,
                                    unsigned mask, T value, unsigned with, int width)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = uw_emulated_warp(site, op, mask, bits, with, static_cast<unsigned>(width));
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, UW_EMULATED_SITE)
{
    return uw_emulated_shuffle({file, line}, UW_EMULATED_SHFL, mask, value,
                               static_cast<unsigned>(lane), width);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                                UW_EMULATED_SITE)
{
    return uw_emulated_shuffle({file, line}, UW_EMULATED_XOR, mask, value,
                               static_cast<unsigned>(lanes), width);
}

template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                                 UW_EMULATED_SITE)
{
    return uw_emulated_shuffle({file, line}, UW_EMULATED_DOWN, mask, value, by, width);
}

template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                               UW_EMULATED_SITE)
{
    return uw_emulated_shuffle({file, line}, UW_EMULATED_UP, mask, value, by, width);
}

static inline unsigned __ballot_sync(unsigned mask, int value, UW_EMULATED_SITE)
{
    return static_cast<unsigned>(
        uw_emulated_warp({file, line}, UW_EMULATED_BALLOT, mask, value != 0, 0, 32));
}

static inline int __any_sync(unsigned mask, int value, UW_EMULATED_SITE)
{
    return __ballot_sync(mask, value, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int value, UW_EMULATED_SITE)
{
    return __ballot_sync(mask, value, file, line) == mask;
}

static inline unsigned __activemask(void)
{
    return uw_emulated_active();
}

#include "emulated_math.h"

#endif
