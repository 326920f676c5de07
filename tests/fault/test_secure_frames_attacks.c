/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody on the air without the key: changes frames, sends what was sent before, in anybody's
 * name, at any time. Nothing arrives twice nor changed, nobody who is known is forgotten, and
 * strangers get a stated number of answers. */
#include "fault/frames_air.h"

#include "unit/memory_storage.h"

#include "secure/secure_frames_priv.h"

#define MTU 116u
#define S 1000000u
#define ALL UW_LINK_STATION_BROADCAST
#define ANSWERS_PER_S 16u
#define ANSWERS_BURST 32u

/* What a station knows of its peers, which an attacker wants to change. */
static void remember(const struct air_node *n, struct uw_frames_peer *peers)
{
    memcpy(peers, n->frames.peers, n->frames.peers_n * sizeof *peers);
}

static void expect_remembered(const struct air_node *n, const struct uw_frames_peer *peers)
{
    assert_memory_equal(n->frames.peers, peers, n->frames.peers_n * sizeof *peers);
}

/* Send each frame of the tape with one bit changed, before the true one arrives. */
static void test_no_bit_of_any_frame_can_be_changed(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(1), MTU);
    struct uw_frames_peer peers[16];
    uint32_t frames = 0;
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    a->held = true;
    (void)air_say(a, 0, 1, 20);
    for (uint32_t k = 0; k < 8; k++) {
        (void)air_say(a, 0, 1, 20);
        (void)air_say(a, 1, 0, 20);
        (void)air_say(a, 1, ALL, 20);
        uint32_t end = a->tape_n;
        for (; frames < end; frames++) {
            const struct air_frame f = a->tape[frames];
            uint16_t to = f.to == ALL ? 1 - f.from : f.to;
            struct air_node *n = &a->node[to];
            remember(n, peers);
            uint32_t got_n = n->got_n;
            for (uint32_t bit = 0; bit < f.bytes * 8u; bit++) {
                f.data[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
                uint32_t forged = air_forge(a, f.from, to, f.data, f.bytes);
                f.data[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
                assert_int_equal(a->tape[forged].bytes, f.bytes);
                air_run(a, 10000);
                expect_remembered(n, peers);
            }
            for (uint32_t bytes = 0; bytes < f.bytes; bytes++) {
                (void)air_forge(a, f.from, to, f.data, bytes);
                air_run(a, 10000);
                expect_remembered(n, peers);
            }
            assert_int_equal(n->got_n, got_n);
            frames = frames < end ? frames : end;
            air_deliver(a, frames, to);
            air_run(a, 10000);
        }
        frames = a->tape_n;
    }
    air_free(a);
}

/* The same message again, for another station, for all, or from another. */
static void test_a_frame_is_for_its_receiver_from_its_sender(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(2), MTU);
    for (uint16_t i = 0; i < 4; i++) {
        air_up(a, i, NULL);
    }
    for (uint16_t i = 0; i < 12; i++) {
        (void)air_talk(a, i % 4u, (uint16_t)((i + 1u + i / 4u) % 4u), S);
    }
    a->held = true;
    uint32_t to_one = a->tape_n;
    assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
    assert_int_equal(air_say(a, 0, ALL, 20), UW_OK);
    uint32_t got_n[4];
    for (uint16_t i = 0; i < 4; i++) {
        got_n[i] = a->node[i].got_n;
    }
    for (uint32_t k = 0; k < 2; k++) {
        struct air_frame f = a->tape[to_one + k];
        for (uint16_t from = 0; from < 4; from++) {
            for (uint16_t to = 0; to < 4; to++) {
                bool as_meant = from == 0 && (k == 1 ? to != 0 : to == 1);
                if (!as_meant) {
                    (void)air_forge(a, from, to, f.data, f.bytes);
                }
                f.data[0] ^= UW_FRAMES_TO_ALL;
                (void)air_forge(a, from, to, f.data, f.bytes);
                f.data[0] ^= UW_FRAMES_TO_ALL;
                air_run(a, 10000);
            }
        }
    }
    for (uint16_t i = 0; i < 4; i++) {
        assert_int_equal(a->node[i].got_n, got_n[i]);
    }
    a->held = false;
    air_run(a, 5 * S);
    (void)air_talk(a, 0, 1, S);
    air_free(a);
}

