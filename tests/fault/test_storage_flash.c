/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in flash whose power fails at every operation of a script, whose bits flip and whose
 * sectors are bad: a reader finds the old object or the new one, whole. */
#include "test_support.h"

#include "faulty_flash.h"
#include "unit/model_fixture.h"

#include "uwasa/checkpoint.h"
#include "uwasa/storage_flash.h"

#define SECTOR_BYTES 256u
#define SECTORS 8u
#define BYTES_MAX 300u
#define READS 12        /* of what may read otherwise each time */

static const struct uw_storage_flash_object objects[] = {{"model", BYTES_MAX}, {"settings", 40}};

struct bench {
    struct faulty_flash flash;
    void *memory;
    struct uw_storage_flash storage;
    uint32_t kept[2];           /* version that is there for sure, 0: none */
    uint32_t perhaps[2];        /* or this one, where power failed during its commit */
};

static void restart(struct bench *b)
{
    struct uw_storage_flash_config config = {.flash = &b->flash.base, .objects = objects,
                                             .objects_n = 2};
    assert_int_equal(uw_storage_flash_init(&b->storage, &config), UW_OK);
}

static void open_bench(struct bench *b, uint32_t program_bytes, uint64_t seed)
{
    *b = (struct bench){.memory = malloc(faulty_flash_bytes(SECTOR_BYTES, SECTORS,
                                                            program_bytes))};
    assert_non_null(b->memory);
    faulty_flash_init(&b->flash, b->memory, SECTOR_BYTES, SECTORS, program_bytes, seed);
    restart(b);
}

static void close_bench(struct bench *b)
{
    assert_int_equal(b->flash.misused_n, 0);
    free(b->memory);
}

/* Version v of an object; each has a size of its own. */
static uint32_t content(uint32_t object, uint32_t v, uint8_t out[BYTES_MAX])
{
    uint32_t bytes = object == 0 ? 97u + v * 61u % 204u : v * 7u % 41u;
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(v * 29u + i * 13u + (i >> 5) + object);
    }
    return bytes;
}

/* Write a version, in pieces of odd sizes. *ending: the commit had begun. */
static int put(struct bench *b, uint32_t object, uint32_t v, bool commit, bool *ending)
{
    struct uw_storage *s = &b->storage.base;
    uint8_t data[BYTES_MAX];
    uint32_t bytes = content(object, v, data);
    *ending = false;
    int rc = s->ops->begin(s, objects[object].name);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t at = 0, n = 1; at < bytes && rc == UW_OK; at += n, n = n * 3u % 64u + 1u) {
        n = bytes - at < n ? bytes - at : n;
        rc = s->ops->append(s, data + at, n);
    }
    *ending = rc == UW_OK && commit;
    int ended = s->ops->end(s, *ending);
    return rc == UW_OK ? ended : rc;
}

/* Which version is there, 0: none; anything else fails. */
static uint32_t version_of(struct bench *b, uint32_t object)
{
    struct uw_storage *s = &b->storage.base;
    uint8_t want[BYTES_MAX], got[BYTES_MAX];
    uint64_t bytes = UINT64_MAX;
    int rc = s->ops->size(s, objects[object].name, &bytes);
    if (rc == UW_ERR_NOTFOUND) {
        return 0;
    }
    assert_int_equal(rc, UW_OK);
    assert_true(bytes <= BYTES_MAX);
    for (uint32_t at = 0; at < bytes; at += 50) {
        uint32_t n = bytes - at < 50 ? (uint32_t)bytes - at : 50;
        assert_int_equal(s->ops->read(s, objects[object].name, at, got + at, n), UW_OK);
    }
    for (uint32_t v = 1; v < 30; v++) {
        if (content(object, v, want) == bytes && memcmp(want, got, (size_t)bytes) == 0) {
            return v;
        }
    }
    fail_msg("%s holds %u bytes that were never written", objects[object].name, (unsigned)bytes);
    return 0;
}

static void expect_kept(struct bench *b)
{
    for (uint32_t object = 0; object < 2; object++) {
        for (int again = 0; again < READS; again++) {
            uint32_t v = version_of(b, object);
            assert_true(v == b->kept[object] || (v == b->perhaps[object] && v != 0));
        }
    }
}

struct line {
    uint32_t object, version;
    bool commit;
};

