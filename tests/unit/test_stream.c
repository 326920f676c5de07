/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that arrive: a bounded choice of them, lines as text, senders at a socket. */
#include "test_support.h"

#include "reservoir.h"
#include "stream_lines.h"
#include "stream_names.h"

#include "uwasa/data.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- the reservoir ---- */

/* One sample in twenty is of class 1, one in a hundred of class 2: each keeps a third, or all. */
static void test_reservoir_keeps_classes_alike_and_any_sample_of_a_class(void **state)
{
    (void)state;
    struct uw_reservoir r;
    struct uw_rng rng;
    double mean = 0.0;
    uint32_t kept[3] = {0};
    uw_rng_seed(&rng, uw_test_seed(3));
    assert_int_equal(uw_reservoir_open(&r, 300, 1, 1), UW_OK);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t u = uw_rng_below(&rng, 100), label = u == 0 ? 2 : u < 6 ? 1 : 0;
        float x = (float)i;
        int rc = uw_reservoir_add(&r, &x, label);
        assert_true(rc == 0 || rc == 1);
        assert_true(r.n == (i < 300 ? i + 1 : 300));
    }
    for (uint32_t i = 0; i < 300; i++) {
        kept[r.label[i]]++;
        mean += r.label[i] == 0 ? (double)r.x[i] : 0.0;
    }
    for (uint32_t c = 0; c < 3; c++) {
        assert_in_range(kept[c], 99, 102);
    }
    mean /= kept[0];
    assert_true(mean > 7500.0 && mean < 12500.0);   /* neither the first nor the last ones */
    uint32_t drawn[3] = {0};
    for (uint32_t i = 0; i < 3000; i++) {
        drawn[r.label[uw_reservoir_draw(&r, i)]]++;
    }
    for (uint32_t c = 0; c < 3; c++) {
        assert_in_range(drawn[c], 900, 1100);
    }
    uw_reservoir_close(&r);
    uw_reservoir_close(&r);
}

static void test_reservoir_of_one_place_holds_one_sample(void **state)
{
    (void)state;
    struct uw_reservoir r;
    assert_int_equal(uw_reservoir_open(&r, 1, 2, 1), UW_OK);
    for (uint32_t i = 0; i < 50; i++) {
        const float x[2] = {(float)i, (float)-(int)i};
        assert_true(uw_reservoir_add(&r, x, i % 3) >= 0);
        uint32_t at = uw_reservoir_draw(&r, i);
        assert_int_equal(at, 0);
        assert_true(r.x[0] == -r.x[1]);
    }
    uw_reservoir_close(&r);
}

/* ---- lines ---- */

static const struct uw_stream_form of_two = {.sample_n = 2, .behind = UW_STREAM_LABEL};

static void test_stream_lines_in_every_form_are_the_same_sample(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "1,-2.5,3", "1;-2.5; 3", " 1 -2.5\t3 ", "1, -2.5, 3\r", "{\"x\": [1, -2.5], \"label\": 3}",
        "{\"label\":3,\"x\":[1,-2.5]}", "+1,-.25e1,3"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        float x[2] = {0.0f, 0.0f};
        uint32_t label = 99;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_stream_count(lines[i], &of_two), 3);
        if (uw_stream_read_line(lines[i], &of_two, x, &label, &err) < 0) {
            fail_msg("%s: %s", lines[i], err.text);
        }
        assert_true(x[0] == 1.0f && x[1] == -2.5f && label == 3);
    }
    float x[3];
    uint32_t label;
    struct uw_error err;
    const struct uw_stream_form plain = {.sample_n = 3};
    assert_int_equal(uw_stream_read_line("1,2,3", &plain, x, &label, &err), UW_OK);
    assert_int_equal(uw_stream_count("{\"x\": [1, 2, 3]}", &plain), 3);
    assert_int_equal(uw_stream_read_line("{\"x\": [1, 2, 3]}", &plain, x, &label, &err), UW_OK);
}

