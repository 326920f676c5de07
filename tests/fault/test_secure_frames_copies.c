/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure frames where a name is not one device's: radios that hear themselves, an address that two
 * have, copied and rolled back stores. No nonce goes out twice but where a store was copied, and
 * nothing arrives twice. */
#include "fault/frames_air.h"

#include "faulty_flash.h"
#include "unit/memory_storage.h"

#include "uwasa/storage_flash.h"

#define MTU 116u
#define S 1000000u
#define ALL UW_LINK_STATION_BROADCAST
#define SECTOR_BYTES 256u

/* ---- who is who ---- */

static void test_a_radio_that_hears_itself_changes_nothing(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(9), MTU);
    a->echo = true;
    for (uint16_t i = 0; i < 3; i++) {
        air_up(a, i, NULL);
    }
    for (uint16_t k = 0; k < 60; k++) {
        (void)air_talk(a, k % 3u, (uint16_t)((k + 1u + k / 3u % 2u) % 3u), 5 * S);
        (void)air_say(a, k % 3u, ALL, 20);
        if (k % 20u == 9u) {
            (void)uw_secure_frames_rotate(&a->node[k / 20u].frames);
            uw_link_forget(&a->node[k / 20u].frames.link, (uint16_t)((k / 20u + 1u) % 3u));
        }
    }
    for (uint16_t i = 0; i < 3; i++) {
        const struct air_node *n = &a->node[i];
        assert_int_equal(n->frames.known_n, 2);
        assert_false(uw_secure_frames_knows(&n->frames, i));
        assert_int_equal(n->events[UW_SECURE_PEER_REFUSED] + n->events[UW_SECURE_WARNING], 0);
        assert_true(n->frames.stats.joins_sent_n < 20);
    }
    air_free(a);
}

/* Both and a third talk; joins stay at their rate, and each message arrives once or not at all. */
static void test_an_address_that_two_have_lets_nothing_arrive_twice(void **state)
{
    (void)state;
    struct air *a = air_new(uw_test_seed(10), MTU);
    for (uint16_t i = 0; i < 3; i++) {
        a->node[i].lower.own = i != 0;
        air_up(a, i, NULL);
    }
    uint64_t began_us = a->now_us;
    for (uint32_t k = 0; k < 1000; k++) {
        for (uint16_t i = 0; i < 3; i++) {
            uint16_t other = i == 0;
            (void)air_say(a, i, k % 5u == 0 ? ALL : other, 20);
        }
        air_run(a, 20000);
    }
    for (uint16_t i = 0; i < 3; i++) {
        const struct uw_secure_frames *s = &a->node[i].frames;
        assert_true(s->known_n <= 1);
        assert_true(s->stats.joins_sent_n <= 2u * (32u + 16u * (a->now_us - began_us) / S));
    }
    air_replay(a, 0, a->tape_n < 400u ? a->tape_n : 400u);
    air_run(a, 10 * S);
    air_down(a, 2);
    air_run(a, 10 * S);
    (void)air_talk(a, 0, 1, 30 * S);
    (void)air_talk(a, 1, 0, 30 * S);
    air_free(a);
}

/* ---- copies ---- */

struct copied {
    struct memory_storage store[2];
    struct air *air;
};

/* A device that has spoken stops; its store is copied, and both start, at stations 1 and 2. */
static void copy_device(struct copied *w, uint64_t seed, uint64_t id)
{
    struct uw_secure_frames_config c = {.store = &w->store[0].base, .id = id,
                                        .first_start = true, .reserve_n = 64};
    w->store[0] = w->store[1] = (struct memory_storage){.base = {&memory_storage_ops}};
    w->air = air_new(seed, MTU);
    air_up(w->air, 0, NULL);
    air_up(w->air, 1, &c);
    (void)air_talk(w->air, 1, 0, S);
    (void)air_talk(w->air, 0, 1, S);
    air_down(w->air, 1);
    struct memory_storage *to = &w->store[1];
    *to = w->store[0];
    to->bytes = malloc(to->bytes_n);
    assert_non_null(to->bytes);
    memcpy(to->bytes, w->store[0].bytes, to->bytes_n);
    c.first_start = false;
    w->air->copies = true;
    air_up(w->air, 1, &c);
    c.store = &w->store[1].base;
    air_up(w->air, 2, &c);
    assert_true(w->air->node[1].frames.id == w->air->node[2].frames.id);
}

