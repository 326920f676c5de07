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
#include "uwasa/secure_keys.h"

struct uw_tls_session;

enum uw_tls_result {
    UW_TLS_WAIT,            /* no change */
    UW_TLS_UP,              /* the handshake is done (returned once) */
    UW_TLS_DATA,            /* a message was decrypted */
    UW_TLS_BAD_KEY,         /* this and all below: the session has ended */
    UW_TLS_BAD_IDENTITY,
    UW_TLS_REVOKED,
    UW_TLS_TIMEOUT,
    UW_TLS_CLOSED,
    UW_TLS_FAILED,
};

/* What struct uw_secure_keys adds to an engine and its sessions. */
struct uw_tls_engine;
struct uw_tls_peer;

struct uw_secure_keys_ops {
    /* Set an engine's configurations, which are empty, and its proofs.
     * Returns as uw_tls_engine_init. */
    int (*configure)(struct uw_secure_keys *k, struct uw_tls_engine *engine);

    /* Watch over a session of the library that was set up, a client's with the key of a number.
     * *peer: set; it is closed with the session, which may outlive the keys of now.
     * Returns UW_OK or UW_ERR_NOMEM. */
    int (*open)(struct uw_secure_keys *k, void *ssl, uint8_t key, bool client,
                struct uw_tls_peer **peer);
    void (*close)(struct uw_tls_peer *peer);

    /* Must the session end since the keys have changed? */
    bool (*is_void)(struct uw_tls_peer *peer);

    /* Was the peer refused because its device is revoked? */
    bool (*is_revoked)(const struct uw_tls_peer *peer);

    /* The sentence for UW_TLS_REVOKED and sessions that are void: "it is device cellar, whose key
     * is revoked". */
    const char *(*why)(const struct uw_tls_peer *peer);

    /* The keys of a DTLS channel have changed: end its sessions that are void. */
    void (*follow)(struct uw_secure_dtls *s);

    /* As uw_secure_keys_revoke. */
    int (*revoke)(struct uw_secure_keys *k, const uint8_t *list, uint32_t bytes);
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
    struct uw_secure_keys *keys;    /* borrowed until deinit, as identity is then; NULL: key */
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

/* Prove for the ClientHello of a session that its sender holds the session's key: a keyed hash of
 * its random and its cookie, which the other end made for this address.
 * Returns UW_OK, UW_ERR_INVALID (no cookie), UW_ERR_NOMEM. */
int uw_tls_prove(struct uw_tls_session *session, const struct uw_wire_hello *hello,
                 uint8_t proof[UW_WIRE_PROOF_BYTES]);

/* Is this the proof of one of the engine's keys? */
bool uw_tls_is_proof(struct uw_tls_engine *engine, const struct uw_wire_hello *hello,
                     const uint8_t proof[UW_WIRE_PROOF_BYTES]);

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

/* As why and is_void of struct uw_secure_keys_ops; "" and false without keys. */
const char *uw_tls_why(const struct uw_tls_session *session);
bool uw_tls_is_void(struct uw_tls_session *session);

/* Set the keys again, those of uw_tls_keys.keys. No session is open.
 * Returns as uw_tls_engine_init; after a failure no session can be opened. */
int uw_tls_set_keys(struct uw_tls_engine *engine);

/* End a session; notify: send an alert to the peer. Safe on zeroed memory and twice. */
void uw_tls_close(struct uw_tls_session *session, bool notify);

#endif
