/* SPDX-License-Identifier: Apache-2.0
 *
 * The mechanisms of net/base. */
#include "base/backoff.h"
#include "base/bits.h"
#include "base/number.h"
#include "base/slot_table.h"
#include "base/token_bucket.h"

#include "test_support.h"

#include <string.h>

static void test_backoff_doubles_up_to_its_limit_and_begins_anew(void **state)
{
    (void)state;
    static const uint64_t pauses[] = {250, 500, 1000, 2000, 2000, 2000};
    uint8_t tries = 0;
    for (uint32_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        assert_int_equal(uw_backoff_after(250, i, 3), pauses[i]);
        assert_int_equal(uw_backoff_us(250, &tries, 3), pauses[i]);
    }
    tries = 0;
    assert_int_equal(uw_backoff_us(250, &tries, 3), 250);
    assert_int_equal(uw_backoff_us(UINT64_C(1) << 40, &tries, 3), UINT64_C(1) << 41);
}

static uint32_t take_all(uint64_t *paid_us, uint32_t kept_n, uint64_t now_us)
{
    uint32_t n = 0;
    while (uw_bucket_take(paid_us, now_us, 100, 8 * 100, kept_n * 100)) {
        n++;
    }
    return n;
}

/* At any time at all: a clock may begin anywhere, and be set back. */
static void test_bucket_gives_a_burst_and_then_its_rate(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 1, 99, 100, 799, 800, UINT64_C(1) << 40};
    for (uint32_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        uint64_t paid_us = 0, now_us = starts[i];
        assert_int_equal(take_all(&paid_us, 5, now_us), 3);
        assert_int_equal(take_all(&paid_us, 0, now_us), 5);
        assert_int_equal(take_all(&paid_us, 0, now_us + 99), 0);
        assert_int_equal(take_all(&paid_us, 0, now_us + 100), 1);
        uint32_t n = 0;
        for (uint64_t us = 101; us <= 1100; us++) {
            n += take_all(&paid_us, 0, now_us + us);
        }
        assert_int_equal(n, 10);
        assert_int_equal(take_all(&paid_us, 0, now_us + 100000), 8);
        assert_int_equal(uw_bucket_owed_us(paid_us, now_us + 100000), 800);
        assert_int_equal(take_all(&paid_us, 0, now_us), 0);
        assert_int_equal(take_all(&paid_us, 0, now_us + 100), 1);
    }
}

static void test_bucket_owes_no_more_than_its_limit(void **state)
{
    (void)state;
    uint64_t paid_us = 0;
    uw_bucket_pay(&paid_us, 300, 1000, 50);
    assert_int_equal(uw_bucket_owed_us(paid_us, 50), 300);
    assert_int_equal(uw_bucket_owed_us(paid_us, 400), 0);
    uw_bucket_pay(&paid_us, 5000, 1000, 100);
    assert_int_equal(uw_bucket_owed_us(paid_us, 100), 1000);
}

struct entry {
    uint32_t id, used;              /* used 0: free */
    bool held;
};

static uint64_t rank(const void *slot, const void *id)
{
    const struct entry *e = slot;
    return e->used != 0 && e->id == *(const uint32_t *)id ? UW_SLOT_OWN
           : e->held                                      ? UW_SLOT_KEPT
                                                          : UW_SLOT_FREE + e->used;
}

static struct entry *find(struct entry *entries, uint32_t n, uint32_t id)
{
    return uw_slots_find(entries, n, sizeof *entries, rank, &id);
}

static void test_slot_is_the_own_one_or_free_or_the_oldest_that_is_not_kept(void **state)
{
    (void)state;
    struct entry e[4] = {{.id = 7, .used = 9}, {.id = 1, .used = 3}, {.id = 2, .used = 5}};
    assert_ptr_equal(find(e, 4, 2), &e[2]);
    assert_ptr_equal(find(e, 4, 0), &e[3]);
    assert_ptr_equal(find(e, 3, 8), &e[1]);
    e[1].held = true;
    assert_ptr_equal(find(e, 3, 8), &e[2]);
    assert_ptr_equal(find(e, 3, 1), &e[1]);
    e[0].held = e[2].held = true;
    assert_null(find(e, 3, 8));
    assert_null(find(e, 0, 7));
    e[1].used = 9;
    e[0].held = e[1].held = false;
    assert_ptr_equal(find(e, 3, 8), &e[0]);
}

static void test_numbers_stay_sorted(void **state)
{
    (void)state;
    static const uint32_t in[] = {5, 5, 1, UINT32_MAX, 0, 7, 7, 2};
    static const uint32_t out[] = {0, 1, 2, 5, 5, 7, 7, UINT32_MAX};
    uint32_t v[sizeof in / sizeof in[0]];
    for (uint32_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        uw_insert_u32(v, i, in[i]);
    }
    assert_memory_equal(v, out, sizeof out);
}

#define MAX (UINT32_MAX / 16u)

static void test_number_is_read_whole_and_up_to_its_limit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t max;
        bool good;
        uint32_t number;
    } cases[] = {
        {"0", 0, true, 0}, {"255", 255, true, 255}, {"256", 255, false, 0},
        {"268435455", MAX, true, MAX}, {"268435456", MAX, false, 0},
        {"4294967297", MAX, false, 0}, {"99999999999", MAX, false, 0},
        {"007", 255, true, 7}, {"", 255, false, 0},
        {"-1", 255, false, 0}, {"1 ", 255, false, 0}, {"a", 255, false, 0}, {":", 255, false, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t number = 0;
        const char *text = cases[i].text;
        assert_int_equal(uw_read_number(text, text + strlen(text), cases[i].max, &number),
                         cases[i].good);
        assert_int_equal(number, cases[i].number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_doubles_up_to_its_limit_and_begins_anew),
        cmocka_unit_test(test_bucket_gives_a_burst_and_then_its_rate),
        cmocka_unit_test(test_bucket_owes_no_more_than_its_limit),
        cmocka_unit_test(test_numbers_stay_sorted),
        cmocka_unit_test(test_number_is_read_whole_and_up_to_its_limit),
        cmocka_unit_test(test_slot_is_the_own_one_or_free_or_the_oldest_that_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
