/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

#include <stdatomic.h>

struct items {
    const struct uw_exec *e;
    size_t room;
    uw_item_fn fn;
    const void *arg;
    _Atomic int rc;             /* the error of one item */
};

static void item_task(void *arg, uint32_t item, uint32_t thread)
{
    struct items *s = arg;
    struct uw_exec mine = *s->e;
    mine.workers = NULL;
    mine.scratch = (uint8_t *)s->e->scratch + thread * s->room;
    mine.scratch_bytes = s->room;
    int rc = s->fn(&mine, s->arg, item);
    if (rc < 0) {
        atomic_store(&s->rc, rc);
    }
}

int uw_run_items(const struct uw_exec *e, double work, double bytes, uint32_t n, uw_item_fn fn,
                 const void *arg)
{
    struct uw_exec all = *e;
    int rc = UW_OK;
    all.workers = uw_workers_for(e->workers, work, bytes);
    uint32_t threads = uw_workers_threads(all.workers);
    if (!uw_items_divide(n, threads)) {
        for (uint32_t i = 0; i < n && rc == UW_OK; i++) {
            rc = fn(&all, arg, i);
        }
        return rc;
    }
    struct items s = {.e = &all, .fn = fn, .arg = arg, .rc = UW_OK};
    s.room = e->scratch_bytes / threads / UW_ARENA_ALIGN * UW_ARENA_ALIGN;
    uw_workers_run(all.workers, item_task, &s, n);
    return atomic_load(&s.rc);
}
