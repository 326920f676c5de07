/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as JSON, written by the table of uwasa/layer_keys.h. */
#include "model_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* sizes: [UW_AXES_MAX], then how many there are */
static void put_shape(struct sink *s, const uint32_t *sizes)
{
    for (uint32_t i = 0; i < sizes[UW_AXES_MAX] && i < UW_AXES_MAX; i++) {
        put(s, "%s", i == 0 ? "[" : ", ");
        if (sizes[i] == 0) {
            put(s, "-1");
        } else {
            put(s, "%u", (unsigned)sizes[i]);
        }
    }
    put(s, "]");
}

/* Write an order of axes: four axes are all named; of fewer, the rest is 0 and omitted. */
static void put_order(struct sink *s, const uint32_t order[UW_AXES_MAX])
{
    uint32_t n = UW_AXES_MAX;
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

/* The table of indices, or that of weights. */
static void put_table(struct sink *s, const struct uw_take_def *take, bool weights)
{
    uint32_t n = take->n * (take->taps != 0 ? take->taps : 1);
    for (uint32_t i = 0; i < n; i++) {
        put(s, "%s", i == 0 ? "[" : ", ");
        if (weights) {
            put_real(s, take->weight[i]);
        } else {
            put(s, "%d", (int)take->index[i]);
        }
    }
    put(s, "]");
}

static void put_key(struct sink *s, const struct uw_layer_type *type,
                    const struct uw_layer_key *key, const struct uw_layer_def *def)
{
    const void *value = (const char *)def + key->offset;
    uint32_t pair[2];

    if (!key->required && uw_layer_key_is_default(type, key, def)) {
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
        uw_layer_key_pair(key, def, pair);
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
    case UW_KEY_INDEX:
    case UW_KEY_WEIGHTS:
        put_table(s, &def->take, key->kind == UW_KEY_WEIGHTS);
        break;
    }
}

static bool pools2d(enum uw_layer_kind kind)
{
    return kind == UW_LAYER_MAXPOOL2D || kind == UW_LAYER_AVGPOOL2D;
}

static int put_layer(struct sink *s, const struct uw_layer_def *def)
{
    const struct uw_layer_type *type = uw_layer_type_of(def);
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
        put_key(s, type, &type->keys[i], def);
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
    if (def->first != 0) {
        put(s, ", \"first\": %u", (unsigned)def->first);
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
    put(s, "%s}", def->classes_last ? ", \"classes_last\": true" : "");
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
