/* SPDX-License-Identifier: Apache-2.0
 *
 * model_json.h - a model as JSON, and the built-in ones
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
 * Model      name            text
 *            about           text for people (optional)
 *            input           [channels, height, width], [channels, length] or [steps, features],
 *                            [features]
 *            layers          in order; an input is always an earlier layer
 *            loss            softmax cross-entropy of the last layer by default
 *            losses          several, the first is what the model is for
 * Any layer  name            unique; its parameters are "<name>.weight" and so on
 *            type            one of those below
 *            inputs          names of earlier layers or "input"; default: the layer before
 *            frozen          true: its parameters stay as they are
 *
 *   conv2d            out_channels, kernel; stride (1), padding (0), dilation (1), groups (1),
 *                     bias (true)
 *   conv_transpose2d  likewise; output_padding (0)
 *   conv1d            as conv2d
 *   dense             out; bias (true)
 *   maxpool2d, maxpool1d
 *                     kernel; stride (the kernel), padding (0), ceil_mode (false)
 *   avgpool2d, avgpool1d
 *                     likewise; count_include_pad (true)
 *   batchnorm         eps (1e-5), momentum (0.1), affine (true)
 *   groupnorm         num_groups; eps, affine
 *   layernorm         axes: how many of the last (1); eps, affine
 *   lrn               size; alpha (1e-4), beta (0.75), k (1)
 *   leaky_relu        negative_slope (0.01)
 *   gelu              approximate: none or tanh (none)
 *   dropout           p
 *   concat            inputs; axis (0)
 *   add               inputs
 *   reshape           shape, one size may be -1
 *   transpose         order: of [1, 0] the first axis is the one that was second
 *   slice             axis (0), start (0; below 0 from the end), length (to the end),
 *                     squeeze (false)
 *   embedding         vocabulary, size
 *   rnn               hidden; bias (true), reverse (false), last: only the final state (false),
 *                     nonlinearity: tanh or relu (tanh)
 *   gru, lstm         as rnn, without nonlinearity
 *   attention         heads; causal (false), bias (true)
 *   global_avgpool, relu, relu6, sigmoid, tanh, silu, flatten
 *
 * In two dimensions kernel, stride, padding, dilation and output_padding are one number or
 * [height, width]. Axes do not count the minibatch: 0 is channels, or steps.
 *
 * A loss     type            cross_entropy, binary_cross_entropy (both of logits), mse, l1, huber
 *            layer           default: the last one
 *            target          label (default), input (the sample itself) or values
 *            weight          1 by default
 *            label_smoothing of cross_entropy (0)
 *            delta           of huber (1)
 *
 * A key not listed here, a wrong type and a key given twice are errors that name file and line.
 *
 * Memory     heap; the definition points into struct uw_model_file
 * Blocking   reads one file      Context  any thread
 */
#ifndef UWASA_CLI_MODEL_JSON_H
#define UWASA_CLI_MODEL_JSON_H

#include "base/json_read.h"

#include "uwasa/model.h"

/* Most layers of one model. */
#define UW_MODEL_LAYERS_MAX 4096u

/* Texts of enum uw_loss_kind and enum uw_target_kind, in order. */
#define UW_MODEL_LOSSES "cross_entropy|binary_cross_entropy|mse|l1|huber"
#define UW_MODEL_TARGETS "label|input|values"

struct uw_model_file {
    struct uw_model_def def;
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

/* Find a built-in model; NULL when there is none. */
const struct uw_model_builtin *uw_model_builtin_find(const char *name);

/* The built-in model that a mistyped name may mean; NULL when none is near. */
const char *uw_model_builtin_nearest(const char *name);

/* Read a model from a text; `file` names it in messages.
 * Returns UW_OK, UW_ERR_CORRUPT (no JSON), UW_ERR_INVALID (not a model), UW_ERR_TOOBIG,
 * UW_ERR_NOMEM, err filled. Shapes are checked later, by uw_model_measure. */
int uw_model_parse(struct uw_model_file *m, const char *file, const char *text, size_t text_bytes,
                   struct uw_error *err);

/* Read a built-in model by name, or a model file. Also returns UW_ERR_NOTFOUND, UW_ERR_DENIED,
 * UW_ERR_IO. */
int uw_model_load(struct uw_model_file *m, const char *name_or_file, struct uw_error *err);

/* Write a definition as JSON, one line a layer: what uw_model_parse reads back.
 *
 *   text  [text_bytes] gets as much as fits, NUL-terminated; may be NULL when text_bytes is 0
 *
 * Keys at their default are left out. Returns the length of the whole text, whether it fitted or
 * not, or UW_ERR_INVALID (a kind that no model file has). */
int uw_model_write(const struct uw_model_def *def, char *text, size_t text_bytes);

/* Release everything; safe on a zeroed struct, after a failed load, and twice. */
void uw_model_file_deinit(struct uw_model_file *m);

#endif
