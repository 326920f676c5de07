/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/packed.h"
#include "ref/table.h"

const struct uw_kernels uw_kernels_helium = {
    .name = "helium", .tile = &uw_tile_helium, UW_PRODUCT_ENTRIES(packed), UW_OTHER_ENTRIES(ref)};
