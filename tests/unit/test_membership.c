/* SPDX-License-Identifier: Apache-2.0
 *
 * The member table by itself: what is said to it, and whom it wants to call. */
#include "unit/membership_bench.h"

#include "membership/membership_priv.h"

static void test_silence_makes_suspect_then_dead_then_called_for_ever(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    assert_int_equal(b.events[UW_NODE_ALIVE], 1);
    uint32_t calls = run(&b, SECOND, 5 * SECOND, 1);
    assert_true(calls >= 4 && calls <= 16);
    assert_int_equal(b.events[UW_NODE_SUSPECT], 1);
    assert_int_equal(b.events[UW_NODE_DEAD], 0);
    run(&b, 5 * SECOND, 12 * SECOND, 1);
    assert_int_equal(b.events[UW_NODE_DEAD], 1);
    calls = run(&b, 1000u * (uint64_t)SECOND, 1100u * (uint64_t)SECOND, 1);
    assert_true(calls >= 100 / 6 && calls <= 100 / 4 + 1);
    assert_ptr_equal(uw_membership_heard(&b.m, 1, 1100u * (uint64_t)SECOND), &b.m.members[1]);
    assert_int_equal(b.events[UW_NODE_REJOINED], 1);
    assert_int_equal(b.m.members[1].state, UW_MEMBER_ALIVE);
}

static void test_seed_is_called_until_it_answers_and_again_when_lost(void **state)
{
    (void)state;
    static const char *const seeds[] = {"3", "nonsense"};
    struct bench b;
    set_up(&b, 4, seeds, 2);
    assert_true(run(&b, SECOND, 20 * SECOND, 3) >= 6);
    assert_int_equal(b.events[UW_NODE_SEED_FAILED], 1);
    assert_int_equal(tell(&b, 3, "b", 5, 20 * SECOND), UW_OK);
    run(&b, 20 * SECOND, 40 * SECOND, 3);
    assert_int_equal(b.events[UW_NODE_DEAD], 1);
    assert_true(run(&b, 40 * SECOND, 60 * SECOND, 3) >= 3);
}

static uint64_t name_known_us;
static const char *name_means;          /* a number, as the loopback link knows it */

/* A link on which the name "later" takes until name_known_us to look up. */
static int resolve_later(struct uw_link *l, const char *address, uint16_t *station)
{
    struct bench *b = (struct bench *)((uint8_t *)l - offsetof(struct bench, link.link));
    if (strcmp(address, "later") != 0) {
        return uw_link_resolve(b->real, address, station);
    }
    return b->m.now_us < name_known_us ? UW_ERR_AGAIN
                                       : uw_link_resolve(b->real, name_means, station);
}

/* Replace the bench's link by one with slow names; real keeps the ops as they were. */
static void slow_names(struct bench *b, struct uw_link_ops *ops, struct uw_link_loopback *real)
{
    *real = b->link;
    b->real = &real->link;
    *ops = *b->link.link.ops;
    ops->resolve = resolve_later;
    b->link.link.ops = ops;
}

static void test_name_that_takes_long_is_called_when_known_and_is_no_failure(void **state)
{
    (void)state;
    static const char *const seeds[] = {"later", "3"};
    struct uw_link_ops ops;
    struct uw_link_loopback real;
    struct bench b;
    set_up(&b, 4, seeds, 2);
    slow_names(&b, &ops, &real);
    name_known_us = 8 * SECOND;
    name_means = "4";
    assert_int_equal(run(&b, SECOND, 8 * SECOND, 4), 0);
    assert_int_equal(b.events[UW_NODE_SEED_FAILED], 0);
    assert_true(b.m.seeds[1].tries >= 3);           /* the other seed was called meanwhile */
    /* At once, not after a growing pause; the same for a member known by name. */
    assert_int_equal(run(&b, 8 * SECOND, 8 * SECOND + SECOND / 10u, 4), 1);
    name_known_us = 20 * SECOND;
    name_means = "5";
    uwasa_Peer peer = {.name = "c", .address = "later", .state = uwasa_State_ALIVE};
    uw_membership_rumour(&b.m, &peer, 9 * SECOND);
    assert_int_equal(run(&b, 9 * SECOND, 20 * SECOND, 5), 0);
    assert_true(run(&b, 20 * SECOND, 20 * SECOND + SECOND / 10u, 5) >= 1);
}

