/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that is stopped and goes on, as one safetensors file: tensors "x", "velocity" and the
 * optimizer's, a row a node, and "learners", the rest of each node in 64-bit words. The metadata
 * hold what all share, and the flags, which must be the same when the run goes on.
 *
 * The protocols begin anew: the nodes meet again, outside of virtual time, and every node's round
 * starts at the parameters that it has then. A rule over exact averages wants all nodes to start a
 * round with the same ones; there they start with the mean of all. */
#include "sim_run.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 1u
#define HEADER_MAX_BYTES 1000000u
#define TENSORS_MAX (3u + UW_OPTIMIZER_VECTORS_MAX)

/* What a learner is beside vectors; floats and doubles as their bits. */
enum word {
    STEP, UPDATES, EPOCH, POSITION, TRAINS, COMPUTED, LEFT_US, LR, MOMENTUM, LOSS, STEP_LOSS, WORDS_N
};

/* Numbers of all nodes together, by their key in the metadata. */
#define NUMBERS(X)                                                      \
    X("step_us", uint64_t, s->step_us)                                  \
    X("trained_us", uint64_t, s->past.trained_us)                       \
    X("sent_bytes", uint64_t, s->past.sent_bytes)                       \
    X("node_steps", uint64_t, s->report.node_steps)                     \
    X("epoch", uint64_t, s->report.epoch)                               \
    X("eval_steps", uint64_t, s->report.eval_steps)                     \
    X("eval_seconds", uint64_t, s->report.evals)                        \
    X("pulls_done", uint32_t, s->past.counters.pulls_done)              \
    X("pulls_cut", uint32_t, s->past.counters.pulls_cut)                \
    X("pulls_refused", uint32_t, s->past.counters.pulls_refused)        \
    X("averages_done", uint32_t, s->past.counters.averages_done)        \
    X("averages_cut", uint32_t, s->past.counters.averages_cut)          \
    X("pairs_half", uint32_t, s->past.counters.pairs_half)              \
    X("refused_outlier", uint32_t, s->past.counters.refused_outlier)    \
    X("chunks_again", uint32_t, s->past.counters.chunks_again)          \
    X("pulled_bytes", uint64_t, s->past.counters.pulled_bytes)

/* Flags that change nothing of how the nodes learn. */
static const char *const free_flags[] = {
    "threads", "json", "csv", "label", "per-node", "timeline", "eval-samples", "eval-nodes",
    "eval-seconds", "eval-steps", "until-accuracy", "checkpoint", "checkpoint-seconds", "resume"};

