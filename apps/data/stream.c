/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "reservoir.h"
#include "stream_lines.h"
#include "stream_source.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES 1024u
#define KEEP_N 4096u                /* samples to train on */
#define EPOCH_N 1000u
#define TEST_EVERY 6u
#define TEST_AT 1u                  /* so the second sample is one */
#define LOOK_NS 2000000
#define WAIT_MS 100
#define LINES_MOST 4096u            /* taken in by one read */
#define SEED 0x73747265u

struct uw_stream {
    char name[NAME_BYTES];          /* as it was given */
    char address[NAME_BYTES];       /* the same without options */
    struct uw_stream *next;
    uint32_t opened_n;              /* sets */
    uint32_t keep_n, epoch_n;       /* options */
    uint32_t sample_n, classes_n;   /* sample_n 0: not known yet */
    bool labelled;
    struct uw_mqtt_files files;
    struct uw_source source;
    pthread_mutex_t lock;           /* of all below */
    struct uw_reservoir train, test;
    float *x;                       /* [sample_n] */
    uint64_t arrived_n, refused_n, told_refused_n;
    struct timespec looked;
    char refusal[160];              /* the last one */
    bool told_start, told_end;
};

static struct uw_stream *streams;   /* open ones; opening and closing is one thread's */

static struct uw_stream *find(const char *name)
{
    struct uw_stream *s = streams;
    while (s != NULL && strcmp(s->name, name) != 0) {
        s = s->next;
    }
    return s;
}

/* ---- what arrives ---- */

static void refuse(struct uw_stream *s, uint64_t line_n, const char *why)
{
    s->refused_n++;
    snprintf(s->refusal, sizeof s->refusal, "line %llu: %.120s", (unsigned long long)line_n, why);
}

/* Learn from the first line how samples are. */
static int take_shape(struct uw_stream *s, const char *text, uint32_t model_n)
{
    uint32_t n = uw_stream_count(text);
    if (n == 0) {
        return UW_ERR_CORRUPT;
    }
    s->labelled = n != model_n;
    s->sample_n = s->labelled ? n - 1u : n;
    if (s->sample_n == 0) {
        return UW_ERR_CORRUPT;
    }
    s->x = malloc(s->sample_n * sizeof *s->x);
    int rc = s->x != NULL ? uw_reservoir_open(&s->train, s->keep_n, s->sample_n, SEED)
                          : UW_ERR_NOMEM;
    return rc < 0 ? rc
                  : uw_reservoir_open(&s->test, s->keep_n / TEST_EVERY + 1u, s->sample_n,
                                      SEED + 1u);
}

static int take_line(struct uw_stream *s, const char *text, uint64_t line_n, uint32_t model_n)
{
    uint32_t label;
    struct uw_error why = {.text = ""};
    if (text[strspn(text, " \t\r")] == '\0') {
        return UW_OK;
    }
    if (s->sample_n == 0) {
        int rc = take_shape(s, text, model_n);
        if (rc == UW_ERR_CORRUPT) {     /* a header, or a mistake */
            refuse(s, line_n, "has no numbers");
            return UW_OK;
        }
        if (rc < 0) {
            return rc;
        }
    }
    if (uw_stream_read_line(text, s->labelled, s->sample_n, s->x, &label, &why) < 0) {
        refuse(s, line_n, why.text);
        return UW_OK;
    }
    if (s->classes_n != 0 && label >= s->classes_n) {
        snprintf(why.text, sizeof why.text, "label %u: the model has %u classes", (unsigned)label,
                 (unsigned)s->classes_n);
        refuse(s, line_n, why.text);
        return UW_OK;
    }
    bool test = s->arrived_n++ % TEST_EVERY == TEST_AT;
    int rc = uw_reservoir_add(test ? &s->test : &s->train, s->x, label);
    return rc < 0 ? rc : UW_OK;
}

/* Take in what has arrived. */
static int look(struct uw_stream *s, uint32_t model_n)
{
    char *text;
    uint64_t line_n = 0;
    int rc = UW_OK, more = 1;
    for (uint32_t i = 0; i < LINES_MOST && more != 0 && rc == UW_OK; i++) {
        more = uw_source_take(&s->source, &text, &line_n);
        if (more > 0) {
            rc = take_line(s, text, line_n, model_n);
        } else if (more < 0) {
            refuse(s, line_n, "is longer than 1 MiB");
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &s->looked);
    return rc;
}

static bool is_due(const struct uw_stream *s)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - s->looked.tv_sec) * 1000000000ll + (now.tv_nsec - s->looked.tv_nsec) >=
           LOOK_NS;
}

