/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of model files that the runtime does not have: upsample and pad become takes, one for each
 * axis that changes. Their tables need the size of the input, so the layers before are measured. */
#include "model_json.h"

#include "uwasa/backends.h"
#include "uwasa/describe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mode { ZEROS, REFLECT, REPLICATE, NEAREST, LINEAR };

/* What happens to one axis. */
struct change {
    enum mode mode;
    uint32_t scale;                 /* upsample */
    uint32_t before, after;         /* pad */
};

static uint32_t find(const struct uw_model_file *m, const char *name)
{
    uint32_t i = 0;
    while (i < m->def.layers_n && strcmp(m->layers[i].name, name) != 0) {
        i++;
    }
    return i;
}

static const char *previous(const struct uw_model_file *m, uint32_t layer)
{
    return layer > 0 ? m->layers[layer - 1].name : "input";
}

/* Copy the layers that layer `last` depends on, and it, to `to`. Returns how many. */
static uint32_t ancestors(const struct uw_model_file *m, uint32_t last, bool *needed,
                          struct uw_layer_def *to)
{
    uint32_t n = 0;
    needed[last] = true;
    for (uint32_t i = last + 1; i-- > 0;) {
        const struct uw_layer_def *l = &m->layers[i];
        const char *one[] = {previous(m, i)};
        const char *const *inputs = l->inputs[0] != NULL ? l->inputs : one;
        uint32_t inputs_n = l->inputs[0] != NULL ? UW_LAYER_INPUTS_MAX : 1;
        for (uint32_t k = 0; k < inputs_n && needed[i] && inputs[k] != NULL; k++) {
            uint32_t at = find(m, inputs[k]);
            if (at < i && l->kind != UW_LAYER_PARAMETER) {
                needed[at] = true;
            }
        }
    }
    for (uint32_t i = 0; i <= last; i++) {
        if (needed[i]) {
            to[n] = m->layers[i];
            to[n].inputs[0] = to[n].inputs[0] != NULL ? to[n].inputs[0] : previous(m, i);
            n++;
        }
    }
    return n;
}

static void keep_last(void *arg, const struct uw_layer_info *info)
{
    *(struct uw_layer_info *)arg = *info;
}

