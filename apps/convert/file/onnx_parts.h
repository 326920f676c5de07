/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_parts.h - fields and tensors while they are read (private to onnx_read.c, onnx_tensor.c)
 */
#ifndef UWASA_CONVERT_ONNX_PARTS_H
#define UWASA_CONVERT_ONNX_PARTS_H

#include "onnx_read.h"

#include "onnx.pb.h"

#include <pb_decode.h>

/* Where the stream stands. */
struct uw_onnx_cursor {
    const uint8_t *at;
};

struct uw_onnx_reader {
    struct uw_pool *pool;
    struct uw_onnx_graph *graph;
    const char *file;
    struct uw_error *err;
    uint32_t nodes_cap, initializers_cap, inputs_cap, outputs_cap;
    int rc;
};

struct uw_onnx_texts {
    struct uw_onnx_reader *r;
    const char **item;
    uint32_t n, cap;
};

struct uw_onnx_integers {
    struct uw_onnx_reader *r;
    int64_t *item;
    uint32_t n, cap;
};

struct uw_onnx_floats {
    struct uw_onnx_reader *r;
    float *item;
    uint32_t n, cap;
};

/* One tensor while it is read. */
struct uw_onnx_parts {
    struct uw_onnx_reader *r;
    struct uw_onnx_integers dims, ints;
    struct uw_onnx_floats floats;
    const char *name;
    const uint8_t *raw;
    uint64_t raw_n;
    bool has_raw;
};

/* Stream over memory that remembers where it stands. */
bool uw_onnx_read_memory(pb_istream_t *stream, pb_byte_t *buf, size_t count);

/* Keep the first reason why. Returns false, for nanopb. */
bool uw_onnx_refuse(struct uw_onnx_reader *r, int code);

/* Callbacks of nanopb; *arg is struct uw_onnx_texts, uw_onnx_integers, uw_onnx_floats. */
bool uw_onnx_read_text(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_read_integer(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_read_float(pb_istream_t *stream, const pb_field_t *field, void **arg);

/* The last of them; "" without any. */
const char *uw_onnx_last_text(const struct uw_onnx_texts *t);

/* Before a Tensor is decoded into pb, and after. */
void uw_onnx_expect_tensor(uw_onnx_Tensor *pb, struct uw_onnx_parts *t, struct uw_onnx_reader *r);
bool uw_onnx_finish_tensor(struct uw_onnx_reader *r, const uw_onnx_Tensor *pb,
                           const struct uw_onnx_parts *t, struct uw_onnx_tensor *out);

#endif
