/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoint of a run, from which it can be resumed.
 *
 * One safetensors file: tensors "x", "velocity" and the optimizer's, one row per node, and
 * "learners", the rest of each node in 64-bit words. The metadata contain what is common to all
 * nodes, and the flags, which must be the same when the run is resumed.
 *
 * Protocols start again: the nodes meet again, outside of virtual time, and every node's round
 * starts with its parameters. A rule over exact averages requires all nodes to start a round with
 * the same parameters; there they start with the mean of all. */
#include "sim_run.h"
#include "job/job_weights.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version of the file's format. New flags need no new version: they are compared by name. */
#define STATE_VERSION 4u

/* The last eight bytes of the file, least significant first, are uw_hash64 of all bytes before.
 * They form a tensor, so that other programs can read the file. */
#define CHECK "check"
#define CHECK_BYTES 8u

#define HEADER_MAX_BYTES 1000000u
#define BLOCK_BYTES 65536u

/* A node's row of "learners": its state apart from vectors. */
struct row {
    uint64_t step, updates, epoch, position, trains, computed, left_us, ended_us;
    double lr, momentum, loss, step_loss;
};

#define ROW_WORDS (sizeof(struct row) / sizeof(uint64_t))

/* Numbers of all nodes together, by their key in the metadata. */
#define NUMBERS(X)                                                      \
    X("step_us", uint64_t, s->step_us)                                  \
    X("trained_us", uint64_t, s->past.trained_us)                       \
    X("sent_bytes", uint64_t, s->past.sent_bytes)                       \
    X("node_steps", uint64_t, s->report.node_steps)                     \
    X("due", uint32_t, s->report.due)                                   \
    X("pulls_done", uint32_t, s->past.counters.pulls_done)              \
    X("pulls_cut", uint32_t, s->past.counters.pulls_cut)                \
    X("pulls_refused", uint32_t, s->past.counters.pulls_refused)        \
    X("pulls_stale", uint32_t, s->past.counters.pulls_stale)            \
    X("averages_done", uint32_t, s->past.counters.averages_done)        \
    X("averages_cut", uint32_t, s->past.counters.averages_cut)          \
    X("pairs_half", uint32_t, s->past.counters.pairs_half)              \
    X("refused_outlier", uint32_t, s->past.counters.refused_outlier)    \
    X("chunks_again", uint32_t, s->past.counters.chunks_again)          \
    X("pulled_bytes", uint64_t, s->past.counters.pulled_bytes)

/* A tensor with one row per node. */
struct tensor {
    const char *name, *dtype;
    uint64_t row_n;
    size_t row_bytes;
};

static struct tensor floats(const char *name, uint32_t row_n)
{
    return (struct tensor){name, "F32", row_n, row_n * sizeof(float)};
}

/* List the tensors of the file, "learners" first. Returns how many there are. */
static uint32_t list_tensors(const struct uw_sim *s, struct tensor t[UW_SIM_TENSORS_MAX])
{
    const struct uw_model *m = &s->jobs[0].model;
    uint32_t n = 0;
    t[n++] = (struct tensor){"learners", "U64", ROW_WORDS, sizeof(struct row)};
    t[n++] = floats("x", m->params.size_n);
    if (m->velocity != NULL) {
        t[n++] = floats("velocity", m->params.size_n);
    }
    for (uint32_t v = 0; v < s->vectors; v++) {
        t[n++] = floats(uw_optimizer_vector_name(&s->jobs[0].config.optimizer, v), m->trainable_n);
    }
    return n;
}

/* A learner's row of tensor t > 0. */
static float *vector_of(const struct uw_sim_learner *l, uint32_t t)
{
    bool velocity = l->replica.velocity != NULL;
    return t == 1              ? l->replica.x
           : velocity && t == 2 ? l->replica.velocity
                                : l->replica.state[t - (velocity ? 3u : 2u)];
}

static void put_u64(uint8_t le[8], uint64_t value)
{
    for (uint32_t i = 0; i < 8u; i++) {
        le[i] = (uint8_t)(value >> (8u * i));
    }
}

static uint64_t get_u64(const uint8_t le[8])
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8u; i++) {
        value |= (uint64_t)le[i] << (8u * i);
    }
    return value;
}

