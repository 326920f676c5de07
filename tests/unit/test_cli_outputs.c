/* SPDX-License-Identifier: Apache-2.0
 *
 * Events and captures where the disk is full for a while, or a pipe's reader pauses. A limit on the
 * size of files stands for the disk. Events whose file is cut or renamed meanwhile. */
#include "test_support.h"

#include "base/events.h"
#include "base/stop.h"
#include "links/capture_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void limit_files(rlim_t bytes)
{
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static off_t size_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return s.st_size;
}

/* ---- events ---- */

static void put_number(struct uw_events *e, uint32_t number)
{
    cJSON *ev = uw_event("step");
    cJSON_AddNumberToObject(ev, "n", number);
    uw_events_put(e, ev);
}

/* The limit comes after each byte of a line in turn. */
static void test_events_go_on_after_a_gap_where_the_disk_was_full(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-events-XXXXXX";
    close(mkstemp(path));
    for (uint32_t cut = 0; cut < 24; cut += 6) {
        struct uw_events e;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_events_open(&e, path, UW_EVENTS_TIMELESS, NULL), UW_OK);
        put_number(&e, 1);
        off_t whole = size_of(path);
        limit_files((rlim_t)whole + cut);
        put_number(&e, 2);
        put_number(&e, 3);
        assert_int_equal(size_of(path), whole);
        limit_files(RLIM_INFINITY);
        e.again_us = 0;                         /* as if a second had gone by */
        put_number(&e, 4);
        assert_int_equal(uw_events_close(&e, &err), UW_ERR_IO);
        assert_non_null(strstr(err.text, path));
        char text[200] = "";
        FILE *f = fopen(path, "r");
        size_t n = fread(text, 1, sizeof text - 1u, f);
        fclose(f);
        text[n] = '\0';
        assert_string_equal(text, "{\"event\":\"step\",\"n\":1}\n{\"event\":\"gap\",\"missed\":2}\n"
                                  "{\"event\":\"step\",\"n\":4}\n");
    }
    remove(path);
}

static const char *text_of(const char *path, char text[400])
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, 399, f);
    fclose(f);
    assert_null(memchr(text, 0, n));
    text[n] = '\0';
    return text;
}

static void test_events_tell_the_time_unless_it_is_virtual(void **state)
{
    (void)state;
    for (unsigned how = UW_EVENTS_NEW; how <= UW_EVENTS_TIMELESS; how += UW_EVENTS_TIMELESS) {
        char path[] = "/tmp/uwasa-events-XXXXXX", text[400];
        struct uw_events e;
        close(mkstemp(path));
        struct timespec before, after;
        clock_gettime(CLOCK_REALTIME, &before);
        assert_int_equal(uw_events_open(&e, path, how, NULL), UW_OK);
        put_number(&e, 1);
        assert_int_equal(uw_events_close(&e, NULL), UW_OK);
        cJSON *event = cJSON_Parse(text_of(path, text));
        const cJSON *when = cJSON_GetObjectItem(event, "time");
        assert_int_equal(when != NULL, how == UW_EVENTS_NEW);
        if (when != NULL) {
            clock_gettime(CLOCK_REALTIME, &after); /* time() lags behind it by a tick */
            assert_true(when->valuedouble >= (double)before.tv_sec);
            assert_true(when->valuedouble < (double)after.tv_sec + 1.0);
        }
        cJSON_Delete(event);
        remove(path);
    }
}

static void test_events_kept_follow_those_of_before_on_a_line_of_their_own(void **state)
{
    (void)state;
    static const char *const before[] = {"", "{\"event\":\"done\"}\n", "{\"event\":\"st"};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        char path[] = "/tmp/uwasa-events-XXXXXX", text[400], want[400];
        struct uw_events e;
        int fd = mkstemp(path);
        assert_int_equal(write(fd, before[i], strlen(before[i])), strlen(before[i]));
        close(fd);
        assert_int_equal(uw_events_open(&e, path, UW_EVENTS_KEEP | UW_EVENTS_TIMELESS, NULL),
                         UW_OK);
        assert_string_equal(text_of(path, text), before[i]);
        put_number(&e, 1);
        assert_int_equal(uw_events_close(&e, NULL), UW_OK);
        snprintf(want, sizeof want, "%s%s{\"event\":\"step\",\"n\":1}\n", before[i],
                 i == 2 ? "\n" : "");
        assert_string_equal(text_of(path, text), want);
        remove(path);
    }
}

static void test_events_go_on_where_the_file_is_cut(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-events-XXXXXX", text[400];
    struct uw_events e;
    close(mkstemp(path));
    assert_int_equal(uw_events_open(&e, path, UW_EVENTS_TIMELESS, NULL), UW_OK);
    put_number(&e, 1);
    assert_int_equal(truncate(path, 0), 0);
    put_number(&e, 2);
    assert_string_equal(text_of(path, text), "{\"event\":\"step\",\"n\":2}\n");
    limit_files(30);                            /* the next line's end is torn off again */
    assert_int_equal(truncate(path, 0), 0);
    put_number(&e, 3);
    put_number(&e, 4);
    limit_files(RLIM_INFINITY);
    assert_string_equal(text_of(path, text), "{\"event\":\"step\",\"n\":3}\n");
    assert_int_equal(uw_events_close(&e, NULL), UW_ERR_IO);
    remove(path);
}

