/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "backends.h"

#include <string.h>

const struct uw_kernels *uw_kernels_at(uint32_t index)
{
    for (const struct uw_backend *b = uw_backends; b->kernels != NULL; b++) {
        if (b->usable != NULL && !b->usable()) {
            continue;
        }
        if (index-- == 0) {
            return b->kernels;
        }
    }
    return NULL;
}

const struct uw_kernels *uw_kernels_best(void)
{
    return uw_kernels_at(0);
}

const struct uw_kernels *uw_kernels_find(const char *name)
{
    for (uint32_t i = 0;; i++) {
        const struct uw_kernels *k = uw_kernels_at(i);
        if (k == NULL || strcmp(k->name, name) == 0) {
            return k;
        }
    }
}
