/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors without tuned kernels. */
#include "uwasa/backends.h"

#include "backends.h"

const struct uw_backend uw_backends[] = {
    {&uw_kernels_ref, NULL},
    {NULL, NULL},
};
