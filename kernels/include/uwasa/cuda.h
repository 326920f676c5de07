/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cuda.h - kernels for NVIDIA GPUs: open one, take its memory, train on it
 *
 * In builds without CUDA the functions are there and say so. cuBLAS and cuDNN are looked for when
 * a GPU is opened, not when the program starts.
 *
 *     uw_cuda_open(&gpu, &config, &err);          or the sentence why not
 *     model_config.kernels = uw_cuda_kernels(gpu);
 *     uw_cuda_take(gpu, UW_CUDA_KERNELS, bytes, &memory, &err);
 *
 * Memory     what is taken belongs to the GPU's handle and is given back when it is closed
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
    uint32_t device;                /* as CUDA counts them */
    bool tf32;                      /* products may round their factors to TF32: 10 bits of
                                       mantissa in place of 23 */
    bool blocking;                  /* a table as the processor's, device NULL: every slot waits;
                                       its memory is UW_CUDA_SHARED. For tests */
    const char *choices;            /* file of measured algorithms, read and written; NULL: none.
                                       Runs that share no file may choose differently, and their
                                       results differ by rounding. Borrowed until close */
};

struct uw_cuda_info {
    char name[64];
    uint32_t major, minor;          /* compute capability */
    uint32_t driver, runtime;       /* 13000: 13.0 */
    uint32_t cudnn;                 /* 91900: 9.19.0 */
    uint32_t multiprocessors;
    size_t block_shared_bytes;      /* the most that a block may take */
    uint64_t memory_bytes, free_bytes;
    bool integrated;                /* one memory with the processor */
    bool managed;                   /* pages may be shared with it ... */
    bool concurrent;                /* ... and touched by both at the same time */
    bool mapped;                    /* the processor's pages can be put into its addresses */
    bool tf32;
};

/* Pages that processor and GPU share. */
enum uw_cuda_pages {
    UW_CUDA_PAGES_NONE = 0,
    UW_CUDA_PAGES_MAPPED,           /* the processor's own, pinned */
    UW_CUDA_PAGES_MANAGED           /* the driver hands them to who touches them */
};

enum uw_cuda_memory {
    UW_CUDA_KERNELS = 0,            /* for kernels only */
    UW_CUDA_PINNED,                 /* the processor's, copied from and to without a detour */
    UW_CUDA_SHARED                  /* both see it, in turn: not to be touched while work is in
                                       the queue. Pages as uw_cuda_pages says */
};

/* Look at a GPU, without opening it; cudnn and tf32 stay 0. Errors as uw_cuda_open. */
int uw_cuda_probe(uint32_t device, struct uw_cuda_info *info, struct uw_error *err);

/* The best pages for what both touch: at_once, or in turn, the processor while no work is in any
 * queue of the process. */
enum uw_cuda_pages uw_cuda_pages(const struct uw_cuda_info *info, bool at_once);

/* Such pages without a handle. *base is the processor's address, *device the GPU's of the same.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_UNSUPPORTED (UW_CUDA_PAGES_NONE). */
int uw_cuda_pages_take(enum uw_cuda_pages pages, size_t bytes, void **base, void **device);
void uw_cuda_pages_give(enum uw_cuda_pages pages, void *base);

/* Returns UW_OK, UW_ERR_UNSUPPORTED (no CUDA in this build), UW_ERR_NOTFOUND (no driver, one that
 * is too old, no GPU, no cuBLAS or cuDNN), UW_ERR_NOMEM; err says which, and what to do. */
int uw_cuda_open(struct uw_cuda **out, const struct uw_cuda_config *config, struct uw_error *err);

/* A handle for planning alone, with a GPU that is not here and has memory of its own: its table
 * asks for no scratch where that is measured, and nothing may be taken, or run. Returns UW_OK,
 * UW_ERR_UNSUPPORTED (no CUDA in this build), UW_ERR_NOMEM. */
int uw_cuda_open_unseen(struct uw_cuda **out, struct uw_error *err);

/* The table "cuda"; lives until close. */
const struct uw_kernels *uw_cuda_kernels(const struct uw_cuda *c);

/* What was opened; free_bytes as it was then. */
void uw_cuda_info(const struct uw_cuda *c, struct uw_cuda_info *info);

/* Returns UW_OK, UW_ERR_NOMEM (err says how much is free), or UW_ERR_IO: the GPU failed. bytes 0
 * gives NULL. */
int uw_cuda_take(struct uw_cuda *c, enum uw_cuda_memory kind, size_t bytes, void **out,
                 struct uw_error *err);

/* Bytes that are free on the GPU now, for all programs. */
size_t uw_cuda_free_bytes(const struct uw_cuda *c);

/* Bytes of the GPU's memory that the handle takes for itself: sums, partial results, staging,
 * cuBLAS's workspace. Libraries' own are not in it. */
size_t uw_cuda_own_bytes(const struct uw_cuda *c);

/* Why the GPU failed, in CUDA's words or its library's, as "cudaErrorLaunchFailure: unspecified
 * launch failure"; NULL: it has not. Waits for what is in the queue. Valid until close. */
const char *uw_cuda_failure(struct uw_cuda *c);

/* Waits for what is in the queue. c may be NULL. */
void uw_cuda_close(struct uw_cuda *c);

UW_C_END
#endif