static const struct line script[] = {
    {0, 1, true}, {1, 2, true}, {0, 3, true},  {0, 4, false},
    {1, 5, true}, {0, 6, true}, {1, 7, false}, {0, 8, true},
};

/* Run a script until power fails. Returns whether it came to the end. */
static bool run_script(struct bench *b, const struct line *lines, size_t lines_n)
{
    bool ending;
    for (size_t i = 0; i < lines_n; i++) {
        const struct line *l = &lines[i];
        int rc = put(b, l->object, l->version, l->commit, &ending);
        if (b->flash.off) {
            assert_int_equal(rc, UW_ERR_IO);
            b->perhaps[l->object] = ending ? l->version : 0;
            return false;
        }
        assert_int_equal(rc, UW_OK);
        if (l->commit) {
            b->kept[l->object] = l->version;
        }
    }
    return true;
}

static const uint32_t program_sizes[] = {1, 4, 8, 16, 32};

static void test_flash_power_cut_at_every_operation_leaves_old_or_new(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(1);
    for (size_t p = 0; p < sizeof program_sizes / sizeof program_sizes[0]; p++) {
        bool done = false;
        for (uint32_t cut = 0; !done; cut++) {
            struct bench b;
            bool ending;
            open_bench(&b, program_sizes[p], seed + cut);
            faulty_flash_power(&b.flash, cut);
            done = run_script(&b, script, sizeof script / sizeof script[0]);
            assert_true(done || b.flash.operations_n == cut + 1u);
            faulty_flash_power(&b.flash, FAULTY_FLASH_NEVER);
            restart(&b);
            expect_kept(&b);
            for (uint32_t object = 0; object < 2; object++) {
                assert_int_equal(put(&b, object, 20 + object, true, &ending), UW_OK);
                b.kept[object] = 20 + object;
                b.perhaps[object] = 0;
            }
            expect_kept(&b);
            close_bench(&b);
        }
    }
}

/* The first cut leaves a unit that reads otherwise each time; whatever the next write took it for,
 * cutting that one as well loses nothing. */
static void test_flash_second_power_cut_during_recovery_leaves_something_whole(void **state)
{
    (void)state;
    static const struct line before[] = {{0, 1, true}, {0, 3, true}};
    static const struct line torn[] = {{0, 6, true}};
    static const struct line after[] = {{0, 9, true}};
    uint64_t seed = uw_test_seed(2);
    for (uint32_t program_bytes = 8; program_bytes <= 32; program_bytes *= 4) {
        bool first_done = false, second_done;
        for (uint32_t first = 0; !first_done; first++) {
            second_done = false;
            for (uint32_t second = 0; !second_done; second++) {
                struct bench b;
                open_bench(&b, program_bytes, seed + first * 1000u + second);
                b.flash.steady_sectors = true;
                assert_true(run_script(&b, before, 2));
                faulty_flash_power(&b.flash, first);
                first_done = run_script(&b, torn, 1);
                faulty_flash_power(&b.flash, second);
                restart(&b);
                uint32_t perhaps = b.perhaps[0];
                second_done = run_script(&b, after, 1);
                faulty_flash_power(&b.flash, FAULTY_FLASH_NEVER);
                restart(&b);
                for (int again = 0; again < READS; again++) {
                    uint32_t v = version_of(&b, 0);
                    assert_true(v == b.kept[0] || (v != 0 && v == b.perhaps[0]) ||
                                (v != 0 && v == perhaps && !second_done));
                }
                close_bench(&b);
            }
        }
    }
}

/* One cut after the other: what may be found is what was finished last and what was begun since. */
static void test_flash_many_power_cuts_in_a_row_lose_nothing(void **state)
{
    (void)state;
    struct uw_rng rng;
    struct bench b;
    bool ending, may[30] = {false};
    uw_rng_seed(&rng, uw_test_seed(9));
    open_bench(&b, 32, 9);
    b.flash.steady_sectors = true;
    assert_int_equal(put(&b, 1, 1, true, &ending), UW_OK);
    may[1] = true;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t v = 2u + i % 28u;
        faulty_flash_power(&b.flash, uw_rng_below(&rng, 8));
        restart(&b);
        int rc = put(&b, 1, v, true, &ending);
        if (rc == UW_OK) {
            memset(may, 0, sizeof may);
        }
        may[v] = may[v] || ending;
        faulty_flash_power(&b.flash, FAULTY_FLASH_NEVER);
        restart(&b);
        for (int again = 0; again < 4; again++) {
            uint32_t found = version_of(&b, 1);
            assert_true(found != 0 && may[found]);
        }
    }
    close_bench(&b);
}

