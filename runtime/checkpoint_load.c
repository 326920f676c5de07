/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_parts.h"
#include "safetensors.h"
#include "widening.h"

#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES 512u

_Static_assert(sizeof UW_MIXING_PREFIX ".out_proj.weight" + UW_LAYER_NAME_MAX <=
                   UW_SAFETENSORS_NAME_BYTES,
               "the name of a tensor that is saved is too long to be loaded");

/* ---- tensors of a file and the model's segments ---- */

static void format_dims(char *out, size_t out_bytes, const uint64_t *dim, uint32_t rank)
{
    size_t used = (size_t)snprintf(out, out_bytes, "[");
    for (uint32_t i = 0; i < rank && i < UW_SHAPE_RANK_MAX && used < out_bytes; i++) {
        used += (size_t)snprintf(out + used, out_bytes - used, i > 0 ? ",%llu" : "%llu",
                                 (unsigned long long)dim[i]);
    }
    if (used < out_bytes) {
        snprintf(out + used, out_bytes - used, rank > UW_SHAPE_RANK_MAX ? ",...]" : "]");
    }
}

/* Bytes of an element; 0: a type that is not read. */
static uint32_t width_of(const struct uw_safetensors *st, const struct uw_safetensors_entry *e)
{
    return strcmp(e->dtype, "F32") == 0 ? sizeof(float)
           : st->widening != NULL       ? st->widening->bytes(e->dtype)
                                        : 0;
}

/* Whether the sizes are the same, but for those of 1. */
static bool same_shape(const struct uw_segment *segment, const struct uw_safetensors_entry *e)
{
    uint32_t at = 0;
    bool same = e->rank <= UW_SHAPE_RANK_MAX;
    for (uint32_t i = 0; i < segment->rank && same; i++) {
        while (segment->dim[i] != 1 && at < e->rank && e->dim[at] == 1) {
            at++;
        }
        same = segment->dim[i] == 1 || (at < e->rank && e->dim[at] == segment->dim[i]);
        at += segment->dim[i] != 1 ? 1 : 0;
    }
    for (; at < e->rank && same; at++) {
        same = e->dim[at] == 1;
    }
    return same;
}

/* Check type, shape and size of a file's entry. Returns UW_OK, UW_ERR_MISMATCH, UW_ERR_CORRUPT. */
static int check_tensor(const struct uw_safetensors *st, const struct uw_segment *segment,
                        const struct uw_safetensors_entry *e, struct uw_error *err)
{
    uint64_t want[UW_SHAPE_RANK_MAX];
    uint32_t width = width_of(st, e);
    char have_text[64];
    char want_text[64];

    for (uint32_t i = 0; i < segment->rank; i++) {
        want[i] = segment->dim[i];
    }
    if (width == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH, "%s: tensor %s is %s, needs F32%s", st->object,
                            e->name, e->dtype,
                            st->widening != NULL ? ", F16, BF16 or F64" : "");
    }
    if (!same_shape(segment, e)) {
        format_dims(have_text, sizeof have_text, e->dim, e->rank);
        format_dims(want_text, sizeof want_text, want, segment->rank);
        return uw_error_set(err, UW_ERR_MISMATCH, "%s: tensor %s is %s, the model needs %s",
                            st->object, e->name, have_text, want_text);
    }
    if (e->end - e->begin != (uint64_t)segment->size_n * width) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%s: tensor %s has %llu bytes, its shape needs "
                            "%llu", st->object, e->name, (unsigned long long)(e->end - e->begin),
                            (unsigned long long)segment->size_n * width);
    }
    return UW_OK;
}

/* Read n numbers of an entry's type from number `first` on. */
static int read_bytes(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                      uint64_t first, uint64_t n, void *out, struct uw_error *err)
{
    uint32_t width = width_of(st, e);
    int rc = st->storage->ops->read(st->storage, st->object,
                                    st->data_offset + e->begin + first * width, out,
                                    (size_t)(n * width));
    return rc < 0 ? uw_error_set(err, rc, "%s: tensor %s: %s", st->object, e->name,
                                 uw_status_text(rc))
                  : UW_OK;
}

