/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h - find the fastest of several algorithms on this GPU (private to kernels/cuda)
 *
 * Each one runs once, to load its code. Then several runs are captured in a graph, as steps are,
 * and timed by events, so that launch overhead on the processor does not count; the median counts.
 * Of two about equally fast ones the first is taken. They are ordered by their memory, so that
 * choices repeat and save memory.
 *
 * Memory     none of its own      Blocking   until measured; never while a step is open
 */
#ifndef UW_KERNELS_CUDA_MEASURE_H
#define UW_KERNELS_CUDA_MEASURE_H

#include "gpu.h"

/* Largest work that is measured, in multiplications: about a second on the smallest GPU, and a
 * thousandth of that for blocking tables, which are for tests. Then the most runs captured, and how
 * often they are timed. An emulated GPU does some millions a second; its times are meaningless. */
#ifdef UW_CUDA_EMULATED
#define UW_CUDA_MEASURED_PRODUCTS 8192.0
#define UW_CUDA_MEASURED_BY_TESTS UW_CUDA_MEASURED_PRODUCTS
#define UW_CUDA_MEASURED_RUNS 2u
#define UW_CUDA_MEASURED_REPEATS 1u
#else
#define UW_CUDA_MEASURED_PRODUCTS 1e12
#define UW_CUDA_MEASURED_BY_TESTS 1e9
#define UW_CUDA_MEASURED_RUNS 16u
#define UW_CUDA_MEASURED_REPEATS 5u
#endif

static inline bool uw_cuda_is_measured(const struct uw_cuda *c, double products)
{
    return products <= (c->config.blocking ? UW_CUDA_MEASURED_BY_TESTS : UW_CUDA_MEASURED_PRODUCTS);
}

/* Put algorithm number i on the stream; returns as slots do. */
typedef int (*uw_cuda_way)(const struct uw_exec *e, void *job, uint32_t i);

/* Find the fastest of n algorithms; a single one runs once and us is 0. *best changes on UW_OK
 * only. us: microseconds of one run.
 *
 * Returns UW_OK, UW_ERR_AGAIN (a step is open: nothing was tried) or UW_ERR_IO (none runs). */
int uw_cuda_fastest(struct uw_cuda *c, uw_cuda_way way, void *job, uint32_t n, uint32_t *best,
                    double *us);

#endif
