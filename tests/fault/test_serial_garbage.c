/* SPDX-License-Identifier: Apache-2.0
 *
 * A serial line with garbage in up to 1 % of its bytes: no message arrives that was not sent, and
 * the line is found again within two frames.
 *
 * A frame owns its bytes, the zero that ends it, and a zero in front of it that ends no other. Of
 * each the test knows whether garbage hit a byte that it owns, or came before one. A frame that
 * was not hit is lost only right behind one that was: the second frame behind garbage always
 * arrives. Each message that arrives is compared with what was sent, all its bytes.
 *
 * UWASA_TEST_COUNT: millions of bytes on the line in all (10), over every kind of garbage and rate.
 * UWASA_TEST_SEED: another seed. Prints what was lost of how many, and how fast it went. */
#include "test_support.h"

#include "pty_pair.h"

#include "uwasa/link_serial.h"
#include "uwasa/rng.h"
#include "uwasa/serial_tty.h"

#include <time.h>

#define MTU 512u
#define BATCH 3u                /* messages that wait behind each other, at most */
#define LINE_BYTES 2048u        /* on the line at once */
#define NOISE_BYTES (1u << 16)
#define KEPT_N 1024u            /* messages that may still arrive */
#define MARKS_N (1u << 16)      /* frames of which it is known whether they were hit */
#define BURST_MAX 64u
#define WAIT_US 2000000u

enum kind { FLIP, REPLACE, INSERT, DROP, ZERO, BURST, MIXED, KINDS };

static const char *const names[KINDS] = {"bits flipped", "replaced", "inserted", "dropped",
                                         "zeros inserted", "bursts", "all of these"};
static const uint32_t rates_ppm[] = {100, 1000, 10000};
#define RATES (sizeof rates_ppm / sizeof rates_ppm[0])

/* One end's stream: what was written waits for the line, what the line brings is read. */
struct tape {
    struct uw_serial base;
    bool blocked;
    uint32_t at, n;
    uint8_t bytes[2u * LINE_BYTES + BURST_MAX];
};

struct sent {
    uint32_t bytes;
    uint8_t message[MTU];
};

struct trial {
    struct tape out, in;
    struct uw_link *from, *to;
    struct uw_rng rng;
    enum kind kind;
    uint32_t rate_ppm;              /* of bytes hit */
    uint64_t quiet;                 /* bytes until the next garbage */
    struct sent kept[KEPT_N];
    uint8_t hit[MARKS_N];
    uint32_t sent_n, next, arrived_n, hit_n, beside_n, ended_n;
    uint64_t line_bytes, now_us;
};

static uint8_t noise[3][NOISE_BYTES];       /* with few zeros, with some, with many */
static struct trial trial;
static struct uw_link_serial links[2];
static void *memory[2];

/* ---- streams and links ---- */

static int tape_write(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    struct tape *t = (struct tape *)s;
    if (t->blocked) {
        return 0;
    }
    assert_true(bytes <= sizeof t->bytes - t->n);
    memcpy(t->bytes + t->n, buf, bytes);
    t->n += bytes;
    return (int)bytes;
}

static int tape_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct tape *t = (struct tape *)s;
    uint32_t n = cap_bytes < t->n - t->at ? cap_bytes : t->n - t->at;
    memcpy(buf, t->bytes + t->at, n);
    t->at += n;
    return (int)n;
}

static const struct uw_serial_ops tape_ops = {"tape", tape_write, tape_read};

static void open_end(size_t i, struct uw_serial *serial)
{
    struct uw_link_serial_config c = {.serial = serial, .mtu_bytes = MTU, .queue_n = BATCH};
    c.memory_bytes = uw_link_serial_bytes(&c);
    c.memory = memory[i] = uw_test_block(c.memory_bytes);
    assert_int_equal(uw_link_serial_init(&links[i], &c), UW_OK);
}

static void close_ends(void)
{
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&links[i].link);
        uw_test_release(memory[i]);
    }
}

static void open_trial(enum kind kind, uint32_t rate_ppm, uint64_t seed)
{
    memset(&trial, 0, sizeof trial);
    trial.kind = kind;
    trial.rate_ppm = rate_ppm;
    trial.out.base = trial.in.base = (struct uw_serial){.ops = &tape_ops, .fd = -1};
    trial.from = &links[0].link;
    trial.to = &links[1].link;
    uw_rng_seed(&trial.rng, seed);
}

/* ---- garbage ---- */

static uint32_t below(uint32_t n)
{
    return uw_rng_below(&trial.rng, n);
}

static uint8_t another(uint8_t byte)
{
    return (uint8_t)(byte + 1u + below(255));
}

/* How many bytes stay as they are until the next garbage. */
static uint64_t draw_quiet(void)
{
    double each = trial.kind == BURST ? (double)(BURST_MAX + 2u) / 2.0 : 1.0;
    double p = (double)trial.rate_ppm / 1e6 / each;
    double u = ((double)uw_rng_u32(&trial.rng) + 1.0) / 4294967296.0;
    return trial.rate_ppm != 0 ? (uint64_t)(log(u) / log1p(-p)) : UINT64_MAX;
}

