/* SPDX-License-Identifier: Apache-2.0
 *
 * helium.h - the table for Cortex-M processors with vector floating point (Cortex-M55, M85) */
#ifndef UW_KERNELS_HELIUM_H
#define UW_KERNELS_HELIUM_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

extern const struct uw_kernels uw_kernels_helium;
extern const struct uw_tile uw_tile_helium;

#endif
