/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include "uwasa/status.h"

#include <pb.h>
#include <string.h>

#define WIRE_VARINT 0u
#define WIRE_FIXED64 1u
#define WIRE_BYTES 2u               /* texts, messages, arrays */
#define WIRE_FIXED32 5u
#define VARINT_BITS 70u             /* at most, of ten bytes */

static uint32_t kind_of(const struct uw_field *f)
{
    return f->kind & UW_FIELD_KINDS;
}

static bool is_array(const struct uw_field *f)
{
    return (f->kind & UW_FIELD_ARRAY) != 0;
}

/* Numbers one after the other, without a key each. */
static bool is_packed(const struct uw_field *f)
{
    return is_array(f) && kind_of(f) == UW_FIELD_FIXED;
}

/* Bytes of a number in its struct. */
static uint32_t bytes_of(const struct uw_field *f)
{
    return is_array(f) ? sizeof(uint32_t) : f->size;
}

static uint32_t wire_of(const struct uw_field *f)
{
    switch (kind_of(f)) {
    case UW_FIELD_FIXED:
        return bytes_of(f) == 8u ? WIRE_FIXED64 : WIRE_FIXED32;
    case UW_FIELD_TEXT:
    case UW_FIELD_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

/* A number in a struct: of 1, 4 or 8 bytes. */
static uint64_t load(const void *at, uint32_t bytes)
{
    uint64_t wide;
    uint32_t v;
    if (bytes == 1u) {
        return *(const uint8_t *)at;
    }
    if (bytes == 4u) {
        memcpy(&v, at, sizeof v);
        return v;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void store(void *at, uint32_t bytes, uint64_t wide)
{
    uint32_t v = (uint32_t)wide;
    if (bytes == 1u) {
        *(uint8_t *)at = (uint8_t)v;
    } else if (bytes == 4u) {
        memcpy(at, &v, sizeof v);
    } else {
        memcpy(at, &wide, sizeof wide);
    }
}

/* ---- writing ---- */

struct out {
    uint8_t *at;                    /* NULL: what comes does not fit */
    const uint8_t *end;
};

static void put(struct out *o, const void *bytes, uint32_t n)
{
    if (o->at == NULL || (size_t)(o->end - o->at) < n) {
        o->at = NULL;
        return;
    }
    memcpy(o->at, bytes, n);
    o->at += n;
}

static void put_varint(struct out *o, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 127u) | (v > 127u ? 128u : 0));
        put(o, &byte, 1);
        v >>= 7;
    } while (v != 0);
}

static void put_fixed(struct out *o, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(v >> 8u * i);
        put(o, &byte, 1);
    }
}

static void put_message(struct out *o, const struct uw_fields *t, const uint8_t *body);

/* Its size goes before it: what is longer than a byte tells moves up by one. */
static void put_inner(struct out *o, const struct uw_fields *t, const uint8_t *body)
{
    uint8_t *first = o->at;
    put_varint(o, 0);
    put_message(o, t, body);
    uint32_t n = o->at != NULL ? (uint32_t)(o->at - first) - 1u : 0;
    if (n > 127u) {
        put_varint(o, 0);           /* room */
    }
    if (o->at == NULL) {
        return;
    }
    if (n > 127u) {
        memmove(first + 2, first + 1, n);
    }
    struct out size = {first, o->end};
    put_varint(&size, n);
}

static void put_value(struct out *o, const struct uw_field *f, const struct uw_fields *t,
                      const uint8_t *at)
{
    uint32_t kind = kind_of(f);
    if (kind == UW_FIELD_MESSAGE) {
        put_inner(o, t, at);
    } else if (kind == UW_FIELD_TEXT) {
        uint32_t n = (uint32_t)strlen((const char *)at);
        put_varint(o, n);
        put(o, at, n);
    } else {
        uint64_t v = load(at, bytes_of(f));
        if (kind == UW_FIELD_FIXED) {
            put_fixed(o, v, bytes_of(f));
        } else if (kind == UW_FIELD_SIGNED) {
            put_varint(o, (uint32_t)v << 1 ^ (0u - ((uint32_t)v >> 31)));
        } else {
            put_varint(o, v);
        }
    }
}