static void release(struct copied *w)
{
    memory_storage_release(&w->store[0]);
    memory_storage_release(&w->store[1]);
    air_free(w->air);
}

/* Who hears the other takes an identity of its own, and keeps it; all talk then. */
static void test_copies_with_a_drawn_identity_part(void **state)
{
    (void)state;
    struct copied w;
    copy_device(&w, uw_test_seed(11), 0);
    struct air *a = w.air;
    uint64_t before = a->node[1].frames.id;
    for (uint32_t i = 0; i < 20; i++) {
        (void)air_say(a, 1, ALL, 20);
        (void)air_say(a, 2, ALL, 20);
        air_run(a, 100000);
    }
    uint64_t ids[2] = {a->node[1].frames.id, a->node[2].frames.id};
    assert_true(ids[0] != ids[1]);
    uint16_t other = ids[0] == before ? 2 : 1;
    assert_int_equal(a->node[other].events[UW_SECURE_WARNING], 1);
    assert_non_null(strstr(a->node[other].text[UW_SECURE_WARNING], "takes a new identity"));
    a->copies = false;              /* from here on no nonce goes out twice */
    for (uint16_t i = 0; i < 6; i++) {
        (void)air_talk(a, i % 3u, (uint16_t)((i + 1u + i / 3u) % 3u), 20 * S);
    }
    const struct uw_secure_frames_config c = {.store = &w.store[other - 1u].base, .reserve_n = 64};
    air_down(a, other);
    assert_true(air_up(a, other, &c)->frames.id == ids[other - 1u]);
    (void)air_talk(a, other, 0, 20 * S);
    release(&w);
}

/* With an identity that was given they go on, and nonces go out twice. They and the third say so;
 * nothing arrives twice. */
static void test_copies_with_a_given_identity_are_told_of(void **state)
{
    (void)state;
    struct copied w;
    copy_device(&w, uw_test_seed(12), 77);
    struct air *a = w.air;
    bool told[3] = {false};
    for (uint32_t i = 0; i < 800; i++) {
        for (uint16_t k = 0; k < 3; k++) {
            (void)air_say(a, k, i % 4u == 0 ? ALL : k == 0 ? 1u + i % 2u : 0, 20);
        }
        air_run(a, 50000);
        for (uint16_t k = 0; k < 3; k++) {
            told[k] |= strstr(a->node[k].text[UW_SECURE_WARNING], "identity") != NULL;
        }
    }
    assert_true(a->twice_n > 0);
    for (uint16_t k = 0; k < 3; k++) {
        assert_true(told[k]);
        assert_in_range(a->node[k].events[UW_SECURE_WARNING], 1, 6);
    }
    air_replay(a, 0, a->tape_n < 400u ? a->tape_n : 400u);
    air_run(a, S);
    release(&w);
}

/* A copy at the same station too: nobody can tell them apart, and each counter is heard once. */
static void test_a_copy_at_the_same_station_is_heard_once_a_counter(void **state)
{
    (void)state;
    struct copied w;
    copy_device(&w, uw_test_seed(13), 77);
    struct air *a = w.air;
    a->node[2].lower.own = a->node[2].frames.link.own = 1;
    uint32_t sent = 0, before = a->node[0].got_n;
    for (uint32_t i = 0; i < 200; i++) {
        sent += air_say(a, 1, 0, 20) == UW_OK;
        sent += air_say(a, 2, 0, 20) == UW_OK;
        air_run(a, 50000);
    }
    assert_true(sent > 0 && a->node[0].got_n - before <= sent - a->twice_n / 2u);
    release(&w);
}

/* ---- rolled back ---- */

