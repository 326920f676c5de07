/* SPDX-License-Identifier: Apache-2.0
 *
 * What a capture writes, read back as its header documents it; and that who uses the link notices
 * nothing. The lower link does as it is told. */
#include "test_support.h"

#include "uwasa/link_capture.h"

#define MTU 100u

/* A lower link: says what it is told, keeps what it is given. */
struct told {
    struct uw_link link;
    int rc;                             /* of the next call */
    uint16_t from;
    uint8_t message[MTU];               /* received next, rc bytes; or sent last */
    uint32_t sent_bytes;
    uint32_t forgot_n, resumed_n, stepped_n;
};

/* A writer: a file in memory that can be out of room, or broken. */
struct file {
    int rc;
    uint32_t bytes, calls_n;
    uint8_t data[4096];
};

static struct told lower;
static struct file file;
static struct uw_link_capture capture;
static uint8_t memory[UW_CAPTURE_RECORD_HEAD_BYTES + UW_CAPTURE_PSEUDO_BYTES + MTU];

static int told_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    *station = (uint16_t)strlen(address);
    return ((struct told *)l)->rc;
}

static int told_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    snprintf(text, UW_LINK_ADDRESS_BYTES, "s%u", station);
    return ((struct told *)l)->rc;
}

static bool told_hold(struct uw_link *l, uint16_t station, bool hold)
{
    (void)l;
    return hold && station == 5;
}

static int told_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct told *t = (struct told *)l;
    (void)to;
    memcpy(t->message, buf, buf_bytes);
    t->sent_bytes = buf_bytes;
    l->stats.sent_n++;
    return t->rc;
}

static int told_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                           const void *body, uint32_t body_bytes)
{
    struct told *t = (struct told *)l;
    (void)to;
    memcpy(t->message, head, head_bytes);
    memcpy(t->message + head_bytes, body, body_bytes);
    t->sent_bytes = head_bytes + body_bytes;
    return t->rc;
}

static int told_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct told *t = (struct told *)l;
    if (t->rc >= 0) {
        assert_true((uint32_t)t->rc <= cap_bytes);
        memcpy(buf, t->message, (size_t)t->rc);
        *from = t->from;
    }
    return t->rc;
}

static int told_recv_view(struct uw_link *l, uint16_t *from, void **view)
{
    struct told *t = (struct told *)l;
    if (t->rc >= 0) {
        *view = t->message;
        *from = t->from;
    }
    return t->rc;
}

static uint64_t told_step(struct uw_link *l, uint64_t now_us)
{
    ((struct told *)l)->stepped_n++;
    return now_us + 7;
}

static void told_deinit(struct uw_link *l)
{
    l->ops = NULL;
}

static void told_forget(struct uw_link *l, uint16_t station)
{
    ((struct told *)l)->forgot_n += station;
}

static int told_defer(struct uw_link *l)
{
    return ((struct told *)l)->rc;
}

static void told_resume(struct uw_link *l)
{
    ((struct told *)l)->resumed_n++;
}

static const struct uw_link_ops plain = {
    .name = "told", .resolve = told_resolve, .describe = told_describe, .hold = told_hold,
    .send = told_send, .recv = told_recv, .step = told_step, .deinit = told_deinit};

static const struct uw_link_ops full = {
    .name = "told", .resolve = told_resolve, .describe = told_describe, .hold = told_hold,
    .send = told_send, .recv = told_recv, .step = told_step, .deinit = told_deinit,
    .forget = told_forget, .send_parts = told_send_parts, .recv_view = told_recv_view,
    .defer = told_defer, .resume = told_resume};

static int write_file(void *arg, const void *record, uint32_t record_bytes)
{
    struct file *f = arg;
    f->calls_n++;
    if (f->rc == UW_OK) {
        assert_true(record_bytes <= sizeof f->data - f->bytes);
        memcpy(f->data + f->bytes, record, record_bytes);
        f->bytes += record_bytes;
    }
    return f->rc;
}

static int open_capture(const struct uw_link_ops *ops, uint32_t snap_bytes, uint64_t epoch_us)
{
    struct uw_link_capture_config c = {.lower = &lower.link, .write = write_file, .arg = &file,
                                       .memory = memory, .memory_bytes = sizeof memory,
                                       .snap_bytes = snap_bytes, .epoch_us = epoch_us};
    memset(&lower, 0, sizeof lower);
    lower.link.ops = ops;
    lower.link.mtu_bytes = MTU;
    lower.link.fd = -1;
    return uw_link_capture_init(&capture, &c);
}

