/* SPDX-License-Identifier: Apache-2.0 */
#include "model_json.h"

#include <stdlib.h>
#include <string.h>

#define DIM_MAX 16777216u

/* "kernel": 5 or "kernel": [5, 3] */
static void read_pair(struct uw_json *j, const cJSON *layer, const char *key, uint32_t min,
                      bool required, uint32_t *h, uint32_t *w)
{
    const cJSON *m = uw_json_member(j, layer, key, required);
    if (m == NULL) {
        return;
    }
    if (!cJSON_IsArray(m)) {
        *h = uw_json_u32(j, m, key, min, 65535);
        *w = *h;
    } else if (cJSON_GetArraySize(m) == 2) {
        *h = uw_json_u32(j, m->child, key, min, 65535);
        *w = uw_json_u32(j, m->child->next, key, min, 65535);
    } else {
        uw_json_fail(j, m, "\"%s\" needs one number or [height, width]", key);
    }
}

static uint32_t read_size(struct uw_json *j, const cJSON *layer, const char *key)
{
    const cJSON *m = uw_json_member(j, layer, key, true);
    return m != NULL ? uw_json_u32(j, m, key, 1, DIM_MAX) : 0;
}

static void read_conv2d(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    struct uw_conv2d_def *c = &def->conv2d;
    uw_json_keys(j, layer, "a conv2d layer",
                 "name|type|inputs|out_channels|kernel|stride|padding|bias");
    def->kind = UW_LAYER_CONV2D;
    c->out_channels = read_size(j, layer, "out_channels");
    read_pair(j, layer, "kernel", 1, true, &c->kernel_h, &c->kernel_w);
    read_pair(j, layer, "stride", 1, false, &c->stride_h, &c->stride_w);
    read_pair(j, layer, "padding", 0, false, &c->pad_h, &c->pad_w);
    c->no_bias = !uw_json_bool(j, layer, "bias", true);
}

static void read_dense(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    uw_json_keys(j, layer, "a dense layer", "name|type|inputs|out|bias");
    def->kind = UW_LAYER_DENSE;
    def->dense.out = read_size(j, layer, "out");
    def->dense.no_bias = !uw_json_bool(j, layer, "bias", true);
}

static void read_maxpool2d(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    struct uw_pool2d_def *p = &def->pool2d;
    uw_json_keys(j, layer, "a maxpool2d layer", "name|type|inputs|kernel|stride|padding");
    def->kind = UW_LAYER_MAXPOOL2D;
    read_pair(j, layer, "kernel", 1, true, &p->kernel_h, &p->kernel_w);
    read_pair(j, layer, "stride", 1, false, &p->stride_h, &p->stride_w);
    read_pair(j, layer, "padding", 0, false, &p->pad_h, &p->pad_w);
}

static void read_relu(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    uw_json_keys(j, layer, "a relu layer", "name|type|inputs");
    def->kind = UW_LAYER_RELU;
}

static void read_flatten(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    uw_json_keys(j, layer, "a flatten layer", "name|type|inputs");
    def->kind = UW_LAYER_FLATTEN;
}

static void read_add(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    uw_json_keys(j, layer, "an add layer", "name|type|inputs");
    uw_json_member(j, layer, "inputs", true);
    def->kind = UW_LAYER_ADD;
}

static const struct {
    const char *type;
    void (*read)(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def);
} kinds[] = {
    {"conv2d", read_conv2d}, {"dense", read_dense},     {"maxpool2d", read_maxpool2d},
    {"relu", read_relu},     {"flatten", read_flatten}, {"add", read_add},
};
#define KINDS_N (sizeof kinds / sizeof kinds[0])

