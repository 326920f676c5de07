/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a model as JSON, read and written by the table of uwasa/layer_keys.h. */
#include "model_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "kernel": 5 or "kernel": [5, 3] */
static void read_pair(struct uw_json *j, const cJSON *value, const struct uw_layer_key *key,
                      uint32_t out[2])
{
    if (!cJSON_IsArray(value)) {
        out[0] = uw_json_u32(j, value, key->name, key->min, key->max);
        out[1] = out[0];
    } else if (cJSON_GetArraySize(value) == 2) {
        out[0] = uw_json_u32(j, value->child, key->name, key->min, key->max);
        out[1] = uw_json_u32(j, value->child->next, key->name, key->min, key->max);
    } else {
        uw_json_fail(j, value, "\"%s\" needs one number or [height, width]", key->name);
    }
}

static void read_shape(struct uw_json *j, const cJSON *value, struct uw_reshape_def *out)
{
    int open = 0;
    uint32_t n = uw_json_elements(j, value, "shape", 3, "sizes");
    for (const cJSON *e = n != 0 ? value->child : NULL; e != NULL; e = e->next) {
        int32_t size = uw_json_i32(j, e, "shape", -1, (int32_t)UW_LAYER_SIZE_LIMIT);
        open += size < 0 ? 1 : 0;
        if (size == 0 || open > 1) {
            uw_json_fail(j, e, "\"shape\" needs sizes of 1 or more; one may be -1: what is left");
        }
        out->dim[out->rank++] = size < 0 ? 0 : (uint32_t)size;
    }
}

static void read_order(struct uw_json *j, const cJSON *value, uint32_t out[3])
{
    unsigned seen = 0;
    uint32_t n = uw_json_elements(j, value, "order", 3, "axes");
    for (const cJSON *e = n != 0 ? value->child : NULL; e != NULL; e = e->next) {
        *out = uw_json_u32(j, e, "order", 0, n - 1u);
        seen |= 1u << *out++;
    }
    if (n != 0 && seen != (1u << n) - 1u) {
        uw_json_fail(j, value, "\"order\" needs every axis from 0 to %u once", (unsigned)n - 1u);
    }
}

static void read_key(struct uw_json *j, const cJSON *layer, const struct uw_layer_key *key,
                     struct uw_layer_def *def)
{
    void *out = (char *)def + key->offset;
    const cJSON *value = uw_json_member(j, layer, key->name, key->required);
    if (value == NULL) {
        return;
    }
    switch (key->kind) {
    case UW_KEY_U32:
        *(uint32_t *)out = uw_json_u32(j, value, key->name, key->min, key->max);
        break;
    case UW_KEY_I32:
        *(int32_t *)out = uw_json_i32(j, value, key->name, -(int32_t)UW_LAYER_SIZE_LIMIT,
                                      (int32_t)UW_LAYER_SIZE_LIMIT);
        break;
    case UW_KEY_PAIR:
        read_pair(j, value, key, out);
        break;
    case UW_KEY_REAL:
        *(float *)out = uw_json_real(j, value, key->name, key->range);
        break;
    case UW_KEY_TRUE:
        *(bool *)out = uw_json_bool(j, layer, key->name, false);
        break;
    case UW_KEY_FALSE:
        *(bool *)out = !uw_json_bool(j, layer, key->name, true);
        break;
    case UW_KEY_CHOICE:
        *(bool *)out = uw_json_choice(j, value, key->name, key->choices) == 1;
        break;
    case UW_KEY_SHAPE:
        read_shape(j, value, out);
        break;
    case UW_KEY_ORDER:
        read_order(j, value, out);
        break;
    }
}