static void test_seed_that_does_not_answer_is_looked_up_anew(void **state)
{
    (void)state;
    static const char *const seeds[] = {"later"};
    struct uw_link_ops ops;
    struct uw_link_loopback real;
    struct bench b;
    set_up(&b, 4, seeds, 1);
    slow_names(&b, &ops, &real);
    name_known_us = 0;
    name_means = "4";
    assert_true(run(&b, SECOND, 5 * SECOND, 4) >= 3);
    name_means = "5";
    run(&b, 5 * SECOND, 60 * SECOND, 5);
    assert_true(run(&b, 60 * SECOND, 80 * SECOND, 5) >= 3);
    /* Also when somebody had answered at the old place. */
    assert_int_equal(tell(&b, 5, "b", 5, 80 * SECOND), UW_OK);
    name_means = "6";
    run(&b, 80 * SECOND, 160 * SECOND, 6);
    assert_int_equal(b.events[UW_NODE_DEAD], 1);
    assert_true(run(&b, 160 * SECOND, 180 * SECOND, 6) >= 3);
}

static void test_newer_incarnation_wins_and_the_older_is_refused_while_it_lives(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    assert_int_equal(tell(&b, 2, "b", 6, SECOND), UW_OK);
    assert_int_equal(b.events[UW_NODE_RESTARTED], 1);
    assert_int_equal(b.m.members_n, 2);
    assert_int_equal(b.m.members[1].station, 2);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_ERR_DENIED);
    /* Its clock stopped: the same place, or nobody alive in the other. */
    assert_int_equal(tell(&b, 2, "b", 1, SECOND), UW_OK);
    run(&b, SECOND, 20 * SECOND, 2);
    assert_int_equal(tell(&b, 1, "b", 2, 20 * SECOND), UW_OK);
    assert_int_equal(b.m.members[1].incarnation, 6);
}

static void test_rumour_brings_addresses_but_neither_life_nor_death(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 4, NULL, 0);
    uwasa_Peer peer = {.name = "c", .address = "4", .incarnation = 3,
                       .state = uwasa_State_ALIVE};
    uw_membership_rumour(&b.m, &peer, SECOND);
    assert_int_equal(b.m.members[1].state, UW_MEMBER_UNKNOWN);
    assert_int_equal(uw_membership_alive(&b.m), 0);
    assert_true(run(&b, SECOND, 3 * SECOND, 4) >= 2);
    assert_int_equal(tell(&b, 4, "c", 3, 3 * SECOND), UW_OK);
    peer.state = uwasa_State_DEAD;
    uw_membership_rumour(&b.m, &peer, 3 * SECOND);
    assert_int_equal(b.m.members[1].state, UW_MEMBER_ALIVE);
}

static void test_own_name_with_a_higher_incarnation_is_outgrown(void **state)
{
    (void)state;
    struct bench b;
    uwasa_Peer self;
    set_up(&b, 4, NULL, 0);
    uwasa_Peer peer = {.name = "a", .address = "0", .incarnation = 77,
                       .state = uwasa_State_DEAD};
    uw_membership_rumour(&b.m, &peer, SECOND);
    uw_membership_self(&b.m, &self);
    assert_int_equal(self.incarnation, 78);
    /* Alive at another address it is somebody else. */
    peer = (uwasa_Peer){.name = "a", .address = "5", .incarnation = 99,
                        .state = uwasa_State_ALIVE};
    uw_membership_rumour(&b.m, &peer, SECOND);
    uw_membership_self(&b.m, &self);
    assert_int_equal(self.incarnation, 78);
    assert_int_equal(tell(&b, 5, "a", 99, SECOND), UW_ERR_DENIED);
    /* There is nothing above the highest: it does not wrap to a number that everybody refuses. */
    peer = (uwasa_Peer){.name = "a", .address = "0", .incarnation = UINT32_MAX,
                        .state = uwasa_State_DEAD};
    uw_membership_rumour(&b.m, &peer, SECOND);
    uw_membership_self(&b.m, &self);
    assert_int_equal(self.incarnation, UINT32_MAX);
}

static void test_full_table_gives_room_only_to_whom_it_hears(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 3, NULL, 0);
    uwasa_Peer peer = {.name = "x", .address = "6", .incarnation = 1};
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    uw_membership_rumour(&b.m, &peer, SECOND);
    assert_int_equal(b.m.members_n, 3);
    assert_int_equal(tell(&b, 2, "c", 5, SECOND), UW_OK);      /* in the unknown one's place */
    assert_int_equal(tell(&b, 3, "d", 5, SECOND), UW_ERR_FULL);
    uw_membership_rumour(&b.m, &peer, SECOND);
    assert_string_equal(b.m.members[2].name, "c");
}

