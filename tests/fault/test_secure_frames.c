/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure frames among those who mean well: joins, loss, restarts, tables that are full, epochs. */
#include "fault/frames_air.h"

#include "unit/memory_storage.h"

#include "secure/secure_frames_priv.h"

#define MTU 116u
#define S 1000000u
#define ALL UW_LINK_STATION_BROADCAST

static void expect_no_more(struct air *a)
{
    air_run(a, 2 * S);
    air_free(a);
}

static void test_two_stations_meet_in_three_frames(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(1), MTU);
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    assert_int_equal(air_say(a, 0, 1, 20), UW_ERR_AGAIN);
    assert_int_equal(air_say(a, 0, 1, 20), UW_ERR_AGAIN);
    air_run(a, 30000);
    assert_int_equal(a->tape_n, 3);
    assert_true(uw_secure_frames_knows(&a->node[0].frames, 1));
    assert_true(uw_secure_frames_knows(&a->node[1].frames, 0));
    assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
    assert_int_equal(air_say(a, 1, 0, 20), UW_OK);
    assert_int_equal(air_say(a, 1, ALL, 20), UW_OK);
    air_run(a, 30000);
    assert_int_equal(a->tape_n, 6);
    assert_int_equal(a->node[0].got_n, 2);
    assert_int_equal(a->node[1].got_n, 1);
    assert_int_equal(a->tape[3].bytes, 20 + UW_SECURE_FRAMES_OVERHEAD);
    expect_no_more(a);
}

static void test_a_hello_to_all_makes_all_known(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(2), MTU);
    for (uint16_t i = 0; i < 8; i++) {
        air_up(a, i, NULL);
    }
    assert_int_equal(air_say(a, 0, ALL, 20), UW_ERR_AGAIN);
    air_run(a, 100000);
    assert_int_equal(a->tape_n, 1 + 7 + 7);
    for (uint16_t i = 1; i < 8; i++) {
        assert_true(uw_secure_frames_knows(&a->node[i].frames, 0));
        assert_true(uw_secure_frames_knows(&a->node[0].frames, i));
    }
    assert_int_equal(air_say(a, 0, ALL, 20), UW_OK);
    air_run(a, 30000);
    for (uint16_t i = 1; i < 8; i++) {
        assert_int_equal(a->node[i].got_n, 1);
    }
    expect_no_more(a);
}

static void test_both_may_say_hello_at_once(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(3), MTU);
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    assert_int_equal(air_say(a, 0, 1, 20), UW_ERR_AGAIN);
    assert_int_equal(air_say(a, 1, 0, 20), UW_ERR_AGAIN);
    air_run(a, 50000);
    assert_true(a->tape_n <= 6);
    assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
    assert_int_equal(air_say(a, 1, 0, 20), UW_OK);
    air_run(a, 50000);
    assert_int_equal(a->node[0].got_n + a->node[1].got_n, 2);
    expect_no_more(a);
}

static void test_loss_delays_joins_and_no_more(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(4);
    uint64_t longest_us = 0;
    for (uint32_t i = 0; i < 50; i++) {
        struct air *a = air_new(seed + i, MTU);
        a->loss = 0.1f * (float)(i % 5u);
        air_up(a, 0, NULL);
        air_up(a, 1, NULL);
        air_up(a, 2, NULL);
        uint64_t us = air_talk(a, 0, 1, 30 * S);
        us += air_talk(a, 0, 2, 30 * S);
        us += air_talk(a, 2, 1, 30 * S) + air_talk(a, 1, 0, 30 * S);
        longest_us = us > longest_us ? us : longest_us;
        expect_no_more(a);
    }
    printf("four ways in %.2f s at most\n", (double)longest_us / 1e6);
}

