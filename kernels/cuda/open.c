/* SPDX-License-Identifier: Apache-2.0
 *
 * The handle, its memory, the table, and error texts of the GPU. */
#include "gpu.h"

#include "ref/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators on tensors have no kernels here yet. */
#define uw_tensor_cuda uw_tensor_none

static const struct uw_kernels table = {
    .name = "cuda",
    UW_PRODUCT_ENTRIES(cuda),
    UW_OTHER_ENTRIES(cuda),
    .fused = &uw_fused_cuda,
};

/* CUDA reports errors of a kernel at every later call, but those of a call itself only once, and
 * libraries return a status only once: those are stored here. */
void uw_cuda_keep_failure(struct uw_cuda *c, const char *who, const char *why)
{
    if (c->failure[0] == '\0') {
        snprintf(c->failure, sizeof c->failure, "%.40s: %.50s", who, why);
    }
}

void uw_cuda_forget_failure(struct uw_cuda *c)
{
    c->failure[0] = '\0';
}

const char *uw_cuda_failure(struct uw_cuda *c)
{
    cudaError_t rc = c->stream != NULL ? cudaStreamSynchronize(c->stream) : cudaSuccess;
    if (uw_cuda_status(rc) == UW_ERR_IO) {
        uw_cuda_forget_failure(c);      /* a stored library status follows from this error */
        uw_cuda_keep_failure(c, cudaGetErrorName(rc), cudaGetErrorString(rc));
    }
    return c->failure[0] != '\0' ? c->failure : NULL;
}

int uw_cuda_launched(const struct uw_exec *e, cudaError_t rc)
{
    struct uw_cuda *c = uw_cuda_of(e);
    if (rc == cudaSuccess && c->config.blocking) {
        rc = cudaStreamSynchronize(c->stream);
    }
    int status = uw_cuda_status(rc);
    if (status == UW_ERR_IO) {
        uw_cuda_keep_failure(c, cudaGetErrorName(rc), cudaGetErrorString(rc));
    }
    return status;
}

int uw_cuda_numbers(const struct uw_exec *e, struct uw_cuda_numbers *out)
{
    struct uw_cuda *c = uw_cuda_of(e);
    cudaError_t rc = cudaStreamSynchronize(c->stream);
    *out = *c->numbers;
    return uw_cuda_status(rc);
}

/* Allocate the memory of the handle itself. */
static int take_own(struct uw_cuda *c, struct uw_error *err)
{
    void *numbers, *step, *at = NULL;
    int rc = uw_cuda_take(c, UW_CUDA_KERNELS, UW_CUDA_PARTIALS_BYTES, &c->partials, err);
    rc = rc < 0 ? rc : uw_cuda_take(c, UW_CUDA_KERNELS, UW_CUDA_STEP_BYTES, &step, err);
    rc = rc < 0 ? rc : uw_cuda_take(c, UW_CUDA_PINNED, sizeof *c->numbers, &numbers, err);
    if (rc < 0) {
        return rc;
    }
    if (cudaHostGetDevicePointer(&at, numbers, 0) != cudaSuccess) {
        return uw_error_set(err, UW_ERR_IO, "the GPU cannot access the processor's memory");
    }
    c->step = step;                     /* uw_cuda_queue_open zeroes step and tickets */
    c->tickets = (uint32_t *)(void *)(c->step + 1);
    c->numbers = numbers;
    c->numbers_at = at;
    c->own_bytes += UW_CUDA_PARTIALS_BYTES + UW_CUDA_STEP_BYTES;
    return UW_OK;
}

/* A program built for newer GPUs, or by a compiler newer than the driver, has no code that runs. */
static int try_kernels(struct uw_cuda *c, struct uw_error *err)
{
    const struct uw_exec e = {.kernels = &c->kernels};
    float *x = c->partials;
    cudaError_t rc = cudaMemsetAsync(x, 0, sizeof *x, c->stream);
    int ran = rc == cudaSuccess ? uw_axpby_cuda(&e, 1, 1.0f, x, 0.0f, x) : UW_OK;
    cudaError_t waited = cudaStreamSynchronize(c->stream);
    rc = rc == cudaSuccess ? waited : rc;
    (void)cudaGetLastError(); /* clear the error */
    if (rc != cudaSuccess) {
        return uw_error_set(err, UW_ERR_IO, "the GPU failed (%s: %s)", cudaGetErrorName(rc),
                            cudaGetErrorString(rc));
    }
    if (ran == UW_OK) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_NOTFOUND, "the kernels of this program do not run on %s: build "
                        "it with -DUWASA_CUDA_ARCHITECTURES=%u%u, or install a newer driver",
                        c->info.name, (unsigned)c->info.major, (unsigned)c->info.minor);
}