static void test_events_of_a_renamed_file_go_to_a_new_one_after_a_hangup(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-events-XXXXXX", old[64], text[400];
    struct uw_events e;
    struct uw_stop stop;
    uw_stop_init(&stop);
    uw_stop_keep_hangup();
    close(mkstemp(path));
    snprintf(old, sizeof old, "%s.1", path);
    assert_int_equal(uw_events_open(&e, path, UW_EVENTS_TIMELESS | UW_EVENTS_ROTATE, NULL), UW_OK);
    put_number(&e, 1);
    assert_int_equal(rename(path, old), 0);
    put_number(&e, 2);
    assert_int_equal(raise(SIGHUP), 0);
    assert_false(uw_stop_near());
    assert_false(uw_stop_asked(&stop));
    put_number(&e, 3);
    assert_string_equal(text_of(old, text), "{\"event\":\"step\",\"n\":1}\n"
                                            "{\"event\":\"step\",\"n\":2}\n");
    assert_string_equal(text_of(path, text), "{\"event\":\"step\",\"n\":3}\n");
    remove(old);
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(raise(SIGHUP), 0);
    uw_events_rotate(&e);                       /* with nothing to write */
    assert_string_equal(text_of(path, text), "");
    assert_int_equal(uw_events_close(&e, NULL), UW_OK);
    remove(old);
    remove(path);
    uw_stop_release();
}

/* ---- captures ---- */

#define MTU 60000u

static int take_all(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    (void)l;
    (void)to;
    (void)buf;
    (void)buf_bytes;
    return UW_OK;
}

static const struct uw_link_ops any_ops = {.name = "any", .send = take_all};

/* Records of what can be read: returns how many, and how many of them say that some are missing. */
static uint32_t records(const uint8_t *at, size_t bytes, uint32_t *gaps)
{
    uint32_t n = 0;
    *gaps = 0;
    assert_true(bytes >= UW_CAPTURE_FILE_HEAD_BYTES);
    for (size_t i = UW_CAPTURE_FILE_HEAD_BYTES; i < bytes; n++) {
        uint32_t kept = at[i + 8] | (uint32_t)at[i + 9] << 8 | (uint32_t)at[i + 10] << 16;
        i += UW_CAPTURE_RECORD_HEAD_BYTES;
        assert_int_equal(at[i], 1);
        *gaps += (at[i + 3] & UW_CAPTURE_GAP) != 0;
        i += kept;
        assert_true(i <= bytes);
    }
    return n;
}

static size_t read_all(int fd, uint8_t *to, size_t cap)
{
    size_t bytes = 0;
    for (ssize_t n = 1; n > 0 && bytes < cap; bytes += n > 0 ? (size_t)n : 0) {
        n = read(fd, to + bytes, cap - bytes);
    }
    return bytes;
}

static uint8_t message[MTU], got[1u << 21];

/* Nothing waits while nobody reads; what was begun is whole afterwards. */
static void test_captures_leave_out_what_a_paused_reader_does_not_take(void **state)
{
    (void)state;
    for (uint32_t bytes = 100; bytes <= MTU; bytes += MTU - 100u) {
        char path[] = "/tmp/uwasa-pipe-XXXXXX";
        struct uw_link lower = {.ops = &any_ops, .mtu_bytes = MTU, .fd = -1};
        struct uw_capture_file c;
        struct uw_error err = {.text = ""};
        uint32_t gaps;
        close(mkstemp(path));
        remove(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        int fd = open(path, O_RDONLY | O_NONBLOCK);
        assert_int_equal(uw_capture_file_open(&c, path, &lower, &err), UW_OK);
        for (uint32_t i = 0; i < 2000; i++) {
            assert_int_equal(uw_link_send(&c.link.link, 1, message, bytes), UW_OK);
        }
        assert_true(c.link.missed_n > 0);
        size_t n = read_all(fd, got, sizeof got);
        assert_int_equal(uw_link_send(&c.link.link, 1, message, 100), UW_OK);
        assert_int_equal(uw_capture_file_check(&c, &err), UW_OK);
        uw_capture_file_close(&c);
        n += read_all(fd, got + n, sizeof got - n);
        assert_int_equal(records(got, n, &gaps), c.link.records_n);
        assert_int_equal(gaps, 1);
        close(fd);
        remove(path);
    }
}

static void test_captures_go_on_where_the_disk_was_full(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-pcap-XXXXXX";
    struct uw_link lower = {.ops = &any_ops, .mtu_bytes = MTU, .fd = -1};
    struct uw_capture_file c;
    struct uw_error err = {.text = ""};
    uint32_t gaps;
    close(mkstemp(path));
    assert_int_equal(uw_capture_file_open(&c, path, &lower, &err), UW_OK);
    limit_files(1000);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(uw_link_send(&c.link.link, 1, message, 300), UW_OK);
    }
    assert_int_equal(c.link.records_n, 2);
    limit_files(RLIM_INFINITY);
    c.again_us = 0;                             /* as if a second had gone by */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uw_link_send(&c.link.link, 1, message, 300), UW_OK);
    }
    assert_int_equal(uw_capture_file_check(&c, &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "8 messages are not in it"));
    uw_capture_file_close(&c);
    int fd = open(path, O_RDONLY);
    assert_int_equal(records(got, read_all(fd, got, sizeof got), &gaps), 5);
    assert_int_equal(gaps, 1);
    close(fd);
    remove(path);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_go_on_after_a_gap_where_the_disk_was_full),
        cmocka_unit_test(test_events_tell_the_time_unless_it_is_virtual),
        cmocka_unit_test(test_events_kept_follow_those_of_before_on_a_line_of_their_own),
        cmocka_unit_test(test_events_go_on_where_the_file_is_cut),
        cmocka_unit_test(test_events_of_a_renamed_file_go_to_a_new_one_after_a_hangup),
        cmocka_unit_test(test_captures_leave_out_what_a_paused_reader_does_not_take),
        cmocka_unit_test(test_captures_go_on_where_the_disk_was_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