/* Measure a layer of the model so far. */
static int measure(const struct uw_model_file *m, uint32_t layer, struct uw_layer_info *info,
                   struct uw_error *err)
{
    const struct uw_loss_def loss = {.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    struct uw_layer_def *layers = calloc(layer + 1u, sizeof *layers);
    bool *needed = calloc(layer + 1u, sizeof *needed);
    size_t bytes = UW_MODEL_WORKSPACE_BYTES(layer + 1u);
    void *workspace = malloc(bytes);
    int rc = UW_ERR_NOMEM;
    if (layers != NULL && needed != NULL && workspace != NULL) {
        struct uw_model_def def = m->def;
        def.layers = layers;
        def.layers_n = ancestors(m, layer, needed, layers);
        def.losses = &loss;
        def.losses_n = 1;
        const struct uw_visitor v = {.layer = keep_last, .arg = info};
        const struct uw_model_config config = {
            .def = &def, .kernels = &uw_kernels_ref, .batch_n = 1, .mode = UW_PLAN_INFERENCE,
            .workspace = workspace, .workspace_bytes = bytes};
        rc = uw_model_describe(&config, &v, err);
    } else {
        uw_error_set(err, rc, "out of memory");
    }
    free(layers);
    free(needed);
    free(workspace);
    return rc;
}

/* The shape of the value that a layer reads. Returns its rank; 0 after a mistake. */
static uint32_t shape_of(struct uw_model_file *m, const cJSON *layer, const char *input,
                         uint32_t dim[UW_AXES_MAX])
{
    const struct uw_model_def *d = &m->def;
    struct uw_layer_info info = {.out_rank = 0};
    struct uw_error err = {.text = ""};
    uint32_t at = find(m, input);
    if (m->json.err.code != UW_OK) {
        return 0;
    }
    if (strcmp(input, "input") == 0) {
        uint32_t n = 0;
        dim[n++] = d->in_channels;
        n += d->in_h != 0 ? (dim[n] = d->in_h, 1u) : 0u;
        n += d->in_w != 0 ? (dim[n] = d->in_w, 1u) : 0u;
        return n;
    }
    if (at == d->layers_n) {
        uw_json_fail(&m->json, layer, "input '%s' is no earlier layer (and not \"input\")", input);
    } else if (measure(m, at, &info, &err) < 0) {
        uw_json_fail(&m->json, layer, "its input has no size: %s", err.text);
    }
    memcpy(dim, info.out, sizeof info.out);
    return m->json.err.code == UW_OK ? info.out_rank : 0;
}

static uint32_t taps_of(const struct change *c)
{
    return c->mode == LINEAR ? 2 : 1;
}

static uint32_t size_after(const struct change *c, uint32_t size)
{
    uint64_t n = c->mode >= NEAREST ? (uint64_t)size * c->scale
                                    : (uint64_t)size + c->before + c->after;
    return n * taps_of(c) <= UW_LAYER_INDICES_MAX ? (uint32_t)n : 0;
}

/* The element of the axis that padding shows at place i; -1: a zero. */
static int32_t padded(const struct change *c, int32_t size, int32_t i)
{
    int32_t at = i - (int32_t)c->before;
    bool inside = at >= 0 && at < size;
    switch (c->mode) {
    case REFLECT:
        return at < 0 ? -at : inside ? at : 2 * (size - 1) - at;
    case REPLICATE:
        return at < 0 ? 0 : inside ? at : size - 1;
    default:
        return inside ? at : -1;
    }
}

/* Element i of a stretched axis lies between two others: its middle is at (i + 1/2) / scale. */
static void stretched(const struct change *c, uint32_t size, uint32_t i, int32_t index[2],
                      float weight[2])
{
    double at = fmax(((double)i + 0.5) / c->scale - 0.5, 0.0);
    uint32_t low = (uint32_t)at;
    index[0] = (int32_t)low;
    index[1] = (int32_t)(low + 1 < size ? low + 1 : low);
    weight[1] = (float)(at - low);
    weight[0] = 1.0f - weight[1];
}

static void fill_tables(const struct change *c, uint32_t size, uint32_t n, int32_t *index,
                        float *weight)
{
    for (uint32_t i = 0; i < n; i++) {
        if (c->mode == LINEAR) {
            stretched(c, size, i, index + 2u * i, weight + 2u * i);
        } else {
            index[i] = c->mode == NEAREST ? (int32_t)(i / c->scale)
                                          : padded(c, (int32_t)size, (int32_t)i);
        }
    }
}

/* Append one take. */
static void append(struct uw_model_file *m, const cJSON *layer, const char *name,
                   const char *input, uint32_t axis, uint32_t size, const struct change *c)
{
    struct uw_json *j = &m->json;
    uint32_t n = size_after(c, size), taps = taps_of(c);
    if (n == 0) {
        uw_json_fail(j, layer, "an axis of %u becomes longer than %u", (unsigned)size,
                     UW_LAYER_INDICES_MAX / taps);
    } else if (c->mode == REFLECT && (c->before >= size || c->after >= size)) {
        uw_json_fail(j, layer, "\"padding\" needs to be below the size of the axis, %u, to reflect",
                     (unsigned)size);
    }
    size_t table_n = (size_t)n * taps;
    int32_t *index = j->err.code == UW_OK ? uw_json_keep(j, table_n * sizeof *index) : NULL;
    float *weight = index != NULL && taps > 1 ? uw_json_keep(j, table_n * sizeof *weight) : NULL;
    if (j->err.code != UW_OK) {
        return;
    }
    fill_tables(c, size, n, index, weight);
    m->layers[m->def.layers_n++] = (struct uw_layer_def){
        .kind = UW_LAYER_TAKE, .name = name, .inputs = {input},
        .take = {.axis = axis, .n = n, .taps = taps > 1 ? taps : 0, .index = index,
                 .weight = weight}};
}

/* Append the takes of the last two axes: c[0] is the last one's. rank 0: after a mistake. */
static void append_both(struct uw_model_file *m, const cJSON *layer, const char *input,
                        const uint32_t dim[UW_AXES_MAX], uint32_t rank, const bool changes[2],
                        const struct change c[2])
{
    const char *name = uw_json_text(&m->json, layer, "name", NULL);
    bool both = changes[0] && changes[1];
    size_t bytes = strlen(name) + sizeof ".rows";
    char *rows = uw_json_keep(&m->json, bytes);
    if (rank == 0 || rows == NULL) {
        return;
    }
    if (changes[1] && rank < 3) {
        uw_json_fail(&m->json, layer, "its input has %u axes: rows are an axis of 3 or more",
                     (unsigned)rank);
        return;
    }
    snprintf(rows, bytes, "%s.rows", name);
    if (changes[1]) {
        append(m, layer, both ? rows : name, input, rank - 2, dim[rank - 2], &c[1]);
    }
    if (changes[0] || !changes[1]) {
        append(m, layer, name, both ? rows : input, rank - 1, dim[rank - 1], &c[0]);
    }
}

static const char *input_of(struct uw_model_file *m, const cJSON *layer)
{
    const cJSON *inputs = uw_json_member(&m->json, layer, "inputs", false);
    if (inputs == NULL) {
        return previous(m, m->def.layers_n);
    }
    if (cJSON_GetArraySize(inputs) != 1 || !cJSON_IsString(inputs->child)) {
        uw_json_fail(&m->json, inputs, "\"inputs\" needs an array of 1 layer name");
        return "input";
    }
    return inputs->child->valuestring;
}

static uint32_t choice_of(struct uw_json *j, const cJSON *layer, const char *choices)
{
    const cJSON *mode = uw_json_member(j, layer, "mode", false);
    return mode != NULL ? uw_json_choice(j, mode, "mode", choices) : 0;
}

static void read_upsample(struct uw_model_file *m, const cJSON *layer)
{
    struct uw_json *j = &m->json;
    uint32_t dim[UW_AXES_MAX], scale[2] = {1, 1};
    uw_json_keys(j, layer, "a layer of type upsample", "name|type|inputs|frozen|scale|mode");
    const cJSON *value = uw_json_member(j, layer, "scale", true);
    const char *input = input_of(m, layer);
    bool list = cJSON_IsArray(value);
    if (list && cJSON_GetArraySize(value) != 2) {
        uw_json_fail(j, value, "\"scale\" needs one number or [height, width]");
    }
    if (value != NULL && j->err.code == UW_OK) {
        scale[1] = uw_json_u32(j, list ? value->child : value, "scale", 1, 1024);
        scale[0] = list ? uw_json_u32(j, value->child->next, "scale", 1, 1024) : scale[1];
    }
    enum mode mode = choice_of(j, layer, "nearest|linear|bilinear") == 0 ? NEAREST : LINEAR;
    const struct change c[2] = {{.mode = mode, .scale = scale[0]},
                                {.mode = mode, .scale = scale[1]}};
    uint32_t rank = shape_of(m, layer, input, dim);
    bool image = list || rank > 2;
    append_both(m, layer, input, dim, rank, (const bool[2]){scale[0] > 1, image && scale[1] > 1},
                c);
}

static void read_pad(struct uw_model_file *m, const cJSON *layer)
{
    struct uw_json *j = &m->json;
    uint32_t dim[UW_AXES_MAX], side[4] = {0, 0, 0, 0};
    uw_json_keys(j, layer, "a layer of type pad", "name|type|inputs|frozen|padding|mode");
    const cJSON *value = uw_json_member(j, layer, "padding", true);
    const char *input = input_of(m, layer);
    uint32_t rank = shape_of(m, layer, input, dim), n = rank > 2 ? 4 : 2;
    if (cJSON_IsArray(value)) {
        n = (uint32_t)cJSON_GetArraySize(value);
        if (n != 2 && n != 4) {
            uw_json_fail(j, value, "\"padding\" needs one number, [left, right] or [left, right, "
                                   "top, bottom]");
            return;
        }
        for (uint32_t i = 0; i < n; i++) {
            side[i] = uw_json_u32(j, cJSON_GetArrayItem(value, (int)i), "padding", 0, 65535);
        }
    } else if (value != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            side[i] = uw_json_u32(j, value, "padding", 0, 65535);
        }
    }
    enum mode mode = (enum mode)choice_of(j, layer, "zeros|reflect|replicate");
    const struct change c[2] = {{.mode = mode, .before = side[0], .after = side[1]},
                                {.mode = mode, .before = side[2], .after = side[3]}};
    append_both(m, layer, input, dim, rank,
                (const bool[2]){side[0] + side[1] > 0, side[2] + side[3] > 0}, c);
}

bool uw_model_read_resize(struct uw_model_file *m, const cJSON *layer)
{
    const cJSON *type = cJSON_IsObject(layer) ? cJSON_GetObjectItemCaseSensitive(layer, "type")
                                              : NULL;
    const char *word = cJSON_IsString(type) ? type->valuestring : "";
    if (strcmp(word, "upsample") == 0) {
        read_upsample(m, layer);
        return true;
    }
    if (strcmp(word, "pad") == 0) {
        read_pad(m, layer);
        return true;
    }
    return false;
}