static bool spares_all_but_b(void *arg, const struct uw_member *m)
{
    (void)arg;
    return m->state == UW_MEMBER_ALIVE && strcmp(m->name, "b") != 0;
}

static bool knows(const struct bench *b, const char *name)
{
    bool known = false;
    for (uint32_t i = 1; i < b->m.members_n; i++) {
        known = known || strcmp(b->m.members[i].name, name) == 0;
    }
    return known;
}

/* A stranger gets the place of a live member that may be spared, and the next one only later. */
static void test_full_table_spares_one_live_member_for_a_stranger_now_and_then(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 3, NULL, 0);
    b.m.config.spares = spares_all_but_b;
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    assert_int_equal(tell(&b, 2, "c", 5, SECOND), UW_OK);
    assert_int_equal(tell(&b, 3, "d", 5, SECOND), UW_OK);
    assert_true(knows(&b, "b") && knows(&b, "d") && !knows(&b, "c"));
    assert_int_equal(tell(&b, 2, "c", 5, 2 * SECOND), UW_ERR_FULL);
    assert_int_equal(tell(&b, 2, "c", 5, 6 * SECOND), UW_OK);
    assert_true(knows(&b, "b") && knows(&b, "c") && !knows(&b, "d"));
    /* Hearsay too, but one unproven name at a time. */
    uwasa_Peer peer = {.name = "x", .address = "6", .incarnation = 1,
                       .state = uwasa_State_ALIVE};
    uw_membership_rumour(&b.m, &peer, 12 * SECOND);
    assert_true(knows(&b, "b") && knows(&b, "x"));
    b.m.config.spares = NULL;
    strcpy(peer.name, "y");
    uw_membership_rumour(&b.m, &peer, 20 * SECOND);
    assert_true(knows(&b, "x") && !knows(&b, "y"));
}

/* Who is gone for good leaves its place even to hearsay, once it was called in vain for long. */
static void test_full_table_gives_the_place_of_the_dead_to_hearsay(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 2, NULL, 0);
    uwasa_Peer peer = {.name = "x", .address = "6", .incarnation = 1,
                       .state = uwasa_State_ALIVE};
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    (void)run(&b, SECOND, 20 * SECOND, 1);
    assert_int_equal(b.m.members[1].state, UW_MEMBER_DEAD);
    uw_membership_rumour(&b.m, &peer, 20 * SECOND);
    assert_true(knows(&b, "b"));
    (void)run(&b, 20 * SECOND, 80 * SECOND, 1);
    uw_membership_rumour(&b.m, &peer, 80 * SECOND);
    assert_true(knows(&b, "x"));
}

static void test_one_station_with_many_names_does_not_fill_the_table(void **state)
{
    (void)state;
    static const char *const names[] = {"m", "n", "o", "p", "q", "r"};
    struct bench b;
    set_up(&b, 4, NULL, 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(tell(&b, 1, names[i], 5, SECOND), UW_OK);
        assert_int_equal(uw_membership_alive(&b.m), 1);
    }
    assert_int_equal(tell(&b, 2, "honest", 5, SECOND), UW_OK);
    assert_int_equal(uw_membership_alive(&b.m), 2);
}

static void test_answer_that_waited_for_a_stopped_device_is_no_round_trip(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    run(&b, SECOND, 2 * SECOND + SECOND / 2, 1);
    struct uw_member *it = &b.m.members[1];
    uint32_t seq = it->ping_seq;
    assert_int_not_equal(seq, 0);
    uw_membership_wake(&b.m, 3 * SECOND, 60 * SECOND);
    uw_membership_acked(&b.m, it, seq, 60 * SECOND);
    assert_int_equal(it->srtt_us, 0);
}

/* Both sides ping every second, over a path on which every other answer is lost; returns the round
 * trip that is known after 100 s. */
static uint32_t measured_rtt(uint64_t rtt_us, bool lossy)
{
    struct bench b;
    struct {
        uint64_t at_us;
        uint32_t seq;
    } ack[64] = {{0}};
    uint32_t sent_n = 0, taken_n = 0, seq;
    uint16_t to;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    for (uint64_t t = SECOND; t < 101u * (uint64_t)SECOND; t += SECOND / 20u) {
        uw_membership_wake(&b.m, t, t);
        if (t % SECOND == 0) {
            assert_int_equal(tell(&b, 1, "b", 5, t), UW_OK);
        }
        for (; taken_n < sent_n && ack[taken_n % 64u].at_us <= t; taken_n++) {
            if (!lossy || taken_n % 2u == 1) {
                assert_int_equal(tell(&b, 1, "b", 5, t), UW_OK);
                uw_membership_acked(&b.m, &b.m.members[1], ack[taken_n % 64u].seq, t);
            }
        }
        while (uw_membership_next(&b.m, t, &to, &seq) != 0) {
            ack[sent_n % 64u].at_us = t + rtt_us;
            ack[sent_n++ % 64u].seq = seq;
        }
    }
    assert_int_equal(b.events[UW_NODE_SUSPECT], 0);
    return b.m.members[1].srtt_us;
}