/* Read n floats from number `first` on. */
static int read_tensor(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                       uint64_t first, uint64_t n, float *out, struct uw_error *err)
{
    uint64_t part[32];
    uint32_t width = width_of(st, e);
    int rc = UW_OK;
    if (strcmp(e->dtype, "F32") == 0) {
        return read_bytes(st, e, first, n, out, err);
    }
    for (uint64_t at = 0; at < n && rc == UW_OK;) {
        uint32_t count = n - at < sizeof part / width ? (uint32_t)(n - at)
                                                      : (uint32_t)(sizeof part / width);
        rc = read_bytes(st, e, first + at, count, part, err);
        if (rc == UW_OK) {
            st->widening->widen(e->dtype, part, count, out + at);
        }
        at += count;
    }
    return rc;
}

/* A float is NaN or infinite if all its exponent bits are set. */
static int check_finite(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                        struct uw_error *err)
{
    float part[BUFFER_BYTES / sizeof(float)];
    uint64_t n = (e->end - e->begin) / width_of(st, e);

    for (uint64_t at = 0; at < n;) {
        uint64_t left = n - at;
        uint32_t count = left < sizeof part / sizeof part[0] ? (uint32_t)left
                                                             : sizeof part / sizeof part[0];
        int rc = read_tensor(st, e, at, count, part, err);
        if (rc < 0) {
            return rc;
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t word;
            memcpy(&word, &part[i], sizeof word);
            if ((word & 0x7f800000u) == 0x7f800000u) {
                return uw_error_set(err, UW_ERR_NONFINITE,
                                    "%s: tensor %s holds a NaN or an infinity", st->object,
                                    e->name);
            }
        }
        at += count;
    }
    return UW_OK;
}

/* w[out][in] += scale * b[out][rank] a[rank][in] */
static int add_product(const struct uw_safetensors *st, const struct uw_safetensors_entry *a,
                       const struct uw_safetensors_entry *b, float scale, float *w,
                       struct uw_error *err)
{
    float part[BUFFER_BYTES / sizeof(float)], factor;
    uint64_t rank = a->dim[0], in = a->dim[1], n;
    int rc = UW_OK;

    for (uint64_t k = 0; k < b->dim[0] * rank && rc == UW_OK; k++) {
        rc = read_tensor(st, b, k, 1, &factor, err);
        for (uint64_t i = 0; i < in && rc == UW_OK; i += n) {
            n = in - i < sizeof part / sizeof part[0] ? in - i : sizeof part / sizeof part[0];
            rc = read_tensor(st, a, k % rank * in + i, n, part, err);
            for (uint64_t j = 0; j < n && rc == UW_OK; j++) {
                w[k / rank * in + i + j] += scale * factor * part[j];
            }
        }
    }
    return rc;
}

static int find_beside(const struct uw_safetensors *st, const struct uw_segment *weight,
                       const char *suffix, struct uw_safetensors_entry *e, struct uw_error *err)
{
    char name[UW_SAFETENSORS_NAME_BYTES];
    int stem = (int)(strlen(weight->name) - strlen(".weight"));
    snprintf(name, sizeof name, "%.*s.%s", stem, weight->name, suffix);
    return uw_safetensors_find(st, name, e, err);
}

