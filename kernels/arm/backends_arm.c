/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "arm/arm.h"
#include "backends.h"

/* NEON is part of every AArch64 processor. */
const struct uw_backend uw_backends[] = {
    {&uw_kernels_neon, NULL},
    {&uw_kernels_ref, NULL},
    {NULL, NULL},
};
