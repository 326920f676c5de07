/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_state.h"

#include "uwasa/hash.h"

#include <stdlib.h>
#include <string.h>

/* Flags that change nothing of how the nodes learn; what a scenario says is seen in its values. */
static const char *const free_flags[] = {
    "threads", "profile", "json", "csv", "label", "per-node", "timeline", "eval-samples",
    "eval-nodes", "eval-epochs", "eval-seconds", "eval-steps", "until-accuracy", "checkpoint",
    "checkpoint-seconds", "resume", "config", "scenario", "dry-run", "devices", "advise",
    "advise-seconds", "advise-runs"};

bool uw_sim_flag_is_free(const char *flag)
{
    for (size_t i = 0; i < sizeof free_flags / sizeof free_flags[0]; i++) {
        if (strcmp(flag, free_flags[i]) == 0) {
            return true;
        }
    }
    return false;
}

static struct uw_sim_tensor floats(const char *name, uint32_t row_n)
{
    return (struct uw_sim_tensor){name, "F32", row_n, row_n * sizeof(float)};
}

uint32_t uw_sim_tensors(const struct uw_sim *s, struct uw_sim_tensor t[UW_SIM_TENSORS_MAX])
{
    const struct uw_model *m = &s->jobs[0].model;
    uint32_t n = 0;
    t[n++] = (struct uw_sim_tensor){"learners", "U64", UW_SIM_WORDS_N,
                                    UW_SIM_WORDS_N * sizeof(uint64_t)};
    t[n++] = floats("x", m->params.size_n);
    if (m->velocity != NULL) {
        t[n++] = floats("velocity", m->params.size_n);
    }
    for (uint32_t v = 0; v < s->vectors; v++) {
        t[n++] = floats(uw_optimizer_vector_name(&s->jobs[0].config.optimizer, v), m->trainable_n);
    }
    return n;
}

float *uw_sim_row(const struct uw_sim_learner *l, uint32_t t)
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

static uint64_t add_words(uint64_t hash, const uint64_t *word, size_t words_n)
{
    uint8_t le[8];
    for (size_t k = 0; k < words_n; k++) {
        for (uint32_t i = 0; i < sizeof le; i++) {
            le[i] = (uint8_t)(word[k] >> (8u * i));
        }
        hash = uw_hash64(hash, le, sizeof le);
    }
    return hash;
}

