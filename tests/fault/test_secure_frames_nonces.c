/* SPDX-License-Identifier: Apache-2.0
 *
 * The counter's store while power fails at each of its writes, while it refuses them, when its
 * record is damaged: the air fails the test when a nonce goes out twice. */
#include "fault/frames_air.h"

#include "faulty_flash.h"
#include "unit/memory_storage.h"

#include "uwasa/storage_flash.h"

#define MTU 116u
#define S 1000000u
#define SECTOR_BYTES 256u
#define SECTORS 2u
#define RECORD_BYTES UW_SECURE_FRAMES_RECORD_BYTES
#define RESERVE 5u
#define ID 0x1122334455667788u

static const struct uw_storage_flash_object objects[] = {{"counter", RECORD_BYTES}};

struct flash_store {
    struct faulty_flash flash;
    void *memory;
    struct uw_storage_flash storage;
};

static void open_store(struct flash_store *f, uint32_t program_bytes, uint64_t seed)
{
    f->memory = malloc(faulty_flash_bytes(SECTOR_BYTES, SECTORS, program_bytes));
    assert_non_null(f->memory);
    faulty_flash_init(&f->flash, f->memory, SECTOR_BYTES, SECTORS, program_bytes, seed);
}

/* Power is back for `after` operations of the flash. */
static void power(struct flash_store *f, uint64_t after)
{
    const struct uw_storage_flash_config c = {.flash = &f->flash.base, .objects = objects,
                                              .objects_n = 1};
    faulty_flash_power(&f->flash, after);
    assert_int_equal(uw_storage_flash_init(&f->storage, &c), UW_OK);
}

/* Send and receive until power fails, at most `most` frames; half of it while epochs change. */
static void live(struct air *a, const struct flash_store *f, uint32_t most)
{
    for (uint32_t i = 0; i < most && !f->flash.off; i++) {
        (void)air_say(a, 0, 1, 20);
        (void)air_say(a, 1, 0, 20);
        if (i % 8u == 7u) {
            (void)uw_secure_frames_rotate(&a->node[i / 8u % 2u].frames);
        }
        air_run(a, 50000);
    }
}

static const uint32_t program_sizes[] = {1, 8, 32};

/* Power fails during operation `cut` of each of three lives, and of the fourth nothing. */
static void cut_lives(uint32_t program_bytes, uint32_t cut, uint64_t seed, uint64_t id)
{
    struct flash_store f;
    struct air *a = air_new(seed, MTU);
    open_store(&f, program_bytes, seed);
    struct uw_secure_frames_config c = {.store = &f.storage.base, .reserve_n = RESERVE, .id = id,
                                        .first_start = id != 0};
    air_up(a, 1, NULL);
    for (uint32_t life = 0; life < 4; life++) {
        power(&f, life < 3 ? cut + life * 3u : FAULTY_FLASH_NEVER);
        air_up(a, 0, &c);
        live(a, &f, life < 3 ? 60 : 10);
        c.first_start = c.first_start && a->node[0].frames.stats.saved_n == 0;
        if (life == 3) {
            (void)air_talk(a, 0, 1, 10 * S);
            (void)air_talk(a, 1, 0, 10 * S);
        }
        air_down(a, 0);
    }
    assert_int_equal(f.flash.misused_n, 0);
    assert_true(id == 0 || a->node[0].frames.id == id);
    free(f.memory);
    air_free(a);
}

static void test_no_nonce_twice_when_power_fails_at_any_write(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(1);
    for (size_t p = 0; p < sizeof program_sizes / sizeof program_sizes[0]; p++) {
        uint32_t last = program_sizes[p] == 1 ? 400 : 120;
        for (uint32_t cut = 0; cut < last; cut += program_sizes[p] == 1 ? 7 : 1) {
            cut_lives(program_sizes[p], cut, seed + cut, 0);
            cut_lives(program_sizes[p], cut, seed + cut, ID);
        }
    }
}

