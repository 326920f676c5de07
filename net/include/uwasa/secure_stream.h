/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_stream.h - TLS 1.2 with the run's key, for the connections of the TCP link
 *
 *     uw_secure_stream_init(&tls, &config);
 *     tcp_config.guard = &tls.guard;          the link is then `secure`
 *     uw_link_tcp_init(&tcp, &tcp_config, &err);
 *     ...
 *     uw_link_deinit(&tcp.link);
 *     uw_secure_stream_deinit(&tls);
 *
 * The end that connects is the client. Both ends prove that they hold the key before the first
 * message. A peer of another run or without the key is refused and reported now and then. Every
 * connection has its own session keys. A changed, missing or repeated record ends its connection.
 * While unknown peers have used half of the burst of handshakes, expensive ones (bulk) are not
 * offered to them.
 *
 * Units      bytes
 * Memory     caller supplies uw_secure_stream_bytes(), borrowed until deinit; Mbed TLS allocates
 *            its buffers from its own allocator (40 KB a connection with Debian's 2.28)
 * Blocking   never          Context  the link's thread
 * Source     RFC 5246 (TLS 1.2), RFC 4279 (pre-shared keys), RFC 7905 (ChaCha20-Poly1305)
 */
#ifndef UWASA_SECURE_STREAM_H
#define UWASA_SECURE_STREAM_H

#include "uwasa/cplusplus.h"
#include "uwasa/link_tcp.h"
#include "uwasa/secure.h"

UW_C_BEGIN

struct uw_secure_stream_config {
    struct uw_secure_keys *keys;        /* as in struct uw_secure_dtls_config */
    uint8_t key[UW_KEY_BYTES];
    const char *identity;               /* the run's name, sent in the clear; 1 to 64 bytes */
    void *memory;                       /* aligned as from malloc or an arena */
    size_t memory_bytes;
    const uint16_t *suites;             /* as in struct uw_secure_dtls_config */
    bool bulk;                          /* as there */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);     /* as there */
    /* Reports peers that are up or refused, from inside the link's calls; station is
     * UW_LINK_STATION_NONE. Must not call the link. May be NULL. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
};

struct uw_secure_stream_stats {
    uint64_t handshakes_n;      /* completed */
    uint64_t refused_n;         /* wrong key, a revoked one, or wrong run */
    uint64_t failed_n;          /* other errors */
};

struct uw_secure_stream {
    struct uw_stream_guard guard;
    struct uw_tls_engine *tls;
    struct uw_secure_keys *keys;
    /* As in the configuration. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
    uint32_t quiet_n;           /* refusals since the last report */
    uint16_t suite;             /* IANA number of the last handshake's suite; 0: none yet */
    char identity[UW_SECURE_IDENTITY_MAX + 1];
    struct uw_secure_stream_stats stats;
};

/* Bytes of memory for a configuration; SIZE_MAX when it is not allowed. */
size_t uw_secure_stream_bytes(const struct uw_secure_stream_config *config);

/* Set up. The key is copied.
 *
 * Returns UW_OK, UW_ERR_INVALID (identity too long or empty, no suite), UW_ERR_NOMEM (memory, or
 * Mbed TLS's own), UW_ERR_IO (no entropy). */
int uw_secure_stream_init(struct uw_secure_stream *s,
                          const struct uw_secure_stream_config *config);

/* Wipe the keys and free the library's memory. Deinit the links that use it first. Safe on a zeroed
 * struct and twice. */
void uw_secure_stream_deinit(struct uw_secure_stream *s);

UW_C_END
#endif
