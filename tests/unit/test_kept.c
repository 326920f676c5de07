/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset that stays in memory gives what the set below it gives, and asks it once. */
#include "test_support.h"

#include "uwasa/kept.h"
#include "uwasa/status.h"

#include <pthread.h>
#include <stdatomic.h>

#define SAMPLES 10u
#define INDICES 25u                 /* of an endless set */
#define HEIGHT 64u
#define WIDTH 1024u                 /* large, so that copying one takes a while */
#define SAMPLE_N (HEIGHT * WIDTH)
#define THREADS 4u
#define ROUNDS 40u

/* Values follow from the index; counts who is asked for what. */
struct counted {
    struct uw_dataset base;
    atomic_uint reads[INDICES];
    uint64_t fails_at;
};

static int read_counted(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct counted *c = (struct counted *)base;
    atomic_fetch_add(&c->reads[index], 1u);
    if (index == c->fails_at) {
        x[0] = -1.0f;
        return UW_ERR_IO;
    }
    for (uint32_t i = 0; i < SAMPLE_N; i++) {
        x[i] = (float)(SAMPLE_N * index + i);
    }
    *label = (uint32_t)index % 7u;
    return UW_OK;
}

static const struct uw_dataset_ops counted_ops = {.name = "counted", .read = read_counted};

static void make(struct counted *c)
{
    *c = (struct counted){.base = {.ops = &counted_ops, .channels = 1, .height = HEIGHT,
                                   .width = WIDTH, .classes = 7, .samples_n = SAMPLES,
                                   .endless = true},
                          .fails_at = UINT64_MAX};
}

static void expect_sample(struct uw_kept *k, uint64_t index)
{
    float *x = uw_test_floats(SAMPLE_N);
    uint32_t label = UINT32_MAX;
    assert_int_equal(k->base.ops->read(&k->base, index, x, &label), UW_OK);
    for (uint32_t i = 0; i < SAMPLE_N; i++) {
        assert_true(x[i] == (float)(SAMPLE_N * index + i));
    }
    assert_int_equal(label, (uint32_t)index % 7u);
    uw_test_release(x);
}

static void test_first_samples_are_read_once_and_others_each_time(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 1, SAMPLES - 1u, SAMPLES, SAMPLES + 1u, UINT32_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct counted c;
        struct uw_kept k;
        make(&c);
        assert_int_equal(uw_kept_open(&k, &c.base, sizes[s]), UW_OK);
        assert_int_equal(k.base.samples_n, SAMPLES);
        assert_int_equal(k.base.classes, 7);
        assert_int_equal(k.base.height, HEIGHT);
        assert_true(k.base.endless);
        for (uint32_t round = 0; round < 3; round++) {
            for (uint32_t i = INDICES; i-- > 0;) {      /* those after the epoch, too */
                expect_sample(&k, i);
            }
        }
        for (uint32_t i = 0; i < INDICES; i++) {
            assert_int_equal(c.reads[i], i < sizes[s] && i < SAMPLES ? 1 : 3);
        }
        uw_kept_close(&k);
    }
}

static void test_a_sample_that_could_not_be_read_is_not_kept(void **state)
{
    (void)state;
    struct counted c;
    struct uw_kept k;
    static float x[SAMPLE_N];
    uint32_t label;
    make(&c);
    c.fails_at = 3;
    assert_int_equal(uw_kept_open(&k, &c.base, SAMPLES), UW_OK);
    assert_int_equal(k.base.ops->read(&k.base, 3, x, &label), UW_ERR_IO);
    assert_int_equal(k.base.ops->read(&k.base, 3, x, &label), UW_ERR_IO);
    c.fails_at = UINT64_MAX;
    expect_sample(&k, 3);
    expect_sample(&k, 3);
    assert_int_equal(c.reads[3], 3);
    uw_kept_close(&k);
}

/* ---- threads ---- */

struct reader {
    struct uw_kept *k;
    bool wrong;
};

/* All in the same order, so that they meet. */
static void *read_all(void *arg)
{
    struct reader *r = arg;
    static _Thread_local float x[SAMPLE_N];
    for (uint32_t index = 0; index < SAMPLES; index++) {
        uint32_t label = UINT32_MAX;
        r->wrong = r->wrong || r->k->base.ops->read(&r->k->base, index, x, &label) != UW_OK ||
                   label != index % 7u;
        for (uint32_t i = 0; i < SAMPLE_N; i++) {
            r->wrong = r->wrong || x[i] != (float)(SAMPLE_N * index + i);
        }
    }
    return NULL;
}

static void read_together(void)
{
    struct counted c;
    struct uw_kept k;
    pthread_t thread[THREADS];
    struct reader reader[THREADS];
    make(&c);
    assert_int_equal(uw_kept_open(&k, &c.base, SAMPLES), UW_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        reader[i] = (struct reader){.k = &k};
        assert_int_equal(pthread_create(&thread[i], NULL, read_all, &reader[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_false(reader[i].wrong);
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t before = c.reads[i];
        assert_in_range(before, 1, THREADS);            /* who comes meanwhile reads by himself */
        expect_sample(&k, i);
        assert_int_equal(c.reads[i], before);
    }
    uw_kept_close(&k);
}

static void test_threads_never_see_half_a_sample(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        read_together();
    }
}

static void test_close_is_safe_twice_and_on_nothing(void **state)
{
    (void)state;
    struct counted c;
    struct uw_kept k = {.n = 0};
    uw_kept_close(&k);
    make(&c);
    assert_int_equal(uw_kept_open(&k, &c.base, 5), UW_OK);
    uw_kept_close(&k);
    uw_kept_close(&k);
    assert_int_equal(k.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_samples_are_read_once_and_others_each_time),
        cmocka_unit_test(test_a_sample_that_could_not_be_read_is_not_kept),
        cmocka_unit_test(test_threads_never_see_half_a_sample),
        cmocka_unit_test(test_close_is_safe_twice_and_on_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
