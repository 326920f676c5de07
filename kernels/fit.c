/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/backends.h"

#include "packed/sizes.h"
#include "packed/tile.h"

#include <string.h>

struct blocking {
    const char *kernels;
    struct uw_caches caches;
    uint32_t rows, columns;
};

#include "packed/blocking_table.h"

_Static_assert(sizeof(struct uw_tile) <= sizeof((struct uw_kernels_fitted *)0)->tile,
               "a tile has room");

bool uw_kernels_blocks(const struct uw_kernels *k, struct uw_blocks *b)
{
    if (k->tile == NULL) {
        return false;
    }
    *b = (struct uw_blocks){k->tile->mc, k->tile->matrix_nc, k->tile->matrix_kc};
    return true;
}

const struct uw_kernels *uw_kernels_with_blocks(struct uw_kernels_fitted *f,
                                                const struct uw_kernels *k, uint32_t rows,
                                                uint32_t columns)
{
    if (k->tile == NULL || rows == 0 || columns == 0) {
        return k;
    }
    struct uw_tile tile = *k->tile;
    tile.mc = round_up(rows, tile.mr);
    tile.matrix_nc = round_up(columns, tile.nr);
    memcpy(f->tile, &tile, sizeof tile);
    f->kernels = *k;
    f->kernels.tile = (const struct uw_tile *)(const void *)f->tile;
    return &f->kernels;
}

const struct uw_kernels *uw_kernels_fit(struct uw_kernels_fitted *f, const struct uw_kernels *k,
                                        const struct uw_caches *c)
{
    for (const struct blocking *b = blocking_table; b->kernels != NULL; b++) {
        if (strcmp(b->kernels, k->name) == 0 && b->caches.l1_bytes == c->l1_bytes &&
            b->caches.l2_bytes == c->l2_bytes && b->caches.l3_bytes == c->l3_bytes) {
            return uw_kernels_with_blocks(f, k, b->rows, b->columns);
        }
    }
    return k;
}