static uint64_t add_words(uint64_t hash, const uint64_t *word, size_t words_n)
{
    uint8_t le[8];
    for (size_t k = 0; k < words_n; k++) {
        put_u64(le, word[k]);
        hash = uw_hash64(hash, le, sizeof le);
    }
    return hash;
}

/* A hash of the fleet. A step that was measured is kept with the run. */
static uint64_t hash_fleet(const struct uw_sim_fleet *f)
{
    uint64_t hash = UW_HASH64_START, loss;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        const struct uw_sim_device *d = &f->devices[i];
        memcpy(&loss, &(double){(double)d->loss}, sizeof loss);
        const uint64_t words[] = {d->up_bits_per_s, d->down_bits_per_s, d->latency_us,
                                  loss, d->step_us, d->cell, d->absences_n};
        hash = add_words(hash, words, sizeof words / sizeof words[0]);
        for (uint32_t k = 0; k < d->absences_n; k++) {
            const struct uw_sim_absence *a = &d->absences[k];
            hash = add_words(hash, (uint64_t[]){a->from_us, a->to_us, a->forgets}, 3);
        }
    }
    for (uint32_t i = 0; i < f->cells_n; i++) {
        const struct uw_sim_cell *c = &f->cells[i];
        const uint64_t words[] = {c->bits_per_s, c->latency_us, c->shared, c->out_bits_per_s,
                                  c->out_latency_us};
        hash = add_words(hash, words, sizeof words / sizeof words[0]);
    }
    return hash;
}

/* ---- writing ---- */

/* Virtual time until its step ends; 0 for a node that waits. */
static uint64_t left_us(const struct uw_sim *s, const struct uw_world_node *n)
{
    if (n->train_at_us == UINT64_MAX && !n->waits) {
        return UINT64_MAX;
    }
    return !n->waits && n->train_at_us > s->world.now_us ? n->train_at_us - s->world.now_us : 0;
}

static void put_text(cJSON *to, const char *prefix, const char *key, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, key);
    cJSON_AddStringToObject(to, name, text);
}

static void put_number(cJSON *to, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_text(to, "uwasa.", key, text);
}

/* A tensor in the header. Returns where the next one begins. */
static uint64_t put_tensor(cJSON *header, const struct tensor *t, uint64_t rows, uint64_t at)
{
    const uint64_t end = at + rows * t->row_bytes;
    const double shape[2] = {(double)rows, (double)t->row_n};
    const double offsets[2] = {(double)at, (double)end};
    cJSON *entry = cJSON_AddObjectToObject(header, t->name);
    cJSON_AddStringToObject(entry, "dtype", t->dtype);
    cJSON_AddItemToObject(entry, "shape", cJSON_CreateDoubleArray(shape, 2));
    cJSON_AddItemToObject(entry, "data_offsets", cJSON_CreateDoubleArray(offsets, 2));
    return end;
}

/* The header as text, to be released with cJSON_free; NULL without memory. */
static char *make_header(const struct uw_sim *s)
{
    struct tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    uint64_t at = 0;
    cJSON *header = cJSON_CreateObject();
    cJSON *meta = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(meta, "format", "uwasa sim");
#define PUT_NUMBER(key, type, value) put_number(meta, key, value);
    NUMBERS(PUT_NUMBER)
    put_number(meta, "version", STATE_VERSION);
    put_number(meta, "fleet", hash_fleet(s->world.config.fleet));
    put_number(meta, "parameters", s->jobs[0].model.params.hash);
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char text[256];
        uw_opt_text(flag, s->o, text, sizeof text);
        if (!uw_sim_flag_is(UW_SIM_FLAG_FREE, flag->name)) {
            put_text(meta, "flag.", flag->name, text);
        }
    }
    for (uint32_t i = 0; i < tensors_n; i++) {
        at = put_tensor(header, &t[i], s->o->nodes, at);
    }
    (void)put_tensor(header, &(struct tensor){CHECK, "U64", 1, CHECK_BYTES}, 1, at);
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

/* A file, and the hash of what is in it so far. */
struct sink {
    struct uw_storage *to;
    uint64_t hash;
};

