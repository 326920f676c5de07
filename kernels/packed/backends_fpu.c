/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of boards with a scalar FPU. */
#include "uwasa/backends.h"

#include "ref/backend.h"
#include "packed/packed.h"

const struct uw_backend uw_backends[] = {
    {&uw_kernels_fpu, NULL, NULL},
    {&uw_kernels_lean, NULL, NULL},
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
