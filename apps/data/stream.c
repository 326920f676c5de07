/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "columns.h"
#include "reservoir.h"
#include "stream_lines.h"
#include "stream_options.h"
#include "stream_source.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP_N 4096u                /* samples to train on */
#define EPOCH_N 1000u
#define TEST_EVERY 6u
#define TEST_AT 1u                  /* so the second sample is one */
#define LOOK_NS 2000000
#define WAIT_MS 100
#define TELL_S 10                   /* between two sentences about refused lines, while waiting */
#define MISFITS 2u                  /* first lines of one other length that end the opening */
#define DOUBT_N 100u                /* first samples of which the scale is doubted ... */
#define LARGE 10.0f                 /* ... from here on, as of tables */
#define LINES_MOST 4096u            /* taken in by one read */
#define SEED 0x73747265u

struct uw_stream {
    char name[UW_STREAM_NAME_BYTES];        /* as it was given */
    struct uw_stream *next;
    uint32_t opened_n;              /* sets */
    struct uw_stream_options options;
    uint32_t model_n, outputs_n;    /* floats of the model's sample, its classes; 0: not known */
    bool wants_more;                /* a label or a value */
    enum uw_stream_behind behind;   /* where a line has one */
    enum uw_data_advice advice;
    struct uw_data_columns columns;
    struct uw_notes notes;
    struct uw_source source;
    pthread_mutex_t lock;           /* of all below */
    struct uw_stream_form form;     /* sample_n 0: not known yet */
    struct uw_reservoir train, test;
    struct uw_dataset *tested;      /* the test set, of which samples_n follows; NULL: none */
    float *x;                       /* [sample_n + 1] */
    uint64_t arrived_n, refused_n, told_refused_n;
    uint32_t other_n, misfits_n;    /* numbers of first lines that do not fit, and how many do so */
    float least, most;              /* of features, of the first samples */
    struct timespec looked, told;
    char refusal[200], first_refusal[200];      /* the last and the first one */
    bool told_start, told_end, told_scale;
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
    snprintf(s->refusal, sizeof s->refusal, "line %llu: %.160s", (unsigned long long)line_n, why);
    if (s->refused_n++ == 0) {
        memcpy(s->first_refusal, s->refusal, sizeof s->refusal);
    }
}

/* Whether a line has words only, as names of columns. */
static bool is_header(const char *text)
{
    const char *first = text + strspn(text, " \t\r\"");
    return *first != '{' && strpbrk(first, ",;\t ") != NULL &&
           strchr("0123456789+-.,;", *first) == NULL;
}

/* A first line of another length than the model's sample. Such a line may be cut; two are not. */
static int refuse_shape(struct uw_stream *s, const char *text, uint64_t line_n, uint32_t n)
{
    char why[160], either[32] = "";
    if (!s->wants_more) {
        snprintf(either, sizeof either, "%u features, or ", (unsigned)s->model_n);
    }
    snprintf(why, sizeof why, "has %u number%s (\"%.24s\"): the model takes %s%u features and "
             "a %s, %u in all", (unsigned)n, n == 1 ? "" : "s", text, either, (unsigned)s->model_n,
             s->behind == UW_STREAM_VALUE ? "value" : "label", (unsigned)s->model_n + 1u);
    refuse(s, line_n, why);
    s->misfits_n = n == s->other_n ? s->misfits_n + 1u : 1u;
    s->other_n = n;
    return s->misfits_n < MISFITS ? UW_OK : UW_ERR_MISMATCH;
}

/* Whether a line of n numbers is a sample of the model. */
static bool fits(const struct uw_stream *s, uint32_t n)
{
    bool alone = n == s->model_n && !s->wants_more;
    return s->model_n == 0 ? n > 1 : alone || n == s->model_n + 1u;
}

/* Learn from the first sample how all are. */
static int take_shape(struct uw_stream *s, uint32_t n)
{
    bool alone = n == s->model_n;
    s->form = (struct uw_stream_form){.sample_n = alone ? n : n - 1u,
                                      .behind = alone ? UW_STREAM_NOTHING : s->behind,
                                      .classes = s->columns.classes,
                                      .classes_n = s->columns.classes_n};
    uint32_t kept_n = s->form.sample_n + (s->form.behind == UW_STREAM_VALUE ? 1u : 0u);
    s->x = malloc(((size_t)s->form.sample_n + 1u) * sizeof *s->x);
    int rc = s->x != NULL ? uw_reservoir_open(&s->train, s->options.keep_n, kept_n, SEED)
                          : UW_ERR_NOMEM;
    return rc < 0 ? rc
                  : uw_reservoir_open(&s->test, s->options.keep_n / TEST_EVERY + 1u, kept_n,
                                      SEED + 1u);
}

