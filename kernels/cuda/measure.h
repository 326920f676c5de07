/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h - which of several ways is fastest on this GPU (private to kernels/cuda)
 *
 * Each way runs once, so that its code is loaded; then runs of it are recorded into a graph, as
 * steps are, and timed by events: what the processor needs to launch them does not count. The
 * median of several is what it takes. Of two that are about as fast the first is taken: ways come
 * in the order of what they need, so that choices repeat and memory is spared.
 *
 * Memory     none of its own      Blocking   until measured; never while a step is open
 */
#ifndef UW_KERNELS_CUDA_MEASURE_H
#define UW_KERNELS_CUDA_MEASURE_H

#include "gpu.h"

/* Work that may be tried, in multiplications: a second on the smallest GPU, and a thousandth of
 * that for a table that waits, which is for tests; runs that are recorded at most, and how often
 * they are timed. One that is emulated does a few millions a second, and its times say nothing. */
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

/* Put way number i on the stream; returns as slots do. */
typedef int (*uw_cuda_way)(const struct uw_exec *e, void *job, uint32_t i);

/* The fastest of n ways; with one it runs once and us is 0. *best is as it was unless it returns
 * UW_OK. us: microseconds of one run.
 *
 * Returns UW_OK, UW_ERR_AGAIN (a step is open: nothing was tried) or UW_ERR_IO (none runs). */
int uw_cuda_fastest(struct uw_cuda *c, uw_cuda_way way, void *job, uint32_t n, uint32_t *best,
                    double *us);

#endif