static void test_messages_of_every_size_arrive_as_they_were(void **state)
{
    (void)state;
    static const uint32_t mtus[] = {UW_SECURE_FRAMES_LOWER_MIN, 127, UW_SECURE_FRAMES_LOWER_MAX};
    for (uint32_t k = 0; k < 3; k++) {
        struct air *a = air_new(uw_test_seed(5), mtus[k]);
        struct air_node *n = air_up(a, 0, NULL);
        air_up(a, 1, NULL);
        (void)air_talk(a, 0, 1, S);
        uint32_t mtu = n->frames.link.mtu_bytes, before = a->node[1].got_n;
        assert_int_equal(mtu, mtus[k] - UW_SECURE_FRAMES_OVERHEAD);
        for (uint32_t bytes = AIR_MESSAGE_MIN; bytes <= mtu; bytes++) {
            assert_int_equal(air_say(a, 0, 1, bytes), UW_OK);
            air_run(a, 10000);
        }
        assert_int_equal(air_say(a, 0, 1, mtu + 1u), UW_ERR_TOOBIG);
        assert_int_equal(a->node[1].got_n - before, mtu + 1u - AIR_MESSAGE_MIN);
        air_free(a);
    }
}

static void test_what_is_no_message_is_not_sent(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(6), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    const uint8_t version = 0x21, type = 0x10;
    assert_int_equal(uw_link_send(&n->frames.link, 1, &version, 1), UW_ERR_INVALID);
    assert_int_equal(uw_link_send(&n->frames.link, 1, &type, 1), UW_ERR_INVALID);
    assert_int_equal(uw_link_send(&n->frames.link, 1, &type, 0), UW_ERR_INVALID);
    assert_int_equal(a->tape_n, 0);
    air_free(a);
}

/* Another key; another run; told once in ten seconds. */
static void test_strangers_are_refused_and_told_of_once(void **state)
{
    (void)state;
    for (int other_run = 0; other_run < 2; other_run++) {
        struct air *a = air_new(uw_test_seed(7), MTU);
        struct uw_secure_frames_config c = {.run = other_run ? "airs" : NULL};
        memset(c.key, other_run ? 7 : 8, sizeof c.key);
        struct air_node *n = air_up(a, 0, NULL);
        air_up(a, 1, &c);
        for (int i = 0; i < 100; i++) {
            (void)air_say(a, 1, 0, 20);
            (void)air_say(a, 1, ALL, 20);
            air_run(a, 90000);
        }
        assert_int_equal(n->events[UW_SECURE_PEER_REFUSED], 1);
        for (int i = 0; i < 20; i++) {
            (void)air_say(a, 1, 0, 20);
            air_run(a, S);
        }
        assert_in_range(n->events[UW_SECURE_PEER_REFUSED], 2, 3);
        assert_int_equal(n->frames.known_n + a->node[1].frames.known_n, 0);
        assert_true(n->frames.stats.refused_n >= 10);
        expect_no_more(a);
    }
}

/* All of a burst that comes in one call is told of once too. */
static void test_a_burst_of_strangers_is_told_of_once(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(8), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    uint8_t frame[27] = {0, 1};
    for (uint32_t i = 0; i < 40; i++) {
        frame[6] = (uint8_t)i;
        (void)air_forge(a, 5, 0, frame, sizeof frame);
    }
    air_run(a, 20000);
    assert_int_equal(n->frames.stats.refused_n, 40);
    assert_int_equal(n->events[UW_SECURE_PEER_REFUSED], 1);
    air_free(a);
}

static void test_a_device_that_starts_anew_is_known_again(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    const struct uw_secure_frames_config kept = {.store = &store.base, .reserve_n = 16};
    struct air *a = air_new(uw_test_seed(9), MTU);
    air_up(a, 0, NULL);
    uint64_t ids[2] = {0};
    for (uint32_t round = 0; round < 20; round++) {
        bool stores = round % 2u == 0;
        struct air_node *n = air_up(a, 1, stores ? &kept : NULL);
        assert_true(!stores || round == 0 || n->frames.id == ids[0]);
        assert_true(stores || n->frames.id != ids[1]);
        ids[stores ? 0 : 1] = n->frames.id;
        uint16_t first = round % 4u < 2u ? 1 : 0;
        (void)air_talk(a, first, 1u - first, 10 * S);
        (void)air_talk(a, 1u - first, first, 10 * S);
        for (uint32_t i = 0; i < round; i++) {
            (void)air_say(a, 1, 0, 20);
            air_run(a, 10000);
        }
        assert_int_equal(a->node[0].frames.known_n, 1);
        air_down(a, 1);
        air_run(a, round * S);
    }
    memory_storage_release(&store);
    expect_no_more(a);
}

