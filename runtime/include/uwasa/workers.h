/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/workers.h - how kernels use several cores (implemented by a board)
 *
 * A kernel cuts its work into tasks whose number and borders depend on the problem alone, never
 * on the number of threads; so results are the same bits for any thread count.
 *
 * Memory     the board owns its implementation; a NULL pool means: run on the calling thread
 * Blocking   run returns when every task has ended
 */
#ifndef UWASA_WORKERS_H
#define UWASA_WORKERS_H

#include <stdint.h>

/* One task. `task` is 0 .. tasks_n-1; `thread` is 0 .. threads-1 and names the scratch area that
 * this call may use alone. */
typedef void (*uw_task_fn)(void *arg, uint32_t task, uint32_t thread);

struct uw_workers;

struct uw_workers_ops {
    const char *name;
    /* Run every task once, in any order, on up to w->threads threads, and wait for all. Never
     * called from inside a task. */
    void (*run)(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);
};

struct uw_workers {
    const struct uw_workers_ops *ops;
    uint32_t threads;       /* 1 or more */
};

/* Run fn for every task; w == NULL runs them in order on the calling thread. */
void uw_workers_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);

/* Threads of a pool, 1 for NULL. */
uint32_t uw_workers_threads(const struct uw_workers *w);

#endif
