/* SPDX-License-Identifier: Apache-2.0
 *
 * nanopb reads from a stream over the file's bytes, so raw tensor data is referenced by address and
 * skipped. */
#include "onnx_read.h"

#include "onnx.pb.h"

#include <pb_decode.h>

#include <string.h>

struct reader;

/* The elements of a repeated field. */
struct list {
    struct reader *r;
    void *item;
    uint32_t n, cap;
};

struct reader {
    struct uw_pool *pool;
    const char *file;
    struct uw_error *err;
    struct list nodes, initializers, inputs, outputs;
    int64_t opset;
    int rc;
};

/* One tensor while it is read. */
struct tensor_fields {
    struct reader *r;
    struct list name, dims, ints, floats;
    const uint8_t *raw;
    uint64_t raw_n;
    bool has_raw;
};

#define CALL(function, argument) ((pb_callback_t){{.decode = (function)}, (argument)})

static bool read_memory(pb_istream_t *stream, pb_byte_t *buf, size_t count)
{
    const uint8_t **at = stream->state;
    if (buf != NULL) {
        memcpy(buf, *at, count);
    }
    *at += count;
    return true;
}

/* Record an error, unless there is one already. Returns false, for nanopb. */
static bool refuse(struct reader *r, int code)
{
    r->rc = r->rc < 0 ? r->rc : code;
    return false;
}

/* Room for one element more; NULL: out of memory. */
static void *append(struct list *l, size_t element_bytes)
{
    l->item = uw_pool_grow(l->r->pool, l->item, l->n, &l->cap, element_bytes);
    if (l->item == NULL) {
        refuse(l->r, UW_ERR_NOMEM);
        return NULL;
    }
    return (uint8_t *)l->item + element_bytes * l->n++;
}

/* Get the bytes of a length-delimited field without copying them. */
static bool borrow(pb_istream_t *stream, const uint8_t **bytes, uint64_t *n)
{
    if (stream->callback != read_memory) {
        return false; /* the field came with another wire type */
    }
    const uint8_t **at = stream->state;
    *bytes = *at;
    *n = stream->bytes_left;
    *at += stream->bytes_left;
    stream->bytes_left = 0;
    return true;
}

static bool read_text(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct list *l = *arg;
    const uint8_t *bytes;
    uint64_t n;
    (void)field;
    if (!borrow(stream, &bytes, &n)) {
        return false;
    }
    const char **text = append(l, sizeof *text);
    if (text == NULL) {
        return false;
    }
    *text = uw_pool_text(l->r->pool, bytes, (size_t)n);
    return *text != NULL || refuse(l->r, UW_ERR_NOMEM);
}

/* The last one; "" without any. */
static const char *last_text(const struct list *l)
{
    const char *const *text = l->item;
    return l->n > 0 ? text[l->n - 1] : "";
}

/* Append a number that is decoded as `read_type` and kept as `kept_type`. */
#define READ_NUMBER(name, decode, read_type, kept_type)                                       \
    static bool name(pb_istream_t *stream, const pb_field_t *field, void **arg)               \
    {                                                                                         \
        read_type value;                                                                      \
        (void)field;                                                                          \
        kept_type *to = decode(stream, &value) ? append(*arg, sizeof *to) : NULL;             \
        if (to != NULL) {                                                                     \
            *to = (kept_type)value;                                                           \
        }                                                                                     \
        return to != NULL;                                                                    \
    }
READ_NUMBER(read_integer, pb_decode_varint, uint64_t, int64_t)
READ_NUMBER(read_float, pb_decode_fixed32, float, float)
READ_NUMBER(read_double, pb_decode_fixed64, double, float)

static bool read_raw(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct tensor_fields *t = *arg;
    (void)field;
    t->has_raw = true;
    return borrow(stream, &t->raw, &t->raw_n);
}

static void expect_tensor(uw_onnx_Tensor *pb, struct tensor_fields *t, struct reader *r)
{
    *pb = (uw_onnx_Tensor)uw_onnx_Tensor_init_zero;
    *t = (struct tensor_fields){.r = r, .dims = {.r = r}, .ints = {.r = r}, .floats = {.r = r},
                               .name = {.r = r}};
    pb->dims = CALL(read_integer, &t->dims);
    pb->int32_data = CALL(read_integer, &t->ints);
    pb->int64_data = CALL(read_integer, &t->ints);
    pb->float_data = CALL(read_float, &t->floats);
    pb->double_data = CALL(read_double, &t->floats);
    pb->name = CALL(read_text, &t->name);
    pb->raw_data = CALL(read_raw, t);
}