static void read_inputs(struct uw_json *j, const cJSON *layer, bool required,
                        struct uw_layer_def *def)
{
    const cJSON *inputs = uw_json_member(j, layer, "inputs", required);
    if (inputs == NULL ||
        uw_json_elements(j, inputs, "inputs", UW_LAYER_INPUTS_MAX, "layer names") == 0) {
        return;
    }
    uint32_t i = 0;
    for (const cJSON *e = inputs->child; e != NULL; e = e->next) {
        if (!cJSON_IsString(e)) {
            uw_json_fail(j, e, "\"inputs\" needs names of layers");
            return;
        }
        def->inputs[i++] = e->valuestring;
    }
}

static const struct uw_layer_type *find_type(struct uw_json *j, const cJSON *layer)
{
    const char *name = uw_json_text(j, layer, "type", NULL);
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (size_t i = 0; i < uw_layer_types_n; i++) {
        if (strcmp(uw_layer_types[i].name, name) == 0) {
            return &uw_layer_types[i];
        }
        uw_guess_try(&g, uw_layer_types[i].name, strlen(uw_layer_types[i].name));
    }
    uw_json_fail(j, uw_json_member(j, layer, "type", true), "unknown layer type \"%.40s\"%s", name,
                 uw_guess_hint(&g, "\"", ", uwasa models --help lists them"));
    return NULL;
}

/* Refuse keys that the type does not have. */
static void check_keys(struct uw_json *j, const cJSON *layer, const struct uw_layer_type *type)
{
    char what[40];
    char keys[160];
    int n = snprintf(keys, sizeof keys, "name|type|inputs|frozen");
    for (size_t i = 0; i < type->keys_n; i++) {
        n += snprintf(keys + n, sizeof keys - (size_t)n, "|%s", type->keys[i].name);
    }
    snprintf(what, sizeof what, "a layer of type %s", type->name);
    uw_json_keys(j, layer, what, keys);
}

void uw_model_read_layer(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    if (!cJSON_IsObject(layer)) {
        uw_json_fail(j, layer, "a layer needs an object {...}");
        return;
    }
    def->name = uw_json_text(j, layer, "name", NULL);
    const struct uw_layer_type *type = find_type(j, layer);
    if (type == NULL) {
        return;
    }
    def->kind = type->kind;
    check_keys(j, layer, type);
    read_inputs(j, layer, type->several, def);
    def->frozen = uw_json_bool(j, layer, "frozen", false);
    for (size_t i = 0; i < type->keys_n; i++) {
        read_key(j, layer, &type->keys[i], def);
    }
}

/* ---- a model as text ---- */

struct sink {
    char *text;
    size_t text_bytes;
    size_t n;                   /* of the whole text */
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void put(struct sink *s, const char *format, ...)
{
    size_t left = s->n < s->text_bytes ? s->text_bytes - s->n : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(left != 0 ? s->text + s->n : NULL, left, format, args);
    va_end(args);
    s->n += n > 0 ? (size_t)n : 0;
}

/* A text with its quotes. Bytes above 127 are UTF-8 and stay. */
static void put_text(struct sink *s, const char *text)
{
    put(s, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            put(s, "\\%c", *p);
        } else if ((unsigned char)*p < ' ') {
            put(s, "\\u%04x", (unsigned)(unsigned char)*p);
        } else {
            put(s, "%c", *p);
        }
    }
    put(s, "\"");
}

/* The shortest decimal that is read back as the same float. */
static void put_real(struct sink *s, float value)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if ((float)strtod(text, NULL) == value) {
            break;
        }
    }
    put(s, "%s", text);
}

/* The n-th of "a|b|c". */
static void put_choice(struct sink *s, const char *choices, uint32_t n)
{
    for (; n > 0; n--) {
        choices = strchr(choices, '|') + 1;
    }
    put(s, "\"%.*s\"", (int)strcspn(choices, "|"), choices);
}

static void put_shape(struct sink *s, const struct uw_reshape_def *r)
{
    for (uint32_t i = 0; i < r->rank && i < 3; i++) {
        put(s, "%s", i == 0 ? "[" : ", ");
        if (r->dim[i] == 0) {
            put(s, "-1");
        } else {
            put(s, "%u", (unsigned)r->dim[i]);
        }
    }
    put(s, "]");
}

