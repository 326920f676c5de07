/* SPDX-License-Identifier: Apache-2.0
 *
 * Many stations on one serial line: who hears what, whose turn it is, and garbage. On virtual
 * time; a station looks at the line every LOOK_US. */
#include "test_support.h"

#include "serial_line.h"

#include "uwasa/link_frame.h"
#include "uwasa/radio_bus.h"

#define FRAME 120u
#define LOOK_US 50u
#define BAUD 115200u

struct bench {
    struct serial_line line;
    struct uw_radio_bus bus[SERIAL_LINE_MAX];
    struct uw_link_frame link[SERIAL_LINE_MAX];
    void *memory[SERIAL_LINE_MAX];
    uint64_t now_us;
};

static void open_bench(struct bench *t, uint32_t stations_n, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    serial_line_open(&t->line, stations_n, BAUD);
    uw_rng_seed(&t->line.rng, seed);
    for (uint16_t i = 0; i < stations_n; i++) {
        struct uw_radio_bus_config c = {.serial = &t->line.at[i].base, .address = i,
                                        .frame_bytes = FRAME, .seed = seed};
        c.memory_bytes = uw_radio_bus_bytes(&c);
        c.memory = t->memory[i] = uw_test_block(c.memory_bytes);
        assert_int_equal(uw_radio_bus_init(&t->bus[i], &c), UW_OK);
        const struct uw_link_frame_config f = {.radio = &t->bus[i].base};
        assert_int_equal(uw_link_frame_init(&t->link[i], &f), UW_OK);
    }
    t->now_us = 1000000;
    serial_line_run(&t->line, t->now_us);
}

static void close_bench(struct bench *t)
{
    for (uint32_t i = 0; i < t->line.stations_n; i++) {
        uw_link_deinit(&t->link[i].link);
        uw_test_release(t->memory[i]);
    }
}

static void step(struct bench *t)
{
    t->now_us += LOOK_US;
    serial_line_run(&t->line, t->now_us);
    for (uint32_t i = 0; i < t->line.stations_n; i++) {
        (void)uw_link_step(&t->link[i].link, t->now_us);
    }
}

static void run(struct bench *t, uint64_t us)
{
    for (const uint64_t end_us = t->now_us + us; t->now_us < end_us;) {
        step(t);
    }
}

static int take(struct bench *t, uint32_t station, uint16_t *from, uint8_t *buf)
{
    return uw_link_recv(&t->link[station].link, from, buf, FRAME);
}

static void speak_by_hand(struct bench *t, uint32_t station, const void *bytes, uint32_t n)
{
    struct uw_serial *s = &t->line.at[station].base;
    assert_int_equal(s->ops->write(s, bytes, n), (int)n);
}

/* ---- the form of a frame, and whose it is ---- */

static void test_bus_frame_has_the_documented_bytes(void **state)
{
    (void)state;
    struct bench t;
    /* zero; to 0x0102, from 1, payload 77 88 */
    static const uint8_t head[] = {0, 4, 0x02, 0x01, 0x01, 7, 0x77, 0x88};
    open_bench(&t, 2, 1);
    assert_int_equal(uw_link_send(&t.link[1].link, 0x102, "\x77\x88", 2), UW_OK);
    run(&t, 20000);
    assert_int_equal(t.line.at[0].in.n, 0);     /* heard, and of no use */
    t.line.at[0].in.at = 0;
    assert_memory_equal(t.line.at[0].in.bytes, head, sizeof head);
    assert_int_equal(t.line.carried_n, 2 + 7 + 4);
    close_bench(&t);
}

static void test_bus_stations_hear_their_own_frames_only(void **state)
{
    (void)state;
    for (int echo = 0; echo < 2; echo++) {
        struct bench t;
        uint8_t buf[FRAME];
        uint16_t from;
        open_bench(&t, 4, 2);
        t.line.echo = echo;
        static const uint16_t to[] = {0, 2, UW_LINK_STATION_BROADCAST, 3, 77};
        for (uint8_t k = 0; k < 5; k++) {
            int rc = UW_ERR_AGAIN;
            for (int i = 0; i < 2000 && rc == UW_ERR_AGAIN; i++) {
                rc = uw_link_send(&t.link[1].link, to[k], &k, 1);
                step(&t);
            }
            assert_int_equal(rc, UW_OK);
            run(&t, 10000);
            for (uint32_t i = 0; i < 4; i++) {
                bool all = to[k] == UW_LINK_STATION_BROADCAST;
                bool wanted = (i != 1 || echo) && (to[k] == i || all);
                assert_int_equal(take(&t, i, &from, buf), wanted ? 1 : UW_ERR_AGAIN);
                assert_true(!wanted || (from == 1 && buf[0] == k));
            }
        }
        assert_int_equal(t.bus[0].dropped_n, 0);
        close_bench(&t);
    }
}

