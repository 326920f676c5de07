/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/packed.h"
#include "ref/table.h"

const struct uw_kernels uw_kernels_fpu = {
    .name = "fpu", .tile = &uw_tile_fpu, UW_PRODUCT_ENTRIES(packed), UW_OTHER_ENTRIES(ref)};
