/* SPDX-License-Identifier: Apache-2.0
 *
 * Boards with Helium: a build for one has it. */
#include "uwasa/backends.h"

#include "packed/packed.h"
#include "ref/backend.h"
#include "ref/table.h"

static const struct uw_kernels helium = {
    .name = "helium", .tile = &uw_tile_helium, UW_PRODUCT_ENTRIES(packed), UW_OTHER_ENTRIES(ref)};

const struct uw_backend uw_backends[] = {
    {&helium, NULL},
    {&uw_kernels_lean, NULL},
    {&uw_kernels_ref, NULL},
    {NULL, NULL},
};
