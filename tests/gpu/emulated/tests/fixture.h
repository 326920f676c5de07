/* SPDX-License-Identifier: Apache-2.0
 *
 * fixture.h - streams and memory for tests of the emulated GPU */
#ifndef UW_EMULATED_TEST_FIXTURE_H
#define UW_EMULATED_TEST_FIXTURE_H

#include "child.h"
#include "control.h"
#include "kernels.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

/* Of a kernel and the processor: both see it at any time. */
static inline float *both_floats(size_t n)
{
    void *x = NULL;
    OK(cudaMallocManaged(&x, n * sizeof(float), cudaMemAttachGlobal));
    memset(x, 0, n * sizeof(float));
    return x;
}

static inline float *gpu_floats(size_t n)
{
    void *x = NULL;
    OK(cudaMalloc(&x, n * sizeof(float)));
    return x;
}

static inline float *pinned_floats(size_t n)
{
    void *x = NULL;
    OK(cudaHostAlloc(&x, n * sizeof(float), cudaHostAllocDefault));
    memset(x, 0, n * sizeof(float));
    return x;
}

static inline cudaStream_t own_stream(void)
{
    cudaStream_t s = NULL;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static inline cudaEvent_t event(void)
{
    cudaEvent_t e = NULL;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static inline cudaError_t add(cudaStream_t s, float by, float *x)
{
    return launch_add(s, 1, 1, 0, 1, by, x);
}

#endif
