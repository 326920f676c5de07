/* SPDX-License-Identifier: Apache-2.0 */
#include "secure_wire.h"

#include <string.h>

#define HANDSHAKE_HEADER_BYTES 12u
#define CLIENT_HELLO 1u
#define HELLO_VERIFY_REQUEST 3u

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t get24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | get16(p + 1);
}

bool uw_wire_next_record(const uint8_t *bytes, uint32_t size_bytes, struct uw_wire_record *r)
{
    if (size_bytes < UW_WIRE_RECORD_BYTES || bytes[1] != 0xfe) {
        return false;
    }
    uint32_t body = get16(bytes + 11);
    if (body > size_bytes - UW_WIRE_RECORD_BYTES) {
        return false;
    }
    r->bytes = bytes;
    r->size_bytes = UW_WIRE_RECORD_BYTES + body;
    r->epoch = (uint16_t)get16(bytes + 3);
    r->type = bytes[0];
    return true;
}

bool uw_wire_is_hello(const struct uw_wire_record *r)
{
    return r->type == UW_RECORD_HANDSHAKE && r->epoch == 0 &&
           r->size_bytes > UW_WIRE_RECORD_BYTES && r->bytes[UW_WIRE_RECORD_BYTES] == CLIENT_HELLO;
}

bool uw_wire_read_hello(const struct uw_wire_record *r, struct uw_wire_hello *hello)
{
    const uint8_t *p = r->bytes + UW_WIRE_RECORD_BYTES;
    uint32_t left = r->size_bytes - UW_WIRE_RECORD_BYTES;
    if (!uw_wire_is_hello(r) || left < HANDSHAKE_HEADER_BYTES) {
        return false;
    }
    uint32_t length = get24(p + 1);
    left -= HANDSHAKE_HEADER_BYTES;
    if (get24(p + 6) != 0 || get24(p + 9) != length || length != left) {
        return false;
    }
    p += HANDSHAKE_HEADER_BYTES;
    /* version, random, session id with its length, cookie with its length */
    if (left < 2u + UW_WIRE_RANDOM_BYTES + 1u) {
        return false;
    }
    hello->random = p + 2;
    uint32_t at = 2u + UW_WIRE_RANDOM_BYTES;
    at += 1u + p[at];
    if (at >= left || p[at] > left - at - 1u) {
        return false;
    }
    hello->cookie_bytes = p[at];
    hello->cookie = p + at + 1u;
    return true;
}

void uw_wire_write_proof(const uint8_t proof[UW_WIRE_PROOF_BYTES],
                         uint8_t out[UW_WIRE_RECORD_BYTES + UW_WIRE_PROOF_BYTES])
{
    memset(out, 0, UW_WIRE_RECORD_BYTES);
    out[0] = UW_RECORD_DATA;
    out[1] = 0xfe;
    out[2] = 0xfd;
    out[12] = UW_WIRE_PROOF_BYTES;
    memcpy(out + UW_WIRE_RECORD_BYTES, proof, UW_WIRE_PROOF_BYTES);
}

const uint8_t *uw_wire_read_proof(const struct uw_wire_record *r)
{
    bool is_proof = r->type == UW_RECORD_DATA && r->epoch == 0 &&
                    r->size_bytes == UW_WIRE_RECORD_BYTES + UW_WIRE_PROOF_BYTES;
    return is_proof ? r->bytes + UW_WIRE_RECORD_BYTES : NULL;
}

void uw_wire_write_verify(const struct uw_wire_record *hello,
                          const uint8_t cookie[UW_WIRE_COOKIE_BYTES],
                          uint8_t out[UW_WIRE_VERIFY_BYTES])
{
    uint8_t *p = out;
    memset(out, 0, UW_WIRE_VERIFY_BYTES);
    memcpy(p, hello->bytes, 11); /* type, version, epoch and sequence number: those of the hello */
    p[12] = HANDSHAKE_HEADER_BYTES + 3u + UW_WIRE_COOKIE_BYTES;
    p += UW_WIRE_RECORD_BYTES;
    p[0] = HELLO_VERIFY_REQUEST;
    p[3] = p[11] = 3u + UW_WIRE_COOKIE_BYTES;
    p += HANDSHAKE_HEADER_BYTES;
    p[0] = 0xfe;
    p[1] = 0xff; /* DTLS 1.0 here whatever is negotiated later, RFC 6347, 4.2.1 */
    p[2] = UW_WIRE_COOKIE_BYTES;
    memcpy(p + 3, cookie, UW_WIRE_COOKIE_BYTES);
}
