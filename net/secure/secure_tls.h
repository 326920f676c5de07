/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_tls.h - the interface between the secure channel and a TLS library
 *
 * The engine has the state that sessions share (key, identity, random numbers, cookie secret). A
 * session is fed one record at a time and calls output() to send. */
#ifndef UWASA_SECURE_TLS_H
#define UWASA_SECURE_TLS_H

#include "secure_wire.h"
#include "uwasa/secure.h"

struct uw_tls_session;

enum uw_tls_result {
    UW_TLS_WAIT,            /* no change */
    UW_TLS_UP,              /* the handshake is done (returned once) */
    UW_TLS_DATA,            /* a message was decrypted */
    UW_TLS_BAD_KEY,         /* this and all below: the session has ended */
    UW_TLS_BAD_IDENTITY,
    UW_TLS_TIMEOUT,
    UW_TLS_CLOSED,
    UW_TLS_FAILED,
};

/* Sends a datagram of a session; cannot fail, because DTLS retransmits. */
typedef void (*uw_tls_output_fn)(void *owner, const uint8_t *bytes, uint32_t size_bytes);

struct uw_tls_open {
    bool client;
    bool cheap;                     /* server: no expensive suite, if there is another */
    uint32_t mtu_bytes;             /* of a datagram */
    const char *address;            /* of the peer */
    const uint64_t *now_us;
    uw_tls_output_fn output;
    void *owner;
};

size_t uw_tls_engine_bytes(void);
size_t uw_tls_session_bytes(void);

/* Keys and options of all sessions; borrowed until init returns. */
struct uw_tls_keys {
    bool stream;                    /* sessions over streams, else over datagrams */
    bool bulk;                      /* as in struct uw_secure_dtls_config */
    const uint8_t *key;             /* [UW_KEY_BYTES] */
    const char *identity;
    const uint16_t *suites;         /* as in struct uw_secure_dtls_config, as the next two */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    void *user;
};

/* Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO (no entropy), UW_ERR_INVALID. The engine is zeroed
 * memory of uw_tls_engine_bytes(). */
int uw_tls_engine_init(struct uw_tls_engine *engine, const struct uw_tls_keys *keys);

/* Frees the library's memory and wipes keys. Safe on zeroed memory and twice. */
void uw_tls_engine_deinit(struct uw_tls_engine *engine);

/* The cookie of an address in a period of time: a keyed hash with this engine's secret. */
int uw_tls_cookie(struct uw_tls_engine *engine, const char *address, uint64_t period,
                  uint8_t cookie[UW_WIRE_COOKIE_BYTES]);

/* Prove for a ClientHello that its sender holds the run's key: a keyed hash of its random and its
 * cookie, which the other end made for this address.
 * Returns UW_OK, UW_ERR_INVALID (no cookie), UW_ERR_NOMEM. */
int uw_tls_prove(struct uw_tls_engine *engine, const struct uw_wire_hello *hello,
                 uint8_t proof[UW_WIRE_PROOF_BYTES]);

/* Compare in constant time. */
bool uw_tls_equal(const uint8_t *a, const uint8_t *b, size_t bytes);

/* Start a session in zeroed or closed memory. Then feed a server a ClientHello whose cookie was
 * checked, before another session is opened; drive a client.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_tls_open(struct uw_tls_session *session, struct uw_tls_engine *engine,
                const struct uw_tls_open *how);

/* A decrypted record: its first byte, and the rest in the session's memory until the next call. */
struct uw_tls_message {
    uint8_t mark;
    uint8_t *rest;
    uint32_t rest_bytes;
};

/* Process one record; m is set with UW_TLS_DATA. */
enum uw_tls_result uw_tls_feed(struct uw_tls_session *session, const struct uw_wire_record *r,
                               struct uw_tls_message *m);

/* Continue the handshake when its timer is due: retransmits the last flight. */
enum uw_tls_result uw_tls_drive(struct uw_tls_session *session);

/* Time of the next drive; UINT64_MAX: none. */
uint64_t uw_tls_due_us(const struct uw_tls_session *session);

/* Encrypt one message and output it. Returns UW_OK or UW_ERR_IO. */
int uw_tls_write(struct uw_tls_session *session, const uint8_t *bytes, uint32_t size_bytes);

/* IANA number of the suite of a session that is up. */
uint16_t uw_tls_suite(const struct uw_tls_session *session);

/* End a session; notify: send an alert to the peer. Safe on zeroed memory and twice. */
void uw_tls_close(struct uw_tls_session *session, bool notify);

#endif
