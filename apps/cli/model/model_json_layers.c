/* SPDX-License-Identifier: Apache-2.0 */
#include "model_json_layers.h"

#include <stdio.h>
#include <string.h>

#define SIZE_LIMIT 16777216u    /* channels, features, rows */
#define WINDOW_LIMIT 65535u     /* kernels, strides, padding */

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

static const struct uw_model_key conv2d_keys[] = {CONV2D(conv2d)};
static const struct uw_model_key conv_transpose2d_keys[] = {
    CONV2D(conv_transpose2d),
    WINDOW("output_padding", UW_KEY_PAIR, conv_transpose2d.out_pad_h, false, 0, 0),
};
static const struct uw_model_key conv1d_keys[] = {
    SIZE("out_channels", conv1d.out_channels),
    WINDOW("kernel", UW_KEY_U32, conv1d.kernel, true, 1, 0),
    WINDOW("stride", UW_KEY_U32, conv1d.stride, false, 1, 1),
    WINDOW("padding", UW_KEY_U32, conv1d.pad, false, 0, 0),
    WINDOW("dilation", UW_KEY_U32, conv1d.dilation, false, 1, 1),
    GROUPS(conv1d),
    BIAS(conv1d),
};
static const struct uw_model_key dense_keys[] = {SIZE("out", dense.out), BIAS(dense)};
static const struct uw_model_key maxpool2d_keys[] = {POOL(pool2d, UW_KEY_PAIR, _h)};
static const struct uw_model_key avgpool2d_keys[] = {
    POOL(pool2d, UW_KEY_PAIR, _h),
    FLAG("count_include_pad", UW_KEY_FALSE, pool2d.exclude_pad),
};
static const struct uw_model_key maxpool1d_keys[] = {POOL(pool1d, UW_KEY_U32, )};
static const struct uw_model_key avgpool1d_keys[] = {
    POOL(pool1d, UW_KEY_U32, ),
    FLAG("count_include_pad", UW_KEY_FALSE, pool1d.exclude_pad),
};
static const struct uw_model_key batchnorm_keys[] = {
    EPS, REAL("momentum", norm.momentum, UW_JSON_POSITIVE_SHARE), AFFINE};
static const struct uw_model_key groupnorm_keys[] = {
    SIZE("num_groups", norm.groups), EPS, AFFINE};
static const struct uw_model_key layernorm_keys[] = {
    {"axes", UW_KEY_U32, AT(norm.axes), false, 1, 3, 1, 0, NULL}, EPS, AFFINE};
static const struct uw_model_key lrn_keys[] = {
    WINDOW("size", UW_KEY_U32, lrn.size, true, 1, 0),
    REAL("alpha", lrn.alpha, UW_JSON_POSITIVE),
    REAL("beta", lrn.beta, UW_JSON_POSITIVE),
    REAL("k", lrn.k, UW_JSON_POSITIVE),
};
static const struct uw_model_key leaky_relu_keys[] = {
    REAL("negative_slope", activation.slope, UW_JSON_POSITIVE)};
static const struct uw_model_key gelu_keys[] = {
    {"approximate", UW_KEY_CHOICE, AT(activation.tanh), false, 0, 0, 0, 0, "none|tanh"}};
static const struct uw_model_key dropout_keys[] = {
    {"p", UW_KEY_REAL, AT(dropout.rate), true, 0, 0, 0, UW_JSON_SHARE, NULL}};
static const struct uw_model_key concat_keys[] = {
    {"axis", UW_KEY_U32, AT(concat.axis), false, 0, 2, 0, 0, NULL}};
static const struct uw_model_key reshape_keys[] = {
    {"shape", UW_KEY_SHAPE, AT(reshape), true, 0, 0, 0, 0, NULL}};
static const struct uw_model_key transpose_keys[] = {
    {"order", UW_KEY_ORDER, AT(transpose.order), true, 0, 0, 0, 0, NULL}};
