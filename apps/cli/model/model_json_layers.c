/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of every layer type, in one table for reading and writing: a row says where in struct
 * uw_layer_def a key's value is and what it may be. And a model as text. */
#include "model_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT 16777216u    /* channels, features, rows */
#define WINDOW_LIMIT 65535u     /* kernels, strides, padding */

enum key_kind {
    UW_KEY_U32,                 /* uint32_t */
    UW_KEY_I32,                 /* int32_t */
    UW_KEY_PAIR,                /* uint32_t[2]: one number or [height, width] */
    UW_KEY_REAL,                /* float */
    UW_KEY_TRUE,                /* bool, set by true */
    UW_KEY_FALSE,               /* bool, set by false */
    UW_KEY_CHOICE,              /* bool, set by the second of two texts */
    UW_KEY_SHAPE,               /* struct uw_reshape_def: sizes, one of them may be -1 */
    UW_KEY_ORDER                /* uint32_t[3]: a permutation of 0 to 2, or of the first few */
};

/* 0 in the definition is the default of every key that need not be there. */
struct key {
    const char *name;
    enum key_kind kind;
    size_t offset;              /* in struct uw_layer_def */
    bool required;
    uint32_t min, max;          /* U32, PAIR */
    uint32_t same;              /* U32, PAIR: another number that means the same as 0 */
    enum uw_json_range range;   /* REAL */
    const char *choices;        /* CHOICE */
};

struct type {
    enum uw_layer_kind kind;
    const char *name;           /* "conv2d" */
    bool several;               /* needs "inputs" */
    const struct key *keys;
    size_t keys_n;
};

#define AT(member) offsetof(struct uw_layer_def, member)

/* Rows that many types share; `d` is the type's member of struct uw_layer_def. */
#define SIZE(name, member) {name, UW_KEY_U32, AT(member), true, 1, SIZE_LIMIT, 0, 0, NULL}
#define WINDOW(name, kind, member, required, min, same) \
    {name, kind, AT(member), required, min, WINDOW_LIMIT, same, 0, NULL}
#define GROUPS(d) {"groups", UW_KEY_U32, AT(d.groups), false, 1, SIZE_LIMIT, 1, 0, NULL}
#define FLAG(name, kind, member) {name, kind, AT(member), false, 0, 0, 0, 0, NULL}
#define BIAS(d) FLAG("bias", UW_KEY_FALSE, d.no_bias)
#define REAL(name, member, range) {name, UW_KEY_REAL, AT(member), false, 0, 0, 0, range, NULL}
#define CONV2D(d)                                                                      \
    SIZE("out_channels", d.out_channels),                                              \
        WINDOW("kernel", UW_KEY_PAIR, d.kernel_h, true, 1, 0),                         \
        WINDOW("stride", UW_KEY_PAIR, d.stride_h, false, 1, 1),                        \
        WINDOW("padding", UW_KEY_PAIR, d.pad_h, false, 0, 0),                          \
        WINDOW("dilation", UW_KEY_PAIR, d.dilation_h, false, 1, 1), GROUPS(d), BIAS(d)
