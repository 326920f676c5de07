/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/workers.h - a pool of helper threads for kernels (implemented by a board)
 *
 * A kernel divides its work into tasks by the size of the problem, not by the number of threads:
 * results are the same bits for any number of threads.
 *
 * Memory     the board owns its implementation; a NULL pool runs on the calling thread
 * Blocking   run returns when every task has ended
 */
#ifndef UWASA_WORKERS_H
#define UWASA_WORKERS_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

/* One task. `task` is 0 .. tasks_n-1; `thread` is 0 .. threads-1 and selects the scratch area of
 * this call. */
typedef void (*uw_task_fn)(void *arg, uint32_t task, uint32_t thread);

struct uw_workers;

struct uw_workers_ops {
    const char *name;
    /* Run every task once, in any order, on up to w->threads threads, and wait for all. Never
     * called from inside a task. */
    void (*run)(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);
    /* (optional: NULL means hand_off_ns is constant) Measure hand_off_ns again. */
    void (*measure)(struct uw_workers *w);
};

struct uw_workers {
    const struct uw_workers_ops *ops;
    uint32_t threads;       /* 1 or more */
    uint32_t hand_off_ns;   /* time to run an empty task on another thread, start to end; 0:
                               unknown, always use helper threads */
    uint32_t asked;         /* calls of uw_workers_for */
    struct uw_workers *alone;   /* as many threads, but the caller runs all tasks; NULL: none */
};

/* Run fn for every task; w == NULL runs them in order on the calling thread. */
void uw_workers_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);

/* Choose the pool for a call: w, or w->alone if helper threads cost more time than they save.
 *   work   multiply-adds of the call
 *   bytes  read and written by the call: they move between the cores' caches line by line, each
 *          line for a share of hand_off_ns, and a call costs a few such lines
 * Measures hand_off_ns again now and then, because threads and virtual processors move. */
struct uw_workers *uw_workers_for(struct uw_workers *w, double work, double bytes);

/* Set up *alone to run all tasks on the calling thread. */
void uw_workers_init_alone(struct uw_workers *alone, uint32_t threads);

/* Threads of a pool, 1 for NULL. */
uint32_t uw_workers_threads(const struct uw_workers *w);

UW_C_END
#endif