/* Write an order of axes: three axes are all named; of fewer, the rest is 0 and omitted. */
static void put_order(struct sink *s, const uint32_t order[3])
{
    uint32_t n = 3;
    while (n > 1) {
        unsigned seen = 0;
        for (uint32_t i = 0; i < n; i++) {
            seen |= 1u << order[i];
        }
        if (seen == (1u << n) - 1u) {
            break;
        }
        n--;
    }
    for (uint32_t i = 0; i < n; i++) {
        put(s, "%s%u", i == 0 ? "[" : ", ", (unsigned)order[i]);
    }
    put(s, "]");
}

/* The numbers of a pair: a second number of 0 means the first one, except for padding. */
static void pair_of(const struct uw_layer_key *key, const uint32_t in[2], uint32_t out[2])
{
    out[0] = in[0] != 0 ? in[0] : key->same;
    out[1] = in[1] != 0 || key->min == 0 ? in[1] : out[0];
}

static bool is_default(const struct uw_layer_key *key, const void *value)
{
    uint32_t pair[2];
    switch (key->kind) {
    case UW_KEY_U32:
        return *(const uint32_t *)value == 0 || *(const uint32_t *)value == key->same;
    case UW_KEY_I32:
        return *(const int32_t *)value == 0;
    case UW_KEY_PAIR:
        pair_of(key, value, pair);
        return pair[0] == key->same && pair[1] == key->same;
    case UW_KEY_REAL:
        return *(const float *)value == 0.0f;
    case UW_KEY_TRUE:
    case UW_KEY_FALSE:
    case UW_KEY_CHOICE:
        return !*(const bool *)value;
    case UW_KEY_SHAPE:
    case UW_KEY_ORDER:
        break;
    }
    return false;
}

static void put_key(struct sink *s, const struct uw_layer_key *key, const struct uw_layer_def *def)
{
    const void *value = (const char *)def + key->offset;
    uint32_t pair[2];

    if (!key->required && is_default(key, value)) {
        return;
    }
    put(s, ", \"%s\": ", key->name);
    switch (key->kind) {
    case UW_KEY_U32:
        put(s, "%u", (unsigned)*(const uint32_t *)value);
        break;
    case UW_KEY_I32:
        put(s, "%d", (int)*(const int32_t *)value);
        break;
    case UW_KEY_PAIR:
        pair_of(key, value, pair);
        if (pair[0] == pair[1]) {
            put(s, "%u", (unsigned)pair[0]);
        } else {
            put(s, "[%u, %u]", (unsigned)pair[0], (unsigned)pair[1]);
        }
        break;
    case UW_KEY_REAL:
        put_real(s, *(const float *)value);
        break;
    case UW_KEY_TRUE:
    case UW_KEY_FALSE:
        put(s, "%s", key->kind == UW_KEY_TRUE ? "true" : "false");
        break;
    case UW_KEY_CHOICE:
        put_choice(s, key->choices, 1);
        break;
    case UW_KEY_SHAPE:
        put_shape(s, value);
        break;
    case UW_KEY_ORDER:
        put_order(s, value);
        break;
    }
}

static bool pools2d(enum uw_layer_kind kind)
{
    return kind == UW_LAYER_MAXPOOL2D || kind == UW_LAYER_AVGPOOL2D;
}