/* ---- again ---- */

/* Everything that ever passed, once more, in order, quickly and slowly: the air fails the test when
 * a message arrives twice. Afterwards all talk as before. */
static void replay_all(struct air *a, uint16_t n)
{
    uint32_t end = a->tape_n;
    for (uint32_t i = 0; i < end; i++) {
        air_replay(a, i, i + 1u);
        if (i % 8u == 7u) {
            air_run(a, 10000);
        }
    }
    air_run(a, 10000);
    for (uint32_t i = end; i > 0; i--) {
        air_replay(a, i - 1u, i);
        air_run(a, i % 4u == 0 ? 10000 : 0);
    }
    air_run(a, 30 * S);
    for (uint16_t i = 0; i < n; i++) {
        (void)air_talk(a, i, (uint16_t)((i + 1u) % n), 20 * S);
    }
}

static void chat(struct air *a, uint16_t n)
{
    for (uint16_t k = 0; k < 3u * n; k++) {
        (void)air_talk(a, k % n, (uint16_t)((k + 1u + k / n % (n - 1u)) % n), 20 * S);
        (void)air_say(a, k % n, ALL, 20);
    }
}

static void test_nothing_arrives_twice_while_all_stay(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(3), MTU);
    for (uint16_t i = 0; i < 3; i++) {
        air_up(a, i, NULL);
    }
    chat(a, 3);
    replay_all(a, 3);
    air_run(a, 100 * S);
    replay_all(a, 3);
    for (uint16_t i = 0; i < 3; i++) {
        assert_int_equal(a->node[i].events[UW_SECURE_PEER_CLOSED], 0);
        assert_int_equal(a->node[i].frames.known_n, 2);
    }
    air_free(a);
}

static void test_nothing_arrives_twice_after_a_peer_was_forgotten(void **state)
{
    (void)state;
    for (uint64_t wait_us = 0; wait_us <= 12 * S; wait_us += 3 * S) {
        struct air *a = air_of_two(uw_test_seed(4), MTU);
        for (uint32_t i = 0; i < 5; i++) {
            chat(a, 2);
            uw_link_forget(&a->node[i % 2u].frames.link, (uint16_t)(1u - i % 2u));
            air_run(a, wait_us);
            replay_all(a, 2);
        }
        air_free(a);
    }
}

/* Tables so small that peers make room all the time. */
static void test_nothing_arrives_twice_where_tables_are_full(void **state)
{
    (void)state;
    const struct uw_secure_frames_config small = {.peers_n = 1};
    struct air *a = air_new(uw_test_seed(5), MTU);
    for (uint16_t i = 0; i < 3; i++) {
        air_up(a, i, &small);
    }
    for (uint32_t i = 0; i < 3; i++) {
        chat(a, 3);
        replay_all(a, 3);
    }
    air_free(a);
}

/* At once after a start, and later. Every other start is by the store. */
static void test_nothing_arrives_twice_after_a_restart(void **state)
{
    (void)state;
    for (uint64_t wait_us = 0; wait_us <= 10 * S; wait_us += 5 * S) {
        struct memory_storage store = {.base = {&memory_storage_ops}};
        const struct uw_secure_frames_config kept = {.store = &store.base, .reserve_n = 8};
        struct air *a = air_new(uw_test_seed(6), MTU);
        air_up(a, 0, NULL);
        air_up(a, 1, &kept);
        for (uint32_t i = 0; i < 4; i++) {
            chat(a, 2);
            air_down(a, 1);
            air_run(a, wait_us);
            air_up(a, 1, i % 2u == 0 ? &kept : NULL);
            replay_all(a, 2);
            if (i % 2u == 1) {
                air_down(a, 1);
                air_up(a, 1, &kept);
            }
        }
        memory_storage_release(&store);
        air_free(a);
    }
}