static int append(struct sink *k, const void *bytes, size_t bytes_n)
{
    k->hash = uw_hash64(k->hash, bytes, bytes_n);
    return k->to->ops->append(k->to, bytes, bytes_n);
}

static int append_u64(struct sink *k, uint64_t value)
{
    uint8_t le[8];
    put_u64(le, value);
    return append(k, le, sizeof le);
}

static int write_header(const struct uw_sim *s, struct sink *to)
{
    static const char spaces[8] = "        ";
    char *text = make_header(s);
    if (text == NULL) {
        return UW_ERR_NOMEM;
    }
    size_t bytes = strlen(text), pad = (8u - bytes % 8u) % 8u;
    int rc = append_u64(to, bytes + pad);
    rc = rc < 0 ? rc : append(to, text, bytes);
    rc = rc < 0 ? rc : append(to, spaces, pad);
    cJSON_free(text);
    return rc;
}

static int write_learners(const struct uw_sim *s, struct sink *to)
{
    struct row *rows = malloc(s->o->nodes * sizeof *rows);
    if (rows == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        const struct uw_sim_learner *l = &s->learners[i];
        rows[i] = (struct row){.step = l->step,
                               .updates = l->replica.updates,
                               .epoch = l->loader.epoch,
                               .position = l->loader.position,
                               .trains = l->trains,
                               .computed = l->trains && l->computed,
                               .left_us = left_us(s, &s->world.nodes[i]),
                               .ended_us = l->ended_us,
                               .lr = (double)l->lr,
                               .momentum = (double)l->momentum,
                               .loss = l->loss,
                               .step_loss = l->step_loss};
    }
    int rc = append(to, rows, s->o->nodes * sizeof *rows);
    free(rows);
    return rc;
}

/* Whether a node's parameters are being averaged. Then those before the average are saved, and with
 * some rules no velocity. */
static bool averages(const struct uw_sim *s, const struct uw_world_node *n)
{
    return uw_world_model(&s->world, n) != n->x;
}

/* The vector to save; zeros for a velocity in the middle of its rule's update. */
static const float *vector_to_save(const struct uw_sim *s, uint32_t node, uint32_t tensor,
                                   const float *zeros)
{
    const struct uw_world_node *n = &s->world.nodes[node];
    bool velocity = tensor == 2 && n->velocity != NULL;
    bool halfway = s->world.config.node.rule->before != NULL && averages(s, n);
    return tensor == 1           ? uw_world_model(&s->world, n)
           : velocity && halfway ? zeros
                                 : vector_of(&s->learners[node], tensor);
}

static int write_all(const struct uw_sim *s, struct uw_storage *file)
{
    struct sink sink = {file, UW_HASH64_START}, *to = &sink;
    struct tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    float *zeros = calloc(s->fresh.size_n, sizeof *zeros);
    int rc = zeros != NULL ? write_header(s, to) : UW_ERR_NOMEM;
    rc = rc < 0 ? rc : write_learners(s, to);
    for (uint32_t k = 1; k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = append(to, vector_to_save(s, i, k, zeros), t[k].row_bytes);
        }
    }
    free(zeros);
    return rc < 0 ? rc : append_u64(to, sink.hash);
}

/* Steps that have not begun are not saved: they are begun again. */
static int save_state(struct uw_sim *s)
{
    struct uw_storage_file files;
    int rc = uw_storage_file_init(&files, NULL);
    s->past = (struct uw_world_past){.trained_us = s->world.now_us - s->world.start_us,
                                     .sent_bytes = uw_world_sent_bytes(&s->world),
                                     .counters = uw_world_counters(&s->world)};
    s->report.due = uw_sim_report_dues(&s->report, s->least);
    rc = rc < 0 ? rc : files.base.ops->begin(&files.base, s->o->checkpoint);
    if (rc == UW_OK) {
        rc = write_all(s, &files.base);
        int ended = files.base.ops->end(&files.base, rc == UW_OK);
        rc = rc < 0 ? rc : ended;
    }
    uw_storage_file_deinit(&files);
    if (rc < 0) {
        uw_error_set(&s->err, rc, "--checkpoint %.160s: cannot be written: %s", s->o->checkpoint,
                     uw_job_why_unsaved(rc));
    }
    return rc == UW_ERR_AGAIN ? UW_ERR_IO : rc;     /* AGAIN means stopped, see run_steps */
}

