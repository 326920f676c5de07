/* SPDX-License-Identifier: Apache-2.0
 *
 * packed.h - the kernel slots that run on a register tile
 *
 * Contracts are those of the slots in uwasa/kernels.h; the tile is that of the table in e or k.
 * Small shapes, and convolutions with few output channels a group (depthwise), take the reference
 * path. */
#ifndef UW_KERNELS_PACKED_H
#define UW_KERNELS_PACKED_H

#include "packed/tile.h"
#include "uwasa/slots.h"

/* e with the workers that a call of that many multiply-adds and bytes deserves. */
static inline struct uw_exec uw_exec_for(const struct uw_exec *e, double work, double bytes)
{
    struct uw_exec here = *e;
    here.workers = uw_workers_for(e->workers, work, bytes);
    return here;
}

UW_PRODUCT_SLOTS(packed);

/* The tables for processors with a scalar FPU that multiplies and adds in one instruction, and for
 * Cortex-M processors with vector floating point. */
extern const struct uw_kernels uw_kernels_fpu, uw_kernels_helium;

#endif
