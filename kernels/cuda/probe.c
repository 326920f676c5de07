/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the GPU, and memory pages that it shares with the processor.
 *
 * From NVIDIA's "CUDA for Tegra" and the programming guide's chapter on unified memory: GPU and
 * processor may access pinned pages at any time, but an integrated GPU does not cache them, so
 * kernels that read them repeatedly are slow. Both cache managed pages. Where
 * concurrentManagedAccess is 0, as on an Orin, the processor must not access any managed page while
 * any work of the process is queued: that ends the program, and allocating meanwhile is undefined.
 * Therefore parameters, which the processor accesses only between steps, are managed. What both
 * access at the same time (minibatches, results, data for the network) is pinned, unless the GPU
 * has concurrent access. A GPU with memory of its own shares only pinned pages, since managed ones
 * would migrate. */
#include "gpu.h"

#include <stdio.h>

static bool has(enum cudaDeviceAttr what, int device)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess && value != 0;
}

static const char *too_old(int driver, int runtime, char text[160])
{
    snprintf(text, 160, "the driver is for CUDA %d.%d, this program needs %d.%d: install a newer "
             "driver", driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return text;
}

/* Check for a usable driver and a GPU, and fill info. */
static int look(uint32_t device, struct uw_cuda_info *info, struct uw_error *err)
{
    int driver = 0, runtime = 0, n = 0;
    char text[160];
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "no NVIDIA driver is installed");
    }
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s", too_old(driver, runtime, text));
    }
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && n == 0)) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "the driver sees no GPU");
    }
    if (rc == cudaSuccess && device >= (uint32_t)n) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "GPU %u: there are %d, from 0 on",
                            (unsigned)device, n);
    }
    if (rc != cudaSuccess) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "the GPU cannot be used: %s",
                            cudaGetErrorString(rc));
    }
    info->driver = (uint32_t)driver;
    info->runtime = (uint32_t)runtime;
    return UW_OK;
}

static int describe(int device, struct uw_cuda_info *info, struct uw_error *err)
{
    struct cudaDeviceProp p;
    size_t free_bytes = 0, all_bytes = 0;
    cudaError_t rc = cudaSetDevice(device);
    rc = rc == cudaSuccess ? cudaGetDeviceProperties(&p, device) : rc;
    rc = rc == cudaSuccess ? cudaMemGetInfo(&free_bytes, &all_bytes) : rc;
    if (rc != cudaSuccess) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "GPU %d cannot be used: %s", device,
                            cudaGetErrorString(rc));
    }
    snprintf(info->name, sizeof info->name, "%.63s", p.name);
    info->major = (uint32_t)p.major;
    info->minor = (uint32_t)p.minor;
    info->multiprocessors = (uint32_t)p.multiProcessorCount;
    info->block_shared_bytes = p.sharedMemPerBlockOptin;
    info->memory_bytes = all_bytes;
    info->free_bytes = free_bytes;
    info->integrated = has(cudaDevAttrIntegrated, device);
    info->managed = has(cudaDevAttrManagedMemory, device);
    info->concurrent = has(cudaDevAttrConcurrentManagedAccess, device);
    info->mapped = has(cudaDevAttrCanMapHostMemory, device);
    return UW_OK;
}

int uw_cuda_probe(uint32_t device, struct uw_cuda_info *info, struct uw_error *err)
{
    *info = (struct uw_cuda_info){.major = 0};
    int rc = look(device, info, err);
    rc = rc < 0 ? rc : describe((int)device, info, err);
    (void)cudaGetLastError(); /* clear the error */
    return rc;
}

enum uw_cuda_pages uw_cuda_pages(const struct uw_cuda_info *info, bool at_once)
{
    if (info->integrated && info->managed && (info->concurrent || !at_once)) {
        return UW_CUDA_PAGES_MANAGED;
    }
    return info->mapped ? UW_CUDA_PAGES_MAPPED : UW_CUDA_PAGES_NONE;
}

cudaError_t uw_cuda_pages_new(enum uw_cuda_pages pages, size_t bytes, void **out)
{
    if (pages == UW_CUDA_PAGES_MAPPED) {
        return cudaHostAlloc(out, bytes, cudaHostAllocMapped);
    }
    cudaError_t rc = cudaDeviceSynchronize(); /* see above: the GPU must be idle */
    return rc == cudaSuccess ? cudaMallocManaged(out, bytes, cudaMemAttachGlobal) : rc;
}

int uw_cuda_pages_take(enum uw_cuda_pages pages, size_t bytes, void **base, void **device)
{
    *base = *device = NULL;
    if (pages == UW_CUDA_PAGES_NONE) {
        return UW_ERR_UNSUPPORTED;
    }
    cudaError_t rc = uw_cuda_pages_new(pages, bytes, base);
    if (rc == cudaSuccess && pages == UW_CUDA_PAGES_MAPPED) {
        rc = cudaHostGetDevicePointer(device, *base, 0);
    } else if (rc == cudaSuccess) {
        *device = *base;
    } else {
        *base = NULL;
    }
    if (rc != cudaSuccess) {
        uw_cuda_pages_give(pages, *base);
        (void)cudaGetLastError(); /* clear the error */
        *base = *device = NULL;
    }
    return uw_cuda_status(rc);
}

void uw_cuda_pages_give(enum uw_cuda_pages pages, void *base)
{
    if (pages == UW_CUDA_PAGES_MAPPED) {
        (void)cudaFreeHost(base);
    } else if (pages == UW_CUDA_PAGES_MANAGED) {
        (void)cudaFree(base);
    }
}

int uw_cuda_status(cudaError_t rc)
{
    return rc == cudaSuccess ? UW_OK : rc == cudaErrorMemoryAllocation ? UW_ERR_NOMEM : UW_ERR_IO;
}
