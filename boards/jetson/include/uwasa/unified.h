/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/unified.h - the GPU of a board, and memory that it shares with the processor
 *
 * On a Jetson, processor and GPU have one physical memory: both can train a model in shared memory
 * without copies. Without a GPU or its driver the same calls allocate plain memory, and training
 * runs on the processor.
 *
 *     struct uw_cuda_info gpu;
 *     struct uw_unified memory;
 *     int rc = uw_gpu_find(&gpu, &err);                  below 0: err contains the reason
 *     uw_unified_take(rc < 0 ? NULL : &gpu, need.total_bytes, &memory);
 *     uw_arena_init(&arena, memory.base, memory.bytes);
 *     regions.region[0] = (struct uw_region){"unified", &arena, memory.bytes};
 *     ...
 *     uw_unified_release(&memory);
 *
 * Memory     uw_unified_take allocates from the driver or the system; the structs are the caller's
 * Blocking   uw_gpu_find: about a second when the driver starts     Context  one thread
 * Source     NVIDIA, CUDA for Tegra: memory management; kernels/cuda/probe.c
 */
#ifndef UWASA_UNIFIED_H
#define UWASA_UNIFIED_H

#include "uwasa/cplusplus.h"
#include "uwasa/cuda.h"

#include <stddef.h>

UW_C_BEGIN

struct uw_unified {
    void *base;                     /* for the processor; zero-filled, aligned to 256 or a page */
    void *device;                   /* the GPU's address of the memory; NULL: plain */
    size_t bytes;
    enum uw_cuda_pages pages;       /* none: plain memory without access by the GPU */
};

/* Query the first GPU. err may be NULL.
 *
 * Returns UW_OK, or UW_ERR_NOTFOUND (driver missing or too old, or no GPU). */
int uw_gpu_find(struct uw_cuda_info *gpu, struct uw_error *err);

/* Allocate memory that processor and GPU may access at the same time, with pages of uw_cuda_pages:
 * managed if the integrated GPU supports it, else mapped (Orin), else plain; plain if gpu is NULL.
 *
 * Returns UW_OK, or UW_ERR_NOMEM: not even plain memory is left. */
int uw_unified_take(const struct uw_cuda_info *gpu, size_t bytes, struct uw_unified *out);

/* Free the memory. Safe on a zeroed struct, and twice. */
void uw_unified_release(struct uw_unified *m);

/* Name of the pages: "plain", "mapped", "managed". */
const char *uw_unified_pages_name(enum uw_cuda_pages pages);

/* Test the memory: the processor writes all of it, the GPU changes it, the processor reads it. The
 * contents are lost. err may be NULL.
 *
 * Returns UW_OK, UW_ERR_UNSUPPORTED (plain memory, or this program has no code for the GPU),
 * UW_ERR_CORRUPT (one did not read what the other wrote), UW_ERR_IO (the GPU failed). */
int uw_unified_check(const struct uw_unified *m, struct uw_error *err);

UW_C_END
#endif
