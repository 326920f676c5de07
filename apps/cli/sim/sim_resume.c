/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_state.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX_BYTES 1000000u
#define BLOCK_BYTES 65536u

static double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int damaged(struct uw_sim *s, const char *what)
{
    return uw_error_set(&s->err, UW_ERR_CORRUPT, "--resume %.160s: no state of a simulated run "
                        "inside, or a damaged one: %s", s->o->resume, what);
}

/* By a program that had other flags, or another form of file. */
static int of_another(struct uw_sim *s, const char *what)
{
    return uw_error_set(&s->err, UW_ERR_MISMATCH, "--resume %.120s: saved by another version of "
                        "uwasa: %s; go on with that one, or begin anew", s->o->resume, what);
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

/* As a person would say it; what stands for a flag that was not given is no value. */
static const char *said(const char *text)
{
    return text[0] == '\0' || text[0] == '-' || strcmp(text, "18446744073709551615") == 0 ? "none"
                                                                                         : text;
}

/* Those of the program that saved it and of this one must be the same. */
static int check_known(struct uw_sim *s, const cJSON *meta)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, meta) {
        const char *flag = strncmp(entry->string, "flag.", 5) == 0 ? entry->string + 5 : NULL;
        if (flag != NULL && uw_opt_find(*s->o->flags, flag, strlen(flag)) == NULL) {
            char what[80];
            snprintf(what, sizeof what, "it had --%.32s, which this one has not", flag);
            return of_another(s, what);
        }
    }
    return UW_OK;
}

static int check_flags(struct uw_sim *s, const cJSON *meta)
{
    for (uint32_t i = 0; i < s->o->flags->n; i++) {
        const struct uw_opt *flag = &s->o->flags->row[i];
        char now[256], name[64];
        if (uw_sim_flag_is_free(flag->name)) {
            continue;
        }
        uw_opt_text(flag, s->o, now, sizeof now);
        snprintf(name, sizeof name, "flag.%s", flag->name);
        const char *then = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, name));
        if (then == NULL) {
            snprintf(name, sizeof name, "it had no --%.32s yet", flag->name);
            return of_another(s, name);
        }
        if (strcmp(now, then) != 0) {
            return uw_error_set(&s->err, UW_ERR_MISMATCH,
                                "--%s %.60s: the run in %.100s was made with %.60s", flag->name,
                                said(now), s->o->resume, said(then));
        }
    }
    return UW_OK;
}

static uint64_t u64_of(const uint8_t le[8])
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8u; i++) {
        value |= (uint64_t)le[i] << (8u * i);
    }
    return value;
}

/* Is it all as it was written? */
static int check_bytes(struct uw_sim *s)
{
    struct uw_storage *from = &s->saved.files.base;
    uint64_t hash = UW_HASH64_START, size = 0;
    uint8_t block[BLOCK_BYTES];
    int rc = from->ops->size(from, s->o->resume, &size);
    uint64_t end = size - UW_SIM_CHECK_BYTES;       /* there is more: a header */
    for (uint64_t at = 0; rc == UW_OK && at < end; at += sizeof block) {
        size_t n = end - at < sizeof block ? (size_t)(end - at) : sizeof block;
        rc = from->ops->read(from, s->o->resume, at, block, n);
        hash = uw_hash64(hash, block, n);
    }
    rc = rc < 0 ? rc : from->ops->read(from, s->o->resume, end, block, UW_SIM_CHECK_BYTES);
    if (rc < 0) {
        return uw_error_set(&s->err, rc, "--resume %.160s: %s", s->o->resume, uw_status_text(rc));
    }
    return u64_of(block) == hash ? UW_OK : damaged(s, "its bytes are not those that were written");
}

/* What another program wrote is told as such, before anybody looks for damage. */
static int check_maker(struct uw_sim *s, const cJSON *meta)
{
    uint64_t value = 0;
    int rc = get_number(s, meta, "version", &value);
    if (rc == UW_OK && value != UW_SIM_STATE_VERSION) {
        char what[80];
        snprintf(what, sizeof what, "its states are of version %llu, this one's of %u",
                 (unsigned long long)value, UW_SIM_STATE_VERSION);
        return of_another(s, what);
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
    UW_SIM_NUMBERS(GET_NUMBER)
#undef GET_NUMBER
    s->report.resumed_steps = s->report.node_steps;
    s->report.resumed_s = (double)s->past.trained_us / 1e6;     /* as a row tells it */
    return rc;
}

/* Where a tensor begins. */
static int find_tensor(struct uw_sim *s, const cJSON *header, const struct uw_sim_tensor *t,
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
    struct uw_sim_tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = uw_sim_tensors(s, t);
    uint8_t le[8];
    uint64_t size = 0;
    int rc = from->ops->size(from, s->o->resume, &size);
    rc = rc < 0 ? rc : from->ops->read(from, s->o->resume, 0, le, sizeof le);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? damaged(s, "it is empty")
                                    : uw_error_set(&s->err, rc, "--resume %.160s: %s", s->o->resume,
                                                   uw_status_text(rc));
    }
    if (u64_of(le) > HEADER_MAX_BYTES || u64_of(le) > size - sizeof le) {
        return damaged(s, "its header");
    }
    const size_t bytes = (size_t)u64_of(le);
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

static int unpack(struct uw_sim *s, struct uw_sim_learner *l, const uint64_t word[UW_SIM_WORDS_N])
{
    if (word[UW_SIM_STEP] > s->report.steps || word[UW_SIM_POSITION] >= l->share.base.samples_n) {
        return damaged(s, "learners");
    }
    l->step = word[UW_SIM_STEP];
    l->replica.updates = word[UW_SIM_UPDATES];
    l->loader.epoch = word[UW_SIM_EPOCH];
    l->loader.position = (uint32_t)word[UW_SIM_POSITION];
    l->trains = word[UW_SIM_TRAINS] != 0;
    l->computed = word[UW_SIM_COMPUTED] != 0;
    s->left_us[l->place] = word[UW_SIM_LEFT_US];
    l->lr = (float)value_of(word[UW_SIM_LR]);
    l->momentum = (float)value_of(word[UW_SIM_MOMENTUM]);
    l->loss = value_of(word[UW_SIM_LOSS]);
    l->step_loss = value_of(word[UW_SIM_STEP_LOSS]);
    return UW_OK;
}

static int read_row(struct uw_sim *s, uint32_t tensor, uint32_t node, void *to, size_t bytes)
{
    struct uw_storage *from = &s->saved.files.base;
    uint64_t at = s->saved.data + s->saved.begin[tensor] + (uint64_t)node * bytes;
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
    uint64_t word[UW_SIM_WORDS_N];
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
    struct uw_sim_tensor t[UW_SIM_TENSORS_MAX];
    uint32_t tensors_n = uw_sim_tensors(s, t);
    int rc = UW_OK;
    if (s->report.resumed && uw_sim_fleet_hash(s->world.config.fleet) != s->saved.fleet) {
        return uw_error_set(&s->err, UW_ERR_MISMATCH,
                            "--resume %.160s: made with other devices, links or absences",
                            s->o->resume);
    }
    for (uint32_t k = 1; s->report.resumed && k < tensors_n; k++) {
        for (uint32_t i = 0; rc == UW_OK && i < s->o->nodes; i++) {
            rc = read_row(s, k, i, uw_sim_row(&s->learners[i], k), t[k].row_bytes);
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