#define POOL(d, kind, h)                                       \
    WINDOW("kernel", kind, d.kernel##h, true, 1, 0),           \
        WINDOW("stride", kind, d.stride##h, false, 1, 0),      \
        WINDOW("padding", kind, d.pad##h, false, 0, 0),        \
        FLAG("ceil_mode", UW_KEY_TRUE, d.ceil_mode)
#define EPS REAL("eps", norm.epsilon, UW_JSON_POSITIVE)
#define AFFINE FLAG("affine", UW_KEY_FALSE, norm.no_affine)
#define RECURRENT                                          \
    SIZE("hidden", recurrent.hidden), BIAS(recurrent),     \
        FLAG("reverse", UW_KEY_TRUE, recurrent.reverse),   \
        FLAG("last", UW_KEY_TRUE, recurrent.last)

static const struct key conv2d_keys[] = {CONV2D(conv2d)};
static const struct key conv_transpose2d_keys[] = {
    CONV2D(conv_transpose2d),
    WINDOW("output_padding", UW_KEY_PAIR, conv_transpose2d.out_pad_h, false, 0, 0),
};
static const struct key conv1d_keys[] = {
    SIZE("out_channels", conv1d.out_channels),
    WINDOW("kernel", UW_KEY_U32, conv1d.kernel, true, 1, 0),
    WINDOW("stride", UW_KEY_U32, conv1d.stride, false, 1, 1),
    WINDOW("padding", UW_KEY_U32, conv1d.pad, false, 0, 0),
    WINDOW("dilation", UW_KEY_U32, conv1d.dilation, false, 1, 1),
    GROUPS(conv1d),
    BIAS(conv1d),
};
static const struct key dense_keys[] = {SIZE("out", dense.out), BIAS(dense)};
static const struct key maxpool2d_keys[] = {POOL(pool2d, UW_KEY_PAIR, _h)};
static const struct key avgpool2d_keys[] = {
    POOL(pool2d, UW_KEY_PAIR, _h),
    FLAG("count_include_pad", UW_KEY_FALSE, pool2d.exclude_pad),
};
static const struct key maxpool1d_keys[] = {POOL(pool1d, UW_KEY_U32, )};
static const struct key avgpool1d_keys[] = {
    POOL(pool1d, UW_KEY_U32, ),
    FLAG("count_include_pad", UW_KEY_FALSE, pool1d.exclude_pad),
};
static const struct key batchnorm_keys[] = {
    EPS, REAL("momentum", norm.momentum, UW_JSON_POSITIVE_SHARE), AFFINE};
static const struct key groupnorm_keys[] = {
    SIZE("num_groups", norm.groups), EPS, AFFINE};
static const struct key layernorm_keys[] = {
    {"axes", UW_KEY_U32, AT(norm.axes), false, 1, 3, 1, 0, NULL}, EPS, AFFINE};
static const struct key lrn_keys[] = {
    WINDOW("size", UW_KEY_U32, lrn.size, true, 1, 0),
    REAL("alpha", lrn.alpha, UW_JSON_POSITIVE),
    REAL("beta", lrn.beta, UW_JSON_POSITIVE),
    REAL("k", lrn.k, UW_JSON_POSITIVE),
};
static const struct key leaky_relu_keys[] = {
    REAL("negative_slope", activation.slope, UW_JSON_POSITIVE)};
static const struct key gelu_keys[] = {
    {"approximate", UW_KEY_CHOICE, AT(activation.tanh), false, 0, 0, 0, 0, "none|tanh"}};
static const struct key dropout_keys[] = {
    {"p", UW_KEY_REAL, AT(dropout.rate), true, 0, 0, 0, UW_JSON_SHARE, NULL}};
static const struct key concat_keys[] = {
    {"axis", UW_KEY_U32, AT(concat.axis), false, 0, 2, 0, 0, NULL}};
static const struct key reshape_keys[] = {
    {"shape", UW_KEY_SHAPE, AT(reshape), true, 0, 0, 0, 0, NULL}};
static const struct key transpose_keys[] = {
    {"order", UW_KEY_ORDER, AT(transpose.order), true, 0, 0, 0, 0, NULL}};
static const struct key slice_keys[] = {
    {"axis", UW_KEY_U32, AT(slice.axis), false, 0, 2, 0, 0, NULL},
    {"start", UW_KEY_I32, AT(slice.start), false, 0, 0, 0, 0, NULL},
    {"length", UW_KEY_U32, AT(slice.length), false, 1, SIZE_LIMIT, 0, 0, NULL},
    FLAG("squeeze", UW_KEY_TRUE, slice.squeeze),
};
static const struct key embedding_keys[] = {
    SIZE("vocabulary", embedding.vocabulary), SIZE("size", embedding.size)};
static const struct key rnn_keys[] = {
    RECURRENT,
    {"nonlinearity", UW_KEY_CHOICE, AT(recurrent.relu), false, 0, 0, 0, 0, "tanh|relu"},
};
static const struct key recurrent_keys[] = {RECURRENT};
static const struct key attention_keys[] = {
    SIZE("heads", attention.heads), FLAG("causal", UW_KEY_TRUE, attention.causal),
    BIAS(attention)};

#define PLAIN(kind, name, several) {kind, name, several, NULL, 0}
#define KEYED(kind, name, keys) {kind, name, false, keys, sizeof keys / sizeof keys[0]}

static const struct type types[] = {
    KEYED(UW_LAYER_CONV2D, "conv2d", conv2d_keys),
    KEYED(UW_LAYER_CONV1D, "conv1d", conv1d_keys),
    KEYED(UW_LAYER_CONV_TRANSPOSE2D, "conv_transpose2d", conv_transpose2d_keys),
    KEYED(UW_LAYER_DENSE, "dense", dense_keys),
    KEYED(UW_LAYER_MAXPOOL2D, "maxpool2d", maxpool2d_keys),
    KEYED(UW_LAYER_MAXPOOL1D, "maxpool1d", maxpool1d_keys),
    KEYED(UW_LAYER_AVGPOOL2D, "avgpool2d", avgpool2d_keys),
    KEYED(UW_LAYER_AVGPOOL1D, "avgpool1d", avgpool1d_keys),
    PLAIN(UW_LAYER_GLOBAL_AVGPOOL, "global_avgpool", false),
    KEYED(UW_LAYER_BATCHNORM, "batchnorm", batchnorm_keys),
    KEYED(UW_LAYER_GROUPNORM, "groupnorm", groupnorm_keys),
    KEYED(UW_LAYER_LAYERNORM, "layernorm", layernorm_keys),
    KEYED(UW_LAYER_LRN, "lrn", lrn_keys),
    PLAIN(UW_LAYER_RELU, "relu", false),
    PLAIN(UW_LAYER_RELU6, "relu6", false),
    KEYED(UW_LAYER_LEAKY_RELU, "leaky_relu", leaky_relu_keys),
    PLAIN(UW_LAYER_SIGMOID, "sigmoid", false),
    PLAIN(UW_LAYER_TANH, "tanh", false),
    KEYED(UW_LAYER_GELU, "gelu", gelu_keys),
    PLAIN(UW_LAYER_SILU, "silu", false),
    KEYED(UW_LAYER_DROPOUT, "dropout", dropout_keys),
    PLAIN(UW_LAYER_ADD, "add", true),
    {UW_LAYER_CONCAT, "concat", true, concat_keys, 1},
    PLAIN(UW_LAYER_FLATTEN, "flatten", false),
    KEYED(UW_LAYER_RESHAPE, "reshape", reshape_keys),
    KEYED(UW_LAYER_TRANSPOSE, "transpose", transpose_keys),
    KEYED(UW_LAYER_SLICE, "slice", slice_keys),
    KEYED(UW_LAYER_EMBEDDING, "embedding", embedding_keys),
    KEYED(UW_LAYER_RNN, "rnn", rnn_keys),
    KEYED(UW_LAYER_GRU, "gru", recurrent_keys),
    KEYED(UW_LAYER_LSTM, "lstm", recurrent_keys),
    KEYED(UW_LAYER_ATTENTION, "attention", attention_keys),
};
#define TYPES_N (sizeof types / sizeof types[0])

/* The row of a kind; NULL when there is none. */
static const struct type *type_of(enum uw_layer_kind kind)
{
    for (size_t i = 0; i < TYPES_N; i++) {
        if (types[i].kind == kind) {
            return &types[i];
        }
    }
    return NULL;
}

/* "kernel": 5 or "kernel": [5, 3] */
static void read_pair(struct uw_json *j, const cJSON *value, const struct key *key,
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
        int32_t size = uw_json_i32(j, e, "shape", -1, (int32_t)SIZE_LIMIT);
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

static void read_key(struct uw_json *j, const cJSON *layer, const struct key *key,
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
        *(int32_t *)out = uw_json_i32(j, value, key->name, -(int32_t)SIZE_LIMIT,
                                      (int32_t)SIZE_LIMIT);
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

static const struct type *find_type(struct uw_json *j, const cJSON *layer)
{
    const char *name = uw_json_text(j, layer, "type", NULL);
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (size_t i = 0; i < TYPES_N; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
        uw_guess_try(&g, types[i].name, strlen(types[i].name));
    }
    uw_json_fail(j, uw_json_member(j, layer, "type", true), "unknown layer type \"%.40s\"%s", name,
                 uw_guess_hint(&g, "\"", ", uwasa models --help lists them"));
    return NULL;
}

/* Refuse keys that the type does not have. */
static void check_keys(struct uw_json *j, const cJSON *layer, const struct type *type)
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
    const struct type *type = find_type(j, layer);
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

/* An order of three axes names each of them; of two or one, the others are 0 once more. */
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

/* In a pair 0 stands for the first number, of padding for 0. */
static void pair_of(const struct key *key, const uint32_t in[2], uint32_t out[2])
{
    out[0] = in[0] != 0 ? in[0] : key->same;
    out[1] = in[1] != 0 || key->min == 0 ? in[1] : out[0];
}

static bool is_default(const struct key *key, const void *value)
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

static void put_key(struct sink *s, const struct key *key, const struct uw_layer_def *def)
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
    const struct type *type = type_of(def->kind);
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
