/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "ref/table.h"

const struct uw_kernels uw_kernels_ref = {
    .name = "ref", .exact = true, UW_PRODUCT_ENTRIES(ref), UW_OTHER_ENTRIES(ref)};
