/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure frames where numbers end: counters and epochs at their last value, the edges of the
 * window, answers to those who were there before. No nonce goes out twice, and nothing arrives
 * twice. */
#include "fault/frames_air.h"

#include "unit/memory_storage.h"

#include "secure/secure_frames_priv.h"

#include "uwasa/crc.h"

#define MTU 116u
#define S 1000000u
#define ALL UW_LINK_STATION_BROADCAST
#define END UW_FRAMES_COUNTER_END
#define COUNTER_AT 12u              /* in the record */
#define CRC_AT (UW_SECURE_FRAMES_RECORD_BYTES - 4u)

/* ---- counters ---- */

/* Both ways over the place where a counter needs another byte; joins and messages. */
static void test_counters_go_on_over_32_bits(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(1), MTU);
    for (uint16_t i = 0; i < 2; i++) {
        air_up(a, i, NULL)->frames.counter = ((uint64_t)1 << 32) - 40u;
    }
    (void)air_talk(a, 0, 1, S);
    (void)air_talk(a, 1, 0, S);
    uint32_t before = a->node[1].got_n;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        assert_int_equal(air_say(a, 1, ALL, 20), UW_OK);
        air_run(a, 10000);
    }
    assert_int_equal(a->node[1].got_n - before, 100);
    assert_true(a->node[0].frames.counter > (uint64_t)1 << 32);
    for (uint16_t i = 0; i < 2; i++) {
        uw_link_forget(&a->node[i].frames.link, 1u - i);
    }
    (void)air_talk(a, 1, 0, 5 * S);         /* joins with counters of 33 bits */
    (void)air_talk(a, 0, 1, 5 * S);
    air_free(a);
}

/* The last counter goes out and arrives; then there is none, which is told, once in a while. */
static void test_a_device_that_used_up_its_counters_is_silent_and_says_so(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(2), MTU);
    struct air_node *n = air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    n->frames.counter = END - 20u;
    (void)air_talk(a, 0, 1, S);
    uint32_t sent = 0, got_n = a->node[1].got_n;
    int rc = UW_OK;
    for (uint32_t i = 0; i < 100; i++) {
        rc = air_say(a, 0, 1, 20);
        sent += rc == UW_OK;
        (void)air_say(a, 1, 0, 20);
        if (i % 8u == 0 && rc == UW_OK) {   /* a new key does not bring counters back */
            (void)uw_secure_frames_rotate(&n->frames);
        }
        air_run(a, 100000);
    }
    assert_int_equal(rc, UW_ERR_CLOSED);
    assert_in_range(sent, 1, 19);
    assert_int_equal(a->node[1].got_n - got_n, sent);
    assert_true(n->frames.counter == END - 1u);
    assert_true(n->got_n > 90);             /* it still hears */
    assert_in_range(n->events[UW_SECURE_WARNING], 1, 2);
    assert_non_null(strstr(n->text[UW_SECURE_WARNING], "used up"));
    air_free(a);
}

static void put_record(struct memory_storage *store, uint64_t counter)
{
    uw_put_u32(store->bytes + COUNTER_AT, (uint32_t)counter);
    uw_put_u32(store->bytes + COUNTER_AT + 4u, (uint32_t)(counter >> 32));
    uw_put_u32(store->bytes + CRC_AT, uw_crc32c_portable(0, store->bytes, CRC_AT));
}

/* Who draws its identity draws another at the next start; who was given one cannot start. */
static void test_a_record_that_is_used_up_is_not_gone_on_from(void **state)
{
    (void)state;
    for (uint64_t id = 0; id < 2; id++) {
        struct memory_storage store = {.base = {&memory_storage_ops}};
        struct uw_secure_frames_config c = {.store = &store.base, .id = id, .reserve_n = 64,
                                            .first_start = true};
        struct air *a = air_new(uw_test_seed(3), MTU);
        struct air_node *n = air_up(a, 0, &c);
        air_up(a, 1, NULL);
        (void)air_talk(a, 0, 1, S);
        uint64_t before = n->frames.id;
        c.first_start = false;
        for (uint32_t i = 0; i < 3; i++) {
            static const uint64_t last[] = {END - 1u, END, END + 100u};
            air_down(a, 0);
            put_record(&store, last[i]);
            int rc = air_try(a, 0, &c);
            assert_int_equal(rc, id != 0 ? UW_ERR_CLOSED : UW_OK);
            if (rc < 0) {
                put_record(&store, 1000u * (i + 1u));
                rc = air_try(a, 0, &c);
                assert_int_equal(rc, UW_OK);
            } else {
                assert_true(n->frames.id != before);
            }
            before = n->frames.id;
            (void)air_talk(a, 0, 1, 10 * S);
            (void)air_talk(a, 1, 0, 10 * S);
        }
        air_down(a, 0);
        assert_true(air_up(a, 0, &c)->frames.id == before);     /* it was written down */
        memory_storage_release(&store);
        air_free(a);
    }
}

