/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/session.h"

#include "storage_memory.h"
#include "job/job_names.h"
#include "job/job_weights.h"
#include "train/scores.h"
#include "train/train.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US 50000u          /* between two questions whether to stop */
#define TEST_BATCH 100u         /* samples at a time where nothing says how many, as uwasa eval */

/* A job with what made it. Jobs do not move in memory. */
struct work {
    struct uw_train_options options;
    struct uw_train train;
};

struct uw_session {
    struct uw_listener user;            /* as given */
    struct uw_listener listener;        /* the same, asked less often */
    uint64_t ask_us;                    /* when to ask it next */
    struct uw_train_options options;    /* for every call */
    struct uw_job model;                /* as read; all jobs borrow it */
    char *name;                         /* of the model, as given */
    struct work *now;                   /* its job has the weights */
    char *columns;                      /* of the data that they are for; NULL: not known */
    bool of_model;                      /* the columns are those in the ONNX file, to which other
                                           data need not keep */
    bool trained;                       /* they are not the initial ones */
    struct uw_choice loss;              /* of the last training */
    char words[2][UW_LOSS_TEXT_BYTES];  /* of options.loss and loss, whose texts go */
    struct uw_storage_memory weights;   /* a copy that somebody reads */
    struct uw_error err;
};

struct uw_session *uw_session_new(void)
{
    struct uw_session *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->options = uw_train_defaults();
        s->loss = s->options.loss;
        uw_storage_memory_init(&s->weights);
    }
    return s;
}

/* A loss with its words in memory of the session. */
static struct uw_choice keep_words(char words[UW_LOSS_TEXT_BYTES], struct uw_choice loss)
{
    snprintf(words, UW_LOSS_TEXT_BYTES, "%s", loss.word);
    return (struct uw_choice){words, loss.at};
}

static void drop(struct work *w)
{
    if (w != NULL) {
        uw_job_deinit(&w->train.job);
        free(w);
    }
}

void uw_session_free(struct uw_session *s)
{
    if (s != NULL) {
        drop(s->now);
        uw_storage_memory_close(&s->weights);
        uw_job_deinit(&s->model);
        free(s->columns);
        free(s->name);
        free(s);
    }
}

static void pass_line(void *arg, const char *text)
{
    const struct uw_listener *user = &((struct uw_session *)arg)->user;
    user->line(user->arg, text);
}

static void pass_event(void *arg, const char *json)
{
    const struct uw_listener *user = &((struct uw_session *)arg)->user;
    user->event(user->arg, json);
}

/* A step may take less time than the question. */
static bool ask_sometimes(void *arg)
{
    struct uw_session *s = arg;
    uint64_t now_us = uw_board_now_us();
    if (now_us < s->ask_us) {
        return false;
    }
    s->ask_us = now_us + ASK_US;
    return s->user.stop(s->user.arg);
}

void uw_session_listen(struct uw_session *s, void (*line)(void *arg, const char *text),
                       void (*event)(void *arg, const char *json), bool (*stop)(void *arg),
                       void *arg)
{
    s->user = (struct uw_listener){line, event, stop, arg};
    s->listener = (struct uw_listener){pass_line, pass_event, ask_sometimes, s};
}

const char *uw_session_error(const struct uw_session *s)
{
    return s->err.text;
}

/* Every error has a sentence. */
static int fail(struct uw_session *s, int rc, const struct uw_error *why)
{
    struct uw_error copy = *why;
    return uw_error_set(&s->err, rc, "%s", uw_error_sentence(&copy, rc));
}

static int set_options(struct uw_session *s, struct uw_train_options *o, const char *const *list)
{
    int rc = UW_OK;
    s->err.text[0] = '\0';
    for (uint32_t i = 0; list != NULL && rc == UW_OK && list[i] != NULL; i += 2) {
        rc = uw_train_set(o, list[i], list[i + 1], &s->err);
    }
    return rc;
}

/* A piece of work with the options of this call. Sets *w to NULL after an error. */
static int start(struct uw_session *s, const char *const *options, struct work **w)
{
    *w = calloc(1, sizeof **w);
    if (*w == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "%.120s: out of memory", s->name);
    }
    struct uw_train_options *o = &(*w)->options;
    struct uw_train *t = &(*w)->train;
    *o = s->options;
    o->model = s->name;
    int rc = set_options(s, o, options);
    uw_progress_init(&t->progress);
    t->o = o;
    t->of = &s->model;
    t->columns = s->of_model ? NULL : s->columns;
    t->trained = s->trained;
    t->start_us = uw_board_now_us();
    t->stop.listener = t->progress.listener = t->events.listener = &s->listener;
    if (rc < 0) {
        drop(*w);
        *w = NULL;
    }
    return rc;
}