/* Take in a line while it is not known how samples are. Returns 1: it is one. */
static int take_first(struct uw_stream *s, const char *text, uint64_t line_n)
{
    const struct uw_stream_form form = {.sample_n = s->model_n != 0 ? s->model_n : 1u};
    uint32_t n = uw_stream_count(text), label;
    struct uw_error why = {.text = ""};
    if (n == 0) {
        float *x = malloc(((size_t)form.sample_n + 1u) * sizeof *x);
        int rc = x != NULL ? uw_stream_read_line(text, &form, x, &label, &why) : UW_ERR_NOMEM;
        free(x);
        if (rc != UW_ERR_NOMEM) {
            refuse(s, line_n, why.text);
            s->refused_n -= line_n == 1 && is_header(text) ? 1u : 0u;
        }
        return rc != UW_ERR_NOMEM ? UW_OK : rc;
    }
    return fits(s, n) ? 1 : refuse_shape(s, text, line_n, n);
}

static void measure(struct uw_stream *s)
{
    for (uint32_t k = 0; k < s->form.sample_n && s->arrived_n < DOUBT_N; k++) {
        bool first = s->arrived_n == 0 && k == 0;
        s->least = first || s->x[k] < s->least ? s->x[k] : s->least;
        s->most = first || s->x[k] > s->most ? s->x[k] : s->most;
    }
}

static int take_line(struct uw_stream *s, const char *text, uint64_t line_n)
{
    uint32_t label;
    struct uw_error why = {.text = ""};
    bool known = s->form.sample_n != 0;
    if (text[strspn(text, " \t\r")] == '\0' || (known && line_n == 1 && is_header(text))) {
        return UW_OK;
    }
    int rc = known ? 1 : take_first(s, text, line_n);
    rc = rc == 1 && !known ? take_shape(s, uw_stream_count(text)) : rc;
    if (rc < 0 || s->form.sample_n == 0) {
        return rc;
    }
    rc = uw_stream_read_line(text, &s->form, s->x, &label, &why);
    if (rc == UW_OK && s->outputs_n != 0 && label >= s->outputs_n) {
        rc = uw_error_set(&why, UW_ERR_CORRUPT, "label %u: the model has %u classes",
                          (unsigned)label, (unsigned)s->outputs_n);
    }
    if (rc < 0) {
        refuse(s, line_n, why.text);
        return UW_OK;
    }
    measure(s);
    bool test = s->arrived_n++ % TEST_EVERY == TEST_AT;
    rc = uw_reservoir_add(test ? &s->test : &s->train, s->x, label);
    return rc < 0 ? rc : UW_OK;
}

