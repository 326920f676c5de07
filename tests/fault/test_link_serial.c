/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames on a line that loses, repeats, flips and invents bytes: what arrives is what was sent, in
 * order, and the line is found again. UWASA_TEST_COUNT: millions of bytes of the trials. */
#include "test_support.h"

#include "serial_pipe.h"

#include "uwasa/link_serial.h"

#define MTU 300u

struct bench {
    struct serial_pipe a, b;
    struct uw_link_serial link[2];
    void *memory[2];
    uint64_t now_us;
};

static void open_bench(struct bench *t, uint32_t mtu_a, uint32_t mtu_b)
{
    memset(t, 0, sizeof *t);
    serial_pipe_join(&t->a, &t->b);
    for (size_t i = 0; i < 2; i++) {
        struct uw_link_serial_config c = {.serial = i == 0 ? &t->a.base : &t->b.base,
                                          .mtu_bytes = i == 0 ? mtu_a : mtu_b};
        c.memory_bytes = uw_link_serial_bytes(&c);
        c.memory = t->memory[i] = uw_test_block(c.memory_bytes);
        assert_int_equal(uw_link_serial_init(&t->link[i], &c), UW_OK);
    }
}

static void close_bench(struct bench *t)
{
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&t->link[i].link);
        uw_test_release(t->memory[i]);
    }
}

static void step(struct bench *t)
{
    t->now_us += 100;
    (void)uw_link_step(&t->link[0].link, t->now_us);
}

static int take(struct bench *t, uint8_t *buf)
{
    uint16_t from = 7;
    int rc = uw_link_recv(&t->link[1].link, &from, buf, MTU);
    assert_true(rc < 0 || from == 0);
    return rc;
}

/* ---- the form of a frame ---- */

static void test_serial_frame_has_the_documented_bytes(void **state)
{
    (void)state;
    static const uint8_t message[] = {0x11, 0, 0, 0x22};
    struct bench t;
    open_bench(&t, MTU, MTU);
    assert_int_equal(uw_link_send(&t.link[0].link, 0, message, sizeof message), UW_OK);
    step(&t);
    /* zero; groups 11 | (nothing) | 22 and the CRC; zero */
    static const uint8_t head[] = {0, 2, 0x11, 1, 6, 0x22};
    assert_int_equal(t.b.n, sizeof head + 4 + 1);
    assert_memory_equal(t.b.ring, head, sizeof head);
    assert_int_equal(t.b.ring[t.b.n - 1u], 0);
    close_bench(&t);
}

static void test_serial_frames_of_every_size_hold_no_zero_and_no_byte_too_many(void **state)
{
    (void)state;
    static uint8_t message[UW_LINK_SERIAL_MTU_MAX], got[UW_LINK_SERIAL_MTU_MAX];
    struct bench t;
    open_bench(&t, UW_LINK_SERIAL_MTU_MAX, UW_LINK_SERIAL_MTU_MAX);
    for (uint32_t every = 0; every < 4; every++) { /* no zeros, all zeros, every second, third */
        for (uint32_t bytes = 0; bytes <= UW_LINK_SERIAL_MTU_MAX; bytes += bytes < 600 ? 1 : 37) {
            uint16_t from;
            for (uint32_t i = 0; i < bytes; i++) {
                message[i] = every != 0 && i % every == 0 ? 0 : (uint8_t)(i % 255u + 1u);
            }
            t.a.n = t.b.n = t.b.at = 0;
            assert_int_equal(uw_link_send(&t.link[0].link, 0, message, bytes), UW_OK);
            while (t.link[0].frames.queue_n > 0) {
                step(&t);
            }
            assert_true(t.b.n <= bytes + 7u + (bytes + 4u) / 254u);
            for (uint32_t i = 0; i < t.b.n; i++) {
                assert_true((t.b.ring[i] == 0) == (i == 0 || i == t.b.n - 1u));
            }
            assert_int_equal(uw_link_recv(&t.link[1].link, &from, got, sizeof got), bytes);
            assert_memory_equal(got, message, bytes);
        }
    }
    close_bench(&t);
}

/* ---- bad lines ---- */