/* ---- the sets ---- */

static int read_stream(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct uw_stream_set *d = (struct uw_stream_set *)base;
    struct uw_stream *s = d->stream;
    pthread_mutex_lock(&s->lock);
    int rc = is_due(s) ? look(s, 0) : UW_OK;
    const struct uw_reservoir *r = d->test && s->test.n != 0 ? &s->test : &s->train;
    if (d->test) {
        base->samples_n = r->n;
    }
    uint32_t at = d->test ? (uint32_t)(index % r->n) : uw_reservoir_draw(r, index);
    memcpy(x, r->x + (size_t)at * s->sample_n, s->sample_n * sizeof *x);
    *label = r->label[at];
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static const struct uw_dataset_ops stream_ops = {.name = "stream", .read = read_stream};

/* Whether a signal to end waits, which programs block and ask for. SIGHUP is one unless it is
 * ignored or has a handler. */
static bool is_asked_to_end(void)
{
    sigset_t pending;
    struct sigaction hangup;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            (sigismember(&pending, SIGHUP) == 1 && sigaction(SIGHUP, NULL, &hangup) == 0 &&
             hangup.sa_handler == SIG_DFL));
}

/* A whole number of an option, 1 to 10 million. */
static bool take_number(const char *text, const char *key, uint32_t *n)
{
    size_t bytes = strlen(key);
    if (strncmp(text, key, bytes) != 0 || text[bytes] < '1' || text[bytes] > '9') {
        return false;
    }
    char *end;
    unsigned long value = strtoul(text + bytes, &end, 10);
    *n = (uint32_t)value;
    return *end == '\0' && value <= 10000000;
}

/* The path of an option. */
static bool take_path(const char *text, const char *key, char *path, size_t path_bytes)
{
    size_t bytes = strlen(key), n = strlen(text);
    if (strncmp(text, key, bytes) != 0 || n == bytes || n - bytes >= path_bytes) {
        return false;
    }
    memcpy(path, text + bytes, n - bytes + 1u);
    return true;
}

static bool take_file(struct uw_mqtt_files *f, const char *text)
{
    return take_path(text, "password=", f->password, sizeof f->password) ||
           take_path(text, "ca=", f->ca, sizeof f->ca) ||
           take_path(text, "cert=", f->cert, sizeof f->cert) ||
           take_path(text, "key=", f->key, sizeof f->key);
}

/* ADDRESS[,keep=N][,epoch=N], of MQTT also files */
static int read_options(struct uw_stream *s, struct uw_error *err)
{
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s", s->name);
    char *part = strchr(text, ',');
    bool good = true, mqtt = strncmp(text, "mqtt", 4) == 0;
    while (part != NULL && good) {
        *part++ = '\0';
        char *next = strchr(part, ',');
        char one[NAME_BYTES];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(part, ","), part);
        good = take_number(one, "keep=", &s->keep_n) || take_number(one, "epoch=", &s->epoch_n) ||
               (mqtt && take_file(&s->files, one));
        part = next;
    }
    memcpy(s->address, text, sizeof text);
    return good ? UW_OK
                : uw_error_set(err, UW_ERR_INVALID,
                               "%.100s: options are keep=N and epoch=N, whole numbers from 1 to "
                               "10000000%s", s->name,
                               mqtt ? ", password=FILE, ca=FILE, cert=FILE and key=FILE" : "");
}

static void release(struct uw_stream *s)
{
    for (struct uw_stream **p = &streams; *p != NULL; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            break;
        }
    }
    uw_source_close(&s->source);
    uw_reservoir_close(&s->train);
    uw_reservoir_close(&s->test);
    pthread_mutex_destroy(&s->lock);
    free(s->x);
    free(s);
}

