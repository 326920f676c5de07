/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cuda.h - kernels for NVIDIA GPUs: open a GPU, allocate its memory, train on it
 *
 * In builds without CUDA the functions return UW_ERR_UNSUPPORTED. cuBLAS and cuDNN are loaded when
 * a GPU is opened, not when the program starts.
 *
 *     uw_cuda_open(&gpu, &config, &err);
 *     model_config.kernels = uw_cuda_kernels(gpu);
 *     uw_cuda_take(gpu, UW_CUDA_KERNELS, bytes, &memory, &err);
 *
 * Memory     allocations belong to the GPU's handle and are freed by close
 * Blocking   open loads libraries: seconds      Context  one thread
 * Source     CUDA C++ Programming Guide; cuDNN 9 and cuBLAS API references
 */
#ifndef UWASA_CUDA_H
#define UWASA_CUDA_H

#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"
#include "uwasa/status.h"

UW_C_BEGIN

struct uw_cuda;

struct uw_cuda_config {
    uint32_t device;                /* CUDA's index */
    bool tf32;                      /* products may round their factors to TF32: 10 bits of mantissa
                                       instead of 23 */
    bool blocking;                  /* for tests: a table without a device, whose slots wait; its
                                       memory is UW_CUDA_SHARED */
    const char *choices;            /* file of measured algorithms, read and written; NULL: none.
                                       Without a common file, runs may choose different algorithms,
                                       whose results differ by rounding. Borrowed until close */
};

struct uw_cuda_info {
    char name[64];
    uint32_t major, minor;          /* compute capability */
    uint32_t driver, runtime;       /* 13000: 13.0 */
    uint32_t cudnn;                 /* 91900: 9.19.0 */
    uint32_t multiprocessors;
    size_t block_shared_bytes;      /* shared memory of a block, at most */
    uint64_t memory_bytes, free_bytes;
    bool integrated;                /* shares physical memory with the processor */
    bool managed;                   /* managed pages are supported ... */
    bool concurrent;                /* ... and may be accessed by both at the same time */
    bool mapped;                    /* the processor's pages can be mapped for the GPU */
    bool tf32;
};

/* Pages that processor and GPU share. */
enum uw_cuda_pages {
    UW_CUDA_PAGES_NONE = 0,
    UW_CUDA_PAGES_MAPPED,           /* pinned pages of the processor */
    UW_CUDA_PAGES_MANAGED           /* the driver moves pages on access */
};

enum uw_cuda_memory {
    UW_CUDA_KERNELS = 0,            /* for kernels only */
    UW_CUDA_PINNED,                 /* of the processor, for direct copies */
    UW_CUDA_SHARED                  /* for both, in turns: the processor must not access it while
                                       the queue has work. Pages of uw_cuda_pages */
};

/* Query a GPU without opening it; cudnn and tf32 stay 0. Errors as uw_cuda_open. */
int uw_cuda_probe(uint32_t device, struct uw_cuda_info *info, struct uw_error *err);

/* The best pages for access by both, at the same time (at_once) or in turns: the processor while no
 * queue of the process has work. */
enum uw_cuda_pages uw_cuda_pages(const struct uw_cuda_info *info, bool at_once);

/* Allocate and free such pages without a handle. *base is the processor's address, *device the
 * GPU's. Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_UNSUPPORTED (UW_CUDA_PAGES_NONE). */
int uw_cuda_pages_take(enum uw_cuda_pages pages, size_t bytes, void **base, void **device);
void uw_cuda_pages_give(enum uw_cuda_pages pages, void *base);

/* Open a GPU. Returns UW_OK, UW_ERR_UNSUPPORTED (no CUDA in this build), UW_ERR_NOTFOUND (driver
 * missing or too old, no GPU, no cuBLAS or cuDNN), UW_ERR_NOMEM; err names cause and remedy. */
int uw_cuda_open(struct uw_cuda **out, const struct uw_cuda_config *config, struct uw_error *err);

/* Open a handle for planning only, without a GPU: it stands for a GPU with its own memory. Its
 * table reports no scratch for measured algorithms; allocating and running is not allowed. Returns
 * UW_OK, UW_ERR_UNSUPPORTED (no CUDA in this build), UW_ERR_NOMEM. */
int uw_cuda_open_unseen(struct uw_cuda **out, struct uw_error *err);

/* The table "cuda"; lives until close. */
const struct uw_kernels *uw_cuda_kernels(const struct uw_cuda *c);

/* Properties of the GPU at open. */
void uw_cuda_info(const struct uw_cuda *c, struct uw_cuda_info *info);

/* Allocate memory; bytes 0 returns NULL. Returns UW_OK, UW_ERR_NOMEM (err contains the free bytes),
 * UW_ERR_IO: the GPU failed. */
int uw_cuda_take(struct uw_cuda *c, enum uw_cuda_memory kind, size_t bytes, void **out,
                 struct uw_error *err);

/* Free bytes on the GPU now, for all programs. */
size_t uw_cuda_free_bytes(const struct uw_cuda *c);

/* Bytes of the GPU's memory that the handle itself uses: sums, partial results, staging, cuBLAS's
 * workspace; without what libraries allocate. */
size_t uw_cuda_own_bytes(const struct uw_cuda *c);

/* The GPU's error in the words of CUDA or its library, "cudaErrorLaunchFailure: unspecified launch
 * failure"; NULL: no error. Waits until the queue is empty. Valid until close. */
const char *uw_cuda_failure(struct uw_cuda *c);

/* Wait until the queue is empty, then free everything. c may be NULL. */
void uw_cuda_close(struct uw_cuda *c);

UW_C_END
#endif
