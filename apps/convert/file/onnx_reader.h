/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_reader.h - what the decoders of a file share while it is read (private)
 *
 * nanopb calls back for each field that repeats; lists collect the elements.
 *
 * Memory     a pool      Blocking  as uw_onnx_read      Context  any thread
 */
#ifndef UWASA_CONVERT_ONNX_READER_H
#define UWASA_CONVERT_ONNX_READER_H

#include "onnx_read.h"
#include "uwasa/convert.h"

#include "onnx.pb.h"

#include <pb_decode.h>

struct uw_onnx_reader;

/* The elements of a repeated field. */
struct uw_onnx_list {
    struct uw_onnx_reader *r;
    void *item;
    uint32_t n, cap;
};

struct uw_onnx_reader {
    struct uw_pool *pool;
    const char *file;
    struct uw_storage *files;
    struct uw_error *err;
    struct uw_onnx_list functions;
    const char *folded_batchnorm;   /* as struct uw_onnx_graph */
    uint32_t depth;                 /* of nested graphs */
    int rc;
};

/* One tensor while it is read. */
struct uw_onnx_tensor_fields {
    struct uw_onnx_reader *r;
    struct uw_onnx_list name, dims, ints, floats, external;
    const uint8_t *raw;
    uint64_t raw_n;
    bool has_raw;
};

#define UW_ONNX_CALL(function, argument) ((pb_callback_t){{.decode = (function)}, (argument)})

/* Record an error, unless there is one already. Returns false, for nanopb. */
bool uw_onnx_fail(struct uw_onnx_reader *r, int code);

/* Callbacks; the argument is the list that gets the element. */
bool uw_onnx_take_text(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_take_integer(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_take_float(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_take_double(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool uw_onnx_take_entry(pb_istream_t *stream, const pb_field_t *field, void **arg);

/* The argument is a struct uw_onnx_tensor_fields. */
bool uw_onnx_take_raw(pb_istream_t *stream, const pb_field_t *field, void **arg);

/* The last text of a list; "" without any. */
const char *uw_onnx_last_text(const struct uw_onnx_list *l);

/* onnx_tensor.c: prepare to decode a tensor; when it is decoded, check and convert it. What cannot
 * be read becomes out->refused. Returns false when out of memory. */
void uw_onnx_expect_tensor(uw_onnx_Tensor *pb, struct uw_onnx_tensor_fields *t,
                           struct uw_onnx_reader *r);
bool uw_onnx_finish_tensor(const struct uw_onnx_tensor_fields *t, const uw_onnx_Tensor *pb,
                           struct uw_onnx_tensor *out);

/* Mark a tensor as one that cannot be read, with a sentence about it. Returns false only when out
 * of memory. */
bool uw_onnx_refuse_tensor(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out,
                           int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* What a file notes of a value; NULL: nothing. */
struct uw_onnx_note {
    const char *name;
    const char *kind;               /* what it is in the program: "PARAMETER" */
    const char *folded_from;        /* as struct uw_onnx_tensor */
};

/* onnx_notes.c: give the constants the roles that the notes and the graph's metadata tell. Returns
 * UW_OK or UW_ERR_NOMEM. */
int uw_onnx_set_roles(struct uw_onnx_graph *g, struct uw_pool *pool,
                      const struct uw_onnx_list *notes, const struct uw_onnx_list *metadata);

/* onnx_upgrade.c: bring nodes of that opset to the form of newer ones. Returns UW_OK, or
 * UW_ERR_NOMEM. */
int uw_onnx_upgrade(struct uw_pool *pool, struct uw_onnx_node **node, uint32_t *nodes_n,
                    int64_t opset);

/* onnx_inline.c: replace calls of functions by their nodes. Returns UW_OK, UW_ERR_TOOBIG,
 * UW_ERR_NOMEM. */
int uw_onnx_inline(struct uw_pool *pool, struct uw_onnx_graph *g,
                   const struct uw_onnx_function *functions, uint32_t functions_n);

/* onnx_ends.c: leave out outputs that are the class of samples (integers or texts), if there are
 * others, and nodes that only they need; end in the softmax what makes maps of it, or pairs of a
 * sigmoid. Nodes are in order. Returns UW_OK or UW_ERR_NOMEM. */
int uw_onnx_ends(struct uw_pool *pool, struct uw_onnx_graph *g);

/* onnx_sort.c: put nodes behind those whose outputs they read; nodes in order stay where they are.
 * Returns UW_OK, UW_ERR_CORRUPT with *at a node of a cycle, UW_ERR_NOMEM. */
int uw_onnx_sort(struct uw_pool *pool, struct uw_onnx_graph *g, const struct uw_onnx_node **at);

#endif