/* ---- the model ---- */

/* [[name, first row, rows, [sizes]], ..] */
static cJSON *parts_of(const struct uw_job_torch *t)
{
    cJSON *all = cJSON_CreateArray();
    for (uint32_t i = 0; i < t->n; i++) {
        const struct uw_convert_part *p = &t->part[i];
        cJSON *part = cJSON_CreateArray(), *shape = cJSON_CreateArray();
        cJSON_AddItemToArray(part, cJSON_CreateString(p->name));
        cJSON_AddItemToArray(part, cJSON_CreateNumber(p->first));
        cJSON_AddItemToArray(part, cJSON_CreateNumber(p->rows));
        for (uint32_t a = 0; a < p->rank; a++) {
            cJSON_AddItemToArray(shape, cJSON_CreateNumber(p->dim[a]));
        }
        cJSON_AddItemToArray(part, shape);
        cJSON_AddItemToArray(all, part);
    }
    return all;
}

static void tell_model(struct uw_session *s)
{
    static const char *const kinds[] = {[UW_ANSWER_CLASS] = "class",
                                        [UW_ANSWER_VALUES] = "values",
                                        [UW_ANSWER_ERROR] = "error",
                                        [UW_ANSWER_MASK] = "mask"};
    const struct uw_job *j = &s->now->train.job;
    struct uw_answers a;
    uint32_t dim[UW_AXES_MAX];
    uint32_t rank = uw_model_shape(&j->model, UINT32_MAX, dim);
    cJSON *ev = uw_event("model");
    cJSON_AddStringToObject(ev, "name", j->file.def.name);
    cJSON *shape = cJSON_AddArrayToObject(ev, "input");
    for (uint32_t i = 0; i < rank; i++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber(dim[i]));
    }
    uw_answers_init(&a, j);
    UW_EVENT_NUMBERS(ev, {"input_n", a.input_n}, {"outputs_n", a.outputs_n},
                     {"numbers_n", a.numbers_n}, {"parameters", j->need.parameters_n});
    cJSON_AddStringToObject(ev, "answer", kinds[a.kind]);
    cJSON_AddItemToObject(ev, "data", s->columns != NULL ? cJSON_Parse(s->columns)
                                                         : cJSON_CreateObject());
    cJSON *torch = cJSON_AddObjectToObject(ev, "torch");
    for (uint32_t i = 0; i < j->model.params.segments_n; i++) {
        struct uw_job_torch t;
        const struct uw_segment *segment = &j->model.params.segments[i];
        if (uw_job_torch_find(j, segment, &t)) {
            cJSON_AddItemToObject(torch, segment->name, parts_of(&t));
        }
    }
    char *text = cJSON_PrintUnformatted(ev);
    if (text != NULL) {
        s->listener.event(s->listener.arg, text);
    }
    cJSON_free(text);
    cJSON_Delete(ev);
}

/* A job that computes answers, with the loss of o. */
static int plan_answers(struct uw_session *s, struct work *w, bool waits)
{
    const struct uw_train_options *o = &w->options;
    const struct uw_job_config config = {.model = s->name, .of = &s->model, .onnx = o->onnx,
                                         .listener = &s->listener, .backend = o->backend,
                                         .exact = o->exact, .gpu = true, .tf32 = o->tf32,
                                         .waits = waits, .threads = o->threads,
                                         .plan = {.batch_n = TEST_BATCH,
                                                  .mode = UW_PLAN_INFERENCE}};
    return uw_job_plan(&w->train.job, &config, &s->err);
}

static void keep_columns(struct uw_session *s, const struct uw_job_columns *c)
{
    free(s->columns);
    s->columns = c->columns.features_n != 0
                     ? uw_job_columns_text(&c->columns, uw_job_columns_loss(c)) : NULL;
    s->of_model = c->of_model;
}

static int load_weights(struct uw_session *s, struct uw_job *j, const char *file)
{
    struct uw_job_columns columns = {.loss = {.at = UW_LOSS_AUTO}};
    int rc = uw_job_load_weights(j, file, &s->err);
    rc = rc < 0 ? rc : uw_job_columns_load(&columns, file, &s->model.onnx, &s->err);
    if (rc == UW_OK) {
        s->trained = true;
        keep_columns(s, &columns);
        uw_job_print_notes(j);
    }
    uw_job_columns_close(&columns);
    return rc;
}

