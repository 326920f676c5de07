/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - a table from names to what they stand for (private)
 *
 * Memory     a pool      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_NAMES_H
#define UWASA_CONVERT_NAMES_H

#include "pool.h"

struct uw_name {
    const char *name;               /* NULL: free */
    const char *other;              /* the name that replaces it */
    uint32_t at;                    /* an index, or a number to try next */
    void *value;
};

struct uw_names {
    struct uw_name *slot;
    uint32_t n;                     /* power of two, at least twice the names */
};

/* Room for that many names. Returns UW_OK, UW_ERR_NOMEM. */
int uw_names_init(struct uw_names *t, struct uw_pool *pool, uint64_t names);

/* The slot of a name. If its `name` is NULL the name is not there, and may be put in. */
struct uw_name *uw_names_slot(const struct uw_names *t, const char *name);

#endif