static const struct uw_model_key slice_keys[] = {
    {"axis", UW_KEY_U32, AT(slice.axis), false, 0, 2, 0, 0, NULL},
    {"start", UW_KEY_I32, AT(slice.start), false, 0, 0, 0, 0, NULL},
    {"length", UW_KEY_U32, AT(slice.length), false, 1, SIZE_LIMIT, 0, 0, NULL},
    FLAG("squeeze", UW_KEY_TRUE, slice.squeeze),
};
static const struct uw_model_key embedding_keys[] = {
    SIZE("vocabulary", embedding.vocabulary), SIZE("size", embedding.size)};
static const struct uw_model_key rnn_keys[] = {
    RECURRENT,
    {"nonlinearity", UW_KEY_CHOICE, AT(recurrent.relu), false, 0, 0, 0, 0, "tanh|relu"},
};
static const struct uw_model_key recurrent_keys[] = {RECURRENT};
static const struct uw_model_key attention_keys[] = {
    SIZE("heads", attention.heads), FLAG("causal", UW_KEY_TRUE, attention.causal),
    BIAS(attention)};

#define PLAIN(kind, name, several) {kind, name, several, NULL, 0}
#define KEYED(kind, name, keys) {kind, name, false, keys, sizeof keys / sizeof keys[0]}

static const struct uw_model_type types[] = {
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

const struct uw_model_type *uw_model_type_of(enum uw_layer_kind kind)
{
    for (size_t i = 0; i < TYPES_N; i++) {
        if (types[i].kind == kind) {
            return &types[i];
        }
    }
    return NULL;
}

/* "kernel": 5 or "kernel": [5, 3] */
static void read_pair(struct uw_json *j, const cJSON *value, const struct uw_model_key *key,
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
    int n = cJSON_GetArraySize(value);
    int open = 0;
    if (!cJSON_IsArray(value) || n < 1 || n > 3) {
        uw_json_fail(j, value, "\"shape\" needs an array of 1 to 3 sizes");
        return;
    }
    for (const cJSON *e = value->child; e != NULL; e = e->next) {
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
    int n = cJSON_GetArraySize(value);
    unsigned seen = 0;
    if (!cJSON_IsArray(value) || n < 1 || n > 3) {
        uw_json_fail(j, value, "\"order\" needs an array of 1 to 3 axes");
        return;
    }
    for (const cJSON *e = value->child; e != NULL; e = e->next) {
        *out = uw_json_u32(j, e, "order", 0, (uint32_t)n - 1u);
        seen |= 1u << *out++;
    }
    if (seen != (1u << n) - 1u) {
        uw_json_fail(j, value, "\"order\" needs every axis from 0 to %d once", n - 1);
    }
}

static void read_key(struct uw_json *j, const cJSON *layer, const struct uw_model_key *key,
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
    if (inputs == NULL) {
        return;
    }
    int n = cJSON_GetArraySize(inputs);
    if (!cJSON_IsArray(inputs) || n < 1 || n > UW_LAYER_INPUTS_MAX) {
        uw_json_fail(j, inputs, "\"inputs\" needs an array of 1 to %d layer names",
                     UW_LAYER_INPUTS_MAX);
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

static const struct uw_model_type *find_type(struct uw_json *j, const cJSON *layer)
{
    const char *name = uw_json_text(j, layer, "type", NULL);
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (size_t i = 0; i < TYPES_N; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
        uw_guess_try(&g, types[i].name, strlen(types[i].name));
    }
    if (g.nearest != NULL) {
        uw_json_fail(j, uw_json_member(j, layer, "type", true),
                     "unknown layer type \"%s\", did you mean \"%.*s\"?", name,
                     (int)g.nearest_bytes, g.nearest);
    } else {
        uw_json_fail(j, uw_json_member(j, layer, "type", true),
                     "unknown layer type \"%.40s\", uwasa models --help lists them", name);
    }
    return NULL;
}

/* Refuse keys that the type does not have. */
static void check_keys(struct uw_json *j, const cJSON *layer, const struct uw_model_type *type)
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
    const struct uw_model_type *type = find_type(j, layer);
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