/* Power fails between frames, again and again, so soon that stretches are never used up. */
static void test_no_nonce_twice_over_many_starts(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    struct uw_secure_frames_config c = {.store = &store.base, .reserve_n = RESERVE, .id = ID,
                                        .first_start = true};
    struct air *a = air_new(uw_test_seed(2), MTU);
    struct uw_rng rng;
    uw_rng_seed(&rng, a->seed);
    air_up(a, 1, NULL);
    for (uint32_t life = 0; life < 300; life++) {
        air_up(a, 0, &c);
        for (uint32_t i = uw_rng_below(&rng, 12); i > 0; i--) {
            (void)air_say(a, 0, uw_rng_below(&rng, 2) == 0 ? 1 : UW_LINK_STATION_BROADCAST, 20);
            if (uw_rng_below(&rng, 4) == 0) {
                store.fail_in = 1 + (long)uw_rng_below(&rng, 6);
            }
            air_run(a, uw_rng_below(&rng, 2) == 0 ? 10000 : 2 * S);
        }
        c.first_start = c.first_start && a->node[0].frames.stats.saved_n == 0;
        store.fail_in = 0;
        air_down(a, 0);
    }
    assert_true(a->nonces_n > 500);
    memory_storage_release(&store);
    air_free(a);
}

/* ---- a store that fails ---- */

struct bad_store {
    struct memory_storage memory;
    bool bad;
    uint32_t tried_n;
};

static int bad_begin(struct uw_storage *s, const char *object)
{
    struct bad_store *b = (struct bad_store *)s;
    b->tried_n++;
    return b->bad ? UW_ERR_IO : memory_begin(s, object);
}

static void test_a_store_that_fails_ends_the_sending_until_it_works(void **state)
{
    (void)state;
    const struct uw_storage_ops ops = {
        .name = "bad", .size = memory_size, .read = memory_read, .begin = bad_begin,
        .append = memory_append, .end = memory_end};
    struct bad_store store = {.memory = {.base = {&ops}}};
    const struct uw_secure_frames_config c = {.store = &store.memory.base, .reserve_n = 20};
    struct air *a = air_new(uw_test_seed(3), MTU);
    struct air_node *n = air_up(a, 0, &c);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    store.bad = true;
    uint32_t sent = 0, tried_n = store.tried_n;
    int rc = UW_OK;
    for (uint32_t i = 0; i < 600; i++) {
        rc = air_say(a, 0, 1, 20);
        sent += rc == UW_OK;
        (void)air_say(a, 1, 0, 20);
        air_run(a, 100000);
    }
    assert_int_equal(rc, UW_ERR_IO);
    assert_in_range(sent, 5, 20);
    assert_in_range(store.tried_n - tried_n, 30, 62);   /* in a minute: seldom */
    assert_true(n->got_n > 500);                        /* it still hears */
    store.bad = false;
    (void)air_talk(a, 0, 1, 2 * S);
    memory_storage_release(&store.memory);
    air_free(a);
}

/* ---- a damaged record ---- */