uint64_t uw_onnx_tensor_size(const struct uw_onnx_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] != 0 && n > (UINT64_MAX >> 2) / t->dim[i]) {
            return UINT64_MAX;
        }
        n *= t->dim[i];
    }
    return n;
}

static size_t type_bytes(int32_t type)
{
    static const uint8_t bytes[] = {
        [UW_ONNX_FLOAT] = 4, [UW_ONNX_UINT8] = 1, [UW_ONNX_INT8] = 1,  [UW_ONNX_INT32] = 4,
        [UW_ONNX_INT64] = 8, [UW_ONNX_BOOL] = 1,  [UW_ONNX_DOUBLE] = 8};
    return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}

static int64_t raw_integer(const uint8_t *p, int32_t type)
{
    uint64_t v = 0;
    size_t bytes = type_bytes(type);
    for (size_t i = 0; i < bytes; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    if (type == UW_ONNX_INT32) {
        return (int32_t)(uint32_t)v;
    }
    return type == UW_ONNX_INT8 ? (int8_t)(uint8_t)v : (int64_t)v;
}

/* Convert raw data of other types to int64 or float. */
static bool widen(struct reader *r, struct uw_onnx_tensor *out, const uint8_t *raw,
                  uint64_t n, int32_t type)
{
    size_t bytes = type_bytes(type);
    if (out->is_float) {
        float *f = uw_pool_take(r->pool, n, sizeof *f);
        for (uint64_t i = 0; f != NULL && i < n; i++) {
            double d;
            memcpy(&d, raw + i * bytes, sizeof d);
            f[i] = (float)d;
        }
        out->data = (const uint8_t *)f;
    } else {
        int64_t *v = uw_pool_take(r->pool, n, sizeof *v);
        for (uint64_t i = 0; v != NULL && i < n; i++) {
            v[i] = raw_integer(raw + i * bytes, type);
        }
        out->data = (const uint8_t *)v;
    }
    return out->data != NULL || refuse(r, UW_ERR_NOMEM);
}

static bool refuse_tensor(const struct tensor_fields *t, int code, const char *what)
{
    const char *name = last_text(&t->name);
    t->r->rc = uw_error_set(t->r->err, code, "%.60s: tensor %.80s: %s", t->r->file,
                            name[0] != '\0' ? name : "of a Constant", what);
    return false;
}

void uw_onnx_set_strides(struct uw_onnx_tensor *t)
{
    int64_t stride = uw_onnx_tensor_size(t) != 0 ? 1 : 0; /* empty: strides could overflow */
    for (uint32_t a = t->rank; a-- > 0;) {
        t->stride[a] = stride;
        stride *= (int64_t)t->dim[a];
    }
}

static bool finish_dims(const struct tensor_fields *t, struct uw_onnx_tensor *out)
{
    const int64_t *dims = t->dims.item;
    if (t->dims.n > UW_ONNX_RANK_MAX) {
        return refuse_tensor(t, UW_ERR_UNSUPPORTED, "has more than 8 axes");
    }
    out->rank = t->dims.n;
    for (uint32_t i = 0; i < out->rank; i++) {
        if (dims[i] < 0) {
            return refuse_tensor(t, UW_ERR_CORRUPT, "has a negative size");
        }
        out->dim[i] = (uint64_t)dims[i];
    }
    out->stored_n = uw_onnx_tensor_size(out);
    if (out->stored_n > (uint64_t)1 << 40) {
        return refuse_tensor(t, UW_ERR_CORRUPT, "is too large");
    }
    uw_onnx_set_strides(out);
    return true;
}

static bool finish_tensor(const struct tensor_fields *t, const uw_onnx_Tensor *pb,
                          struct uw_onnx_tensor *out)
{
    size_t bytes = type_bytes(pb->data_type);
    bool plain = pb->data_type == UW_ONNX_FLOAT || pb->data_type == UW_ONNX_INT64;

    *out = (struct uw_onnx_tensor){.name = last_text(&t->name)};
    if (pb->data_location != 0) {
        return refuse_tensor(t, UW_ERR_UNSUPPORTED, "lies in another file (external data): export "
                             "the model into one file");
    }
    if (bytes == 0) {
        return refuse_tensor(t, UW_ERR_UNSUPPORTED, "its element type is none of float, double, "
                             "int64, int32, int8, bool");
    }
    if (!finish_dims(t, out)) {
        return false;
    }
    out->is_float = pb->data_type == UW_ONNX_FLOAT || pb->data_type == UW_ONNX_DOUBLE;
    uint64_t have = t->has_raw ? t->raw_n : out->is_float ? t->floats.n : t->ints.n;
    if (have != out->stored_n * (t->has_raw ? bytes : 1)) {
        return refuse_tensor(t, UW_ERR_CORRUPT, "holds more or less than its shape says");
    }
    if (t->has_raw && !plain) {
        return widen(t->r, out, t->raw, out->stored_n, pb->data_type);
    }
    out->data = t->has_raw ? t->raw : out->is_float ? t->floats.item : t->ints.item;
    return true;
}

static bool read_initializer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct list *l = *arg;
    uw_onnx_Tensor pb;
    struct tensor_fields t;
    (void)field;

    expect_tensor(&pb, &t, l->r);
    if (!pb_decode(stream, uw_onnx_Tensor_fields, &pb)) {
        return false;
    }
    struct uw_onnx_tensor *out = append(l, sizeof *out);
    return out != NULL && finish_tensor(&t, &pb, out);
}

