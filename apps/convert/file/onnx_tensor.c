/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor's elements come from raw bytes, from a list of numbers, or from another file. Floats and
 * int64 stay where they are; other types are widened to one of the two. */
#include "onnx_reader.h"

#include "uwasa/half.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REFUSE uw_onnx_refuse_tensor
#define ELEMENTS_MAX ((uint64_t)1 << 40)

/* By ONNX's number: size in bytes, 0 for a type that is not read; and its name. */
static const struct {
    uint8_t bytes;
    bool is_float;
    const char *name;
} types[] = {
    [0] = {0, false, "undefined"},
    [UW_ONNX_FLOAT] = {4, true, "float"},
    [UW_ONNX_UINT8] = {1, false, "uint8"},
    [UW_ONNX_INT8] = {1, false, "int8"},
    [UW_ONNX_UINT16] = {2, false, "uint16"},
    [UW_ONNX_INT16] = {2, false, "int16"},
    [UW_ONNX_INT32] = {4, false, "int32"},
    [UW_ONNX_INT64] = {8, false, "int64"},
    [8] = {0, false, "string"},
    [UW_ONNX_BOOL] = {1, false, "bool"},
    [UW_ONNX_FLOAT16] = {2, true, "float16"},
    [UW_ONNX_DOUBLE] = {8, true, "double"},
    [UW_ONNX_UINT32] = {4, false, "uint32"},
    [UW_ONNX_UINT64] = {8, false, "uint64"},
    [14] = {0, false, "complex64"},
    [15] = {0, false, "complex128"},
    [UW_ONNX_BFLOAT16] = {2, true, "bfloat16"},
};
#define TYPES_N ((int32_t)(sizeof types / sizeof types[0]))

