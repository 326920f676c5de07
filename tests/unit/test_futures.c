/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that is submitted now and awaited later is done once, by one thread, with any number of
 * them. */
#include "test_support.h"

#include "base/futures.h"

#include "uwasa/board.h"
#include "uwasa/rng.h"

#include <stdatomic.h>
#include <time.h>

#define WORKS 500u
#define THREADS_MOST 5u

struct work {
    struct uw_future future;
    uint32_t ran;                   /* not atomic: only one thread may touch it at a time */
    uint32_t thread;
    uint32_t spins;
};

static atomic_uint order;

static void run(struct uw_future *f, uint32_t thread)
{
    struct work *w = (struct work *)f;
    volatile uint32_t sum = 0;
    for (uint32_t i = 0; i < w->spins; i++) {
        sum = sum + i;
    }
    w->ran++;
    w->thread = thread;
    atomic_fetch_add(&order, 1);
}

static struct work *make_works(struct uw_rng *rng)
{
    struct work *w = uw_test_block(WORKS * sizeof *w);
    for (uint32_t i = 0; i < WORKS; i++) {
        w[i] = (struct work){.future.run = run, .spins = uw_rng_below(rng, 20000)};
    }
    return w;
}

static void test_futures_awaited_in_any_order_are_done_once(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(7));
    for (uint32_t threads = 1; threads <= THREADS_MOST; threads++) {
        struct work *w = make_works(&rng);
        struct uw_futures *p;
        assert_int_equal(uw_futures_open(&p, threads), UW_OK);
        for (uint32_t round = 1; round <= 3; round++) {
            for (uint32_t i = 0; i < WORKS; i++) {
                uw_futures_submit(p, &w[i].future);
                if (uw_rng_below(&rng, 3) == 0) {   /* some early, some of it twice */
                    uint32_t k = uw_rng_below(&rng, i + 1u);
                    uw_futures_await(p, &w[k].future);
                    assert_int_equal(w[k].ran, round);
                }
            }
            for (uint32_t i = WORKS; i-- > 0;) {
                uw_futures_await(p, &w[i].future);
                assert_int_equal(w[i].ran, round);
                assert_true(w[i].thread < threads);
            }
        }
        uw_futures_close(&p);
        assert_null(p);
        uw_test_release(w);
    }
}

static void test_futures_of_one_thread_wait_until_they_are_awaited(void **state)
{
    (void)state;
    struct work a = {.future.run = run}, b = {.future.run = run};
    struct uw_futures *p;
    assert_int_equal(uw_futures_open(&p, 1), UW_OK);
    uw_futures_submit(p, &a.future);
    uw_futures_submit(p, &b.future);
    assert_int_equal(a.ran + b.ran, 0);
    uw_futures_await(p, &b.future);
    assert_int_equal(a.ran, 0);
    assert_int_equal(b.ran, 1);
    uw_futures_await(p, &a.future);
    assert_int_equal(a.ran, 1);
    uw_futures_await(p, &a.future);
    assert_int_equal(a.ran, 1);
    uw_futures_close(&p);
}

/* Nobody awaits: a helper begins by itself. */
static void test_futures_helpers_begin_by_themselves(void **state)
{
    (void)state;
    const struct timespec nap = {.tv_nsec = 1000000};
    struct work w = {.future.run = run};
    struct uw_futures *p;
    assert_int_equal(uw_futures_open(&p, 2), UW_OK);
    atomic_store(&order, 0);
    uw_futures_submit(p, &w.future);
    for (uint32_t i = 0; i < 10000 && atomic_load(&order) == 0; i++) {
        nanosleep(&nap, NULL);
    }
    uw_futures_await(p, &w.future);
    assert_int_equal(w.ran, 1);
    assert_int_equal(w.thread, 1);
    uw_futures_close(&p);
}

static void test_futures_drain_ends_all_and_discard_forgets_the_rest(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(7));
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct work *w = make_works(&rng);
        struct uw_futures *p;
        assert_int_equal(uw_futures_open(&p, threads), UW_OK);
        for (uint32_t i = 0; i < WORKS; i++) {
            uw_futures_submit(p, &w[i].future);
        }
        uw_futures_drain(p);
        for (uint32_t i = 0; i < WORKS; i++) {
            assert_int_equal(w[i].ran, 1);
            uw_futures_submit(p, &w[i].future);
        }
        uw_futures_discard(p);
        for (uint32_t i = 0, again = 0; i < WORKS; i++) {
            again += w[i].ran - 1u;
            uw_futures_await(p, &w[i].future);     /* returns: there is nothing to wait for */
            assert_true(w[i].ran <= 2 && (threads > 1 || again == 0));
        }
        uw_futures_submit(p, &w[0].future);
        uw_futures_close(&p);
        uw_futures_close(&p);
        uw_test_release(w);
    }
}

static void test_futures_refuse_too_many_threads(void **state)
{
    (void)state;
    struct uw_futures *p;
    assert_int_equal(uw_futures_open(&p, 0), UW_ERR_INVALID);
    assert_null(p);
    assert_int_equal(uw_futures_open(&p, UW_BOARD_WORKERS_MAX + 1u), UW_ERR_INVALID);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_futures_awaited_in_any_order_are_done_once),
        cmocka_unit_test(test_futures_of_one_thread_wait_until_they_are_awaited),
        cmocka_unit_test(test_futures_helpers_begin_by_themselves),
        cmocka_unit_test(test_futures_drain_ends_all_and_discard_forgets_the_rest),
        cmocka_unit_test(test_futures_refuse_too_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