static void test_nothing_arrives_twice_after_epochs(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(7), MTU);
    for (uint32_t i = 0; i < 10; i++) {
        chat(a, 2);
        assert_int_equal(uw_secure_frames_rotate(&a->node[i % 2u].frames), UW_OK);
        if (i % 3u == 0) {
            replay_all(a, 2);
        }
    }
    air_free(a);
}

/* ---- names ---- */

static void test_own_frames_sent_back_do_nothing(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(8), MTU);
    struct air_node *n = &a->node[0];
    struct uw_frames_peer peers[16];
    remember(n, peers);
    uint32_t end = a->tape_n, got_n = n->got_n;
    uint64_t joins_n = n->frames.stats.joins_sent_n;
    for (uint16_t from = 0; from < 3; from++) {
        for (uint32_t i = 0; i < end; i++) {
            const struct air_frame f = a->tape[i];
            if (f.from == 0) {
                (void)air_forge(a, from, 0, f.data, f.bytes);
                air_run(a, 20000);
            }
        }
        uint64_t most_n = joins_n + 2u * from;      /* it does not ask itself */
        assert_true(n->frames.stats.joins_sent_n <= most_n);
    }
    assert_int_equal(n->got_n, got_n);
    assert_int_equal(n->frames.known_n, 1);
    assert_int_equal(n->frames.peers[0].id, peers[0].id);
    assert_null(strstr(n->text[UW_SECURE_WARNING], "identity"));
    air_free(a);
}

/* Two devices with a copy of one store: each nonce goes out twice, and it is told. */
static void test_a_copied_identity_is_told(void **state)
{
    (void)state;
    struct memory_storage stores[2] = {{.base = {&memory_storage_ops}},
                                       {.base = {&memory_storage_ops}}};
    struct air *a = air_new(uw_test_seed(9), MTU);
    const struct uw_secure_frames_config c = {.store = &stores[0].base, .id = 77,
                                             .first_start = true},
                                         copy = {.store = &stores[1].base, .id = 78,
                                                 .first_start = true};
    air_up(a, 0, &c);
    air_up(a, 1, &copy);
    a->node[1].frames.id = 77;
    a->node[1].frames.counter = 500;        /* so that the air does not mind */
    for (uint32_t i = 0; i < 30; i++) {
        (void)air_say(a, 1, ALL, 20);
        air_run(a, S / 2u);
    }
    assert_in_range(a->node[0].events[UW_SECURE_WARNING], 1, 2);
    assert_non_null(strstr(a->node[0].text[UW_SECURE_WARNING], "identity"));
    memory_storage_release(&stores[0]);
    memory_storage_release(&stores[1]);
    air_free(a);
}

/* Two devices with one address, a third with its own: each of the two tells it, at most once in
 * 10 s, and none takes the echo of its own frames for another's. */
static void test_an_address_given_twice_is_told_by_both(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        struct air *a = air_new(uw_test_seed(12) + k, MTU);
        bool late = k % 2u != 0;        /* it says no hello of itself any more */
        a->echo = k / 2u != 0;
        a->node[2].lower.own = late ? 2 : 0;
        for (uint16_t i = 0; i < (late ? 3 : 2); i++) {
            air_up(a, i, NULL);
        }
        (void)air_say(a, 0, ALL, 20);
        air_run(a, S);
        assert_int_equal(air_say(a, 0, ALL, 20), UW_OK);
        assert_int_equal(late ? air_say(a, 2, ALL, 20) : UW_OK, UW_OK);
        air_run(a, S);
        assert_int_equal(a->node[0].events[UW_SECURE_WARNING] +
                         a->node[0].events[UW_SECURE_PEER_REFUSED], 0);
        if (late) {
            a->node[2].lower.own = 0;
        } else {
            air_up(a, 2, NULL);
        }
        for (uint32_t i = 0; i < 30; i++) {
            (void)air_say(a, 0, ALL, 20);
            (void)air_say(a, 2, ALL, 20);
            air_run(a, S / 2u);
        }
        for (uint16_t i = 0; i < 3; i += 2) {
            const struct air_node *n = &a->node[i];
            assert_in_range(n->events[UW_SECURE_WARNING], 1, 2);
            assert_non_null(strstr(n->text[UW_SECURE_WARNING], "another device has this address"));
            assert_non_null(strstr(n->text[UW_SECURE_WARNING], ": 0"));
        }
        air_free(a);
    }
}

