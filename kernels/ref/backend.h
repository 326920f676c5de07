/* SPDX-License-Identifier: Apache-2.0
 *
 * backend.h - the tables of a build; each processor family defines them in its own file */
#ifndef UW_KERNELS_BACKEND_H
#define UW_KERNELS_BACKEND_H

#include "uwasa/kernels.h"

struct uw_backend {
    const struct uw_kernels *kernels;
    bool (*usable)(void);           /* NULL: on every processor of the family */
    void (*subnormals_are_zero)(bool zero); /* for this thread; NULL, or that of the first entry */
};

/* Fastest first, then ref, then an entry with kernels NULL. */
extern const struct uw_backend uw_backends[];

#endif
