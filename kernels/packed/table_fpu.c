/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/fpu.h"
#include "packed/table_inline.h"

const struct uw_kernels uw_kernels_fpu = UW_TABLE_OF_TILE("fpu", uw_tile_fpu);
