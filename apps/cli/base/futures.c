/* SPDX-License-Identifier: Apache-2.0
 *
 * One lock guards the queue and the states. An idle thread spins for a while before it sleeps:
 * steps of small models are shorter than waking a thread. */
#include "futures.h"

#include "uwasa/board.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

/* Spinning lasts some tens of microseconds; every YIELD_EVERY iterations it yields the core. */
enum { LOOKS = 10000, YIELD_EVERY = 200 };

enum state { ENDED = 0, QUEUED, RUNNING };  /* ENDED is 0: a zeroed future needs no wait */

struct helper {
    struct uw_futures *pool;
    pthread_t thread;
    uint32_t number;                /* 1 .. helpers_n */
};

struct uw_futures {
    pthread_mutex_t lock;
    pthread_cond_t work, ended;
    struct uw_future *first, *last; /* queued */
    atomic_uint queued, running;
    uint32_t asleep;                /* helpers that wait for work */
    bool awaited;                   /* thread 0 sleeps until something has ended */
    atomic_bool stop;
    uint32_t helpers_n;
    struct helper helpers[];
};

static void append(struct uw_futures *p, struct uw_future *f)
{
    f->before = p->last;
    f->after = NULL;
    *(p->last != NULL ? &p->last->after : &p->first) = f;
    p->last = f;
    atomic_fetch_add(&p->queued, 1);
}

static void take_out(struct uw_futures *p, struct uw_future *f)
{
    *(f->before != NULL ? &f->before->after : &p->first) = f->after;
    *(f->after != NULL ? &f->after->before : &p->last) = f->before;
    atomic_fetch_sub(&p->queued, 1);
}

/* Run queued work. The lock is held at call and return. */
static void run(struct uw_futures *p, struct uw_future *f, uint32_t thread)
{
    take_out(p, f);
    atomic_store(&f->state, RUNNING);
    atomic_fetch_add(&p->running, 1);
    pthread_mutex_unlock(&p->lock);
    f->run(f, thread);
    pthread_mutex_lock(&p->lock);
    atomic_store(&f->state, ENDED);
    atomic_fetch_sub(&p->running, 1);
    if (p->awaited) {
        pthread_cond_signal(&p->ended);
    }
}

/* Spin for a while until there is a reason to take the lock again. */
static void look_for_work(struct uw_futures *p)
{
    for (int look = 1; look <= LOOKS && !atomic_load(&p->stop); look++) {
        if (atomic_load_explicit(&p->queued, memory_order_relaxed) != 0) {
            return;
        }
        if (look % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    struct uw_futures *p = h->pool;
    pthread_mutex_lock(&p->lock);
    while (!atomic_load(&p->stop)) {
        if (p->first != NULL) {
            run(p, p->first, h->number);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        look_for_work(p);
        pthread_mutex_lock(&p->lock);
        p->asleep++;
        while (p->first == NULL && !atomic_load(&p->stop)) {
            pthread_cond_wait(&p->work, &p->lock);
        }
        p->asleep--;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int uw_futures_open(struct uw_futures **out, uint32_t threads)
{
    sigset_t all, before;
    int failed = 0;
    *out = NULL;
    if (threads == 0 || threads > UW_BOARD_WORKERS_MAX) {
        return UW_ERR_INVALID;
    }
    struct uw_futures *p = calloc(1, sizeof *p + (threads - 1u) * sizeof p->helpers[0]);
    if (p == NULL) {
        return UW_ERR_NOMEM;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->ended, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i + 1u < threads && failed == 0; i++) {
        p->helpers[i] = (struct helper){.pool = p, .number = i + 1u};
        failed = pthread_create(&p->helpers[i].thread, NULL, helper_main, &p->helpers[i]);
        p->helpers_n += failed == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = p;
    if (failed != 0) {
        uw_futures_close(out);
    }
    return failed == 0 ? UW_OK : UW_ERR_NOMEM;
}

void uw_futures_submit(struct uw_futures *p, struct uw_future *f)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&f->state, QUEUED);
    append(p, f);
    if (p->asleep != 0) {
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
}

static bool has_ended(const struct uw_future *f)
{
    return atomic_load(&f->state) == ENDED;
}

/* All remaining work is running on other threads: wait for f, or if NULL until one has ended. */
static void wait_for(struct uw_futures *p, const struct uw_future *f)
{
    pthread_mutex_unlock(&p->lock);
    for (int look = 1; look <= LOOKS; look++) {
        if (f != NULL ? has_ended(f) : atomic_load(&p->running) == 0) {
            break;
        }
        if (look % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    pthread_mutex_lock(&p->lock);
    p->awaited = true;
    while (f != NULL ? !has_ended(f) : atomic_load(&p->running) != 0) {
        pthread_cond_wait(&p->ended, &p->lock);
    }
    p->awaited = false;
}

void uw_futures_await(struct uw_futures *p, struct uw_future *f)
{
    if (has_ended(f)) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    while (!has_ended(f)) {
        if (atomic_load(&f->state) == QUEUED) {
            run(p, f, 0);
        } else if (p->first != NULL) {
            run(p, p->first, 0);
        } else {
            wait_for(p, f);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void uw_futures_drain(struct uw_futures *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->first != NULL) {
        run(p, p->first, 0);
    }
    wait_for(p, NULL);
    pthread_mutex_unlock(&p->lock);
}

void uw_futures_discard(struct uw_futures *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->first != NULL) {
        struct uw_future *f = p->first;
        take_out(p, f);
        atomic_store(&f->state, ENDED);
    }
    wait_for(p, NULL);
    pthread_mutex_unlock(&p->lock);
}

void uw_futures_close(struct uw_futures **pool)
{
    struct uw_futures *p = *pool;
    if (p == NULL) {
        return;
    }
    uw_futures_discard(p);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->helpers_n; i++) {
        pthread_join(p->helpers[i].thread, NULL);
    }
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
    *pool = NULL;
}
