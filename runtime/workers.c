/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/workers.h"

#include <stddef.h>

#define WORK_PER_NS 20.0        /* multiply-adds of a core in small kernels */
#define CACHE_BYTES 1048576.0   /* bytes beyond this come from memory on any core */
#define LINE_BYTES 64.0
#define LINES_PER_HAND_OFF 50.0 /* cache lines that move between cores during a hand-off */
#define HAND_OFFS 16.0          /* cost of a shared call: claiming its tasks, cold caches */
#define WORTH 1.25              /* share if the time saved is this many times the cost */
#define MEASURE_EVERY 16384u    /* calls; a power of two. At first also at call 0, 1, 2, 4, ... */

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

static void run_alone(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    (void)w;
    uw_workers_run(NULL, fn, arg, tasks_n);
}

void uw_workers_init_alone(struct uw_workers *alone, uint32_t threads)
{
    static const struct uw_workers_ops ops = {.name = "alone", .run = run_alone};
    *alone = (struct uw_workers){.ops = &ops, .threads = threads};
}

struct uw_workers *uw_workers_for(struct uw_workers *w, double work, double bytes)
{
    if (w == NULL || w->threads < 2 || w->alone == NULL) {
        return w;
    }
    uint32_t asked = w->asked++ % MEASURE_EVERY;
    if ((asked & (asked - 1)) == 0 && (asked == 0 || w->asked < MEASURE_EVERY) &&
        w->ops->measure != NULL) {
        w->ops->measure(w);
    }
    double saved_ns = work / WORK_PER_NS * (1.0 - 1.0 / w->threads);
    double moved = (bytes < CACHE_BYTES ? bytes : CACHE_BYTES) * (1.0 - 1.0 / w->threads);
    double cost_ns = w->hand_off_ns * (HAND_OFFS + moved / LINE_BYTES / LINES_PER_HAND_OFF);
    return saved_ns > WORTH * cost_ns ? w : w->alone;
}

uint32_t uw_workers_threads(const struct uw_workers *w)
{
    return w == NULL ? 1 : w->threads;
}