static int setup(void **state)
{
    (void)state;
    memset(&file, 0, sizeof file);
    return 0;
}

/* ---- reading the file ---- */

struct record {
    uint32_t seconds, us, kept, whole;          /* without the pseudo header */
    uint8_t kind, flags;
    uint16_t station, own;
    uint32_t bytes;
    const uint8_t *message;
};

static uint32_t number(const uint8_t *p, uint32_t bytes)
{
    uint32_t x = 0;
    while (bytes-- > 0) {
        x = x << 8 | p[bytes];
    }
    return x;
}

/* All records; the file ends with the last. Returns how many. */
static uint32_t read_records(struct record *r, uint32_t cap_n, uint32_t snap_bytes)
{
    const uint8_t *p = file.data, *end = p + file.bytes;
    uint32_t n = 0;
    static const uint8_t head[] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_true(file.bytes >= 24);
    assert_memory_equal(p, head, sizeof head);
    assert_int_equal(number(p + 16, 4), 12 + snap_bytes);
    assert_int_equal(number(p + 20, 4), 147);
    for (p += 24; p < end; n++) {
        assert_true(n < cap_n && end - p >= 28);
        assert_int_equal(p[16], 1);
        assert_int_equal(p[17], 12);
        r[n] = (struct record){number(p, 4), number(p + 4, 4), number(p + 8, 4) - 12,
                               number(p + 12, 4) - 12, p[18], p[19],
                               (uint16_t)number(p + 20, 2), (uint16_t)number(p + 22, 2),
                               number(p + 24, 4), p + 28};
        assert_true(r[n].kept <= snap_bytes && r[n].whole == r[n].bytes);
        p += 28 + r[n].kept;
    }
    assert_ptr_equal(p, end);
    return n;
}

static void test_capture_reads_back_what_was_sent_and_received(void **state)
{
    (void)state;
    const uint8_t ping[] = {1, 2, 3}, body[] = {9, 8};
    uint8_t buf[MTU];
    uint16_t from;
    void *view;
    struct record r[8];
    assert_int_equal(open_capture(&full, 0, 5000000u), UW_OK);
    assert_true(uw_link_step(&capture.link, 1234567) == 1234574);
    assert_int_equal(uw_link_send(&capture.link, 4, ping, 3), UW_OK);
    assert_int_equal(uw_link_send_parts(&capture.link, UW_LINK_STATION_BROADCAST, ping, 3, body, 2,
                                        NULL), UW_OK);
    (void)uw_link_step(&capture.link, 1234000);     /* time never goes back */
    memset(lower.message, 7, sizeof lower.message);
    lower.rc = 100;
    lower.from = 300;
    assert_int_equal(uw_link_recv(&capture.link, &from, buf, sizeof buf), 100);
    (void)uw_link_step(&capture.link, 3000001);
    lower.rc = 0;
    assert_int_equal(uw_link_recv_view(&capture.link, &from, NULL, 0, &view), 0);
    assert_int_equal(read_records(r, 8, MTU), 4);
    assert_true(r[0].seconds == 6 && r[0].us == 234567 && r[0].kind == UW_CAPTURE_SENT);
    assert_true(r[0].station == 4 && r[0].own == 0xffff && r[0].kept == 3 && r[0].bytes == 3);
    assert_memory_equal(r[0].message, ping, 3);
    assert_true(r[1].station == 0xfffe && r[1].kept == 5);
    assert_memory_equal(r[1].message, "\1\2\3\11\10", 5);
    assert_true(r[2].seconds == 6 && r[2].us == 234567 && r[2].kind == UW_CAPTURE_RECEIVED);
    assert_true(r[2].station == 300 && r[2].kept == 100);
    assert_memory_equal(r[2].message, lower.message, 100);
    assert_true(r[3].seconds == 8 && r[3].us == 1 && r[3].kept == 0);
    assert_true(capture.records_n == 4 && capture.missed_n == 0);
}

