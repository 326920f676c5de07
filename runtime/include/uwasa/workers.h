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

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

/* One task. `task` is 0 .. tasks_n-1; `thread` is 0 .. threads-1 and names the scratch area that
 * this call may use alone. */
typedef void (*uw_task_fn)(void *arg, uint32_t task, uint32_t thread);

struct uw_workers;

struct uw_workers_ops {
    const char *name;
    /* Run every task once, in any order, on up to w->threads threads, and wait for all. Never
     * called from inside a task. */
    void (*run)(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);
    /* Measure hand_off_ns again. (optional: it stays what it is) */
    void (*measure)(struct uw_workers *w);
};

struct uw_workers {
    const struct uw_workers_ops *ops;
    uint32_t threads;       /* 1 or more */
    uint32_t hand_off_ns;   /* from handing a task that does nothing to another thread until it is
                               known to have ended; 0: unknown, all is worth sharing */
    uint32_t asked;         /* calls of uw_workers_for */
    struct uw_workers *alone;   /* as many threads, of which the caller does all; NULL: none */
};

/* Run fn for every task; w == NULL runs them in order on the calling thread. */
void uw_workers_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n);

/* The pool to run a call on: w, or w->alone when handing over would take longer than it saves.
 *   work   multiply-adds of the call
 *   bytes  that it reads and writes: from the caches of one core to those of another they come line
 *          by line, each in a share of hand_off_ns; a call as such takes some of these
 * hand_off_ns is measured again now and then: threads, and virtual processors, move. */
struct uw_workers *uw_workers_for(struct uw_workers *w, double work, double bytes);

/* Make *alone the one that does all on the calling thread. */
void uw_workers_init_alone(struct uw_workers *alone, uint32_t threads);

/* Threads of a pool, 1 for NULL. */
uint32_t uw_workers_threads(const struct uw_workers *w);

UW_C_END
#endif