/* Message n of a trial: its number and bytes that follow from it, at least 4 in all. */
static uint32_t make(uint64_t seed, uint32_t n, uint8_t out[MTU])
{
    struct uw_rng r;
    uw_rng_seed(&r, uw_rng_mix(seed, n));
    uint32_t bytes = uw_rng_below(&r, 4) == 0 ? 4 + uw_rng_below(&r, MTU - 3) : 4 + n % 60u;
    uint32_t zeros = uw_rng_below(&r, 3);
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t x = uw_rng_u32(&r);
        out[i] = zeros != 0 && (x >> 8) % (zeros * 3u) == 0 ? 0 : (uint8_t)x;
    }
    memcpy(out, &n, sizeof n);
    return bytes;
}

/* Take what has arrived: each is one that was sent, later than the one before. */
static uint32_t check_arrivals(struct bench *t, uint64_t seed, uint32_t sent_n, uint32_t *next)
{
    uint8_t got[MTU], want[MTU];
    uint32_t arrived = 0, n;
    for (int rc; (rc = take(t, got)) != UW_ERR_AGAIN; arrived++) {
        assert_true(rc >= 4);
        memcpy(&n, got, sizeof n);
        assert_true(n >= *next && n < sent_n);
        assert_int_equal(rc, make(seed, n, want));
        assert_memory_equal(got, want, (size_t)rc);
        *next = n + 1u;
    }
    return arrived;
}

static void try_line(uint64_t seed, struct serial_faults bad, uint64_t bytes)
{
    struct bench t;
    uint8_t message[MTU];
    uint32_t arrived = 0, next = 0, n = 0;
    open_bench(&t, MTU, MTU);
    t.a.bad = bad;
    uw_rng_seed(&t.a.bad.rng, seed);
    for (uint64_t sent = 0; sent < bytes;) {
        uint32_t size = make(seed, n, message);
        int rc = uw_link_send(&t.link[0].link, 0, message, size);
        if (rc == UW_ERR_AGAIN) {
            step(&t);
            arrived += check_arrivals(&t, seed, n, &next);
            continue;
        }
        assert_int_equal(rc, UW_OK);
        sent += size + 7u;
        n++;
    }
    while (t.link[0].frames.queue_n > 0 || t.b.n > 0) {
        step(&t);
        arrived += check_arrivals(&t, seed, n, &next);
    }
    assert_true(n - arrived <= 2u * t.a.hits_n);
    assert_true(arrived > n / 50u);
    if (t.a.hits_n == 0) {
        assert_int_equal(arrived, n);
        assert_int_equal(t.link[1].link.stats.dropped_n, 0);
    }
    close_bench(&t);
}

static void test_serial_bad_lines_deliver_no_wrong_byte(void **state)
{
    (void)state;
    static const struct serial_faults lines[] = {
        {0}, {.lost = 100}, {.repeated = 100}, {.flipped = 100}, {.garbage = 100},
        {.lost = 2500, .repeated = 2500, .flipped = 2500, .garbage = 2500},
        {.flipped = 10000}, {.lost = 5000, .repeated = 5000}, {.garbage = 10000},
        {.lost = 200, .repeated = 200, .flipped = 200, .garbage = 200},
    };
    const size_t lines_n = sizeof lines / sizeof lines[0];
    const char *count = getenv("UWASA_TEST_COUNT");
    uint64_t bytes = (count != NULL ? strtoull(count, NULL, 0) : 30u) * 1000000u / lines_n;
    uint64_t seed = uw_test_seed(1);
    for (size_t i = 0; i < lines_n; i++) {
        try_line(uw_rng_mix(seed, i), lines[i], bytes);
    }
}

static void test_serial_garbage_costs_nothing_behind_it(void **state)
{
    (void)state;
    struct uw_rng r;
    struct bench t;
    uint8_t got[MTU];
    open_bench(&t, MTU, MTU);
    uw_rng_seed(&r, uw_test_seed(2));
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t only = uw_rng_below(&r, 4); /* one byte again and again, or any */
        uint8_t byte = (uint8_t)uw_rng_u32(&r);
        for (uint32_t n = uw_rng_below(&r, 1500); n > 0; n--) {
            serial_pipe_put(&t.b, only == 0 ? byte : (uint8_t)uw_rng_u32(&r));
        }
        for (int k = 0; k < 10; k++) {
            assert_int_equal(take(&t, got), UW_ERR_AGAIN);
        }
        assert_int_equal(uw_link_send(&t.link[0].link, 0, &i, sizeof i), UW_OK);
        step(&t);
        assert_int_equal(take(&t, got), sizeof i);
        assert_memory_equal(got, &i, sizeof i);
    }
    close_bench(&t);
}

