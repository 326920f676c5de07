/* SPDX-License-Identifier: Apache-2.0
 *
 * The short forms of links of frames: what is left out comes back, what is cut is refused. */
#include "test_support.h"

#include "wire/message.h"

#define FLOATS 25u
#define SEQS UW_WIRE_SHORT_SEQS
#define CHUNKS UW_WIRE_SHORT_CHUNKS
#define OLDER 64u           /* versions that a chunk may be behind what its peer told last */

static float floats[FLOATS];

static int data(uint16_t seq, uint32_t version, uint32_t chunk, uint32_t count_n, uint8_t *buf)
{
    const struct uw_data d = {.transfer = 9, .seq = seq, .version = version,
                              .count_n = (uint16_t)count_n};
    for (uint32_t i = 0; i < FLOATS; i++) {
        floats[i] = (float)i - 3.25f;
    }
    return uw_message_encode_short_data(&d, chunk, floats, buf, 5u + 4u * FLOATS);
}

static void test_data_is_what_was_sent(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    static const uint32_t chunks[] = {0, 1, 400, 65535, 65536, CHUNKS - 1u};
    for (uint32_t k = 0; k < sizeof chunks / sizeof chunks[0]; k++) {
        for (uint32_t n = 1; n <= FLOATS; n++) {
            const struct uw_short_data known = {
                .chunk_n = FLOATS, .transfer = 9, .seq = 300, .asked_n = 1, .version = 7};
            struct uw_data d;
            float out[FLOATS];
            int bytes = data(300, 7, chunks[k], n, buf);
            assert_int_equal(bytes, UW_WIRE_SHORT_DATA_BYTES + 4u * n);
            assert_int_equal(uw_message_type(true, buf, (uint32_t)bytes), UW_WIRE_DATA);
            assert_int_equal(uw_message_read_short_data(buf, (uint32_t)bytes, &known, &d), UW_OK);
            assert_int_equal(d.transfer, 9);
            assert_int_equal(d.seq, 300);
            assert_int_equal(d.version, 7);
            assert_int_equal(d.offset_n, chunks[k] * FLOATS);
            assert_int_equal(d.count_n, n);
            assert_int_equal(uw_message_floats(&d, out), UW_OK);
            assert_memory_equal(out, floats, n * sizeof *out);
        }
    }
    assert_int_equal(uw_message_encode_short_data(&(struct uw_data){.count_n = FLOATS}, 0, floats,
                                                  buf, 4u * FLOATS + 4u), UW_ERR_TOOBIG);
}

/* Of the last 16 questions, also where their numbers wrap. */
static void test_data_numbers_of_questions_come_back(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    for (uint32_t last = 0; last <= UINT16_MAX; last += last % 256u < 20u ? 1u : 17u) {
        const struct uw_short_data known = {.chunk_n = 1, .seq = (uint16_t)last};
        for (uint32_t back = 0; back < SEQS; back++) {
            struct uw_data d;
            int bytes = data((uint16_t)(last - back), 1, 3, 1, buf);
            assert_int_equal(uw_message_read_short_data(buf, (uint32_t)bytes, &known, &d), UW_OK);
            assert_int_equal(d.seq, (uint16_t)(last - back));
        }
    }
}

/* An answer to a question before the pull's own, though its length may be right. */
static void test_data_of_an_earlier_pull_is_of_another_transfer(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    for (uint16_t asked_n = 0; asked_n <= SEQS + 1u; asked_n++) {
        for (uint32_t back = 0; back < SEQS; back++) {
            const struct uw_short_data known = {
                .chunk_n = FLOATS, .transfer = 9, .seq = 4, .asked_n = asked_n};
            struct uw_data d;
            int bytes = data((uint16_t)(4u - back), 1, 3, FLOATS, buf);
            assert_int_equal(uw_message_read_short_data(buf, (uint32_t)bytes, &known, &d), UW_OK);
            assert_int_equal(d.transfer == 9, back < asked_n);
        }
    }
}

/* Its peer told of a version before or after it sent the chunk. */
static void test_data_versions_come_back(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    for (uint32_t told = 1; told < 1200; told++) {
        const struct uw_short_data known = {.chunk_n = 1, .version = told};
        uint32_t first = told > OLDER ? told - OLDER : 0;
        for (uint32_t version = first; version < first + 256u; version++) {
            struct uw_data d;
            int bytes = data(1, version, 3, 1, buf);
            assert_int_equal(uw_message_read_short_data(buf, (uint32_t)bytes, &known, &d), UW_OK);
            assert_int_equal(d.version, version);
        }
    }
}

