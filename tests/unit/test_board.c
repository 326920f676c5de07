/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "test_support.h"

#include "uwasa/board.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { TASKS_MAX = 1000 };

struct count {
    atomic_uint times[TASKS_MAX];
    atomic_uint busy[UW_BOARD_WORKERS_MAX];
    atomic_uint clashes;
    uint32_t threads;
};

static void count_task(void *arg, uint32_t task, uint32_t thread)
{
    struct count *c = arg;
    if (thread >= c->threads || atomic_fetch_add(&c->busy[thread], 1) != 0) {
        atomic_fetch_add(&c->clashes, 1);
    }
    atomic_fetch_add(&c->times[task], 1);
    atomic_fetch_sub(&c->busy[thread], 1);
}

static void expect_every_task_once(struct uw_workers *pool, uint32_t tasks_n)
{
    static struct count c;
    memset(&c, 0, sizeof c);
    c.threads = pool->threads;
    uw_workers_run(pool, count_task, &c, tasks_n);
    for (uint32_t i = 0; i < TASKS_MAX; i++) {
        assert_int_equal(c.times[i], i < tasks_n);
    }
    assert_int_equal(c.clashes, 0);
}

static void test_workers_any_size_run_every_task_once(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads <= 5; threads++) {
        struct uw_workers *pool;
        assert_int_equal(uw_board_workers_init(&pool, threads), UW_OK);
        assert_int_equal(pool->threads, threads == 0 ? uw_board_cores() : threads);
        for (uint32_t tasks_n = 0; tasks_n < 12; tasks_n++) {
            expect_every_task_once(pool, tasks_n);
        }
        expect_every_task_once(pool, TASKS_MAX);
        uw_board_workers_deinit(&pool);
        assert_null(pool);
        uw_board_workers_deinit(&pool);
    }
}

/* A plain variable: the thread sanitizer sees it if run does not order its tasks. */
struct sum {
    uint64_t part[64];
    uint64_t in;
};

static void sum_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    struct sum *s = arg;
    s->part[task] += s->in + task;
}

static void test_workers_many_runs_see_what_the_caller_wrote(void **state)
{
    (void)state;
    struct uw_workers *pool;
    assert_int_equal(uw_board_workers_init(&pool, 4), UW_OK);
    struct sum s = {.in = 0};
    uint64_t expected[64] = {0};
    for (uint32_t run = 0; run < 3000; run++) {
        uint32_t tasks_n = 2 + run % 63;
        s.in = run;
        uw_workers_run(pool, sum_task, &s, tasks_n);
        for (uint32_t i = 0; i < tasks_n; i++) {
            expected[i] += run + i;
            assert_int_equal(s.part[i], expected[i]);
        }
        if (run % 1000 == 999) {
            usleep(20000); /* long enough for every helper to fall asleep */
        }
    }
    uw_board_workers_deinit(&pool);
}

enum { MANY = 200000 };     /* more than a pool counts at a time */

static void mark_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    unsigned char *times = arg;
    times[task]++;
}

static void test_workers_very_many_tasks_run_once(void **state)
{
    (void)state;
    static unsigned char times[MANY];
    struct uw_workers *pool;
    assert_int_equal(uw_board_workers_init(&pool, 3), UW_OK);
    uw_workers_run(pool, mark_task, times, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(times[i], 1);
    }
    uw_board_workers_deinit(&pool);
}

/* A pool whose threads are as far away as the test says. */
static void never_run(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    (void)w;
    (void)fn;
    (void)arg;
    (void)tasks_n;
    fail_msg("a task was handed over");
}

static uint32_t measured;

static void count_measure(struct uw_workers *w)
{
    (void)w;
    measured++;
}

static void test_workers_share_only_what_is_worth_it(void **state)
{
    (void)state;
    static const struct uw_workers_ops ops = {
        .name = "far", .run = never_run, .measure = count_measure};
    struct uw_workers alone, far = {.ops = &ops, .threads = 2, .alone = &alone};
    unsigned char times[7] = {0};
    uw_workers_init_alone(&alone, 2);
    far.hand_off_ns = 1000;         /* a call takes 16; two threads do 40000 multiply-adds in one */
    assert_ptr_equal(uw_workers_for(&far, 7.9e5, 0.0), &alone);
    assert_ptr_equal(uw_workers_for(&far, 8.1e5, 0.0), &far);
    assert_ptr_equal(uw_workers_for(&far, 8.1e5, 4096.0), &alone);     /* 32 lines move */
    assert_ptr_equal(uw_workers_for(&far, 8.4e5, 4096.0), &far);
    assert_ptr_equal(uw_workers_for(&far, 2.0e7, 1e12), &far);          /* from memory either way */
    far.hand_off_ns = UINT32_MAX;   /* nobody answers */
    assert_ptr_equal(uw_workers_for(&far, 1e9, 0.0), &alone);
    far.hand_off_ns = 0;
    assert_ptr_equal(uw_workers_for(&far, 1.0, 1e9), &far);
    assert_int_equal(measured, 4);      /* calls 1, 2, 3 and 5 */
    assert_int_equal(uw_workers_threads(uw_workers_for(&far, 0.0, 0.0)), 2);
    uw_workers_run(&alone, mark_task, times, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(times[i], 1);
    }
    assert_null(uw_workers_for(NULL, 0.0, 0.0));
}