void uw_onnx_expect_tensor(uw_onnx_Tensor *pb, struct uw_onnx_tensor_fields *t,
                           struct uw_onnx_reader *r)
{
    *pb = (uw_onnx_Tensor)uw_onnx_Tensor_init_zero;
    *t = (struct uw_onnx_tensor_fields){.r = r, .dims = {.r = r}, .ints = {.r = r},
                                        .floats = {.r = r}, .name = {.r = r},
                                        .external = {.r = r}};
    pb->dims = UW_ONNX_CALL(uw_onnx_take_integer, &t->dims);
    pb->int32_data = UW_ONNX_CALL(uw_onnx_take_integer, &t->ints);
    pb->int64_data = UW_ONNX_CALL(uw_onnx_take_integer, &t->ints);
    pb->uint64_data = UW_ONNX_CALL(uw_onnx_take_integer, &t->ints);
    pb->float_data = UW_ONNX_CALL(uw_onnx_take_float, &t->floats);
    pb->double_data = UW_ONNX_CALL(uw_onnx_take_double, &t->floats);
    pb->name = UW_ONNX_CALL(uw_onnx_take_text, &t->name);
    pb->external_data = UW_ONNX_CALL(uw_onnx_take_entry, &t->external);
    pb->raw_data = UW_ONNX_CALL(uw_onnx_take_raw, t);
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

void uw_onnx_set_strides(struct uw_onnx_tensor *t)
{
    int64_t stride = uw_onnx_tensor_size(t) != 0 ? 1 : 0; /* empty: strides could overflow */
    for (uint32_t a = t->rank; a-- > 0;) {
        t->stride[a] = stride;
        stride *= (int64_t)t->dim[a];
    }
}

bool uw_onnx_refuse_tensor(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out,
                           int code, const char *format, ...)
{
    const char *name = uw_onnx_last_text(&t->name);
    char text[UW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    out->name = name;
    out->refused = uw_pool_format(t->r->pool, "%.60s: tensor %.60s: %s", t->r->file,
                                  name[0] != '\0' ? name : "of a Constant", text);
    out->code = code;
    return out->refused != NULL || uw_onnx_fail(t->r, UW_ERR_NOMEM);
}

static int64_t raw_integer(const uint8_t *p, int32_t type)
{
    uint64_t v = 0;
    for (size_t i = 0; i < types[type].bytes; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    switch (type) {
    case UW_ONNX_INT8:
        return (int8_t)(uint8_t)v;
    case UW_ONNX_INT16:
        return (int16_t)(uint16_t)v;
    case UW_ONNX_INT32:
        return (int32_t)(uint32_t)v;
    default:
        return (int64_t)v;
    }
}

static float raw_float(const uint8_t *p, int32_t type)
{
    double d;
    float f;
    switch (type) {
    case UW_ONNX_DOUBLE:
        memcpy(&d, p, sizeof d);
        return (float)d;
    case UW_ONNX_FLOAT16:
        return uw_float_of_half((uint16_t)(p[0] | p[1] << 8));
    case UW_ONNX_BFLOAT16:
        return uw_float_of_bfloat((uint16_t)(p[0] | p[1] << 8));
    default:
        memcpy(&f, p, sizeof f);
        return f;
    }
}

/* Point to the elements in raw bytes; types other than float and int64 are converted. */
static bool take_raw(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out,
                     const uint8_t *raw, int32_t type)
{
    uint64_t n = out->stored_n;
    if (type == UW_ONNX_FLOAT || type == UW_ONNX_INT64 || type == UW_ONNX_UINT64) {
        out->data = raw;
        return true;
    }
    float *f = out->is_float ? uw_pool_take(t->r->pool, n, sizeof *f) : NULL;
    int64_t *v = out->is_float ? NULL : uw_pool_take(t->r->pool, n, sizeof *v);
    for (uint64_t i = 0; (f != NULL || v != NULL) && i < n; i++) {
        const uint8_t *p = raw + i * types[type].bytes;
        if (f != NULL) {
            f[i] = raw_float(p, type);
        } else {
            v[i] = raw_integer(p, type);
        }
    }
    out->data = f != NULL ? (const uint8_t *)f : (const uint8_t *)v;
    return out->data != NULL || uw_onnx_fail(t->r, UW_ERR_NOMEM);
}

/* Point to the elements in the lists of numbers. Those of half precision are bits. */
static bool take_list(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out,
                      int32_t type)
{
    bool bits = type == UW_ONNX_FLOAT16 || type == UW_ONNX_BFLOAT16;
    const struct uw_onnx_list *l = out->is_float && !bits ? &t->floats : &t->ints;
    if (l->n != out->stored_n) {
        return REFUSE(t, out, UW_ERR_CORRUPT, "has %u elements, its shape needs %" PRIu64,
                      (unsigned)l->n, out->stored_n);
    }
    out->data = l->item;
    if (!bits) {
        return true;
    }
    const int64_t *from = l->item;
    float *f = uw_pool_take(t->r->pool, out->stored_n, sizeof *f);
    for (uint64_t i = 0; f != NULL && i < out->stored_n; i++) {
        uint16_t word = (uint16_t)from[i];
        f[i] = type == UW_ONNX_FLOAT16 ? uw_float_of_half(word) : uw_float_of_bfloat(word);
    }
    out->data = (const uint8_t *)f;
    return f != NULL || uw_onnx_fail(t->r, UW_ERR_NOMEM);
}

static const char *external_value(const struct uw_onnx_tensor_fields *t, const char *key)
{
    const struct uw_convert_entry *entry = t->external.item;
    for (uint32_t i = 0; i < t->external.n; i++) {
        if (strcmp(entry[i].key, key) == 0) {
            return entry[i].value;
        }
    }
    return NULL;
}

/* A decimal number of external data; absent: the fallback. */
static bool external_number(const struct uw_onnx_tensor_fields *t, const char *key,
                            uint64_t fallback, uint64_t *out)
{
    const char *text = external_value(t, key);
    *out = text != NULL ? 0 : fallback;
    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || *out > (UINT64_MAX - 9) / 10) {
            return false;
        }
        *out = *out * 10 + (uint64_t)(*p - '0');
    }
    return text == NULL || text[0] != '\0';
}

/* Whether the path stays in the folder that it starts in. */
static bool stays_inside(const char *path)
{
    bool begins = true; /* a part of the path */
    if (path[0] == '\0' || path[0] == '/' || strchr(path, '\\') != NULL ||
        strchr(path, ':') != NULL) {
        return false;
    }
    for (const char *p = path; *p != '\0'; p++) {
        if (begins && p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0')) {
            return false;
        }
        begins = *p == '/';
    }
    return true;
}

static bool take_external(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out,
                          int32_t type)
{
    struct uw_storage *files = t->r->files;
    const char *path = external_value(t, "location");
    uint64_t bytes = out->stored_n * types[type].bytes;
    uint64_t offset, length, have = 0;
    if (path == NULL || !external_number(t, "offset", 0, &offset) ||
        !external_number(t, "length", bytes, &length)) {
        return REFUSE(t, out, UW_ERR_CORRUPT, "its external data has no location, or an offset or "
                      "length that is no number");
    }
    if (!stays_inside(path)) {
        return REFUSE(t, out, UW_ERR_UNSUPPORTED, "its data lies in '%.60s', outside the model's "
                      "folder: only files in that folder are read", path);
    }
    if (length != bytes) {
        return REFUSE(t, out, UW_ERR_CORRUPT, "has %" PRIu64 " bytes in '%.60s', its shape needs "
                      "%" PRIu64, length, path, bytes);
    }
    if (files == NULL) {
        return REFUSE(t, out, UW_ERR_UNSUPPORTED, "lies in another file, '%.60s' (external data), "
                      "which only a model that is read from a file can have", path);
    }
    int rc = files->ops->size(files, path, &have);
    if (rc < 0) {
        return REFUSE(t, out, rc, "its data lies in '%.60s': %s; keep that file in the model's "
                      "folder", path, rc == UW_ERR_NOTFOUND ? "no such file" : uw_status_text(rc));
    }
    if (offset > have || length > have - offset) {
        return REFUSE(t, out, UW_ERR_CORRUPT, "'%.60s' has %" PRIu64 " bytes, its data lies at "
                      "%" PRIu64 " to %" PRIu64 ": that file is cut off, or another model's", path,
                      have, offset, offset + length);
    }
    uint8_t *raw = uw_pool_take(t->r->pool, bytes, 1);
    if (raw == NULL) {
        return uw_onnx_fail(t->r, UW_ERR_NOMEM);
    }
    rc = bytes > 0 ? files->ops->read(files, path, offset, raw, (size_t)bytes) : UW_OK;
    return rc < 0 ? REFUSE(t, out, rc, "'%.60s' cannot be read: %s", path, uw_status_text(rc))
                  : take_raw(t, out, raw, type);
}

/* Set shape and strides. Returns false when the tensor is refused, or out of memory. */
static bool take_dims(const struct uw_onnx_tensor_fields *t, struct uw_onnx_tensor *out)
{
    const int64_t *dims = t->dims.item;
    if (t->dims.n > UW_ONNX_RANK_MAX) {
        REFUSE(t, out, UW_ERR_UNSUPPORTED, "has more than 8 axes");
        return false;
    }
    out->rank = t->dims.n;
    for (uint32_t i = 0; i < out->rank; i++) {
        if (dims[i] < 0) {
            REFUSE(t, out, UW_ERR_CORRUPT, "has a negative size");
            return false;
        }
        out->dim[i] = (uint64_t)dims[i];
    }
    out->stored_n = uw_onnx_tensor_size(out);
    if (out->stored_n > ELEMENTS_MAX) {
        REFUSE(t, out, UW_ERR_CORRUPT, "is too large");
        return false;
    }
    uw_onnx_set_strides(out);
    return true;
}

bool uw_onnx_finish_tensor(const struct uw_onnx_tensor_fields *t, const uw_onnx_Tensor *pb,
                           struct uw_onnx_tensor *out)
{
    int32_t type = pb->data_type;
    *out = (struct uw_onnx_tensor){.name = uw_onnx_last_text(&t->name)};
    if (type < 0 || type >= TYPES_N || types[type].bytes == 0) {
        return type >= 0 && type < TYPES_N
                   ? REFUSE(t, out, UW_ERR_UNSUPPORTED, "its element type %s is not read: floats "
                            "and integers of 8 to 64 bits are", types[type].name)
                   : REFUSE(t, out, UW_ERR_UNSUPPORTED, "its element type, number %d, is not read: "
                            "floats of 16 to 64 bits and integers of 8 to 64 bits are", (int)type);
    }
    if (!take_dims(t, out)) {
        return t->r->rc == UW_OK;
    }
    out->is_float = types[type].is_float;
    if (pb->data_location != 0 || t->external.n > 0) {
        return take_external(t, out, type);
    }
    if (!t->has_raw) {
        return take_list(t, out, type);
    }
    uint64_t bytes = out->stored_n * types[type].bytes;
    return t->raw_n == bytes
               ? take_raw(t, out, t->raw, type)
               : REFUSE(t, out, UW_ERR_CORRUPT, "has %" PRIu64 " bytes, its shape needs %" PRIu64,
                        t->raw_n, bytes);
}
