/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_read.h - decode the bytes of an ONNX file into nodes, attributes and constants (private)
 *
 * Decodes the file only, without the meaning of operators. Tensors are not copied: raw data stays
 * in the file's bytes, which must outlive the graph.
 *
 * Memory     a pool      Blocking  never      Context  any thread
 * Source     ONNX's protobuf encoding, opset 11 to 17
 */
#ifndef UWASA_CONVERT_ONNX_READ_H
#define UWASA_CONVERT_ONNX_READ_H

#include "pool.h"

#include "uwasa/status.h"

#include <stdbool.h>

#define UW_ONNX_RANK_MAX 8u
#define UW_ONNX_OPSET_MIN 11
#define UW_ONNX_OPSET_MAX 17

/* ONNX's numbers of the element types that can be read. */
enum uw_onnx_type {
    UW_ONNX_FLOAT = 1,
    UW_ONNX_UINT8 = 2,
    UW_ONNX_INT8 = 3,
    UW_ONNX_INT32 = 6,
    UW_ONNX_INT64 = 7,
    UW_ONNX_BOOL = 9,
    UW_ONNX_DOUBLE = 11
};

/* A constant with strides in elements; stride 0 repeats an element. Elements are float or int64, at
 * any alignment. */
struct uw_onnx_tensor {
    const char *name;               /* of the initializer; "" if it has none */
    bool is_float;
    uint32_t rank;
    uint64_t dim[UW_ONNX_RANK_MAX];
    int64_t stride[UW_ONNX_RANK_MAX];
    const uint8_t *data;            /* of element 0 */
    uint64_t stored_n;              /* elements that exist in memory */
};

struct uw_onnx_attribute {
    const char *name;
    float f;
    int64_t i;
    const char *s;
    struct uw_onnx_tensor *t;       /* NULL: none */
    const int64_t *ints;
    uint32_t ints_n;
    const float *floats;
    uint32_t floats_n;
    uint32_t strings_n;
    const char **strings;
};

struct uw_onnx_node {
    const char *name, *op, *domain;
    const char **input;             /* "" where an optional one is left out */
    const char **output;
    struct uw_onnx_attribute *attribute;
    uint32_t inputs_n, outputs_n, attributes_n;
};

/* An input or output of the graph. */
struct uw_onnx_value_info {
    const char *name;
    bool shaped;
    uint32_t rank;                  /* UW_ONNX_RANK_MAX + 1 stands for any higher one */
    int64_t dim[UW_ONNX_RANK_MAX];  /* 0: symbolic */
};

struct uw_onnx_graph {
    int64_t opset;
    struct uw_onnx_node *node;
    struct uw_onnx_tensor *initializer;
    struct uw_onnx_value_info *input, *output;
    uint32_t nodes_n, initializers_n, inputs_n, outputs_n;
};

/* Read a file's bytes; `file` names it in messages.
 * Returns UW_OK, UW_ERR_CORRUPT (no ONNX, or cut off), UW_ERR_UNSUPPORTED (opset, element type,
 * external data, an operator domain that is not ONNX's), UW_ERR_NOMEM; err filled. */
int uw_onnx_read(struct uw_onnx_graph *g, struct uw_pool *pool, const char *file,
                 const void *bytes, size_t bytes_n, struct uw_error *err);

/* Attribute by name; NULL when it is not given. */
const struct uw_onnx_attribute *uw_onnx_attribute(const struct uw_onnx_node *n, const char *name);

/* Its integer, or the default. */
int64_t uw_onnx_int(const struct uw_onnx_node *n, const char *name, int64_t fallback);

/* Its float, or the default. */
float uw_onnx_float(const struct uw_onnx_node *n, const char *name, float fallback);

/* Its text, or the default. */
const char *uw_onnx_text(const struct uw_onnx_node *n, const char *name, const char *fallback);

/* Elements of a tensor; UINT64_MAX when they overflow. */
uint64_t uw_onnx_tensor_size(const struct uw_onnx_tensor *t);

/* Set its strides for row-major order. */
void uw_onnx_set_strides(struct uw_onnx_tensor *t);

#endif