static void test_stream_lines_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"1,2", "has no label"},        {"1", "too few numbers"},
        {"1,2,3,4", "too many"},        {"1,x,3", "not a number"},
        {"1,2,2.5", "--loss mse"},      {"1,2,-1", "has no label"},
        {"1,2,70000", "has no label"},  {"nan,2,3", "not a number"},
        {"0x1,2,3", "not a number"},    {"1,,3", "not a number"},
        {"1 2,3", "not a number"},      {"{\"x\": [1, 2]}", "has no label"},
        {"{\"x\": [1], \"label\": 1}", "too few"},
        {"{\"y\": [1, 2], \"label\": 1}", "no list \"x\""},
        {"{\"x\": [1, 2], \"label\": \"cat\"}", "label \"cat\" is a word; classes="},
        {"1,2,cat", "label \"cat\" is a word"}, {"1 2 cat", "label \"cat\" is a word"},
        {"1,2,cat,3", "is a word"},
        {"{\"x\": [1, 2], \"label\": true}", "has no label"},
        {"{\"x\": [1, 2], \"kind\": \"label\"}", "has no label"},
        {"{\"x\": [1, 2], \"label\": 1", "no JSON"},
        {"{\"x\": [1, 2], \"label\": 1} more", "no JSON"},
        {"{\"x\": [1, 2, 3], \"label\": 1}", "too many"}, {"1e999,2,3", "not a number"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float *x = uw_test_floats(2);
        uint32_t label;
        struct uw_error err = {.text = ""};
        int rc = uw_stream_read_line(cases[i].line, &of_two, x, &label, &err);
        if (rc != UW_ERR_CORRUPT || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s gives %d: %s", cases[i].line, rc, err.text);
        }
        uw_test_release(x);
    }
    assert_int_equal(uw_stream_count("a,b,c", &of_two), 0);
    assert_int_equal(uw_stream_count("", &of_two), 0);
    assert_int_equal(uw_stream_count("1,b,3", &of_two), 0);
}

static void test_stream_labels_are_words_or_numbers_as_classes_are_called(void **state)
{
    (void)state;
    static const struct {
        const char *cell;
        uint32_t words, numbers;        /* its class; 9: none */
    } cases[] = {{"ok", 0, 9},   {"very hot", 1, 9}, {"\"very hot\"", 1, 9}, {" ok ", 0, 9},
                 {"1", 1, 0},    {"2", 9, 1},        {"2.0", 9, 1},          {"0", 0, 9},
                 {"OK", 9, 9},   {"-1", 9, 9},       {"0.5", 9, 9},          {"", 9, 9}};
    char words[2][16] = {"ok", "very hot"}, numbers[2][16] = {"1", "2"};
    char *const classes[2][2] = {{words[0], words[1]}, {numbers[0], numbers[1]}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int kind = 0; kind < 2; kind++) {
            const struct uw_stream_form form = {.sample_n = 1, .behind = UW_STREAM_LABEL,
                                                .classes = classes[kind], .classes_n = 2};
            uint32_t label, want = kind == 0 ? cases[i].words : cases[i].numbers;
            char line[64];
            float x[1];
            struct uw_error err = {.text = ""};
            snprintf(line, sizeof line, "0.5,%s", cases[i].cell);
            int rc = uw_stream_read_line(line, &form, x, &label, &err);
            if (want == 9 ? rc != UW_ERR_CORRUPT || err.text[0] == '\0'
                          : rc != UW_OK || label != want || x[0] != 0.5f) {
                fail_msg("%s of kind %d gives %d: %s", line, kind, rc, err.text);
            }
        }
    }
    const struct uw_stream_form value = {.sample_n = 1, .behind = UW_STREAM_VALUE};
    uint32_t label;
    float x[2];
    struct uw_error err;
    assert_int_equal(uw_stream_read_line("1;-2.5", &value, x, &label, &err), UW_OK);
    assert_true(x[0] == 1.0f && x[1] == -2.5f);
    assert_int_equal(uw_stream_read_line("{\"x\": [1], \"label\": 3.5}", &value, x, &label, &err),
                     UW_OK);
    assert_true(x[1] == 3.5f);
    assert_int_equal(uw_stream_read_line("1;two", &value, x, &label, &err), UW_ERR_CORRUPT);
}