/* After the last epoch there is none: its key stays, counters go on, nobody goes to epoch 0. */
static void test_the_last_epoch_stays(void **state)
{
    (void)state;
    const struct uw_secure_frames_config c = {.epoch_frames = 10};
    struct air *a = air_new(uw_test_seed(4), MTU);
    air_up(a, 0, &c)->frames.epoch = UINT32_MAX - 2u;
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    (void)air_talk(a, 1, 0, S);
    uint32_t before = a->node[1].got_n;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        air_run(a, 10000);
    }
    assert_int_equal(a->node[1].got_n - before, 100);
    assert_int_equal(a->node[1].frames.epoch, UINT32_MAX);
    assert_int_equal(uw_secure_frames_rotate(&a->node[0].frames), UW_ERR_CLOSED);
    uint8_t frame[41] = {0x10};             /* of epoch 0 or 2^32, which there is not */
    (void)air_forge(a, 0, 1, frame, sizeof frame);
    air_up(a, 2, NULL);                     /* of epoch 0: it follows */
    (void)air_talk(a, 2, 0, 5 * S);
    (void)air_talk(a, 1, 2, 5 * S);
    for (uint16_t i = 0; i < 3; i++) {
        assert_int_equal(a->node[i].frames.epoch, UINT32_MAX);
    }
    air_replay(a, 0, a->tape_n);
    air_run(a, 5 * S);
    air_free(a);
}

/* ---- the window ---- */

/* A frame as far ahead as the low bits tell arrives; one further is asked about, then they do. */
static void test_a_jump_ahead_is_whole_up_to_its_edge(void **state)
{
    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        struct air *a = air_of_two(uw_test_seed(5), MTU);
        struct uw_frames_peer *p = &a->node[1].frames.peers[0];
        a->node[0].frames.counter += (uint64_t)1 << 30;
        (void)air_talk(a, 0, 1, 5 * S);     /* by a join */
        air_run(a, 10 * S);
        uint32_t before = a->node[1].got_n;
        uint64_t joins_n = a->node[1].frames.stats.joins_sent_n;
        a->node[0].frames.counter = p->top + (1u << 23) - 1u + over;
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        air_run(a, 10000);
        assert_int_equal(a->node[1].got_n - before, 1u - over);
        assert_int_equal(a->node[1].frames.stats.joins_sent_n - joins_n, over);
        air_run(a, S);
        assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        air_run(a, S);
        assert_int_equal(a->node[1].got_n - before, 2u - over);
        air_replay(a, 0, a->tape_n);
        air_run(a, S);
        air_free(a);
    }
}

/* Frames that are late by 60 to 68 others, first in order, then the other way round; each twice. */
static void test_the_window_ends_where_it_says(void **state)
{
    (void)state;
    struct air *a = air_of_two(uw_test_seed(6), MTU);
    struct air_node *n = &a->node[1];
    a->held = true;
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t first = a->tape_n;
        for (uint32_t i = 0; i < 69; i++) {
            assert_int_equal(air_say(a, 0, 1, 20), UW_OK);
        }
        air_deliver(a, first + 68u, 1);
        air_run(a, 10000);
        for (uint32_t i = 0; i < 9; i++) {
            uint32_t late = turn == 0 ? 60u + i : 68u - i, got_n = n->got_n;
            for (uint32_t again = 0; again < 2; again++) {
                uint64_t replayed_n = n->frames.stats.replayed_n;
                air_deliver(a, first + 68u - late, 1);
                air_run(a, 10000);
                bool in = late < 64u;
                assert_int_equal(n->got_n - got_n, in);
                assert_int_equal(n->frames.stats.replayed_n - replayed_n, !in || again);
            }
        }
    }
    air_free(a);
}

/* ---- after a change of everything ---- */

