/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/workers.h"

#include <stddef.h>

void uw_workers_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    if (w != NULL && w->threads > 1 && tasks_n > 1) {
        w->ops->run(w, fn, arg, tasks_n);
        return;
    }
    for (uint32_t task = 0; task < tasks_n; task++) {
        fn(arg, task, 0);
    }
}

uint32_t uw_workers_threads(const struct uw_workers *w)
{
    return w == NULL ? 1 : w->threads;
}
