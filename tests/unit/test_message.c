/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "base/cpu.h"
#include "wire/message.h"

static const float floats[3] = {1.5f, -2.25f, 1e-30f};

static uint32_t encode(const struct uw_message *m, uint8_t *buf, uint32_t cap)
{
    int bytes = m->type == UW_WIRE_DATA ? uw_message_encode_data(&m->data, floats, buf, cap)
                                        : uw_message_encode(m, buf, cap);
    assert_true(bytes > 0);
    return (uint32_t)bytes;
}

static void fill(enum uw_wire_type type, struct uw_message *m)
{
    memset(m, 0, sizeof *m);
    m->type = type;
    uwasa_Peer peer = {.incarnation = 7, .state = uwasa_State_ALIVE};
    strcpy(peer.name, "kitchen-3");
    strcpy(peer.address, "[fe80::1]:4433");
    switch (type) {
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
        m->ping = (uwasa_Ping){.run = 5, .model = 1u, .seq = 300, .has_self = true, .self = peer,
                               .has_progress = true};
        m->ping.progress = (uwasa_Progress){.step = 1000, .rounds = 4, .version = 6, .loss = 0.5f,
                                            .accuracy = 0.75f, .samples_per_s = 123.0f,
                                            .pulled_bytes = (uint64_t)1 << 40, .newcomer = true};
        break;
    case UW_WIRE_WANT:
        m->want = (uwasa_Want){.run = 5, .model = UINT64_MAX, .transfer = 65535, .seq = 65535,
                               .chunk_n = 300, .base = 4000, .wanted = (uint64_t)1 << 63,
                               .spread_us = 1000};
        break;
    case UW_WIRE_DATA:
        m->data = (struct uw_data){.run = 5, .transfer = 9, .seq = 65535, .version = 77,
                                   .offset_n = 123456789, .count_n = 3};
        break;
    case UW_WIRE_REFUSE:
        m->refuse = (uwasa_Refuse){.run = 5, .reason = uwasa_Reason_WRONG_MODEL, .model = 6,
                                   .transfer = 3, .chunk_n = 26};
        strcpy(m->refuse.name, "b");
        break;
    case UW_WIRE_GOODBYE:
        m->goodbye = (uwasa_Goodbye){.run = 5, .has_self = true, .self = peer};
        break;
    case UW_WIRE_STATUS_REQUEST:
        m->status_request = (uwasa_StatusRequest){.run = 5, .seq = 1, .first = 8};
        break;
    case UW_WIRE_STATUS_REPLY:
    default:
        m->status_reply = (uwasa_StatusReply){.run = 5, .seq = 1, .total = 1, .rows_count = 1,
                                              .has_counters = true};
        m->status_reply.rows[0] = (uwasa_Row){.has_peer = true, .peer = peer,
                                              .has_progress = true, .silent_us = 5};
        m->status_reply.counters.sent_bytes = 12345678901u;
        strcpy(m->status_reply.kernels, "cuda: a GPU");
        break;
    }
}

static void test_message_of_every_type_comes_back_as_it_went(void **state)
{
    (void)state;
    for (int type = UW_WIRE_HELLO; type <= UW_WIRE_STATUS_REPLY; type++) {
        struct uw_message m;
        struct uw_message back;
        uint8_t buf[2048];
        uint8_t again[2048];
        fill((enum uw_wire_type)type, &m);
        uint32_t bytes = encode(&m, buf, sizeof buf);
        memset(&back, 0, sizeof back);
        assert_int_equal(uw_message_decode(buf, bytes, &back), UW_OK);
        assert_int_equal(back.type, type);
        if (type == UW_WIRE_DATA) {
            float out[3];
            assert_int_equal(back.data.run, 5);
            assert_int_equal(back.data.transfer, 9);
            assert_int_equal(back.data.seq, 65535);
            assert_int_equal(back.data.version, 77);
            assert_int_equal(back.data.offset_n, 123456789);
            assert_int_equal(back.data.count_n, 3);
            assert_int_equal(uw_message_floats(&back.data, out), UW_OK);
            assert_memory_equal(out, floats, sizeof floats);
            assert_int_equal(bytes, UW_WIRE_DATA_BYTES + sizeof floats);
        } else {
            assert_int_equal(encode(&back, again, sizeof again), bytes);
            assert_memory_equal(again, buf, bytes);
        }
    }
}

