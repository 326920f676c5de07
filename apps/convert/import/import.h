/* SPDX-License-Identifier: Apache-2.0
 *
 * import.h - convert an ONNX graph to a table of layers (private)
 *
 * Each node is visited once, in the file's order. A value is a constant (computed at once), data (a
 * view of a layer's output), a list of those, or opaque: the output of a node that is no layers. If
 * an opaque value reaches the output, the import fails with the sentence of the node it came from.
 * Layers that compute something faster together are joined afterwards, in fuse/.
 *
 * Reshape, Transpose and similar nodes cost nothing: a data value is a strided view, and a
 * transpose or reshape layer is added only if a consumer needs another order or shape.
 *
 * Memory     a pool      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_H
#define UWASA_CONVERT_IMPORT_H

#include "file/names.h"
#include "file/onnx_read.h"

#include "uwasa/convert.h"

#define UW_ATOMS_MAX 16u
#define UW_PARAMS_MAX 4u

/* Stands for a minibatch of unknown size in shapes; a prime, so it can be found in products. */
#define UW_BATCH_SYMBOL 1000003u

/* A factor of an axis: `size` steps of `stride` floats within the sample, or the minibatch. */
struct uw_atom {
    uint64_t size, stride;
    bool batch;
};

/* A layer's output seen as an ONNX tensor. Axis a is made of the atoms from axis_end[a - 1] up to
 * axis_end[a]; none: size 1. */
struct uw_view {
    uint32_t layer;                 /* 0: the model's input; i + 1: layer i */
    uint64_t n;                     /* floats of a sample */
    uint32_t rank;                  /* shape of the sample as the layer has it */
    uint64_t dim[UW_AXES_MAX];
    uint32_t atoms_n, axes_n;
    struct uw_atom atom[UW_ATOMS_MAX];
    uint32_t axis_end[UW_ONNX_RANK_MAX];
};

enum uw_value_kind { UW_VALUE_OPAQUE = 0, UW_VALUE_CONST, UW_VALUE_DATA, UW_VALUE_LIST };

struct uw_value {
    const char *name;
    enum uw_value_kind kind;
    const struct uw_onnx_node *node;    /* whose output it is; NULL: none */
    uint32_t users_n;
    const struct uw_onnx_node *reader;  /* the first of the users; NULL: none */
    const char *why;                /* opaque: the sentence */
    int code;
    struct uw_onnx_tensor t;        /* constant */
    struct uw_view view;            /* data */
    bool whole, truth;              /* data: of whole numbers; of 0 and 1 */
    const struct uw_onnx_node *rounds;  /* data: the Cast that should round it; NULL: none */
    bool derived;                   /* constant: computed from parameters */
    struct uw_value *as_value;      /* constant: computed as a value, once; NULL: not yet */
    struct uw_value *item;          /* list: [items_n] */
    uint32_t items_n;
};

struct uw_import_param {
    const char *suffix;             /* NULL: the layer has no such tensor */
    uint32_t rank, dim[4];
    float *data;
    const char *source;             /* its name in the file, if it has the same shape; or NULL */
    enum uw_onnx_role role;
    const char *folded_from;        /* as struct uw_onnx_tensor, if it is computed; or NULL */
    const char *origin;             /* the file's tensor whose elements it has, in order; or NULL */
    struct uw_convert_part torch[UW_CONVERT_PARTS_MAX];
    uint32_t torch_n;               /* as struct uw_convert_tensor; rows 0: all */
};

struct uw_import_layer {
    struct uw_layer_def def;        /* inputs and name are filled in at the end */
    uint32_t input[UW_LAYER_INPUTS_MAX];    /* as uw_view.layer */
    uint32_t inputs_n;
    uint32_t rank;                  /* of the output */
    uint64_t dim[UW_AXES_MAX];
    struct uw_import_param param[UW_PARAMS_MAX];
    const struct uw_onnx_node *node;
    const char *own_name;           /* name of its weights; NULL: unknown */
    const char *torch_module;       /* of a recurrent layer, "net."; NULL: unknown */
    const struct uw_onnx_tensor *made_of;   /* parameter: the constant */
    bool needed;
};

struct uw_import {
    struct uw_pool *pool;
    struct uw_onnx_graph graph;
    const char *file;
    const struct uw_convert_options *options;
    struct uw_convert_model *out;
    struct uw_error *err;
    struct uw_names values;         /* struct uw_value by name */
    struct uw_import_layer **layer;
    uint32_t layers_n, layers_cap;  /* layers_n is the newest one's number, as uw_view.layer */
    const char *notes[UW_CONVERT_NOTES_MAX];
    uint32_t notes_n;
    uint64_t folded_n, folded_max;  /* elements of computed constants, and their limit */
    uint64_t batch;                 /* size of the minibatch axis in the file, or the symbol */
    struct uw_value *input;
    struct uw_onnx_node inputs_node;    /* stands for layers that cut the inputs */
};