static bool is_there(const struct uw_field *f, const uint8_t *at)
{
    return kind_of(f) == UW_FIELD_MESSAGE ? at[-(int)f->before] != 0
           : kind_of(f) == UW_FIELD_TEXT  ? at[0] != 0
                                          : load(at, f->size) != 0;
}

static void put_array(struct out *o, const struct uw_field *f, const struct uw_fields *t,
                      const uint8_t *at)
{
    pb_size_t n;
    memcpy(&n, at - f->before, sizeof n);
    uint32_t each = t != NULL ? t->bytes : bytes_of(f);
    if (is_packed(f) && n != 0) {
        put_varint(o, (uint32_t)f->number << 3 | WIRE_BYTES);
        put_varint(o, n * each);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!is_packed(f)) {
            put_varint(o, (uint32_t)f->number << 3 | WIRE_BYTES);
        }
        put_value(o, f, t, at + i * each);
    }
}

static void put_message(struct out *o, const struct uw_fields *t, const uint8_t *body)
{
    const struct uw_fields *const *messages = t->messages;
    for (const struct uw_field *f = t->fields; f < t->fields + t->fields_n; f++) {
        const struct uw_fields *inner = kind_of(f) == UW_FIELD_MESSAGE ? *messages++ : NULL;
        const uint8_t *at = body + f->offset;
        if (is_array(f)) {
            put_array(o, f, inner, at);
        } else if (is_there(f, at)) {
            put_varint(o, (uint32_t)f->number << 3 | wire_of(f));
            put_value(o, f, inner, at);
        }
    }
}

int uw_fields_write(const struct uw_fields *t, const void *body, uint8_t *buf, uint32_t cap_bytes)
{
    struct out o = {buf, buf + cap_bytes};
    put_message(&o, t, body);
    return o.at != NULL ? (int)(o.at - buf) : UW_ERR_TOOBIG;
}

int uw_fields_add(uint32_t number, const struct uw_fields *t, const void *body, uint8_t *buf,
                  uint32_t bytes, uint32_t cap_bytes)
{
    struct out o = {buf + bytes, buf + cap_bytes};
    put_varint(&o, number << 3 | WIRE_BYTES);
    put_inner(&o, t, body);
    return o.at != NULL ? (int)(o.at - buf) : UW_ERR_TOOBIG;
}

/* ---- reading ---- */

struct in {
    const uint8_t *at, *end;
};

static bool get_varint(struct in *in, uint64_t *v)
{
    *v = 0;
    for (uint32_t bits = 0; in->at < in->end && bits < VARINT_BITS; bits += 7u) {
        uint8_t byte = *in->at++;
        *v |= (uint64_t)(byte & 127u) << bits;
        if (byte < 128u) {
            return bits < 63u || byte < 2u;
        }
    }
    return false;
}

static bool get_fixed(struct in *in, uint32_t bytes, uint64_t *v)
{
    if ((size_t)(in->end - in->at) < bytes) {
        return false;
    }
    *v = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        *v |= (uint64_t)*in->at++ << 8u * i;
    }
    return true;
}

/* What has its size before it. */
static bool get_inner(struct in *in, struct in *inner)
{
    uint64_t n;
    if (!get_varint(in, &n) || n > (size_t)(in->end - in->at)) {
        return false;
    }
    *inner = (struct in){in->at, in->at + n};
    in->at = inner->end;
    return true;
}

static bool get_key(struct in *in, uint32_t *number, uint32_t *wire)
{
    uint64_t key;
    bool got = get_varint(in, &key) && key >> 3 != 0 && key <= UINT32_MAX;
    *number = (uint32_t)key >> 3;
    *wire = (uint32_t)key & 7u;
    return got;
}

static bool skip(struct in *in, uint32_t wire)
{
    uint64_t v;
    struct in inner;
    return wire == WIRE_VARINT ? get_varint(in, &v)
           : wire == WIRE_BYTES ? get_inner(in, &inner)
                                : (wire == WIRE_FIXED64 || wire == WIRE_FIXED32) &&
                                      get_fixed(in, wire == WIRE_FIXED64 ? 8u : 4u, &v);
}

static bool get_message(struct in *in, const struct uw_fields *t, uint8_t *body);