static void read_inputs(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    const cJSON *inputs = uw_json_member(j, layer, "inputs", false);
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

static void read_layer(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def)
{
    if (!cJSON_IsObject(layer)) {
        uw_json_fail(j, layer, "a layer needs an object {...}");
        return;
    }
    def->name = uw_json_text(j, layer, "name", NULL);
    const char *type = uw_json_text(j, layer, "type", NULL);
    if (j->err.code != UW_OK) {
        return;
    }
    for (size_t k = 0; k < KINDS_N; k++) {
        if (strcmp(kinds[k].type, type) == 0) {
            kinds[k].read(j, layer, def);
            read_inputs(j, layer, def);
            return;
        }
    }
    uw_json_fail(j, uw_json_member(j, layer, "type", true),
                 "unknown layer type \"%s\"; allowed: conv2d dense maxpool2d relu flatten add",
                 type);
}

static void read_input_shape(struct uw_json *j, struct uw_model_def *def)
{
    const cJSON *input = uw_json_member(j, j->root, "input", true);
    int n = cJSON_GetArraySize(input);
    if (input == NULL) {
        return;
    }
    if (!cJSON_IsArray(input) || (n != 1 && n != 3)) {
        uw_json_fail(j, input, "\"input\" needs [channels, height, width] or [features]");
        return;
    }
    def->in_channels = uw_json_u32(j, cJSON_GetArrayItem(input, 0), "input", 1, DIM_MAX);
    def->in_h = n == 3 ? uw_json_u32(j, cJSON_GetArrayItem(input, 1), "input", 1, DIM_MAX) : 1;
    def->in_w = n == 3 ? uw_json_u32(j, cJSON_GetArrayItem(input, 2), "input", 1, DIM_MAX) : 1;
}

static void read_model(struct uw_model_file *m)
{
    struct uw_json *j = &m->json;
    uw_json_keys(j, j->root, "a model", "name|input|layers");
    m->def.name = uw_json_text(j, j->root, "name", NULL);
    read_input_shape(j, &m->def);
    const cJSON *layers = uw_json_member(j, j->root, "layers", true);
    int n = cJSON_GetArraySize(layers);
    if (j->err.code != UW_OK) {
        return;
    }
    if (!cJSON_IsArray(layers) || n < 1 || n > (int)UW_MODEL_LAYERS_MAX) {
        uw_json_fail(j, layers, "\"layers\" needs an array of 1 to %u layers",
                     UW_MODEL_LAYERS_MAX);
        return;
    }
    m->layers = calloc((size_t)n, sizeof *m->layers);
    if (m->layers == NULL) {
        uw_error_set(&j->err, UW_ERR_NOMEM, "%s: out of memory", j->file);
        return;
    }
    m->def.layers = m->layers;
    m->def.layers_n = (uint32_t)n;
    struct uw_layer_def *def = m->layers;
    for (const cJSON *e = layers->child; e != NULL && j->err.code == UW_OK; e = e->next) {
        read_layer(j, e, def++);
    }
}

/* Shared end of the two ways in: `rc` is what opening the text gave. */
static int finish(struct uw_model_file *m, int rc, struct uw_error *err)
{
    if (rc == UW_OK) {
        read_model(m);
    }
    if (m->json.err.code != UW_OK) {
        rc = uw_error_set(err, m->json.err.code, "%s", m->json.err.text);
        uw_model_file_deinit(m);
    }
    return rc;
}

int uw_model_parse(struct uw_model_file *m, const char *file, const char *text, size_t text_bytes,
                   struct uw_error *err)
{
    *m = (struct uw_model_file){.layers = NULL};
    return finish(m, uw_json_open_text(&m->json, file, text, text_bytes), err);
}

const struct uw_model_builtin *uw_model_builtin_find(const char *name)
{
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        if (strcmp(uw_model_builtins[i].name, name) == 0) {
            return &uw_model_builtins[i];
        }
    }
    return NULL;
}

const char *uw_model_builtin_nearest(const char *name)
{
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        const char *candidate = uw_model_builtins[i].name;
        uw_guess_try(&g, candidate, strlen(candidate));
    }
    return g.nearest;
}

int uw_model_load(struct uw_model_file *m, const char *name_or_file, struct uw_error *err)
{
    const struct uw_model_builtin *b = uw_model_builtin_find(name_or_file);
    if (b != NULL) {
        return uw_model_parse(m, b->name, b->text, strlen(b->text), err);
    }
    *m = (struct uw_model_file){.layers = NULL};
    int rc = finish(m, uw_json_open_file(&m->json, name_or_file), err);
    if (rc == UW_ERR_NOTFOUND) {
        const char *near = uw_model_builtin_nearest(name_or_file);
        return uw_error_set(err, rc, "%.80s: no such file and no built-in model%s%s%s",
                            name_or_file, near != NULL ? ", did you mean " : " (see uwasa models)",
                            near != NULL ? near : "", near != NULL ? "?" : "");
    }
    return rc;
}

void uw_model_file_deinit(struct uw_model_file *m)
{
    uw_json_close(&m->json);
    free(m->layers);
    m->layers = NULL;
    m->def = (struct uw_model_def){.name = NULL};
}