/* Merge a file's low-rank additions into a dense layer's weight: w += scale * lora_b lora_a. Does
 * nothing if the file has none.
 *
 *   weight  its segment, "<layer>.weight", rank 2
 *   w       [out][in]; NULL: only check them
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (one of the two is missing) or an error of the functions above. */
static int merge_addition(const struct uw_safetensors *st, const struct uw_segment *weight,
                          float scale, float *w, struct uw_error *err)
{
    struct uw_safetensors_entry a, b;
    uint32_t out = weight->dim[0], in = weight->dim[1];
    int rc = find_beside(st, weight, "lora_a", &a, err);
    if (rc <= 0) {
        return rc;
    }
    rc = find_beside(st, weight, "lora_b", &b, err);
    if (rc == 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: tensor %s has no matching lora_b",
                            st->object, a.name);
    }
    uint32_t rank = a.dim[0] <= UINT32_MAX / (in > out ? in : out) ? (uint32_t)a.dim[0] : 0;
    const struct uw_segment want_a = {.dim = {rank, in}, .rank = 2, .size_n = rank * in};
    const struct uw_segment want_b = {.dim = {out, rank}, .rank = 2, .size_n = out * rank};
    rc = rc < 0 ? rc : check_tensor(st, &want_a, &a, err);
    rc = rc < 0 ? rc : check_tensor(st, &want_b, &b, err);
    if (rc == UW_OK && w != NULL) {
        return add_product(st, &a, &b, scale, w, err);
    }
    rc = rc < 0 ? rc : check_finite(st, &a, err);
    return rc < 0 ? rc : check_finite(st, &b, err);
}

/* ---- loading ---- */

static bool ends_in(const struct uw_segment *s, const char *text)
{
    size_t all = strlen(s->name), end = strlen(text);
    return all > end && strcmp(s->name + all - end, text) == 0;
}

/* A float of the file's metadata; 0 if it has none. */
static int load_float(const struct uw_safetensors *st, const char *key, float *value,
                      struct uw_error *err)
{
    uint64_t bits = 0;
    int rc = uw_safetensors_number(st, key, &bits, err);
    uint32_t word = (uint32_t)bits;
    memcpy(value, &word, sizeof *value);
    if (rc > 0 && (bits > UINT32_MAX || (word & 0x7f800000u) == 0x7f800000u)) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%s: metadata %s is not a float", st->object,
                            key);
    }
    return rc < 0 ? rc : UW_OK;
}

/* Choose the scale for merging the file's low-rank additions; 0: do not merge them. */
static int choose_scale(const struct uw_model *m, const struct uw_safetensors *st, bool with_state,
                        float *merge, struct uw_error *err)
{
    bool has = m->config.adapt.lora_rank != 0;
    float theirs, mine = has ? uw_lora_scale(&m->config.adapt) : 0.0f;
    int rc = load_float(st, UW_SCALE_KEY, &theirs, err);
    *merge = has ? 0.0f : theirs;
    if (rc < 0 || theirs == 0.0f || theirs == mine) {
        return rc;
    }
    if (has) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: its low-rank additions have scale %g, the model's have %g",
                            st->object, (double)theirs, (double)mine);
    }
    return !with_state ? UW_OK
                       : uw_error_set(err, UW_ERR_MISMATCH,
                                      "%s: trained with low-rank additions, the model has none: "
                                      "plan it with them, or load the weights alone", st->object);
}

static void note_tensor(struct uw_weights_tensors *t, const char *name)
{
    if (t->n++ == 0) {
        snprintf(t->first, sizeof t->first, "%s", name);
    }
}

/* Check one tensor of the file; out != NULL: also read it.
 *   mine  the parameter's name, for the report */
static int load_entry(const struct uw_safetensors *st, const char *mine,
                      const struct uw_segment *segment, const struct uw_safetensors_entry *e,
                      float *out, struct uw_error *err)
{
    if (st->report != NULL && !same_shape(segment, e)) {
        if (out == NULL) {
            note_tensor(&st->report->reshaped, mine);
        }
        return UW_OK;
    }
    int rc = check_tensor(st, segment, e, err);
    if (rc < 0) {
        return rc;
    }
    return out == NULL ? check_finite(st, e, err)
                       : read_tensor(st, e, 0, segment->size_n, out, err);
}

/* Load a parameter by what it is called in files of another program, part by part.
 * Returns 1, 0 (the file does not have it) or an error. */
