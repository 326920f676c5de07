/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#define PEERS_NUMBER 6u             /* field numbers of Ping, not in its struct */
#define ALSO_NUMBER 9u

int uw_message_add_also(bool frames, const uint8_t *also, uint32_t also_bytes, void *buf,
                        uint32_t bytes, uint32_t cap_bytes)
{
    uint8_t *out = buf;
    if (also_bytes == 0) {
        return (int)bytes;
    }
    pb_ostream_t stream = pb_ostream_from_buffer(out + bytes, cap_bytes - bytes);
    if (!pb_encode_tag(&stream, PB_WT_STRING, ALSO_NUMBER) || also_bytes > UW_MESSAGE_ALSO_MOST ||
        stream.bytes_written + 1u + also_bytes > cap_bytes - bytes) {
        return UW_ERR_TOOBIG;
    }
    bytes += (uint32_t)stream.bytes_written;
    out[bytes] = (uint8_t)also_bytes;
    memcpy(out + bytes + 1u, also, also_bytes);
    bytes += 1u + also_bytes;
    if (!frames) {
        uw_wire_seal(out, (enum uw_wire_type)(out[0] & 15u), bytes);
    }
    return (int)bytes;
}

const uint8_t *uw_message_also(bool frames, const void *buf, uint32_t buf_bytes, uint32_t at,
                               uint32_t *also_bytes)
{
    uint32_t head = frames ? UW_WIRE_SHORT_HEAD_BYTES : UW_WIRE_HEAD_BYTES;
    const uint8_t *body = (const uint8_t *)buf + head;
    uint32_t bytes = buf_bytes - head;
    pb_istream_t stream = pb_istream_from_buffer(body + at, bytes - at);
    *also_bytes = 0;
    for (;;) {
        pb_wire_type_t wire;
        uint32_t number;
        bool eof;
        if (!pb_decode_tag(&stream, &wire, &number, &eof) || number == PEERS_NUMBER ||
            (number != ALSO_NUMBER && !pb_skip_field(&stream, wire))) {
            return NULL;
        }
        if (number == ALSO_NUMBER) {
            const uint8_t *size = body + (bytes - (uint32_t)stream.bytes_left);
            uint32_t n = stream.bytes_left != 0 ? *size : UW_MESSAGE_ALSO_MOST + 1u;
            if (wire != PB_WT_STRING || n > UW_MESSAGE_ALSO_MOST || n >= stream.bytes_left) {
                return NULL;
            }
            *also_bytes = n;
            return size + 1;
        }
    }
}
