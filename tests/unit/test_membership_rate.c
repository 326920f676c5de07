/* SPDX-License-Identifier: Apache-2.0
 *
 * The member table by itself: what its calls cost, and the news that they carry. */
#include "unit/membership_bench.h"

/* Make the calls of a moment, which take so many bytes; returns how many there are. */
static uint32_t calls_at(struct bench *b, uint64_t now_us, uint32_t bytes)
{
    uint32_t calls = 0, seq;
    uint16_t to;
    uw_membership_wake(&b->m, uw_membership_next_us(&b->m), now_us);
    while (uw_membership_next(&b->m, now_us, &to, &seq) != 0) {
        uw_membership_sent(&b->m, bytes, 0);
        calls++;
    }
    return calls;
}

/* Calls wait until the rate has paid for what was sent; answers are not asked whether they may. */
static void test_calls_keep_to_the_rate(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "c", "d", "e", "f", "g"};
    struct bench b;
    uint32_t calls = 0, bytes = 200;
    set_up(&b, 8, NULL, 0);
    b.m.config.rate_mbytes_per_s = 100000;
    for (uint16_t i = 0; i < 6; i++) {
        assert_int_equal(tell(&b, (uint16_t)(i + 1u), names[i], 5, SECOND), UW_OK);
    }
    for (uint64_t t = SECOND; t < 201u * (uint64_t)SECOND; t += SECOND / 20u) {
        calls += calls_at(&b, t, bytes);
        assert_true(uw_membership_next_us(&b.m) > t);
    }
    assert_true(calls * bytes < 100u * 200u + 16u * bytes);
    assert_true(calls * bytes > 100u * 200u / 5u);
    /* A flood of questions delays this device's own, and not for ever. */
    for (uint32_t i = 0; i < 10000; i++) {
        uw_membership_sent(&b.m, bytes, 0);
    }
    assert_true(run(&b, 202u * (uint64_t)SECOND, 262u * (uint64_t)SECOND, 1) > 0);
    /* Nor while it lasts: answers of 2000 bytes a second, twenty times the rate. */
    calls = 0;
    for (uint64_t t = 262u * (uint64_t)SECOND; t < 462u * (uint64_t)SECOND; t += SECOND / 10u) {
        uw_membership_sent(&b.m, bytes, 0);
        calls += calls_at(&b, t, bytes);
    }
    assert_true(calls * bytes > 100u * 200u / 5u && calls * bytes < 100u * 200u / 3u);
}

static char first_gathered(const struct bench *b)
{
    uwasa_Peer peer;
    uw_membership_gathered(&b->m, 0, &peer);
    return peer.name[0];
}

/* Records of news come first, so many times as it takes to reach all, then those in turn. */
static void test_news_is_told_first_and_often_enough(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "c", "d", "e", "f", "g"};
    struct bench b;
    uint32_t told[6] = {0}, rounds = 0;
    set_up(&b, 8, NULL, 0);
    for (uint16_t i = 0; i < 6; i++) {
        assert_int_equal(tell(&b, (uint16_t)(i + 1u), names[i], 5, SECOND), UW_OK);
    }
    while (uw_membership_gather(&b.m, 0) != 0 && rounds++ < 1000) {
        told[first_gathered(&b) - 'b']++;         /* a message that has room for one */
        uw_membership_sent(&b.m, 100, 1);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(told[i] >= 3 && told[i] == told[0]);
    }
    assert_int_equal(uw_membership_gather(&b.m, 2), 2);
    char first = first_gathered(&b);
    assert_int_equal(uw_membership_gather(&b.m, 1), 1);
    assert_true(first_gathered(&b) != first);
    uwasa_Peer gone = {.name = "d", .incarnation = 5};
    uw_membership_goodbye(&b.m, 3, &gone, SECOND);
    assert_int_equal(uw_membership_gather(&b.m, 1), 2);
    uw_membership_gathered(&b.m, 0, &gone);
    assert_string_equal(gone.name, "d");
    assert_int_equal(gone.state, uwasa_State_LEFT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_keep_to_the_rate),
        cmocka_unit_test(test_news_is_told_first_and_often_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