static int put_layer(struct sink *s, const struct uw_layer_def *def)
{
    const struct uw_layer_type *type = uw_layer_type_of(def->kind);
    struct uw_layer_def full;

    if (type == NULL || def->name == NULL) {
        return UW_ERR_INVALID;
    }
    if (pools2d(def->kind) && def->pool2d.stride_h == 0 && def->pool2d.stride_w != 0) {
        full = *def;
        full.pool2d.stride_h = def->pool2d.kernel_h;
        def = &full;
    }
    put(s, "{\"name\": ");
    put_text(s, def->name);
    put(s, ", \"type\": \"%s\"", type->name);
    for (uint32_t i = 0; i < UW_LAYER_INPUTS_MAX && def->inputs[i] != NULL; i++) {
        put(s, "%s", i == 0 ? ", \"inputs\": [" : ", ");
        put_text(s, def->inputs[i]);
    }
    put(s, "%s", def->inputs[0] != NULL ? "]" : "");
    for (size_t i = 0; i < type->keys_n; i++) {
        put_key(s, &type->keys[i], def);
    }
    put(s, "%s}", def->frozen ? ", \"frozen\": true" : "");
    return UW_OK;
}

static int put_loss(struct sink *s, const struct uw_loss_def *def)
{
    if (def->kind > UW_LOSS_HUBER || def->target > UW_TARGET_VALUES) {
        return UW_ERR_INVALID;
    }
    put(s, "{\"type\": ");
    put_choice(s, UW_MODEL_LOSSES, (uint32_t)def->kind);
    if (def->layer != NULL) {
        put(s, ", \"layer\": ");
        put_text(s, def->layer);
    }
    if (def->target != UW_TARGET_LABEL) {
        put(s, ", \"target\": ");
        put_choice(s, UW_MODEL_TARGETS, (uint32_t)def->target);
    }
    const struct { const char *name; float value; } reals[] = {
        {"weight", def->weight},
        {"label_smoothing", def->kind == UW_LOSS_CROSS_ENTROPY ? def->label_smoothing : 0.0f},
        {"delta", def->kind == UW_LOSS_HUBER ? def->delta : 0.0f}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        if (reals[i].value != 0.0f) {
            put(s, ", \"%s\": ", reals[i].name);
            put_real(s, reals[i].value);
        }
    }
    put(s, "}");
    return UW_OK;
}

static int put_losses(struct sink *s, const struct uw_model_def *def)
{
    int rc = UW_OK;
    if (def->losses_n == 1) {
        put(s, ",\n  \"loss\": ");
        return put_loss(s, &def->losses[0]);
    }
    put(s, ",\n  \"losses\": [\n");
    for (uint32_t i = 0; i < def->losses_n && rc == UW_OK; i++) {
        put(s, "    ");
        rc = put_loss(s, &def->losses[i]);
        put(s, "%s", i + 1 < def->losses_n ? ",\n" : "\n  ]");
    }
    return rc;
}

static void put_input(struct sink *s, const struct uw_model_def *def)
{
    put(s, ",\n  \"input\": [%u", (unsigned)def->in_channels);
    if (def->in_h != 0) {
        put(s, ", %u", (unsigned)def->in_h);
    }
    if (def->in_h != 0 || def->in_w != 0) {
        put(s, ", %u", (unsigned)(def->in_w != 0 ? def->in_w : 1));
    }
    put(s, "]");
}

int uw_model_write(const struct uw_model_def *def, char *text, size_t text_bytes)
{
    struct sink s = {text, text_bytes, 0};
    int rc = def->name != NULL ? UW_OK : UW_ERR_INVALID;

    if (rc == UW_OK) {
        put(&s, "{\n  \"name\": ");
        put_text(&s, def->name);
        put_input(&s, def);
        put(&s, ",\n  \"layers\": [\n");
    }
    for (uint32_t i = 0; i < def->layers_n && rc == UW_OK; i++) {
        put(&s, "    ");
        rc = put_layer(&s, &def->layers[i]);
        put(&s, "%s", i + 1 < def->layers_n ? ",\n" : "\n  ]");
    }
    if (rc == UW_OK && def->losses != NULL) {
        rc = put_losses(&s, def);
    }
    put(&s, "\n}\n");
    return rc < 0 ? rc : (int)s.n;
}