/* A frame with a good checksum, by hand: from station 0, whose framer is made to say it. */
static void say(struct bench *t, const void *contents, uint32_t bytes, uint32_t crc_start)
{
    struct uw_serial_frames f;
    uint8_t memory[1024];
    assert_true(uw_serial_frames_bytes(FRAME + 100u, 1) <= sizeof memory);
    uw_serial_frames_init(&f, &t->line.at[0].base, memory, FRAME + 100u, 1, crc_start);
    assert_int_equal(uw_serial_frames_put(&f, contents, bytes, NULL, 0), UW_OK);
    assert_int_equal(uw_serial_frames_drain(&f), UW_OK);
    run(t, 60000);
}

static void test_bus_frames_of_nobody_are_skipped(void **state)
{
    (void)state;
    struct bench t;
    uint8_t buf[FRAME], long_one[FRAME + 5u] = {1, 0, 0, 0};
    uint16_t from;
    open_bench(&t, 2, 3);
    static const uint8_t heads[][4] = {{1, 0, 0xff, 0xff}, {1, 0, 0xfe, 0xff}, {1, 0, 1, 0},
                                       {2, 0, 0, 0}, {0xff, 0xff, 0, 0}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        say(&t, heads[i], 4, UW_RADIO_BUS_CRC_START);
        assert_int_equal(take(&t, 1, &from, buf), UW_ERR_AGAIN);
    }
    for (uint32_t bytes = 0; bytes < 4; bytes++) {
        say(&t, "\x01\0\0", bytes, UW_RADIO_BUS_CRC_START);
        assert_int_equal(take(&t, 1, &from, buf), UW_ERR_AGAIN);
    }
    assert_int_equal(t.bus[1].dropped_n, 0);
    say(&t, "\x01\0\0\0", 4, UW_RADIO_BUS_CRC_START + 1u);
    assert_int_equal(take(&t, 1, &from, buf), UW_ERR_AGAIN);
    assert_int_equal(t.bus[1].dropped_n, 1);
    say(&t, long_one, sizeof long_one, UW_RADIO_BUS_CRC_START);
    assert_int_equal(take(&t, 1, &from, buf), UW_ERR_AGAIN);
    assert_int_equal(t.bus[1].dropped_n, 2);
    say(&t, "\x01\0\0\0", 4, UW_RADIO_BUS_CRC_START);
    assert_int_equal(take(&t, 1, &from, buf), 0);
    assert_int_equal(from, 0);
    say(&t, long_one, 4 + 20, UW_RADIO_BUS_CRC_START);
    assert_int_equal(uw_link_recv(&t.link[1].link, &from, buf, 19), UW_ERR_TOOBIG);
    close_bench(&t);
}

/* ---- whose turn it is ---- */

/* Message k of a station: its number, repeated. */
static uint32_t make(uint32_t station, uint32_t k, uint8_t out[FRAME])
{
    uint32_t bytes = 8u + (k * 37u + station * 11u) % (FRAME - 7u);
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(station * 16u + k / (i % 3u + 1u) + i);
    }
    memcpy(out, &k, sizeof k);
    return bytes;
}

struct counts {
    uint32_t sent, arrived;
};

/* Stations below `speakers_n` say all the time something to the next one. */
static struct counts speak_for(struct bench *t, uint32_t speakers_n, uint64_t us)
{
    struct counts c = {0, 0};
    uint32_t next[SERIAL_LINE_MAX] = {0}, heard[SERIAL_LINE_MAX] = {0};
    uint8_t buf[FRAME], want[FRAME];
    const uint32_t n = t->line.stations_n;
    for (const uint64_t end_us = t->now_us + us; t->now_us < end_us + 200000;) {
        for (uint32_t i = 0; i < n; i++) {
            uint16_t from;
            uint32_t k;
            for (int rc; (rc = take(t, i, &from, buf)) >= 0; c.arrived++) {
                assert_int_equal(from, (i + n - 1u) % n);
                memcpy(&k, buf, sizeof k);
                assert_true(k >= heard[from] && k < next[from]);
                assert_int_equal(rc, make(from, k, want));
                assert_memory_equal(buf, want, (size_t)rc);
                heard[from] = k + 1u;
            }
            if (i < speakers_n && t->now_us < end_us) {
                uint32_t bytes = make(i, next[i], buf);
                int rc = uw_link_send(&t->link[i].link, (uint16_t)((i + 1u) % n), buf, bytes);
                assert_true(rc == UW_OK || rc == UW_ERR_AGAIN);
                next[i] += rc == UW_OK;
                c.sent += rc == UW_OK;
            }
        }
        step(t);
    }
    return c;
}

