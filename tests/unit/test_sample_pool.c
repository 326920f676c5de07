/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset whose samples can be lent: what is drawn in a sample's place, until when, in what
 * memory. */
#include "test_support.h"

#include "uwasa/sample_pool.h"
#include "uwasa/status.h"

#define SAMPLES 7u                  /* 0, 2 and 4 may move; 6 has no neighbour */
#define SAMPLE_N 5u

static uint64_t now;

static uint64_t now_us(void)
{
    return now;
}

static int read_source(struct uw_dataset *d, uint64_t index, float *x, uint32_t *label)
{
    if (index >= d->samples_n) {
        return UW_ERR_INVALID;
    }
    for (uint32_t k = 0; k < SAMPLE_N; k++) {
        x[k] = (float)index;
    }
    *label = (uint32_t)index;
    return UW_OK;
}

static const struct uw_dataset_ops ops = {.name = "numbers", .read = read_source};
static struct uw_dataset source = {.ops = &ops, .channels = SAMPLE_N, .height = 1, .width = 1,
                                   .classes = 100, .samples_n = SAMPLES, .endless = true};

static void *open_pool(struct uw_sample_pool *p, uint32_t slots_n, bool clock)
{
    const struct uw_sample_pool_config c = {.source = &source, .slots_n = slots_n,
                                            .now_us = clock ? now_us : NULL};
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_sample_pool_bind(p, &c, &arena), UW_OK);
    size_t bytes = arena.used_bytes;
    void *memory = uw_test_block(bytes);
    uw_arena_init(&arena, memory, bytes - 1u);
    assert_int_equal(uw_sample_pool_bind(p, &c, &arena), UW_ERR_NOMEM);
    uw_arena_init(&arena, memory, bytes);
    assert_int_equal(uw_sample_pool_bind(p, &c, &arena), UW_OK);
    assert_int_equal(arena.used_bytes, bytes);
    return memory;
}

static void expect(struct uw_sample_pool *p, uint32_t index, uint32_t number)
{
    float x[SAMPLE_N];
    uint32_t label;
    assert_int_equal(p->base.ops->read(&p->base, index, x, &label), UW_OK);
    assert_int_equal(label, number);
    for (uint32_t k = 0; k < SAMPLE_N; k++) {
        assert_true(x[k] == (float)number);
    }
}

static void write_slot(struct uw_sample_pool *p, uint32_t k, uint32_t number)
{
    float *x = uw_sample_pool_room(p, k);
    assert_non_null(x);
    for (uint32_t i = 0; i < SAMPLE_N; i++) {
        x[i] = (float)number;
    }
}

static void test_sample_pool_is_its_source_while_nothing_is_lent(void **state)
{
    (void)state;
    struct uw_sample_pool p;
    void *memory = open_pool(&p, 3, true);
    float x[SAMPLE_N];
    uint32_t label;
    assert_int_equal(p.base.samples_n, SAMPLES);
    assert_int_equal(p.movable_n, 3);
    assert_false(p.base.endless);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        expect(&p, i, i);
    }
    assert_int_equal(p.base.ops->read(&p.base, SAMPLES, x, &label), UW_ERR_INVALID);
    uw_test_release(memory);
}

static void test_sample_pool_draws_the_borrowed_sample_until_its_time(void **state)
{
    (void)state;
    struct uw_sample_pool p;
    void *memory = open_pool(&p, 3, true);
    now = UINT64_MAX - 5u;          /* the clock wraps meanwhile */
    write_slot(&p, 2, 60);
    write_slot(&p, 0, 61);
    uw_sample_pool_borrow(&p, 1, 2, 60, now + 10u);
    uw_sample_pool_rest(&p, 2);
    expect(&p, 2, 60);
    expect(&p, 3, 3);
    expect(&p, 4, 5);               /* its neighbour, as long as nothing is there */
    expect(&p, 0, 0);
    assert_false(uw_sample_pool_is_home(&p, 1));
    assert_true(uw_sample_pool_is_home(&p, 0));
    now += 9u;
    expect(&p, 2, 60);
    now++;
    expect(&p, 2, 3);
    uw_sample_pool_restore(&p, 1);
    uw_sample_pool_restore(&p, 2);
    expect(&p, 2, 2);
    expect(&p, 4, 4);
    const float *x;
    uint32_t label;
    uw_sample_pool_rest(&p, 2);
    assert_int_equal(uw_sample_pool_home(&p, 2, &x, &label), UW_OK);
    assert_true(x[0] == 4.0f && label == 4u);
    uw_test_release(memory);
}

static void test_sample_pool_without_a_clock_draws_what_was_borrowed(void **state)
{
    (void)state;
    struct uw_sample_pool p;
    void *memory = open_pool(&p, 1, false);
    write_slot(&p, 0, 70);
    uw_sample_pool_borrow(&p, 0, 0, 70, 0);
    expect(&p, 0, 70);
    atomic_fetch_add(&p.slots[0].readers, 1u);
    assert_null(uw_sample_pool_room(&p, 0));
    atomic_fetch_sub(&p.slots[0].readers, 1u);
    assert_non_null(uw_sample_pool_room(&p, 0));
    uw_test_release(memory);
}

static void test_sample_pool_refuses_sizes_that_do_not_fit(void **state)
{
    (void)state;
    struct uw_sample_pool p;
    struct uw_arena arena;
    struct uw_sample_pool_config c = {.source = &source};
    for (uint32_t slots_n = 0; slots_n < 6; slots_n++) {
        uw_arena_init(&arena, NULL, 0);
        c.slots_n = slots_n;
        assert_int_equal(uw_sample_pool_bind(&p, &c, &arena),
                         slots_n >= 1 && slots_n <= 3 ? UW_OK : UW_ERR_INVALID);
    }
    struct uw_dataset huge = source;
    huge.height = huge.width = 20000;
    huge.samples_n = UINT32_MAX;
    c = (struct uw_sample_pool_config){.source = &huge, .slots_n = 1u << 30};
    char little[256];
    uw_arena_init(&arena, little, sizeof little);
    assert_int_equal(uw_sample_pool_bind(&p, &c, &arena), UW_ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample_pool_is_its_source_while_nothing_is_lent),
        cmocka_unit_test(test_sample_pool_draws_the_borrowed_sample_until_its_time),
        cmocka_unit_test(test_sample_pool_without_a_clock_draws_what_was_borrowed),
        cmocka_unit_test(test_sample_pool_refuses_sizes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
