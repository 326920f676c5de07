/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "ref/backend.h"
#include "packed/tile.h"

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

void uw_kernels_enter(const struct uw_kernels *k)
{
    if (uw_backends[0].subnormals_are_zero != NULL) {
        uw_backends[0].subnormals_are_zero(k->tile != NULL);
    }
}

double uw_kernels_fma_flop(const struct uw_kernels *k, uint32_t steps)
{
    const struct uw_tile *t = k->tile;
    if (t == NULL) {
        return 0.0;
    }
    float v[UW_TILE_NR_MAX], out[UW_TILE_MR_MAX * UW_TILE_NR_MAX] = {0.0f};
    for (uint32_t i = 0; i < UW_TILE_NR_MAX; i++) {
        v[i] = 1e-3f; /* not 0: zeros may need less power and run faster */
    }
    t->multiply_add(steps, v, 0.5f, out);
    return 2.0 * steps * t->mr * t->nr;
}

#define PANEL_K 64u         /* 4 KiB of A and 8 KiB of B at most */

double uw_kernels_tile_flop(const struct uw_kernels *k, uint32_t steps)
{
    const struct uw_tile *t = k->tile;
    if (t == NULL) {
        return 0.0;
    }
    float a[PANEL_K * UW_TILE_MR_MAX] = {0.0f}, panel[PANEL_K * UW_TILE_NR_MAX] = {0.0f};
    float out[UW_TILE_MR_MAX * UW_TILE_NR_MAX] = {0.0f};
    for (uint32_t i = 0; i < steps; i++) {
        t->multiply(t->mr, PANEL_K, a, panel, a, out, t->nr, true);
    }
    return 2.0 * steps * PANEL_K * t->mr * t->nr;
}