static void test_bus_nobody_begins_when_others_are_heard(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(4);
    for (uint32_t n = 1; n <= 6; n++) {
        struct bench t;
        open_bench(&t, n + 1u, seed + n);
        t.line.echo = n % 2u == 0;
        t.line.fifo_bytes = n < 4 ? SERIAL_LINE_BYTES : 16u;    /* as a UART has */
        struct counts c = speak_for(&t, n, 10000000);
        printf("%u stations that always have something: %u frames, %.1f %% lost, "
               "%.0f %% of the time taken\n", (unsigned)n, (unsigned)c.sent,
               100.0 * (c.sent - c.arrived) / c.sent,
               100.0 * (double)t.line.carried_n / (BAUD / 10.0) / 10.0);
        /* A byte has to be whole before it is heard, and then looked at. */
        assert_true(t.line.latest_us <= t.bus[0].slot_us + 87u + LOOK_US);
        assert_true(c.sent > 500);
        assert_int_equal(c.sent - c.arrived > 0, n > 1);
        assert_true(4u * (c.sent - c.arrived) <= c.sent);
        close_bench(&t);
    }
}

/* As where the speaker's driver is slow: longer than all slots, shorter than the gap
 * that ends a frame. */
static void test_bus_frame_that_pauses_is_waited_for(void **state)
{
    (void)state;
    struct bench t;
    uint8_t bytes[64];
    open_bench(&t, 3, 10);
    memset(bytes, 0x55, sizeof bytes);
    bytes[0] = 0;
    speak_by_hand(&t, 2, bytes, sizeof bytes);
    run(&t, 64 * 87 + 1000);
    uint64_t carried_n = t.line.carried_n;
    assert_int_equal(uw_link_send(&t.link[0].link, 1, bytes, 20), UW_OK);
    run(&t, 15000);
    assert_int_equal(t.line.carried_n, carried_n);
    speak_by_hand(&t, 2, "\x55\0", 2);
    run(&t, 15000);
    assert_int_equal(t.line.carried_n, carried_n + 2 + 2 + 1 + 4 + 20 + 4);
    assert_int_equal(t.line.collided_n, 0);
    close_bench(&t);
}

static void test_bus_who_answers_does_not_collide(void **state)
{
    (void)state;
    struct bench t;
    uint8_t buf[FRAME] = {0};
    uint16_t from;
    open_bench(&t, 3, 5);
    assert_int_equal(uw_link_send(&t.link[0].link, 1, buf, 50), UW_OK);
    for (uint32_t turns = 0; turns < 300;) {
        step(&t);
        for (uint16_t i = 0; i < 3; i++) {
            if (take(&t, i, &from, buf) >= 0) {
                assert_int_equal(uw_link_send(&t.link[i].link, (uint16_t)((i + 1u) % 3u), buf, 50),
                                 UW_OK);
                turns++;
            }
        }
        assert_true(t.now_us < 10000000);
    }
    assert_int_equal(t.line.collided_n, 0);
    close_bench(&t);
}

static void test_bus_airtime_is_what_a_frame_takes(void **state)
{
    (void)state;
    struct bench t;
    uint8_t buf[FRAME] = {1};
    open_bench(&t, 2, 6);
    uint32_t sent = 0;
    for (uint64_t end_us = t.now_us + 20000000; t.now_us < end_us; step(&t)) {
        sent += uw_link_send(&t.link[0].link, 1, buf, FRAME) == UW_OK;
    }
    double measured_us = 20e6 / sent;
    const struct uw_radio *radio = &t.bus[0].base;
    double frame_us = (double)radio->ops->airtime_us(radio, FRAME) + radio->access_us;
    printf("a frame of %u bytes: airtime and access %.0f us, measured %.0f us\n", FRAME, frame_us,
           measured_us);
    assert_true(measured_us > 0.97 * frame_us && measured_us < 1.03 * frame_us);
    assert_int_equal(t.link[0].link.rate_bits_per_s, (uint64_t)(FRAME * 8e6 / frame_us));
    close_bench(&t);
}

/* ---- garbage ---- */

