/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/convert.h - models from ONNX, and trained models as ONNX or as C source
 *
 * Read:   uw_convert_load(&c, "model.onnx", &err);
 *         config.def = &c.def;                         plan and bind the model like any other
 *         uw_convert_apply(&c, &model, &err);          training begins with the file's weights
 *         uw_convert_deinit(&c);                       after the model, which uses c.def
 *
 * Write:  uw_convert_write_onnx(&model, put, arg, &err);
 *         uw_convert_write_onnx_like(&model, &c, put, arg, &err);  the same names as in the file
 *         uw_convert_write_c(&model, put, arg, &err);
 *
 * Reads what PyTorch exports with opset 7 to 28, in training or inference form. Layers that it
 * splits into several operators (layer norm, group norm, GELU, attention, response norm) become one
 * layer again, and shape arithmetic is computed. An operator that cannot be trained is an error,
 * which names it. A softmax at the end is left out, because training needs the logits;
 * uw_convert_write_onnx_like writes it again.
 *
 * Layout     as uwasa/layers.h
 * Memory     heap, limited only by the file's size      Blocking  reads one file
 * Context    any thread, one at a time for each struct
 * Source     ONNX operators (opset 7 to 28), https://onnx.ai
 */
#ifndef UWASA_CONVERT_H
#define UWASA_CONVERT_H

#include "uwasa/cplusplus.h"
#include "uwasa/model.h"
#include "uwasa/sound.h"
#include "uwasa/storage.h"

#include <stddef.h>

UW_C_BEGIN

#define UW_CONVERT_NOTES_MAX 16u
#define UW_CONVERT_RANK_MAX 8u
#define UW_CONVERT_PARTS_MAX 4u

/* What the file leaves open; zero: nothing is said. */
struct uw_convert_options {
    const char *output;             /* the output that is trained, or several, "a,b", whose losses
                                       the caller sets; NULL: the only one, or all as heads of the
                                       same classes */
    const char *shape;              /* sizes of the input's axes beside the minibatch, "seq=128", or
                                       all in order, "1,128,64" with or without the minibatch */
    const char *constant;           /* names of tensors of the file, or of layers as the model has
                                       them, that do not train, "mask,basis"; "all": every tensor
                                       that is no layer's weight; NULL: none is named */
    const char *trained;            /* likewise of those that train, without "all" */
    bool unfused;                   /* layers that could be joined into one stay apart: slower, the
                                       same up to rounding */
    struct uw_storage *files;       /* has the tensors that lie in other files, under their names
                                       relative to the model's folder; NULL: none */
};

/* A tensor of PyTorch's state_dict that lies in a parameter here: rows of it, in another shape. */
struct uw_convert_part {
    const char *name;               /* "lstm.weight_ih_l1" */
    uint32_t first, rows;           /* along axis 0 of the parameter */
    uint32_t rank;
    uint32_t dim[UW_CONVERT_RANK_MAX];  /* in PyTorch, as many elements as the rows have */
};

/* A parameter of an imported model, with its name in the runtime. */
struct uw_convert_tensor {
    const char *name;               /* "conv1.weight" */
    uint32_t rank;
    uint32_t dim[UW_SHAPE_RANK_MAX];
    const float *data;              /* row-major */
    const char *source;             /* its name in the file, where it had the same shape; or NULL */
    const struct uw_convert_part *torch;    /* [torch_n] of PyTorch's state_dict, as far as the file
                                               tells; two of the same rows are tied weights */
    uint32_t torch_n;               /* 0: its own name and shape */
    bool aside;                     /* a constant that the state_dict does not have */
};

/* An input or output as the file has it. */
struct uw_convert_end {
    const char *name;
    int32_t type;                   /* of its elements, ONNX's number: 1 is float; 0: unknown */
    uint32_t rank;                  /* axes, with the minibatch */
    uint32_t batch;                 /* the axis that is the minibatch */
    uint32_t dim[UW_CONVERT_RANK_MAX];  /* 0: a minibatch of any size */
    const char *symbol;             /* name of the minibatch; NULL: none */
    const char *left_out;           /* of an output: the operator at its end that is no layer here,
                                       "Softmax", "LogSoftmax" or "Sigmoid"; NULL: none */
    int64_t axis;                   /* of that operator */
};

/* What an ONNX file says about its model (metadata_props). Two keys mean what they mean in a file
 * of weights: UW_CONVERT_DATA, a text about the columns of the training data, which is the
 * caller's, and UW_CONVERT_THRESHOLD, that of anomalies, a decimal number. */
struct uw_convert_entry {
    const char *key, *value;
};

#define UW_CONVERT_DATA "uwasa.data"
#define UW_CONVERT_THRESHOLD "uwasa.anomaly_threshold"

/* What is kept with weights of their training data, for C source; zeros: nothing. */
struct uw_convert_kept {
    const char *const *classes;     /* [classes_n] names */
    uint32_t classes_n;
    const float *mean, *inverse;    /* [features_n] a sample is (number - mean) * inverse */
    uint32_t features_n;
    const float *target_mean, *target_inverse;  /* [targets_n] an output is (value - mean) *
                                                   inverse */
    uint32_t targets_n;
    const struct uw_sound_config *sound;    /* how features are made of sound */
};

