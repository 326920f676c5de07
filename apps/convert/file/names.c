/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include "uwasa/status.h"

#include <string.h>

int uw_names_init(struct uw_names *t, struct uw_pool *pool, uint64_t names)
{
    t->n = 16;
    while (t->n < 2 * names && t->n < 1u << 30) {
        t->n *= 2;
    }
    t->slot = names < 1u << 29 ? uw_pool_take(pool, t->n, sizeof *t->slot) : NULL;
    return t->slot != NULL ? UW_OK : UW_ERR_NOMEM;
}

struct uw_name *uw_names_slot(const struct uw_names *t, const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (const char *p = name; *p != '\0'; p++) {
        h = (h ^ (unsigned char)*p) * 16777619u;
    }
    h &= t->n - 1;
    while (t->slot[h].name != NULL && strcmp(t->slot[h].name, name) != 0) {
        h = (h + 1) & (t->n - 1);
    }
    return &t->slot[h];
}