static void test_bus_line_is_found_again_after_garbage(void **state)
{
    (void)state;
    struct bench t;
    struct uw_rng r;
    uint8_t buf[FRAME];
    uint16_t from;
    open_bench(&t, 3, 7);
    uw_rng_seed(&r, uw_test_seed(7));
    for (uint32_t k = 0; k < 200; k++) {
        uint8_t noise[500];
        uint32_t noise_n = uw_rng_below(&r, sizeof noise), only = uw_rng_below(&r, 3);
        for (uint32_t i = 0; i < noise_n; i++) {
            noise[i] = only == 0 ? (uint8_t)k : (uint8_t)uw_rng_u32(&r);
        }
        speak_by_hand(&t, 2, noise, noise_n);
        run(&t, 500 * 87);
        uint64_t begin_us = t.now_us;
        assert_int_equal(uw_link_send(&t.link[0].link, 1, &k, sizeof k), UW_OK);
        while (take(&t, 1, &from, buf) != (int)sizeof k) {  /* the first frame behind it */
            step(&t);
            assert_true(t.now_us < begin_us + 40000);
        }
        assert_memory_equal(buf, &k, sizeof k);
    }
    close_bench(&t);
}

static void test_bus_bad_line_delivers_no_wrong_byte(void **state)
{
    (void)state;
    uint64_t seed = uw_test_seed(8);
    static const uint32_t bad[] = {100, 1000, 10000};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bench t;
        open_bench(&t, 3, uw_rng_mix(seed, i));
        t.line.bad = bad[i];
        struct counts c = speak_for(&t, 2, 20000000);
        assert_true(c.arrived > c.sent / 10u && c.arrived < c.sent);
        assert_true(t.bus[2].dropped_n > 0);
        close_bench(&t);
    }
}

/* ---- set-up and end ---- */

static void test_bus_closed_stream_is_told(void **state)
{
    (void)state;
    struct bench t;
    uint8_t byte = 1;
    uint16_t from;
    open_bench(&t, 2, 9);
    t.bus[0].base.fd = 99;
    t.line.at[0].closed = true;
    step(&t);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uw_link_recv(&t.link[0].link, &from, &byte, 1), UW_ERR_CLOSED);
        assert_int_equal(uw_link_send(&t.link[0].link, 1, &byte, 1), UW_ERR_CLOSED);
        assert_int_equal(t.link[0].link.fd, -1);
        assert_true(uw_link_step(&t.link[0].link, t.now_us += 10) == UINT64_MAX);
    }
    close_bench(&t);
}

static void test_bus_configuration_is_checked(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 50, 1281, UINT32_MAX};
    struct serial_line line;
    struct uw_radio_bus b;
    uint8_t memory[4096];
    serial_line_open(&line, 1, 9600);
    struct uw_radio_bus_config c = {.serial = &line.at[0].base, .memory = memory};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        c.frame_bytes = sizes[i];
        assert_true(uw_radio_bus_bytes(&c) == SIZE_MAX);
        assert_int_equal(uw_radio_bus_init(&b, &c), UW_ERR_INVALID);
    }
    c.frame_bytes = 0;
    c.memory_bytes = uw_radio_bus_bytes(&c) - 1u;
    assert_int_equal(uw_radio_bus_init(&b, &c), UW_ERR_NOMEM);
    c.memory_bytes++;
    c.address = UW_RADIO_ADDRESS_MAX + 1u;
    assert_int_equal(uw_radio_bus_init(&b, &c), UW_ERR_INVALID);
    c.address--;
    c.serial = NULL;
    assert_int_equal(uw_radio_bus_init(&b, &c), UW_ERR_INVALID);
    c.serial = &line.at[0].base;
    line.at[0].base.burst_bytes = 600;
    assert_int_equal(uw_radio_bus_init(&b, &c), UW_OK);
    assert_int_equal(b.base.frame_bytes, UW_RADIO_BUS_FRAME_DEFAULT);
    assert_int_equal(b.base.burst_n, 2);
    assert_int_equal(b.slot_us, 8333);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bus_frame_has_the_documented_bytes),
        cmocka_unit_test(test_bus_stations_hear_their_own_frames_only),
        cmocka_unit_test(test_bus_frames_of_nobody_are_skipped),
        cmocka_unit_test(test_bus_nobody_begins_when_others_are_heard),
        cmocka_unit_test(test_bus_frame_that_pauses_is_waited_for),
        cmocka_unit_test(test_bus_who_answers_does_not_collide),
        cmocka_unit_test(test_bus_airtime_is_what_a_frame_takes),
        cmocka_unit_test(test_bus_line_is_found_again_after_garbage),
        cmocka_unit_test(test_bus_bad_line_delivers_no_wrong_byte),
        cmocka_unit_test(test_bus_closed_stream_is_told),
        cmocka_unit_test(test_bus_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("radio_bus", tests, NULL, NULL);
}
