/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_winograd.h"
#include "products.h"

#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

/* Sizes that cuBLAS recommends for cublasSetWorkspace: 32 MiB for Hopper and Blackwell's
 * data-centre cards, 12 MiB for its smaller ones, 4 MiB for all others. True fp32 gets 8 MiB at
 * most: 32 MiB would exceed a small model's own memory, and fp32 needs workspace only to split sums
 * among blocks, where results are few. Not measured on a card. */
static size_t blas_bytes(const struct uw_cuda_info *info)
{
    size_t most = info->major < 9 ? 4 * MIB : info->major <= 10 ? 32 * MIB : 12 * MIB;
    return info->tf32 || most < 8 * MIB ? most : 8 * MIB;
}

/* A twentieth of the memory, so that a model of many layers still fits a small GPU. */
static size_t conv2d_limit(const struct uw_cuda_info *info)
{
    size_t share = (size_t)(info->memory_bytes / 20);
    return share < 16 * MIB ? 16 * MIB : share > 256 * MIB ? 256 * MIB : share;
}

static int open_blas(struct uw_cuda *c, struct uw_cuda_products *p, struct uw_error *err)
{
    const struct uw_cuda_libraries *l = &p->libraries;
    size_t bytes = blas_bytes(&c->info);
    cublasStatus_t status = l->cublasCreate_v2(&p->cublas);
    if (status != CUBLAS_STATUS_SUCCESS) {
        p->cublas = NULL;
        return uw_error_set(err, UW_ERR_NOTFOUND, "cuBLAS does not start (status %d): is it of the "
                            "driver's CUDA, and is memory left on the GPU?", (int)status);
    }
    /* GPU memory, even where uw_cuda_take gives shared memory: the processor never reads it. */
    if (cudaMalloc(&p->workspace, bytes) != cudaSuccess) {
        (void)cudaGetLastError();       /* clear the error */
        p->workspace = NULL;
        return uw_error_set(err, UW_ERR_NOMEM, "not enough memory on the GPU: cuBLAS needs %zu MB",
                            bytes / 1000000u);
    }
    /* The stream first: cublasSetStream resets the workspace to the library's own. */
    status = l->cublasSetStream_v2(p->cublas, c->stream);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = l->cublasSetWorkspace_v2(p->cublas, p->workspace, bytes);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = l->cublasSetMathMode(p->cublas, c->config.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                : CUBLAS_DEFAULT_MATH);
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        return uw_error_set(err, UW_ERR_IO, "cuBLAS cannot be set up (status %d)", (int)status);
    }
    c->own_bytes += bytes;
    return UW_OK;
}

static int open_dnn(struct uw_cuda *c, struct uw_cuda_products *p, struct uw_error *err)
{
    const struct uw_cuda_libraries *l = &p->libraries;
    c->info.cudnn = (uint32_t)l->cudnnGetVersion();
    cudnnStatus_t status = l->cudnnCreate(&p->cudnn);
    if (status != CUDNN_STATUS_SUCCESS) {
        p->cudnn = NULL;
        return uw_error_set(err, UW_ERR_NOTFOUND, "cuDNN does not start: %s",
                            l->cudnnGetErrorString(status));
    }
    status = l->cudnnSetStream(p->cudnn, c->stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        return uw_error_set(err, UW_ERR_IO, "cuDNN cannot be set up: %s",
                            l->cudnnGetErrorString(status));
    }
    return UW_OK;
}

static void load_choices(const struct uw_cuda *c, struct uw_cuda_products *p)
{
    char machine[160];
    const struct uw_cuda_info *i = &c->info;
    snprintf(machine, sizeof machine, "%s, %u.%u, driver %u, cuDNN %u, %s", i->name,
             (unsigned)i->major, (unsigned)i->minor, (unsigned)i->driver, (unsigned)i->cudnn,
             c->config.tf32 ? "TF32" : "fp32");
    uw_cuda_choices_load(&p->choices, c->config.choices, machine);
}

/* Size of the GPU's L2 cache; 0: unknown. */
static size_t cache_bytes(const struct uw_cuda *c)
{
    int bytes = 0;
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, (int)c->config.device) !=
            cudaSuccess || bytes < 0) {
        (void)cudaGetLastError();       /* clear the error */
        return 0;
    }
    return (size_t)bytes;
}

int uw_cuda_products_open(struct uw_cuda *c, struct uw_error *err)
{
    struct uw_cuda_products *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    c->products = p;
    p->conv2d_limit = conv2d_limit(&c->info);
    p->slice_bytes = uw_conv2d_winograd_slice_bytes(cache_bytes(c));
    int rc = uw_cuda_libraries_open(&p->libraries, err);
    rc = rc < 0 ? rc : open_blas(c, p, err);
    rc = rc < 0 ? rc : open_dnn(c, p, err);
    if (rc == UW_OK) {
        load_choices(c, p);
    }
    return rc;
}

void uw_cuda_products_close(struct uw_cuda *c)
{
    struct uw_cuda_products *p = c->products;
    if (p == NULL) {
        return;
    }
    uw_conv2d_shapes_close(&p->libraries, &p->shapes);
    if (p->cudnn != NULL) {
        (void)p->libraries.cudnnDestroy(p->cudnn);
    }
    if (p->cublas != NULL) {
        (void)p->libraries.cublasDestroy_v2(p->cublas);
    }
    (void)cudaFree(p->workspace);
    free(p);
    c->products = NULL;
}

int uw_cuda_blas_done(const struct uw_exec *e, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS) {
        return uw_cuda_launched(e, cudaSuccess);
    }
    if (status == CUBLAS_STATUS_ALLOC_FAILED) {
        return UW_ERR_NOMEM;
    }
    char number[24];
    snprintf(number, sizeof number, "status %d", (int)status);
    uw_cuda_keep_failure(uw_cuda_of(e), "cuBLAS", number);
    return UW_ERR_IO;
}

int uw_cuda_dnn_done(const struct uw_exec *e, cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS) {
        return uw_cuda_launched(e, cudaSuccess);
    }
    /* cuDNN 9 has several such statuses, from 3000 on. */
    const int refused = CUDNN_STATUS_NOT_SUPPORTED, code = (int)status;
    if (code == refused || (refused >= 1000 && code / 1000 == refused / 1000)) {
        return UW_ERR_UNSUPPORTED;
    }
    if (status == CUDNN_STATUS_ALLOC_FAILED) {
        return UW_ERR_NOMEM;
    }
    struct uw_cuda *c = uw_cuda_of(e);
    uw_cuda_keep_failure(c, "cuDNN", c->products->libraries.cudnnGetErrorString(status));
    return UW_ERR_IO;
}