/* ---- storms ---- */

static void expect_rate(const struct air_node *n, uint64_t joins_n, uint64_t us)
{
    uint64_t most = ANSWERS_BURST + ANSWERS_PER_S * us / S + 1u;
    assert_true(n->frames.stats.joins_sent_n - joins_n <= most);
}

/* Frames of all kinds from all stations, a thousand a second, while two talk. */
static void test_a_storm_evicts_nobody_and_gets_few_answers(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(10), MTU);
    struct uw_rng rng;
    uw_rng_seed(&rng, a->seed);
    uint64_t began_us = a->now_us;
    uint64_t joins_n[2] = {a->node[0].frames.stats.joins_sent_n,
                           a->node[1].frames.stats.joins_sent_n};
    uint32_t got_n = a->node[1].got_n, sent = 0;
    for (uint32_t i = 0; i < 500; i++) {
        for (uint32_t k = 0; k < 20; k++) {
            uint8_t frame[60];
            for (uint32_t b = 0; b < sizeof frame; b++) {
                frame[b] = (uint8_t)uw_rng_u32(&rng);
            }
            frame[0] &= k % 2u == 0 ? 0x0f : 0xff;
            frame[1] = (uint8_t)(1u + k % 3u);
            uint32_t bytes = k % 4u == 0 ? 27 : k % 4u == 2 ? 41 : 12u + k;
            (void)air_forge(a, (uint16_t)uw_rng_below(&rng, 300), (uint16_t)(k % 2u), frame, bytes);
        }
        sent += air_say(a, 0, 1, 20) == UW_OK;
        air_run(a, 20000);
    }
    for (uint16_t i = 0; i < 2; i++) {
        const struct air_node *n = &a->node[i];
        assert_int_equal(n->frames.known_n, 1);
        assert_int_equal(n->events[UW_SECURE_PEER_CLOSED], 0);
        assert_in_range(n->events[UW_SECURE_PEER_REFUSED], 1, 2);
        expect_rate(n, joins_n[i], a->now_us - began_us);
    }
    assert_int_equal(sent, 500);
    assert_int_equal(a->node[1].got_n - got_n, 500);
    air_free(a);
}

/* Hellos of devices that were there once, again and again: answered at the stated rate; who is
 * known stays, who is not gets in when it is over. */
static void test_a_storm_of_old_hellos_is_answered_at_the_rate(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(11), MTU);
    uint32_t old[8], olds = 0;
    for (uint16_t i = 2; i < 10; i++) {
        uint32_t first = a->tape_n;
        air_up(a, i, NULL);
        assert_int_equal(air_say(a, i, ALL, 20), UW_ERR_AGAIN);
        old[olds++] = first;
        air_down(a, i);
    }
    air_run(a, 10 * S);
    uint64_t began_us = a->now_us;
    uint64_t joins_n = a->node[0].frames.stats.joins_sent_n;
    air_up(a, 20, NULL);
    for (uint32_t i = 0; i < 1000; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            air_replay(a, old[(i + k) % olds], old[(i + k) % olds] + 1u);
        }
        (void)air_say(a, 20, 0, 20);
        air_run(a, 10000);
    }
    expect_rate(&a->node[0], joins_n, a->now_us - began_us);
    (void)air_talk(a, 20, 0, 5 * S);
    assert_true(uw_secure_frames_knows(&a->node[20].frames, 0));
    assert_true(uw_secure_frames_knows(&a->node[0].frames, 20));
    assert_true(uw_secure_frames_knows(&a->node[0].frames, 1));
    air_free(a);
}

