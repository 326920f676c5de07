/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_wire.h - parse the parts of DTLS 1.2 that are needed before a session exists
 *
 * Input is not authenticated. No function allocates or keeps anything.
 * Source: RFC 6347, 4.1 (records), 4.2.1 (cookies), 4.2.2 (handshake messages). */
#ifndef UWASA_SECURE_WIRE_H
#define UWASA_SECURE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define UW_WIRE_RECORD_BYTES 13u
#define UW_WIRE_RANDOM_BYTES 32u
#define UW_WIRE_COOKIE_BYTES 32u
#define UW_WIRE_PROOF_BYTES 16u
#define UW_WIRE_VERIFY_BYTES (UW_WIRE_RECORD_BYTES + 12u + 3u + UW_WIRE_COOKIE_BYTES)

enum uw_record_type {
    UW_RECORD_CHANGE_CIPHER = 20,
    UW_RECORD_ALERT = 21,
    UW_RECORD_HANDSHAKE = 22,
    UW_RECORD_DATA = 23,
};

struct uw_wire_record {
    const uint8_t *bytes;       /* from its header on */
    uint32_t size_bytes;        /* header and body */
    uint16_t epoch;
    uint8_t type;
};

struct uw_wire_hello {
    const uint8_t *random;      /* [UW_WIRE_RANDOM_BYTES] */
    const uint8_t *cookie;
    uint32_t cookie_bytes;
};

/* Find the record at the start of `bytes`. false: too short, or not DTLS. */
bool uw_wire_next_record(const uint8_t *bytes, uint32_t size_bytes, struct uw_wire_record *r);

/* Write a record with a proof (secure_tls.h). It precedes the ClientHello that it is about in the
 * datagram. To DTLS it is unencrypted data, which every peer ignores. */
void uw_wire_write_proof(const uint8_t proof[UW_WIRE_PROOF_BYTES],
                         uint8_t out[UW_WIRE_RECORD_BYTES + UW_WIRE_PROOF_BYTES]);

/* The proof in a record, or NULL. */
const uint8_t *uw_wire_read_proof(const struct uw_wire_record *r);

/* Is this an unencrypted ClientHello? */
bool uw_wire_is_hello(const struct uw_wire_record *r);

/* Find random and cookie. false: malformed or fragmented. */
bool uw_wire_read_hello(const struct uw_wire_record *r, struct uw_wire_hello *hello);

/* Write the HelloVerifyRequest that answers a ClientHello with a cookie. */
void uw_wire_write_verify(const struct uw_wire_record *hello,
                          const uint8_t cookie[UW_WIRE_COOKIE_BYTES],
                          uint8_t out[UW_WIRE_VERIFY_BYTES]);

#endif