static int open_model(struct uw_session *s, const char *model, const char *const *options)
{
    struct uw_job_columns earlier = {.loss = {.at = UW_LOSS_AUTO}};
    struct work *w = NULL;
    int rc = set_options(s, &s->options, options);
    s->name = strdup(model);
    s->options.loss = keep_words(s->words[0], s->options.loss);
    s->loss = keep_words(s->words[1], s->options.loss);
    if (rc == UW_OK && s->name == NULL) {
        rc = uw_error_set(&s->err, UW_ERR_NOMEM, "%.120s: out of memory", model);
    }
    if (rc == UW_OK) {
        const struct uw_job_config config = {.model = s->name, .onnx = s->options.onnx,
                                             .listener = &s->listener};
        rc = uw_job_read(&s->model, &config, &s->err);
    }
    const char *weights = s->options.weights;
    s->options.weights = NULL;          /* later calls start from what the model has */
    rc = rc < 0 ? rc : start(s, NULL, &w);
    rc = rc < 0 ? rc : uw_job_columns_load(&earlier, weights, &s->model.onnx, &s->err);
    rc = rc < 0 ? rc : plan_answers(s, w, true);
    rc = rc < 0 ? rc : uw_job_take_loss(&w->train.job, s->loss, &earlier, &s->err);
    rc = rc < 0 ? rc : uw_job_bind(&w->train.job, &s->err);
    rc = rc < 0 ? rc : uw_job_init_weights(&w->train.job, s->options.seed, &s->err);
    if (rc == UW_OK && weights != NULL) {
        rc = load_weights(s, &w->train.job, weights);
    } else if (rc == UW_OK) {
        keep_columns(s, &earlier);
        uw_job_print_notes(&w->train.job);
    }
    uw_job_columns_close(&earlier);
    if (rc < 0) {
        drop(w);
        return fail(s, rc, &s->err);
    }
    s->now = w;
    tell_model(s);
    return UW_OK;
}

/* The thread is the caller's: subnormal numbers count again as they did. */
static int leave(int rc)
{
    uw_kernels_enter(&uw_kernels_ref);
    return rc;
}

int uw_session_open(struct uw_session *s, const char *model, const char *const *options)
{
    return leave(open_model(s, model, options));
}

/* ---- weights ---- */

static int copy_weights(struct uw_session *s)
{
    return uw_checkpoint_save(&s->now->train.job.model, NULL, &s->weights.base, "the weights",
                              &s->err);
}

int uw_session_get_weights(struct uw_session *s, const void **bytes, size_t *bytes_n)
{
    int rc = copy_weights(s);
    *bytes = s->weights.bytes;
    *bytes_n = s->weights.bytes_n;
    return rc < 0 ? fail(s, rc, &s->err) : rc;
}

int uw_session_set_weights(struct uw_session *s, const void *bytes, size_t bytes_n, bool loose)
{
    struct uw_storage_memory given;
    char text[UW_JOB_NOTE_BYTES];
    struct uw_job *j = &s->now->train.job;
    s->err.text[0] = '\0';
    uw_storage_memory_borrow(&given, bytes, bytes_n);
    int rc = uw_job_take_weights(j, &given.base, "weights", loose, "loose=True", &s->err);
    uw_storage_memory_close(&given);
    s->trained = s->trained || rc == UW_OK;
    if (rc == UW_OK && uw_job_note(j, j->onnx.notes_n, text) != NULL) {
        uw_tell(&s->listener, "%s", text);
    }
    return rc < 0 ? fail(s, rc, &s->err) : rc;
}

int uw_session_save(struct uw_session *s, const char *file)
{
    struct uw_storage_file files;
    const struct uw_train *t = &s->now->train;
    const struct uw_checkpoint state = {.step = t->step, .seed = t->o->seed,
                                        .batch_n = t->o->batch, .data = s->columns};
    struct uw_checkpoint mine = state;
    s->err.text[0] = '\0';
    int rc = uw_storage_file_init(&files, NULL);
    rc = rc < 0 ? rc : uw_job_guard_save("save", file, &s->err);
    rc = rc < 0 ? rc : uw_job_try_save(&files.base, "save", file, &s->err);
    rc = rc < 0 ? rc : uw_checkpoint_save(&t->job.model, s->columns != NULL ? &mine : NULL,
                                          &files.base, file, &s->err);
    uw_storage_file_deinit(&files);
    return rc < 0 ? fail(s, rc, &s->err) : rc;
}

