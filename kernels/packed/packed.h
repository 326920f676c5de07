/* SPDX-License-Identifier: Apache-2.0
 *
 * packed.h - the kernel slots that run on a register tile
 *
 * Contracts are those of the slots in uwasa/kernels.h; the tile is that of the table in e or k.
 * Small products use the reference. */
#ifndef UW_KERNELS_PACKED_H
#define UW_KERNELS_PACKED_H

#include "packed/tile.h"
#include "uwasa/slots.h"

/* e with as many workers as pay off for that many multiply-adds and bytes. */
static inline struct uw_exec uw_exec_for(const struct uw_exec *e, double work, double bytes)
{
    struct uw_exec here = *e;
    here.workers = uw_workers_for(e->workers, work, bytes);
    return here;
}

UW_PRODUCT_SLOTS(packed);

/* The gemm slot with beta 1, where every row of C is `start` first, g->n floats; NULL: as it is. */
int uw_gemm_from_packed(const struct uw_exec *e, const struct uw_gemm *g, const float *start,
                        const float *a, const float *b, float *c);

/* For processors with a scalar FPU that has a fused multiply-add, and for Cortex-M with Helium. */
extern const struct uw_kernels uw_kernels_fpu, uw_kernels_helium;

#endif