bool uw_sim_some_average(const struct uw_sim *s)
{
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        if (averages(s, &s->world.nodes[i])) {
            return true;
        }
    }
    return false;
}

int uw_sim_save(struct uw_sim *s)
{
    bool failed = false;
    if (s->o->checkpoint == NULL) {
        return UW_OK;
    }
    uw_futures_discard(s->futures);
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (l->behind != 0) {
            uw_futures_submit(s->futures, &l->future);
        }
    }
    uw_futures_drain(s->futures);
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        failed = failed || s->learners[i].rc < 0;
    }
    int rc = failed ? UW_OK : save_state(s);    /* the failed step is reported when it ends */
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (l->handed && l->trains && !l->held && !l->computed) {
            uw_futures_submit(s->futures, &l->future);
        }
    }
    return rc;
}

/* ---- reading ---- */

static int damaged(struct uw_sim *s, const char *what)
{
    return uw_error_set(&s->err, UW_ERR_CORRUPT, "--resume %.160s: not the state of a simulated "
                                                 "run, or damaged: %s", s->o->resume, what);
}

/* Set an error: the file is of a program with other flags or another file format. */
static int fail_other_program(struct uw_sim *s, const char *what)
{
    return uw_error_set(&s->err, UW_ERR_MISMATCH, "--resume %.120s: saved by another version of "
                                                  "uwasa: %s; resume with that version, or start "
                                                  "a new run", s->o->resume, what);
}

static int unreadable(struct uw_sim *s, int rc)
{
    return uw_error_set(&s->err, rc, "--resume %.160s: %s", s->o->resume, uw_status_text(rc));
}

static int read_at(struct uw_sim *s, uint64_t at, void *to, size_t bytes)
{
    struct uw_storage *from = &s->saved.files.base;
    int rc = from->ops->read(from, s->o->resume, at, to, bytes);
    return rc < 0 ? unreadable(s, rc) : UW_OK;
}

static int get_number(struct uw_sim *s, const cJSON *meta, const char *key, uint64_t *value)
{
    char name[64];
    snprintf(name, sizeof name, "uwasa.%s", key);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, name));
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return damaged(s, name);
    }
    *value = strtoull(text, &end, 10);
    return *end == '\0' ? UW_OK : damaged(s, name);
}

/* A flag's value as on the command line, or words for a flag that was not given. */
static const char *flag_text(const char *text)
{
    return text[0] == '\0' || text[0] == '-' || strcmp(text, "18446744073709551615") == 0 ? "none"
                                                                                         : text;
}

/* Check that this program and the one that saved the file have the same flags. */
static int check_known(struct uw_sim *s, const cJSON *meta)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, meta) {
        const char *flag = strncmp(entry->string, "flag.", 5) == 0 ? entry->string + 5 : NULL;
        if (flag != NULL && uw_opt_find(*s->o->flags, flag, strlen(flag)) == NULL) {
            char what[80];
            snprintf(what, sizeof what, "it has --%.32s, which this version does not know", flag);
            return fail_other_program(s, what);
        }
    }
    return UW_OK;
}

static int check_flags(struct uw_sim *s, const cJSON *meta)
{
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char now[256], name[64];
        if (uw_sim_flag_is(UW_SIM_FLAG_FREE, flag->name)) {
            continue;
        }
        uw_opt_text(flag, s->o, now, sizeof now);
        snprintf(name, sizeof name, "flag.%s", flag->name);
        const char *then = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, name));
        if (then == NULL) {
            snprintf(name, sizeof name, "it has no --%.32s", flag->name);
            return fail_other_program(s, name);
        }
        if (strcmp(now, then) != 0) {
            return uw_error_set(&s->err, UW_ERR_MISMATCH,
                                "--%s %.60s: the run in %.100s was made with %.60s", flag->name,
                                flag_text(now), s->o->resume, flag_text(then));
        }
    }
    return UW_OK;
}