/* ---- names ---- */

static const struct uw_table_options unsaid = {.drop = NULL};

/* A header, a line below it, and what is read: x[0], x[1], the values or the label. */
static void test_stream_columns_are_found_by_the_names_in_a_header(void **state)
{
    (void)state;
    static char a[] = "temp", b[] = "load", of_label[] = "state", ok[] = "ok", hot[] = "hot";
    static char heat[] = "heat", cool[] = "cool";
    static char *features[] = {a, b}, *classes[] = {ok, hot}, *targets[] = {heat, cool};
    const struct uw_data_columns names = {.features_n = 2, .features = features, .classes_n = 2,
                                          .classes = classes, .label = of_label, .targets_n = 2,
                                          .targets = targets};
    static const struct {
        const char *header, *line;
        enum uw_stream_behind behind;
        const char *says;               /* NULL: x is 1, 2.5 and the label 1, or the values 7, 8 */
    } cases[] = {
        {"state,id,load,temp", "hot,x,2.5,1", UW_STREAM_LABEL, NULL},
        {"\"Temp\";load ;state\r", "1;2,5;hot\r", UW_STREAM_LABEL, NULL},
        {"load temp state", "2.5  1 hot", UW_STREAM_LABEL, NULL},
        {"cool,load,heat,temp", "8,2.5,7,true", UW_STREAM_VALUE, NULL},
        {"", "{\"state\": \"hot\", \"load\": 2.5, \"at\": \"x\", \"temp\": 1}", UW_STREAM_LABEL,
         NULL},
        {"", "{\"cool\": 8, \"heat\": 7, \"temp\": true, \"LOAD\": 2.5}", UW_STREAM_VALUE,
         NULL},
        {"", "{\"label\": [7, 8], \"x\": [1, 2.5]}", UW_STREAM_VALUE, NULL},
        {"state,id,load", "", UW_STREAM_LABEL, "no column \"temp\""},
        {"id,load,temp", "", UW_STREAM_LABEL, "no column \"state\""},
        {"heat,load,temp", "", UW_STREAM_VALUE, "no column \"heat\""},
        {"state,load,temp", "hot,2.5", UW_STREAM_LABEL, "2 cells, the header has 3"},
        {"state,load,temp", "hot,2.5,", UW_STREAM_LABEL, "is missing"},
        {"state,load,temp", "cold,2.5,1", UW_STREAM_LABEL, "none of the 2 classes"},
        {"", "{\"temp\": 1, \"state\": \"hot\"}", UW_STREAM_LABEL, "has no number \"load\""},
        {"", "{\"temp\": 1, \"load\": 2}", UW_STREAM_LABEL, "has no label"},
        {"", "{\"label\": [7], \"x\": [1, 2.5]}", UW_STREAM_VALUE, "needs 2 values"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool values = cases[i].behind == UW_STREAM_VALUE, behind = false;
        const struct uw_stream_wanted w = {2, cases[i].behind, values ? 2u : 1u, true, false};
        struct uw_stream_order order = {.cells_n = 0};
        struct uw_error err = {.text = ""};
        uint32_t label = 9;
        float *x = uw_test_floats(4);
        int rc = cases[i].header[0] == '\0'
                     ? 1 : uw_stream_order_take(&order, cases[i].header, &names, &w, &unsaid,
                                                &behind, &err);
        const struct uw_stream_form form = {
            .sample_n = 2, .behind = cases[i].behind, .behind_n = w.behind_n, .classes = classes,
            .classes_n = 2, .names = &names, .order = order.cells_n != 0 ? &order : NULL};
        rc = rc == 1 ? uw_stream_read_line(cases[i].line, &form, x, &label, &err) : rc;
        bool good = cases[i].says != NULL
                        ? rc < 0 && strstr(err.text, cases[i].says) != NULL
                        : rc == UW_OK && x[0] == 1.0f && x[1] == 2.5f &&
                              (values ? x[2] == 7.0f && x[3] == 8.0f : label == 1);
        if (!good) {
            fail_msg("case %zu gives %d: %s", i, rc, err.text);
        }
        uw_stream_order_close(&order);
        uw_test_release(x);
    }
    assert_true(uw_stream_is_header("1,temp,hot", &names));
    assert_false(uw_stream_is_header("1,2,hot", &names));
    assert_false(uw_stream_is_header("{\"temp\": 1}", &names));
}

/* A first header or JSON object names the columns; "-" stands for no name. */
static void test_stream_names_of_a_new_model_are_in_the_first_line(void **state)
{
    (void)state;
    static const struct {
        const char *line, *options;
        enum uw_stream_behind behind;
        bool needed;
        const char *names;              /* features and what is behind; "": none are taken */
    } cases[] = {
        {"a,b,c", "stream", UW_STREAM_LABEL, true, "a b c"},
        {"a,label,b", "stream", UW_STREAM_LABEL, true, "a b label"},
        {"a,b", "stream", UW_STREAM_LABEL, false, "a b -"},
        {"c,a,id,b", "stream,label=c,drop=id", UW_STREAM_LABEL, true, "a b c"},
        {"a,b,c,d", "stream", UW_STREAM_VALUE, true, "a b c d"},
        {"a,d,b,c", "stream,target=c+d", UW_STREAM_VALUE, true, "a b c d"},
        {"{\"c\": \"hot\", \"a\": 1, \"b\": 2}", "stream,label=c", UW_STREAM_LABEL, true, "a b c"},
        {"{\"x\": [1, 2], \"label\": 1}", "stream", UW_STREAM_LABEL, true, ""},
        {"{\"a\": 1, \"b\": 2, \"la", "stream", UW_STREAM_LABEL, true, ""},
        {"id,a,b", "stream,drop=id", UW_STREAM_LABEL, false, "a b -"},
        {"a,label,b", "stream", UW_STREAM_LABEL, false, "a b label"},
        {"a,b,c", "stream", UW_STREAM_LABEL, false, "of which 3 would be features"},
        {"a,b,c,d", "stream", UW_STREAM_LABEL, true, ""},
        {"a,b,c,d", "stream,label=c", UW_STREAM_LABEL, true, "of which 3 would be features"},
        {"a,b,c", "stream,label=d", UW_STREAM_LABEL, true, "label=d: no column is called so"},
        {"a,b,c,d", "stream,target=c", UW_STREAM_VALUE, true, "names 1 columns, needs 2"},
        {"{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4}", "stream", UW_STREAM_LABEL, true,
         "drop=A+B leaves some out"}};
    static const struct uw_table_form form = {"one stream", "none", 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool values = cases[i].behind == UW_STREAM_VALUE, behind;
        const struct uw_stream_wanted w = {2, cases[i].behind, values ? 2u : 1u, cases[i].needed,
                                           !cases[i].needed};
        struct uw_stream_order order;
        struct uw_table_options said;
        struct uw_data_columns c = {.features_n = 0};
        struct uw_error err = {.text = ""};
        char text[96] = "";
        assert_int_equal(uw_table_options_read(&said, cases[i].options, &form, &err), UW_OK);
        int rc = uw_stream_names_take(&c, cases[i].line, &w, &said, &err);
        if (rc == 1) {
            bool all = values || c.label != NULL;
            assert_int_equal(uw_stream_order_take(&order, cases[i].line, &c, &w, &said, &behind,
                                                  &err), 1);
            assert_int_equal(behind, all);      /* a column that is dropped is none of them */
            uw_stream_order_close(&order);
            snprintf(text, sizeof text, "%s %s %s%s%s", c.features[0], c.features[1],
                     values ? c.targets[0] : c.label != NULL ? c.label : "-", values ? " " : "",
                     values ? c.targets[1] : "");
        }
        if (strstr(rc < 0 ? err.text : text, cases[i].names) == NULL ||
            (cases[i].names[0] == '\0' && rc != 0)) {
            fail_msg("case %zu gives %d: %s%s", i, rc, err.text, text);
        }
        uw_data_columns_free(&c);
    }
}

/* ---- a stream at a socket ---- */

static char path[64];

static int reach(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path);
    int fd = -1, rc = -1;
    for (int i = 0; i < 500 && rc != 0; i++) {
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        rc = connect(fd, (struct sockaddr *)&a, sizeof a);
        if (rc != 0) {
            close(fd);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    }
    assert_int_equal(rc, 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void *first_sender(void *arg)
{
    int *fd = arg;
    *fd = reach();
    send_text(*fd, "a,b,label\n1,10,0");     /* its end comes later: the line does not count yet */
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    send_text(*fd, "\n2,20,1\n");
    return NULL;
}

static void *turned_sender(void *arg)
{
    int *fd = arg;
    *fd = reach();
    send_text(*fd, "label,b,a\n0,10,1\n");
    return NULL;
}

/* Read until all of these sums have been seen. */
static void expect_sums(struct uw_dataset *d, uint32_t n)
{
    uint32_t seen = 0;
    for (uint64_t i = 0; seen != (1u << n) - 1u; i++) {
        float x[2];
        uint32_t label;
        assert_true(i < 2000000);
        assert_int_equal(d->ops->read(d, i, x, &label), UW_OK);
        assert_true(x[1] == 10.0f * x[0]);
        uint32_t which = (uint32_t)x[0] - 1u;
        assert_true(which < n);
        seen |= 1u << which;
    }
}

static void test_stream_at_a_socket_takes_lines_of_all_senders(void **state)
{
    (void)state;
    struct uw_data train, test;
    struct uw_error err = {.text = ""};
    struct uw_data_config config = {.live = true, .outputs = 2};
    char spec[96], text[320];
    pthread_t thread;
    int first = -1;
    snprintf(path, sizeof path, "/tmp/uwasa-stream-%d", (int)getpid());
    snprintf(spec, sizeof spec, "stream:unix:%s,keep=50,epoch=7", path);
    assert_int_equal(pthread_create(&thread, NULL, first_sender, &first), 0);
    if (uw_data_open(&train, spec, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
    config.test = true;
    assert_int_equal(uw_data_open(&test, spec, &config, &err), UW_OK);
    assert_int_equal(train.base->samples_n, 7);
    assert_int_equal(train.base->channels, 2);
    assert_true(train.base->endless && !test.base->endless);
    pthread_join(thread, NULL);

    /* sample 2 is for the test; the others are drawn, those of a second sender too */
    int second = reach();
    send_text(first, "2,20,1\n1,10,0\n");
    send_text(second, "3,30,1\nwrong\n1,10,9\n");
    expect_sums(train.base, 3);
    float x[2];
    uint32_t label;
    assert_int_equal(test.base->ops->read(test.base, 0, x, &label), UW_OK);
    assert_true(x[0] == 2.0f && label == 1);
    assert_int_equal(test.base->samples_n, 1);

    assert_true(uw_data_news(&train, text, sizeof text));
    assert_non_null(strstr(text, "lines of 2 numbers and a label; up to 50 samples"));
    assert_true(uw_data_news(&train, text, sizeof text));
    assert_non_null(strstr(text, "WARNING: "));         /* of the scale */
    assert_non_null(strstr(text, "features go from 1 to 30 and are not scaled"));
    assert_true(uw_data_news(&train, text, sizeof text));
    assert_non_null(strstr(text, "2 lines skipped"));   /* not the header */
    assert_false(uw_data_news(&train, text, sizeof text));

    /* a sender that leaves, and one that comes again */
    close(second);
    second = reach();
    send_text(second, "4,40,0\n9,9,0");
    close(second);                      /* it may have sent half of its last line */
    expect_sums(train.base, 4);
    uw_data_close(&train);
    assert_int_equal(test.base->ops->read(test.base, 0, x, &label), UW_OK);
    uw_data_close(&test);
    close(first);
    struct stat st;
    assert_int_not_equal(stat(path, &st), 0);
}

/* A sender that begins with an empty line, where one was whose header has another order. */
static void test_stream_order_of_a_header_ends_with_its_sender(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "b", of_label[] = "label";
    static char *features[] = {a, b};
    static const struct uw_data_columns like = {.features_n = 2, .features = features,
                                                .label = of_label};
    const struct uw_data_config config = {.live = true, .channels = 2, .outputs = 2,
                                          .wanted = UW_DATA_WANT_LABELS, .like = &like};
    struct uw_data d;
    struct uw_error err = {.text = ""};
    char spec[96];
    pthread_t thread;
    int fd = -1;
    snprintf(spec, sizeof spec, "stream:unix:%s", path);
    assert_int_equal(pthread_create(&thread, NULL, turned_sender, &fd), 0);
    if (uw_data_open(&d, spec, &config, &err) < 0) {
        fail_msg("%s", err.text);
    }
    pthread_join(thread, NULL);
    close(fd);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    expect_sums(d.base, 1);             /* its place is free */
    fd = reach();
    send_text(fd, "\n1,10,0\n2,20,1\n");     /* the first is for the test */
    expect_sums(d.base, 2);
    close(fd);
    uw_data_close(&d);
}

static void test_stream_names_that_are_none_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *says;
    } cases[] = {{"stream:", "allowed are stream:-"},
                 {"stream:tcp:0.0.0.0:80", "allowed are stream:-"},
                 {"stream:tcp:127.0.0.1:0", "needs a port"},
                 {"stream:tcp:127.0.0.1:99999", "needs a port"},
                 {"stream:unix:", "needs a path"},
                 {"stream:unix:/tmp", "stream:unix:/tmp"},
                 {"stream:-,keep=x", "options are keep=N"},
                 {"stream:-,keep=0", "options are keep=N"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_data d;
        struct uw_error err = {.text = ""};
        int rc = uw_data_open(&d, cases[i].spec, &(struct uw_data_config){.live = true}, &err);
        if (rc >= 0 || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s gives %d: %s", cases[i].spec, rc, err.text);
        }
    }
    struct uw_data d;
    struct uw_error err;
    assert_int_equal(uw_data_open(&d, "stream:-", NULL, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "needs data that is there"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reservoir_keeps_classes_alike_and_any_sample_of_a_class),
        cmocka_unit_test(test_reservoir_of_one_place_holds_one_sample),
        cmocka_unit_test(test_stream_lines_in_every_form_are_the_same_sample),
        cmocka_unit_test(test_stream_lines_that_do_not_fit_are_refused),
        cmocka_unit_test(test_stream_labels_are_words_or_numbers_as_classes_are_called),
        cmocka_unit_test(test_stream_columns_are_found_by_the_names_in_a_header),
        cmocka_unit_test(test_stream_names_of_a_new_model_are_in_the_first_line),
        cmocka_unit_test(test_stream_at_a_socket_takes_lines_of_all_senders),
        cmocka_unit_test(test_stream_order_of_a_header_ends_with_its_sender),
        cmocka_unit_test(test_stream_names_that_are_none_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
