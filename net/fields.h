/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.h - messages of proto/uwasa.proto in protobuf's wire format, from and to the structs that
 * nanopb's generator makes of them
 *
 * One walk over a table for each direction, in place of the coder of nanopb: half of its code,
 * and no more than these messages have. Singular and optional fields, and arrays of fixed size;
 * what is zero is not written; fields that are not known are skipped. The bytes are nanopb's.
 *
 *     UW_FIELDS(uwasa_Want);       a table, uwasa_Want_table, of what the generator lists
 *
 * Source     protobuf.dev/programming-guides/encoding
 * Memory     caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_FIELDS_H
#define UW_NET_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uw_field_kind {
    UW_FIELD_VARINT,                /* without a sign, of any size */
    UW_FIELD_BOOL,
    UW_FIELD_SIGNED,                /* int32_t as zigzag */
    UW_FIELD_FIXED,
    UW_FIELD_TEXT,                  /* char array with its NUL */
    UW_FIELD_MESSAGE,               /* optional: with a has_ */
    UW_FIELD_KINDS = 15,            /* mask */
    UW_FIELD_ARRAY = 16             /* of FIXED of 4 bytes, or MESSAGE; with a _count */
};

struct uw_field {
    uint16_t offset;                /* in its struct */
    uint8_t number;
    uint8_t kind;
    uint8_t size;                   /* bytes; of an array elements; of a message 0 */
    uint8_t before;                 /* its has_ or _count is so many bytes before it */
};

struct uw_fields {
    const struct uw_field *fields;  /* [fields_n] by their numbers */
    const struct uw_fields *const *messages;    /* of the fields that are one, in their order */
    uint16_t bytes;                 /* of the struct */
    uint8_t fields_n;
};

/* Write a struct. Returns the bytes, at most cap_bytes, or UW_ERR_TOOBIG. */
int uw_fields_write(const struct uw_fields *t, const void *body, uint8_t *buf, uint32_t cap_bytes);

/* Read one.
 *   body  the struct, written
 * Returns UW_OK or UW_ERR_CORRUPT (malformed, or more than the struct has room for). */
int uw_fields_read(const struct uw_fields *t, const uint8_t *buf, uint32_t buf_bytes, void *body);

/* As a message in a message: put one behind what is in the buffer; take the next one from *at on.
 *   at  0 first; set past the one that was found
 * add returns the bytes that are in the buffer then, or UW_ERR_TOOBIG; next 1, 0 (no more) or
 * UW_ERR_CORRUPT. */
int uw_fields_add(uint32_t number, const struct uw_fields *t, const void *body, uint8_t *buf,
                  uint32_t bytes, uint32_t cap_bytes);
int uw_fields_next(uint32_t number, const struct uw_fields *t, const uint8_t *buf,
                   uint32_t buf_bytes, uint32_t *at, void *body);

/* ---- tables from the generator's lists ---- */

#define UW_FIELDS(type)                                                                           \
    static const struct uw_field type##_each[] = {type##_FIELDLIST(UW_FIELDS_EACH, type)};        \
    static const struct uw_fields *const type##_messages[] = {                                    \
        type##_FIELDLIST(UW_FIELDS_MESSAGE, type) NULL};                                          \
    static const struct uw_fields type##_table = {type##_each, type##_messages, sizeof(type),     \
                                                  sizeof type##_each / sizeof type##_each[0]}

#define UW_FIELDS_EACH(type, storage, rule, kind, name, number)                                   \
    {offsetof(type, name), number, UW_FIELDS_KIND_##kind | UW_FIELDS_RULE_##rule,                 \
     UW_FIELDS_SIZE_##rule(type, name), UW_FIELDS_BEFORE_##rule(type, name)},

#define UW_FIELDS_KIND_UINT32 UW_FIELD_VARINT
#define UW_FIELDS_KIND_UINT64 UW_FIELD_VARINT
#define UW_FIELDS_KIND_UENUM UW_FIELD_VARINT
#define UW_FIELDS_KIND_BOOL UW_FIELD_BOOL
#define UW_FIELDS_KIND_SINT32 UW_FIELD_SIGNED
#define UW_FIELDS_KIND_FIXED32 UW_FIELD_FIXED
#define UW_FIELDS_KIND_FIXED64 UW_FIELD_FIXED
#define UW_FIELDS_KIND_FLOAT UW_FIELD_FIXED
#define UW_FIELDS_KIND_STRING UW_FIELD_TEXT
#define UW_FIELDS_KIND_MESSAGE UW_FIELD_MESSAGE

#define UW_FIELDS_RULE_SINGULAR 0
#define UW_FIELDS_RULE_OPTIONAL 0
#define UW_FIELDS_RULE_REPEATED UW_FIELD_ARRAY
#define UW_FIELDS_SIZE_SINGULAR(type, name) sizeof(((type *)0)->name)
#define UW_FIELDS_SIZE_OPTIONAL(type, name) 0
#define UW_FIELDS_SIZE_REPEATED(type, name)                                                       \
    sizeof(((type *)0)->name) / sizeof(((type *)0)->name[0])
#define UW_FIELDS_BEFORE_SINGULAR(type, name) 0
#define UW_FIELDS_BEFORE_OPTIONAL(type, name) offsetof(type, name) - offsetof(type, has_##name)
#define UW_FIELDS_BEFORE_REPEATED(type, name) offsetof(type, name) - offsetof(type, name##_count)

#define UW_FIELDS_MESSAGE(type, storage, rule, kind, name, number)                                \
    UW_FIELDS_OF_##kind(type##_##name##_MSGTYPE)
#define UW_FIELDS_OF_MESSAGE(type) UW_FIELDS_TABLE(type)
#define UW_FIELDS_TABLE(type) &type##_table,
#define UW_FIELDS_OF_UINT32(type)
#define UW_FIELDS_OF_UINT64(type)
#define UW_FIELDS_OF_UENUM(type)
#define UW_FIELDS_OF_BOOL(type)
#define UW_FIELDS_OF_SINT32(type)
#define UW_FIELDS_OF_FIXED32(type)
#define UW_FIELDS_OF_FIXED64(type)
#define UW_FIELDS_OF_FLOAT(type)
#define UW_FIELDS_OF_STRING(type)

#endif
