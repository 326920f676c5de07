/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/unified.h - the GPU of a board, and memory that it shares with the processor
 *
 * On a Jetson both are behind one memory: a model whose regions lie in shared memory is trained on
 * by either and never copied. Without a GPU, or its driver, the same calls give plain memory, and
 * training goes on on the processor.
 *
 *     struct uw_cuda_info gpu;
 *     struct uw_unified memory;
 *     int rc = uw_gpu_find(&gpu, &err);                  below 0: err says why there is none
 *     uw_unified_take(rc < 0 ? NULL : &gpu, need.total_bytes, &memory);
 *     uw_arena_init(&arena, memory.base, memory.bytes);
 *     regions.region[0] = (struct uw_region){"unified", &arena, memory.bytes};
 *     ...
 *     uw_unified_release(&memory);
 *
 * Memory     uw_unified_take asks the driver or the system; the structs are the caller's
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
    void *device;                   /* the same memory as the GPU names it; NULL: plain */
    size_t bytes;
    enum uw_cuda_pages pages;       /* none: plain, no GPU reaches it */
};

/* Look at the first GPU.
 *
 *   err  may be NULL; else a sentence for a person
 *
 * Returns UW_OK, or UW_ERR_NOTFOUND (no driver, one that is too old, or no GPU). */
int uw_gpu_find(struct uw_cuda_info *gpu, struct uw_error *err);

/* Memory that processor and GPU may use at the same time, of the pages that uw_cuda_pages names:
 * managed where an integrated GPU can do that, mapped where it cannot (Orin), plain where neither
 * works or gpu is NULL.
 *
 * Returns UW_OK, or UW_ERR_NOMEM: there is no plain memory left either. */
int uw_unified_take(const struct uw_cuda_info *gpu, size_t bytes, struct uw_unified *out);

/* Give it back. Safe on a zeroed struct, and twice. */
void uw_unified_release(struct uw_unified *m);

/* "plain", "mapped", "managed" */
const char *uw_unified_pages_name(enum uw_cuda_pages pages);

/* Have the processor write numbers into all of it, the GPU change them and the processor look: the
 * contents are lost.
 *
 * Returns UW_OK, UW_ERR_UNSUPPORTED (plain memory, or this program has no code for the GPU),
 * UW_ERR_CORRUPT (one did not see what the other wrote), UW_ERR_IO (the GPU failed); err, which may
 * be NULL, has a sentence. */
int uw_unified_check(const struct uw_unified *m, struct uw_error *err);

UW_C_END
#endif