static void test_serial_line_that_repeats_one_byte_says_nothing(void **state)
{
    (void)state;
    struct bench t;
    uint8_t got[MTU];
    open_bench(&t, MTU, MTU);
    for (uint32_t byte = 1; byte < 256; byte++) {
        for (uint32_t n = 0; n < 300; n++) {
            for (uint32_t i = 0; i < n; i++) {
                serial_pipe_put(&t.b, (uint8_t)byte);
            }
            serial_pipe_put(&t.b, 0);
            assert_int_equal(take(&t, got), UW_ERR_AGAIN);
        }
    }
    close_bench(&t);
}

/* A frame whose zeros are hit takes one neighbour with it, not more. */
static void test_serial_each_byte_hit_costs_at_most_two_frames(void **state)
{
    (void)state;
    struct bench t;
    uint8_t got[MTU];
    for (int kind = 0; kind < 3; kind++) {
        for (uint32_t hit = 0;; hit++) {
            uint32_t numbers = 0;
            open_bench(&t, MTU, MTU);
            for (uint8_t i = 0; i < 6; i++) {
                uint8_t message[9] = {i, 0, 0xff, 1, 0, i, 2, 3, 4};
                assert_int_equal(uw_link_send(&t.link[0].link, 0, message, 9), UW_OK);
            }
            step(&t);
            if (hit == t.b.n) {
                close_bench(&t);
                break;
            }
            if (kind < 2) {
                t.b.ring[hit] = kind == 0 ? 0 : t.b.ring[hit] ^ 0x41u;
            } else {
                memmove(t.b.ring + hit, t.b.ring + hit + 1, t.b.n - hit - 1u);
                t.b.n--;
            }
            while (take(&t, got) == 9) {
                assert_true(got[0] < 6 && got[0] == got[5]);
                numbers |= 1u << got[0];
            }
            uint32_t lost = 0;
            for (uint32_t i = 0; i < 6; i++) {
                lost += (numbers >> i & 1u) == 0;
            }
            assert_true(lost <= 2);
            close_bench(&t);
        }
    }
}

/* ---- a slow, full or closed stream ---- */

static void test_serial_queue_that_is_full_says_again_and_loses_nothing(void **state)
{
    (void)state;
    struct bench t;
    uint8_t message[MTU], got[MTU];
    uint32_t accepted = 0, next = 0;
    open_bench(&t, MTU, MTU);
    t.a.take_bytes = 3;
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t size = make(3, accepted, message);
        int rc = uw_link_send(&t.link[0].link, 0, message, size);
        assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
        accepted += rc == UW_OK;
    }
    assert_true(accepted > 2 && accepted < 400); /* line and queue are full */
    while (t.link[0].frames.queue_n > 0 || t.b.n > 0) {
        step(&t);
        (void)check_arrivals(&t, 3, accepted, &next);
    }
    assert_int_equal(next, accepted);
    assert_int_equal(t.link[1].link.stats.received_n, accepted);
    assert_int_equal(take(&t, got), UW_ERR_AGAIN);
    close_bench(&t);
}

static void test_serial_step_says_when_the_line_has_room_again(void **state)
{
    (void)state;
    struct bench t;
    uint8_t message[MTU] = {0};
    open_bench(&t, MTU, MTU);
    assert_true(uw_link_step(&t.link[0].link, 10) == UINT64_MAX);
    t.b.n = SERIAL_PIPE_BYTES; /* it takes nothing */
    assert_int_equal(uw_link_send(&t.link[0].link, 0, message, 50), UW_OK);
    assert_int_equal(uw_link_step(&t.link[0].link, 10), 1010);
    t.a.base.rate_bits_per_s = 1000000;
    assert_int_equal(uw_link_step(&t.link[0].link, 20), 20 + 570); /* 57 bytes of 10 bits */
    t.a.base.rate_bits_per_s = 9600;
    assert_int_equal(uw_link_step(&t.link[0].link, 30), 30 + 5000);
    t.b.n = 0;
    assert_true(uw_link_step(&t.link[0].link, 40) == UINT64_MAX);
    close_bench(&t);
}

static int calls;

static int write_closed(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    (void)s;
    (void)buf;
    (void)bytes;
    calls++;
    return UW_ERR_CLOSED;
}

static int read_closed(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    (void)s;
    (void)buf;
    (void)cap_bytes;
    calls++;
    return UW_ERR_CLOSED;
}

