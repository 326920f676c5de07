/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_parts.h"
#include "safetensors.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES 512u

uint32_t uw_checkpoint_vectors(const struct uw_model *m, struct uw_vector *out)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX; v++) {
        if (m->state[v] != NULL) {
            out[n] = (struct uw_vector){.data = m->state[v], .trained_only = true};
            snprintf(out[n++].prefix, sizeof out[0].prefix, "optimizer.%s.",
                     uw_optimizer_vector_name(&m->config.optimizer, v));
        }
    }
    if (m->velocity != NULL) {
        out[n++] = (struct uw_vector){.prefix = UW_MIXING_PREFIX, .data = m->velocity};
    }
    if (m->kept != NULL) {
        out[n++] = (struct uw_vector){.prefix = "optimizer.kept.", .data = m->kept,
                                      .may_lack = true};
    }
    return n;
}

static size_t vector_bytes(const struct uw_model *m, const struct uw_vector *v)
{
    return (size_t)(v->trained_only ? m->trainable_n : m->params.size_n) * sizeof(float);
}

/* Collects small pieces of text; storage == NULL: counts and sums only. */
struct sink {
    struct uw_storage *storage;
    uint64_t bytes, sum;
    uint32_t used;
    int rc;
    char buffer[BUFFER_BYTES];
};

static void flush(struct sink *s)
{
    s->sum = uw_hash64_words(s->sum, s->buffer, s->used);
    if (s->storage != NULL && s->rc == UW_OK && s->used > 0) {
        s->rc = s->storage->ops->append(s->storage, s->buffer, s->used);
    }
    s->used = 0;
}

static void put_text(struct sink *s, const char *text)
{
    for (; *text != '\0'; text++) {
        if (s->used == BUFFER_BYTES) {
            flush(s);
        }
        s->buffer[s->used++] = *text;
        s->bytes++;
    }
}

static void put_number(struct sink *s, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_text(s, text);
}

static void put_escaped(struct sink *s, const char *text)
{
    for (; *text != '\0'; text++) {
        char piece[8] = {*text, '\0'};
        if (*text == '"' || *text == '\\') {
            snprintf(piece, sizeof piece, "\\%c", *text);
        } else if ((unsigned char)*text < 0x20) {
            snprintf(piece, sizeof piece, "\\u%04x", (unsigned)*text);
        }
        put_text(s, piece);
    }
}

static void put_tensor(struct sink *s, const char *prefix, const struct uw_segment *segment,
                       uint64_t begin)
{
    put_text(s, ",\"");
    put_text(s, prefix);
    put_escaped(s, segment->name);
    put_text(s, "\":{\"dtype\":\"F32\",\"shape\":[");
    for (uint32_t i = 0; i < segment->rank; i++) {
        put_text(s, i > 0 ? "," : "");
        put_number(s, segment->dim[i]);
    }
    put_text(s, "],\"data_offsets\":[");
    put_number(s, begin);
    put_text(s, ",");
    put_number(s, begin + (uint64_t)segment->size_n * sizeof(float));
    put_text(s, "]}");
}

static void put_metadata_number(struct sink *s, const char *key, uint64_t value)
{
    put_text(s, ",\"");
    put_text(s, key);
    put_text(s, "\":\"");
    put_number(s, value);
    put_text(s, "\"");
}

/* The bits of a float. */
static void put_metadata_float(struct sink *s, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_metadata_number(s, key, bits);
}

/* sum: the digits of the file's checksum. */
static void put_header(struct sink *s, const struct uw_model *m, const struct uw_checkpoint *state,
                       const char *sum)
{
    const struct uw_params *p = &m->params;
    struct uw_vector vectors[UW_VECTORS_MAX];
    uint32_t vectors_n = state != NULL ? uw_checkpoint_vectors(m, vectors) : 0;

    put_text(s, "{\"__metadata__\":{\"format\":\"uwasa\",\"" UW_SUM_OF_KEY "\":\"file\",\""
                UW_SUM_KEY "\":\"");
    put_text(s, sum);
    put_text(s, "\",\"uwasa.model\":\"");
    put_escaped(s, m->config.def->name != NULL ? m->config.def->name : "");
    put_text(s, "\"");
    if (m->config.adapt.lora_rank != 0) {
        put_metadata_float(s, UW_SCALE_KEY, uw_lora_scale(&m->config.adapt));
    }
    if (m->anomaly_threshold != 0.0f) {
        put_metadata_float(s, UW_THRESHOLD_KEY, m->anomaly_threshold);
    }
    if (state != NULL) {
#define PUT_NUMBER(key, field) put_metadata_number(s, key, state->field);
        UW_STATE_NUMBERS(PUT_NUMBER)
        UW_EXACT_NUMBERS(PUT_NUMBER)
#undef PUT_NUMBER
    }
    if (state != NULL && state->data != NULL) {
        put_text(s, ",\"uwasa.data\":\"");
        put_escaped(s, state->data);
        put_text(s, "\"");
    }
    put_text(s, "}");
    uint64_t base = 0;
    for (uint32_t i = 0; i < p->segments_n; i++) {
        put_tensor(s, "", &p->segments[i], (uint64_t)p->segments[i].offset_n * sizeof(float));
    }
    base += (uint64_t)p->size_n * sizeof(float);
    for (uint32_t k = 0; k < vectors_n; k++) {
        for (uint32_t i = 0; i < p->segments_n; i++) {
            uint32_t begin = uw_vector_offset(&vectors[k], &p->segments[i]);
            if (begin != UINT32_MAX) {
                put_tensor(s, vectors[k].prefix, &p->segments[i],
                           base + (uint64_t)begin * sizeof(float));
            }
        }
        base += vector_bytes(m, &vectors[k]);
    }
    put_text(s, "}");
    while (s->bytes % 8 != 0) {
        put_text(s, " ");
    }
    flush(s);
}

