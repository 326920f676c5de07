/* SPDX-License-Identifier: Apache-2.0
 *
 * Backends of processors without tuned kernels. */
#include "uwasa/backends.h"

#include "ref/backend.h"

const struct uw_backend uw_backends[] = {
    {&uw_kernels_ref, NULL, NULL},
    {NULL, NULL, NULL},
};
