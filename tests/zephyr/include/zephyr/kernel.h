/* SPDX-License-Identifier: Apache-2.0
 *
 * What the port and the sample call of Zephyr's kernel, on a POSIX host: threads are the system's,
 * a tick is a microsecond. Priorities mean nothing here. */
#ifndef UWASA_TEST_ZEPHYR_KERNEL_H
#define UWASA_TEST_ZEPHYR_KERNEL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define __aligned(n) __attribute__((__aligned__(n)))
#define printk(...) ((void)printf(__VA_ARGS__), (void)fflush(stdout))
#define K_NO_WAIT 0
#define K_FOREVER (-1)
#define K_PRIO_PREEMPT(priority) (priority)
#define K_THREAD_STACK_DEFINE(name, bytes) char name[bytes]
#define K_THREAD_STACK_SIZEOF(name) sizeof(name)

typedef void (*k_thread_entry_t)(void *p1, void *p2, void *p3);

struct k_thread {
    pthread_t thread;
    k_thread_entry_t entry;
    void *p1, *p2, *p3;
};

static inline int64_t k_uptime_ticks(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline uint64_t k_ticks_to_us_floor64(uint64_t ticks)
{
    return ticks;
}

static inline int32_t k_msleep(int32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return nanosleep(&t, NULL);
}

static inline void *k_thread_start(void *arg)
{
    struct k_thread *t = arg;
    t->entry(t->p1, t->p2, t->p3);
    return NULL;
}

static inline void k_thread_create(struct k_thread *t, const char *stack, size_t stack_size,
                                   k_thread_entry_t entry, void *p1, void *p2, void *p3,
                                   int priority, uint32_t options, int delay)
{
    (void)stack;
    (void)stack_size;
    (void)priority;
    (void)options;
    (void)delay;
    *t = (struct k_thread){.entry = entry, .p1 = p1, .p2 = p2, .p3 = p3};
    (void)pthread_create(&t->thread, NULL, k_thread_start, t);
}

static inline int k_thread_join(struct k_thread *t, int timeout)
{
    (void)timeout;
    return pthread_join(t->thread, NULL);
}

#endif