/* Who was heard longest ago makes room; all come to speak. */
static void test_more_stations_than_the_table_has_take_turns(void **state)
{
    (void)state;
    const struct uw_secure_frames_config small = {.peers_n = 3};
    struct air *a = air_new(uw_test_seed(10), MTU);
    for (uint16_t i = 0; i < 8; i++) {
        air_up(a, i, &small);
    }
    for (uint32_t k = 0; k < 80; k++) {
        uint16_t from = (uint16_t)(k % 8u), to = (uint16_t)((k + 1u + k / 8u % 7u) % 8u);
        (void)air_talk(a, from, to, 20 * S);
        assert_true(a->node[to].frames.known_n <= 3);
    }
    assert_true(a->node[0].events[UW_SECURE_PEER_CLOSED] != 0);
    expect_no_more(a);
}

/* A frame that is late comes, unless more than 63 have come since. */
static void test_frames_may_overtake_each_other(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(11), MTU);
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    for (uint32_t late = 1; late <= 70; late++) {
        a->held = true;
        uint32_t first = a->tape_n, before = a->node[1].got_n;
        for (uint32_t i = 0; i <= late; i++) {
            assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        }
        for (uint32_t i = late; i > 0; i--) {
            air_deliver(a, first + i, 1);
        }
        air_run(a, 10000);
        air_deliver(a, first, 1);
        air_run(a, 10000);
        uint32_t within = late < 64u ? late + 1u : 64u;
        assert_int_equal(a->node[1].got_n - before, within);
        a->held = false;
        air_run(a, 100000);
    }
    air_free(a);
}

/* The low 24 bits begin anew, while a part of the frames is lost; and where most of them are. */
static void test_counters_are_whole_where_their_low_bits_wrap(void **state)
{
    (void)state;
    for (uint64_t high = 0; high < 3; high++) {
        struct air *a = air_new(uw_test_seed(12), MTU);
        air_up(a, 0, NULL);
        air_up(a, 1, NULL);
        a->node[0].frames.counter = (high << 24) + 0xffff00u;
        (void)air_talk(a, 0, 1, S);
        uint32_t before = a->node[1].got_n;
        for (uint32_t i = 0; i < 600; i++) {
            a->held = i % 7u == 3u;
            assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
            a->held = false;
            air_run(a, 10000);
        }
        assert_int_equal(a->node[1].got_n - before, 600 - 86);
        a->node[0].frames.counter += 0x7ffff0u;     /* as if nobody had heard those */
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        air_run(a, 10000);
        assert_int_equal(a->node[1].got_n - before, 600 - 86 + 1);
        a->node[0].frames.counter += 0x900000u;
        (void)air_talk(a, 0, 1, 5 * S);             /* too far: the peer asks, and knows again */
        air_free(a);
    }
}