/* One of the two sectors is what it was some lives ago, and power fails in the next life. */
static void roll_back(uint32_t cut, uint32_t sector, uint64_t seed, uint64_t id)
{
    static const struct uw_storage_flash_object objects[] = {
        {"counter", UW_SECURE_FRAMES_RECORD_BYTES}};
    struct faulty_flash flash;
    struct uw_storage_flash storage;
    uint8_t old[6][SECTOR_BYTES];
    struct air *a = air_new(seed, MTU);
    void *memory = malloc(faulty_flash_bytes(SECTOR_BYTES, 2, 8));
    assert_non_null(memory);
    faulty_flash_init(&flash, memory, SECTOR_BYTES, 2, 8, seed);
    struct uw_secure_frames_config c = {.store = &storage.base, .reserve_n = 5, .id = id,
                                        .first_start = id != 0};
    air_up(a, 1, NULL);
    for (uint32_t life = 0; life < 6; life++) {
        const struct uw_storage_flash_config f = {.flash = &flash.base, .objects = objects,
                                                  .objects_n = 1};
        faulty_flash_power(&flash, life % 2u == 1 ? cut : FAULTY_FLASH_NEVER);
        assert_int_equal(uw_storage_flash_init(&storage, &f), UW_OK);
        air_up(a, 0, &c);
        for (uint32_t i = 0; i < 20 && !flash.off; i++) {
            (void)air_say(a, 0, 1, 20);
            air_run(a, 50000);
        }
        c.first_start = c.first_start && a->node[0].frames.stats.saved_n == 0;
        air_down(a, 0);
        memcpy(old[life], flash.now + sector * SECTOR_BYTES, SECTOR_BYTES);
        if (life >= 2 && life % 2u == 0) {
            memcpy(flash.now + sector * SECTOR_BYTES, old[life - 1u - life / 4u], SECTOR_BYTES);
        }
    }
    free(memory);
    air_free(a);
}

static void test_no_nonce_twice_when_one_record_is_rolled_back(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(14);
    for (uint32_t cut = 0; cut < 60; cut++) {
        for (uint32_t sector = 0; sector < 2; sector++) {
            roll_back(cut, sector, seed + cut, cut % 2u == 0 ? 77 : 0);
        }
    }
}

/* All of the store is what it was: what the device said since is said to it again. It takes another
 * identity. */
static void test_a_store_put_back_is_noticed_by_what_was_said_since(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    const struct uw_secure_frames_config c = {.store = &store.base, .reserve_n = 64};
    struct air *a = air_new(uw_test_seed(15), MTU);
    uint8_t old[UW_SECURE_FRAMES_RECORD_BYTES];
    air_up(a, 0, NULL);
    air_up(a, 1, &c);
    (void)air_talk(a, 1, 0, S);
    memcpy(old, store.bytes, sizeof old);
    air_down(a, 1);
    air_up(a, 1, &c);
    uint32_t first = a->tape_n;
    (void)air_say(a, 1, ALL, 20);           /* a hello */
    air_run(a, 100000);
    air_down(a, 1);
    memcpy(store.bytes, old, sizeof old);
    struct air_node *n = air_up(a, 1, &c);
    uint64_t before = n->frames.id;
    air_deliver(a, first, 1);
    air_run(a, 100000);
    assert_true(n->frames.id != before);
    (void)air_talk(a, 1, 0, 20 * S);
    (void)air_talk(a, 0, 1, 20 * S);
    memory_storage_release(&store);
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_radio_that_hears_itself_changes_nothing),
        cmocka_unit_test(test_an_address_that_two_have_lets_nothing_arrive_twice),
        cmocka_unit_test(test_copies_with_a_drawn_identity_part),
        cmocka_unit_test(test_copies_with_a_given_identity_are_told_of),
        cmocka_unit_test(test_a_copy_at_the_same_station_is_heard_once_a_counter),
        cmocka_unit_test(test_no_nonce_twice_when_one_record_is_rolled_back),
        cmocka_unit_test(test_a_store_put_back_is_noticed_by_what_was_said_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