int uw_session_load(struct uw_session *s, const char *file)
{
    s->err.text[0] = '\0';
    int rc = load_weights(s, &s->now->train.job, file);
    if (rc == UW_OK) {
        tell_model(s);
    }
    return rc < 0 ? fail(s, rc, &s->err) : rc;
}

/* ---- training ---- */

/* The new job has the weights now. */
static void keep(struct uw_session *s, struct work *w)
{
    const char *columns = w->train.job.columns;
    free(s->columns);
    s->columns = columns != NULL ? strdup(columns) : NULL;
    s->of_model = false;
    s->trained = true;
    s->loss = keep_words(s->words[1], w->options.loss);
    drop(s->now);
    s->now = w;
    tell_model(s);
}

static int fit(struct uw_session *s, const char *data, const struct uw_data_arrays *train,
               const struct uw_data_arrays *held, const char *const *options)
{
    struct work *w;
    int status, rc = start(s, options, &w);
    if (rc < 0) {
        return fail(s, rc, &s->err);
    }
    struct uw_train *t = &w->train;
    w->options.data = data;
    t->arrays = train;
    t->held = held;
    t->before = &s->weights.base;
    rc = uw_train_check(&w->options, &t->err);
    if (rc == UW_OK && w->options.weights != NULL) {
        rc = uw_error_set(&t->err, UW_ERR_INVALID, "--weights: are given when the model is opened, "
                          "or loaded");
    }
    if (rc == UW_OK) {
        rc = copy_weights(s);
        t->err = s->err;
    }
    rc = rc < 0 ? rc : uw_train_open(t, &status);
    rc = rc < 0 ? rc : uw_train_run(t);
    if (rc == UW_OK) {
        uw_train_report_done(t);
    }
    uw_train_close(t);
    uw_storage_memory_close(&s->weights);
    if (rc < 0) {
        rc = fail(s, rc, &t->err);
        drop(w);
        return rc;
    }
    keep(s, w);
    return t->interrupted ? 1 : 0;
}

int uw_session_fit(struct uw_session *s, const char *data, const struct uw_data_arrays *train,
                   const struct uw_data_arrays *held, const char *const *options)
{
    return leave(fit(s, data, train, held, options));
}

/* ---- answers ---- */

static bool stop_asked(void *arg)
{
    return uw_stop_asked(arg);
}

static int run_test(struct uw_session *s, struct work *w, const struct uw_data *data)
{
    struct uw_train *t = &w->train;
    struct uw_answers answers;
    struct uw_scores scores;
    uw_answers_init(&answers, &t->job);
    uw_answers_take(&answers, uw_data_columns(data));
    int rc = uw_scores_open(&scores, &answers, &s->err);
    scores.threshold = t->job.model.anomaly_threshold;
    rc = rc < 0 ? rc : uw_scores_run(&scores, &t->job, data->base, stop_asked, &t->stop, &s->err);
    if (rc == UW_OK) {
        cJSON *ev = uw_event("test");
        if (answers.classes_n != 0) {
            cJSON_AddNumberToObject(ev, "accuracy", uw_scores_accuracy(&scores));
        }
        UW_EVENT_NUMBERS(ev, {"loss", uw_scores_loss(&scores)},
                         {"samples", (double)scores.samples_n});
        uw_scores_json(&scores, ev);
        uw_events_put(&t->events, ev);
    }
    uw_scores_close(&scores);
    return rc;
}

static int evaluate(struct uw_session *s, const char *data, const struct uw_data_arrays *held,
                    const char *const *options)
{
    struct uw_data test = {.base = NULL};
    struct work *w;
    int rc = start(s, options, &w);
    if (rc < 0) {
        return fail(s, rc, &s->err);
    }
    struct uw_job *j = &w->train.job;
    bool said = w->options.loss.at != s->options.loss.at;
    const struct uw_job_data_config config = {.spec = data,
                                              .loss = said ? w->options.loss : s->loss,
                                              .columns = s->columns,
                                              .data = {.seed = w->options.seed, .held = held}};
    rc = plan_answers(s, w, true);
    rc = rc < 0 ? rc : uw_job_open_data(j, &config, NULL, &test, &s->err);
    rc = rc < 0 ? rc : uw_job_bind(j, &s->err);
    rc = rc < 0 ? rc : uw_job_init_weights(j, 1, &s->err);
    rc = rc < 0 ? rc : copy_weights(s);
    rc = rc < 0 ? rc : uw_checkpoint_load(&j->model, NULL, &s->weights.base, "the weights",
                                          &s->err);
    uw_storage_memory_close(&s->weights);
    rc = rc < 0 ? rc : run_test(s, w, &test);
    uw_data_close(&test);
    drop(w);
    return rc < 0 ? fail(s, rc, &s->err) : rc;
}

