/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "arm/arm.h"
#include "ref/backend.h"
#include "exact/product.h"

/* NEON is part of every AArch64 processor. */
const struct uw_backend uw_backends[] = {
    {&uw_kernels_neon, NULL},
    {&uw_kernels_exact_table, NULL},
    {&uw_kernels_ref, NULL},
    {NULL, NULL},
};
