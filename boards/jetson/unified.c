/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/unified.h"

#include "change.h"

#include "uwasa/board.h"

#include <cuda_runtime_api.h>
#include <string.h>

int uw_gpu_find(struct uw_cuda_info *gpu, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    int rc = uw_cuda_probe(0, gpu, &why);
    return rc < 0 ? uw_error_set(err, rc, "no GPU: %.160s; training runs on the processor, in "
                                 "plain memory", why.text)
                  : UW_OK;
}

int uw_unified_take(const struct uw_cuda_info *gpu, size_t bytes, struct uw_unified *out)
{
    *out = (struct uw_unified){.bytes = bytes};
    out->pages = gpu != NULL && bytes > 0 ? uw_cuda_pages(gpu, true) : UW_CUDA_PAGES_NONE;
    if (out->pages != UW_CUDA_PAGES_NONE &&
        uw_cuda_pages_take(out->pages, bytes, &out->base, &out->device) == UW_OK) {
        memset(out->base, 0, bytes);
        return UW_OK;
    }
    *out = (struct uw_unified){.bytes = bytes};
    return uw_board_memory_take(bytes, &out->base);
}

void uw_unified_release(struct uw_unified *m)
{
    if (m->pages != UW_CUDA_PAGES_NONE) {
        uw_cuda_pages_give(m->pages, m->base);
    } else {
        uw_board_memory_release(m->base, m->bytes);
    }
    *m = (struct uw_unified){.base = NULL};
}

const char *uw_unified_pages_name(enum uw_cuda_pages pages)
{
    static const char *const names[] = {"plain", "mapped", "managed"};
    return names[pages];
}

int uw_unified_check(const struct uw_unified *m, struct uw_error *err)
{
    uint32_t *x = m->base;
    size_t n = m->bytes / sizeof *x;
    if (m->device == NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "plain memory: no GPU can access it");
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
                                uw_unified_pages_name(m->pages), i);
        }
    }
    return UW_OK;
}
