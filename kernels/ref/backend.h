/* SPDX-License-Identifier: Apache-2.0
 *
 * backend.h - which tables a build has; each processor family fills it in a file of its own */
#ifndef UW_KERNELS_BACKEND_H
#define UW_KERNELS_BACKEND_H

#include "uwasa/kernels.h"

struct uw_backend {
    const struct uw_kernels *kernels;
    bool (*usable)(void);           /* NULL: on every processor of the family */
};

/* Fastest first, ref last, then an entry whose kernels are NULL. */
extern const struct uw_backend uw_backends[];

#endif