static void test_epochs_change_in_mid_traffic_without_loss(void **state)
{
    (void)state;
    struct uw_secure_frames_config c = {.epoch_frames = 40};
    struct air *a = air_new(uw_test_seed(13), MTU);
    for (uint16_t i = 0; i < 3; i++) {
        air_up(a, i, i == 2 ? NULL : &c);
    }
    for (uint16_t i = 0; i < 3; i++) {
        (void)air_talk(a, i, (uint16_t)((i + 1u) % 3u), 5 * S);
        (void)air_talk(a, (uint16_t)((i + 1u) % 3u), i, 5 * S);
    }
    uint32_t sent = 0, before = 0, after = 0;
    for (uint16_t i = 0; i < 3; i++) {
        before += a->node[i].got_n;
    }
    for (uint32_t k = 0; k < 600; k++) {
        if (k % 300u == 130u) {
            assert_int_equal(uw_secure_frames_rotate(&a->node[2].frames), UW_OK);
        }
        uint16_t to = (uint16_t)((k + 1u + k / 3u % 2u) % 3u);
        sent += air_say(a, (uint16_t)(k % 3u), to, 20) == UW_OK;
        air_run(a, 10000);
    }
    for (uint16_t i = 0; i < 3; i++) {
        after += a->node[i].got_n;
    }
    assert_int_equal(sent, 600);
    assert_int_equal(after - before, sent);
    assert_true(a->node[2].frames.epoch >= 5);
    expect_no_more(a);
}

/* Who slept through any number of epochs speaks again, and hears again. */
static void test_a_sleeper_finds_back_after_many_epochs(void **state)
{
    (void)state;
    for (uint32_t missed = 1; missed <= 20; missed++) {
        struct air *a = air_new(uw_test_seed(14), MTU);
        air_up(a, 0, NULL);
        air_up(a, 1, NULL);
        (void)air_talk(a, 0, 1, S);
        for (uint32_t i = 0; i < missed; i++) {
            assert_int_equal(uw_secure_frames_rotate(&a->node[0].frames), UW_OK);
        }
        bool wakes = missed % 2u == 0;
        (void)air_talk(a, wakes, !wakes, 5 * S);
        (void)air_talk(a, !wakes, wakes, 5 * S);
        assert_int_equal(a->node[1].frames.epoch, missed);
        expect_no_more(a);
    }
}

/* A restart with the store goes on in its epoch. */
static void test_an_epoch_outlives_a_restart(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    const struct uw_secure_frames_config c = {.store = &store.base};
    struct air *a = air_new(uw_test_seed(15), MTU);
    air_up(a, 0, &c);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    assert_int_equal(uw_secure_frames_rotate(&a->node[1].frames), UW_OK);
    (void)air_talk(a, 1, 0, S);
    air_run(a, 100000);
    air_down(a, 0);
    assert_int_equal(air_up(a, 0, &c)->frames.epoch, 1);
    memory_storage_release(&store);
    air_free(a);
}

/* It goes on where it was, however often that is. */
static void test_an_epoch_ends_though_every_life_is_short(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    const struct uw_secure_frames_config c = {
        .store = &store.base, .reserve_n = 8, .epoch_frames = 100};
    struct air *a = air_new(uw_test_seed(18), MTU);
    air_up(a, 1, NULL);
    for (uint32_t life = 0; life < 40; life++) {
        (void)air_up(a, 0, &c);
        (void)air_talk(a, 0, 1, 10 * S);
        for (uint32_t i = 0; i < 10; i++) {
            (void)air_say(a, 0, 1, 20);
        }
        air_run(a, S);
        air_down(a, 0);
    }
    assert_in_range(a->node[0].frames.epoch, 4, 8);
    assert_int_equal(a->node[1].frames.epoch, a->node[0].frames.epoch);
    memory_storage_release(&store);
    air_free(a);
}

static void test_a_lower_link_that_narrows_narrows_this_one(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(16), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    for (uint32_t mtu = MTU; mtu >= UW_SECURE_FRAMES_LOWER_MIN; mtu--) {
        n->lower.mtu_bytes = mtu;
        assert_int_equal(air_say(a, 0, 1, mtu - 10u), UW_ERR_TOOBIG);
        assert_int_equal(n->frames.link.mtu_bytes, mtu - 11u);
        assert_int_equal(air_say(a, 0, 1, mtu - 11u), UW_OK);
        air_run(a, 10000);
    }
    n->lower.mtu_bytes = MTU;
    air_run(a, 10000);
    assert_int_equal(n->frames.link.mtu_bytes, MTU - 11u);
    assert_int_equal(air_say(a, 0, 1, MTU - 11u), UW_OK);
    expect_no_more(a);
}