static void test_round_trip_longer_than_the_pause_between_pings_is_measured(void **state)
{
    (void)state;
    static const uint64_t rtt_us[] = {SECOND / 10u, 3u * SECOND / 2u, 5u * SECOND, 20u * SECOND};
    for (size_t i = 0; i < sizeof rtt_us / sizeof rtt_us[0]; i++) {
        for (int lossy = 0; lossy < 2; lossy++) {
            uint32_t srtt_us = measured_rtt(rtt_us[i], lossy != 0);
            assert_in_range(srtt_us, rtt_us[i], rtt_us[i] + SECOND / 20u);
        }
    }
}

/* Who was paused answers late once; where that was the first answer, the next ones correct it. */
static void test_a_pause_is_no_round_trip(void **state)
{
    (void)state;
    for (uint32_t pause = 0; pause < 2; pause++) {
        struct bench b;
        set_up(&b, 4, NULL, 0);
        assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
        struct uw_member *it = &b.m.members[1];
        for (uint32_t i = 0; i < 16; i++) {
            uint64_t t = (10u + i) * (uint64_t)SECOND;
            it->ping_seq = i + 1u;
            it->ping_us = t;
            uw_membership_acked(&b.m, it, i + 1u, t + (i == pause ? 4u * SECOND : 5000u));
            assert_true(it->srtt_us <= 10000u || pause == 0);
        }
        assert_in_range(it->srtt_us, 5000, 30000);
    }
}

/* Silence begins with a question: who is asked seldom is not suspected for it. */
static void test_who_asks_to_be_asked_seldom_is_not_suspected_before_it_was_asked(void **state)
{
    (void)state;
    struct bench b;
    uwasa_Ping ping = {.model = 1, .has_self = true};
    strcpy(ping.self.name, "b");
    ping.self.incarnation = 5;
    ping.self.pace_ms = 30000;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(uw_membership_update(&b.m, 1, false, &ping, SECOND, NULL), UW_OK);
    struct uw_member *it = &b.m.members[1];
    assert_true(run(&b, SECOND, 2 * SECOND + SECOND / 2, 1) >= 1);      /* for the round trip */
    uw_membership_acked(&b.m, it, it->ping_seq, 2 * SECOND + SECOND / 2);
    uint64_t now_us = 2 * SECOND + SECOND / 2;
    assert_int_equal(uw_membership_update(&b.m, 1, false, &ping, now_us, NULL), UW_OK);
    assert_int_equal(run(&b, 3 * SECOND, 25 * SECOND, 1), 0);
    assert_int_equal(b.events[UW_NODE_SUSPECT], 0);
    assert_true(run(&b, 25 * SECOND, 50 * SECOND, 1) >= 3);
    assert_int_equal(b.events[UW_NODE_SUSPECT], 1);
}

/* It is heard, but sends hellos as to one who does not answer: for both the other is gone, and for
 * the rest of the run they are two that do not hear each other. Its first ping brings it back. */
static void test_who_does_not_hear_this_device_is_lost_like_who_is_not_heard(void **state)
{
    (void)state;
    struct bench b;
    uwasa_Ping ping = {.model = 1, .has_self = true};
    const uwasa_Peer rumour = {.name = "b", .incarnation = 5, .state = uwasa_State_ALIVE};
    strcpy(ping.self.name, "b");
    ping.self.incarnation = 5;
    set_up(&b, 4, NULL, 0);
    uint64_t t = SECOND;
    for (; t < 30 * SECOND; t += SECOND) {
        assert_int_equal(uw_membership_update(&b.m, 1, true, &ping, t, NULL), UW_OK);
        uw_membership_rumour(&b.m, &rumour, t);
        (void)run(&b, t, t + SECOND, 1);
        if (t == 4 * SECOND) {
            assert_int_equal(b.m.members[1].state, UW_MEMBER_ALIVE);
        }
    }
    assert_int_equal(b.m.members[1].state, UW_MEMBER_DEAD);
    assert_true(uw_membership_is_deaf(&b.m, &b.m.members[1], t));
    assert_int_equal(uw_membership_update(&b.m, 1, false, &ping, t, NULL), UW_OK);
    assert_int_equal(b.m.members[1].state, UW_MEMBER_ALIVE);
    assert_false(uw_membership_is_deaf(&b.m, &b.m.members[1], t));
}

