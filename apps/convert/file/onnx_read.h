/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_read.h - decode the bytes of an ONNX file into nodes, attributes and constants (private)
 *
 * Decodes the file only, without the meaning of operators. What the graph says in several ways it
 * says in one afterwards: nodes are in an order in which each reads what earlier ones make, calls
 * of the model's own functions are replaced by their nodes, and operators of older opsets that keep
 * in attributes what newer ones take as inputs are given inputs.
 *
 * Tensors are not copied: raw data stays in the file's bytes, which must outlive the graph. Data in
 * other files is read.
 *
 * Memory     a pool      Blocking  reads the files of external data      Context  any thread
 * Source     ONNX's protobuf encoding, opset 7 to 28
 */
#ifndef UWASA_CONVERT_ONNX_READ_H
#define UWASA_CONVERT_ONNX_READ_H

#include "names.h"
#include "pool.h"

#include "uwasa/status.h"
#include "uwasa/storage.h"

#include <stdbool.h>

#define UW_ONNX_RANK_MAX 8u
#define UW_ONNX_OPSET_MIN 7
#define UW_ONNX_OPSET_MAX 28

/* ONNX's numbers of element types. */
enum uw_onnx_type {
    UW_ONNX_FLOAT = 1,
    UW_ONNX_UINT8 = 2,
    UW_ONNX_INT8 = 3,
    UW_ONNX_UINT16 = 4,
    UW_ONNX_INT16 = 5,
    UW_ONNX_INT32 = 6,
    UW_ONNX_INT64 = 7,
    UW_ONNX_BOOL = 9,
    UW_ONNX_FLOAT16 = 10,
    UW_ONNX_DOUBLE = 11,
    UW_ONNX_UINT32 = 12,
    UW_ONNX_UINT64 = 13,
    UW_ONNX_BFLOAT16 = 16
};

/* What the framework does with a constant. */
enum uw_onnx_role {
    UW_ONNX_ROLE_UNKNOWN = 0,       /* the file does not tell */
    UW_ONNX_ROLE_TRAINS,
    UW_ONNX_ROLE_FIXED
};

/* A constant with strides in elements; stride 0 repeats an element. Elements are float or int64, at
 * any alignment. */
struct uw_onnx_tensor {
    const char *name;               /* of the initializer; "" if it has none */
    const char *refused;            /* a sentence: it cannot be read; NULL: it can */
    int code;                       /* of the refusal */
    bool is_float;
    enum uw_onnx_role role;
    const char *folded_from;        /* names that PyTorch's exporter computed it from in advance,
                                       "['w', 'val_1']"; NULL: it did not, or does not tell */
    bool computed;                  /* of these some are parameters, and it is not only a moved
                                       one */
    bool apart;                     /* those who read it are modules of a list that begin alike */
    bool one;                       /* those who read it are the steps of a loop */
    uint32_t rank;
    uint64_t dim[UW_ONNX_RANK_MAX];
    int64_t stride[UW_ONNX_RANK_MAX];
    const uint8_t *data;            /* of element 0 */
    uint64_t stored_n;              /* elements that exist in memory */
    uint8_t *sized;                 /* computed: of each element, at the same strides, whether it
                                       depends on the minibatch's size; NULL: none does */
    int64_t rise;                   /* computed: data is of sample 0; elements of the next sample,
                                       along an axis of the minibatch's size, are greater by it */
    bool rise_first;                /* only the first element of the last axis is */
};

struct uw_onnx_graph;

struct uw_onnx_attribute {
    const char *name;
    const char *reference;          /* in a function: the call's attribute of that name; "": none */
    float f;
    int64_t i;
    const char *s;
    struct uw_onnx_tensor *t;       /* NULL: none */
    struct uw_onnx_graph *g;        /* NULL: none */
    const int64_t *ints;
    uint32_t ints_n;
    const float *floats;
    uint32_t floats_n;
    uint32_t strings_n;
    const char **strings;
};

