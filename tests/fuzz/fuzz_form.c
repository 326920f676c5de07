/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_form.h"

#include <string.h>

#define FIELDS_MAX 64u
#define COPIES_MAX 12u
#define DEPTH_MAX 4u
#define ROOM 8192u

enum wire_type { VARINT, FIXED64, LENGTH, FIXED32 = 5 };

/* A field of a protobuf message: offsets in it. */
struct field {
    size_t at, value, end;
    uint64_t tag;
};

struct out {
    uint8_t bytes[ROOM];
    size_t n;
};

static uint64_t telling(struct uw_rng *r, uint64_t now, size_t bytes)
{
    const uint64_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x10000, 0x7fffffff,
                               0x80000000, UINT32_MAX, 0x100000000, INT64_MAX, UINT64_MAX, bytes,
                               bytes / 4u, bytes - 1u, now + 1u, now - 1u, now ^ 1u, now * 2u,
                               ~now};
    const uint32_t n = (uint32_t)(sizeof values / sizeof values[0]);
    uint32_t i = uw_rng_below(r, n + 4u);
    return i < n ? values[i] : (uint64_t)uw_rng_u32(r) << 32 | uw_rng_u32(r);
}

void uw_fuzz_mutate_field(struct uw_rng *rng, uint8_t *input, size_t bytes,
                          const struct uw_fuzz_field *fields, size_t fields_n)
{
    const struct uw_fuzz_field *f = &fields[uw_rng_below(rng, (uint32_t)fields_n)];
    if ((size_t)f->at + f->bytes > bytes) {
        return;
    }
    uint8_t *p = input + f->at;
    uint64_t value = 0;
    for (uint32_t i = 0; i < f->bytes; i++) {
        value = value << 8 | p[f->big_endian ? i : f->bytes - 1u - i];
    }
    value = telling(rng, value, bytes);
    for (uint32_t i = 0; i < f->bytes; i++) {
        p[f->big_endian ? f->bytes - 1u - i : i] = (uint8_t)(value >> 8u * i);
    }
}

/* ---- protobuf ---- */

