/* SPDX-License-Identifier: Apache-2.0
 *
 * fpu.h - the table for processors with a scalar FPU that multiplies and adds in one instruction */
#ifndef UW_KERNELS_FPU_H
#define UW_KERNELS_FPU_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

extern const struct uw_kernels uw_kernels_fpu;
extern const struct uw_tile uw_tile_fpu;

#endif