static void test_capture_has_no_record_of_what_failed(void **state)
{
    (void)state;
    static const int failures[] = {UW_ERR_AGAIN, UW_ERR_NOTFOUND, UW_ERR_CLOSED, UW_ERR_IO};
    uint8_t buf[MTU] = {0};
    uint16_t from = 77;
    void *view = buf;
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        lower.rc = failures[i];
        assert_int_equal(uw_link_send(&capture.link, 0, buf, 1), failures[i]);
        assert_int_equal(uw_link_send_parts(&capture.link, 0, buf, 1, buf, 1, NULL), failures[i]);
        assert_int_equal(uw_link_recv(&capture.link, &from, buf, MTU), failures[i]);
        assert_int_equal(uw_link_recv_view(&capture.link, &from, NULL, 0, &view), failures[i]);
        assert_int_equal(uw_link_defer(&capture.link), failures[i]);
        assert_int_equal(uw_link_resolve(&capture.link, "abc", &from), failures[i]);
    }
    assert_int_equal(file.bytes, UW_CAPTURE_FILE_HEAD_BYTES);
    assert_int_equal(file.calls_n, 1);
    assert_int_equal(capture.missed_n, 0);
}

static void test_capture_cuts_messages_at_the_snap_length(void **state)
{
    (void)state;
    uint8_t head[10], body[30];
    struct record r[8];
    memset(head, 'h', sizeof head);
    memset(body, 'b', sizeof body);
    for (uint32_t snap = 1; snap <= 50; snap += 7) {
        setup(state);
        assert_int_equal(open_capture(&full, snap, 0), UW_OK);
        assert_int_equal(uw_link_send_parts(&capture.link, 0, head, 10, body, 30, NULL), UW_OK);
        assert_int_equal(lower.sent_bytes, 40);         /* what is sent is whole */
        assert_int_equal(read_records(r, 8, snap), 1);
        assert_int_equal(r[0].kept, snap < 40 ? snap : 40);
        assert_int_equal(r[0].bytes, 40);
        for (uint32_t i = 0; i < r[0].kept; i++) {
            assert_int_equal(r[0].message[i], i < 10 ? 'h' : 'b');
        }
    }
}

static void test_capture_puts_back_what_is_deferred(void **state)
{
    (void)state;
    uint16_t from;
    void *view;
    struct record r[8];
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    assert_true(uw_link_defers(&capture.link));
    lower.rc = 2;
    lower.from = 6;
    assert_int_equal(uw_link_recv_view(&capture.link, &from, NULL, 0, &view), 2);
    assert_ptr_equal(view, lower.message);              /* not a copy */
    lower.rc = UW_OK;
    assert_int_equal(uw_link_defer(&capture.link), UW_OK);
    uw_link_resume(&capture.link);
    assert_int_equal(lower.resumed_n, 1);
    assert_int_equal(read_records(r, 8, MTU), 2);
    assert_true(r[1].kind == UW_CAPTURE_PUT_BACK && r[1].station == 6 && r[1].bytes == 0);
}

static void test_capture_has_the_fields_of_the_lower_link_as_they_change(void **state)
{
    (void)state;
    uint8_t buf[MTU] = {0};
    struct record r[8];
    assert_int_equal(open_capture(&plain, 0, 0), UW_OK);
    assert_int_equal(capture.link.mtu_bytes, MTU);
    lower.link = (struct uw_link){.ops = &plain, .mtu_bytes = 40, .rate_bits_per_s = 250000,
                                  .burst_bytes = 11, .burst_n = 3, .reliable = true, .secure = true,
                                  .shared = true, .frames = true, .numbered = true, .own = 9,
                                  .fd = 4, .stats = {1, 2, 3, 4, 5}};
    (void)uw_link_step(&capture.link, 1);
    const struct uw_link *l = &capture.link;
    assert_true(l->mtu_bytes == 40 && l->rate_bits_per_s == 250000 && l->burst_bytes == 11);
    assert_true(l->burst_n == 3 && l->reliable && l->secure && l->shared && l->frames);
    assert_true(l->numbered && l->own == 9 && l->fd == 4);
    assert_memory_equal(&l->stats, &lower.link.stats, sizeof l->stats);
    assert_int_equal(uw_link_send(&capture.link, 0, buf, 41), UW_ERR_TOOBIG);
    assert_int_equal(uw_link_send(&capture.link, 0, buf, 40), UW_OK);
    assert_true(l->stats.sent_n == 2);
    assert_int_equal(read_records(r, 8, MTU), 1);
    assert_int_equal(r[0].flags, 15);
    assert_int_equal(r[0].own, 9);
}

