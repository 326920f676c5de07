/* SPDX-License-Identifier: Apache-2.0
 *
 * Hellos that were said once, again and again: somebody without the key sends what he has recorded
 * of many starts, each of another identity. Who is new gets in meanwhile, and who was recorded. */
#include "fault/frames_air.h"

#include "secure/secure_frames_priv.h"

#define MTU 116u
#define S 1000000u
#define ALL UW_LINK_STATION_BROADCAST
#define OLD_MAX 64u
#define EACH_US 10000u          /* between two hellos that are repeated */

struct recorded {
    uint32_t hello[OLD_MAX], n, next;
};

/* Starts of stations first to end - 1, so many of each, whose hellos nobody answers for long. */
static void record(struct air *a, struct recorded *r, uint16_t first, uint16_t end, uint32_t starts)
{
    for (uint32_t k = 0; k < starts; k++) {
        for (uint16_t i = first; i < end; i++) {
            assert_true(r->n < OLD_MAX);
            air_up(a, i, NULL);
            r->hello[r->n++] = a->tape_n;
            assert_int_equal(air_say(a, i, ALL, 20), UW_ERR_AGAIN);
            air_down(a, i);
            air_run(a, S / 2u);
        }
    }
}

/* One station speaks to another while old hellos are repeated. Returns the time that it took. */
static uint64_t talk_meanwhile(struct air *a, struct recorded *r, uint16_t from, uint16_t to,
                               uint64_t limit_us)
{
    uint64_t began_us = a->now_us;
    uint32_t before = a->node[to].got_n;
    while (a->node[to].got_n == before) {
        if (a->now_us - began_us > limit_us) {
            fail_msg("no talk from %u to %u, seed %llu", (unsigned)from, (unsigned)to,
                     (unsigned long long)a->seed);
        }
        uint32_t at = r->hello[r->next++ % r->n];
        air_replay(a, at, at + 1u);
        (void)air_say(a, from, to, 20);
        air_run(a, EACH_US);
    }
    return a->now_us - began_us;
}

static void repeat(struct air *a, struct recorded *r, uint64_t us)
{
    for (uint64_t end_us = a->now_us + us; a->now_us < end_us;) {
        uint32_t at = r->hello[r->next++ % r->n];
        air_replay(a, at, at + 1u);
        air_run(a, EACH_US);
    }
}

static struct air *two_and_recorded(uint64_t seed, struct recorded *r, uint16_t stations,
                                    uint32_t starts)
{
    struct air *a = air_new(seed, MTU);
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    (void)air_talk(a, 1, 0, S);
    record(a, r, 9, (uint16_t)(9u + stations), starts);
    air_run(a, 10 * S);
    return a;
}

/* Hellos and welcomes of each that is up, at most, over so long. */
static void expect_few_joins(const struct air_node *n, uint64_t joins_n, uint64_t us)
{
    uint64_t most = 2u * (UW_FRAMES_JOINS_BURST + 8u * us / S + 1u);
    assert_true(n->frames.stats.joins_sent_n - joins_n <= most);
}

/* Of 25 starts of one station, and of 4 starts of 12, which are more than are remembered. */
static void test_the_new_get_in_while_old_hellos_are_repeated(void **state)
{
    (void)state;
    for (uint32_t many = 0; many < 2; many++) {
        struct recorded r = {.n = 0};
        struct air *a = two_and_recorded(uw_test_seed(20) + many, &r, many ? 12 : 1, many ? 4 : 25);
        repeat(a, &r, 10 * S);
        uint64_t began_us = a->now_us, joins_n = a->node[0].frames.stats.joins_sent_n;
        for (uint16_t i = 2; i < 6; i++) {
            air_up(a, i, NULL);
            uint64_t limit_us = (many ? 20 : 2) * S;
            (void)talk_meanwhile(a, &r, i, 0, limit_us);
            (void)talk_meanwhile(a, &r, i, 1, limit_us);
            (void)talk_meanwhile(a, &r, 1, i, limit_us);
            assert_true(uw_secure_frames_knows(&a->node[i].frames, 0));
        }
        expect_few_joins(&a->node[0], joins_n, a->now_us - began_us);
        assert_true(uw_secure_frames_knows(&a->node[0].frames, 1));
        assert_int_equal(a->node[0].frames.known_n, 5);
        air_free(a);
    }
}

/* Its own old hellos are repeated: it is asked, which only a device that is there now answers. */
static void test_a_station_whose_hellos_are_repeated_gets_in(void **state)
{
    (void)state;
    struct recorded r = {.n = 0};
    struct air *a = two_and_recorded(uw_test_seed(21), &r, 1, 25);
    repeat(a, &r, 20 * S);
    for (uint32_t k = 0; k < 3; k++) {
        air_up(a, 9, NULL);
        (void)talk_meanwhile(a, &r, 9, 0, 10 * S);
        (void)talk_meanwhile(a, &r, 0, 9, 10 * S);
        (void)talk_meanwhile(a, &r, 9, 1, 10 * S);
        repeat(a, &r, S);
        air_down(a, 9);
    }
    air_free(a);
}

/* Who repeats learns that it costs less and less; and it is told, once in 10 s. */
static void test_welcomes_in_vain_become_rare_and_are_told(void **state)
{
    (void)state;
    struct recorded r = {.n = 0};
    struct air *a = two_and_recorded(uw_test_seed(22), &r, 1, 25);
    const struct air_node *n = &a->node[0];
    uint32_t told = n->events[UW_SECURE_WARNING];
    repeat(a, &r, 30 * S);
    assert_in_range(n->events[UW_SECURE_WARNING] - told, 1, 3);
    assert_non_null(strstr(n->text[UW_SECURE_WARNING], "old hellos are replayed"));
    uint64_t joins_n = n->frames.stats.joins_sent_n;
    repeat(a, &r, 60 * S);
    assert_in_range(n->frames.stats.joins_sent_n - joins_n, 1, 50);
    assert_in_range(n->events[UW_SECURE_WARNING] - told, 1, 9);
    air_free(a);
}

/* Frames that nobody can open, of stations that are not there: this device does not ask more than
 * it may, and asks those to whom it has something to say. */
static void test_what_is_asked_for_sending_goes_out_in_a_storm_of_strangers(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(23), MTU);
    struct uw_rng rng;
    uw_rng_seed(&rng, a->seed);
    air_up(a, 0, NULL);
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t frame[40] = {0x10};
        (void)air_forge(a, (uint16_t)(300u + uw_rng_below(&rng, 300)), 0, frame, sizeof frame);
        air_run(a, 10000);
    }
    expect_few_joins(&a->node[0], 0, 10 * S);
    for (uint16_t i = 1; i < 6; i++) {
        air_up(a, i, NULL);
        uint64_t began_us = a->now_us;
        while (!uw_secure_frames_knows(&a->node[0].frames, i)) {
            uint8_t frame[40] = {0x10};
            (void)air_forge(a, (uint16_t)(300u + uw_rng_below(&rng, 300)), 0, frame, sizeof frame);
            (void)air_say(a, 0, i, 20);
            air_run(a, 10000);
            assert_true(a->now_us - began_us < S / 10u);
        }
    }
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_new_get_in_while_old_hellos_are_repeated),
        cmocka_unit_test(test_a_station_whose_hellos_are_repeated_gets_in),
        cmocka_unit_test(test_welcomes_in_vain_become_rare_and_are_told),
        cmocka_unit_test(test_what_is_asked_for_sending_goes_out_in_a_storm_of_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