static int open_parts(struct uw_cuda *c, struct uw_error *err)
{
    int rc = uw_cuda_probe(c->config.device, &c->info, err);
    c->info.tf32 = c->config.tf32;
    c->multiprocessors = c->info.multiprocessors;
    c->shared_bytes = c->info.block_shared_bytes;
    if (rc == UW_OK &&
        cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking) != cudaSuccess) {
        c->stream = NULL;
        rc = uw_error_set(err, UW_ERR_NOMEM, "not enough GPU memory for a stream");
    }
    rc = rc < 0 ? rc : take_own(c, err);
    rc = rc < 0 ? rc : try_kernels(c, err);
    rc = rc < 0 ? rc : uw_cuda_products_open(c, err);
    return rc < 0 ? rc : uw_cuda_queue_open(c, err);
}

int uw_cuda_open(struct uw_cuda **out, const struct uw_cuda_config *config, struct uw_error *err)
{
    struct uw_cuda *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    c->kernels = table;
    c->config = *config;
    int rc = open_parts(c, err);
    if (rc < 0) {
        uw_cuda_close(c);
        (void)cudaGetLastError(); /* clear the error */
        return rc;
    }
    c->kernels.device = config->blocking ? NULL : &c->device;
    *out = c;
    return UW_OK;
}

int uw_cuda_open_unseen(struct uw_cuda **out, struct uw_error *err)
{
    struct uw_cuda *c = calloc(1, sizeof *c);
    *out = c;
    if (c == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    c->kernels = table;
    c->device = (struct uw_device_kernels){.steps_max = UW_DEVICE_STEPS_MAX};
    c->kernels.device = &c->device;
    return UW_OK;
}

const struct uw_kernels *uw_cuda_kernels(const struct uw_cuda *c)
{
    return &c->kernels;
}

void uw_cuda_info(const struct uw_cuda *c, struct uw_cuda_info *info)
{
    *info = c->info;
}

size_t uw_cuda_own_bytes(const struct uw_cuda *c)
{
    return c->own_bytes;
}

size_t uw_cuda_free_bytes(const struct uw_cuda *c)
{
    size_t free_bytes = 0, all_bytes = 0;
    (void)c;
    return cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess ? free_bytes : 0;
}

/* The pages for memory of that kind; UW_CUDA_PAGES_NONE: the GPU's own memory. */
static enum uw_cuda_pages pages_of(const struct uw_cuda *c, enum uw_cuda_memory kind)
{
    return kind == UW_CUDA_KERNELS  ? UW_CUDA_PAGES_NONE
           : kind == UW_CUDA_SHARED ? uw_cuda_pages(&c->info, false)
                                    : UW_CUDA_PAGES_MAPPED;
}

int uw_cuda_take(struct uw_cuda *c, enum uw_cuda_memory kind, size_t bytes, void **out,
                 struct uw_error *err)
{
    size_t free_bytes = 0, all_bytes = 0;
    *out = NULL;
    if (bytes == 0) {
        return UW_OK;
    }
    if (c->blocks_n == UW_CUDA_BLOCKS_MAX) {
        return uw_error_set(err, UW_ERR_NOMEM, "more than %u blocks of memory",
                            UW_CUDA_BLOCKS_MAX);
    }
    enum uw_cuda_pages pages = pages_of(c, kind);
    cudaError_t rc = pages == UW_CUDA_PAGES_NONE ? cudaMalloc(out, bytes)
                                                 : uw_cuda_pages_new(pages, bytes, out);
    if (rc != cudaSuccess) {
        (void)cudaGetLastError(); /* clear the error */
        *out = NULL;
    }
    if (rc != cudaSuccess && rc != cudaErrorMemoryAllocation) {
        return uw_error_set(err, UW_ERR_IO, "the GPU failed (%.40s: %.50s)", cudaGetErrorName(rc),
                            cudaGetErrorString(rc));
    }
    if (rc != cudaSuccess) {
        (void)cudaMemGetInfo(&free_bytes, &all_bytes);
        return uw_error_set(err, UW_ERR_NOMEM,
                            kind == UW_CUDA_KERNELS
                                ? "not enough memory on the GPU: %.2f MB wanted, %.2f of %.0f free"
                                : "no %.2f MB of pinned memory (the GPU has %.2f of %.0f free)",
                            (double)bytes / 1e6, (double)free_bytes / 1e6, (double)all_bytes / 1e6);
    }
    c->blocks[c->blocks_n++] =
        (struct uw_cuda_block){.at = *out, .pinned = pages == UW_CUDA_PAGES_MAPPED};
    return UW_OK;
}

void uw_cuda_close(struct uw_cuda *c)
{
    if (c == NULL || c->stuck) {
        return;
    }
    if (c->stream != NULL) {
        (void)cudaStreamSynchronize(c->stream);
    }
    uw_cuda_queue_close(c);
    uw_cuda_products_close(c);
    for (uint32_t i = 0; i < c->blocks_n; i++) {
        const struct uw_cuda_block *b = &c->blocks[i];
        (void)(b->pinned ? cudaFreeHost(b->at) : cudaFree(b->at));
    }
    if (c->stream != NULL) {
        (void)cudaStreamDestroy(c->stream);
    }
    free(c);
}