static void test_capture_offers_what_the_lower_link_offers(void **state)
{
    (void)state;
    char text[UW_LINK_ADDRESS_BYTES];
    uint8_t byte = 0;
    assert_int_equal(open_capture(&plain, 0, 0), UW_OK);
    assert_string_equal(capture.link.ops->name, "told");
    assert_false(uw_link_defers(&capture.link));
    assert_null(capture.link.ops->recv_view);
    assert_int_equal(uw_link_send_parts(&capture.link, 0, &byte, 1, &byte, 1, NULL),
                     UW_ERR_UNSUPPORTED);
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    uw_link_forget(&capture.link, 3);
    assert_int_equal(lower.forgot_n, 3);
    assert_int_equal(uw_link_describe(&capture.link, 12, text), UW_OK);
    assert_string_equal(text, "s12");
    assert_true(uw_link_hold(&capture.link, 5, true) && !uw_link_hold(&capture.link, 5, false));
    uw_link_deinit(&capture.link);
    uw_link_deinit(&capture.link);
    assert_int_equal(uw_link_send(&capture.link, 0, &byte, 1), UW_ERR_CLOSED);
    assert_ptr_equal(lower.link.ops, &full);            /* the lower link stays open */
}

static void test_capture_without_room_misses_records_and_says_so(void **state)
{
    (void)state;
    uint8_t byte = 1;
    struct record r[8];
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    assert_int_equal(uw_link_send(&capture.link, 0, &byte, 1), UW_OK);
    file.rc = UW_ERR_AGAIN;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uw_link_send(&capture.link, 0, &byte, 1), UW_OK);
    }
    file.rc = UW_OK;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uw_link_send(&capture.link, 0, &byte, 1), UW_OK);
    }
    assert_true(capture.missed_n == 3 && capture.records_n == 3 && capture.failure == UW_OK);
    assert_int_equal(read_records(r, 8, MTU), 3);
    assert_true(r[0].flags == 0 && r[1].flags == UW_CAPTURE_GAP && r[2].flags == 0);
}

static void test_capture_whose_writer_fails_leaves_the_link_alone(void **state)
{
    (void)state;
    uint8_t byte = 1;
    file.rc = UW_ERR_IO;
    assert_int_equal(open_capture(&full, 0, 0), UW_ERR_IO);
    uw_link_deinit(&capture.link);
    file.rc = UW_OK;
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    file.rc = UW_ERR_IO;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(uw_link_send(&capture.link, 0, &byte, 1), UW_OK);
    }
    assert_int_equal(file.calls_n, 3);                  /* head, head, and one record */
    assert_true(capture.failure == UW_ERR_IO && capture.missed_n == 5);
    assert_int_equal(lower.link.stats.sent_n, 5);
}

static void test_capture_configuration_is_checked(void **state)
{
    (void)state;
    struct uw_link_capture_config c = {.lower = &lower.link, .write = write_file, .arg = &file};
    assert_int_equal(open_capture(&full, UW_CAPTURE_SNAP_MAX + 1u, 0), UW_ERR_INVALID);
    assert_int_equal(open_capture(&full, MTU + 1u, 0), UW_ERR_NOMEM);
    assert_int_equal(open_capture(NULL, 0, 0), UW_ERR_INVALID);
    assert_true(uw_link_capture_bytes(&c) == SIZE_MAX);
    assert_int_equal(open_capture(&full, 0, 0), UW_OK);
    assert_int_equal(uw_link_capture_bytes(&c), sizeof memory);
    c.write = NULL;
    assert_int_equal(uw_link_capture_init(&capture, &c), UW_ERR_INVALID);
    c.lower = NULL;
    assert_int_equal(uw_link_capture_init(&capture, &c), UW_ERR_INVALID);
    assert_int_equal(file.calls_n, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        CASE(test_capture_reads_back_what_was_sent_and_received),
        CASE(test_capture_has_no_record_of_what_failed),
        CASE(test_capture_cuts_messages_at_the_snap_length),
        CASE(test_capture_puts_back_what_is_deferred),
        CASE(test_capture_has_the_fields_of_the_lower_link_as_they_change),
        CASE(test_capture_offers_what_the_lower_link_offers),
        CASE(test_capture_without_room_misses_records_and_says_so),
        CASE(test_capture_whose_writer_fails_leaves_the_link_alone),
        CASE(test_capture_configuration_is_checked),
    };
    return cmocka_run_group_tests_name("link_capture", tests, NULL, NULL);
}