static void test_message_cut_at_any_byte_or_with_any_bit_flipped_is_refused(void **state)
{
    (void)state;
    for (int type = UW_WIRE_HELLO; type <= UW_WIRE_STATUS_REPLY; type++) {
        struct uw_message m;
        struct uw_message back;
        uint8_t buf[2048];
        fill((enum uw_wire_type)type, &m);
        uint32_t bytes = encode(&m, buf, sizeof buf);
        for (uint32_t cut = 0; cut < bytes; cut++) {
            uint8_t *exact = malloc(cut + 1u);
            memcpy(exact, buf, cut);
            assert_int_equal(uw_message_decode(exact, cut, &back), UW_ERR_CORRUPT);
            free(exact);
        }
        for (uint32_t bit = 0; bit < bytes * 8u; bit++) {
            buf[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
            assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_CORRUPT);
            buf[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        }
        buf[bytes] = 0;
        assert_int_equal(uw_message_decode(buf, bytes + 1u, &back), UW_ERR_CORRUPT);
    }
}

static void reseal(uint8_t *buf, uint32_t bytes)
{
    uint32_t crc = uw_crc32c(uw_crc32c(0, buf, 1), buf + 5, bytes - 5u);
    for (uint32_t i = 0; i < 4u; i++) {
        buf[1u + i] = (uint8_t)(crc >> 8u * i);
    }
}

static void test_message_shorter_than_its_head_is_refused(void **state)
{
    (void)state;
    static const uint8_t nothing[UW_WIRE_HEAD_BYTES] = {0};
    for (int frames = 0; frames < 2; frames++) {
        uint32_t head = frames != 0 ? UW_WIRE_SHORT_HEAD_BYTES : UW_WIRE_HEAD_BYTES;
        for (uint32_t bytes = 0; bytes < head; bytes++) {
            uwasa_Cell cell;
            assert_int_equal(uw_message_read(frames != 0, &uw_form_cell, nothing, bytes, &cell),
                             UW_ERR_CORRUPT);
        }
    }
}

static void test_message_of_a_later_version_or_unknown_type_is_told_apart(void **state)
{
    (void)state;
    struct uw_message m;
    struct uw_message back;
    uint8_t buf[2048];
    fill(UW_WIRE_WANT, &m);
    uint32_t bytes = encode(&m, buf, sizeof buf);
    buf[0] = (uint8_t)(2u << 4 | UW_WIRE_WANT);
    reseal(buf, bytes);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_UNSUPPORTED);
    buf[0] = (uint8_t)(UW_WIRE_VERSION << 4 | 15u);
    reseal(buf, bytes);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_UNSUPPORTED);
}

static void test_message_with_odd_contents_is_refused(void **state)
{
    (void)state;
    struct uw_message m;
    struct uw_message back;
    uint8_t buf[2048];
    fill(UW_WIRE_PING, &m);
    strcpy(m.ping.self.name, "two\x1b[2Jlines");
    uint32_t bytes = encode(&m, buf, sizeof buf);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_CORRUPT);
    fill(UW_WIRE_PING, &m);
    m.ping.has_self = false;
    bytes = encode(&m, buf, sizeof buf);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_CORRUPT);
    fill(UW_WIRE_WANT, &m);
    m.want.chunk_n = 0;
    bytes = encode(&m, buf, sizeof buf);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_CORRUPT);
    /* A chunk that claims more floats than came, with a checksum that is right. */
    fill(UW_WIRE_DATA, &m);
    bytes = encode(&m, buf, sizeof buf);
    buf[21] = 4;
    reseal(buf, bytes);
    assert_int_equal(uw_message_decode(buf, bytes, &back), UW_ERR_CORRUPT);
}

