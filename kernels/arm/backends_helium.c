/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of boards with Helium, which needs no check at run time. */
#include "uwasa/backends.h"

#include "packed/packed.h"
#include "ref/backend.h"

const struct uw_backend uw_backends[] = {
    {&uw_kernels_helium, NULL, NULL},
    {&uw_kernels_lean, NULL, NULL},
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