struct uw_onnx_node {
    const char *name, *op, *domain, *overload;
    const char *refused;            /* a sentence: no form that is read; NULL: none */
    const char *module;             /* PyTorch's modules around it, "/t/layers.0" or "['', 't',
                                       't.layers.0'"; NULL: unknown */
    const char *rule;               /* the exporter's, which made it: names with commas; NULL */
    const char **input;             /* "" where an optional one is left out */
    const char **output;
    struct uw_onnx_attribute *attribute;
    uint32_t inputs_n, outputs_n, attributes_n;
};

/* An input or output of the graph. */
struct uw_onnx_value_info {
    const char *name;
    bool shaped;
    int32_t type;                   /* of its elements, enum uw_onnx_type; 0: unknown */
    uint32_t rank;                  /* UW_ONNX_RANK_MAX + 1 stands for any higher one */
    int64_t dim[UW_ONNX_RANK_MAX];  /* 0: symbolic */
    const char *symbol[UW_ONNX_RANK_MAX];   /* its name; NULL: none */
};

struct uw_onnx_graph {
    int64_t opset;                  /* of the file; 0 in a branch */
    const char *producer;           /* the exporter, "pytorch"; "": unknown, and in a branch */
    struct uw_onnx_node *node;
    struct uw_onnx_tensor *initializer;
    struct uw_onnx_value_info *input, *output;
    uint32_t nodes_n, initializers_n, inputs_n, outputs_n;
    const struct uw_convert_entry *entry;   /* of the whole model; in a branch none */
    uint32_t entries_n;
    const char *labels;             /* names of outputs that are left out, since they are classes
                                       beside values; NULL: none are */
    const char *folded_batchnorm;   /* how the file tells that an exporter folded batch norms into
                                       other layers; NULL: it does not */
    const char **parameter;         /* names of all parameters of the program, also of those that
                                       the file does not have; NULL: the file does not tell */
    uint32_t parameters_n;
    const struct uw_names *parameters;  /* the same; `at` 1: the file has it, or its elements, 2: it
                                           is there again as a bias of zeros */
};

/* A function of the model: nodes that a call stands for. */
struct uw_onnx_function {
    const char *name, *domain, *overload;
    const char **input, **output;
    struct uw_onnx_node *node;
    struct uw_onnx_attribute *fallback;     /* for attributes that a call leaves out */
    uint32_t inputs_n, outputs_n, nodes_n, fallbacks_n;
    int64_t opset;                  /* 0: the model's */
};

/* Read a file's bytes.
 *
 *   file   names it in messages
 *   files  has external data, as objects named relative to the file's folder; NULL: none
 *
 * A tensor or node that cannot be read is marked as refused: it may not be needed.
 * Returns UW_OK, UW_ERR_CORRUPT (no ONNX, cut off, or a cycle), UW_ERR_UNSUPPORTED (opset),
 * UW_ERR_TOOBIG (functions that call functions without end), UW_ERR_NOMEM; err filled. */
int uw_onnx_read(struct uw_onnx_graph *g, struct uw_pool *pool, const char *file,
                 const void *bytes, size_t bytes_n, struct uw_storage *files,
                 struct uw_error *err);

/* Attribute by name; NULL when it is not given. */
const struct uw_onnx_attribute *uw_onnx_attribute(const struct uw_onnx_node *n, const char *name);

/* Its integer, or the default. */
int64_t uw_onnx_int(const struct uw_onnx_node *n, const char *name, int64_t fallback);

/* Its float, or the default. */
float uw_onnx_float(const struct uw_onnx_node *n, const char *name, float fallback);

/* Its text, or the default. */
const char *uw_onnx_text(const struct uw_onnx_node *n, const char *name, const char *fallback);

/* onnx_notes.c: the i-th name of folded_from, in the pool. Returns UW_OK, UW_ERR_NOTFOUND (fewer
 * names), UW_ERR_NOMEM. */
int uw_onnx_folded_name(struct uw_pool *pool, const struct uw_onnx_tensor *t, uint32_t i,
                        const char **name);

/* Whether the program has a parameter of that name; false where the file does not tell. */
bool uw_onnx_is_parameter(const struct uw_onnx_graph *g, const char *name);

/* Elements of a tensor; UINT64_MAX when they overflow. */
uint64_t uw_onnx_tensor_size(const struct uw_onnx_tensor *t);

/* Set its strides for row-major order. */
void uw_onnx_set_strides(struct uw_onnx_tensor *t);

#endif