static void test_message_too_large_for_its_buffer_is_refused(void **state)
{
    (void)state;
    struct uw_message m;
    uint8_t buf[2048];
    for (int type = UW_WIRE_HELLO; type <= UW_WIRE_STATUS_REPLY; type++) {
        fill((enum uw_wire_type)type, &m);
        uint32_t bytes = encode(&m, buf, sizeof buf);
        for (uint32_t cap = 0; cap < bytes; cap++) {
            int rc = type == UW_WIRE_DATA ? uw_message_encode_data(&m.data, floats, buf, cap)
                                          : uw_message_encode(&m, buf, cap);
            assert_int_equal(rc, UW_ERR_TOOBIG);
        }
    }
}

/* At most eight, with each of which the message is whole. */
static void test_message_has_records_of_peers(void **state)
{
    (void)state;
    for (int frames = 0; frames < 2; frames++) {
        struct uw_message m;
        uint8_t buf[2048];
        uwasa_Peer peer = {.address = "[fe80::1]:4433", .incarnation = 7}, got;
        fill(UW_WIRE_PING, &m);
        int bytes = uw_message_write(frames != 0, UW_WIRE_PING, &uw_form_ping, &m.ping, buf,
                                     sizeof buf);
        for (int n = 1; n <= (int)UW_MESSAGE_PEERS_MOST + 1; n++) {
            snprintf(peer.name, sizeof peer.name, "peer-%d", n);
            uint32_t before = (uint32_t)bytes, at = 0;
            for (uint32_t cap = before; bytes == (int)before; cap++) {
                int more = uw_message_add_peer(frames != 0, &peer, buf, before, cap);
                assert_true(more == UW_ERR_TOOBIG || more == (int)cap);
                bytes = more > 0 ? more : bytes;
            }
            assert_int_equal(uw_message_type(frames != 0, buf, (uint32_t)bytes), UW_WIRE_PING);
            assert_int_equal(uw_message_read(frames != 0, &uw_form_ping, buf, (uint32_t)bytes,
                                             &m.ping), UW_OK);
            assert_int_equal(uw_message_peers(frames != 0, buf, (uint32_t)bytes),
                             n <= (int)UW_MESSAGE_PEERS_MOST ? n : UW_ERR_CORRUPT);
            for (int i = 1; i <= n; i++) {
                assert_true(uw_message_next_peer(frames != 0, buf, (uint32_t)bytes, &at, &got));
                assert_int_equal(got.name[5], '0' + i);
                assert_string_equal(got.address, peer.address);
                assert_int_equal(got.incarnation, 7);
            }
            assert_false(uw_message_next_peer(frames != 0, buf, (uint32_t)bytes, &at, &got));
        }
    }
}

static void test_records_of_peers_with_odd_contents_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"", "two lines", "a\x1b"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct uw_message m;
        uint8_t buf[2048];
        uwasa_Peer peer = {.incarnation = 7};
        fill(UW_WIRE_PING, &m);
        strcpy(peer.name, odd[i]);
        int bytes = (int)encode(&m, buf, sizeof buf);
        bytes = uw_message_add_peer(false, &peer, buf, (uint32_t)bytes, sizeof buf);
        assert_int_equal(uw_message_peers(false, buf, (uint32_t)bytes), UW_ERR_CORRUPT);
    }
}

static void test_floats_that_are_not_finite_are_seen(void **state)
{
    (void)state;
    const float bad[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_message back;
        struct uw_data d = {.count_n = 1};
        uint8_t buf[64];
        float out;
        int bytes = uw_message_encode_data(&d, &bad[i], buf, sizeof buf);
        assert_int_equal(uw_message_decode(buf, (uint32_t)bytes, &back), UW_OK);
        assert_int_equal(uw_message_floats(&back.data, &out), UW_ERR_NONFINITE);
    }
}