/* The receiver starts anew in an epoch that others left long ago; all that was said comes again. */
static void test_nothing_arrives_twice_after_epochs_and_a_restart(void **state)
{
    (void)state;
    for (uint32_t kept = 0; kept < 2; kept++) {
        struct memory_storage store = {.base = {&memory_storage_ops}};
        const struct uw_secure_frames_config c = {.store = kept ? &store.base : NULL,
                                                  .reserve_n = 8};
        struct air *a = air_new(uw_test_seed(7), MTU);
        air_up(a, 0, NULL);
        air_up(a, 1, &c);
        for (uint32_t epoch = 0; epoch < 10; epoch++) {
            (void)air_talk(a, 0, 1, 10 * S);
            (void)air_talk(a, 1, 0, 10 * S);
            assert_int_equal(uw_secure_frames_rotate(&a->node[epoch % 2u].frames), UW_OK);
            (void)air_say(a, epoch % 2u, ALL, 20);
            air_run(a, epoch % 3u * S);
        }
        air_run(a, 10000);
        uint32_t end = a->tape_n, got_n[2] = {a->node[0].got_n, 0};
        air_down(a, 1);
        got_n[1] = air_up(a, 1, &c)->got_n;
        for (uint32_t i = 0; i < end; i++) {
            air_replay(a, i, i + 1u);
            air_run(a, 10000);
        }
        assert_int_equal(a->node[0].got_n, got_n[0]);
        assert_int_equal(a->node[1].got_n, got_n[1]);
        (void)air_talk(a, 1, 0, 20 * S);
        (void)air_talk(a, 0, 1, 20 * S);
        memory_storage_release(&store);
        air_free(a);
    }
}

/* A welcome for another station, for who had this station before, and for this device before its
 * restart: none lets its sender in. */
static void test_a_welcome_is_for_who_asked(void **state)
{
    (void)state;
    for (uint32_t kept = 0; kept < 2; kept++) {
        struct memory_storage store = {.base = {&memory_storage_ops}};
        const struct uw_secure_frames_config c = {.store = kept ? &store.base : NULL,
                                                  .reserve_n = 8};
        struct air *a = air_new(uw_test_seed(8), MTU);
        air_up(a, 0, NULL);
        air_up(a, 2, &c);
        air_up(a, 3, NULL);
        a->held = true;
        uint32_t hello = a->tape_n;
        (void)air_say(a, 2, 0, 20);
        (void)air_say(a, 3, 0, 20);
        air_deliver(a, hello, 0);
        air_run(a, 10000);
        uint32_t welcome = a->tape_n - 1u;
        assert_true(a->tape[welcome].from == 0 && a->tape[welcome].to == 2);
        const struct air_frame f = a->tape[welcome];
        (void)air_forge(a, 0, 3, f.data, f.bytes);
        air_run(a, 10000);
        assert_int_equal(a->node[3].frames.stats.refused_n, 1);
        assert_int_equal(a->node[3].frames.known_n, 0);
        air_down(a, 2);
        air_up(a, 2, &c);
        (void)air_say(a, 2, 0, 20);
        air_deliver(a, welcome, 2);
        air_run(a, 10000);
        assert_int_equal(a->node[2].frames.stats.replayed_n, 1);
        assert_int_equal(a->node[2].frames.known_n, 0);
        a->held = false;
        (void)air_talk(a, 2, 0, 5 * S);
        memory_storage_release(&store);
        air_free(a);
    }
}

/* Where one takes shorter frames than the other sends, it says so, once. */
static void test_frames_that_are_too_long_are_told_once(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(8), MTU);
    struct air_node *n = &a->node[1];
    n->lower.mtu_bytes = UW_SECURE_FRAMES_LOWER_MIN;
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    assert_int_equal(n->events[UW_SECURE_WARNING], 0);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(air_say(a, 0, 1, UW_SECURE_FRAMES_LOWER_MIN), UW_OK);
        air_run(a, S);
    }
    assert_int_equal(n->events[UW_SECURE_WARNING], 1);
    assert_non_null(strstr(n->text[UW_SECURE_WARNING], "longer than this device's mtu"));
    assert_int_equal(n->frames.stats.refused_n, 30);
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_go_on_over_32_bits),
        cmocka_unit_test(test_a_device_that_used_up_its_counters_is_silent_and_says_so),
        cmocka_unit_test(test_a_record_that_is_used_up_is_not_gone_on_from),
        cmocka_unit_test(test_the_last_epoch_stays),
        cmocka_unit_test(test_a_jump_ahead_is_whole_up_to_its_edge),
        cmocka_unit_test(test_the_window_ends_where_it_says),
        cmocka_unit_test(test_nothing_arrives_twice_after_epochs_and_a_restart),
        cmocka_unit_test(test_a_welcome_is_for_who_asked),
        cmocka_unit_test(test_frames_that_are_too_long_are_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