static void put(uint8_t byte)
{
    assert_true(trial.in.n < sizeof trial.in.bytes);
    trial.in.bytes[trial.in.n++] = byte;
}

static void spoil(enum kind kind, uint8_t byte)
{
    if (kind == INSERT || kind == ZERO) {
        put(kind == ZERO ? 0 : (uint8_t)uw_rng_u32(&trial.rng));
        put(byte);
    } else if (kind == FLIP) {
        put(byte ^ (uint8_t)(1u << below(8)));
    } else if (kind == REPLACE) {
        put(another(byte));
    }
}

static void mark(uint32_t frame)
{
    trial.hit_n += trial.hit[frame % MARKS_N] == 0;
    trial.hit[frame % MARKS_N] = 1;
}

/* From the clean bytes of the batch that begins with frame `first` to what arrives. A burst has one
 * kind, which ends with the batch. */
static void damage(const uint8_t *clean, uint32_t n, uint32_t first)
{
    uint32_t frame = first, burst = 0;
    enum kind kind = trial.kind;
    bool inside = false;
    for (uint32_t i = 0; i < n; i++) {
        if (burst == 0 && trial.quiet == 0) {
            burst = trial.kind == BURST ? 2u + below(BURST_MAX - 1u) : 1u;
            kind = trial.kind < BURST ? trial.kind : (enum kind)below(BURST);
            trial.quiet = draw_quiet();
        }
        if (burst > 0) {
            burst--;
            mark(frame);
            spoil(kind, clean[i]);
        } else {
            trial.quiet--;
            put(clean[i]);
        }
        frame += inside && clean[i] == 0;
        inside = clean[i] != 0;
    }
    trial.ended_n += frame - first;
    trial.line_bytes += n;
}

/* ---- messages ---- */

static void send_one(void)
{
    struct sent *s = &trial.kept[trial.sent_n % KEPT_N];
    uint32_t size = below(8) == 0 ? below(MTU - 7u) : below(60);
    uint32_t from = below(NOISE_BYTES - MTU);
    s->bytes = size + 8u;
    memcpy(s->message, &trial.sent_n, 4);
    memcpy(s->message + 4, &from, 4);
    memcpy(s->message + 8, noise[below(3)] + from, size);
    trial.hit[trial.sent_n % MARKS_N] = 0;
    assert_int_equal(uw_link_send(trial.from, 0, s->message, s->bytes), UW_OK);
    trial.sent_n++;
}

/* Frames up to n did not arrive. Who was not hit stands right behind one that was. */
static void expect_lost(uint32_t n)
{
    assert_true(n - trial.next < MARKS_N - 1u);
    for (; trial.next < n; trial.next++) {
        if (trial.hit[trial.next % MARKS_N] == 0) {
            assert_true(trial.next > 0 && trial.hit[(trial.next - 1u) % MARKS_N] != 0);
            trial.beside_n++;
        }
    }
}

static void take_all(void)
{
    uint8_t got[MTU];
    uint16_t from;
    for (int rc; (rc = uw_link_recv(trial.to, &from, got, MTU)) != UW_ERR_AGAIN ||
                 trial.in.at < trial.in.n;) {
        uint32_t n;
        if (rc == UW_ERR_AGAIN) {
            continue;           /* it looks at a bounded number of bytes each time */
        }
        assert_true(rc >= 8);
        memcpy(&n, got, 4);
        assert_true(n >= trial.next && n < trial.sent_n && trial.sent_n - n <= KEPT_N);
        assert_int_equal(rc, trial.kept[n % KEPT_N].bytes);
        assert_memory_equal(got, trial.kept[n % KEPT_N].message, (size_t)rc);
        expect_lost(n);
        trial.next = n + 1u;
        trial.arrived_n++;
    }
}

static void step_sender(void)
{
    trial.now_us += 1000;
    (void)uw_link_step(trial.from, trial.now_us);
}

/* Some messages, whose frames share zeros, over the line in memory. */
static void send_batch(uint32_t n)
{
    uint32_t first = trial.sent_n;
    trial.out.blocked = true;
    for (uint32_t i = 0; i < n; i++) {
        send_one();
    }
    trial.out.blocked = false;
    step_sender();
    trial.in.at = trial.in.n = 0;
    damage(trial.out.bytes, trial.out.n, first);
    assert_int_equal(trial.ended_n, trial.sent_n);
    trial.out.n = 0;
    take_all();
}

/* The line is clean again: all arrives but the first frame, which may pay for the one before. */
static void end_clean(void (*send)(uint32_t n))
{
    trial.quiet = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        send(1);
    }
    assert_int_equal(trial.next, trial.sent_n);
    assert_true(trial.arrived_n + trial.hit_n + trial.beside_n >= trial.sent_n);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell(void)
{
    print_message("%-14s %5.2f %%: %8u frames, %7u hit, %7u arrived, %5u lost beside\n",
                  names[trial.kind], trial.rate_ppm / 1e4, (unsigned)trial.sent_n,
                  (unsigned)trial.hit_n, (unsigned)trial.arrived_n, (unsigned)trial.beside_n);
}

