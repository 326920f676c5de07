/* SPDX-License-Identifier: Apache-2.0
 *
 * One atomic word, the ticket, holds the number of the run (upper half) and the unclaimed tasks,
 * low .. high-1 (16 bits each). A thread claims tasks by compare-and-swap on the ticket, which
 * succeeds only if the run is the same and the tasks are still unclaimed. So a helper that wakes up
 * late can neither claim a task twice nor confuse two runs, and nobody waits for it. Between runs
 * no task is unclaimed; fn, arg and first change only then.
 *
 * The caller claims from below, helpers from above: kernels that divide the same arrays in the same
 * way find them in the caches of the core that used them before.
 *
 * A helper that wakes up on the processor of another thread of the pool moves to another one. The
 * system leaves a woken thread on the waker's processor if the others look busy, as those of a
 * virtual machine do that its host has put to sleep. Two spinning threads would then take turns on
 * one processor for milliseconds before the system separates them. */
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity */
#include "uwasa/board.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* How long a thread spins before it sleeps: longer than the gap between two kernels of a training
 * step and several times the cost of waking it. Every LOOKS iterations, about a microsecond, it
 * yields the core. */
enum { LOOK_NS = 100000, LOOKS = 128 };

enum { LINE_BYTES = 64, RUN_TASKS_MAX = UINT16_MAX, HAND_OFFS = 8, CLAIMS = 4 };
enum { WAKE_NS_MAX = 200000, HAND_OFF_NS_MAX = 10000 };

struct pool;

struct helper {
    struct pool *pool;
    pthread_t thread;
    uint32_t number; /* 1 .. threads-1; 0 is the caller of run */
};

struct pool {
    struct uw_workers base, alone;
    _Alignas(LINE_BYTES) _Atomic uint64_t ticket;
    _Atomic uw_task_fn fn;
    void *_Atomic arg;
    _Atomic uint32_t first; /* task 0 of the run */
    _Atomic int32_t on[UW_BOARD_WORKERS_MAX];   /* the processor of each thread, when last seen */
    _Alignas(LINE_BYTES) _Atomic uint32_t helped; /* tasks that helpers have finished */
    _Alignas(LINE_BYTES) _Atomic uint32_t asleep; /* helpers waiting on `work` */
    atomic_bool caller_asleep; /* the caller of run waits on `finished` */
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    uint32_t helpers_n;
    struct helper helpers[UW_BOARD_WORKERS_MAX];
};

static uint32_t low_of(uint64_t ticket)
{
    return (uint32_t)ticket >> 16;
}

static uint32_t high_of(uint64_t ticket)
{
    return (uint32_t)ticket & UINT16_MAX;
}

static bool is_open(uint64_t ticket)
{
    return low_of(ticket) < high_of(ticket);
}

static void finish_tasks(struct pool *p, uint32_t n)
{
    atomic_fetch_add(&p->helped, n);
    if (atomic_load(&p->caller_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->finished);
        pthread_mutex_unlock(&p->lock);
    }
}

/* Number of tasks to claim at once. Many tasks are short, and every claim fetches the ticket from
 * another core; the last tasks are claimed one by one, so that all threads finish together. */
static uint32_t tasks_to_claim(const struct pool *p, uint64_t ticket)
{
    uint32_t n = (high_of(ticket) - low_of(ticket)) / (CLAIMS * p->base.threads);
    return n > 0 ? n : 1;
}

/* Claim and run tasks. Returns how many this thread ran. */
static uint32_t run_tasks(struct pool *p, uint32_t thread)
{
    uint32_t done = 0;
    uint64_t ticket = atomic_load(&p->ticket);
    while (is_open(ticket)) {
        uw_task_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        uint32_t first = atomic_load_explicit(&p->first, memory_order_relaxed);
        uint32_t n = tasks_to_claim(p, ticket);
        uint32_t task = thread == 0 ? low_of(ticket) : high_of(ticket) - n;
        uint64_t next = thread == 0 ? ticket + ((uint64_t)n << 16) : ticket - n;
        if (atomic_compare_exchange_weak(&p->ticket, &ticket, next)) {
            for (uint32_t i = 0; i < n; i++) {
                fn(arg, first + task + i, thread);
            }
            done += n;
            if (thread != 0) {
                finish_tasks(p, n);
            }
            ticket = atomic_load(&p->ticket);
        }
    }
    return done;
}

static uint32_t ns_between(const struct timespec *from, const struct timespec *to)
{
    return (uint32_t)((to->tv_sec - from->tv_sec) * 1000000000 + to->tv_nsec - from->tv_nsec);
}

/* A pause between two iterations of spinning: leaves more of the core to its other threads. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

typedef bool (*is_so_fn)(const struct pool *p, uint32_t n);

/* Spin until the condition holds. Returns false if it does not within LOOK_NS. */
static inline bool spin_until(const struct pool *p, is_so_fn is_so, uint32_t n)
{
    struct timespec from = {0}, now;
    bool begun = false;
    for (;;) {
        for (int look = 0; look < LOOKS; look++) {
            if (is_so(p, n)) {
                return true;
            }
            relax();
        }
        clock_gettime(CLOCK_MONOTONIC, begun ? &now : &from);
        if (begun && ns_between(&from, &now) >= LOOK_NS) {
            return false;
        }
        begun = true;
        sched_yield();
    }
}

