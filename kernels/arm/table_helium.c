/* SPDX-License-Identifier: Apache-2.0 */
#include "arm/helium.h"
#include "packed/table_inline.h"

const struct uw_kernels uw_kernels_helium = UW_TABLE_OF_TILE("helium", uw_tile_helium);
