/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "columns.h"
#include "reservoir.h"
#include "stream_lines.h"
#include "stream_names.h"
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
    struct uw_stream_wanted wanted; /* of the model's sample, and where a line has more */
    uint32_t outputs_n;             /* classes of the model; 0: not known */
    enum uw_data_advice advice;
    struct uw_data_columns columns;
    struct uw_notes notes;
    struct uw_source source;
    pthread_mutex_t lock;           /* of all below */
    struct uw_stream_form form;     /* sample_n 0: not known yet */
    struct uw_stream_order order[UW_SOURCE_SENDERS];
    struct uw_reservoir train, test;
    struct uw_dataset *tested;      /* the test set, of which samples_n follows; NULL: none */
    float *x;                       /* [sample_n + behind_n] */
    uint64_t arrived_n, refused_n, told_refused_n;
    uint32_t other_n, misfits_n;    /* numbers of first lines that do not fit, and how many do so */
    float least, most;              /* of features, of the first samples */
    struct timespec looked, told;
    char refusal[200], first_refusal[200];      /* the last and the first one */
    bool told_start, told_end, told_scale;
    bool by_names, other_names;     /* a line was read by names; a header has none of them */
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

/* A first line of n numbers does not fit. It may be cut; two are not. */
static int count_misfit(struct uw_stream *s, uint32_t n)
{
    s->misfits_n = n == s->other_n ? s->misfits_n + 1u : 1u;
    s->other_n = n;
    return s->misfits_n < MISFITS ? UW_OK : UW_ERR_MISMATCH;
}

/* A first line of another length than the model's sample. */
static int refuse_shape(struct uw_stream *s, const char *text, uint64_t line_n, uint32_t n)
{
    const struct uw_stream_wanted *w = &s->wanted;
    char why[160], either[32] = "", what[24] = "a label";
    if (!w->needed) {
        snprintf(either, sizeof either, "%u features, or ", (unsigned)w->sample_n);
    }
    if (w->behind == UW_STREAM_VALUE) {
        snprintf(what, sizeof what, w->behind_n == 1 ? "a value" : "%u values",
                 (unsigned)w->behind_n);
    }
    bool may_be_values = s->outputs_n > 1 && n == w->sample_n + s->outputs_n;
    snprintf(why, sizeof why, "has %u number%s (\"%.24s\"): the model takes %s%u features and %s, "
             "%u in all%s", (unsigned)n, n == 1 ? "" : "s", text, either, (unsigned)w->sample_n,
             what, (unsigned)(w->sample_n + w->behind_n),
             may_be_values ? "; --loss mse learns values" : "");
    refuse(s, line_n, why);
    return count_misfit(s, n);
}

/* Whether a line of n numbers is a sample of the model. */
static bool fits(const struct uw_stream *s, uint32_t n)
{
    const struct uw_stream_wanted *w = &s->wanted;
    bool alone = n == w->sample_n && !w->needed;
    return w->sample_n == 0 ? n > w->behind_n : alone || n == w->sample_n + w->behind_n;
}

/* How lines are that have something behind their numbers, or not. */
static struct uw_stream_form form_of(const struct uw_stream *s, uint32_t sample_n, bool behind)
{
    return (struct uw_stream_form){
        .sample_n = sample_n, .behind = behind ? s->wanted.behind : UW_STREAM_NOTHING,
        .behind_n = s->wanted.behind_n, .classes = s->columns.classes,
        .classes_n = s->columns.classes_n, .names = &s->columns};
}

/* Learn from the first sample, or from a header, how all are. */
static int take_shape(struct uw_stream *s, uint32_t n)
{
    bool alone = n == s->wanted.sample_n;
    s->form = form_of(s, alone ? n : n - s->wanted.behind_n, !alone);
    uint32_t values_n = s->form.behind == UW_STREAM_VALUE ? s->form.behind_n : 0;
    uint32_t kept_n = s->form.sample_n + values_n;
    s->x = malloc(((size_t)s->form.sample_n + s->form.behind_n) * sizeof *s->x);
    int rc = s->x != NULL ? uw_reservoir_open(&s->train, s->options.keep_n, kept_n, SEED)
                          : UW_ERR_NOMEM;
    return rc < 0 ? rc
                  : uw_reservoir_open(&s->test, s->options.keep_n / TEST_EVERY + 1u, kept_n,
                                      SEED + 1u);
}

