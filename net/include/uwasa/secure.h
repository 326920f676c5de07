/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure.h - the secure channel: DTLS 1.2 with the run's key, as a link on top of a link; or
 * with keys of devices (uwasa/secure_keys.h)
 *
 * uw_secure_dtls wraps a lower link and is a link with secure == true: its messages come from peers
 * that hold the run's key, confidential, unmodified and not replayed. Stations are those of the
 * lower link. A send to a station without a session starts a handshake and returns UW_ERR_AGAIN
 * until the session is up, which an event reports. Handshakes progress in recv (received flights)
 * and step (retransmissions): call both while waiting. Either side may start; when both do, the one
 * with the greater ClientHello random stays the client.
 *
 * An unknown peer gets one stateless HelloVerifyRequest of 60 bytes for each ClientHello. If it
 * receives at its address, it gets one of handshakes_n slots, at a limited rate and with a back-off
 * that doubles after each failure, up to 8 s. A peer with the key proves it in front of its second
 * ClientHello, by a keyed hash of the cookie in a record that others ignore: it is not limited in
 * rate, and takes the slot of a handshake without a proof. However many strangers begin handshakes,
 * they do not keep it out. Peers of versions without the proof are among the strangers.
 *
 * An unauthenticated message never ends a session: the new session of a restarted peer replaces its
 * old one after the handshake (RFC 6347, 4.2.8). If all sessions are in use, a peer that has
 * authenticated itself replaces the one silent longest. A lost peer keeps its session until the
 * slot is needed. A restarted peer has to send first, or the caller drops the old session with
 * uw_secure_dtls_reset.
 *
 * The channel holds the lower link's stations during sessions and handshakes: the lower link needs
 * sessions_n + handshakes_n stations, and those that the caller holds.
 *
 * With config.paths, both ends of a session probe how large datagrams reach the other one, at its
 * start and every two minutes: some paths lose large ones without a word (RFC 8899). The link's
 * mtu_bytes becomes what the narrowest path of all sessions carries, and grows again with it. Every
 * version of this channel without paths answers probes; older ones do not, and are sent what
 * lower->mtu_bytes allows.
 *
 * Handshakes with finite-field Diffie-Hellman (bulk) are expensive: while unknown peers have used
 * half of the burst of handshakes, only the other suites are offered.
 *
 * Units      bytes; times in microseconds
 * Memory     caller supplies uw_secure_dtls_bytes(); Mbed TLS allocates its buffers from its own
 *            allocator (40 KB a session with Debian's 2.28, from the handshake on)
 * Blocking   never          Context  the lower link's thread
 * Source     RFC 6347 (DTLS 1.2), RFC 4279 (pre-shared keys), RFC 7905 (ChaCha20-Poly1305)
 */
#ifndef UWASA_SECURE_H
#define UWASA_SECURE_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

#define UW_KEY_BYTES 32u
#define UW_KEY_TEXT_BYTES 65u       /* 64 hex digits and the NUL */
#define UW_SECURE_IDENTITY_MAX 64u
#define UW_SECURE_TEXT_BYTES 192u
#define UW_SECURE_GRUDGES 16u

/* Bytes that the secure link adds to a message, at most: DTLS record header 13, explicit nonce 8,
 * tag 16, and one byte of type in front. */
#define UW_SECURE_OVERHEAD_BYTES 38u
#define UW_SECURE_LOWER_MTU_MIN 256u

/* Parse a key: 64 hex digits of either case, white space around them allowed. Constant time.
 *
 * Returns UW_OK, UW_ERR_INVALID (other characters, too few or too many digits; key is then all
 * zero). */
int uw_key_parse(const char *text, uint8_t key[UW_KEY_BYTES]);

/* Write a key as 64 lower-case hex digits and a NUL. */
void uw_key_format(const uint8_t key[UW_KEY_BYTES], char text[UW_KEY_TEXT_BYTES]);

/* Overwrite a secret with zeros. Unlike memset, the compiler cannot remove this. */
void uw_key_wipe(void *secret, size_t bytes);

enum uw_secure_event_kind {
    UW_SECURE_PEER_UP,          /* authenticated: a session is up, or replaced the old one */
    UW_SECURE_PEER_REFUSED,     /* wrong key, a revoked one or wrong run; at most once per interval
                                   and peer. Not for a peer with a session, whose address may be
                                   forged */
    UW_SECURE_PEER_SILENT,      /* a handshake timed out */
    UW_SECURE_PEER_CLOSED,      /* a session ended: by the peer, by reset, to make room */
    UW_SECURE_WARNING,          /* uwasa/secure_frames.h: a fault that needs an operator */
    UW_SECURE_PATH_NARROW,      /* datagrams above a size do not reach the peer */
    UW_SECURE_PATH_WIDE,        /* they do again */
};

struct uw_secure_event {
    enum uw_secure_event_kind kind;
    uint16_t station;
    const char *text;           /* a sentence that names the peer's address */
};

struct uw_secure_keys;                  /* uwasa/secure_keys.h */

struct uw_secure_dtls_config {
    struct uw_link *lower;              /* mtu at least UW_SECURE_LOWER_MTU_MIN */
    struct uw_secure_keys *keys;        /* borrowed; NULL: `key` is all there is */
    uint8_t key[UW_KEY_BYTES];
    const char *identity;               /* the run's name, sent in the clear; 1 to 64 bytes */
    uint16_t sessions_n;                /* sessions up at once; 0: 32 */
    uint16_t handshakes_n;              /* handshakes in progress at once; 0: 8 */
    void *memory;                       /* aligned as from malloc or an arena */
    size_t memory_bytes;
    const uint16_t *suites;             /* IANA numbers, best first, 0 ends, at most 8; suites that
                                           Mbed TLS lacks are skipped. NULL:
                                           ECDHE-PSK-ChaCha20-Poly1305, PSK-ChaCha20-Poly1305,
                                           PSK-AES128-GCM, PSK-AES128-CCM-8 */
    bool bulk;                          /* for sessions of ten megabytes or more: on processors with
                                           AES instructions, suites NULL begins with
                                           DHE-PSK-AES128-CCM. Records are faster; each end's
                                           handshake takes 10 ms more. If only one end has it, both
                                           use the next suite */
    const struct uw_secure_paths *paths;    /* &uw_secure_paths: probe what paths carry, for links
                                           over IP; NULL: they carry lower->mtu_bytes */
    uint32_t report_interval_us;        /* between two REFUSED of a peer; 0: 10 s */
    /* Fill `out` with `bytes` of true random data. Returns 0; other values mean failure. NULL: the
     * operating system's source, if Mbed TLS supports it. */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    /* Called from inside send, recv or step; must not call this link. May be NULL. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
};

struct uw_secure_dtls_stats {
    uint64_t handshakes_n;      /* completed */
    uint64_t refused_n;         /* wrong key or run */
    uint64_t failed_n;          /* timed out or other error */
    uint64_t strangers_n;       /* HelloVerifyRequests sent */
    uint64_t limited_n;         /* hellos ignored: rate or slots exhausted */
    uint64_t stray_n;           /* records without a session */
};

struct uw_secure_slot;
struct uw_secure_path;
struct uw_tls_engine;

extern const struct uw_secure_paths uw_secure_paths;

/* A peer whose handshake failed, for back-off and reports. Private. */
struct uw_secure_grudge {
    uint32_t address_hash, fails, bad_keys, silences;
    uint64_t failed_us, reported_us;
};

struct uw_secure_dtls {
    struct uw_link link;
    struct uw_link *lower;
    struct uw_tls_engine *tls;
    struct uw_secure_slot *slots;
    uint16_t slots_n, sessions_n, handshakes_n;
    const struct uw_secure_paths *paths;
    struct uw_secure_path *path;    /* [slots_n] if paths is set */
    uint32_t most_bytes;            /* link.mtu_bytes where all paths carry lower->mtu_bytes */
    uint8_t *datagram, *kept, *plain;
    uint32_t datagram_bytes, datagram_at;
    uint16_t datagram_from;
    bool has_proof;                 /* in the datagram, before its ClientHello */
    uint8_t proof[16];
    uint64_t now_us;
    uint64_t started_us;            /* token bucket of handshakes that unknown peers start */
    struct uw_secure_keys *keys;
    uint32_t changes_n;             /* of keys: those that were followed */
    uint32_t report_interval_us;
    char identity[UW_SECURE_IDENTITY_MAX + 1];
    /* From the configuration. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
    struct uw_secure_grudge grudges[UW_SECURE_GRUDGES];
    struct uw_secure_dtls_stats stats;
};

/* Bytes of memory for a configuration; SIZE_MAX when it is not allowed. */
size_t uw_secure_dtls_bytes(const struct uw_secure_dtls_config *config);

/* Set up the channel. The key is copied; lower, memory and user are borrowed until deinit.
 *
 * Returns UW_OK, UW_ERR_INVALID (lower link's mtu too small, identity too long or empty),
 * UW_ERR_NOMEM (memory, or Mbed TLS's own), UW_ERR_IO (no entropy). */
int uw_secure_dtls_init(struct uw_secure_dtls *s, const struct uw_secure_dtls_config *config);

/* Is a session with this station up? */
bool uw_secure_dtls_is_up(const struct uw_secure_dtls *s, uint16_t station);

/* IANA number of the suite of the session with this station; 0: no session. */
uint16_t uw_secure_dtls_suite(const struct uw_secure_dtls *s, uint16_t station);

/* Drop the session and handshakes with a station; the next send starts a new handshake. */
void uw_secure_dtls_reset(struct uw_secure_dtls *s, uint16_t station);

UW_C_END
#endif