static int load_theirs(const struct uw_safetensors *st, const char *mine,
                       const struct uw_segment *segment, float *out, struct uw_error *err)
{
    struct uw_safetensors_entry e;
    uint32_t next = 0;
    for (uint32_t i = 0; st->names != NULL && i < st->names->n; i++) {
        const struct uw_weights_name *n = &st->names->name[i];
        if (strcmp(n->mine, mine) != 0 || n->first != next) {
            continue;
        }
        if (n->theirs == NULL) {
            return 1;
        }
        struct uw_segment part = *segment;
        part.dim[0] = n->rows != 0 ? n->rows : segment->dim[0];
        part.size_n = segment->size_n / segment->dim[0] * part.dim[0];
        uint32_t begin = segment->size_n / segment->dim[0] * next;
        int rc = uw_safetensors_find(st, n->theirs, &e, err);
        next += rc > 0 ? part.dim[0] : 0;
        rc = rc <= 0 ? rc
                     : load_entry(st, mine, &part, &e, out != NULL ? out + begin : NULL, err);
        if (rc < 0) {
            return rc;
        }
    }
    return next > 0 ? 1 : 0;
}

/* Find and check one tensor; out != NULL: also read it. may_lack: it may be missing. */
static int load_tensor(const struct uw_safetensors *st, const char *prefix,
                       const struct uw_segment *segment, bool may_lack, float *out,
                       struct uw_error *err)
{
    struct uw_safetensors_entry e;
    char name[UW_SAFETENSORS_NAME_BYTES];
    int length = snprintf(name, sizeof name, "%s%s", prefix, segment->name);

    if (length < 0 || (size_t)length >= sizeof name) {
        return uw_error_set(err, UW_ERR_TOOBIG, "tensor name %.60s... is too long",
                            segment->name);
    }
    int rc = uw_safetensors_find(st, name, &e, err);
    if (rc > 0) {
        return load_entry(st, name, segment, &e, out, err);
    }
    rc = rc < 0 ? rc : load_theirs(st, name, segment, out, err);
    if (rc != 0 || may_lack) {
        return rc < 0 ? rc : UW_OK;
    }
    if (st->report != NULL) {
        if (out == NULL) {
            note_tensor(&st->report->missing, name);
        }
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_NOTFOUND, "%s: no tensor %s inside%s", st->object, name,
                        prefix[0] == '\0' ? ""
                                          : ": saved by another optimizer, or not trained");
}

static int load_tensors(struct uw_model *m, const struct uw_safetensors *st, bool with_state,
                        float merge, bool only_check, struct uw_error *err)
{
    struct uw_vector vectors[UW_VECTORS_MAX];
    uint32_t vectors_n = with_state ? uw_checkpoint_vectors(m, vectors) : 0;
    int rc = UW_OK;

    for (uint32_t i = 0; i < m->params.segments_n && rc == UW_OK; i++) {
        const struct uw_segment *s = &m->params.segments[i];
        float *x = only_check ? NULL : m->params.x + s->offset_n;
        bool addition = ends_in(s, ".lora_a") || ends_in(s, ".lora_b");
        rc = load_tensor(st, "", s, addition && !with_state, x, err);
        if (rc == UW_OK && merge != 0.0f && ends_in(s, ".weight") && s->rank == 2) {
            rc = merge_addition(st, s, merge, x, err);
        }
        for (uint32_t k = 0; k < vectors_n && rc == UW_OK; k++) {
            uint32_t begin = uw_vector_offset(&vectors[k], s);
            if (begin != UINT32_MAX) {
                rc = load_tensor(st, vectors[k].prefix, s, vectors[k].may_lack,
                                 only_check ? NULL : vectors[k].data + begin, err);
            }
        }
    }
    return rc;
}