/* Take in a line while it is not known how samples are. Returns 1: it is one. */
static int take_first(struct uw_stream *s, const char *text, uint64_t line_n)
{
    uint32_t sample_n = s->wanted.sample_n != 0 ? s->wanted.sample_n : 1u, label;
    struct uw_stream_form form = form_of(s, sample_n, true);
    uint32_t n = uw_stream_count(text, &form);
    struct uw_error why = {.text = ""};
    form.behind = UW_STREAM_NOTHING;
    if (n == 0) {
        float *x = malloc(((size_t)form.sample_n + 1u) * sizeof *x);
        int rc = x != NULL ? uw_stream_read_line(text, &form, x, &label, &why) : UW_ERR_NOMEM;
        free(x);
        if (rc != UW_ERR_NOMEM) {
            refuse(s, line_n, why.text);
        }
        return rc != UW_ERR_NOMEM ? UW_OK : rc;
    }
    return fits(s, n) ? 1 : refuse_shape(s, text, line_n, n);
}

/* Name the columns, if they have no names yet, and find where a header has them. */
static int find_columns(struct uw_stream *s, const char *text, struct uw_stream_order *order,
                        struct uw_error *why)
{
    bool open = s->form.sample_n == 0, behind = false;
    int rc = open && s->columns.features == NULL
                 ? uw_stream_names_take(&s->columns, text, &s->wanted, &s->options.table, why) : 0;
    rc = rc < 0 ? rc : uw_stream_order_take(order, text, &s->columns, &s->wanted,
                                            &s->options.table, &behind, why);
    if (rc > 0 && open) {
        rc = take_shape(s, s->wanted.sample_n + (behind ? s->wanted.behind_n : 0));
        return rc < 0 ? rc : 1;
    }
    return rc > 0 && s->form.behind != UW_STREAM_NOTHING && !behind
               ? uw_error_set(why, UW_ERR_MISMATCH, "header: nothing is behind the sample") : rc;
}

/* Take a header. Returns 1 (it is one), 0 (it is none), or an error that ends the stream. */
static int take_header(struct uw_stream *s, const char *text, uint64_t line_n,
                       struct uw_stream_order *o)
{
    static const struct uw_data_columns none = {.features_n = 0};
    struct uw_stream_order order = {.cells_n = 0};
    struct uw_error why = {.text = ""};
    bool first = line_n == 1, number = strchr("0123456789+-.", text[strspn(text, " \t")]) != NULL;
    if ((!first && number) || !uw_stream_is_header(text, first ? &s->columns : &none)) {
        return 0;
    }
    int rc = find_columns(s, text, &order, &why);
    if (rc > 0) {
        uw_stream_order_close(o);
        *o = order;
        s->by_names = true;
        return 1;
    }
    uw_stream_order_close(&order);
    s->other_names = s->other_names || (rc == 0 && first && s->columns.features != NULL);
    if (rc == UW_ERR_MISMATCH) {        /* while nothing else has arrived, for good */
        o->misfit = true;
        refuse(s, line_n, why.text);
        rc = s->form.sample_n == 0 ? rc : 1;
    }
    return rc == 0 ? first : rc;
}

/* The keys of a first JSON object name the columns. Returns 1: go on with it. */
static int take_keys(struct uw_stream *s, const char *text, uint64_t line_n)
{
    struct uw_error why = {.text = ""};
    bool json = text[strspn(text, " \t")] == '{';
    int rc = json && s->columns.features == NULL
                 ? uw_stream_names_take(&s->columns, text, &s->wanted, &s->options.table, &why) : 0;
    if (rc == UW_ERR_MISMATCH) {
        refuse(s, line_n, why.text);
        return count_misfit(s, 0);
    }
    return rc < 0 ? rc : 1;
}

