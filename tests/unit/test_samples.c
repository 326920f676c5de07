/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that come to a board over a line: whole, damaged, twice, and from who begins anew. */
#include "samples.h"

#include "serial_pipe.h"
#include "test_support.h"

#include "uwasa/link_serial.h"

#define PIXELS 6u
#define SAMPLE (1u + PIXELS)
#define ROOM 3u
#define ANSWER 25u

static struct serial_pipe host_end, board_end;
static struct uw_link_serial host, board;
static struct uw_samples samples;
static uint32_t word[6];                /* of the last answer */

static void open_line(struct uw_link_serial *l, struct serial_pipe *end, uint8_t *memory,
                      size_t bytes)
{
    const struct uw_link_serial_config c = {.serial = &end->base, .memory = memory,
                                            .memory_bytes = bytes, .mtu_bytes = 64};
    assert_int_equal(uw_link_serial_init(l, &c), UW_OK);
}

static void start_board(uint32_t burst_bytes)
{
    static uint8_t line[1000], memory[200];
    const struct uw_dataset shape = {.channels = 1, .height = 2, .width = 3, .classes = 4,
                                     .samples_n = ROOM};
    assert_true(uw_samples_bytes(&shape, ROOM) <= sizeof memory);
    memset(memory, 0xa5, sizeof memory);
    open_line(&board, &board_end, line, sizeof line);
    uw_samples_init(&samples, &shape, &board.link, burst_bytes, memory);
}

static void start(void)
{
    static uint8_t line[1000];
    serial_pipe_join(&host_end, &board_end);
    open_line(&host, &host_end, line, sizeof line);
    start_board(0);
}

/* Send a message. Returns whether it was answered; word[] then has the answer. */
static bool ask(const void *message, uint32_t bytes)
{
    uint8_t text[64];
    uint16_t from;
    assert_int_equal(uw_link_send(&host.link, 0, message, bytes), UW_OK);
    uw_samples_step(&samples, 0);
    int n = uw_link_recv(&host.link, &from, text, sizeof text);
    if (n < 0) {
        return false;
    }
    assert_int_equal(n, ANSWER);
    assert_int_equal(text[0], 'A');
    for (uint32_t i = 0; i < 6; i++) {
        memcpy(&word[i], text + 1 + 4 * i, 4);      /* hosts that test are little-endian */
    }
    return true;
}

/* Send bytes of the stream from a position. Returns the position that is wanted next. */
static uint32_t give(uint32_t position, const uint8_t *bytes, uint32_t n)
{
    uint8_t message[64] = {'D', (uint8_t)position};
    memcpy(message + UW_SAMPLES_MESSAGE_BYTES, bytes, n);
    assert_true(ask(message, UW_SAMPLES_MESSAGE_BYTES + n));
    return word[0];
}

static void make(uint8_t label, uint8_t value, uint8_t sample[SAMPLE])
{
    memset(sample, value, SAMPLE);
    sample[0] = label;
}

static void expect(uint64_t index, uint32_t label, uint8_t value)
{
    float x[PIXELS];
    uint32_t got = 99;
    assert_int_equal(samples.base.ops->read(&samples.base, index, x, &got), UW_OK);
    assert_int_equal(got, label);
    for (uint32_t i = 0; i < PIXELS; i++) {
        assert_true(x[i] == (float)value / 255.0f);
    }
}

static void test_samples_the_newest_are_held_and_read_as_0_to_1(void **state)
{
    (void)state;
    uint8_t sample[SAMPLE];
    float x[PIXELS];
    uint32_t label;
    start();
    assert_int_equal(samples.base.ops->read(&samples.base, 0, x, &label), UW_ERR_INVALID);
    assert_true(ask("H", 1));
    assert_int_equal(word[0], 0);
    assert_int_equal(word[1], SAMPLE);
    assert_int_equal(word[2], SAMPLE);
    assert_int_equal(word[3], 4);
    for (uint8_t i = 0; i < 9; i++) {
        make(i % 4, (uint8_t)(30 * i), sample);
        assert_int_equal(give(i * SAMPLE, sample, SAMPLE), (i + 1u) * SAMPLE);
        uint32_t held = i + 1u < ROOM ? i + 1u : ROOM;
        assert_int_equal(word[4], held);
        for (uint8_t back = 0; back < held; back++) {
            expect(back, (i - back) % 4u, (uint8_t)(30 * (i - back)));
            expect(back + 1000ull * held, (i - back) % 4u, (uint8_t)(30 * (i - back)));
        }
    }
    assert_int_equal(samples.received, 9);
    assert_int_equal(uw_samples_damaged(&samples), 0);
}

/* One part at a time, each twice: an answer may have been lost. */
static void test_samples_in_parts_are_held_when_they_are_whole(void **state)
{
    (void)state;
    uint8_t sample[SAMPLE];
    start();
    make(2, 200, sample);
    for (uint32_t at = 0; at < SAMPLE; at++) {
        assert_int_equal(samples.held, 0);
        assert_int_equal(give(at, sample + at, 1), at + 1);
        assert_int_equal(give(at, sample + at, 1), at + 1);
    }
    assert_int_equal(samples.held, 1);
    assert_int_equal(samples.received, 1);
    expect(0, 2, 200);
}

