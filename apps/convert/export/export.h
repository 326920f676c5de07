/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - a trained model as an ONNX graph, before it is encoded (private)
 *
 * Memory     a pool; tensors borrow the model's parameters where they can
 */
#ifndef UWASA_CONVERT_EXPORT_H
#define UWASA_CONVERT_EXPORT_H

#include "file/names.h"
#include "file/pool.h"

#include "uwasa/convert.h"

#include <stdbool.h>

#define UW_EXPORT_INPUTS_MAX 8u
#define UW_EXPORT_ATTRIBUTES_MAX 8u
#define UW_EXPORT_INTS_MAX 8u

struct uw_export_attribute {
    const char *name;
    int32_t type;                   /* ONNX's number: 1 float, 2 int, 3 string, 7 ints */
    float f;
    int64_t i[UW_EXPORT_INTS_MAX];
    uint32_t n;
    const char *s;
};

struct uw_export_node {
    const char *op, *name;
    const char *input[UW_EXPORT_INPUTS_MAX];    /* "": left out */
    uint32_t inputs_n;
    const char *output[2];
    uint32_t outputs_n;
    struct uw_export_attribute attribute[UW_EXPORT_ATTRIBUTES_MAX];
    uint32_t attributes_n;
    struct uw_export_node *next;
};

struct uw_export_tensor {
    const char *name;
    const float *floats;            /* NULL: integers */
    const int64_t *integers;
    int64_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    uint64_t n;
    struct uw_export_tensor *next;
};

/* One shape of a sample. */
struct uw_export_shape {
    uint32_t rank;
    uint32_t dim[UW_AXES_MAX];
};

struct uw_export {
    const struct uw_model *m;
    const struct uw_convert_model *like;    /* the file that the model is from; NULL: none */
    struct uw_pool *pool;
    struct uw_error *err;
    struct uw_export_node *first, *last;
    struct uw_export_tensor *tensors, *tensors_last;
    struct uw_names sources;        /* by parameter: its name in that file */
    struct uw_names taken;          /* names of inputs, outputs (at: 1) and parameters */
    const char **value;             /* by layer: name of its output in the graph */
    const char *input;              /* name of the value that the first layers read */
    int64_t opset;                  /* a layer may raise it, as long as all nodes are valid then */
    uint32_t layer;                 /* the one being written */
    const struct uw_layer_def *def;
    const char *name;
    const char *x;                  /* its first input, and the shapes */
    struct uw_export_shape in, out;
    uint32_t parts;                 /* values named so far */
    bool failed;                    /* out of memory: checked once, at the end */
};

/* Append a node that reads `x` (and `y`, `z`, may be NULL) and writes a value with a new name.
 * Returns the node; its output is node->output[0]. Never NULL: after a failure a dummy node. */
struct uw_export_node *uw_export_node(struct uw_export *e, const char *op, const char *x,
                                      const char *y, const char *z);

/* The same for a node without attributes. Returns the name of its output. */
const char *uw_export_op(struct uw_export *e, const char *op, const char *x, const char *y);

/* Axis i of the result is axis order[i] of x. Returns its name. */
const char *uw_export_transpose(struct uw_export *e, const char *x, uint32_t rank,
                                const int64_t *order);

/* Elements start .. end-1 of an axis. Returns the name. */
const char *uw_export_slice(struct uw_export *e, const char *x, int64_t axis, int64_t start,
                            int64_t end);

/* Without an axis of size 1. Returns the name. */
const char *uw_export_squeeze(struct uw_export *e, const char *x, int64_t axis);

void uw_export_int(struct uw_export_node *n, const char *name, int64_t value);
void uw_export_float(struct uw_export_node *n, const char *name, float value);
void uw_export_text(struct uw_export_node *n, const char *name, const char *value);
void uw_export_ints(struct uw_export_node *n, const char *name, uint32_t count,
                    const int64_t *values);

/* A name of the graph that nothing else has, with e->name in it; "" after a failure. */
const char *uw_export_new_name(struct uw_export *e);

/* Constants under a new name. Returns the name. */
const char *uw_export_const_ints(struct uw_export *e, uint32_t count, const int64_t *values);
const char *uw_export_const_float(struct uw_export *e, float value);
const char *uw_export_const_floats(struct uw_export *e, const float *data, uint32_t rank,
                                   const int64_t *dim);
const char *uw_export_fill(struct uw_export *e, uint32_t count, float value);

/* The layer's parameter "<name>.<suffix>" as an initializer of that name; NULL: it has none. */
const char *uw_export_param(struct uw_export *e, const char *suffix);

/* Its segment; NULL: it has none. */
const struct uw_segment *uw_export_segment(struct uw_export *e, const char *suffix);

/* Find a layer by name among the first `before` layers; UINT32_MAX: none. */
uint32_t uw_export_find_layer(const struct uw_model_def *d, const char *name, uint32_t before);

/* The value that a layer reads under that name: an earlier layer's output, or "input". */
const char *uw_export_value(const struct uw_export *e, const char *name);

/* A Cast to ONNX's element type `to`. Returns the name. */
const char *uw_export_cast(struct uw_export *e, const char *x, int64_t to);

/* Reshape a value after its minibatch axis. Returns the name. */
const char *uw_export_reshape(struct uw_export *e, const char *x, uint32_t rank,
                              const int64_t *dim);

/* All nodes of e->layer. Returns the name of its output, or NULL with err set. */
const char *uw_export_layer(struct uw_export *e);

/* Nodes of the recurrent and attention layers. */
const char *uw_export_recurrent(struct uw_export *e);
const char *uw_export_attention(struct uw_export *e);

/* Nodes of the operators on tensors, export_tensor.c. */
const char *uw_export_function(struct uw_export *e);
const char *uw_export_parameter(struct uw_export *e);
const char *uw_export_arithmetic(struct uw_export *e);
const char *uw_export_products(struct uw_export *e);
const char *uw_export_reduce(struct uw_export *e);
const char *uw_export_softmax(struct uw_export *e);
const char *uw_export_take(struct uw_export *e);

/* Input k as a value for each sample, also where all samples share it. */
const char *uw_export_repeated(struct uw_export *e, uint32_t k);

/* x W^T + b over the last axis, for any rank. */
const char *uw_export_matmul(struct uw_export *e, const char *x, const char *weight,
                             const char *bias);

#endif