static void measure(struct uw_stream *s)
{
    for (uint32_t k = 0; k < s->form.sample_n && s->arrived_n < DOUBT_N; k++) {
        bool first = s->arrived_n == 0 && k == 0;
        s->least = first || s->x[k] < s->least ? s->x[k] : s->least;
        s->most = first || s->x[k] > s->most ? s->x[k] : s->most;
    }
}

/* Learn from a line how all are, if that is not known. Returns 1: it is. */
static int learn_shape(struct uw_stream *s, const char *text, uint64_t line_n)
{
    if (s->form.sample_n != 0) {
        return 1;
    }
    int rc = take_keys(s, text, line_n);
    rc = rc != 1 ? rc : take_first(s, text, line_n);
    if (rc == 1) {
        const struct uw_stream_form form = form_of(s, s->wanted.sample_n, true);
        s->by_names = uw_stream_is_named(text, &form);
        rc = take_shape(s, uw_stream_count(text, &form));
    }
    return rc < 0 ? rc : s->form.sample_n != 0;
}

/* Returns 1, or 0: it is none. */
static int read_sample(struct uw_stream *s, const char *text, uint64_t line_n,
                       const struct uw_stream_order *o, uint32_t *label)
{
    struct uw_error why = {.text = ""};
    s->form.order = o->cells_n != 0 ? o : NULL;
    int rc = o->misfit ? uw_error_set(&why, UW_ERR_CORRUPT, "follows a header that does not fit")
                       : uw_stream_read_line(text, &s->form, s->x, label, &why);
    if (rc == UW_OK && s->outputs_n != 0 && *label >= s->outputs_n) {
        rc = uw_error_set(&why, UW_ERR_CORRUPT, "label %u: the model has %u classes",
                          (unsigned)*label, (unsigned)s->outputs_n);
    }
    if (rc < 0) {
        refuse(s, line_n, why.text);
    }
    return rc == UW_OK;
}

/* Forget what a line said of all that is no sample, after all.
 *   features_n  of the columns as they were, without names; UINT32_MAX: they had names */
static void forget_shape(struct uw_stream *s, uint32_t features_n)
{
    struct uw_data_columns *c = &s->columns;
    if (features_n != UINT32_MAX) {
        uw_names_free(c->features, c->features_n);
        uw_names_free(c->targets, c->targets_n);
        free(c->label);
        c->features = c->targets = NULL;
        c->label = NULL;
        c->features_n = features_n;
    }
    uw_reservoir_close(&s->train);
    uw_reservoir_close(&s->test);
    free(s->x);
    s->x = NULL;
    s->form = (struct uw_stream_form){.sample_n = 0};
    s->by_names = false;
}

