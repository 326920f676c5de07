/* SPDX-License-Identifier: Apache-2.0
 *
 * One atomic word, the ticket, holds the number of the run (upper half) and the tasks that nobody
 * has claimed yet (lower half). Claiming is a compare-and-swap on that word: it succeeds only
 * while the run it was read from still has that task open, so a helper that wakes up late can
 * neither take a task twice nor mistake a new run for an old one, and nobody has to wait for it.
 * Between runs the lower half is 0; fn and arg change only then. */
#include "uwasa/board.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Looks at an atomic before sleeping: some tens of microseconds, more than the gap between two
 * kernels of a training step. Every YIELD_EVERY looks, the core is offered to other threads. */
enum { LOOKS = 2000, YIELD_EVERY = 50 };

struct pool;

struct helper {
    struct pool *pool;
    pthread_t thread;
    uint32_t number; /* 1 .. threads-1; the caller of run is 0 */
};

struct pool {
    struct uw_workers base;
    _Atomic uint64_t ticket;
    _Atomic uint32_t unfinished;
    _Atomic uw_task_fn fn;
    void *_Atomic arg;
    _Atomic uint32_t asleep; /* helpers waiting on `work` */
    atomic_bool caller_asleep; /* the caller of run waits on `finished` */
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    uint32_t helpers_n;
    struct helper helpers[UW_BOARD_WORKERS_MAX];
};

static uint32_t unclaimed(const struct pool *p)
{
    return (uint32_t)atomic_load(&p->ticket);
}

static void finish_task(struct pool *p)
{
    if (atomic_fetch_sub(&p->unfinished, 1) == 1 && atomic_load(&p->caller_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->finished);
        pthread_mutex_unlock(&p->lock);
    }
}

static void work_off(struct pool *p, uint32_t thread)
{
    uint64_t ticket = atomic_load(&p->ticket);
    while ((uint32_t)ticket != 0) {
        uw_task_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        if (atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1)) {
            fn(arg, (uint32_t)ticket - 1, thread);
            finish_task(p);
            ticket = atomic_load(&p->ticket);
        }
    }
}

static bool has_reason_to_wake(const struct pool *p)
{
    return unclaimed(p) != 0 || atomic_load(&p->stop);
}

static void wait_for_work(struct pool *p)
{
    for (int look = 1; look <= LOOKS; look++) {
        if (has_reason_to_wake(p)) {
            return;
        }
        if (look % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!has_reason_to_wake(p)) {
        pthread_cond_wait(&p->work, &p->lock);
    }
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    while (!atomic_load(&h->pool->stop)) {
        work_off(h->pool, h->number);
        wait_for_work(h->pool);
    }
    return NULL;
}

static void wake(struct pool *p, uint32_t helpers_n)
{
    if (atomic_load(&p->asleep) == 0) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (helpers_n >= p->helpers_n) {
        pthread_cond_broadcast(&p->work);
    } else {
        for (uint32_t i = 0; i < helpers_n; i++) {
            pthread_cond_signal(&p->work);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

static void wait_until_finished(struct pool *p)
{
    for (int look = 1; look <= LOOKS; look++) {
        if (atomic_load(&p->unfinished) == 0) {
            return;
        }
        if (look % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_asleep, true);
    while (atomic_load(&p->unfinished) != 0) {
        pthread_cond_wait(&p->finished, &p->lock);
    }
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

static void pool_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    struct pool *p = (struct pool *)w;
    if (tasks_n == 0) {
        return;
    }
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store(&p->unfinished, tasks_n);
    uint64_t run = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store(&p->ticket, run << 32 | tasks_n);
    wake(p, tasks_n - 1);
    work_off(p, 0);
    wait_until_finished(p);
}

static const struct uw_workers_ops pool_ops = {.name = "pthread", .run = pool_run};

static int start_helpers(struct pool *p, uint32_t helpers_n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (uint32_t i = 0; i < helpers_n && failed == 0; i++) {
        struct helper *h = &p->helpers[i];
        *h = (struct helper){.pool = p, .number = i + 1};
        failed = pthread_create(&h->thread, NULL, helper_main, h);
        p->helpers_n += failed == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ? UW_OK : UW_ERR_NOMEM;
}

int uw_board_workers_init(struct uw_workers **out, uint32_t threads)
{
    *out = NULL;
    if (threads > UW_BOARD_WORKERS_MAX) {
        return UW_ERR_INVALID;
    }
    if (threads == 0) {
        threads = uw_board_cores();
        threads = threads < UW_BOARD_WORKERS_MAX ? threads : UW_BOARD_WORKERS_MAX;
    }
    void *memory;
    int rc = uw_board_memory_take(sizeof(struct pool), &memory);
    if (rc < 0) {
        return rc;
    }
    struct pool *p = memory;
    p->base = (struct uw_workers){.ops = &pool_ops, .threads = threads};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);
    *out = &p->base;
    rc = start_helpers(p, threads - 1);
    if (rc < 0) {
        uw_board_workers_deinit(out);
    }
    return rc;
}

void uw_board_workers_deinit(struct uw_workers **pool)
{
    struct pool *p = (struct pool *)*pool;
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->helpers_n; i++) {
        pthread_join(p->helpers[i].thread, NULL);
    }
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    uw_board_memory_release(p, sizeof *p);
    *pool = NULL;
}