/* Check the file's checksum. */
static int check_bytes(struct uw_sim *s)
{
    struct uw_storage *from = &s->saved.files.base;
    uint64_t hash = UW_HASH64_START, size = 0;
    uint8_t block[BLOCK_BYTES];
    int rc = from->ops->size(from, s->o->resume, &size);
    uint64_t end = size - CHECK_BYTES;      /* there is more: a header */
    rc = rc < 0 ? unreadable(s, rc) : UW_OK;
    for (uint64_t at = 0; rc == UW_OK && at < end; at += sizeof block) {
        size_t n = end - at < sizeof block ? (size_t)(end - at) : sizeof block;
        rc = read_at(s, at, block, n);
        hash = uw_hash64(hash, block, n);
    }
    rc = rc < 0 ? rc : read_at(s, end, block, CHECK_BYTES);
    return rc < 0                  ? rc
           : get_u64(block) == hash ? UW_OK
                                    : damaged(s, "its checksum is wrong");
}

/* Refuse the file of another program, before its checksum is checked. */
static int check_maker(struct uw_sim *s, const cJSON *meta)
{
    uint64_t value = 0;
    int rc = get_number(s, meta, "version", &value);
    if (rc == UW_OK && value != STATE_VERSION) {
        char what[80];
        snprintf(what, sizeof what, "its format is %llu, that of this version is %u",
                 (unsigned long long)value, STATE_VERSION);
        return fail_other_program(s, what);
    }
    rc = rc < 0 ? rc : check_known(s, meta);
    rc = rc < 0 ? rc : check_flags(s, meta);
    return rc < 0 ? rc : check_bytes(s);
}

static int get_numbers(struct uw_sim *s, const cJSON *meta)
{
    uint64_t value = 0;
    int rc = check_maker(s, meta);
    rc = rc < 0 ? rc : get_number(s, meta, "fleet", &s->saved.fleet);
    rc = rc < 0 ? rc : get_number(s, meta, "parameters", &value);
    if (rc == UW_OK && value != s->jobs[0].model.params.hash) {
        return uw_error_set(&s->err, UW_ERR_MISMATCH, "--resume %.120s: of another model %.60s",
                            s->o->resume, s->o->model);
    }
#define GET_NUMBER(key, type, target)                       \
    if (rc == UW_OK) {                                      \
        rc = get_number(s, meta, key, &value);              \
        target = (type)value;                               \
    }
    NUMBERS(GET_NUMBER)
    s->report.resumed_steps = s->report.node_steps;
    s->report.resumed_s = (double)s->past.trained_us / 1e6;     /* as in a row */
    return rc;
}

/* Where a tensor begins. */
static int find_tensor(struct uw_sim *s, const cJSON *header, const struct tensor *t,
                       uint64_t data_bytes, uint64_t *begin)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(header, t->name);
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    uint64_t bytes = (uint64_t)s->o->nodes * t->row_bytes;
    double first = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 0));
    if (dtype == NULL || strcmp(dtype, t->dtype) != 0 || cJSON_GetArraySize(shape) != 2 ||
        cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0)) != (double)s->o->nodes ||
        cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 1)) != (double)t->row_n ||
        !(first >= 0.0 && first <= (double)data_bytes) || bytes > data_bytes ||
        (uint64_t)first > data_bytes - bytes) {
        return damaged(s, t->name);
    }
    *begin = (uint64_t)first;
    return UW_OK;
}

static int read_header(struct uw_sim *s)
{
    struct uw_sim_saved *f = &s->saved;
    struct uw_storage *from = &f->files.base;
    struct tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    uint8_t le[8];
    uint64_t size = 0;
    int rc = from->ops->size(from, s->o->resume, &size);
    rc = rc < 0 ? rc : from->ops->read(from, s->o->resume, 0, le, sizeof le);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? damaged(s, "it is empty") : unreadable(s, rc);
    }
    if (get_u64(le) > HEADER_MAX_BYTES || get_u64(le) > size - sizeof le) {
        return damaged(s, "its header");
    }
    const size_t bytes = (size_t)get_u64(le);
    char *text = calloc(1, bytes + 1u);
    rc = text != NULL ? from->ops->read(from, s->o->resume, sizeof le, text, bytes) : UW_ERR_NOMEM;
    cJSON *header = rc == UW_OK ? cJSON_Parse(text) : NULL;
    free(text);
    if (header == NULL) {
        return damaged(s, "its header");
    }
    f->data = sizeof le + bytes;
    rc = get_numbers(s, cJSON_GetObjectItemCaseSensitive(header, "__metadata__"));
    for (uint32_t i = 0; rc == UW_OK && i < tensors_n; i++) {
        rc = find_tensor(s, header, &t[i], size - f->data, &f->begin[i]);
    }
    cJSON_Delete(header);
    return rc;
}