static int take_line(struct uw_stream *s, const char *text, uint64_t line_n,
                     struct uw_stream_order *o)
{
    uint32_t label;
    if (text[strspn(text, " \t\r")] == '\0') {
        return UW_OK;
    }
    int rc = take_header(s, text, line_n, o);
    if (rc != 0) {
        return rc < 0 ? rc : UW_OK;
    }
    bool open = s->form.sample_n == 0;
    uint32_t features_n = s->columns.features == NULL ? s->columns.features_n : UINT32_MAX;
    rc = learn_shape(s, text, line_n);
    if (rc > 0) {
        rc = read_sample(s, text, line_n, o, &label);
    }
    if (rc <= 0) {
        if (open) {
            forget_shape(s, features_n);
        }
        return rc;
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
    uint32_t from = 0;
    int rc = UW_OK, more = 1;
    for (uint32_t i = 0; i < LINES_MOST && more != 0 && rc == UW_OK; i++) {
        more = uw_source_take(&s->source, &text, &line_n, &from);
        if (more != 0 && line_n == 1) {         /* a sender begins */
            uw_stream_order_close(&s->order[from]);
        }
        if (more > 0) {
            rc = take_line(s, text, line_n, &s->order[from]);
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
    memcpy(d->values, from + n, (r->features_n - n) * sizeof *x);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t k = 0; c->mean != NULL && k < n; k++) {
        x[k] = (x[k] - c->mean[k]) * c->inverse[k];
    }
    return rc;
}

/* The values of the sample that was just read: meanwhile another one may have taken its place. */
static int read_stream_target(struct uw_dataset *base, uint64_t index, float *target)
{
    struct uw_stream_set *d = (struct uw_stream_set *)base;
    struct uw_stream *s = d->stream;
    const struct uw_data_columns *c = &s->columns;
    const struct uw_reservoir *r;
    pthread_mutex_lock(&s->lock);
    size_t at = place_of(d, index, &r);
    memcpy(target, d->drawn == index ? d->values : r->x + at * r->features_n + s->form.sample_n,
           base->targets_n * sizeof *target);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t k = 0; c->target_mean != NULL && k < base->targets_n; k++) {
        target[k] = (target[k] - c->target_mean[k]) * c->target_inverse[k];
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
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        uw_stream_order_close(&s->order[i]);
    }
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
static int take_config(struct uw_stream *s, const struct uw_data_config *config,
                       struct uw_error *err)
{
    uint32_t h = config->height != 0 ? config->height : 1;
    uint32_t w = config->width != 0 ? config->width : 1;
    bool said = s->options.table.target != NULL && config->wanted == UW_DATA_WANT_ANY;
    bool wants = said || config->wanted == UW_DATA_WANT_VALUES;
    bool values = wants && config->outputs != 0 && !config->leave_values;
    if (wants && !values) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "%.80s: a sample of a stream has one label, "
                            "or values to compute; masks, and labels for several outputs, are "
                            "read from files, as csv: or npz:", s->name);
    }
    s->wanted = (struct uw_stream_wanted){
        .sample_n = config->channels * h * w,
        .behind = values ? UW_STREAM_VALUE : UW_STREAM_LABEL,
        .behind_n = values ? config->outputs : 1u,
        .needed = wants || config->wanted == UW_DATA_WANT_LABELS,
        .unlabelled = config->wanted == UW_DATA_WANT_NOTHING};
    s->outputs_n = config->outputs > 1 && config->wanted <= UW_DATA_WANT_LABELS && !values
                       ? config->outputs : 0;
    s->advice = config->tokens ? UW_DATA_ADVISES_NOTHING : config->advice;
    return UW_OK;
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
    pthread_mutex_init(&s->lock, NULL);
    s->next = streams;
    streams = s;
    int rc = uw_stream_options_read(&s->options, s->name, err);
    rc = rc < 0 ? rc : take_config(s, config, err);
    bool values = s->wanted.behind == UW_STREAM_VALUE;
    rc = rc < 0 ? rc : uw_stream_columns_take(&s->columns, &s->options, config, s->wanted.sample_n,
                                              values ? s->wanted.behind_n : 0, &s->notes, err);
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
                                  .targets_n = s->train.features_n - s->form.sample_n};
    d->values = malloc(((size_t)d->base.targets_n + 1u) * sizeof *d->values);
    if (d->values == NULL) {
        uw_stream_close(d);
        return uw_error_set(err, UW_ERR_NOMEM, "%.60s: no memory", name);
    }
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
    free(d->values);
    d->values = NULL;
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
    const struct uw_stream_form *f = &s->form;
    const struct uw_data_columns *c = &s->columns;
    bool values = f->behind == UW_STREAM_VALUE;
    const char *name = !s->by_names ? NULL
                       : !values    ? c->label : c->targets != NULL ? c->targets[0] : NULL;
    char behind[96] = "";
    if (values && f->behind_n > 1) {
        snprintf(behind, sizeof behind, " and %u values", (unsigned)f->behind_n);
    } else if (f->behind != UW_STREAM_NOTHING) {
        snprintf(behind, sizeof behind, " and a %s%s%.40s%s", values ? "value" : "label",
                 name != NULL ? " in \"" : "", name != NULL ? name : "", name != NULL ? "\"" : "");
    }
    snprintf(text, text_bytes, "%.60s: lines of %u numbers%s%s; up to %u samples are kept",
             s->options.address, (unsigned)f->sample_n, behind,
             s->by_names      ? ", taken by their names"
             : s->other_names ? ", taken by their places: the header has none of the names that "
                                "the model was trained with"
                              : "", (unsigned)s->options.keep_n);
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