static bool is_free(const char *flag)
{
    for (size_t i = 0; i < sizeof free_flags / sizeof free_flags[0]; i++) {
        if (strcmp(flag, free_flags[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- tensors ---- */

/* A row a node. */
struct tensor {
    const char *name;
    const char *dtype;
    uint64_t row_n, row_bytes;
};

static uint32_t list_tensors(const struct uw_sim *s, struct tensor t[TENSORS_MAX])
{
    const struct uw_model *m = &s->jobs[0].model;
    uint32_t n = 0;
    t[n++] = (struct tensor){"learners", "U64", WORDS_N, WORDS_N * sizeof(uint64_t)};
    t[n++] = (struct tensor){"x", "F32", m->params.size_n, m->params.size_n * sizeof(float)};
    if (m->velocity != NULL) {
        t[n++] = (struct tensor){"velocity", "F32", m->params.size_n,
                                 m->params.size_n * sizeof(float)};
    }
    for (uint32_t v = 0; v < s->vectors; v++) {
        t[n++] = (struct tensor){uw_optimizer_vector_name(&s->jobs[0].config.optimizer, v), "F32",
                                 m->trainable_n, m->trainable_n * sizeof(float)};
    }
    return n;
}

/* A learner's row of tensor t > 0. */
static float *row_of(const struct uw_sim_learner *l, uint32_t t)
{
    bool velocity = l->replica.velocity != NULL;
    return t == 1              ? l->replica.x
           : velocity && t == 2 ? l->replica.velocity
                                : l->replica.state[t - (velocity ? 3u : 2u)];
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- saving ---- */

static void pack(const struct uw_sim *s, const struct uw_sim_learner *l, uint64_t word[WORDS_N])
{
    const struct uw_world_node *n = &s->world.nodes[l->place];
    word[STEP] = l->step;
    word[UPDATES] = l->replica.updates;
    word[EPOCH] = l->loader.epoch;
    word[POSITION] = l->loader.position;
    word[TRAINS] = l->trains;
    word[COMPUTED] = l->trains && l->computed;
    word[LEFT_US] = n->waits ? 0
                    : n->train_at_us == UINT64_MAX ? UINT64_MAX
                    : n->train_at_us > s->world.now_us ? n->train_at_us - s->world.now_us : 0;
    word[LR] = bits_of((double)l->lr);
    word[MOMENTUM] = bits_of((double)l->momentum);
    word[LOSS] = bits_of(l->loss);
    word[STEP_LOSS] = bits_of(l->step_loss);
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

/* The header as text, to be released with cJSON_free; NULL without memory. */
static char *make_header(const struct uw_sim *s)
{
    struct tensor t[TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    uint64_t at = 0;
    cJSON *header = cJSON_CreateObject();
    cJSON *meta = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(meta, "format", "uwasa sim");
#define PUT_NUMBER(key, type, value) put_number(meta, key, value);
    NUMBERS(PUT_NUMBER)
#undef PUT_NUMBER
    put_number(meta, "version", VERSION);
    put_number(meta, "parameters", s->jobs[0].model.params.hash);
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char text[256];
        uw_opt_text(flag, s->o, text, sizeof text);
        if (!is_free(flag->name)) {
            put_text(meta, "flag.", flag->name, text);
        }
    }
    for (uint32_t i = 0; i < tensors_n; i++) {
        const double shape[2] = {s->o->nodes, (double)t[i].row_n};
        uint64_t end = at + s->o->nodes * t[i].row_bytes;
        const double offsets[2] = {(double)at, (double)end};
        cJSON *entry = cJSON_AddObjectToObject(header, t[i].name);
        cJSON_AddStringToObject(entry, "dtype", t[i].dtype);
        cJSON_AddItemToObject(entry, "shape", cJSON_CreateDoubleArray(shape, 2));
        cJSON_AddItemToObject(entry, "data_offsets", cJSON_CreateDoubleArray(offsets, 2));
        at = end;
    }
    char *text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

static int write_header(const struct uw_sim *s, struct uw_storage *to)
{
    static const char spaces[8] = "        ";
    char *text = make_header(s);
    if (text == NULL) {
        return UW_ERR_NOMEM;
    }
    size_t bytes = strlen(text), pad = (8u - bytes % 8u) % 8u;
    uint8_t le[8];
    for (uint32_t i = 0; i < 8u; i++) {
        le[i] = (uint8_t)((uint64_t)(bytes + pad) >> (8u * i));
    }
    int rc = to->ops->append(to, le, sizeof le);
    rc = rc < 0 ? rc : to->ops->append(to, text, bytes);
    rc = rc < 0 ? rc : to->ops->append(to, spaces, pad);
    cJSON_free(text);
    return rc;
}

static int write_learners(const struct uw_sim *s, struct uw_storage *to)
{
    uint64_t *words = malloc((size_t)s->o->nodes * WORDS_N * sizeof *words);
    if (words == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        pack(s, &s->learners[i], words + (size_t)i * WORDS_N);
    }
    int rc = to->ops->append(to, words, (size_t)s->o->nodes * WORDS_N * sizeof *words);
    free(words);
    return rc;
}

static int write_all(const struct uw_sim *s, struct uw_storage *to)
{
    struct tensor t[TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    int rc = write_header(s, to);
    rc = rc < 0 ? rc : write_learners(s, to);
    for (uint32_t k = 1; k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = to->ops->append(to, row_of(&s->learners[i], k), t[k].row_bytes);
        }
    }
    return rc;
}

/* Steps that nobody has begun are not part of it: they are handed out again. */
static int save_state(struct uw_sim *s)
{
    struct uw_storage_file files;
    int rc = uw_storage_file_init(&files, NULL);
    s->past = (struct uw_world_past){.trained_us = s->world.now_us - s->world.start_us,
                                     .sent_bytes = uw_world_sent_bytes(&s->world),
                                     .counters = uw_world_counters(&s->world)};
    rc = rc < 0 ? rc : files.base.ops->begin(&files.base, s->o->checkpoint);
    if (rc == UW_OK) {
        rc = write_all(s, &files.base);
        int ended = files.base.ops->end(&files.base, rc == UW_OK);
        rc = rc < 0 ? rc : ended;
    }
    uw_storage_file_deinit(&files);
    if (rc < 0) {
        return uw_error_set(&s->err, rc, "--checkpoint %.160s: cannot write: %s", s->o->checkpoint,
                            uw_status_text(rc));
    }
    return UW_OK;
}

int uw_sim_save(struct uw_sim *s)
{
    bool failed = false;
    if (s->o->checkpoint == NULL) {
        return UW_OK;
    }
    uw_futures_discard(s->futures);
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        failed = failed || s->learners[i].rc < 0;
    }
    int rc = failed ? UW_OK : save_state(s);    /* a step that failed is told in its turn */
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (l->trains && !l->held && !l->computed) {
            uw_futures_submit(s->futures, &l->future);
        }
    }
    return rc;
}

/* ---- going on ---- */

static int damaged(struct uw_sim *s, const char *what)
{
    return uw_error_set(&s->err, UW_ERR_CORRUPT, "--resume %.160s: no state of a simulated run "
                        "inside, or a damaged one: %s", s->o->resume, what);
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

static int check_flags(struct uw_sim *s, const cJSON *meta)
{
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char now[256], name[64];
        if (is_free(flag->name)) {
            continue;
        }
        uw_opt_text(flag, s->o, now, sizeof now);
        snprintf(name, sizeof name, "flag.%s", flag->name);
        const char *then = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, name));
        if (then == NULL) {
            return damaged(s, name);
        }
        if (strcmp(now, then) != 0) {
            return uw_error_set(&s->err, UW_ERR_MISMATCH,
                                "--%s %.60s: the run in %.100s was made with %.60s", flag->name,
                                now[0] != '\0' ? now : "none", s->o->resume,
                                then[0] != '\0' ? then : "none");
        }
    }
    return UW_OK;
}

static int get_numbers(struct uw_sim *s, const cJSON *meta)
{
    uint64_t value = 0;
    int rc = get_number(s, meta, "version", &value);
    if (rc == UW_OK && value != VERSION) {
        return damaged(s, "uwasa.version");
    }
    rc = rc < 0 ? rc : check_flags(s, meta);
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
#undef GET_NUMBER
    s->report.resumed_steps = s->report.node_steps;
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
    uint64_t bytes = s->o->nodes * t->row_bytes;
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
    struct tensor t[TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    uint8_t le[8];
    uint64_t size = 0, bytes = 0;
    int rc = from->ops->size(from, s->o->resume, &size);
    rc = rc < 0 ? rc : from->ops->read(from, s->o->resume, 0, le, sizeof le);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? damaged(s, "it is empty")
                                    : uw_error_set(&s->err, rc, "--resume %.160s: %s", s->o->resume,
                                                   uw_status_text(rc));
    }
    for (uint32_t i = 0; i < 8u; i++) {
        bytes |= (uint64_t)le[i] << (8u * i);
    }
    if (bytes > HEADER_MAX_BYTES || bytes > size - sizeof le) {
        return damaged(s, "its header");
    }
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

static int unpack(struct uw_sim *s, struct uw_sim_learner *l, const uint64_t word[WORDS_N])
{
    if (word[STEP] > s->report.steps || word[POSITION] >= l->share.base.samples_n) {
        return damaged(s, "learners");
    }
    l->step = word[STEP];
    l->replica.updates = word[UPDATES];
    l->loader.epoch = word[EPOCH];
    l->loader.position = (uint32_t)word[POSITION];
    l->trains = word[TRAINS] != 0;
    l->computed = word[COMPUTED] != 0;
    s->left_us[l->place] = word[LEFT_US];
    l->lr = (float)value_of(word[LR]);
    l->momentum = (float)value_of(word[MOMENTUM]);
    l->loss = value_of(word[LOSS]);
    l->step_loss = value_of(word[STEP_LOSS]);
    return UW_OK;
}

static int read_row(struct uw_sim *s, uint32_t tensor, uint32_t node, void *to, uint64_t bytes)
{
    struct uw_storage *from = &s->saved.files.base;
    uint64_t at = s->saved.data + s->saved.begin[tensor] + node * bytes;
    int rc = from->ops->read(from, s->o->resume, at, to, bytes);
    return rc < 0 ? uw_error_set(&s->err, rc, "--resume %.160s: %s", s->o->resume,
                                 uw_status_text(rc))
                  : UW_OK;
}

/* Is there something to go on from? A run that saves where it is to go on may be the first. */
static bool is_there(struct uw_sim *s)
{
    const struct uw_sim_options *o = s->o;
    uint64_t bytes;
    if (o->resume == NULL) {
        return false;
    }
    if (o->checkpoint != NULL && strcmp(o->checkpoint, o->resume) == 0 &&
        s->saved.files.base.ops->size(&s->saved.files.base, o->resume, &bytes) ==
            UW_ERR_NOTFOUND) {
        uw_progress_say(&s->report.progress, "%s: not there yet, starting at step 0", o->resume);
        return false;
    }
    return true;
}

int uw_sim_resume(struct uw_sim *s)
{
    uint64_t word[WORDS_N];
    int rc = uw_storage_file_init(&s->saved.files, NULL);
    s->report.resumed = rc == UW_OK && is_there(s);
    if (!s->report.resumed) {
        return rc;
    }
    rc = read_header(s);
    s->left_us = rc == UW_OK ? calloc(s->o->nodes, sizeof *s->left_us) : NULL;
    if (rc == UW_OK && s->left_us == NULL) {
        return uw_error_set(&s->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
        rc = read_row(s, 0, i, word, sizeof word);
        rc = rc < 0 ? rc : unpack(s, &s->learners[i], word);
    }
    s->past.left_us = s->left_us;
    uw_sim_find_slowest(s);
    return rc;
}

int uw_sim_resume_vectors(struct uw_sim *s)
{
    struct tensor t[TENSORS_MAX];
    uint32_t tensors_n = list_tensors(s, t);
    int rc = UW_OK;
    for (uint32_t k = 1; s->report.resumed && k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = read_row(s, k, i, row_of(&s->learners[i], k), t[k].row_bytes);
        }
    }
    if (rc < 0 || !s->report.resumed ||
        uw_mix_find(s->o->momentum_rule)->over != UW_MIX_OVER_AVERAGES) {
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