static void test_samples_of_who_begins_anew_are_whole(void **state)
{
    (void)state;
    uint8_t one[SAMPLE], other[SAMPLE];
    start();
    make(1, 10, one);
    make(3, 20, other);
    assert_int_equal(give(0, one, 4), 4);
    assert_true(ask("H", 1));               /* the sender has ended and is back */
    assert_int_equal(word[0], 0);
    assert_int_equal(give(0, other, SAMPLE), SAMPLE);
    expect(0, 3, 20);
    assert_int_equal(give(SAMPLE, one, 4), SAMPLE + 4);
    start_board(0);                         /* the board has */
    assert_int_equal(give(SAMPLE + 4, one + 4, SAMPLE - 4), 0);
    assert_int_equal(samples.held, 0);
    assert_int_equal(give(0, one, SAMPLE), SAMPLE);
    expect(0, 1, 10);
    assert_int_equal(uw_samples_damaged(&samples), 0);
}

static void test_samples_malformed_are_counted_and_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t bytes;
    } bad[] = {{"", 0}, {"X", 1}, {"HH", 2}, {"D", 1}, {"D\0\0\0\0", 5},
               {"D\0\0\0\0" "12345678", 13}};
    uint8_t sample[SAMPLE];
    start();
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_true(ask(bad[i].text, bad[i].bytes));
        assert_int_equal(word[0], 0);
        assert_int_equal(word[5], i + 1);
    }
    make(4, 9, sample);                     /* labels are 0 .. 3 */
    assert_int_equal(give(0, sample, SAMPLE), SAMPLE);
    assert_int_equal(word[5], 7);
    assert_int_equal(samples.held, 0);
    make(3, 9, sample);
    assert_int_equal(give(SAMPLE, sample, SAMPLE), 2 * SAMPLE);
    expect(0, 3, 9);
}

/* A line that damages one byte in fifty: a sender that repeats gets all samples over, each once. */
static void test_samples_over_a_bad_line_are_whole_and_come_once(void **state)
{
    (void)state;
    uint8_t message[64] = {'D'}, sample[SAMPLE];
    uint32_t position = 0, asked = 0;
    start();
    host_end.bad = (struct serial_faults){.lost = 5000, .flipped = 10000, .garbage = 5000};
    uw_rng_seed(&host_end.bad.rng, uw_test_seed(1));
    for (uint8_t i = 0; i < 100; i++) {
        make(i % 4, i, sample);
        memcpy(message + UW_SAMPLES_MESSAGE_BYTES, sample, SAMPLE);
        for (uint32_t end = position + SAMPLE; position != end;) {
            assert_true(asked++ < 1000);
            message[1] = (uint8_t)position;
            message[2] = (uint8_t)(position >> 8);
            (void)ask(message, UW_SAMPLES_MESSAGE_BYTES + SAMPLE);
            position = word[0];
        }
        assert_int_equal(samples.received, i + 1u);
        expect(0, i % 4, i);
    }
    assert_true(asked > 100 && uw_samples_damaged(&samples) > 0);
}

/* What may come at once fits into what the line holds, framed. */
static void test_samples_parts_fit_the_burst(void **state)
{
    (void)state;
    static uint8_t line[8000], memory[8000];
    const struct uw_dataset shape = {.channels = 1, .height = 28, .width = 28, .classes = 10,
                                     .samples_n = 1};
    for (uint32_t burst = 64; burst <= 1024; burst *= 2) {
        serial_pipe_join(&host_end, &board_end);
        const struct uw_link_serial_config c = {.serial = &host_end.base, .memory = line,
                                                .memory_bytes = sizeof line, .mtu_bytes = 800};
        assert_int_equal(uw_link_serial_init(&host, &c), UW_OK);
        uw_samples_init(&samples, &shape, &host.link, burst, memory);
        uint32_t part = samples.part_bytes;
        assert_true(part == 785 || part + 40 > burst);
        memset(memory, 1, UW_SAMPLES_MESSAGE_BYTES + part);
        assert_int_equal(uw_link_send(&host.link, 0, memory, UW_SAMPLES_MESSAGE_BYTES + part),
                         UW_OK);
        assert_true(board_end.n <= burst);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_the_newest_are_held_and_read_as_0_to_1),
        cmocka_unit_test(test_samples_in_parts_are_held_when_they_are_whole),
        cmocka_unit_test(test_samples_of_who_begins_anew_are_whole),
        cmocka_unit_test(test_samples_malformed_are_counted_and_dropped),
        cmocka_unit_test(test_samples_over_a_bad_line_are_whole_and_come_once),
        cmocka_unit_test(test_samples_parts_fit_the_burst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
