/* SPDX-License-Identifier: Apache-2.0
 *
 * nanopb reads from a stream that remembers where in the file's bytes it stands, so that raw
 * tensor data is found by address and skipped. */
#include "onnx_parts.h"

#include <string.h>

bool uw_onnx_read_memory(pb_istream_t *stream, pb_byte_t *buf, size_t count)
{
    struct uw_onnx_cursor *c = stream->state;
    if (buf != NULL) {
        memcpy(buf, c->at, count);
    }
    c->at += count;
    return true;
}

bool uw_onnx_refuse(struct uw_onnx_reader *r, int code)
{
    r->rc = r->rc < 0 ? r->rc : code;
    return false;
}

/* The bytes of a length-delimited field, left where they are. */
static bool borrow(pb_istream_t *stream, const uint8_t **bytes, uint64_t *n)
{
    if (stream->callback != uw_onnx_read_memory) {
        return false; /* the field came with another wire type */
    }
    struct uw_onnx_cursor *c = stream->state;
    *bytes = c->at;
    *n = stream->bytes_left;
    c->at += stream->bytes_left;
    stream->bytes_left = 0;
    return true;
}

bool uw_onnx_read_text(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_texts *t = *arg;
    const uint8_t *bytes;
    uint64_t n;
    (void)field;
    if (!borrow(stream, &bytes, &n)) {
        return false;
    }
    t->item = uw_pool_grow(t->r->pool, (void *)t->item, t->n, &t->cap, sizeof *t->item);
    char *text = t->item != NULL ? uw_pool_text(t->r->pool, bytes, (size_t)n) : NULL;
    if (text == NULL) {
        return uw_onnx_refuse(t->r, UW_ERR_NOMEM);
    }
    t->item[t->n++] = text;
    return true;
}

const char *uw_onnx_last_text(const struct uw_onnx_texts *t)
{
    return t->n > 0 ? t->item[t->n - 1] : "";
}

static bool keep_integer(struct uw_onnx_integers *t, int64_t value)
{
    t->item = uw_pool_grow(t->r->pool, t->item, t->n, &t->cap, sizeof *t->item);
    if (t->item == NULL) {
        return uw_onnx_refuse(t->r, UW_ERR_NOMEM);
    }
    t->item[t->n++] = value;
    return true;
}

bool uw_onnx_read_integer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    uint64_t value;
    (void)field;
    return pb_decode_varint(stream, &value) && keep_integer(*arg, (int64_t)value);
}

static bool keep_float(struct uw_onnx_floats *t, float value)
{
    t->item = uw_pool_grow(t->r->pool, t->item, t->n, &t->cap, sizeof *t->item);
    if (t->item == NULL) {
        return uw_onnx_refuse(t->r, UW_ERR_NOMEM);
    }
    t->item[t->n++] = value;
    return true;
}

bool uw_onnx_read_float(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    float value;
    (void)field;
    return pb_decode_fixed32(stream, &value) && keep_float(*arg, value);
}

static bool read_double(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    double value;
    (void)field;
    return pb_decode_fixed64(stream, &value) && keep_float(*arg, (float)value);
}

static bool read_raw(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_parts *t = *arg;
    (void)field;
    t->has_raw = true;
    return borrow(stream, &t->raw, &t->raw_n);
}

static bool read_tensor_name(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_parts *t = *arg;
    const uint8_t *bytes;
    uint64_t n;
    (void)field;
    if (!borrow(stream, &bytes, &n)) {
        return false;
    }
    t->name = uw_pool_text(t->r->pool, bytes, (size_t)n);
    return t->name != NULL || uw_onnx_refuse(t->r, UW_ERR_NOMEM);
}

