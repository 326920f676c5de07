/* SPDX-License-Identifier: Apache-2.0
 *
 * futures.h - work that is submitted now and needed later, on several threads
 *
 *     struct step { struct uw_future future; ... };       embedded first
 *     uw_futures_open(&p, threads);
 *     uw_futures_submit(p, &step.future);                 a helper may begin at once
 *     ...                                                 the caller goes on
 *     uw_futures_await(p, &step.future);                  waits for its end, and helps
 *     uw_futures_close(&p);
 *
 * Work is begun in the order in which it was submitted, and awaited in any order. Await runs the
 * work itself if no thread has begun it. Otherwise it runs other queued work, and sleeps only when
 * there is none. So a pool of one thread does everything in await, and results never depend on the
 * number of threads as long as no two pieces of work share what they write.
 *
 * Memory     futures are the caller's and must not move until they have ended
 * Blocking   submit: never; the rest: until the work is done
 * Context    one thread, number 0, calls everything; helpers are numbered from 1. Helpers take no
 *            signals
 */
#ifndef UWASA_CLI_FUTURES_H
#define UWASA_CLI_FUTURES_H

#include <stdatomic.h>
#include <stdint.h>

struct uw_futures;

struct uw_future {
    /* Do the work.
     *   thread  number of the thread that runs it, 0 .. threads - 1, for per-thread memory */
    void (*run)(struct uw_future *f, uint32_t thread);

    /* private, zero at first */
    struct uw_future *before, *after;
    atomic_int state;
};

/* Start threads - 1 helpers. Returns UW_OK, UW_ERR_INVALID (no thread, or more than
 * UW_BOARD_WORKERS_MAX) or UW_ERR_NOMEM (no thread or memory left); on errors *p is NULL. */
int uw_futures_open(struct uw_futures **p, uint32_t threads);

/* Queue f. It may be submitted again after it was awaited. */
void uw_futures_submit(struct uw_futures *p, struct uw_future *f);

/* Return when f has ended. One that was never submitted, or was discarded, counts as ended. */
void uw_futures_await(struct uw_futures *p, struct uw_future *f);

/* Return when all submitted work has ended. */
void uw_futures_drain(struct uw_futures *p);

/* Drop work that no thread has started, and return when the rest has ended. */
void uw_futures_discard(struct uw_futures *p);

/* Discard, end the helpers and set *p to NULL. Does nothing when it is NULL already. */
void uw_futures_close(struct uw_futures **p);

#endif