int uw_session_evaluate(struct uw_session *s, const char *data, const struct uw_data_arrays *held,
                        const char *const *options)
{
    return leave(evaluate(s, data, held, options));
}

/* Samples as in training, in the model's own minibatch; as they are where no scale is known. */
static const float *scaled(struct uw_model *m, const struct uw_data_columns *c, const float *x,
                           uint32_t n)
{
    if (c->mean == NULL || c->features_n != m->input_n) {
        return x;
    }
    for (size_t i = 0; i < (size_t)n * m->input_n; i++) {
        size_t k = i % m->input_n;
        m->input[i] = isnan(x[i]) ? 0.0f : (x[i] - c->mean[k]) * c->inverse[k];
    }
    return m->input;
}

/* NaN has no answer, unless a standard scale has a mean for it. */
static int check_finite(struct uw_session *s, const struct uw_data_columns *c, const float *x,
                        size_t n)
{
    size_t each = s->now->train.job.model.input_n;
    bool fills = c->mean != NULL && c->features_n == each;
    for (size_t i = 0; i < n * each; i++) {
        bool gap = fills && isnan(x[i]) && c->mean[i % each] != 0.0f;
        if (!isfinite(x[i]) && !gap) {
            return uw_error_set(&s->err, UW_ERR_INVALID, "x: number %zu of sample %zu, counted "
                                "from 0, is %s; leave such samples out, or put a value in its "
                                "place: means that fit found with scale=\"standard\" fill gaps",
                                i % each, i / each, isnan(x[i]) ? "NaN" : "infinite");
        }
    }
    return UW_OK;
}

static int predict(struct uw_session *s, const struct uw_data_columns *c, const float *x,
                   uint32_t n, bool raw, float *out)
{
    struct uw_train *t = &s->now->train;
    struct uw_model *m = &t->job.model;
    struct uw_answers a;
    uint32_t most = m->config.micro_n != 0 ? m->config.micro_n : m->config.batch_n;
    s->err.text[0] = '\0';
    uw_answers_init(&a, &t->job);
    uw_answers_take(&a, c);
    size_t numbers_n = raw ? a.outputs_n : a.numbers_n;
    for (uint32_t at = 0; at < n;) {
        uint32_t part = n - at < most ? n - at : most;
        const float *y, *mine = scaled(m, c, x + (size_t)at * a.input_n, part);
        t->stop.asked = false;
        if (uw_stop_asked(&t->stop)) {
            return UW_ERR_AGAIN;
        }
        int rc = uw_model_forward(m, mine, part, &y);
        if (rc < 0) {
            return fail(s, rc, &(struct uw_error){.text = ""});
        }
        for (uint32_t i = 0; i < part; i++, at++) {
            float *to = out + (size_t)at * numbers_n;
            if (raw) {
                memcpy(to, y + (size_t)i * a.outputs_n, numbers_n * sizeof *to);
            } else {
                uw_answers_read(&a, y + (size_t)i * a.outputs_n, mine + (size_t)i * a.input_n, to);
            }
        }
    }
    return UW_OK;
}

int uw_session_predict(struct uw_session *s, const float *x, uint32_t n, bool raw, float *out)
{
    struct uw_job_columns c = {.loss = {.at = UW_LOSS_AUTO}};
    int rc = s->columns != NULL ? uw_job_columns_read(&c, s->columns, "the weights", &s->err)
                                : UW_OK;
    if (c.columns.mean != NULL) {
        uw_tell(&s->listener, "features are scaled as in training");
    }
    rc = rc < 0 ? rc : check_finite(s, &c.columns, x, n);
    rc = rc < 0 ? rc : predict(s, &c.columns, x, n, raw, out);
    uw_job_columns_close(&c);
    return rc;
}