void uw_onnx_expect_tensor(uw_onnx_Tensor *pb, struct uw_onnx_parts *t, struct uw_onnx_reader *r)
{
    *pb = (uw_onnx_Tensor)uw_onnx_Tensor_init_zero;
    *t = (struct uw_onnx_parts){.r = r, .dims = {.r = r}, .ints = {.r = r}, .floats = {.r = r},
                               .name = ""};
    pb->dims = (pb_callback_t){{.decode = uw_onnx_read_integer}, &t->dims};
    pb->int32_data = (pb_callback_t){{.decode = uw_onnx_read_integer}, &t->ints};
    pb->int64_data = (pb_callback_t){{.decode = uw_onnx_read_integer}, &t->ints};
    pb->float_data = (pb_callback_t){{.decode = uw_onnx_read_float}, &t->floats};
    pb->double_data = (pb_callback_t){{.decode = read_double}, &t->floats};
    pb->name = (pb_callback_t){{.decode = read_tensor_name}, t};
    pb->raw_data = (pb_callback_t){{.decode = read_raw}, t};
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
    switch (type) {
    case UW_ONNX_FLOAT:
    case UW_ONNX_INT32:
        return 4;
    case UW_ONNX_INT64:
    case UW_ONNX_DOUBLE:
        return 8;
    case UW_ONNX_UINT8:
    case UW_ONNX_INT8:
    case UW_ONNX_BOOL:
        return 1;
    default:
        return 0;
    }
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

/* Raw data of other types becomes int64 or float. */
static bool widen(struct uw_onnx_reader *r, struct uw_onnx_tensor *out, const uint8_t *raw,
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
    return out->data != NULL || uw_onnx_refuse(r, UW_ERR_NOMEM);
}

static bool fault(struct uw_onnx_reader *r, int code, const char *name, const char *what)
{
    r->rc = uw_error_set(r->err, code, "%.60s: tensor %.80s: %s", r->file,
                         name[0] != '\0' ? name : "of a Constant", what);
    return false;
}

static bool finish_dims(struct uw_onnx_reader *r, const struct uw_onnx_parts *t,
                        struct uw_onnx_tensor *out)
{
    int64_t stride;
    if (t->dims.n > UW_ONNX_RANK_MAX) {
        return fault(r, UW_ERR_UNSUPPORTED, t->name, "has more than 8 axes");
    }
    out->rank = t->dims.n;
    for (uint32_t i = 0; i < out->rank; i++) {
        if (t->dims.item[i] < 0) {
            return fault(r, UW_ERR_CORRUPT, t->name, "has a negative size");
        }
        out->dim[i] = (uint64_t)t->dims.item[i];
    }
    out->stored_n = uw_onnx_tensor_size(out);
    if (out->stored_n > (uint64_t)1 << 40) {
        return fault(r, UW_ERR_CORRUPT, t->name, "is too large");
    }
    stride = out->stored_n != 0 ? 1 : 0; /* of nothing, sizes may be anything */
    for (uint32_t i = out->rank; i-- > 0;) {
        out->stride[i] = stride;
        stride *= (int64_t)out->dim[i];
    }
    return true;
}

bool uw_onnx_finish_tensor(struct uw_onnx_reader *r, const uw_onnx_Tensor *pb,
                           const struct uw_onnx_parts *t, struct uw_onnx_tensor *out)
{
    size_t bytes = type_bytes(pb->data_type);
    bool plain = pb->data_type == UW_ONNX_FLOAT || pb->data_type == UW_ONNX_INT64;

    *out = (struct uw_onnx_tensor){.name = t->name};
    if (pb->data_location != 0) {
        return fault(r, UW_ERR_UNSUPPORTED, t->name,
                     "lies in another file (external data): export the model into one file");
    }
    if (bytes == 0) {
        return fault(r, UW_ERR_UNSUPPORTED, t->name,
                     "its element type is none of float, double, int64, int32, int8, bool");
    }
    if (!finish_dims(r, t, out)) {
        return false;
    }
    out->is_float = pb->data_type == UW_ONNX_FLOAT || pb->data_type == UW_ONNX_DOUBLE;
    uint64_t have = t->has_raw ? t->raw_n : out->is_float ? t->floats.n : t->ints.n;
    if (have != out->stored_n * (t->has_raw ? bytes : 1)) {
        return fault(r, UW_ERR_CORRUPT, t->name, "holds more or less than its shape says");
    }
    if (t->has_raw && !plain) {
        return widen(r, out, t->raw, out->stored_n, pb->data_type);
    }
    out->data = t->has_raw      ? t->raw
                : out->is_float ? (const uint8_t *)t->floats.item
                                : (const uint8_t *)t->ints.item;
    return true;
}