static cpu_set_t allowed;

static void compare_allowed(void *arg, uint32_t task, uint32_t thread)
{
    cpu_set_t mine;
    bool *same = arg;
    (void)thread;
    same[task] = sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_EQUAL(&mine, &allowed);
    for (uint64_t until_us = uw_board_now_us() + 50; uw_board_now_us() < until_us;) {
    }
}

/* Helpers that wake up move, but are bound to no processor. */
static void test_workers_may_use_what_the_program_may(void **state)
{
    (void)state;
    struct uw_workers *pool;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(uw_board_workers_init(&pool, 4), UW_OK);
    for (uint32_t run = 0; run < 60; run++) {
        bool same[8] = {false};
        uw_workers_run(pool, compare_allowed, same, 8);
        for (uint32_t i = 0; i < 8; i++) {
            assert_true(same[i]);
        }
        usleep(1000);       /* they fall asleep */
    }
    uw_board_workers_deinit(&pool);
}

static void test_workers_too_many_threads_are_refused(void **state)
{
    (void)state;
    struct uw_workers *pool;
    assert_int_equal(uw_board_workers_init(&pool, UW_BOARD_WORKERS_MAX + 1), UW_ERR_INVALID);
    assert_null(pool);
}

static void test_clock_never_goes_back(void **state)
{
    (void)state;
    uint64_t last = uw_board_now_us();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = uw_board_now_us();
        assert_true(now >= last);
        last = now;
    }
    usleep(2000);
    assert_true(uw_board_now_us() >= last + 2000);
}

static void test_entropy_differs_and_stays_inside_its_buffer(void **state)
{
    (void)state;
    uint8_t *a = uw_test_block(600), *b = uw_test_block(600);
    assert_int_equal(uw_board_entropy(a, 600), UW_OK);
    assert_int_equal(uw_board_entropy(b, 600), UW_OK);
    assert_int_equal(uw_board_entropy(b, 0), UW_OK);
    assert_memory_not_equal(a, b, 600);
    uw_test_release(a);
    uw_test_release(b);
}

static void test_memory_is_zero_aligned_and_counted_in_the_peak(void **state)
{
    (void)state;
    size_t bytes = 32u << 20;
    void *p;
    assert_int_equal(uw_board_memory_take(bytes, &p), UW_OK);
    assert_int_equal((uintptr_t)p % 64u, 0);
    uint8_t *m = p;
    for (size_t i = 0; i < bytes; i += 1024) {
        assert_int_equal(m[i], 0);
        m[i] = 1;
    }
    assert_true(uw_board_peak_rss_bytes() >= bytes);
    assert_true(uw_board_free_bytes() > 0);
    assert_int_equal(uw_board_free_bytes() % 1024u, 0);
    uw_board_memory_release(p, bytes);

    assert_int_equal(uw_board_memory_take(0, &p), UW_OK);
    assert_non_null(p);
    uw_board_memory_release(p, 0);
    uw_board_memory_release(NULL, 0);

    assert_int_equal(uw_board_memory_take(SIZE_MAX - 1, &p), UW_ERR_NOMEM);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_any_size_run_every_task_once),
        cmocka_unit_test(test_workers_many_runs_see_what_the_caller_wrote),
        cmocka_unit_test(test_workers_very_many_tasks_run_once),
        cmocka_unit_test(test_workers_share_only_what_is_worth_it),
        cmocka_unit_test(test_workers_may_use_what_the_program_may),
        cmocka_unit_test(test_workers_too_many_threads_are_refused),
        cmocka_unit_test(test_clock_never_goes_back),
        cmocka_unit_test(test_entropy_differs_and_stays_inside_its_buffer),
        cmocka_unit_test(test_memory_is_zero_aligned_and_counted_in_the_peak),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
