/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "base/trace.h"

#include "uwasa/board.h"

#include <cjson/cJSON.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS 4u
#define SPANS 3000u

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/uwasa_trace_XXXXXX");
    int fd = mkstemp(path);
    close(fd);
    return fd < 0 ? -1 : 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* The file as it is now: an array, the caller's. */
static cJSON *parsed(void)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)ftell(f);
    char *text = malloc(bytes + 1);
    rewind(f);
    assert_int_equal(fread(text, 1, bytes, f), bytes);
    text[bytes] = '\0';
    fclose(f);
    cJSON *array = cJSON_ParseWithOpts(text, NULL, 1);
    if (!cJSON_IsArray(array)) {
        fail_msg("no array in %lu bytes", (unsigned long)bytes);
    }
    free(text);
    return array;
}

static const char *text_of(const cJSON *event, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(event, key));
    assert_non_null(text);
    return text;
}

static double number_of(const cJSON *event, const char *key)
{
    const cJSON *number = cJSON_GetObjectItem(event, key);
    assert_true(cJSON_IsNumber(number));
    return number->valuedouble;
}

static void *write_spans(void *arg)
{
    struct uw_trace *t = arg;
    for (uint32_t i = 0; i < SPANS; i++) {
        uw_trace_span(t, UW_TRACE_NETWORK, "test", "a span", t->start_us + i, t->start_us + 2 * i);
    }
    return NULL;
}

static void test_spans_of_many_threads_are_all_there(void **state)
{
    (void)state;
    struct uw_trace t;
    struct uw_error err;
    pthread_t thread[THREADS];
    double sum = 0.0;
    assert_int_equal(uw_trace_open(&t, path, "test", &err), UW_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, write_spans, &t), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
    cJSON *array = parsed();
    assert_int_equal(cJSON_GetArraySize(array), 1 + THREADS * SPANS);
    const cJSON *event = array->child;
    assert_string_equal(text_of(event, "ph"), "M");
    for (event = event->next; event != NULL; event = event->next) {
        assert_string_equal(text_of(event, "name"), "a span");
        assert_string_equal(text_of(event, "ph"), "X");
        assert_string_equal(text_of(event, "cat"), "test");
        assert_true(number_of(event, "tid") == UW_TRACE_NETWORK);
        assert_true(number_of(event, "dur") == number_of(event, "ts"));
        sum += number_of(event, "ts");
    }
    assert_true(sum == THREADS * (SPANS - 1.0) * SPANS / 2.0);
    cJSON_Delete(array);
}

/* As if the program died here. */
static void test_file_is_an_array_before_it_is_closed(void **state)
{
    (void)state;
    struct uw_trace t;
    struct uw_error err;
    int before = 1;
    assert_int_equal(uw_trace_open(&t, path, "test", &err), UW_OK);
    for (uint32_t i = 0; i < 40; i++) {
        cJSON *array = parsed();
        int n = cJSON_GetArraySize(array);
        assert_true(n >= before && n <= (int)(1 + 100 * i));
        assert_true(n > (int)(100 * i) - 1000); /* the rest is in the buffer */
        before = n;
        cJSON_Delete(array);
        for (uint32_t k = 0; k < 100; k++) {
            uw_trace_span(&t, UW_TRACE_COMPUTE, "test", "a span", t.start_us, t.start_us + k);
        }
    }
    assert_true(before > 1000);
    /* After a second nothing is kept back. */
    uw_trace_span(&t, UW_TRACE_COMPUTE, "test", "late", t.start_us, t.start_us + 5000000);
    cJSON *array = parsed();
    assert_int_equal(cJSON_GetArraySize(array), 1 + 4000 + 1);
    cJSON_Delete(array);
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
}