static void test_what_others_do_not_hear_is_asked_at_once(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 4, NULL, 0);
    assert_int_equal(tell(&b, 1, "b", 5, SECOND), UW_OK);
    struct uw_member *it = &b.m.members[1];
    it->next_us = 100u * (uint64_t)SECOND;      /* its turn is far away */
    uwasa_Peer peer = {.name = "b", .address = "1", .incarnation = 5,
                       .state = uwasa_State_ALIVE};
    uw_membership_rumour(&b.m, &peer, 20 * SECOND);
    peer.state = uwasa_State_SUSPECT;
    peer.incarnation = 4;                       /* of a former life */
    uw_membership_rumour(&b.m, &peer, 21 * SECOND);
    assert_int_equal(run(&b, 20 * SECOND, 22 * SECOND, 1), 0);
    peer.incarnation = 5;
    uw_membership_rumour(&b.m, &peer, 22 * SECOND);
    assert_int_equal(it->state, UW_MEMBER_ALIVE);
    assert_true(run(&b, 22 * SECOND, 23 * SECOND, 1) >= 1);
}

/* Places that change their names and stations are found by those they have now. */
static void test_places_are_found_by_name_and_by_station_whatever_has_changed(void **state)
{
    (void)state;
    struct bench b;
    struct uw_rng rng;
    char name[3] = "a0";
    uw_rng_seed(&rng, uw_test_seed(1));
    set_up(&b, 6, NULL, 0);
    for (uint32_t k = 1; k < 4000; k++) {
        name[0] = (char)('a' + uw_rng_below(&rng, 10));
        uint16_t station = (uint16_t)(1u + uw_rng_below(&rng, 7));
        uint64_t now_us = k * (uint64_t)SECOND / 10u;
        (void)tell(&b, station, name, k, now_us);
        (void)run(&b, now_us, now_us + SECOND / 10u, 1);
        for (uint32_t i = 1; i < b.m.members_n; i++) {
            struct uw_member *it = &b.m.members[i];
            assert_ptr_equal(uw_membership_named(&b.m, it->name), it);
            assert_true(it->station == UW_LINK_STATION_NONE ||
                        uw_membership_at(&b.m, it->station) == it);
            assert_true(b.m.heap[it->in_heap] == i);
            assert_true(b.m.members[b.m.heap[0]].due_us <= it->due_us);
        }
        assert_int_equal(b.m.states_n[0] + b.m.states_n[1] + b.m.states_n[2] + b.m.states_n[3] +
                             b.m.states_n[4],
                         b.m.members_n - 1u);
    }
    assert_null(uw_membership_named(&b.m, "nobody"));
    assert_null(uw_membership_at(&b.m, UW_LINK_STATION_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silence_makes_suspect_then_dead_then_called_for_ever),
        cmocka_unit_test(test_seed_is_called_until_it_answers_and_again_when_lost),
        cmocka_unit_test(test_name_that_takes_long_is_called_when_known_and_is_no_failure),
        cmocka_unit_test(test_seed_that_does_not_answer_is_looked_up_anew),
        cmocka_unit_test(test_newer_incarnation_wins_and_the_older_is_refused_while_it_lives),
        cmocka_unit_test(test_rumour_brings_addresses_but_neither_life_nor_death),
        cmocka_unit_test(test_own_name_with_a_higher_incarnation_is_outgrown),
        cmocka_unit_test(test_full_table_gives_room_only_to_whom_it_hears),
        cmocka_unit_test(test_full_table_spares_one_live_member_for_a_stranger_now_and_then),
        cmocka_unit_test(test_full_table_gives_the_place_of_the_dead_to_hearsay),
        cmocka_unit_test(test_one_station_with_many_names_does_not_fill_the_table),
        cmocka_unit_test(test_answer_that_waited_for_a_stopped_device_is_no_round_trip),
        cmocka_unit_test(test_round_trip_longer_than_the_pause_between_pings_is_measured),
        cmocka_unit_test(test_a_pause_is_no_round_trip),
        cmocka_unit_test(
            test_who_asks_to_be_asked_seldom_is_not_suspected_before_it_was_asked),
        cmocka_unit_test(test_who_does_not_hear_this_device_is_lost_like_who_is_not_heard),
        cmocka_unit_test(test_what_others_do_not_hear_is_asked_at_once),
        cmocka_unit_test(
            test_places_are_found_by_name_and_by_station_whatever_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
