/* SPDX-License-Identifier: Apache-2.0 */
#include "model_json.h"

#include "base/open_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM_MAX 16777216u

static void read_input_shape(struct uw_json *j, struct uw_model_def *def)
{
    const cJSON *input = uw_json_member(j, j->root, "input", true);
    uint32_t dim[3] = {0, 0, 0};
    int n = cJSON_GetArraySize(input);
    if (input == NULL) {
        return;
    }
    if (!cJSON_IsArray(input) || n < 1 || n > 3) {
        uw_json_fail(j, input, "\"input\" needs [channels, height, width], [channels, length] or "
                               "[features]");
        return;
    }
    for (int i = 0; i < n; i++) {
        dim[i] = uw_json_u32(j, cJSON_GetArrayItem(input, i), "input", 1, DIM_MAX);
    }
    def->in_channels = dim[0];
    def->in_h = n == 3 ? dim[1] : 0;
    def->in_w = dim[n == 3 ? 2 : 1];
}

static float read_real(struct uw_json *j, const cJSON *object, const char *key,
                       enum uw_real_range range)
{
    const cJSON *m = uw_json_member(j, object, key, false);
    return m != NULL ? uw_json_real(j, m, key, range) : 0.0f;
}

static void read_loss(struct uw_json *j, const cJSON *loss, struct uw_loss_def *def)
{
    static const char *const keys[] = {
        [UW_LOSS_CROSS_ENTROPY] = "type|layer|target|first|weight|label_smoothing|classes_last",
        [UW_LOSS_BINARY_CROSS_ENTROPY] = "type|layer|target|first|weight",
        [UW_LOSS_MSE] = "type|layer|target|first|weight",
        [UW_LOSS_L1] = "type|layer|target|first|weight",
        [UW_LOSS_HUBER] = "type|layer|target|first|weight|delta"};
    char what[40];
    if (!cJSON_IsObject(loss)) {
        uw_json_fail(j, loss, "a loss needs an object {...}");
        return;
    }
    const cJSON *type = uw_json_member(j, loss, "type", true);
    const cJSON *target = uw_json_member(j, loss, "target", false);
    const cJSON *first = uw_json_member(j, loss, "first", false);
    if (type == NULL) {
        return;
    }
    def->kind = (enum uw_loss_kind)uw_json_choice(j, type, "loss", UW_MODEL_LOSSES);
    if (j->err.code != UW_OK) {
        return;
    }
    snprintf(what, sizeof what, "a loss of type %.24s", type->valuestring);
    uw_json_keys(j, loss, what, keys[def->kind]);
    if (uw_json_member(j, loss, "layer", false) != NULL) {
        def->layer = uw_json_text(j, loss, "layer", NULL);
    }
    if (target != NULL) {
        def->target = (enum uw_target_kind)uw_json_choice(j, target, "target", UW_MODEL_TARGETS);
    }
    def->first = first != NULL ? uw_json_u32(j, first, "first", 0, INT32_MAX) : 0;
    def->classes_last = uw_json_bool(j, loss, "classes_last", false);
    def->weight = read_real(j, loss, "weight", UW_REAL_POSITIVE);
    def->label_smoothing = read_real(j, loss, "label_smoothing", UW_REAL_SHARE);
    def->delta = read_real(j, loss, "delta", UW_REAL_POSITIVE);
}

/* NULL without memory, and after a mistake. */
static void *allocate(struct uw_json *j, uint32_t n, size_t bytes)
{
    void *memory = j->err.code == UW_OK ? calloc(n, bytes) : NULL;
    if (memory == NULL && j->err.code == UW_OK) {
        uw_error_set(&j->err, UW_ERR_NOMEM, "%s: out of memory", j->file);
    }
    return memory;
}