struct uw_convert_model {
    struct uw_model_def def;
    const struct uw_convert_tensor *tensors;
    uint32_t tensors_n;
    struct uw_convert_end input, output[UW_LOSSES_MAX];     /* those that are trained */
    uint32_t outputs_n;
    const struct uw_convert_end *columns;       /* several inputs, whose values follow each other in
                                                   a row of `input`; NULL: there is one */
    uint32_t columns_n;
    const struct uw_convert_entry *entry;       /* [entries_n] */
    uint32_t entries_n;
    const char *notes[UW_CONVERT_NOTES_MAX];    /* sentences on what was left out or assumed */
    uint32_t notes_n;
    void *memory;                   /* private */
};

/* Read a model from the bytes of an ONNX file, which need not outlive the call.
 *
 *   name  the model's name, and the file's in messages; copied
 *
 * Returns UW_OK, UW_ERR_CORRUPT (not ONNX), UW_ERR_UNSUPPORTED (an operator, an option, opset or
 * element type; err names node and operator), UW_ERR_SHAPE, UW_ERR_INVALID, UW_ERR_TOOBIG,
 * UW_ERR_NOMEM; err filled, nothing to release. uw_model_measure checks the shapes again. */
int uw_convert_read(struct uw_convert_model *c, const void *bytes, size_t bytes_n,
                    const char *name, struct uw_error *err);

/* As uw_convert_read, with what the file leaves open; o NULL: nothing. */
int uw_convert_read_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const void *bytes, size_t bytes_n, const char *name,
                         struct uw_error *err);

/* As uw_convert_read, from a file. Tensors in other files of its folder are read, too. Also returns
 * UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_IO. */
int uw_convert_load(struct uw_convert_model *c, const char *path, struct uw_error *err);

/* As uw_convert_load, with what the file leaves open; o NULL: nothing. o->files is not used. */
int uw_convert_load_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const char *path, struct uw_error *err);

/* The value of a key that the file has; NULL: it has none. */
const char *uw_convert_entry(const struct uw_convert_model *c, const char *key);

/* Copy the imported parameters into a model that is bound to c->def, and to its device, and the
 * threshold of anomalies, if the file has one.
 * Returns UW_OK, UW_ERR_NOTFOUND (the file lacks a tensor), UW_ERR_MISMATCH (err names the tensor
 * and both shapes), UW_ERR_NONFINITE. The model is unchanged after an error. */
int uw_convert_apply(const struct uw_convert_model *c, struct uw_model *m, struct uw_error *err);

/* Release everything; safe on a zeroed struct, after a failed read, and twice. */
void uw_convert_deinit(struct uw_convert_model *c);

/* Supported operators, separated by blanks. Static storage. */
const char *uw_convert_operators(void);

/* Receives the next bytes of an output. Returns UW_OK, or an error, which ends the writing. */
typedef int (*uw_convert_put)(void *arg, const void *bytes, size_t bytes_n);

/* Write a bound model as ONNX, opset 13, in inference form: without dropout and auxiliary heads;
 * normalization uses its running statistics; the output is the input of the first loss. The size of
 * the minibatch is symbolic. Input "input", output "output"; weights keep their names.
 * Returns UW_OK, UW_ERR_TOOBIG (2 GB, the format's limit), UW_ERR_UNSUPPORTED (a kind of layer
 * without an ONNX form), UW_ERR_NOMEM, or what put returned. */
int uw_convert_write_onnx(const struct uw_model *m, uw_convert_put put, void *arg,
                          struct uw_error *err);

/* As uw_convert_write_onnx, for a model that was read from `like`: its input and outputs have the
 * names, types and axes that they had there, and end in the softmax or sigmoid that was left out;
 * parameters of the file's shape have the file's names.
 * The entries of `like` are written, and the model's threshold of anomalies.
 * `like` NULL or without outputs: the rest is as in uw_convert_write_onnx. */
int uw_convert_write_onnx_like(const struct uw_model *m, const struct uw_convert_model *like,
                               uw_convert_put put, void *arg, struct uw_error *err);

/* Write a bound model as C11 source: `const struct uw_model_def NAME_def` and `const struct
 * uw_constant NAME_constants[]`, all constant, so that it stays in flash. NAME is the model's name
 * with '_' for anything but letters and digits. Numbers are hexadecimal, which keeps their bits.
 * Returns UW_OK, UW_ERR_NONFINITE (err names the tensor), or what put returned. */
int uw_convert_write_c(const struct uw_model *m, uw_convert_put put, void *arg,
                       struct uw_error *err);

/* As uw_convert_write_c, with what is kept with the weights: `NAME_classes[]`, the names;
 * `NAME_scale(x)`, which brings a sample to the scale of the training data; `NAME_sound`, for
 * uw_sound_init. NAME_anomaly_threshold is that of the model, where it has one. The comment in
 * front declares what is there. kept NULL: nothing. */
int uw_convert_write_c_with(const struct uw_model *m, const struct uw_convert_kept *kept,
                            uw_convert_put put, void *arg, struct uw_error *err);

UW_C_END
#endif
