/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/arena.h"
#include "uwasa/status.h"

static void test_arena_measured_then_bound_takes_the_same_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000};
    struct uw_arena measured, bound;
    static uint8_t memory[4096];
    void *p;

    uw_arena_init(&measured, NULL, 0);
    uw_arena_init(&bound, memory + 1, sizeof memory - 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(uw_arena_take(&measured, sizes[i], &p), UW_OK);
        assert_null(p);
        assert_int_equal(uw_arena_take(&bound, sizes[i], &p), UW_OK);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % UW_ARENA_ALIGN, 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(((uint8_t *)p)[k], 0);
        }
        memset(p, 0xff, sizes[i]);
    }
    assert_int_equal(measured.used_bytes, bound.used_bytes);
}

static void test_arena_exact_size_fits_and_one_byte_less_does_not(void **state)
{
    (void)state;
    static uint8_t memory[256 + 64];
    struct uw_arena a;
    void *p;

    uw_arena_init(&a, memory, 128 + uw_arena_slack_bytes());
    assert_int_equal(uw_arena_take(&a, 128, &p), UW_OK);
    for (size_t missing = 1; missing <= 128; missing++) {
        uw_arena_init(&a, memory, 128);
        a.capacity_bytes = 128 - missing;
        assert_int_equal(uw_arena_take(&a, 128, &p), UW_ERR_NOMEM);
        assert_null(p);
        assert_int_equal(a.used_bytes, 0);
    }
    uw_arena_init(&a, memory, 3); /* alignment alone may eat it all */
    assert_int_equal(uw_arena_take(&a, SIZE_MAX, &p), UW_ERR_NOMEM);
}

static void test_arena_sealed_refuses_everything(void **state)
{
    (void)state;
    static uint8_t memory[256];
    struct uw_arena a;
    void *p;

    uw_arena_init(&a, memory, sizeof memory);
    uw_arena_seal(&a);
    uw_arena_seal(&a);
    assert_int_equal(uw_arena_take(&a, 0, &p), UW_ERR_SEALED);
    assert_null(p);
}

static void test_arena_take_each_gives_all_blocks_side_by_side_or_none(void **state)
{
    (void)state;
    static uint8_t memory[256 + 64];
    static const size_t bytes[4] = {3, 0, 100, 64};
    static const size_t too_many[2] = {SIZE_MAX - 8, SIZE_MAX - 8};
    const size_t align = _Alignof(max_align_t);
    const size_t total = align + (100 + align - 1) / align * align + 64;
    struct uw_arena a;
    void *out[4], *aligned;

    for (size_t capacity = 0; capacity <= 256; capacity += align) {
        uw_arena_init(&a, memory, capacity + uw_arena_slack_bytes());
        bool all = a.capacity_bytes >= 192;
        memset(out, 0xff, sizeof out);
        assert_int_equal(uw_arena_take_each(&a, 4, bytes, out), all ? UW_OK : UW_ERR_NOMEM);
        assert_true(a.used_bytes == (all ? 192u : 0));
        assert_null(out[1]);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true((out[i] != NULL) == (all && bytes[i] != 0));
            assert_true((uintptr_t)out[i] % align == 0);
            if (out[i] != NULL) {
                memset(out[i], (int)i + 1, bytes[i]);
            }
        }
        for (uint32_t i = 0; i < 4; i++) {
            for (size_t k = 0; out[i] != NULL && k < bytes[i]; k++) {
                assert_int_equal(((uint8_t *)out[i])[k], i + 1u);
            }
        }
    }
    uw_arena_init(&a, NULL, 0);
    assert_int_equal(uw_arena_take_each(&a, 2, too_many, out), UW_ERR_NOMEM);
    assert_int_equal(uw_arena_take_each(&a, 4, bytes, out), UW_OK);
    assert_true(out[0] == NULL && out[3] == NULL);
    assert_int_equal(a.used_bytes, 192);
    const size_t rest[1] = {192 - total};
    assert_int_equal(uw_arena_take_each(&a, rest[0] != 0, rest, out), UW_OK);
    assert_int_equal(a.used_bytes, 192);
    assert_int_equal(uw_arena_take(&a, 1, &aligned), UW_OK);
    assert_int_equal(a.used_bytes, 256);
    assert_int_equal(uw_arena_take_each(&a, 1, (size_t[]){64 - align}, out), UW_OK);
    assert_int_equal(a.used_bytes, 256);
    assert_int_equal(uw_arena_take_each(&a, 1, (size_t[]){1}, out), UW_OK);
    assert_int_equal(a.used_bytes, 320);
}

static void test_size_mul_overflow_saturates(void **state)
{
    (void)state;
    assert_true(uw_size_mul(3, 5) == 15);
    assert_true(uw_size_mul(0, SIZE_MAX) == 0);
    assert_true(uw_size_mul(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(uw_size_mul(SIZE_MAX / 2 + 1, 2) == SIZE_MAX);
}

static void test_status_every_code_has_name_and_sentence(void **state)
{
    (void)state;
#define CHECK(name, value, text)                               \
    assert_string_equal(uw_status_name(value), "UW_" #name);   \
    assert_string_equal(uw_status_text(value), text);
    UW_STATUS_LIST(CHECK)
#undef CHECK
    assert_string_equal(uw_status_name(-12345), "UW_ERR_UNKNOWN");
    assert_true(strlen(uw_status_text(-12345)) > 0);
}

static void test_error_set_long_sentence_is_cut_and_terminated(void **state)
{
    (void)state;
    struct uw_error err;
    char text[2 * UW_ERROR_TEXT_BYTES];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(uw_error_set(&err, UW_ERR_IO, "%s", text), UW_ERR_IO);
    assert_int_equal(err.code, UW_ERR_IO);
    assert_int_equal(strlen(err.text), UW_ERROR_TEXT_BYTES - 1);
    assert_int_equal(uw_error_set(NULL, UW_ERR_IO, "ignored"), UW_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_measured_then_bound_takes_the_same_bytes),
        cmocka_unit_test(test_arena_exact_size_fits_and_one_byte_less_does_not),
        cmocka_unit_test(test_arena_sealed_refuses_everything),
        cmocka_unit_test(test_arena_take_each_gives_all_blocks_side_by_side_or_none),
        cmocka_unit_test(test_size_mul_overflow_saturates),
        cmocka_unit_test(test_status_every_code_has_name_and_sentence),
        cmocka_unit_test(test_error_set_long_sentence_is_cut_and_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
