/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_mbedtls.h - Mbed TLS, 2.28 and 3.x, for the files that wrap it
 *
 * secure_mbedtls.c has the engine and sessions over datagrams, secure_mbedtls_stream.c those over
 * streams. */
#ifndef UW_NET_SECURE_MBEDTLS_H
#define UW_NET_SECURE_MBEDTLS_H

#include "secure_tls.h"

#include "uwasa/secure_keys.h"

#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#if defined(MBEDTLS_ENTROPY_C)
#include <mbedtls/entropy.h>
#endif

/* The library's deterministic generator: by AES, or by SHA-256 on boards without AES. */
#if defined(MBEDTLS_CTR_DRBG_C)
#include <mbedtls/ctr_drbg.h>
typedef mbedtls_ctr_drbg_context uw_tls_drbg;
#define uw_tls_drbg_init mbedtls_ctr_drbg_init
#define uw_tls_drbg_free mbedtls_ctr_drbg_free
#define uw_tls_drbg_random mbedtls_ctr_drbg_random
#define uw_tls_drbg_seed mbedtls_ctr_drbg_seed
#else
#include <mbedtls/hmac_drbg.h>
typedef mbedtls_hmac_drbg_context uw_tls_drbg;
#define uw_tls_drbg_init mbedtls_hmac_drbg_init
#define uw_tls_drbg_free mbedtls_hmac_drbg_free
#define uw_tls_drbg_random mbedtls_hmac_drbg_random
#define uw_tls_drbg_seed(drbg, ...) \
    mbedtls_hmac_drbg_seed(drbg, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), __VA_ARGS__)
#endif

#ifndef MBEDTLS_PRIVATE                 /* of 3.x */
#define MBEDTLS_PRIVATE(member) member
#endif

#define UW_TLS_SUITES_MAX 8u

/* Certificates and a second key are for programs of operating systems. */
#if defined(MBEDTLS_X509_CRT_PARSE_C)
#define UW_TLS_KEYS_MAX UW_SECURE_KEYS_MAX
#define UW_TLS_SUITES_ALL (2u * (UW_TLS_SUITES_MAX + 1u) + 3u)
#else
#define UW_TLS_KEYS_MAX 1u
#define UW_TLS_SUITES_ALL (UW_TLS_SUITES_MAX + 1u)
#endif

struct uw_tls_engine {
    mbedtls_ssl_config conf[1u + UW_TLS_KEYS_MAX];  /* server, client of each key */
    uw_tls_drbg drbg;
#if defined(MBEDTLS_ENTROPY_C)
    mbedtls_entropy_context system_entropy;
#endif
    int suites[UW_TLS_SUITES_ALL];  /* of run keys, 0, and behind these: those of servers, if there
                                       are device keys, 0 */
    uint8_t cookie_key[32];
    uint8_t proof_key[UW_TLS_KEYS_MAX][32];         /* of a key and the run's name */
    struct uw_secure_keys *keys;    /* NULL: one run key */
    const char *identity;           /* set with keys, as `loads_n` */
    uint32_t loads_n;               /* of keys: those that are set */
    bool stream;
    uint8_t keys_n, calls_with;     /* the key that is shown to peers */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    void *user;
    bool ready;
    uint8_t slow_n;                 /* number of expensive suites of servers, which are the first */
    uint8_t served_at;              /* where those are in suites */
};

/* Set the suites of servers: those that begin there. */
void uw_tls_serve_suites(struct uw_tls_engine *engine, uint32_t at);

/* Set what all configurations have in common; no keys. Returns UW_OK or UW_ERR_NOMEM. */
int uw_tls_configure(struct uw_tls_engine *engine, mbedtls_ssl_config *conf, int endpoint);

/* Set the proof of a key. Returns UW_OK or UW_ERR_NOMEM. */
int uw_tls_set_proof(struct uw_tls_engine *engine, uint32_t key, const char *identity,
                     const uint8_t *secret, size_t bytes);

/* The peer refused the key that it was shown: show it the next one. Returns whether there is one
 * that was not shown since. */
bool uw_tls_turn_key(struct uw_tls_engine *engine, uint32_t key);

/* What a code means for a session with this peer, which may be NULL. */
enum uw_tls_result uw_tls_explain_to(const struct uw_tls_engine *engine,
                                     const struct uw_tls_peer *peer, int code, int alert);

/* Set the suites that servers offer: with `cheap` no expensive ones, if there are others. For all
 * sessions of the engine until the next call. */
void uw_tls_offer(struct uw_tls_engine *engine, bool cheap);

/* Map a code of the library to a result. alert: the fatal alert received unencrypted, or 0. */
enum uw_tls_result uw_tls_explain(int code, int alert);

static inline bool uw_tls_handshake_over(const mbedtls_ssl_context *ssl)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    return mbedtls_ssl_is_handshake_over((mbedtls_ssl_context *)(uintptr_t)ssl) != 0;
#else
    return ssl->state == MBEDTLS_SSL_HANDSHAKE_OVER;
#endif
}

/* Take the rest of the record that mbedtls_ssl_read began, without a copy: it stays in the
 * library's buffer until the next record is read. */
static inline uint8_t *uw_tls_rest(mbedtls_ssl_context *ssl, uint32_t *bytes)
{
    uint8_t *rest = ssl->MBEDTLS_PRIVATE(in_offt);
    *bytes = (uint32_t)ssl->MBEDTLS_PRIVATE(in_msglen);
    if (rest != NULL) {                 /* else the record has ended */
        ssl->MBEDTLS_PRIVATE(in_offt) = NULL;
        ssl->MBEDTLS_PRIVATE(in_msglen) = 0;
        ssl->MBEDTLS_PRIVATE(keep_current_message) = 0;
    }
    return rest;
}

#endif