/* RFC 3720, appendix B.4. */
static void test_crc_of_known_strings(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(uw_crc32c(0, bytes, sizeof bytes), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(uw_crc32c(0, bytes, sizeof bytes), 0x62a8ab43u);
    assert_int_equal(uw_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(uw_crc32c(uw_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

/* Whatever the processor has for it. */
static void test_crc_is_the_portable_one_at_every_size_and_place(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (uint32_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 167u + i / 7u);
    }
    for (uint32_t at = 0; at < 9u; at++) {
        for (uint32_t n = 0; n + at <= sizeof bytes; n++) {
            assert_int_equal(uw_crc32c(n * 77u, bytes + at, n),
                             uw_crc32c_portable(n * 77u, bytes + at, n));
        }
    }
}

/* What is appended has fields of its own: who knows it not reads the message as it was. */
static void test_message_is_read_without_what_is_appended(void **state)
{
    (void)state;
    static const struct uw_message_form form = {uwasa_CellDirect_fields, NULL};
    const uwasa_Cell cell = {.run = 7, .act = 1, .rms = 2.0f, .ids_count = 2, .ids = {3, 4}};
    uwasa_CellDirect more = {.version = 22809, .device = 5, .id = {.size = 128}}, found;
    uwasa_Cell read;
    uint8_t bytes[400];
    memset(more.id.bytes, 0x5a, 128);
    int n = uw_message_write(false, UW_WIRE_CELL, &uw_form_cell, &cell, bytes, sizeof bytes);
    assert_true(n > 0);
    assert_int_equal(uw_message_read(false, &form, bytes, (uint32_t)n, &found), UW_OK);
    assert_int_equal(found.version, 0);
    assert_int_equal(found.id.size, 0);
    assert_int_equal(uw_message_append(false, &form, &more, bytes, (uint32_t)n, (uint32_t)n + 100u),
                     UW_ERR_TOOBIG);
    assert_int_equal(uw_message_type(false, bytes, (uint32_t)n), UW_WIRE_CELL);
    n = uw_message_append(false, &form, &more, bytes, (uint32_t)n, sizeof bytes);
    assert_true(n > 0);
    assert_int_equal(uw_message_type(false, bytes, (uint32_t)n), UW_WIRE_CELL);
    assert_int_equal(uw_message_read(false, &uw_form_cell, bytes, (uint32_t)n, &read), UW_OK);
    assert_int_equal(read.ids_count, 2);
    assert_int_equal(read.ids[1], 4);
    assert_int_equal(uw_message_read(false, &form, bytes, (uint32_t)n, &found), UW_OK);
    assert_int_equal(found.version, 22809);
    assert_memory_equal(found.id.bytes, more.id.bytes, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_of_every_type_comes_back_as_it_went),
        cmocka_unit_test(test_message_cut_at_any_byte_or_with_any_bit_flipped_is_refused),
        cmocka_unit_test(test_message_shorter_than_its_head_is_refused),
        cmocka_unit_test(test_message_of_a_later_version_or_unknown_type_is_told_apart),
        cmocka_unit_test(test_message_with_odd_contents_is_refused),
        cmocka_unit_test(test_message_too_large_for_its_buffer_is_refused),
        cmocka_unit_test(test_message_is_read_without_what_is_appended),
        cmocka_unit_test(test_message_has_records_of_peers),
        cmocka_unit_test(test_records_of_peers_with_odd_contents_are_refused),
        cmocka_unit_test(test_floats_that_are_not_finite_are_seen),
        cmocka_unit_test(test_crc_of_known_strings),
        cmocka_unit_test(test_crc_is_the_portable_one_at_every_size_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