/* One hello again and again gets no second answer, whoever sent it. */
static void test_an_old_hello_gets_one_answer(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(12), MTU);
    uint32_t hello = a->tape_n;
    air_up(a, 2, NULL);
    a->held = true;
    assert_int_equal(air_say(a, 2, 0, 20), UW_ERR_AGAIN);
    a->held = false;
    air_down(a, 2);
    uint64_t joins_n = a->node[0].frames.stats.joins_sent_n;
    for (uint32_t i = 0; i < 1000; i++) {
        air_replay(a, hello, hello + 1u);
        air_run(a, 10000);
    }
    assert_int_equal(a->node[0].frames.stats.joins_sent_n - joins_n, 1);
    air_free(a);
}

/* Forged frames name all epochs: keys in use stay, others are derived at the stated rate. */
static void test_forged_epochs_cost_a_stated_number_of_keys(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(13), MTU);
    struct uw_secure_frames *s = &a->node[0].frames;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uw_secure_frames_rotate(&a->node[1].frames), UW_OK);
        (void)air_talk(a, 1, 0, S);
        (void)air_talk(a, 0, 1, S);
    }
    uint64_t began_us = a->now_us;
    uint32_t derived_n = 0, sent = 0, got_n = a->node[1].got_n;
    struct uw_frames_key *keys[2] = {s->keys[0], s->keys[1]};
    for (uint32_t i = 0; i < 2000; i++) {
        uint8_t frame[41] = {(uint8_t)(i & 7u), (uint8_t)(1u + i % 3u), (uint8_t)i,
                             (uint8_t)(i >> 8)};
        bool data = i % 2u == 0;
        frame[0] = data ? (uint8_t)(0x10u | ((s->epoch + i / 2u % 3u - 1u) & 7u)) : frame[0];
        uint32_t before = s->key_epochs[UW_FRAMES_OTHER_KEY];
        (void)air_forge(a, 1, 0, frame, frame[1] == 1 && !data ? 27 : 41);
        sent += i % 10u == 0 && air_say(a, 0, 1, 20) == UW_OK;
        air_run(a, 10000);
        derived_n += s->key_epochs[UW_FRAMES_OTHER_KEY] != before;
        assert_true(s->key_set[0] && s->key_set[1]);
        assert_ptr_equal(s->keys[0], keys[0]);
        assert_ptr_equal(s->keys[1], keys[1]);
        assert_int_equal(s->key_epochs[s->epoch & 1u], s->epoch);
        assert_int_equal(s->key_epochs[1u - (s->epoch & 1u)], s->epoch - 1u);
    }
    assert_int_equal(s->epoch, 3);
    assert_in_range(derived_n, 16, 16 + 16 * (a->now_us - began_us) / S + 1);
    assert_int_equal(sent, 200);
    assert_int_equal(a->node[1].got_n - got_n, sent);
    assert_int_equal(uw_secure_frames_rotate(&a->node[1].frames), UW_OK);
    (void)air_talk(a, 1, 0, S);
    assert_int_equal(s->epoch, 4);
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_bit_of_any_frame_can_be_changed),
        cmocka_unit_test(test_a_frame_is_for_its_receiver_from_its_sender),
        cmocka_unit_test(test_nothing_arrives_twice_while_all_stay),
        cmocka_unit_test(test_nothing_arrives_twice_after_a_peer_was_forgotten),
        cmocka_unit_test(test_nothing_arrives_twice_where_tables_are_full),
        cmocka_unit_test(test_nothing_arrives_twice_after_a_restart),
        cmocka_unit_test(test_nothing_arrives_twice_after_epochs),
        cmocka_unit_test(test_own_frames_sent_back_do_nothing),
        cmocka_unit_test(test_a_copied_identity_is_told),
        cmocka_unit_test(test_an_address_given_twice_is_told_by_both),
        cmocka_unit_test(test_a_storm_evicts_nobody_and_gets_few_answers),
        cmocka_unit_test(test_a_storm_of_old_hellos_is_answered_at_the_rate),
        cmocka_unit_test(test_an_old_hello_gets_one_answer),
        cmocka_unit_test(test_forged_epochs_cost_a_stated_number_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