static void test_data_of_a_wrong_size_is_refused(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    struct uw_short_data known = {.chunk_n = FLOATS};
    struct uw_data d;
    int whole = data(1, 1, 3, FLOATS, buf);
    for (uint32_t bytes = 0; bytes <= (uint32_t)whole; bytes++) {
        bool fits = bytes > 5u && (bytes - 5u) % 4u == 0;
        assert_int_equal(uw_message_read_short_data(buf, bytes, &known, &d),
                         fits ? UW_OK : UW_ERR_CORRUPT);
    }
    known.chunk_n = 0;
    assert_int_equal(uw_message_read_short_data(buf, (uint32_t)whole, &known, &d), UW_ERR_CORRUPT);
    whole = data(1, 1, CHUNKS - 1u, FLOATS, buf);
    known.chunk_n = UINT32_MAX / (CHUNKS - 1u) + 1u;        /* its offset would wrap */
    assert_int_equal(uw_message_read_short_data(buf, (uint32_t)whole, &known, &d), UW_ERR_CORRUPT);
}

static void test_data_with_a_nan_says_so(void **state)
{
    (void)state;
    uint8_t buf[5 + 4 * FLOATS];
    const struct uw_short_data known = {.chunk_n = FLOATS};
    struct uw_data d;
    float out[FLOATS];
    int bytes = data(1, 1, 0, FLOATS, buf);
    for (uint32_t i = 0; i < FLOATS; i++) {
        uint8_t bad[sizeof buf];
        const float inf = i % 2u == 0 ? INFINITY : NAN;
        memcpy(bad, buf, sizeof bad);
        uw_put_floats(bad + 5u + 4u * i, &inf, 1);
        assert_int_equal(uw_message_read_short_data(bad, (uint32_t)bytes, &known, &d), UW_OK);
        assert_int_equal(uw_message_floats(&d, out), UW_ERR_NONFINITE);
    }
}

static uint32_t fill_wants(struct uw_want *wants, uint32_t n, uint16_t seq)
{
    for (uint32_t i = 0; i < n; i++) {
        wants[i] = (struct uw_want){.wanted = UINT64_MAX >> (i * 9u), .chunk_n = 25,
                                    .base = i * 2000001u, .spread_us = 1600, .transfer = 200,
                                    .seq = (uint16_t)(seq + i)};
    }
    return n;
}

static void test_wants_are_what_was_asked(void **state)
{
    (void)state;
    uint8_t buf[128];
    struct uw_want wants[UW_SHORT_WANTS_MOST], out[UW_SHORT_WANTS_MOST];
    const struct uw_short_wants head = {.model = 0xfedcba98u, .mixed = 12345};
    for (uint32_t n = 1; n <= UW_SHORT_WANTS_MOST; n++) {
        for (uint32_t seq = 0; seq < 1000; seq += 37) {
            struct uw_short_wants got = {0};
            fill_wants(wants, n, (uint16_t)seq);
            uint32_t bytes =
                (uint32_t)uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, n, buf);
            assert_int_equal(uw_message_short_wants(bytes), n);
            assert_int_equal(uw_message_short_wants(bytes - 1u), n - 1u);
            assert_int_equal(uw_message_type(true, buf, bytes), UW_WIRE_WANT);
            assert_int_equal(uw_message_read_short_wants(buf, bytes, &got, out), n);
            assert_int_equal(got.model, head.model);
            assert_int_equal(got.mixed, head.mixed);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(out[i].wanted == wants[i].wanted);
                assert_int_equal(out[i].base, wants[i].base % (1u << 24));
                assert_int_equal(out[i].chunk_n, 25);
                assert_int_equal(out[i].spread_us, 1600);
                assert_int_equal(out[i].transfer, 200);
                assert_int_equal(out[i].seq % SEQS, wants[i].seq % SEQS);
            }
        }
    }
}