/* Make the digits of the file's checksum. Returns the bytes of its header. */
static uint64_t sum_all(const struct uw_model *m, const struct uw_checkpoint *state,
                        const struct uw_vector *vectors, uint32_t vectors_n,
                        char text[UW_SUM_DIGITS + 1])
{
    struct sink count = {.sum = UW_HASH64_START};
    uw_sum_text(0, text);
    put_header(&count, m, state, text);
    size_t bytes = (size_t)m->params.size_n * sizeof(float);
    uint64_t sum = uw_hash64_words(count.sum, m->params.x, bytes);
    for (uint32_t k = 0; k < vectors_n; k++) {
        sum = uw_hash64_words(sum, vectors[k].data, vector_bytes(m, &vectors[k]));
    }
    uw_sum_text(uw_hash64_words(sum, &count.bytes, sizeof count.bytes), text);
    return count.bytes;
}

static int write_all(const struct uw_model *m, const struct uw_checkpoint *state,
                     struct uw_storage *storage)
{
    struct sink out = {.storage = storage};
    struct uw_vector vectors[UW_VECTORS_MAX];
    uint8_t le[8];
    size_t bytes = (size_t)m->params.size_n * sizeof(float);
    uint32_t vectors_n = state != NULL ? uw_checkpoint_vectors(m, vectors) : 0;
    char sum[UW_SUM_DIGITS + 1];
    uint64_t header = sum_all(m, state, vectors, vectors_n, sum);

    for (int i = 0; i < 8; i++) {
        le[i] = (uint8_t)(header >> (8 * i));
    }
    int rc = storage->ops->append(storage, le, sizeof le);
    if (rc < 0) {
        return rc;
    }
    put_header(&out, m, state, sum);
    rc = out.rc;
    if (rc == UW_OK) {
        rc = storage->ops->append(storage, m->params.x, bytes);
    }
    for (uint32_t k = 0; k < vectors_n && rc == UW_OK; k++) {
        rc = storage->ops->append(storage, vectors[k].data, vector_bytes(m, &vectors[k]));
    }
    return rc;
}

static const char *why_not(int rc)
{
    return rc == UW_ERR_AGAIN  ? "another process is writing it"
           : rc == UW_ERR_FULL ? "no space is left there"
                               : uw_status_text(rc);
}

int uw_checkpoint_pending(const struct uw_model *m, const char *object, struct uw_error *err)
{
    return uw_model_updates_pending(m)
               ? uw_error_set(err, UW_ERR_INVALID, "%s: updates are pending, finish them first",
                              object)
               : UW_OK;
}

int uw_checkpoint_save(const struct uw_model *m, const struct uw_checkpoint *state,
                       struct uw_storage *storage, const char *object, struct uw_error *err)
{
    struct uw_checkpoint full;
    int ready = uw_checkpoint_pending(m, object, err);
    if (ready < 0) {
        return ready;
    }
    if (state != NULL) {
        full = *state;
        full.updates = m->updates;
        full.noise = m->seed;
        full.guard[0] = m->guard.seen;
        memcpy(&full.guard[1], &m->guard.mean, sizeof m->guard.mean);
        full.mode = m->config.mode;
        full.micro_n = m->config.micro_n;
        state = &full;
    }
    ready = uw_model_pull(m);
    if (ready < 0) {
        return uw_error_set(err, ready, "%s: reading the device's parameters failed", object);
    }
    int rc = storage->ops->begin(storage, object);
    if (rc == UW_OK) {
        rc = write_all(m, state, storage);
        int ended = storage->ops->end(storage, rc == UW_OK);
        rc = rc == UW_OK ? ended : rc;
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%s: cannot write: %s", object, why_not(rc));
    }
    return UW_OK;
}
