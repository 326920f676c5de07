/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a model as JSON, read by the table of uwasa/layer_keys.h. */
#include "model_json.h"

#include <stdio.h>
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

/* sizes: [UW_AXES_MAX], then how many there are */
static void read_shape(struct uw_json *j, const cJSON *value, const struct uw_layer_key *key,
                       uint32_t *sizes)
{
    int open = 0;
    uint32_t n = uw_json_elements(j, value, "shape", UW_AXES_MAX, "sizes");
    sizes[UW_AXES_MAX] = n;
    for (const cJSON *e = n != 0 ? value->child : NULL; e != NULL; e = e->next) {
        int32_t size = uw_json_i32(j, e, "shape", key->min == 0 ? -1 : 1,
                                   (int32_t)UW_LAYER_SIZE_LIMIT);
        open += size < 0 ? 1 : 0;
        if (size == 0 || open > 1) {
            uw_json_fail(j, e, "\"shape\" needs sizes of 1 or more; one may be -1: what is left");
        }
        *sizes++ = size < 0 ? 0 : (uint32_t)size;
    }
}

static void read_order(struct uw_json *j, const cJSON *value, uint32_t out[UW_AXES_MAX])
{
    unsigned seen = 0;
    uint32_t n = uw_json_elements(j, value, "order", UW_AXES_MAX, "axes");
    for (const cJSON *e = n != 0 ? value->child : NULL; e != NULL; e = e->next) {
        *out = uw_json_u32(j, e, "order", 0, n - 1u);
        seen |= 1u << *out++;
    }
    if (n != 0 && seen != (1u << n) - 1u) {
        uw_json_fail(j, value, "\"order\" needs every axis from 0 to %u once", (unsigned)n - 1u);
    }
}

static uint32_t taps_of(const struct uw_take_def *take)
{
    return take->taps != 0 ? take->taps : 1;
}

static void read_index(struct uw_json *j, const cJSON *value, struct uw_take_def *take)
{
    uint32_t taps = taps_of(take);
    uint32_t n = uw_json_elements(j, value, "index", UW_LAYER_INDICES_MAX, "whole numbers");
    int32_t *index = n != 0 ? uw_json_keep(j, n * sizeof *index) : NULL;
    if (index == NULL) {
        return;
    }
    if (n % taps != 0) {
        uw_json_fail(j, value, "\"index\" has %u numbers, which \"taps\" %u does not divide",
                     (unsigned)n, (unsigned)taps);
    }
    take->n = n / taps;
    take->index = index;
    for (const cJSON *e = value->child; e != NULL; e = e->next) {
        *index++ = uw_json_i32(j, e, "index", -1, (int32_t)UW_LAYER_SIZE_LIMIT);
    }
}

static void read_weights(struct uw_json *j, const cJSON *value, struct uw_take_def *take)
{
    uint32_t want = take->n * taps_of(take);
    uint32_t n = uw_json_elements(j, value, "weight", UW_LAYER_INDICES_MAX, "numbers");
    float *weight = n != 0 ? uw_json_keep(j, n * sizeof *weight) : NULL;
    if (weight == NULL) {
        return;
    }
    if (n != want) {
        uw_json_fail(j, value, "\"weight\" has %u numbers, \"index\" has %u", (unsigned)n,
                     (unsigned)want);
    }
    take->weight = weight;
    for (const cJSON *e = value->child; e != NULL; e = e->next) {
        *weight++ = uw_json_real(j, e, "weight", UW_REAL_ANY);
    }
}

static void read_key(struct uw_json *j, const cJSON *layer, const struct uw_layer_key *key,
                     struct uw_layer_def *def)
{
    void *out = (char *)def + key->offset;
    const cJSON *value = uw_json_member(j, layer, key->name, key->required);
    if (value == NULL) {
        if (key->otherwise != 0.0f) {
            *(float *)out = key->otherwise;
        }
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
        read_shape(j, value, key, out);
        break;
    case UW_KEY_ORDER:
        read_order(j, value, out);
        break;
    case UW_KEY_INDEX:
        read_index(j, value, &def->take);
        break;
    case UW_KEY_WEIGHTS:
        read_weights(j, value, &def->take);
        break;
    }
}

static void read_inputs(struct uw_json *j, const cJSON *layer, enum uw_layer_wiring wiring,
                        struct uw_layer_def *def)
{
    bool required = wiring == UW_WIRING_SEVERAL || wiring == UW_WIRING_TWO;
    const cJSON *inputs = uw_json_member(j, layer, "inputs", required);
    uint32_t i = 0;
    if (inputs == NULL) {
        return;
    }
    if (wiring == UW_WIRING_TWO && cJSON_GetArraySize(inputs) != 2) {
        uw_json_fail(j, inputs, "\"inputs\" needs an array of 2 layer names");
    }
    if (uw_json_elements(j, inputs, "inputs", UW_LAYER_INPUTS_MAX, "layer names") == 0) {
        return;
    }
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
    static const char *const resize[] = UW_MODEL_RESIZE_TYPES;
    for (size_t i = 0; i < sizeof resize / sizeof resize[0]; i++) {
        uw_guess_try(&g, resize[i], strlen(resize[i]));
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
    int n = snprintf(keys, sizeof keys, "name|type%s|frozen",
                     type->wiring == UW_WIRING_NONE ? "" : "|inputs");
    for (size_t i = 0; i < type->keys_n; i++) {
        n += snprintf(keys + n, sizeof keys - (size_t)n, "|%s", type->keys[i].name);
    }
    snprintf(what, sizeof what, "a layer of type %s", type->name);
    uw_json_keys(j, layer, what, keys);
}

/* 0 and 0 stand for the defaults of a function. */
static void check_function(struct uw_json *j, const cJSON *layer, const struct uw_layer_type *type,
                           const struct uw_layer_def *def)
{
    const struct uw_function_def *f = &def->function;
    const struct uw_layer_key *key = type->keys;
    if (type->keys_n == 2 && key[0].otherwise != 0.0f && f->a == 0.0f && f->b == 0.0f) {
        uw_json_fail(j, layer, "\"%s\" and \"%s\" are both 0: the layer would give 0 only",
                     key[0].name, key[1].name);
    }
    if (f->function == UW_FUNCTION_CLIP && f->a > f->b) {
        uw_json_fail(j, layer, "\"min\" is above \"max\"");
    }
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
    uw_layer_set_type(def, type);
    check_keys(j, layer, type);
    read_inputs(j, layer, type->wiring, def);
    def->frozen = uw_json_bool(j, layer, "frozen", false);
    for (size_t i = 0; i < type->keys_n; i++) {
        read_key(j, layer, &type->keys[i], def);
    }
    if (type->kind == UW_LAYER_FUNCTION && j->err.code == UW_OK) {
        check_function(j, layer, type, def);
    }
}