static void test_flash_bit_flips_are_noticed(void **state)
{
    (void)state;
    struct bench b;
    bool ending;
    open_bench(&b, 8, 3);
    assert_int_equal(put(&b, 1, 2, true, &ending), UW_OK);
    assert_int_equal(put(&b, 1, 5, true, &ending), UW_OK);
    uint32_t slot = 4u * SECTOR_BYTES; /* of "settings", behind the model's two of two sectors */
    for (uint32_t which = 0; which < 2; which++, slot += SECTOR_BYTES) {
        uint32_t lost = 0;
        for (uint32_t bit = 0; bit < 8u * 128u; bit++) {
            b.flash.now[slot + bit / 8u] ^= (uint8_t)(1u << bit % 8u);
            uint32_t v = version_of(&b, 1);
            lost += v == 2;
            assert_true(v == 5 || (which == 1 && v == 2));
            b.flash.now[slot + bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        }
        /* The header's two copies must be alike: otherwise the other object, whose are, goes
         * before. Flips behind the data do nothing. */
        assert_int_equal(lost, which == 0 ? 0 : 8 * (64 + 35));
    }
    close_bench(&b);
}

static void test_flash_blank_is_what_was_never_written(void **state)
{
    (void)state;
    struct bench b;
    bool ending;
    open_bench(&b, 8, 4);
    uint32_t bytes = SECTOR_BYTES * SECTORS;
    memset(b.flash.now, 0xff, bytes);
    assert_true(uw_storage_flash_blank(&b.storage, 1));
    memset(b.flash.now, 0, bytes);          /* memory that keeps what it holds over a reset */
    assert_true(uw_storage_flash_blank(&b.storage, 1));
    memset(b.flash.now + 4u * SECTOR_BYTES, 0xff, SECTOR_BYTES);   /* erased, and no more */
    assert_true(uw_storage_flash_blank(&b.storage, 1));
    b.flash.now[4u * SECTOR_BYTES] = 1;
    assert_false(uw_storage_flash_blank(&b.storage, 1));
    assert_true(uw_storage_flash_blank(&b.storage, 0));
    memset(b.flash.now, 0xff, bytes);
    assert_int_equal(put(&b, 1, 2, true, &ending), UW_OK);
    assert_false(uw_storage_flash_blank(&b.storage, 1));
    close_bench(&b);
}

static void test_flash_bad_sector_is_an_error_and_the_old_object_stays(void **state)
{
    (void)state;
    for (uint32_t sector = 0; sector < 4; sector++) {
        for (int kind = 0; kind < 3; kind++) {
            struct bench b;
            bool ending;
            open_bench(&b, 16, 4);
            assert_int_equal(put(&b, 0, 3, true, &ending), UW_OK);
            assert_int_equal(put(&b, 0, 1, true, &ending), UW_OK);
            b.flash.bad_sector = sector;
            b.flash.bad_erase = kind == 0;
            b.flash.bad_program = kind == 1;
            b.flash.bad_silently = kind == 2;
            int rc = put(&b, 0, 6, true, &ending);
            assert_int_equal(rc, sector < 2 ? UW_ERR_IO : UW_OK);
            assert_int_equal(version_of(&b, 0), sector < 2 ? 1 : 6);
            b.flash.bad_sector = UINT32_MAX;
            assert_int_equal(put(&b, 0, 8, true, &ending), UW_OK);
            assert_int_equal(version_of(&b, 0), 8);
            close_bench(&b);
        }
    }
}

/* An operation that says it failed though it did not: also the last one, of the header. */
static void test_flash_failure_at_every_operation_keeps_the_old_object(void **state)
{
    (void)state;
    int rc = UW_ERR_IO;
    for (uint32_t at = 0; rc != UW_OK; at++) {
        struct bench b;
        bool ending;
        open_bench(&b, 8, 5);
        assert_int_equal(put(&b, 0, 1, true, &ending), UW_OK);
        b.flash.fail_at = b.flash.operations_n + at;
        rc = put(&b, 0, 3, true, &ending);
        assert_int_equal(rc, b.flash.operations_n > b.flash.fail_at ? UW_ERR_IO : UW_OK);
        assert_int_equal(version_of(&b, 0), rc == UW_OK ? 3 : 1);
        b.flash.fail_at = FAULTY_FLASH_NEVER;
        assert_int_equal(put(&b, 0, 6, true, &ending), UW_OK);
        assert_int_equal(version_of(&b, 0), 6);
        close_bench(&b);
    }
}

static void test_flash_too_large_object_is_full_and_the_old_one_stays(void **state)
{
    (void)state;
    struct bench b;
    bool ending;
    uint8_t data[BYTES_MAX + 1] = {0};
    struct uw_storage *s = &b.storage.base;
    open_bench(&b, 8, 6);
    assert_int_equal(put(&b, 0, 1, true, &ending), UW_OK);
    assert_int_equal(s->ops->begin(s, "model"), UW_OK);
    assert_int_equal(s->ops->append(s, data, BYTES_MAX + 1u), UW_ERR_FULL);
    assert_int_equal(s->ops->append(s, data, 1), UW_ERR_FULL); /* it stays so */
    assert_int_equal(s->ops->end(s, 1), UW_ERR_FULL);
    assert_int_equal(s->ops->begin(s, "model"), UW_OK);
    assert_int_equal(s->ops->append(s, data, BYTES_MAX), UW_OK);
    assert_int_equal(s->ops->append(s, data, 1), UW_ERR_FULL);
    assert_int_equal(s->ops->end(s, 0), UW_OK);
    assert_int_equal(version_of(&b, 0), 1);
    assert_int_equal(s->ops->begin(s, "model"), UW_OK);
    assert_int_equal(s->ops->append(s, data, BYTES_MAX), UW_OK);
    assert_int_equal(s->ops->end(s, 1), UW_OK);
    close_bench(&b);
}

static void test_flash_other_layout_finds_whole_objects_or_none(void **state)
{
    (void)state;
    for (uint32_t bytes_max = 20; bytes_max < 700; bytes_max += 40) {
        struct bench b;
        bool ending;
        uint64_t bytes;
        const struct uw_storage_flash_object other[] = {{"model", bytes_max}, {"labels", 30}};
        struct uw_storage_flash_config config = {.flash = &b.flash.base, .objects = other,
                                                 .objects_n = 2};
        open_bench(&b, 8, 7);
        for (uint32_t v = 1; v < 4; v++) {
            assert_int_equal(put(&b, 0, v, true, &ending), UW_OK);
            assert_int_equal(put(&b, 1, v, true, &ending), UW_OK);
        }
        struct uw_storage *s = &b.storage.base;
        if (uw_storage_flash_sectors(&config) > SECTORS) {
            assert_int_equal(uw_storage_flash_init(&b.storage, &config), UW_ERR_FULL);
        } else {
            assert_int_equal(uw_storage_flash_init(&b.storage, &config), UW_OK);
            assert_int_equal(s->ops->size(s, "labels", &bytes), UW_ERR_NOTFOUND);
            assert_int_equal(s->ops->begin(s, "settings"), UW_ERR_NOTFOUND);
            uint32_t v = version_of(&b, 0);
            assert_true(v == 0 || v == 3 || v == 2);
            assert_true(bytes_max < 280 || v != 0);
            assert_int_equal(s->ops->begin(s, "labels"), UW_OK);
            assert_int_equal(s->ops->append(s, "x", 1), UW_OK);
            assert_int_equal(s->ops->end(s, 1), UW_OK);
            assert_int_equal(version_of(&b, 0), v);
        }
        close_bench(&b);
    }
}

/* A checkpoint whose saving is cut at any point: training goes on from it or the one before. */
static void test_flash_checkpoint_survives_a_cut_of_the_next(void **state)
{
    (void)state;
    static const struct uw_layer_def layers[] = {DENSE("a", 6), RELU("r"), DENSE("b", 3)};
    static const struct uw_model_def def = {"small", 5, 0, 0, layers, 3};
    static const struct uw_storage_flash_object kept[] = {{"model", 3000}};
    bool done = false, old = false;
    for (uint32_t cut = 0; !done; cut++) {
        struct fixture f;
        struct uw_checkpoint c = {.step = 1};
        struct faulty_flash flash;
        struct uw_storage_flash s;
        void *memory = malloc(faulty_flash_bytes(1024, 8, 32));
        struct uw_storage_flash_config config = {.flash = &flash.base, .objects = kept,
                                                 .objects_n = 1};
        faulty_flash_init(&flash, memory, 1024, 8, 32, cut);
        assert_int_equal(uw_storage_flash_init(&s, &config), UW_OK);
        assert_int_equal(open_model(&f, &def, 2, UW_PLAN_FULL, true), UW_OK);
        uw_model_init_weights(&f.m, 1);
        assert_int_equal(uw_checkpoint_save(&f.m, &c, &s.base, "model", &f.err), UW_OK);

        uw_model_init_weights(&f.m, 2);
        c.step = 2;
        faulty_flash_power(&flash, cut);
        int rc = uw_checkpoint_save(&f.m, &c, &s.base, "model", &f.err);
        done = rc == UW_OK;
        assert_true(done || rc == UW_ERR_IO);

        faulty_flash_power(&flash, FAULTY_FLASH_NEVER);
        assert_int_equal(uw_storage_flash_init(&s, &config), UW_OK);
        memset(f.m.params.x, 0, f.m.params.size_n * sizeof(float));
        if (uw_checkpoint_load(&f.m, &c, &s.base, "model", &f.err) != UW_OK) {
            fail_msg("%s", f.err.text);
        }
        old = old || c.step == 1;
        assert_true(c.step == 2 || (c.step == 1 && !done));
        float first = f.m.params.x[0];
        uw_model_init_weights(&f.m, c.step);
        assert_true(f.m.params.x[0] == first);
        assert_int_equal(flash.misused_n, 0);
        close_model(&f);
        free(memory);
    }
    assert_true(old);
}

static void test_flash_configuration_is_checked(void **state)
{
    (void)state;
    struct bench b;
    struct uw_storage_flash s;
    open_bench(&b, 8, 8);
    static const struct uw_storage_flash_object wrong[][2] = {
        {{"", 10}, {"b", 10}}, {{"a", 10}, {"a", 10}}, {{"a", 10}, {"b", 0}},
        {{"a", 10}, {NULL, 10}}, {{"a", UINT32_MAX}, {"b", UINT32_MAX}},
    };
    struct uw_storage_flash_config config = {.flash = &b.flash.base, .objects_n = 2};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        config.objects = wrong[i];
        assert_int_equal(uw_storage_flash_init(&s, &config), UW_ERR_INVALID);
    }
    config.objects = objects;
    assert_int_equal(uw_storage_flash_sectors(&config), 6);
    const uint32_t units[] = {0, 3, 12, 64};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        b.flash.base.program_bytes = units[i];
        assert_int_equal(uw_storage_flash_init(&s, &config), UW_ERR_INVALID);
    }
    b.flash.base.program_bytes = 8;
    b.flash.base.sectors_n = 5;
    assert_int_equal(uw_storage_flash_init(&s, &config), UW_ERR_FULL);
    b.flash.base.sectors_n = 6;
    assert_int_equal(uw_storage_flash_init(&s, &config), UW_OK);
    config.objects_n = 0;
    assert_int_equal(uw_storage_flash_init(&s, &config), UW_ERR_INVALID);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_power_cut_at_every_operation_leaves_old_or_new),
        cmocka_unit_test(test_flash_second_power_cut_during_recovery_leaves_something_whole),
        cmocka_unit_test(test_flash_many_power_cuts_in_a_row_lose_nothing),
        cmocka_unit_test(test_flash_bit_flips_are_noticed),
        cmocka_unit_test(test_flash_blank_is_what_was_never_written),
        cmocka_unit_test(test_flash_bad_sector_is_an_error_and_the_old_object_stays),
        cmocka_unit_test(test_flash_failure_at_every_operation_keeps_the_old_object),
        cmocka_unit_test(test_flash_too_large_object_is_full_and_the_old_one_stays),
        cmocka_unit_test(test_flash_other_layout_finds_whole_objects_or_none),
        cmocka_unit_test(test_flash_checkpoint_survives_a_cut_of_the_next),
        cmocka_unit_test(test_flash_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("storage_flash", tests, NULL, NULL);
}