static void make_noise(uint64_t seed)
{
    struct uw_rng r;
    uw_rng_seed(&r, seed);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < NOISE_BYTES; i++) {
            uint32_t x = uw_rng_u32(&r);
            bool zero = k == 1 ? (x >> 8) % 4u == 0 : k == 2 && (x >> 8) % 8u != 0;
            noise[k][i] = zero ? 0 : (uint8_t)x;
        }
    }
}

static void test_serial_garbage_is_never_a_message_and_costs_at_most_the_next(void **state)
{
    (void)state;
    const char *count = getenv("UWASA_TEST_COUNT");
    uint64_t bytes = (count != NULL ? strtoull(count, NULL, 0) : 10u) * 1000000u, all = 0;
    uint64_t seed = uw_test_seed(1);
    double start = seconds();
    make_noise(seed);
    for (uint32_t i = 0; i < KINDS * RATES; i++) {
        open_trial((enum kind)(i / RATES), rates_ppm[i % RATES], uw_rng_mix(seed, i));
        open_end(0, &trial.out.base);
        open_end(1, &trial.in.base);
        trial.quiet = draw_quiet();
        while (trial.line_bytes < bytes / (KINDS * RATES)) {
            send_batch(1u + below(BATCH));
        }
        all += trial.line_bytes;
        end_clean(send_batch);
        assert_true(trial.hit_n > 0 && trial.arrived_n > trial.sent_n / 4u);
        tell();
        close_ends();
    }
    double took = seconds() - start;
    print_message("%.0f bytes, none wrong, in %.1f s: %.1f MB/s\n", (double)all, took,
                  (double)all / 1e6 / took);
}

/* ---- the same over pseudo terminals ---- */

static struct pty_pair cable = {.master = {-1, -1}};
static struct uw_serial_tty tty[2];

static uint64_t real_us(void)
{
    return (uint64_t)(seconds() * 1e6);
}

/* Take from the sender's terminal until all its frames have ended. */
static uint32_t read_clean(uint8_t *clean, uint32_t frames_n)
{
    uint32_t n = 0, ended = 0;
    uint64_t end_us = real_us() + WAIT_US;
    while (ended < frames_n) {
        assert_true(real_us() < end_us);
        step_sender();
        ssize_t got = read(cable.master[0], clean + n, LINE_BYTES - n);
        for (ssize_t i = 0; i < got; i++, n++) {
            ended += clean[n] == 0 && n > 0 && clean[n - 1u] != 0;
        }
    }
    return n;
}

static void send_batch_over_pty(uint32_t frames_n)
{
    uint8_t clean[LINE_BYTES];
    uint32_t first = trial.sent_n, at = 0;
    uint64_t end_us = real_us() + WAIT_US;
    for (uint32_t i = 0; i < frames_n; i++) {
        send_one();
    }
    uint32_t n = read_clean(clean, frames_n);
    trial.in.at = trial.in.n = 0;
    damage(clean, n, first);
    n = trial.in.n;
    trial.in.n = 0;             /* the terminal brings it */
    while (at < n || (trial.quiet == UINT64_MAX && trial.next < trial.sent_n)) {
        ssize_t put_n = at < n ? write(cable.master[1], trial.in.bytes + at, n - at) : 0;
        at += put_n > 0 ? (uint32_t)put_n : 0;
        take_all();
        if (real_us() > end_us) {
            return;             /* of the clean frames the first may be lost */
        }
    }
    take_all();
}

static void test_serial_garbage_over_a_pty_does_no_more(void **state)
{
    (void)state;
    const uint64_t bytes = 200000;
    if (!pty_pair_open(&cable)) {
        print_message("skipped: this machine has no pseudo terminals\n");
        skip();
    }
    make_noise(2);
    for (size_t i = 0; i < RATES; i++) {
        double start = seconds();
        open_trial(MIXED, rates_ppm[i], uw_test_seed(2 + i));
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(uw_serial_tty_open(&tty[k], cable.name[k], 4000000, NULL), UW_OK);
            open_end(k, &tty[k].base);
        }
        trial.quiet = draw_quiet();
        while (trial.line_bytes < bytes) {
            send_batch_over_pty(1u + below(BATCH));
        }
        end_clean(send_batch_over_pty);
        tell();
        print_message("%.1f MB/s\n", (double)trial.line_bytes / 1e6 / (seconds() - start));
        close_ends();
        uw_serial_tty_close(&tty[0]);
        uw_serial_tty_close(&tty[1]);
    }
    pty_pair_close(&cable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serial_garbage_is_never_a_message_and_costs_at_most_the_next),
        cmocka_unit_test(test_serial_garbage_over_a_pty_does_no_more),
    };
    return cmocka_run_group_tests_name("serial_garbage", tests, NULL, NULL);
}
