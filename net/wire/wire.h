/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - little-endian numbers in a buffer, and the head that every message begins with
 *
 *     byte  0      version << 4 | type
 *     bytes 1..4   CRC-32C over byte 0 and everything from byte 5 on
 *
 * On a link of frames (uwasa/link.h), which authenticates each of them, byte 0 is all of it, and
 * message.h has shorter forms of what travels most.
 */
#ifndef UW_NET_WIRE_H
#define UW_NET_WIRE_H

#include "base/bits.h"
#include "base/crc.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UW_WIRE_VERSION 1u
#define UW_WIRE_HEAD_BYTES 5u
#define UW_WIRE_SHORT_HEAD_BYTES 1u     /* on a link of frames */

enum uw_wire_type {
    UW_WIRE_HELLO = 1,              /* ping to somebody not known yet */
    UW_WIRE_PING,
    UW_WIRE_ACK,
    UW_WIRE_WANT,
    UW_WIRE_DATA,
    UW_WIRE_REFUSE,
    UW_WIRE_GOODBYE,
    UW_WIRE_STATUS_REQUEST,
    UW_WIRE_STATUS_REPLY,
    UW_WIRE_PART,                   /* of an all-reduce, see part.h */
    UW_WIRE_CELL,                   /* agreement on one, see cell.h */
    UW_WIRE_SHUFFLE,                /* a loan of samples, see shuffle_wire.h */
    UW_WIRE_CAST,                   /* of a broadcast average, see cast.h */
    UW_WIRE_CAST_WANT,
    UW_WIRE_DATA_CODED              /* data in the code of float_code.h */
};

UW_INLINE void uw_put_u16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

UW_INLINE void uw_put_u24(uint8_t *p, uint32_t v)
{
    uw_put_u16(p, v);
    p[2] = (uint8_t)(v >> 16);
}

UW_INLINE void uw_put_u32(uint8_t *p, uint32_t v)
{
    uw_put_u16(p, v);
    uw_put_u16(p + 2, v >> 16);
}

UW_INLINE uint16_t uw_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint32_t)p[1] << 8);
}

UW_INLINE uint32_t uw_get_u24(const uint8_t *p)
{
    return uw_get_u16(p) | (uint32_t)p[2] << 16;
}

UW_INLINE uint32_t uw_get_u32(const uint8_t *p)
{
    return uw_get_u16(p) | (uint32_t)uw_get_u16(p + 2) << 16;
}

/* Known when this is compiled. */
static inline bool uw_is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Floats as they go over the wire: little-endian. */
static inline void uw_put_floats(uint8_t *p, const float *x, uint32_t n)
{
    if (uw_is_little_endian()) {
        memcpy(p, x, n * sizeof *x);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uw_put_u32(p + i * 4u, bits);
    }
}

static inline void uw_get_floats(float *x, const uint8_t *p, uint32_t n)
{
    if (uw_is_little_endian()) {
        memcpy(x, p, n * sizeof *x);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = uw_get_u32(p + i * 4u);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* The checksum that belongs into a message of that many bytes, UW_WIRE_HEAD_BYTES or more. */
static inline uint32_t uw_wire_checksum(const uint8_t *buf, uint32_t bytes)
{
    return uw_crc32c(uw_crc32c(0, buf, 1), buf + UW_WIRE_HEAD_BYTES, bytes - UW_WIRE_HEAD_BYTES);
}

static inline uint8_t uw_wire_first(enum uw_wire_type type)
{
    return (uint8_t)(UW_WIRE_VERSION << 4 | (uint32_t)type);
}

/* Write the head in front of what is in the buffer already. */
static inline void uw_wire_seal(uint8_t *buf, enum uw_wire_type type, uint32_t bytes)
{
    buf[0] = uw_wire_first(type);
    uw_put_u32(buf + 1, uw_wire_checksum(buf, bytes));
}

#endif