/* Take in what has arrived. */
static int look(struct uw_stream *s)
{
    char *text;
    uint64_t line_n = 0;
    int rc = UW_OK, more = 1;
    for (uint32_t i = 0; i < LINES_MOST && more != 0 && rc == UW_OK; i++) {
        more = uw_source_take(&s->source, &text, &line_n);
        if (more > 0) {
            rc = take_line(s, text, line_n);
        } else if (more < 0) {
            refuse(s, line_n, "is longer than 1 MiB");
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &s->looked);
    if (s->tested != NULL && s->test.n != 0) {
        s->tested->samples_n = s->test.n;
    }
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

/* The place of a sample, and in *r where it is. */
static uint32_t place_of(const struct uw_stream_set *d, uint64_t index,
                         const struct uw_reservoir **r)
{
    const struct uw_stream *s = d->stream;
    *r = d->test && s->test.n != 0 ? &s->test : &s->train;
    return d->test ? (uint32_t)(index % (*r)->n) : uw_reservoir_draw(*r, index);
}

static int read_stream(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct uw_stream_set *d = (struct uw_stream_set *)base;
    struct uw_stream *s = d->stream;
    const struct uw_data_columns *c = &s->columns;
    const struct uw_reservoir *r;
    uint32_t n = s->form.sample_n;
    pthread_mutex_lock(&s->lock);
    int rc = is_due(s) ? look(s) : UW_OK;
    size_t at = place_of(d, index, &r);
    const float *from = r->x + at * r->features_n;
    memcpy(x, from, n * sizeof *x);
    *label = r->label[at];
    d->drawn = index;
    d->value = r->features_n > n ? from[n] : 0.0f;
    pthread_mutex_unlock(&s->lock);
    for (uint32_t k = 0; c->mean != NULL && k < n; k++) {
        x[k] = (x[k] - c->mean[k]) * c->inverse[k];
    }
    return rc;
}

/* The value of the sample that was just read: meanwhile another one may have taken its place. */
static int read_stream_target(struct uw_dataset *base, uint64_t index, float *target)
{
    struct uw_stream_set *d = (struct uw_stream_set *)base;
    struct uw_stream *s = d->stream;
    const struct uw_data_columns *c = &s->columns;
    const struct uw_reservoir *r;
    pthread_mutex_lock(&s->lock);
    size_t at = place_of(d, index, &r);
    *target = d->drawn == index ? d->value : r->x[at * r->features_n + s->form.sample_n];
    pthread_mutex_unlock(&s->lock);
    if (c->target_mean != NULL) {
        *target = (*target - c->target_mean[0]) * c->target_inverse[0];
    }
    return UW_OK;
}

static const struct uw_dataset_ops stream_ops = {
    .name = "stream", .read = read_stream, .read_target = read_stream_target};

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
    uw_data_columns_free(&s->columns);
    free(s->x);
    free(s);
}

/* Tell of lines that are refused, while there is no sample: the first one at once. */
static void tell_refusals(struct uw_stream *s, const struct uw_data_config *config)
{
    struct timespec now;
    char text[320];
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool first = s->told_refused_n == 0;
    if (config->tell == NULL || s->refused_n == s->told_refused_n || s->train.n != 0 ||
        s->source.over || (!first && now.tv_sec - s->told.tv_sec < TELL_S)) {
        return;
    }
    snprintf(text, sizeof text, "%.60s: %.180s; waiting for lines that fit", s->options.address,
             first ? s->first_refusal : s->refusal);
    config->tell(config->tell_arg, text);
    s->told_refused_n = s->refused_n;
    s->told = now;
}

/* Wait for the first sample to train on. */
static int wait_for_first(struct uw_stream *s, const struct uw_data_config *config,
                          struct uw_error *err)
{
    const char *address = s->options.address;
    int rc = UW_OK;
    char why[240];
    while (rc == UW_OK && s->train.n == 0 && !s->source.over) {
        if (is_asked_to_end()) {
            return uw_error_set(err, UW_ERR_AGAIN, "%.100s: no sample arrived before the "
                                "program was asked to end", address);
        }
        if (s->source.mqtt != NULL && uw_mqtt_is_refused(s->source.mqtt, why, sizeof why)) {
            return uw_error_set(err, UW_ERR_DENIED, "%s", why);
        }
        uw_source_wait(&s->source, WAIT_MS);
        rc = look(s);
        if (rc == UW_OK) {
            tell_refusals(s, config);
        }
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%.60s: %.180s", address,
                            rc == UW_ERR_MISMATCH ? s->refusal : uw_status_text(rc));
    }
    if (s->train.n != 0) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_CORRUPT, "%.60s: ended without a sample%s%.160s", address,
                        s->refusal[0] != '\0' ? "; " : "", s->first_refusal);
}

/* What the model wants of a line. */
static void take_config(struct uw_stream *s, const struct uw_data_config *config)
{
    uint32_t h = config->height != 0 ? config->height : 1;
    uint32_t w = config->width != 0 ? config->width : 1;
    bool value = config->wanted == UW_DATA_WANT_VALUES && config->outputs == 1 &&
                 !config->leave_values;
    s->model_n = config->channels * h * w;
    s->outputs_n = config->outputs > 1 && config->wanted <= UW_DATA_WANT_LABELS ? config->outputs
                                                                                : 0;
    s->wants_more = config->wanted == UW_DATA_WANT_LABELS || config->wanted == UW_DATA_WANT_VALUES;
    s->behind = value ? UW_STREAM_VALUE : UW_STREAM_LABEL;
    s->advice = config->tokens ? UW_DATA_ADVISES_NOTHING : config->advice;
}

static int start(struct uw_stream **stream, const char *name, const struct uw_data_config *config,
                 struct uw_error *err)
{
    struct uw_stream *s = calloc(1, sizeof *s);
    *stream = s;
    if (s == NULL || strlen(name) >= UW_STREAM_NAME_BYTES) {
        free(s);
        *stream = NULL;
        return uw_error_set(err, s == NULL ? UW_ERR_NOMEM : UW_ERR_INVALID,
                            "%.60s: %s", name,
                            s == NULL ? "no memory" : "needs a name of at most 1023 bytes");
    }
    memcpy(s->name, name, strlen(name) + 1u);
    s->options.keep_n = KEEP_N;
    s->options.epoch_n = EPOCH_N;
    s->source.listener = -1;
    take_config(s, config);
    pthread_mutex_init(&s->lock, NULL);
    s->next = streams;
    streams = s;
    int rc = uw_stream_options_read(&s->options, s->name, err);
    rc = rc < 0 ? rc : uw_stream_columns_take(&s->columns, &s->options, config, s->model_n,
                                              s->behind == UW_STREAM_VALUE, &s->notes, err);
    s->told_scale = s->columns.mean != NULL || s->options.table.scale_said ||
                    s->advice == UW_DATA_ADVISES_NOTHING;
    rc = rc < 0 ? rc : uw_source_open(&s->source, s->options.address, &s->options.files, err);
    return rc < 0 ? rc : wait_for_first(s, config, err);
}