/* import_node.c: inputs and outputs of a node */

/* Fill err with "FILE: node 'NAME' (OP): sentence". Returns code. */
int uw_import_refuse(struct uw_import *im, const struct uw_onnx_node *n, int code,
                     const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* Out of memory. Returns UW_ERR_NOMEM. */
int uw_import_nomem(struct uw_import *im);

/* Keep a sentence for the user; the same one once. */
void uw_import_note(struct uw_import *im, const char *text);

/* Find a value by name; NULL: not so far. */
struct uw_value *uw_import_value(struct uw_import *im, const char *name);

/* Input `i` of a node; NULL when it is left out. */
struct uw_value *uw_import_in(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i);

/* Output `i`, to be filled; NULL when it is left out. */
struct uw_value *uw_import_out(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i);

/* Input `i` as data, also where it is a constant of floats; NULL with err set. */
struct uw_value *uw_import_data(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i);

/* Input `i` as a constant; NULL with err set. */
const struct uw_onnx_tensor *uw_import_const(struct uw_import *im, const struct uw_onnx_node *n,
                                             uint32_t i);

/* A constant as a value in any case; NULL with err set. */
struct uw_value *uw_import_make_value(struct uw_import *im, struct uw_value *v);

/* Input `i`, a value or a constant that may stay one; NULL with err set. */
const struct uw_value *uw_import_any(struct uw_import *im, const struct uw_onnx_node *n,
                                     uint32_t i);

/* Whether an input is opaque; if so, err has its sentence. */
bool uw_import_opaque_input(struct uw_import *im, const struct uw_onnx_node *n);

/* Make the node's outputs opaque, with the reason why it is no layer, and continue. Returns UW_OK,
 * or a code if out of memory. */
int uw_import_opaque(struct uw_import *im, const struct uw_onnx_node *n, int code,
                     const char *why);

/* import_const.c */

/* If all inputs of the node are constants, compute its result.
 * Returns 1 (done), 0 (not constant), or a code. */
int uw_import_fold(struct uw_import *im, const struct uw_onnx_node *n);

/* Element i (row-major) of a constant. */
double uw_import_number(const struct uw_onnx_tensor *t, uint64_t i);
int64_t uw_import_integer(const struct uw_onnx_tensor *t, uint64_t i);

/* Whether v is a constant of one element; sets *value. */
bool uw_import_scalar(const struct uw_value *v, double *value);

/* The integers of an attribute (older opsets) or of input `i`, at most UW_ONNX_RANK_MAX.
 * Returns their number, INT_MIN when neither is given, or a code with err set. */
int uw_import_ints(struct uw_import *im, const struct uw_onnx_node *n, const char *attribute,
                   uint32_t i, int64_t *out);

/* The error with which reading a list failed; if none, UW_ERR_INVALID with "needs WHAT". */
int uw_import_lacks(struct uw_import *im, const struct uw_onnx_node *n, const char *what);

/* Read the axes of the attribute or input 1, as bits, for a tensor of `rank` axes; insert: for the
 * tensor with these axes inserted (Unsqueeze). Returns their number, INT_MIN if none are given, or
 * a code with err set. */
int uw_import_axes(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank, bool insert,
                   uint32_t *marked);

/* What a Slice cuts; axes_n and steps_n below 0: not given. */
struct uw_import_cuts {
    int64_t start[UW_ONNX_RANK_MAX], end[UW_ONNX_RANK_MAX];
    int64_t axes[UW_ONNX_RANK_MAX], step[UW_ONNX_RANK_MAX];
    int axes_n, steps_n;
};

/* Returns the number of cuts, or a code with err set. */
int uw_import_cuts(struct uw_import *im, const struct uw_onnx_node *n, struct uw_import_cuts *c);

/* The perm of a Transpose as order[0 .. rank-1]. Returns UW_OK or UW_ERR_SHAPE, err set. */
int uw_import_order_of(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank,
                       uint32_t *order);

/* out = x where the condition c is `keep`, else 0, broadcast. Returns UW_OK or a code. */
int uw_const_masked(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *c, const struct uw_onnx_tensor *x, bool keep,
                    struct uw_onnx_tensor *out);

/* Row-major floats of a constant, a copy; NULL with err set. */
float *uw_import_floats(struct uw_import *im, const struct uw_onnx_tensor *t);

/* Compute the new shape of a tensor by Reshape's rules: 0 keeps a size, -1 is the rest.
 * Returns UW_OK or UW_ERR_SHAPE. */
int uw_import_reshape_dims(struct uw_import *im, const struct uw_onnx_node *n,
                           const uint64_t *have, uint32_t have_n, const int64_t *want,
                           uint32_t want_n, uint64_t *out);

/* import_view.c */

uint64_t uw_view_dim(const struct uw_view *v, uint32_t axis);

/* Make v, but for its layer, a sample of these axes in order; `batch`, if it is one of them, is the
 * minibatch. */
void uw_view_start(struct uw_view *v, const uint64_t *dims, uint32_t axes_n, uint32_t batch);

/* The sizes of all axes. */
void uw_view_dims(const struct uw_view *v, uint64_t dims[UW_ONNX_RANK_MAX]);

/* Axis number as ONNX counts (negative: from the end). Returns it, or -1 with err set. */
int uw_view_axis(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v,
                 int64_t axis);

/* Cut a row-major view anew. Returns false when the axes do not fit; v is then as it was. */
bool uw_view_reshape(struct uw_view *v, const uint64_t *dims, uint32_t axes_n);

void uw_view_permute(struct uw_view *v, const uint32_t *order);

/* Axis `from` becomes axis `to`; the others keep their order. */
void uw_view_move(struct uw_view *v, uint32_t from, uint32_t to);
bool uw_view_insert(struct uw_view *v, uint32_t axis);
bool uw_view_remove(struct uw_view *v, uint32_t axis);

/* Whether the value is the same for all samples: no axis is the minibatch. */
bool uw_view_is_shared(const struct uw_view *v);

/* Does the axis hold the minibatch, and nothing else? */
bool uw_view_is_batch(const struct uw_view *v, uint32_t axis);
bool uw_view_has_batch(const struct uw_view *v, uint32_t axis);

/* Whether the sample is stored in the order of the view. */
bool uw_view_ordered(const struct uw_view *v);

/* import_emit.c */

/* Add a layer that reads `input` and has its shape; NULL with err set. */
struct uw_import_layer *uw_import_emit(struct uw_import *im, const struct uw_onnx_node *n,
                                       enum uw_layer_kind kind, uint32_t input);

/* Mark the layers that these outputs need, and no others. */
void uw_import_need(struct uw_import *im, const uint32_t *outputs, uint32_t outputs_n);
void uw_import_sizes(struct uw_import_layer *l, uint32_t rank, const uint64_t *dim);
void uw_import_dims(struct uw_import_layer *l, uint32_t rank, uint64_t d0, uint64_t d1,
                    uint64_t d2);

/* Make output `i` of the node the newest layer's output, with the file's shape `dims`, whose axis
 * `batch` is the minibatch. */
int uw_import_result(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i,
                     const uint64_t *dims, uint32_t axes_n, uint32_t batch);

/* The same for any value; NULL: nothing to do. */
int uw_import_show(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y,
                   const uint64_t *dims, uint32_t axes_n, uint32_t batch);

/* Make output 0, if present, the newest layer's output, seen as `v`. */
void uw_import_same(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v);

/* Whether the elements follow each other as in the file. */
bool uw_import_in_order(const struct uw_onnx_tensor *t);

/* Give a layer a parameter: the constant's elements under the given shape.
 *   t   NULL: `fill` everywhere
 * The layer is named after the constant if that has a name. */
int uw_import_param(struct uw_import *im, struct uw_import_layer *l, uint32_t slot,
                    const char *suffix, const struct uw_onnx_tensor *t, float fill, uint32_t rank,
                    const uint64_t *dim);

/* Name of the module that a tensor called "fc.weight" belongs to; NULL: none. */
const char *uw_import_module(struct uw_pool *pool, const char *tensor);

/* Put the sample in the order of the view; may add a transpose layer. */
int uw_import_order(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v);

/* v becomes the newest layer's output, stored in order. */
void uw_import_set_ordered(struct uw_import *im, struct uw_view *v);

/* Give an ordered sample a shape of rank 1 to 4; may add a reshape layer. */
int uw_import_shape(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                    uint32_t rank, const uint64_t *dim);

/* Bring a view into standard form: minibatch first and only there, stored in order, with its own
 * shape. Axes beyond `rank` are merged into the last. */
int uw_import_arrange(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t rank);

#endif