/* A file with vectors that this model's optimizer does not use was trained with another one. */
static int check_optimizer(const struct uw_model *m, const struct uw_safetensors *st,
                           struct uw_error *err)
{
    static const struct uw_optimizer all[] = {{.kind = UW_OPTIMIZER_SGD, .momentum = 1.0f},
                                              {.kind = UW_OPTIMIZER_ADAM},
                                              {.kind = UW_OPTIMIZER_RMSPROP}};
    struct uw_vector vectors[UW_VECTORS_MAX];
    uint32_t vectors_n = uw_checkpoint_vectors(m, vectors), trained = 0;
    while (trained < m->params.segments_n && m->params.segments[trained].state_n == UINT32_MAX) {
        trained++;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char prefix[sizeof vectors[0].prefix], name[UW_SAFETENSORS_NAME_BYTES];
        struct uw_safetensors_entry e;
        bool mine = trained == m->params.segments_n;
        const char *vector = uw_optimizer_vector_name(&all[i], 0);
        snprintf(prefix, sizeof prefix, "optimizer.%s.", vector);
        for (uint32_t k = 0; k < vectors_n; k++) {
            mine = mine || strcmp(vectors[k].prefix, prefix) == 0;
        }
        if (mine) {
            continue;
        }
        snprintf(name, sizeof name, "%s%s", prefix, m->params.segments[trained].name);
        int rc = uw_safetensors_find(st, name, &e, err);
        if (rc != 0) {
            return rc < 0 ? rc
                          : uw_error_set(err, UW_ERR_MISMATCH,
                                         "%s: trained with another optimizer (it has %s): take "
                                         "that one, or load the weights alone", st->object,
                                         vector);
        }
    }
    return UW_OK;
}

static int load_number(const struct uw_safetensors *st, const char *key, bool needed,
                       uint64_t *value, struct uw_error *err)
{
    int rc = uw_safetensors_number(st, key, value, err);
    if (rc == 0 && needed) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: no training state (%s): contains weights only",
                            st->object, key);
    }
    return rc < 0 ? rc : UW_OK;
}

static int load_state(const struct uw_safetensors *st, struct uw_checkpoint *state,
                      struct uw_error *err)
{
    int rc = UW_OK;
#define LOAD_NUMBER(key, field)                                 \
    if (rc == UW_OK) {                                          \
        rc = load_number(st, key, needed, &state->field, err);  \
    }
    bool needed = true;
    UW_STATE_NUMBERS(LOAD_NUMBER)
    needed = false;
    UW_EXACT_NUMBERS(LOAD_NUMBER)
#undef LOAD_NUMBER
    return rc;
}

/* Check all tensors, then read them and the threshold. */
static int load_all(struct uw_model *m, const struct uw_safetensors *st, bool with_state,
                    struct uw_error *err)
{
    float merge = 0.0f, threshold = 0.0f;
    int rc = choose_scale(m, st, with_state, &merge, err);
    rc = rc < 0 ? rc : load_float(st, UW_THRESHOLD_KEY, &threshold, err);
    rc = rc < 0 ? rc : load_tensors(m, st, with_state, merge, true, err);
    rc = rc < 0 ? rc : load_tensors(m, st, with_state, merge, false, err);
    m->anomaly_threshold = rc < 0 ? m->anomaly_threshold : threshold;
    return rc;
}

static int open_whole(struct uw_safetensors *st, struct uw_storage *storage, const char *object,
                      struct uw_error *err)
{
    int rc = uw_safetensors_open(st, storage, object, err);
    rc = rc < 0 ? rc : uw_safetensors_check_data(st, err);
    return rc < 0 ? rc : uw_safetensors_check_sum(st, err);
}

int uw_checkpoint_load(struct uw_model *m, struct uw_checkpoint *state,
                       struct uw_storage *storage, const char *object, struct uw_error *err)
{
    struct uw_safetensors st;
    struct uw_checkpoint loaded = {0};
    int rc = uw_checkpoint_pending(m, object, err);

