/* SPDX-License-Identifier: Apache-2.0 */
#include "change.h"

#include <cuda_runtime_api.h>

#define BLOCK 256u
#define GRID 64u

static __global__ void change(uint32_t *x, size_t n)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        x[i] = UW_CHANGED(x[i]);
    }
}

int uw_change_on_gpu(uint32_t *x, size_t n)
{
    change<<<GRID, BLOCK>>>(x, n);
    cudaError_t rc = cudaGetLastError();
    return rc == cudaSuccess ? cudaDeviceSynchronize() : rc;
}
