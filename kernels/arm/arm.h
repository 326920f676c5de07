/* SPDX-License-Identifier: Apache-2.0
 *
 * arm.h - what the files of the AArch64 table share */
#ifndef UW_KERNELS_ARM_H
#define UW_KERNELS_ARM_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

extern const struct uw_kernels uw_kernels_neon;
extern const struct uw_tile uw_tile_neon;

#endif