static void test_names_are_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *name, *read;
    } names[] = {
        {"plain", "plain"},
        {"\"quoted\\\"\n\t\x01", "\"quoted\\\"\n\t\x01"},
        {"\xc3\xa4 \xe5\x99\x82 \xf0\x9f\x90\x9f", "\xc3\xa4 \xe5\x99\x82 \xf0\x9f\x90\x9f"},
        {"\xff\xc3(\xe5\x99", "?" "?(?" "?"},
        {"\xed\xa0\x80 \xed\x9f\xbf", "?" "?" "? \xed\x9f\xbf"},    /* a surrogate */
        {"\xe0\x80\xaf \xf0\x80\x80\x80", "?" "?" "? ?" "?" "?" "?"},  /* overlong */
        {"\xf4\x90\x80\x80", "?" "?" "?" "?"},                       /* above U+10FFFF */
    };
    struct uw_trace t;
    struct uw_error err;
    char longer[UW_TRACE_NAME_BYTES + 20];
    assert_int_equal(uw_trace_open(&t, path, "\"", &err), UW_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uw_trace_span(&t, UW_TRACE_COMPUTE, "test", names[i].name, t.start_us, t.start_us);
    }
    memset(longer, '\x02', sizeof longer - 1);      /* six bytes each */
    longer[sizeof longer - 1] = '\0';
    uw_trace_span(&t, UW_TRACE_COMPUTE, "test", longer, t.start_us, t.start_us);
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
    cJSON *array = parsed();
    assert_int_equal(cJSON_GetArraySize(array), 2 + sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(text_of(cJSON_GetArrayItem(array, (int)i + 1), "name"),
                            names[i].read);
    }
    longer[UW_TRACE_NAME_BYTES] = '\0';
    assert_string_equal(text_of(cJSON_GetArrayItem(array, cJSON_GetArraySize(array) - 1), "name"),
                        longer);
    cJSON_Delete(array);
}

static void test_what_is_too_much_is_counted(void **state)
{
    (void)state;
    struct uw_trace t;
    struct uw_error err;
    assert_int_equal(uw_trace_open(&t, path, "test", &err), UW_OK);
    assert_int_equal(t.events_max, UW_TRACE_EVENTS_MAX);
    t.events_max = 1000;
    for (uint32_t i = 0; i < 1500; i++) {
        uw_trace_async(&t, "fragment", "conv1", i, i % 2 != 0, t.start_us + i);
    }
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
    cJSON *array = parsed();
    assert_int_equal(cJSON_GetArraySize(array), 1001);
    assert_string_equal(text_of(cJSON_GetArrayItem(array, 1000), "name"), "501 events left out");
    assert_string_equal(text_of(cJSON_GetArrayItem(array, 1), "ph"), "b");
    assert_string_equal(text_of(cJSON_GetArrayItem(array, 2), "ph"), "e");
    cJSON_Delete(array);
}

static void test_nowhere_pipes_and_full_disks(void **state)
{
    (void)state;
    struct uw_trace t, zero = {.path = NULL};
    struct uw_error err;
    char fifo[80];
    assert_int_equal(uw_trace_close(&zero, &err), UW_OK);
    assert_int_equal(uw_trace_open(&t, NULL, "test", &err), UW_OK);
    uw_trace_span(&t, UW_TRACE_COMPUTE, "test", "lost", 1, 2);
    assert_int_equal(uw_trace_close(&t, &err), UW_OK);
    assert_int_equal(uw_trace_open(&t, "/no/such/folder", "test", &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "--trace /no/such/folder: No such file"));
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    FILE *reader = fopen(fifo, "r+");       /* somebody reads it */
    assert_int_equal(uw_trace_open(&t, fifo, "test", &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "needs a file, not a pipe"));
    fclose(reader);
    unlink(fifo);
    assert_int_equal(uw_trace_open(&t, "/dev/full", "test", &err), UW_OK);
    uw_trace_span(&t, UW_TRACE_COMPUTE, "test", "lost", 1, 2);
    assert_int_equal(uw_trace_close(&t, &err), UW_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_of_many_threads_are_all_there),
        cmocka_unit_test(test_file_is_an_array_before_it_is_closed),
        cmocka_unit_test(test_names_are_quoted),
        cmocka_unit_test(test_what_is_too_much_is_counted),
        cmocka_unit_test(test_nowhere_pipes_and_full_disks),
    };
    return cmocka_run_group_tests_name("trace", tests, make_path, remove_path);
}