static void test_a_damaged_record_stops_who_must_keep_its_identity(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    struct uw_secure_frames_config c = {.store = &store.base, .id = ID};
    struct air *a = air_new(uw_test_seed(4), MTU);
    assert_int_equal(air_try(a, 0, &c), UW_ERR_CORRUPT);    /* nothing there, not its first start */
    c.first_start = true;
    air_up(a, 0, &c);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    air_down(a, 0);
    c.first_start = false;
    for (size_t bit = 0; bit < store.bytes_n * 8u; bit++) {
        store.bytes[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        assert_int_equal(air_try(a, 0, &c), UW_ERR_CORRUPT);
        store.bytes[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
    }
    assert_true(air_up(a, 0, &c)->frames.counter > 0);
    air_down(a, 0);
    store.bytes_n--;
    assert_int_equal(air_try(a, 0, &c), UW_ERR_CORRUPT);
    store.bytes_n++;
    c.id = 0;
    assert_true(air_up(a, 0, &c)->frames.id == ID);
    air_down(a, 0);
    store.bytes[5] ^= 1u;
    assert_true(air_up(a, 0, &c)->frames.id != ID);         /* drawn */
    air_down(a, 0);
    c.id = ID;
    assert_int_equal(air_try(a, 0, &c), UW_ERR_CORRUPT);    /* the record is another's */
    memory_storage_release(&store);
    air_free(a);
}

/* A record that flash has lost is not there: a start with the same identity would begin at 0. */
static void test_a_record_that_flash_lost_stops_it_too(void **state)
{
    (void)state;
    struct flash_store f;
    struct air *a = air_new(uw_test_seed(5), MTU);
    open_store(&f, 8, a->seed);
    power(&f, FAULTY_FLASH_NEVER);
    struct uw_secure_frames_config c = {.store = &f.storage.base, .id = ID, .first_start = true};
    air_up(a, 0, &c);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, S);
    air_down(a, 0);
    for (uint32_t i = 0; i < SECTORS * SECTOR_BYTES; i++) {
        f.flash.now[i] ^= 0x10;
    }
    power(&f, FAULTY_FLASH_NEVER);
    c.first_start = false;
    assert_int_equal(air_try(a, 0, &c), UW_ERR_CORRUPT);
    c.id = 0;
    air_up(a, 0, &c);
    (void)air_talk(a, 0, 1, 10 * S);
    free(f.memory);
    air_free(a);
}

/* Flash loses one of the two sectors, each in turn, after a life that power ended in the middle of
 * a write or that ended by itself. What is left holds no counter that was used since. */
static void lose_a_sector(uint32_t cut, uint32_t sector, uint64_t seed, uint64_t id)
{
    struct flash_store f;
    struct air *a = air_new(seed, MTU);
    open_store(&f, 8, seed);
    struct uw_secure_frames_config c = {.store = &f.storage.base, .reserve_n = RESERVE, .id = id,
                                        .first_start = id != 0};
    air_up(a, 1, NULL);
    for (uint32_t life = 0; life < 4; life++) {
        power(&f, life % 2u == 0 ? cut : FAULTY_FLASH_NEVER);
        int rc = air_try(a, 0, &c);
        if (rc == UW_ERR_CORRUPT) {
            break;                  /* both are gone: it goes on with another identity only */
        }
        assert_int_equal(rc, UW_OK);
        live(a, &f, 12u + life);
        c.first_start = c.first_start && a->node[0].frames.stats.saved_n == 0;
        air_down(a, 0);
        for (uint32_t i = 0; i < SECTOR_BYTES; i += 3u) {
            f.flash.now[sector * SECTOR_BYTES + i] ^= 0x10;
        }
        sector ^= life % 2u;
    }
    free(f.memory);
    air_free(a);
}

static void test_no_nonce_twice_when_flash_loses_a_sector(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(6);
    for (uint32_t cut = 0; cut < 120; cut++) {
        for (uint32_t sector = 0; sector < SECTORS; sector++) {
            lose_a_sector(cut, sector, seed + cut, 0);
            lose_a_sector(cut, sector, seed + cut, ID);
        }
    }
    for (uint32_t sector = 0; sector < SECTORS; sector++) {
        lose_a_sector(100000, sector, seed, ID);    /* power never fails */
    }
}

static int no_entropy(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    (void)out;
    (void)bytes;
    return -1;
}

static void test_what_cannot_start_says_so(void **state)
{
    (void)state;
    struct memory_storage store = {.base = {&memory_storage_ops}};
    struct air *a = air_new(uw_test_seed(7), MTU);
    struct uw_secure_frames_config c = {.entropy = no_entropy};
    assert_int_equal(air_try(a, 0, &c), UW_ERR_IO);
    c = (struct uw_secure_frames_config){.lower = &a->node[0].lower, .run = ""};
    assert_true(uw_secure_frames_bytes(&c) == SIZE_MAX);
    c.run = "air";
    c.id = ID;
    assert_true(uw_secure_frames_bytes(&c) == SIZE_MAX);    /* no store */
    c.id = 0;
    assert_true(uw_secure_frames_bytes(&c) < 4096);
    a->node[0].lower.mtu_bytes = UW_SECURE_FRAMES_LOWER_MIN - 1u;
    assert_true(uw_secure_frames_bytes(&c) == SIZE_MAX);
    a->node[0].lower.mtu_bytes = MTU;
    a->node[0].lower.numbered = false;
    assert_true(uw_secure_frames_bytes(&c) == SIZE_MAX);
    memory_storage_release(&store);
    air_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_nonce_twice_when_power_fails_at_any_write),
        cmocka_unit_test(test_no_nonce_twice_over_many_starts),
        cmocka_unit_test(test_a_store_that_fails_ends_the_sending_until_it_works),
        cmocka_unit_test(test_a_damaged_record_stops_who_must_keep_its_identity),
        cmocka_unit_test(test_a_record_that_flash_lost_stops_it_too),
        cmocka_unit_test(test_no_nonce_twice_when_flash_loses_a_sector),
        cmocka_unit_test(test_what_cannot_start_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