static void test_wants_of_a_wrong_size_are_refused(void **state)
{
    (void)state;
    uint8_t buf[256] = {0};
    struct uw_want wants[UW_SHORT_WANTS_MOST], out[UW_SHORT_WANTS_MOST];
    struct uw_short_wants head = {.model = 1};
    fill_wants(wants, UW_SHORT_WANTS_MOST, 0);
    uint32_t whole = (uint32_t)uw_message_write_short_wants(UW_WIRE_WANT, &head, wants,
                                                            UW_SHORT_WANTS_MOST, buf);
    for (uint32_t i = whole; i < sizeof buf; i++) {
        buf[i] = 1;
    }
    for (uint32_t bytes = 0; bytes < sizeof buf; bytes++) {
        uint32_t n = bytes < 15u ? 0 : (bytes - 15u) / 11u;
        bool fits = n != 0 && n <= UW_SHORT_WANTS_MOST && bytes == 15u + n * 11u;
        int rc = uw_message_read_short_wants(buf, bytes, &head, out);
        assert_int_equal(rc, fits ? (int)n : UW_ERR_CORRUPT);
    }
    for (uint32_t i = 0; i < UW_SHORT_WANTS_MOST; i++) {
        fill_wants(wants, UW_SHORT_WANTS_MOST, 0);
        wants[i].wanted = 0;
        (void)uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, UW_SHORT_WANTS_MOST, buf);
        assert_int_equal(uw_message_read_short_wants(buf, whole, &head, out), UW_ERR_CORRUPT);
    }
    fill_wants(wants, 1, 0);
    wants[0].chunk_n = 0;
    uint32_t one = (uint32_t)uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, 1, buf);
    assert_int_equal(uw_message_read_short_wants(buf, one, &head, out), UW_ERR_CORRUPT);
    for (uint32_t cap = 0; cap < 26; cap++) {
        assert_int_equal(uw_message_short_wants(cap), 0);
    }
    assert_int_equal(uw_message_short_wants(UINT32_MAX), UW_SHORT_WANTS_MOST);
}

/* The time to answer in has 16 bits of 16 us; longer is as long as it can say. */
static void test_wants_long_spread_is_the_longest(void **state)
{
    (void)state;
    uint8_t buf[64];
    struct uw_want want, out[UW_SHORT_WANTS_MOST];
    struct uw_short_wants head = {0};
    static const uint32_t spreads[] = {0, 15, 16, 1048560, 1048576, UINT32_MAX};
    static const uint32_t said[] = {0, 0, 16, 1048560, 1048560, 1048560};
    for (uint32_t i = 0; i < sizeof spreads / sizeof spreads[0]; i++) {
        fill_wants(&want, 1, 0);
        want.spread_us = spreads[i];
        uint32_t bytes =
            (uint32_t)uw_message_write_short_wants(UW_WIRE_WANT, &head, &want, 1, buf);
        assert_int_equal(uw_message_read_short_wants(buf, bytes, &head, out), 1);
        assert_int_equal(out[0].spread_us, said[i]);
    }
}

/* A control message has a head of one byte in place of five. */
static void test_control_messages_have_a_short_head(void **state)
{
    (void)state;
    const uwasa_Refuse refuse = {.run = 5, .reason = uwasa_Reason_CHUNK_TOO_BIG, .chunk_n = 12};
    uint8_t wide[64], narrow[64];
    uwasa_Refuse out;
    int a = uw_message_write(false, UW_WIRE_REFUSE, &uw_form_refuse, &refuse, wide, sizeof wide);
    int b = uw_message_write(true, UW_WIRE_REFUSE, &uw_form_refuse, &refuse, narrow,
                             sizeof narrow);
    assert_int_equal(a, b + 4);
    assert_memory_equal(wide + 5, narrow + 1, (size_t)b - 1u);
    assert_int_equal(uw_message_type(true, narrow, (uint32_t)b), UW_WIRE_REFUSE);
    assert_int_equal(uw_message_read(true, &uw_form_refuse, narrow, (uint32_t)b, &out), UW_OK);
    assert_int_equal(out.chunk_n, 12);
    assert_true(uw_message_type(true, narrow, 0) < 0);
    narrow[0] ^= 0x30;
    assert_int_equal(uw_message_type(true, narrow, (uint32_t)b), UW_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_is_what_was_sent),
        cmocka_unit_test(test_data_numbers_of_questions_come_back),
        cmocka_unit_test(test_data_of_an_earlier_pull_is_of_another_transfer),
        cmocka_unit_test(test_data_versions_come_back),
        cmocka_unit_test(test_data_of_a_wrong_size_is_refused),
        cmocka_unit_test(test_data_with_a_nan_says_so),
        cmocka_unit_test(test_wants_are_what_was_asked),
        cmocka_unit_test(test_wants_of_a_wrong_size_are_refused),
        cmocka_unit_test(test_wants_long_spread_is_the_longest),
        cmocka_unit_test(test_control_messages_have_a_short_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
