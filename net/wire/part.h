/* SPDX-License-Identifier: Apache-2.0
 *
 * part.h - messages of an all-reduce on the wire
 *
 *     byte  0       version << 4 | UW_WIRE_PART
 *     bytes 1..4    CRC-32C as in wire.h; 0 and ignored if the link is reliable
 *     byte  5       part type | reply << 7
 *     bytes 6..7    step            bytes 20..23  data: offset; want: first chunk
 *     bytes 8..11   run             bytes 24..25  data, want: seq
 *     bytes 12..15  group           bytes 26..27  operation
 *     bytes 16..19  round
 *     bytes 28..    data: floats; want: wanted u64, chunk_n u32, spread_us u32
 *
 * All numbers are little-endian. Floats are aligned to four, so that a receiver adds them without a
 * copy; a sender may pass header and floats separately.
 *
 * Memory     caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_PART_H
#define UW_NET_PART_H

#include "message.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_PART_HEAD_BYTES 28u
#define UW_PART_WANT_BYTES (UW_PART_HEAD_BYTES + 16u)

#define UW_PART_STREAMED 0xffffu    /* seq of data */
#define UW_PART_FIRST 0xfffeu       /* seq of a want before any data of the step */

enum uw_part_type { UW_PART_DATA = 1, UW_PART_WANT, UW_PART_WAIT, UW_PART_GOT, UW_PART_DONE };

/* Is a step's message known to have arrived, and was the speed measured? */
enum uw_got { UW_GOT_NOTHING, UW_GOT, UW_GOT_LEARNED };

/* A message between ranks. */
struct uw_part {
    enum uw_part_type type;
    uint32_t group, round;
    uint16_t step;
    uint16_t op;                    /* one of several concurrent operations of a round; the
                                       caller's */
    uint16_t seq;                   /* data: of the want that it answers, 0: pushed, or
                                       UW_PART_STREAMED */
    uint32_t offset_n, count_n;     /* data: floats of the step's message; got: the measured speed,
                                       see uw_allreduce_measured */
    const float *floats;            /* data: [count_n] */
    struct uw_want want;            /* want; its transfer is the step */
    bool reply;                     /* done: request a reply; wait, want: stop pushing, go on;
                                       data: the whole message is pushed */
};

/* Properties of the path to and from a rank; zeros: not known. */
struct uw_allreduce_way {
    float to, from;                 /* measured speeds to and from the rank, floats a microsecond */
    uint8_t wary;                   /* pushed messages lost in a row, approximate */
    uint8_t pause;                  /* messages that are therefore not pushed as a whole */
};

/* Encode a part.
 *   checked  with a checksum: the link may damage messages
 * Returns the bytes written or UW_ERR_TOOBIG (above cap_bytes). */
int uw_part_encode(const struct uw_part *p, uint32_t run, bool checked, void *buf,
                   uint32_t cap_bytes);

/* Write the header of a part without a checksum; its floats follow.
 *   head  [UW_PART_HEAD_BYTES]
 * Returns whether the floats can be sent without conversion: the machine is little-endian. */
bool uw_part_head(const struct uw_part *p, uint32_t run, uint8_t *head);

/* Does a message that begins with UW_WIRE_PART hold a streamed part? */
static inline bool uw_part_is_streamed(const uint8_t *buf, uint32_t buf_bytes)
{
    return buf_bytes >= UW_PART_HEAD_BYTES && (buf[5] & 0x7fu) == UW_PART_DATA &&
           uw_get_u16(buf + 24) == UW_PART_STREAMED;
}

/* Parse a message of type UW_WIRE_PART, of any run.
 *   buf  changed on a big-endian machine, which converts floats in place, and if floats are not
 *        aligned, when they are moved over the header: then it can be parsed only once
 *   run  set to the run of the message
 *   p    written on success; p->floats points into buf
 * Returns UW_OK or UW_ERR_CORRUPT (damaged, cut, malformed). */
int uw_part_decode(void *buf, uint32_t buf_bytes, bool checked, uint32_t *run, struct uw_part *p);

#endif