static int read_row(struct uw_sim *s, uint32_t tensor, uint32_t node, void *to, size_t bytes)
{
    return read_at(s, s->saved.data + s->saved.begin[tensor] + (uint64_t)node * bytes, to, bytes);
}

static int read_learner(struct uw_sim *s, struct uw_sim_learner *l)
{
    struct row row = {.step = 0};
    int rc = read_row(s, 0, l->place, &row, sizeof row);
    if (rc < 0 || row.step > s->report.steps || row.position >= l->share.base.samples_n) {
        return rc < 0 ? rc : damaged(s, "learners");
    }
    l->step = row.step;
    l->replica.updates = row.updates;
    l->loader.epoch = row.epoch;
    l->loader.position = (uint32_t)row.position;
    l->trains = row.trains != 0;
    l->computed = row.computed != 0;
    s->left_us[l->place] = row.left_us;
    l->ended_us = row.ended_us;
    l->lr = (float)row.lr;
    l->momentum = (float)row.momentum;
    l->loss = row.loss;
    l->step_loss = row.step_loss;
    return UW_OK;
}

/* Whether the file to resume exists. It may not if --checkpoint names it too: the first run. */
static bool has_file_to_resume(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    uint64_t bytes;
    if (o->resume == NULL) {
        return false;
    }
    if (o->checkpoint != NULL && strcmp(o->checkpoint, o->resume) == 0 &&
        s->saved.files.base.ops->size(&s->saved.files.base, o->resume, &bytes) ==
        UW_ERR_NOTFOUND) {
        uw_progress_print(&s->report.progress, "%s: does not exist yet, starting at step "
                                             "0", o->resume);
        return false;
    }
    return true;
}

int uw_sim_resume(struct uw_sim *s)
{
    int rc = uw_storage_file_init(&s->saved.files, NULL);
    s->report.resumed = rc == UW_OK && has_file_to_resume(s);
    if (!s->report.resumed) {
        return rc;
    }
    rc = read_header(s);
    s->left_us = rc == UW_OK ? calloc(s->o->nodes, sizeof *s->left_us) : NULL;
    if (rc == UW_OK && s->left_us == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
        rc = read_learner(s, &s->learners[i]);
    }
    s->past.left_us = s->left_us;
    uw_sim_find_slowest(s);
    return rc;
}

int uw_sim_resume_vectors(struct uw_sim *s)
{
    struct tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    int rc = UW_OK;
    if (s->report.resumed && hash_fleet(s->world.config.fleet) != s->saved.fleet) {
        return uw_error_set(&s->err, UW_ERR_MISMATCH,
                            "--resume %.160s: made with other devices, links or absences",
                            s->o->resume);
    }
    for (uint32_t k = 1; s->report.resumed && k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = read_row(s, k, i, vector_of(&s->learners[i], k), t[k].row_bytes);
        }
    }
    if (rc < 0 || !s->report.resumed ||
        s->o->exchange.rule->over != UW_MIX_OVER_AVERAGES) {
        return rc;
    }
    struct uw_sim_apart apart = {0.0, 0.0};
    uw_sim_mean_model(&s->world, 0, s->fresh.size_n, s->mean, &apart);
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        memcpy(s->learners[i].replica.x, s->mean, s->fresh.size_n * sizeof(float));
    }
    return UW_OK;
}

void uw_sim_close_state(struct uw_sim *s)
{
    uw_storage_file_deinit(&s->saved.files);
    free(s->left_us);
    s->left_us = NULL;
}