/* Wait for the first sample to train on. */
static int wait_for_first(struct uw_stream *s, uint32_t model_n, struct uw_error *err)
{
    int rc = UW_OK;
    char why[240];
    while (rc == UW_OK && s->train.n == 0 && !s->source.over) {
        if (is_asked_to_end()) {
            return uw_error_set(err, UW_ERR_AGAIN, "%.100s: no sample arrived before the "
                                "program was asked to end", s->address);
        }
        if (s->source.mqtt != NULL && uw_mqtt_is_refused(s->source.mqtt, why, sizeof why)) {
            return uw_error_set(err, UW_ERR_DENIED, "%s", why);
        }
        uw_source_wait(&s->source, WAIT_MS);
        rc = look(s, model_n);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%.120s: %s", s->address, uw_status_text(rc));
    }
    if (s->train.n != 0) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_CORRUPT, "%.60s: ended without a sample%s%.120s",
                        s->address, s->refused_n != 0 ? "; " : "", s->refusal);
}

static int start(struct uw_stream **stream, const char *name, uint32_t sample_n,
                 uint32_t classes_n, struct uw_error *err)
{
    struct uw_stream *s = calloc(1, sizeof *s);
    *stream = s;
    if (s == NULL || strlen(name) >= NAME_BYTES) {
        free(s);
        *stream = NULL;
        return uw_error_set(err, s == NULL ? UW_ERR_NOMEM : UW_ERR_INVALID,
                            "%.60s: %s", name,
                            s == NULL ? "no memory" : "needs a name of at most 1023 bytes");
    }
    memcpy(s->name, name, strlen(name) + 1u);
    s->keep_n = KEEP_N;
    s->epoch_n = EPOCH_N;
    s->classes_n = classes_n;
    s->source.listener = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->next = streams;
    streams = s;
    int rc = read_options(s, err);
    rc = rc < 0 ? rc : uw_source_open(&s->source, s->address, &s->files, err);
    return rc < 0 ? rc : wait_for_first(s, sample_n, err);
}

int uw_stream_open(struct uw_stream_set *d, const char *name, bool test, uint32_t sample_n,
                   uint32_t classes_n, struct uw_error *err)
{
    struct uw_stream *s = find(name);
    int rc = s != NULL ? UW_OK : start(&s, name, sample_n, classes_n, err);
    *d = (struct uw_stream_set){.test = test};
    if (rc < 0) {
        if (s != NULL) {
            release(s);
        }
        return rc;
    }
    s->opened_n++;
    d->stream = s;
    d->base = (struct uw_dataset){.ops = &stream_ops, .channels = s->sample_n, .height = 1,
                                  .width = 1, .classes = 2, .endless = !test,
                                  .samples_n = test ? 1u : s->epoch_n};
    return UW_OK;
}

void uw_stream_close(struct uw_stream_set *d)
{
    if (d->stream != NULL && --d->stream->opened_n == 0) {
        release(d->stream);
    }
    d->stream = NULL;
}

bool uw_stream_is_labelled(const struct uw_stream_set *d)
{
    return d->stream->labelled;
}

bool uw_stream_news(const struct uw_stream_set *d, char *text, size_t text_bytes)
{
    struct uw_stream *s = d->stream;
    bool told = true;
    pthread_mutex_lock(&s->lock);
    if (!s->told_start) {
        s->told_start = true;
        snprintf(text, text_bytes, "%.60s: lines of %u numbers%s; up to %u samples are kept",
                 s->address, (unsigned)s->sample_n, s->labelled ? " and a label" : "",
                 (unsigned)s->keep_n);
    } else if (s->refused_n != s->told_refused_n) {
        uint64_t n = s->refused_n - s->told_refused_n;
        snprintf(text, text_bytes, "%.60s: %llu line%s skipped, the last is %.120s",
                 s->address, (unsigned long long)n, n == 1 ? "" : "s", s->refusal);
        s->told_refused_n = s->refused_n;
    } else if (s->source.over && !s->told_end) {
        s->told_end = true;
        snprintf(text, text_bytes, "%.60s: ended after %llu samples, of which %u are kept; "
                                   "training goes on with them",
                 s->address, (unsigned long long)s->arrived_n,
                 (unsigned)(s->train.n + s->test.n));
    } else {
        told = s->source.mqtt != NULL && uw_mqtt_news(s->source.mqtt, text, text_bytes);
    }
    pthread_mutex_unlock(&s->lock);
    return told;
}
