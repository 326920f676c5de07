/* SPDX-License-Identifier: Apache-2.0 */
#include "arm/arm.h"
#include "packed/table_inline.h"

const struct uw_kernels uw_kernels_neon = UW_TABLE_OF_TILE("neon", uw_tile_neon);
