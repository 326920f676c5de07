/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/unified.h"

#include "change.h"

#include "uwasa/board.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

static bool has(enum cudaDeviceAttr what)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, 0) == cudaSuccess && value != 0;
}

int uw_gpu_find(struct uw_gpu *gpu, struct uw_error *err)
{
    struct cudaDeviceProp p;
    size_t free_bytes, all_bytes;
    int n = 0;
    *gpu = (struct uw_gpu){.major = 0};
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaSuccess && n == 0) {
        rc = cudaErrorNoDevice;
    }
    rc = rc == cudaSuccess ? cudaSetDevice(0) : rc;
    rc = rc == cudaSuccess ? cudaGetDeviceProperties(&p, 0) : rc;
    rc = rc == cudaSuccess ? cudaMemGetInfo(&free_bytes, &all_bytes) : rc;
    if (rc != cudaSuccess) {
        return uw_error_set(err, UW_ERR_NOTFOUND,
                            "no GPU: %s; training goes on on the processor, in plain memory",
                            cudaGetErrorString(rc));
    }
    snprintf(gpu->name, sizeof gpu->name, "%.63s", p.name);
    gpu->major = (uint32_t)p.major;
    gpu->minor = (uint32_t)p.minor;
    gpu->memory_bytes = all_bytes;
    gpu->free_bytes = free_bytes;
    gpu->integrated = has(cudaDevAttrIntegrated);
    gpu->managed = has(cudaDevAttrManagedMemory);
    gpu->concurrent = has(cudaDevAttrConcurrentManagedAccess);
    gpu->mapped = has(cudaDevAttrCanMapHostMemory);
    return UW_OK;
}

static bool take_managed(const struct uw_gpu *gpu, struct uw_unified *m)
{
    if (!gpu->managed || !gpu->concurrent ||
        cudaMallocManaged(&m->base, m->bytes, cudaMemAttachGlobal) != cudaSuccess) {
        return false;
    }
    m->device = m->base;
    m->kind = UW_UNIFIED_MANAGED;
    return true;
}

static bool take_mapped(const struct uw_gpu *gpu, struct uw_unified *m)
{
    if (!gpu->mapped || cudaHostAlloc(&m->base, m->bytes, cudaHostAllocMapped) != cudaSuccess) {
        return false;
    }
    m->kind = UW_UNIFIED_MAPPED;
    if (cudaHostGetDevicePointer(&m->device, m->base, 0) != cudaSuccess) {
        uw_unified_release(m);
        return false;
    }
    return true;
}

int uw_unified_take(const struct uw_gpu *gpu, size_t bytes, struct uw_unified *out)
{
    *out = (struct uw_unified){.bytes = bytes};
    if (gpu != NULL && bytes > 0 && (take_managed(gpu, out) || take_mapped(gpu, out))) {
        memset(out->base, 0, bytes);
        return UW_OK;
    }
    (void)cudaGetLastError(); /* what was refused is no error of a later call */
    *out = (struct uw_unified){.bytes = bytes};
    return uw_board_memory_take(bytes, &out->base);
}

void uw_unified_release(struct uw_unified *m)
{
    if (m->kind == UW_UNIFIED_MANAGED) {
        (void)cudaFree(m->base);
    } else if (m->kind == UW_UNIFIED_MAPPED) {
        (void)cudaFreeHost(m->base);
    } else {
        uw_board_memory_release(m->base, m->bytes);
    }
    *m = (struct uw_unified){.base = NULL};
}

const char *uw_unified_kind_name(enum uw_unified_kind kind)
{
    static const char *const names[] = {"plain", "mapped", "managed"};
    return names[kind];
}

int uw_unified_check(const struct uw_unified *m, struct uw_error *err)
{
    uint32_t *x = m->base;
    size_t n = m->bytes / sizeof *x;
    if (m->device == NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "plain memory: no GPU reaches it");
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (uint32_t)i;
    }
    cudaError_t rc = (cudaError_t)uw_change_on_gpu(m->device, n);
    if (rc == cudaErrorNoKernelImageForDevice) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "this program has no code for the GPU: build it with its compute "
                            "capability in UWASA_CUDA_ARCHITECTURES");
    }
    if (rc != cudaSuccess) {
        return uw_error_set(err, UW_ERR_IO, "the GPU: %s", cudaGetErrorString(rc));
    }
    for (size_t i = 0; i < n; i++) {
        if (x[i] != UW_CHANGED((uint32_t)i)) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%s memory: number %zu is not what the GPU wrote",
                                uw_unified_kind_name(m->kind), i);
        }
    }
    return UW_OK;
}