static inline bool has_reason_to_wake(const struct pool *p, uint32_t n)
{
    (void)n;
    return is_open(atomic_load(&p->ticket)) || atomic_load(&p->stop);
}

static inline bool have_helped(const struct pool *p, uint32_t tasks_n)
{
    return atomic_load(&p->helped) == tasks_n;
}

static bool is_taken(int32_t processor, const int32_t *taken, uint32_t taken_n)
{
    for (uint32_t i = 0; i < taken_n; i++) {
        if (taken[i] == processor) {
            return true;
        }
    }
    return false;
}

/* If this thread is on one of the processors taken[0 .. taken_n-1], move it to another one that its
 * affinity allows, if there is one. Its affinity does not change. Returns its processor; -1: the
 * system does not report it. */
static int32_t move_off(const int32_t *taken, uint32_t taken_n)
{
    cpu_set_t allowed, only;
    int32_t here = sched_getcpu();
    if (here < 0 || !is_taken(here, taken, taken_n) ||
        sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return here;
    }
    for (int32_t i = 1; i < CPU_SETSIZE; i++) {
        int32_t next = (here + i) % CPU_SETSIZE;
        size_t to = (size_t)next;
        if (CPU_ISSET(to, &allowed) && !is_taken(next, taken, taken_n)) {
            CPU_ZERO(&only);
            CPU_SET(to, &only);
            (void)sched_setaffinity(0, sizeof only, &only);
            (void)sched_setaffinity(0, sizeof allowed, &allowed);
            return sched_getcpu();
        }
    }
    return here;
}

/* Move to a processor where no other thread of the pool was last seen. */
static void move_apart(struct helper *h)
{
    struct pool *p = h->pool;
    int32_t others[UW_BOARD_WORKERS_MAX];
    for (uint32_t i = 0; i < p->base.threads; i++) {
        others[i] = i == h->number ? -1 : atomic_load_explicit(&p->on[i], memory_order_relaxed);
    }
    atomic_store_explicit(&p->on[h->number], move_off(others, p->base.threads),
                          memory_order_relaxed);
}

static void wait_for_work(struct helper *h)
{
    struct pool *p = h->pool;
    if (spin_until(p, has_reason_to_wake, 0)) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!has_reason_to_wake(p, 0)) {
        pthread_cond_wait(&p->work, &p->lock);
    }
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
    move_apart(h);
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    move_apart(h);
    while (!atomic_load(&h->pool->stop)) {
        run_tasks(h->pool, h->number);
        wait_for_work(h);
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

static void wait_for_helpers(struct pool *p, uint32_t tasks_n)
{
    if (spin_until(p, have_helped, tasks_n)) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_asleep, true);
    while (!have_helped(p, tasks_n)) {
        pthread_cond_wait(&p->finished, &p->lock);
    }
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

static void open_run(struct pool *p, uw_task_fn fn, void *arg, uint32_t first, uint32_t tasks_n)
{
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->first, first, memory_order_relaxed);
    atomic_store_explicit(&p->on[0], sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&p->helped, 0, memory_order_relaxed);
    uint64_t run = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&p->ticket, run << 32 | tasks_n);
}

static void pool_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    struct pool *p = (struct pool *)w;
    for (uint32_t first = 0, n; first < tasks_n; first += n) {
        n = tasks_n - first < RUN_TASKS_MAX ? tasks_n - first : RUN_TASKS_MAX;
        open_run(p, fn, arg, first, n);
        wake(p, n - 1);
        wait_for_helpers(p, n - run_tasks(p, 0));
    }
}

static void do_nothing(void *arg, uint32_t task, uint32_t thread)
{
    (void)arg;
    (void)task;
    (void)thread;
}

/* Measure one hand-off. Returns its duration, or UINT32_MAX if no helper came within most_ns. */
static uint32_t hand_off(struct pool *p, uint32_t most_ns)
{
    struct timespec from, to;
    uint32_t took = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    open_run(p, do_nothing, NULL, 0, 1);
    wake(p, 1);
    for (bool helped = false; !helped && took < most_ns;) {
        for (int look = 0; look < LOOKS && !helped; look++) {
            helped = atomic_load(&p->helped) != 0;
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        took = ns_between(&from, &to);
    }
    uint32_t mine = run_tasks(p, 0);
    wait_for_helpers(p, 1 - mine);
    return mine == 0 ? took : UINT32_MAX;
}

/* Take the fastest of several hand-offs; the first may have to wake a helper. If no helper comes,
 * because the cores are busy, small work is not shared. */
static void measure(struct uw_workers *w)
{
    struct pool *p = (struct pool *)w;
    uint32_t least = hand_off(p, WAKE_NS_MAX);
    for (int i = 0; i < HAND_OFFS && least != UINT32_MAX; i++) {
        uint32_t took = hand_off(p, HAND_OFF_NS_MAX);
        least = took < least ? took : least;
    }
    w->hand_off_ns = least;
}

static const struct uw_workers_ops pool_ops = {
    .name = "pthread", .run = pool_run, .measure = measure};

static int start_helpers(struct pool *p, uint32_t helpers_n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (uint32_t i = 0; i <= helpers_n; i++) {
        atomic_store(&p->on[i], i == 0 ? sched_getcpu() : -1);
    }
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
    p->base = (struct uw_workers){.ops = &pool_ops, .threads = threads, .alone = &p->alone};
    uw_workers_init_alone(&p->alone, threads);
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