int uw_stream_open(struct uw_stream_set *d, const char *name, const struct uw_data_config *config,
                   struct uw_error *err)
{
    struct uw_stream *s = find(name);
    int rc = s != NULL ? UW_OK : start(&s, name, config, err);
    *d = (struct uw_stream_set){.test = config->test, .drawn = UINT64_MAX};
    if (rc < 0) {
        if (s != NULL) {
            release(s);
        }
        return rc;
    }
    s->opened_n++;
    s->tested = config->test ? &d->base : s->tested;
    d->stream = s;
    uint32_t classes_n = s->form.classes_n > 2 ? s->form.classes_n : 2;
    d->base = (struct uw_dataset){.ops = &stream_ops, .channels = s->form.sample_n, .height = 1,
                                  .width = 1, .classes = classes_n, .endless = !config->test,
                                  .samples_n = !config->test   ? s->options.epoch_n
                                               : s->test.n > 1u ? s->test.n : 1u,
                                  .targets_n = s->form.behind == UW_STREAM_VALUE ? 1u : 0u};
    return UW_OK;
}

void uw_stream_close(struct uw_stream_set *d)
{
    if (d->stream != NULL && d->stream->tested == &d->base) {
        d->stream->tested = NULL;
    }
    if (d->stream != NULL && --d->stream->opened_n == 0) {
        release(d->stream);
    }
    d->stream = NULL;
}

bool uw_stream_is_labelled(const struct uw_stream_set *d)
{
    return d->stream->form.behind != UW_STREAM_NOTHING;
}

const struct uw_data_columns *uw_stream_columns(const struct uw_stream_set *d)
{
    return d->stream->columns.features_n != 0 ? &d->stream->columns : NULL;
}

const struct uw_notes *uw_stream_notes(const struct uw_stream_set *d)
{
    return &d->stream->notes;
}

/* ---- news ---- */

static void tell_start(const struct uw_stream *s, char *text, size_t text_bytes)
{
    static const char *const behind[] = {[UW_STREAM_NOTHING] = "", [UW_STREAM_LABEL] =
                                         " and a label", [UW_STREAM_VALUE] = " and a value"};
    snprintf(text, text_bytes, "%.60s: lines of %u numbers%s; up to %u samples are kept",
             s->options.address, (unsigned)s->form.sample_n, behind[s->form.behind],
             (unsigned)s->options.keep_n);
}

/* Features that are far from 1 are learned badly. */
static void tell_scale(const struct uw_stream *s, char *text, size_t text_bytes)
{
    bool own = s->advice == UW_DATA_ADVISES_NEW;
    snprintf(text, text_bytes, "%s%.40s: features go from %g to %g and are not scaled%s",
             own ? "" : "WARNING: ", s->options.address, (double)s->least, (double)s->most,
             own ? ": weights of the model's own expect the units of their training"
                 : ", which learns badly: train on a table with scale=standard first and give what "
                   "it saves to --weights, or scale=255 divides them");
}

bool uw_stream_news(const struct uw_stream_set *d, char *text, size_t text_bytes)
{
    struct uw_stream *s = d->stream;
    const char *address = s->options.address;
    bool told = true;
    pthread_mutex_lock(&s->lock);
    if (!s->told_start) {
        s->told_start = true;
        tell_start(s, text, text_bytes);
    } else if (!s->told_scale && (s->most >= LARGE || s->least <= -LARGE)) {
        s->told_scale = true;
        tell_scale(s, text, text_bytes);
    } else if (s->refused_n != s->told_refused_n) {
        uint64_t n = s->refused_n - s->told_refused_n;
        snprintf(text, text_bytes, "%.60s: %llu line%s skipped, the last is %.180s",
                 address, (unsigned long long)n, n == 1 ? "" : "s", s->refusal);
        s->told_refused_n = s->refused_n;
    } else if (s->source.over && !s->told_end) {
        s->told_end = true;
        snprintf(text, text_bytes, "%.60s: ended after %llu samples, of which %u are kept; "
                                   "training goes on with them",
                 address, (unsigned long long)s->arrived_n, (unsigned)(s->train.n + s->test.n));
    } else {
        told = s->source.mqtt != NULL && uw_mqtt_news(s->source.mqtt, text, text_bytes);
    }
    pthread_mutex_unlock(&s->lock);
    return told;
}