static void read_losses(struct uw_model_file *m)
{
    struct uw_json *j = &m->json;
    const cJSON *one = uw_json_member(j, j->root, "loss", false);
    const cJSON *list = uw_json_member(j, j->root, "losses", false);
    if (one == NULL && list == NULL) {
        return;
    }
    if (one != NULL && list != NULL) {
        uw_json_fail(j, list, "\"loss\" and \"losses\": only one of them");
        return;
    }
    uint32_t n = one != NULL ? 1 : uw_json_elements(j, list, "losses", UW_LOSSES_MAX, "losses");
    m->losses = allocate(j, n, sizeof *m->losses);
    if (m->losses == NULL) {
        return;
    }
    m->def.losses = m->losses;
    m->def.losses_n = n;
    struct uw_loss_def *def = m->losses;
    for (const cJSON *e = one != NULL ? one : list->child; def < m->losses + n; e = e->next) {
        read_loss(j, e, def++);
    }
}

static void read_layers(struct uw_model_file *m)
{
    struct uw_json *j = &m->json;
    const cJSON *layers = uw_json_member(j, j->root, "layers", true);
    uint32_t n = layers != NULL
                     ? uw_json_elements(j, layers, "layers", UW_MODEL_LAYERS_MAX, "layers") : 0;
    m->layers = allocate(j, 2 * n, sizeof *m->layers);  /* an upsample or pad is up to two */
    if (m->layers == NULL) {
        return;
    }
    m->def.layers = m->layers;
    for (const cJSON *e = layers->child; e != NULL && j->err.code == UW_OK; e = e->next) {
        if (!uw_model_read_resize(m, e)) {
            uw_model_read_layer(j, e, &m->layers[m->def.layers_n++]);
        }
    }
}

static void read_model(struct uw_model_file *m)
{
    struct uw_json *j = &m->json;
    uw_json_keys(j, j->root, "a model", "name|about|input|layers|loss|losses");
    m->def.name = uw_json_text(j, j->root, "name", NULL);
    if (uw_json_member(j, j->root, "about", false) != NULL) {
        m->about = uw_json_text(j, j->root, "about", NULL);
    }
    read_input_shape(j, &m->def);
    read_layers(m);
    read_losses(m);
}

/* Common end of parse and load; rc: result of opening the text. */
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

const char *uw_model_builtin_hint(struct uw_guess *g, const char *name, const char *otherwise)
{
    *g = (struct uw_guess){.word = name, .word_bytes = strlen(name)};
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        uw_guess_try(g, uw_model_builtins[i].name, strlen(uw_model_builtins[i].name));
    }
    return uw_guess_hint(g, "", otherwise);
}

/* Say what a file is that other programs write, and what to do; else err stays. */
static int name_other_format(const char *file, int rc, struct uw_error *err)
{
    unsigned char head[9] = {0};
    FILE *f = uw_open_file(file, false);
    size_t n = f != NULL ? fread(head, 1, sizeof head, f) : 0;
    if (f != NULL) {
        fclose(f);
    }
    if (n == sizeof head && (memcmp(head, "PK\003\004", 4) == 0 || head[0] == 0x80 ||
                             memcmp(head, "\211HDF", 4) == 0)) {
        return uw_error_set(err, rc, "%.160s: %s, which only it reads: export the model as ONNX, "
                            "torch.onnx.export(model, x, \"NAME.onnx\", ...) or "
                            "model.export(\"NAME.onnx\", format=\"onnx\"), see README", file,
                            head[0] == 0211 ? "a file of Keras" : "an archive of PyTorch or Keras");
    }
    if (n == sizeof head && head[7] == 0 && head[8] == '{') {
        return uw_error_set(err, rc, "%.160s: safetensors hold weights alone: --weights %.160s, "
                            "and --model the model that they are of", file, file);
    }
    return rc;
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
        struct uw_guess g;
        return uw_error_set(err, rc, "%.80s: no such file and no built-in model%s", name_or_file,
                            uw_model_builtin_hint(&g, name_or_file, " (see uwasa models)"));
    }
    return rc == UW_ERR_CORRUPT || rc == UW_ERR_TOOBIG ? name_other_format(name_or_file, rc, err)
                                                       : rc;
}

void uw_model_file_deinit(struct uw_model_file *m)
{
    uw_json_close(&m->json);
    free(m->layers);
    free(m->losses);
    m->layers = NULL;
    m->losses = NULL;
    m->about = NULL;
    m->def = (struct uw_model_def){.name = NULL};
}