static void test_serial_closed_stream_is_told_and_not_asked_again(void **state)
{
    (void)state;
    static const struct uw_serial_ops closed = {"closed", write_closed, read_closed};
    struct bench t;
    uint16_t from;
    uint8_t byte = 1;
    for (int writes = 0; writes < 2; writes++) {
        open_bench(&t, MTU, MTU);
        t.link[0].link.fd = 99;
        t.a.base.ops = &closed;
        calls = 0;
        if (writes) {
            assert_int_equal(uw_link_send(&t.link[0].link, 0, &byte, 1), UW_OK);
            step(&t);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(uw_link_recv(&t.link[0].link, &from, &byte, 1), UW_ERR_CLOSED);
            assert_int_equal(uw_link_send(&t.link[0].link, 0, &byte, 1), UW_ERR_CLOSED);
            assert_true(uw_link_step(&t.link[0].link, t.now_us += 10) == UINT64_MAX);
            assert_int_equal(t.link[0].link.fd, -1);
        }
        assert_int_equal(calls, 1);
        close_bench(&t);
    }
}

static void test_serial_longer_frames_than_here_are_dropped(void **state)
{
    (void)state;
    struct bench t;
    uint8_t message[200] = {1}, got[MTU];
    open_bench(&t, 200, 64);
    for (uint32_t bytes = 60; bytes <= 200; bytes++) {
        uint64_t dropped = t.link[1].link.stats.dropped_n;
        assert_int_equal(uw_link_send(&t.link[0].link, 0, message, bytes), UW_OK);
        step(&t);
        int rc = take(&t, got);
        while (t.b.n > 0) {
            rc = take(&t, got); /* it looks at a bounded number of bytes each time */
        }
        assert_int_equal(rc, bytes <= 64 ? (int)bytes : UW_ERR_AGAIN);
        assert_int_equal(t.link[1].link.stats.dropped_n - dropped, bytes > 64);
    }
    close_bench(&t);
}

static void test_serial_configuration_is_checked(void **state)
{
    (void)state;
    struct serial_pipe a, b;
    struct uw_link_serial l;
    serial_pipe_join(&a, &b);
    a.base.rate_bits_per_s = 115200;
    const uint32_t wrong[] = {1, 63, 2049, UINT32_MAX};
    struct uw_link_serial_config c = {.serial = &a.base};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        c.mtu_bytes = wrong[i];
        assert_true(uw_link_serial_bytes(&c) == SIZE_MAX);
        assert_int_equal(uw_link_serial_init(&l, &c), UW_ERR_INVALID);
    }
    c.mtu_bytes = 0;
    c.queue_n = 65;
    assert_true(uw_link_serial_bytes(&c) == SIZE_MAX);
    c.queue_n = 0;
    c.memory_bytes = uw_link_serial_bytes(&c) - 1u;
    c.memory = malloc(c.memory_bytes + 1u);
    assert_int_equal(uw_link_serial_init(&l, &c), UW_ERR_NOMEM);
    uw_link_deinit(&l.link);
    c.memory_bytes++;
    c.serial = NULL;
    assert_int_equal(uw_link_serial_init(&l, &c), UW_ERR_INVALID);
    c.serial = &a.base;
    assert_int_equal(uw_link_serial_init(&l, &c), UW_OK);
    assert_int_equal(l.link.mtu_bytes, UW_LINK_SERIAL_MTU_DEFAULT);
    assert_int_equal(l.link.rate_bits_per_s, 92160); /* 8 of 10 bits are data */
    uw_link_deinit(&l.link);
    free(c.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serial_frame_has_the_documented_bytes),
        cmocka_unit_test(test_serial_frames_of_every_size_hold_no_zero_and_no_byte_too_many),
        cmocka_unit_test(test_serial_bad_lines_deliver_no_wrong_byte),
        cmocka_unit_test(test_serial_garbage_costs_nothing_behind_it),
        cmocka_unit_test(test_serial_line_that_repeats_one_byte_says_nothing),
        cmocka_unit_test(test_serial_each_byte_hit_costs_at_most_two_frames),
        cmocka_unit_test(test_serial_queue_that_is_full_says_again_and_loses_nothing),
        cmocka_unit_test(test_serial_step_says_when_the_line_has_room_again),
        cmocka_unit_test(test_serial_closed_stream_is_told_and_not_asked_again),
        cmocka_unit_test(test_serial_longer_frames_than_here_are_dropped),
        cmocka_unit_test(test_serial_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("link_serial", tests, NULL, NULL);
}