static bool get_varint(const uint8_t *p, size_t n, size_t *at, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; *at < n && shift < 64; shift += 7) {
        uint8_t byte = p[(*at)++];
        *value |= (uint64_t)(byte & 0x7fu) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static void put_bytes(struct out *o, const uint8_t *p, size_t n)
{
    n = n < ROOM - o->n ? n : ROOM - o->n;
    if (n != 0) {
        memcpy(o->bytes + o->n, p, n);
    }
    o->n += n;
}

static void put_varint(struct out *o, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7fu) | (value > 0x7fu ? 0x80u : 0));
        put_bytes(o, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

/* Returns how many fields there are; 0: it is no message. */
static size_t parse(const uint8_t *p, size_t n, struct field *fields)
{
    size_t count = 0;
    for (size_t at = 0; at < n;) {
        struct field f = {.at = at};
        uint64_t value;
        if (count == FIELDS_MAX || !get_varint(p, n, &at, &f.tag)) {
            return 0;
        }
        f.value = at;
        enum wire_type type = (enum wire_type)(f.tag & 7u);
        if (type == FIXED64 || type == FIXED32) {
            at += type == FIXED64 ? 8 : 4;
        } else if ((type != VARINT && type != LENGTH) || !get_varint(p, n, &at, &value)) {
            return 0;
        } else if (type == LENGTH) {
            f.value = at;
            at = value <= n - at ? at + (size_t)value : n + 1u;
        }
        if (at > n) {
            return 0;
        }
        f.end = at;
        fields[count++] = f;
    }
    return count;
}

static void rewrite(struct uw_rng *r, const uint8_t *p, size_t n, uint32_t depth, struct out *o);

/* Text or bytes: longer, shorter, others; or with a length that is wrong. */
static void put_content(struct uw_rng *r, const uint8_t *p, size_t n, struct out *o)
{
    static const uint16_t sizes[] = {0, 1, 31, 32, 63, 64, 65, 200};
    static const uint8_t fills[] = {0, ' ', 'a', '~', 0x7f, 0xff};
    uint32_t how = uw_rng_below(r, 4);
    uint8_t other[200];
    if (how == 0) {
        memset(other, fills[uw_rng_below(r, sizeof fills)], sizeof other);
        n = sizes[uw_rng_below(r, sizeof sizes / sizeof sizes[0])];
        p = other;
    } else if (how == 1) {
        n = n > 0 ? uw_rng_below(r, (uint32_t)n) : 0;
    } else if (how == 2 && n > 0 && n <= sizeof other) {
        memcpy(other, p, n);
        other[uw_rng_below(r, (uint32_t)n)] = (uint8_t)uw_rng_u32(r);
        p = other;
    }
    put_varint(o, how == 3 ? telling(r, n, n) : n);
    put_bytes(o, p, n);
}

static void put_value(struct uw_rng *r, const uint8_t *p, const struct field *f, uint32_t depth,
                      struct out *o)
{
    enum wire_type type = (enum wire_type)(f->tag & 7u);
    size_t at = f->value, bytes = f->end - f->value;
    uint64_t value = 0;
    put_varint(o, f->tag);
    if (type == VARINT) {
        (void)get_varint(p, f->end, &at, &value);
        put_varint(o, telling(r, value, bytes));
    } else if (type == LENGTH) {
        struct field inside[FIELDS_MAX];
        if (depth > 0 && parse(p + f->value, bytes, inside) > 0 && uw_rng_below(r, 4) != 0) {
            static struct out nested[DEPTH_MAX];
            struct out *in = &nested[depth - 1u];
            in->n = 0;
            rewrite(r, p + f->value, bytes, depth - 1u, in);
            put_varint(o, in->n);
            put_bytes(o, in->bytes, in->n);
        } else {
            put_content(r, p + f->value, bytes, o);
        }
    } else {
        uint8_t fixed[8];
        memcpy(&value, p + f->value, bytes);
        value = telling(r, value, bytes);
        memcpy(fixed, &value, sizeof fixed);
        put_bytes(o, fixed, bytes);
    }
}

/* The message with one field changed. */
static void rewrite(struct uw_rng *r, const uint8_t *p, size_t n, uint32_t depth, struct out *o)
{
    struct field fields[FIELDS_MAX];
    size_t count = parse(p, n, fields);
    if (count == 0) {
        put_bytes(o, p, n);
        return;
    }
    size_t chosen = uw_rng_below(r, (uint32_t)count), other = uw_rng_below(r, (uint32_t)count);
    uint32_t how = uw_rng_below(r, 8);
    for (size_t i = 0; i < count; i++) {
        struct field f = fields[how == 0 && i == chosen ? other : i];
        size_t whole = f.end - f.at;
        if (i != chosen || how == 0) {
            put_bytes(o, p + f.at, whole);
        } else if (how == 1) {
            for (uint32_t copies = 2u + uw_rng_below(r, COPIES_MAX); copies > 0; copies--) {
                put_bytes(o, p + f.at, whole);
            }
        } else if (how == 2) {
            put_varint(o, uw_rng_below(r, 2) == 0 ? f.tag ^ (1u + uw_rng_below(r, 7))
                                                  : uw_rng_below(r, 300));
            put_bytes(o, p + f.value, f.end - f.value);
        } else if (how > 3) {
            put_value(r, p, &f, depth, o);
        }       /* 3: it is gone */
    }
}

size_t uw_fuzz_mutate_proto(struct uw_rng *rng, uint8_t *message, size_t bytes, size_t cap_bytes)
{
    static struct out o;
    o.n = 0;
    rewrite(rng, message, bytes, DEPTH_MAX, &o);
    size_t n = o.n < cap_bytes ? o.n : cap_bytes;
    memcpy(message, o.bytes, n);
    return n;
}