    if (rc < 0) {
        return rc;
    }
    rc = open_whole(&st, storage, object, err);
    if (rc == UW_OK && state != NULL) {
        rc = load_state(&st, &loaded, err);
    }
    if (rc == UW_OK && state != NULL) {
        rc = check_optimizer(m, &st, err);
    }
    rc = rc < 0 ? rc : load_all(m, &st, state != NULL, err);
    if (rc == UW_OK && state != NULL) {
        *state = loaded;
        m->updates = loaded.updates;
        m->seed = loaded.noise;
        m->guard.seen = loaded.guard[0] < UW_SPIKE_WARMUP ? (uint32_t)loaded.guard[0]
                                                          : UW_SPIKE_WARMUP;
        memcpy(&m->guard.mean, &loaded.guard[1], sizeof m->guard.mean);
    }
    return rc < 0 ? rc : uw_model_push(m);
}

/* Sorts the file's tensors; `unknown` are those that no segment is called by. */
struct sorting {
    const struct uw_model *m;
    const struct uw_weights_names *names;
    struct uw_weights_report *report;
    uint32_t known_n;
};

/* Counters of batch norm, which nothing here reads, and an optimizer's vectors. */
static bool is_aside(const char *name)
{
    static const char counter[] = "num_batches_tracked";
    size_t n = strlen(name), end = sizeof counter - 1;
    return strncmp(name, "optimizer.", 10) == 0 ||
           (n >= end && strcmp(name + n - end, counter) == 0);
}

static void sort_tensor(void *arg, const struct uw_safetensors_entry *e)
{
    struct sorting *s = arg;
    bool known = uw_params_find(&s->m->params, e->name) != NULL;
    for (uint32_t i = 0; s->names != NULL && i < s->names->n && !known; i++) {
        const char *theirs = s->names->name[i].theirs;
        known = theirs != NULL && strcmp(theirs, e->name) == 0;
    }
    s->known_n += known ? 1 : 0;
    if (known && strcmp(e->dtype, "F32") != 0) {
        note_tensor(&s->report->widened, e->name);
        snprintf(s->report->type, sizeof s->report->type, "%s", e->dtype);
    } else if (!known && !is_aside(e->name)) {
        note_tensor(&s->report->unknown, e->name);
    }
}

/* Visits tensors for uw_checkpoint_each. */
struct visit {
    void (*tensor)(void *arg, const struct uw_weights_tensor *t);
    void *arg;
};

static void pass_tensor(void *arg, const struct uw_safetensors_entry *e)
{
    const struct visit *v = arg;
    v->tensor(v->arg, &(struct uw_weights_tensor){.name = e->name, .dim = e->dim,
                                                  .rank = e->rank});
}

int uw_checkpoint_each(struct uw_storage *storage, const char *object,
                       void (*visit)(void *arg, const struct uw_weights_tensor *t), void *arg,
                       struct uw_error *err)
{
    struct uw_safetensors st;
    struct visit v = {visit, arg};
    int rc = uw_safetensors_open(&st, storage, object, err);
    return rc < 0 ? rc : uw_safetensors_each(&st, pass_tensor, &v, err);
}

int uw_checkpoint_load_weights(struct uw_model *m, bool loose,
                               const struct uw_weights_names *names,
                               struct uw_weights_report *report, struct uw_storage *storage,
                               const char *object, struct uw_error *err)
{
    struct sorting sorting = {.m = m, .names = names, .report = report};
    struct uw_safetensors st;
    int rc = uw_checkpoint_pending(m, object, err);

    *report = (struct uw_weights_report){.type = ""};
    rc = rc < 0 ? rc : open_whole(&st, storage, object, err);
    if (rc < 0) {
        return rc;
    }
    st.widening = &uw_widening;
    st.report = loose ? report : NULL;
    st.names = names;
    rc = uw_safetensors_each(&st, sort_tensor, &sorting, err);
    if (rc == UW_OK && loose && sorting.known_n == 0 && m->params.segments_n > 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: none of its tensors has a name of the "
                            "model's: the model's first is %s, the file's %.80s", object,
                            m->params.segments[0].name, report->unknown.first);
    }
    rc = rc < 0 ? rc : load_all(m, &st, false, err);
    return rc < 0 ? rc : uw_model_push(m);
}
