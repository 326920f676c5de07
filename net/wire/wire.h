/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - the header of every message
 *
 *     byte  0      version << 4 | type
 *     bytes 1..4   CRC-32C over byte 0 and everything from byte 5 on
 *
 * On a link of frames (uwasa/link.h), which authenticates each frame, the header is byte 0 alone,
 * and message.h has short forms of the most frequent messages.
 */
#ifndef UW_NET_WIRE_H
#define UW_NET_WIRE_H

#include "base/bytes.h"
#include "base/cpu.h"

#define UW_WIRE_VERSION 1u
#define UW_WIRE_HEAD_BYTES 5u
#define UW_WIRE_SHORT_HEAD_BYTES 1u     /* on a link of frames */

enum uw_wire_type {
    UW_WIRE_REVOKED,                /* a list of revoked devices, see uwasa/secure_keys.h; not on a
                                       link of frames */
    UW_WIRE_HELLO = 1,              /* ping to an unknown peer */
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
    UW_WIRE_SHUFFLE,                /* a lease of samples, see shuffle.h */
    UW_WIRE_CAST,                   /* of a broadcast average, see cast.h */
    UW_WIRE_CAST_WANT,
    UW_WIRE_DATA_CODED              /* data in the code of float_code.h */
};

/* The checksum of a message of so many bytes, UW_WIRE_HEAD_BYTES or more. */
static inline uint32_t uw_wire_checksum(const uint8_t *buf, uint32_t bytes)
{
    return uw_crc32c(uw_crc32c(0, buf, 1), buf + UW_WIRE_HEAD_BYTES, bytes - UW_WIRE_HEAD_BYTES);
}

static inline uint8_t uw_wire_first(enum uw_wire_type type)
{
    return (uint8_t)(UW_WIRE_VERSION << 4 | (uint32_t)type);
}

/* Write the header of a message whose body is in the buffer. */
static inline void uw_wire_seal(uint8_t *buf, enum uw_wire_type type, uint32_t bytes)
{
    buf[0] = uw_wire_first(type);
    uw_put_u32(buf + 1, uw_wire_checksum(buf, bytes));
}

#endif