/* A radio without budget for minutes: what was taken goes out when it may, once. */
static void test_a_radio_without_budget_delays_and_loses_nothing(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(17), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    uint32_t before = a->node[1].got_n, sent = 0;
    for (uint32_t i = 0; i < 300; i++) {
        n->jammed = i % 100u < 90u;
        sent += air_say(a, 0, 1, 20) == UW_OK;
        air_run(a, S);
    }
    assert_int_equal(sent, 3 * 11);
    assert_int_equal(a->node[1].got_n - before, sent);
    expect_no_more(a);
}

/* It answers three that came in the meantime, and no old one. */
static void test_answers_wait_for_a_radio_without_budget(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(19), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    n->jammed = true;
    for (uint16_t i = 1; i <= 4; i++) {
        air_up(a, i, NULL);
        assert_int_equal(air_say(a, i, 0, 20), UW_ERR_AGAIN);
        air_run(a, S / 2u);
    }
    n->jammed = false;
    air_run(a, 100000);
    assert_int_equal(n->frames.known_n, 4);
    n->jammed = true;
    for (uint16_t i = 5; i <= 7; i++) {
        air_up(a, i, NULL);
        assert_int_equal(air_say(a, i, 0, 20), UW_ERR_AGAIN);
        air_run(a, 10000);
    }
    air_run(a, 30 * S);
    n->jammed = false;
    uint64_t joins_n = n->frames.stats.joins_sent_n;
    air_run(a, S);
    assert_int_equal(n->frames.stats.joins_sent_n, joins_n);   /* but the one that was sealed */
    expect_no_more(a);
}

static void test_who_waits_for_the_radio_looks_ever_less_often(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(20), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    uint32_t looks = 0;
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t began_us = a->now_us, next_us = a->now_us;
        n->jammed = true;
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        for (looks = 0; a->now_us < began_us + 100 * S; looks++) {
            a->now_us = next_us;
            next_us = uw_link_step(&n->frames.link, a->now_us);
            assert_in_range(next_us - a->now_us, 1000, S);
            assert_true(next_us - began_us <= 2000 + (a->now_us - began_us) * 9u / 8u);
        }
        assert_true(looks < 200);
        n->jammed = false;
        assert_true(uw_link_step(&n->frames.link, a->now_us) == UINT64_MAX);
    }
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_stations_meet_in_three_frames),
        cmocka_unit_test(test_a_hello_to_all_makes_all_known),
        cmocka_unit_test(test_both_may_say_hello_at_once),
        cmocka_unit_test(test_loss_delays_joins_and_no_more),
        cmocka_unit_test(test_messages_of_every_size_arrive_as_they_were),
        cmocka_unit_test(test_what_is_no_message_is_not_sent),
        cmocka_unit_test(test_strangers_are_refused_and_told_of_once),
        cmocka_unit_test(test_a_burst_of_strangers_is_told_of_once),
        cmocka_unit_test(test_a_device_that_starts_anew_is_known_again),
        cmocka_unit_test(test_more_stations_than_the_table_has_take_turns),
        cmocka_unit_test(test_frames_may_overtake_each_other),
        cmocka_unit_test(test_counters_are_whole_where_their_low_bits_wrap),
        cmocka_unit_test(test_epochs_change_in_mid_traffic_without_loss),
        cmocka_unit_test(test_a_sleeper_finds_back_after_many_epochs),
        cmocka_unit_test(test_an_epoch_outlives_a_restart),
        cmocka_unit_test(test_an_epoch_ends_though_every_life_is_short),
        cmocka_unit_test(test_a_lower_link_that_narrows_narrows_this_one),
        cmocka_unit_test(test_a_radio_without_budget_delays_and_loses_nothing),
        cmocka_unit_test(test_answers_wait_for_a_radio_without_budget),
        cmocka_unit_test(test_who_waits_for_the_radio_looks_ever_less_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