uint64_t uw_sim_fleet_hash(const struct uw_sim_fleet *f)
{
    uint64_t hash = UW_HASH64_START;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        const struct uw_sim_device *d = &f->devices[i];
        const uint64_t words[] = {d->up_bits_per_s, d->down_bits_per_s, d->latency_us,
                                  bits_of((double)d->loss), d->step_us, d->cell, d->absences_n};
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

/* Until its step ends. Who waits looks at once. */
static uint64_t left_us(const struct uw_sim *s, const struct uw_world_node *n)
{
    if (n->train_at_us == UINT64_MAX && !n->waits) {
        return UINT64_MAX;
    }
    return !n->waits && n->train_at_us > s->world.now_us ? n->train_at_us - s->world.now_us : 0;
}

static void pack(const struct uw_sim *s, const struct uw_sim_learner *l,
                 uint64_t word[UW_SIM_WORDS_N])
{
    word[UW_SIM_STEP] = l->step;
    word[UW_SIM_UPDATES] = l->replica.updates;
    word[UW_SIM_EPOCH] = l->loader.epoch;
    word[UW_SIM_POSITION] = l->loader.position;
    word[UW_SIM_TRAINS] = l->trains;
    word[UW_SIM_COMPUTED] = l->trains && l->computed;
    word[UW_SIM_LEFT_US] = left_us(s, &s->world.nodes[l->place]);
    word[UW_SIM_LR] = bits_of((double)l->lr);
    word[UW_SIM_MOMENTUM] = bits_of((double)l->momentum);
    word[UW_SIM_LOSS] = bits_of(l->loss);
    word[UW_SIM_STEP_LOSS] = bits_of(l->step_loss);
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
static uint64_t put_tensor(cJSON *header, const char *name, const char *dtype, uint64_t rows,
                           uint64_t row_n, uint64_t at, uint64_t bytes)
{
    const double shape[2] = {(double)rows, (double)row_n};
    const double offsets[2] = {(double)at, (double)(at + bytes)};
    cJSON *entry = cJSON_AddObjectToObject(header, name);
    cJSON_AddStringToObject(entry, "dtype", dtype);
    cJSON_AddItemToObject(entry, "shape", cJSON_CreateDoubleArray(shape, 2));
    cJSON_AddItemToObject(entry, "data_offsets", cJSON_CreateDoubleArray(offsets, 2));
    return at + bytes;
}

/* The header as text, to be released with cJSON_free; NULL without memory. */
static char *make_header(const struct uw_sim *s)
{
    struct uw_sim_tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = uw_sim_tensors(s, t);
    uint64_t at = 0;
    cJSON *header = cJSON_CreateObject();
    cJSON *meta = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(meta, "format", "uwasa sim");
#define PUT_NUMBER(key, type, value) put_number(meta, key, value);
    UW_SIM_NUMBERS(PUT_NUMBER)
#undef PUT_NUMBER
    put_number(meta, "version", UW_SIM_STATE_VERSION);
    put_number(meta, "fleet", uw_sim_fleet_hash(s->world.config.fleet));
    put_number(meta, "parameters", s->jobs[0].model.params.hash);
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char text[256];
        uw_opt_text(flag, s->o, text, sizeof text);
        if (!uw_sim_flag_is_free(flag->name)) {
            put_text(meta, "flag.", flag->name, text);
        }
    }
    for (uint32_t i = 0; i < tensors_n; i++) {
        at = put_tensor(header, t[i].name, t[i].dtype, s->o->nodes, t[i].row_n, at,
                        (uint64_t)s->o->nodes * t[i].row_bytes);
    }
    (void)put_tensor(header, UW_SIM_CHECK, "U64", 1, 1, at, UW_SIM_CHECK_BYTES);
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
    for (uint32_t i = 0; i < sizeof le; i++) {
        le[i] = (uint8_t)(value >> (8u * i));
    }
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
    uint64_t *words = malloc((size_t)s->o->nodes * UW_SIM_WORDS_N * sizeof *words);
    if (words == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        pack(s, &s->learners[i], words + (size_t)i * UW_SIM_WORDS_N);
    }
    int rc = append(to, words, (size_t)s->o->nodes * UW_SIM_WORDS_N * sizeof *words);
    free(words);
    return rc;
}

/* What a node has while its parameters are being averaged: those from before. A velocity that is
 * half way through its rule is none, and begins anew. */
static const float *row_to_save(const struct uw_sim *s, uint32_t node, uint32_t tensor,
                                const float *zeros)
{
    const struct uw_world_node *n = &s->world.nodes[node];
    bool velocity = tensor == 2 && n->velocity != NULL;
    bool halfway = s->world.config.node.rule->before != NULL && uw_sim_averages(s, n);
    return tensor == 1           ? uw_world_model(&s->world, n)
           : velocity && halfway ? zeros
                                 : uw_sim_row(&s->learners[node], tensor);
}

static int write_all(const struct uw_sim *s, struct uw_storage *file)
{
    struct sink sink = {file, UW_HASH64_START}, *to = &sink;
    struct uw_sim_tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = uw_sim_tensors(s, t);
    float *zeros = calloc(s->fresh.size_n, sizeof *zeros);
    int rc = zeros != NULL ? write_header(s, to) : UW_ERR_NOMEM;
    rc = rc < 0 ? rc : write_learners(s, to);
    for (uint32_t k = 1; k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = append(to, row_to_save(s, i, k, zeros), t[k].row_bytes);
        }
    }
    free(zeros);
    return rc < 0 ? rc : append_u64(to, sink.hash);
}

/* Steps that nobody has begun are not part of it: they are handed out again. */
static int save_state(struct uw_sim *s)
{
    struct uw_storage_file files;
    int rc = uw_storage_file_init(&files, NULL);
    s->past = (struct uw_world_past){.trained_us = s->world.now_us - s->world.start_us,
                                     .sent_bytes = uw_world_sent_bytes(&s->world),
                                     .counters = uw_world_counters(&s->world)};
    s->report.due = uw_sim_report_dues(&s->report, &s->world, s->least);
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

bool uw_sim_averages(const struct uw_sim *s, const struct uw_world_node *n)
{
    return uw_world_model(&s->world, n) != n->x;
}

bool uw_sim_some_average(const struct uw_sim *s)
{
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        if (uw_sim_averages(s, &s->world.nodes[i])) {
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
    int rc = failed ? UW_OK : save_state(s);    /* a step that failed is told in its turn */
    for (uint32_t i = 0; i < s->o->nodes; i++) {
        struct uw_sim_learner *l = &s->learners[i];
        if (l->handed && l->trains && !l->held && !l->computed) {
            uw_futures_submit(s->futures, &l->future);
        }
    }
    return rc;
}
