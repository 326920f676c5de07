/* SPDX-License-Identifier: Apache-2.0
 *
 * model_json.h - models as JSON, and the built-in models
 *
 *     {
 *       "name": "tiny",
 *       "input": [1, 28, 28],
 *       "layers": [
 *         {"name": "conv1", "type": "conv2d", "out_channels": 6, "kernel": 5, "padding": 2},
 *         {"name": "relu1", "type": "relu"},
 *         {"name": "pool1", "type": "maxpool2d", "kernel": 2},
 *         {"name": "flat", "type": "flatten"},
 *         {"name": "fc1", "type": "dense", "out": 10}
 *       ],
 *       "loss": {"type": "cross_entropy", "label_smoothing": 0.1}
 *     }
 *
 * `uwasa models --help` (cmd_models.c) describes the keys of a model, of each type of layer and of
 * a loss; uwasa/layer_keys.h has those of layers in a table. An unknown key, a wrong type and a
 * repeated key are errors that name file and line.
 *
 * Memory     heap; the definition points into struct uw_model_file
 * Blocking   reads one file      Context  any thread
 */
#ifndef UWASA_CLI_MODEL_JSON_H
#define UWASA_CLI_MODEL_JSON_H

#include "base/json_read.h"

#include "uwasa/layers.h"
#include "uwasa/model.h"

/* Limit of layers in one model. */
#define UW_MODEL_LAYERS_MAX 4096u

/* Texts of enum uw_loss_kind and enum uw_target_kind, in order. */
#define UW_MODEL_LOSSES "cross_entropy|binary_cross_entropy|mse|l1|huber"
#define UW_MODEL_TARGETS "label|input|values"

struct uw_model_file {
    struct uw_model_def def;    /* layers_n is above that of the file if it has upsample or pad */
    const char *about;      /* may be NULL */
    struct uw_layer_def *layers;
    struct uw_loss_def *losses;
    struct uw_json json;
};

/* A model that is compiled into the program. */
struct uw_model_builtin {
    const char *name;
    const char *text;       /* JSON, NUL-terminated */
};

/* The built-in models, in the order of `uwasa models`. Static storage. */
extern const struct uw_model_builtin uw_model_builtins[];
extern const uint32_t uw_model_builtins_n;

/* Find a built-in model; NULL: not found. */
const struct uw_model_builtin *uw_model_builtin_find(const char *name);

/* As uw_guess_hint, for a name that is not a built-in model's; the text is in g, which is set. */
const char *uw_model_builtin_hint(struct uw_guess *g, const char *name, const char *otherwise);

/* Read a model from a text; `file` names it in messages.
 * Returns UW_OK, UW_ERR_CORRUPT (no JSON), UW_ERR_INVALID (not a model), UW_ERR_TOOBIG,
 * UW_ERR_NOMEM, err filled. Shapes are checked later, by uw_model_measure. */
int uw_model_parse(struct uw_model_file *m, const char *file, const char *text, size_t text_bytes,
                   struct uw_error *err);

/* Read a built-in model by name, or a model file. Also returns UW_ERR_NOTFOUND, UW_ERR_DENIED,
 * UW_ERR_IO. */
int uw_model_load(struct uw_model_file *m, const char *name_or_file, struct uw_error *err);

/* Read one element of "layers", as uw_model_parse does. Texts stay in the document, mistakes in
 * j->err. */
void uw_model_read_layer(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def);

/* Types that become layers of type take: "upsample" and "pad". Reads such an element of "layers"
 * and appends its one or two layers to those of m, which has memory for them; false: another type.
 */
#define UW_MODEL_RESIZE_TYPES {"upsample", "pad"}
bool uw_model_read_resize(struct uw_model_file *m, const cJSON *layer);

/* Write a definition as JSON that uw_model_parse can read, one line per layer.
 *
 *   text  [text_bytes] gets as much as fits, NUL-terminated; may be NULL when text_bytes is 0
 *
 * Keys at their default are omitted. Returns the length of the whole text, even if it did not fit,
 * or UW_ERR_INVALID (a kind that model files do not have). */
int uw_model_write(const struct uw_model_def *def, char *text, size_t text_bytes);

/* Release everything; safe on a zeroed struct, after a failed load, and twice. */
void uw_model_file_deinit(struct uw_model_file *m);

#endif
