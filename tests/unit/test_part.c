/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "collective/allreduce.h"
#include "wire/part.h"

static const float floats[5] = {1.5f, -2.25f, 1e-30f, 0.0f, 3e38f};

static struct uw_part part_of(enum uw_part_type type)
{
    struct uw_part p = {.type = type, .reply = type == UW_PART_DONE, .group = 0xfeedbeefu,
                        .round = 70000, .step = 65535, .op = 513};
    if (type == UW_PART_DATA) {
        p.seq = 65534;
        p.offset_n = 123456789;
        p.count_n = 5;
        p.floats = floats;
    } else if (type == UW_PART_WANT) {
        p.want = (struct uw_want){.transfer = 65535, .seq = 7, .chunk_n = 301, .base = 5000,
                                  .wanted = (uint64_t)1 << 63 | 1u, .spread_us = 99};
    }
    return p;
}

static void assert_same(const struct uw_part *a, const struct uw_part *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->reply, b->reply);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->op, b->op);
    if (a->type == UW_PART_DATA) {
        assert_int_equal(a->seq, b->seq);
        assert_int_equal(a->offset_n, b->offset_n);
        assert_int_equal(a->count_n, b->count_n);
        assert_memory_equal(a->floats, b->floats, a->count_n * sizeof(float));
    } else if (a->type == UW_PART_WANT) {
        assert_int_equal(a->want.transfer, b->want.transfer);
        assert_int_equal(a->want.seq, b->want.seq);
        assert_int_equal(a->want.base, b->want.base);
        assert_int_equal(a->want.chunk_n, b->want.chunk_n);
        assert_int_equal(a->want.spread_us, b->want.spread_us);
        assert_true(a->want.wanted == b->want.wanted);
    }
}

static void test_part_of_every_type_comes_back_as_it_went(void **state)
{
    (void)state;
    for (int type = UW_PART_DATA; type <= UW_PART_DONE; type++) {
        for (int checked = 0; checked < 2; checked++) {
            uint32_t buf[32], run = 0;
            struct uw_part p = part_of((enum uw_part_type)type), back;
            int bytes = uw_part_encode(&p, 42, checked != 0, buf, sizeof buf);
            assert_true(bytes > 0);
            assert_int_equal(uw_part_encode(&p, 42, checked != 0, buf, (uint32_t)bytes - 1u),
                             UW_ERR_TOOBIG);
            assert_int_equal(uw_part_decode(buf, (uint32_t)bytes, checked != 0, &run, &back),
                             UW_OK);
            assert_int_equal(run, 42);
            assert_same(&p, &back);
        }
    }
}

static uint8_t sent[128];

static int send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                      const void *body, uint32_t body_bytes)
{
    (void)l;
    (void)to;
    memcpy(sent, head, head_bytes);
    memcpy(sent + head_bytes, body, body_bytes);
    return UW_OK;
}

static int send_whole(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    (void)l;
    (void)to;
    memcpy(sent, buf, buf_bytes);
    return UW_OK;
}

static void test_part_sent_is_what_encode_writes(void **state)
{
    static const struct uw_link_ops gathers = {.send = send_whole, .send_parts = send_parts},
                                    plain = {.send = send_whole};
    (void)state;
    for (int type = UW_PART_DATA; type <= UW_PART_DONE; type++) {
        for (int gather = 0; gather < 2; gather++) {
            uint32_t buf[32], scratch[32];
            struct uw_link l = {.ops = gather ? &gathers : &plain, .mtu_bytes = sizeof buf};
            const struct uw_part_sender sender = {&l, 42, scratch, sizeof scratch};
            struct uw_part p = part_of((enum uw_part_type)type);
            for (int checked = 0; checked < 2; checked++) {
                int n = uw_part_encode(&p, 42, checked != 0, buf, sizeof buf);
                memset(sent, 0xff, sizeof sent);
                assert_int_equal(uw_part_send(&sender, 1, &p, checked != 0), n);
                assert_memory_equal(sent, buf, (size_t)n);
            }
        }
    }
}

static void test_part_cut_at_any_byte_or_with_any_bit_flipped_is_refused(void **state)
{
    (void)state;
    for (int type = UW_PART_DATA; type <= UW_PART_DONE; type++) {
        uint32_t buf[32], run;
        struct uw_part p = part_of((enum uw_part_type)type), back;
        int bytes = uw_part_encode(&p, 42, true, buf, sizeof buf);
        uint8_t *b = (uint8_t *)buf;
        for (uint32_t cut = 0; cut <= (uint32_t)bytes + 1u; cut++) {
            uint8_t *exact = malloc(cut + 1u);      /* one past the end is not read */
            memcpy(exact, buf, cut);
            assert_int_equal(uw_part_decode(exact, cut, true, &run, &back),
                             cut == (uint32_t)bytes ? UW_OK : UW_ERR_CORRUPT);
            free(exact);
        }
        for (uint32_t bit = 0; bit < (uint32_t)bytes * 8u; bit++) {
            b[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
            assert_int_equal(uw_part_decode(buf, (uint32_t)bytes, true, &run, &back),
                             UW_ERR_CORRUPT);
            b[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        }
    }
}

static void test_part_without_checksum_is_refused_when_its_sizes_do_not_fit(void **state)
{
    (void)state;
    uint32_t buf[32] = {0}, run;
    struct uw_part p = part_of(UW_PART_DATA), back;
    uint32_t bytes = (uint32_t)uw_part_encode(&p, 42, false, buf, sizeof buf);
    assert_int_equal(uw_part_decode(buf, bytes - 1u, false, &run, &back), UW_ERR_CORRUPT);
    assert_int_equal(uw_part_decode(buf, UW_PART_HEAD_BYTES, false, &run, &back), UW_ERR_CORRUPT);
    p = part_of(UW_PART_WANT);
    bytes = (uint32_t)uw_part_encode(&p, 42, false, buf, sizeof buf);
    assert_int_equal(uw_part_decode(buf, bytes + 4u, false, &run, &back), UW_ERR_CORRUPT);
    p.want.wanted = 0;
    uw_part_encode(&p, 42, false, buf, sizeof buf);
    assert_int_equal(uw_part_decode(buf, bytes, false, &run, &back), UW_ERR_CORRUPT);
    p = part_of(UW_PART_GOT);
    bytes = (uint32_t)uw_part_encode(&p, 42, false, buf, sizeof buf);
    assert_int_equal(uw_part_decode(buf, bytes + 1u, false, &run, &back), UW_ERR_CORRUPT);
    ((uint8_t *)buf)[5] = 77;
    assert_int_equal(uw_part_decode(buf, bytes, false, &run, &back), UW_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_part_of_every_type_comes_back_as_it_went),
        cmocka_unit_test(test_part_sent_is_what_encode_writes),
        cmocka_unit_test(test_part_cut_at_any_byte_or_with_any_bit_flipped_is_refused),
        cmocka_unit_test(test_part_without_checksum_is_refused_when_its_sizes_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