static bool read_attribute(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct list *l = *arg;
    struct reader *r = l->r;
    uw_onnx_Attribute pb = uw_onnx_Attribute_init_zero;
    struct tensor_fields t;
    struct list name = {.r = r}, s = {.r = r}, strings = {.r = r};
    struct list floats = {.r = r}, ints = {.r = r};
    (void)field;

    expect_tensor(&pb.t, &t, r);
    pb.name = CALL(read_text, &name);
    pb.s = CALL(read_text, &s);
    pb.strings = CALL(read_text, &strings);
    pb.floats = CALL(read_float, &floats);
    pb.ints = CALL(read_integer, &ints);
    if (!pb_decode_ex(stream, uw_onnx_Attribute_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_attribute *a = append(l, sizeof *a);
    if (a == NULL) {
        return false;
    }
    *a = (struct uw_onnx_attribute){.name = last_text(&name), .f = pb.f, .i = pb.i,
                                    .s = last_text(&s), .ints = ints.item, .ints_n = ints.n,
                                    .floats = floats.item, .floats_n = floats.n,
                                    .strings = strings.item, .strings_n = strings.n};
    if (pb.has_t) {
        a->t = uw_pool_take(r->pool, 1, sizeof *a->t);
        return a->t != NULL ? finish_tensor(&t, &pb.t, a->t)
                            : refuse(r, UW_ERR_NOMEM);
    }
    return true;
}

static bool read_node(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct list *l = *arg;
    struct reader *r = l->r;
    uw_onnx_Node pb = uw_onnx_Node_init_zero;
    struct list in = {.r = r}, out = {.r = r}, name = {.r = r}, op = {.r = r}, domain = {.r = r};
    struct list attributes = {.r = r};
    (void)field;

    pb.input = CALL(read_text, &in);
    pb.output = CALL(read_text, &out);
    pb.name = CALL(read_text, &name);
    pb.op_type = CALL(read_text, &op);
    pb.domain = CALL(read_text, &domain);
    pb.attribute = CALL(read_attribute, &attributes);
    if (!pb_decode_ex(stream, uw_onnx_Node_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_node *node = append(l, sizeof *node);
    if (node != NULL) {
        *node = (struct uw_onnx_node){
            .name = last_text(&name), .op = last_text(&op), .domain = last_text(&domain),
            .input = in.item, .inputs_n = in.n, .output = out.item, .outputs_n = out.n,
            .attribute = attributes.item, .attributes_n = attributes.n};
    }
    return node != NULL;
}

static bool read_dimension(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_value_info *v = *arg;
    uw_onnx_Dimension pb = uw_onnx_Dimension_init_zero;
    (void)field;
    if (!pb_decode(stream, uw_onnx_Dimension_fields, &pb)) {
        return false;
    }
    if (v->rank < UW_ONNX_RANK_MAX) {
        v->dim[v->rank] = pb.dim_value > 0 ? pb.dim_value : 0;
    }
    v->rank += v->rank <= UW_ONNX_RANK_MAX ? 1 : 0;
    return true;
}

static bool read_value_info(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct list *l = *arg;
    uw_onnx_ValueInfo pb = uw_onnx_ValueInfo_init_zero;
    struct list name = {.r = l->r};
    struct uw_onnx_value_info *out = append(l, sizeof *out);
    (void)field;

    if (out == NULL) {
        return false;
    }
    *out = (struct uw_onnx_value_info){.name = ""};
    pb.name = CALL(read_text, &name);
    pb.type.tensor_type.shape.dim = CALL(read_dimension, out);
    if (!pb_decode_ex(stream, uw_onnx_ValueInfo_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    out->name = last_text(&name);
    out->shaped = pb.has_type && pb.type.has_tensor_type && pb.type.tensor_type.has_shape;
    return true;
}

static bool read_opset(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct reader *r = *arg;
    uw_onnx_OperatorSet pb = uw_onnx_OperatorSet_init_zero;
    struct list domain = {.r = r};
    (void)field;
    pb.domain = CALL(read_text, &domain);
    if (!pb_decode_ex(stream, uw_onnx_OperatorSet_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    const char *name = last_text(&domain);
    if (name[0] == '\0' || strcmp(name, "ai.onnx") == 0) {
        r->opset = pb.version;
    }
    return true;
}

int uw_onnx_read(struct uw_onnx_graph *g, struct uw_pool *pool, const char *file,
                 const void *bytes, size_t bytes_n, struct uw_error *err)
{
    struct reader r = {.pool = pool, .file = file, .err = err, .nodes = {.r = &r},
                       .initializers = {.r = &r}, .inputs = {.r = &r}, .outputs = {.r = &r}};
    const uint8_t *at = bytes;
    pb_istream_t stream = {
        .callback = read_memory, .state = &at, .bytes_left = bytes_n};
    uw_onnx_Model pb = uw_onnx_Model_init_zero;

    pb.opset_import = CALL(read_opset, &r);
    pb.graph.node = CALL(read_node, &r.nodes);
    pb.graph.initializer = CALL(read_initializer, &r.initializers);
    pb.graph.input = CALL(read_value_info, &r.inputs);
    pb.graph.output = CALL(read_value_info, &r.outputs);
    if (!pb_decode_ex(&stream, uw_onnx_Model_fields, &pb, PB_DECODE_NOINIT)) {
        if (r.rc == UW_ERR_NOMEM) {
            return uw_error_set(err, UW_ERR_NOMEM, "%.60s: out of memory", file);
        }
        return r.rc < 0 ? r.rc
                        : uw_error_set(err, UW_ERR_CORRUPT,
                                       "%.60s: no ONNX file, or cut off: %.40s near byte %zu", file,
                                       PB_GET_ERROR(&stream),
                                       (size_t)(at - (const uint8_t *)bytes));
    }
    *g = (struct uw_onnx_graph){
        .opset = r.opset, .node = r.nodes.item, .nodes_n = r.nodes.n,
        .initializer = r.initializers.item, .initializers_n = r.initializers.n,
        .input = r.inputs.item, .inputs_n = r.inputs.n, .output = r.outputs.item,
        .outputs_n = r.outputs.n};
    if (!pb.has_graph || g->nodes_n == 0 || g->outputs_n == 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.60s: no ONNX file: it has no graph", file);
    }
    if (g->opset < UW_ONNX_OPSET_MIN || g->opset > UW_ONNX_OPSET_MAX) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.60s: opset %lld: export with opset_version=%d to %d", file,
                            (long long)g->opset, UW_ONNX_OPSET_MIN, UW_ONNX_OPSET_MAX);
    }
    return UW_OK;
}

const struct uw_onnx_attribute *uw_onnx_attribute(const struct uw_onnx_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->attributes_n; i++) {
        if (strcmp(n->attribute[i].name, name) == 0) {
            return &n->attribute[i];
        }
    }
    return NULL;
}

int64_t uw_onnx_int(const struct uw_onnx_node *n, const char *name, int64_t fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->i : fallback;
}

float uw_onnx_float(const struct uw_onnx_node *n, const char *name, float fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->f : fallback;
}

const char *uw_onnx_text(const struct uw_onnx_node *n, const char *name, const char *fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->s : fallback;
}