static bool get_value(struct in *in, const struct uw_field *f, const struct uw_fields *t,
                      uint8_t *at)
{
    uint32_t kind = kind_of(f), bytes = bytes_of(f);
    uint64_t v;
    if (wire_of(f) == WIRE_BYTES) {
        struct in inner;
        if (!get_inner(in, &inner)) {
            return false;
        }
        if (kind == UW_FIELD_MESSAGE) {
            return get_message(&inner, t, at);
        }
        size_t n = (size_t)(inner.end - inner.at);
        if (n >= bytes) {
            return false;
        }
        memcpy(at, inner.at, n);
        at[n] = '\0';
        return true;
    }
    if (kind == UW_FIELD_FIXED ? !get_fixed(in, bytes, &v) : !get_varint(in, &v)) {
        return false;
    }
    if (kind == UW_FIELD_BOOL) {
        v = v != 0;
    } else if (bytes < 8u && v >> 8u * bytes != 0) {
        return false;
    } else if (kind == UW_FIELD_SIGNED) {
        v = (uint32_t)v >> 1 ^ (0u - ((uint32_t)v & 1u));
    }
    store(at, bytes, v);
    return true;
}

/* The next element, or several of numbers. */
static bool get_array(struct in *in, const struct uw_field *f, const struct uw_fields *t,
                      uint32_t wire, uint8_t *at)
{
    pb_size_t n;
    uint32_t each = t != NULL ? t->bytes : bytes_of(f);
    struct in inner = *in;
    bool packed = is_packed(f) && wire == WIRE_BYTES, got = true;
    struct in *from = packed ? &inner : in;
    if (packed && !get_inner(in, &inner)) {
        return false;
    }
    memcpy(&n, at - f->before, sizeof n);
    while (got && (!packed || inner.at < inner.end)) {
        got = n < f->size;
        if (got) {
            memset(at + n * each, 0, each);
            got = get_value(from, f, t, at + n++ * each);
        }
        if (!packed) {
            break;
        }
    }
    memcpy(at - f->before, &n, sizeof n);
    return got;
}

static bool get_field(struct in *in, const struct uw_fields *t, uint32_t number, uint32_t wire,
                      uint8_t *body)
{
    const struct uw_fields *const *messages = t->messages;
    for (const struct uw_field *f = t->fields; f < t->fields + t->fields_n; f++) {
        const struct uw_fields *inner = kind_of(f) == UW_FIELD_MESSAGE ? *messages++ : NULL;
        uint8_t *at = body + f->offset;
        if (f->number != number) {
            continue;
        }
        if (wire != wire_of(f) && !(is_packed(f) && wire == WIRE_BYTES)) {
            return false;
        }
        if (is_array(f)) {
            return get_array(in, f, inner, wire, at);
        }
        if (inner != NULL) {
            at[-(int)f->before] = true;
        }
        return get_value(in, f, inner, at);
    }
    return skip(in, wire);
}

static bool get_message(struct in *in, const struct uw_fields *t, uint8_t *body)
{
    uint32_t number, wire;
    while (in->at < in->end) {
        if (!get_key(in, &number, &wire) || !get_field(in, t, number, wire, body)) {
            return false;
        }
    }
    return true;
}

int uw_fields_read(const struct uw_fields *t, const uint8_t *buf, uint32_t buf_bytes, void *body)
{
    struct in in = {buf, buf + buf_bytes};
    memset(body, 0, t->bytes);
    return get_message(&in, t, body) ? UW_OK : UW_ERR_CORRUPT;
}

int uw_fields_next(uint32_t number, const struct uw_fields *t, const uint8_t *buf,
                   uint32_t buf_bytes, uint32_t *at, void *body)
{
    struct in in = {buf + *at, buf + buf_bytes}, inner;
    uint32_t found, wire;
    while (in.at < in.end) {
        if (!get_key(&in, &found, &wire)) {
            return UW_ERR_CORRUPT;
        }
        if (found != number) {
            if (!skip(&in, wire)) {
                return UW_ERR_CORRUPT;
            }
            continue;
        }
        if (wire != WIRE_BYTES || !get_inner(&in, &inner)) {
            return UW_ERR_CORRUPT;
        }
        *at = (uint32_t)(in.at - buf);
        memset(body, 0, t->bytes);
        return get_message(&inner, t, body) ? 1 : UW_ERR_CORRUPT;
    }
    return 0;
}
