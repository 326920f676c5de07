/* SPDX-License-Identifier: Apache-2.0
 *
 * The TLS engine over Mbed TLS, 2.28 and 3.x. The first block has the differences. */
#include "secure_mbedtls.h"

#include "base/bytes.h"
#include "base/cpu.h"

#include <mbedtls/md.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/x509.h>

#include <string.h>

#if MBEDTLS_VERSION_NUMBER >= 0x03000000
#if defined(MBEDTLS_USE_PSA_CRYPTO) || defined(MBEDTLS_SSL_PROTO_TLS1_3)
#include <psa/crypto.h>
#define NEEDS_PSA 1
#else
#define NEEDS_PSA 0
#endif
static const uint16_t groups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
                                  MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
                                  MBEDTLS_SSL_IANA_TLS_GROUP_NONE};

static void only_tls_1_2(mbedtls_ssl_config *c)
{
    mbedtls_ssl_conf_min_tls_version(c, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(c, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_groups(c, groups);
}

#define ERR_NO_SUITE MBEDTLS_ERR_SSL_HANDSHAKE_FAILURE

static int prepare_library(void)
{
#if NEEDS_PSA
    return psa_crypto_init() == PSA_SUCCESS ? UW_OK : UW_ERR_IO;
#else
    return UW_OK;
#endif
}

#else
static const mbedtls_ecp_group_id groups[] = {MBEDTLS_ECP_DP_CURVE25519, MBEDTLS_ECP_DP_SECP256R1,
                                              MBEDTLS_ECP_DP_NONE};

static void only_tls_1_2(mbedtls_ssl_config *c)
{
    mbedtls_ssl_conf_min_version(c, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(c, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#if defined(MBEDTLS_ECP_C)
    mbedtls_ssl_conf_curves(c, groups);
#else
    (void)groups;
#endif
}

#define ERR_NO_SUITE MBEDTLS_ERR_SSL_NO_CIPHER_CHOSEN

static int prepare_library(void)
{
    return UW_OK;
}

#endif

/* Mbed TLS doubles its timeout up to a maximum and then gives up, here after 7.75 s. On a lossy
 * link longer timeouts would dominate a handshake. */
#define RETRANSMIT_MIN_MS 250u
#define RETRANSMIT_MAX_MS 64000u
#define PAUSE_MAX_MS 1000u
#define ALERT_FATAL 2
#define ALERT_UNKNOWN_PSK_IDENTITY 115
#define ALERT_BAD_RECORD_MAC 20
#define ALERT_DECRYPT_ERROR 51
#define ALERT_HANDSHAKE_FAILURE 40      /* no suite: the other kind of key */
#define ALERT_BAD_CERTIFICATE 42
#define ALERT_REVOKED 44
#define ALERT_UNKNOWN_CERTIFICATE 46
#define ALERT_UNKNOWN_CA 48

/* Forward secrecy first: a stolen device must not decrypt old recordings. On x86-64 with
 * Mbed TLS 2.28 it costs 2.4 ms of processor time for both ends of a handshake, against 0.1 ms
 * without ECDHE, and its records are quicker than AES-GCM's (382 against 303 MB/s for an end). The
 * others are for peers built without curves, as boards are, or ChaCha20. */
static const uint16_t suites_default[] = {
    MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_PSK_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_PSK_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_PSK_WITH_AES_128_CCM_8,
    0,
};

/* On a processor with AES instructions AES-CCM is faster, 613 MB/s, but the library has it with
 * forward secrecy only over finite fields: 10 ms for each end of a handshake, which pay off after
 * twelve megabytes. RFC 9325 advises against such suites because an end may choose a weak or old
 * group; here it is always a new key in RFC 3526's group of 2048 bits. */
#define SUITE_BULK MBEDTLS_TLS_DHE_PSK_WITH_AES_128_CCM
#define GROUP_BITS 2048u

struct uw_tls_session {
    mbedtls_ssl_context ssl;
    struct uw_tls_open how;
    struct uw_tls_engine *engine;
    struct uw_tls_peer *peer;       /* NULL: of a run key alone */
    const uint8_t *record;          /* waiting to be read, NULL: none */
    uint32_t record_bytes;
    uint64_t timer_set_us;
    uint32_t timer_soft_ms, timer_hard_ms;  /* hard == 0: no timer */
    uint8_t alert;                  /* of the last plain fatal alert */
    uint8_t key;                    /* of a client */
    bool open, up;
};

size_t uw_tls_engine_bytes(void)
{
    return sizeof(struct uw_tls_engine);
}

size_t uw_tls_session_bytes(void)
{
    return sizeof(struct uw_tls_session);
}

static const unsigned char purpose[] = "uwasa tls";
static const char proof_purpose[] = "uwasa hello ";

static int caller_entropy(void *context, unsigned char *out, size_t bytes)
{
    struct uw_tls_engine *engine = context;
    return engine->entropy(engine->user, out, bytes) == 0 ? 0 : -1;
}

/* The caller checks the cookie before it opens the session. */
static int cookie_is_checked(void *context, const unsigned char *cookie, size_t cookie_bytes,
                             const unsigned char *id, size_t id_bytes)
{
    (void)context;
    (void)cookie;
    (void)id;
    (void)id_bytes;
    return cookie_bytes == UW_WIRE_COOKIE_BYTES ? 0 : -1;
}

static int cookie_is_never_written(void *context, unsigned char **p, unsigned char *end,
                                   const unsigned char *id, size_t id_bytes)
{
    (void)context;
    (void)p;
    (void)end;
    (void)id;
    (void)id_bytes;
    return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

int uw_tls_configure(struct uw_tls_engine *engine, mbedtls_ssl_config *conf, int endpoint)
{
    if (mbedtls_ssl_config_defaults(conf, endpoint,
                                    engine->stream ? MBEDTLS_SSL_TRANSPORT_STREAM
                                                   : MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return UW_ERR_NOMEM;
    }
    only_tls_1_2(conf);
    mbedtls_ssl_conf_rng(conf, uw_tls_drbg_random, &engine->drbg);
    mbedtls_ssl_conf_ciphersuites(conf, engine->suites);
    mbedtls_ssl_conf_handshake_timeout(conf, RETRANSMIT_MIN_MS, RETRANSMIT_MAX_MS);
#if defined(MBEDTLS_SSL_DTLS_ANTI_REPLAY)
    mbedtls_ssl_conf_dtls_anti_replay(conf, MBEDTLS_SSL_ANTI_REPLAY_ENABLED);
#endif
#if defined(MBEDTLS_SSL_SESSION_TICKETS) && defined(MBEDTLS_SSL_CLI_C)
    mbedtls_ssl_conf_session_tickets(conf, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
#endif
#if defined(MBEDTLS_DHM_C) && defined(MBEDTLS_SSL_CLI_C)
    mbedtls_ssl_conf_dhm_min_bitlen(conf, GROUP_BITS);
#endif
    if (endpoint == MBEDTLS_SSL_IS_SERVER && !engine->stream) {
        mbedtls_ssl_conf_dtls_cookies(conf, cookie_is_never_written, cookie_is_checked, NULL);
    }
    return UW_OK;
}

/* Seed from the caller's entropy, or from the system's if the library supports it. */
static int seed(struct uw_tls_engine *engine)
{
#if defined(MBEDTLS_ENTROPY_C)
    mbedtls_entropy_init(&engine->system_entropy);
    if (engine->entropy == NULL) {
        return uw_tls_drbg_seed(&engine->drbg, mbedtls_entropy_func, &engine->system_entropy,
                                purpose, sizeof purpose);
    }
#endif
    return engine->entropy != NULL ? uw_tls_drbg_seed(&engine->drbg, caller_entropy, engine,
                                                      purpose, sizeof purpose)
                                   : MBEDTLS_ERR_SSL_NO_RNG;
}

void uw_tls_offer(struct uw_tls_engine *engine, bool cheap)
{
    const int *all = engine->suites + engine->served_at, *suites = all + engine->slow_n;
    mbedtls_ssl_conf_ciphersuites(&engine->conf[0], cheap && *suites != 0 ? suites : all);
}

void uw_tls_serve_suites(struct uw_tls_engine *engine, uint32_t at)
{
    engine->served_at = (uint8_t)at;
    engine->slow_n = 0;
#if defined(MBEDTLS_KEY_EXCHANGE_DHE_PSK_ENABLED)
    const int *suites = engine->suites + at;
    while (suites[engine->slow_n] == SUITE_BULK ||
           suites[engine->slow_n] == MBEDTLS_TLS_DHE_PSK_WITH_AES_128_GCM_SHA256) {
        engine->slow_n++;
    }
#endif
}

/* Choose the suites of the list that the library was built with. */
static int choose_suites(struct uw_tls_engine *engine, const struct uw_tls_keys *config)
{
    const uint16_t *suites = config->suites != NULL ? config->suites : suites_default;
    size_t n = 0;
    memset(engine->suites, 0, sizeof engine->suites);
    if (config->suites == NULL && config->bulk && uw_cpu_has_aes() &&
        mbedtls_ssl_ciphersuite_from_id(SUITE_BULK) != NULL) {
        engine->suites[n++] = SUITE_BULK;
    }
    for (; *suites != 0; suites++) {
        if (n == UW_TLS_SUITES_MAX) {
            return UW_ERR_INVALID;
        }
        if (mbedtls_ssl_ciphersuite_from_id(*suites) != NULL) {
            engine->suites[n++] = *suites;
        }
    }
    uw_tls_serve_suites(engine, 0);
    return n != 0 ? UW_OK : UW_ERR_INVALID;
}

int uw_tls_set_proof(struct uw_tls_engine *engine, uint32_t key, const char *identity,
                     const uint8_t *secret, size_t secret_bytes)
{
    uint8_t input[sizeof proof_purpose + UW_SECURE_IDENTITY_MAX];
    size_t purpose_bytes = sizeof proof_purpose - 1u, bytes = strlen(identity);
    bytes = bytes < UW_SECURE_IDENTITY_MAX ? bytes : UW_SECURE_IDENTITY_MAX;
    memcpy(input, proof_purpose, purpose_bytes);
    memcpy(input + purpose_bytes, identity, bytes);
    return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), secret, secret_bytes,
                           input, purpose_bytes + bytes, engine->proof_key[key]) == 0
               ? UW_OK
               : UW_ERR_NOMEM;
}

/* A run key alone, without struct uw_secure_keys. */
static int set_run_key(struct uw_tls_engine *engine, const struct uw_tls_keys *config)
{
    int rc = uw_tls_set_proof(engine, 0, config->identity, config->key, UW_KEY_BYTES);
    for (size_t i = 0; i < 2u && rc == UW_OK; i++) {
        rc = uw_tls_configure(engine, &engine->conf[i],
                              i == 0 ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT);
        if (rc == UW_OK && mbedtls_ssl_conf_psk(&engine->conf[i], config->key, UW_KEY_BYTES,
                                                (const unsigned char *)config->identity,
                                                strlen(config->identity)) != 0) {
            rc = UW_ERR_NOMEM;
        }
    }
    return rc;
}

static void init_configurations(struct uw_tls_engine *engine)
{
    for (size_t i = 0; i < 1u + UW_TLS_KEYS_MAX; i++) {
        mbedtls_ssl_config_init(&engine->conf[i]);
    }
}

static void free_configurations(struct uw_tls_engine *engine)
{
    for (size_t i = 0; i < 1u + UW_TLS_KEYS_MAX; i++) {
        mbedtls_ssl_config_free(&engine->conf[i]);
    }
}

bool uw_tls_turn_key(struct uw_tls_engine *engine, uint32_t key)
{
    if (key == engine->calls_with) {
        engine->calls_with = (uint8_t)((key + 1u) % engine->keys_n);
    }
    return engine->calls_with != 0;
}

int uw_tls_engine_init(struct uw_tls_engine *engine, const struct uw_tls_keys *config)
{
    int rc = choose_suites(engine, config);
    rc = rc < 0 ? rc : prepare_library();
    if (rc < 0) {
        return rc;
    }
    engine->entropy = config->entropy;
    engine->user = config->user;
    engine->stream = config->stream;
    engine->keys_n = 1;
    init_configurations(engine);
    uw_tls_drbg_init(&engine->drbg);
    engine->ready = true;
    if (seed(engine) != 0 ||
        uw_tls_drbg_random(&engine->drbg, engine->cookie_key, sizeof engine->cookie_key) != 0) {
        rc = UW_ERR_IO;
        goto out;
    }
    if (config->keys == NULL) {
        rc = set_run_key(engine, config);
    } else {
        engine->keys = config->keys;
        engine->identity = config->identity;
        rc = engine->keys->ops->configure(engine->keys, engine);
    }
out:
    if (rc < 0) {
        uw_tls_engine_deinit(engine);
    }
    return rc;
}

void uw_tls_engine_deinit(struct uw_tls_engine *engine)
{
    if (!engine->ready) {
        return;
    }
    free_configurations(engine);
    uw_tls_drbg_free(&engine->drbg);
#if defined(MBEDTLS_ENTROPY_C)
    mbedtls_entropy_free(&engine->system_entropy);
#endif
    mbedtls_platform_zeroize(engine, sizeof *engine);
}

int uw_tls_cookie(struct uw_tls_engine *engine, const char *address, uint64_t period,
                  uint8_t cookie[UW_WIRE_COOKIE_BYTES])
{
    uint8_t input[8 + UW_LINK_ADDRESS_BYTES] = {0};
    uw_put_u64(input, period);
    size_t length = strlen(address);
    length = length < UW_LINK_ADDRESS_BYTES ? length : UW_LINK_ADDRESS_BYTES;
    memcpy(input + 8, address, length);
    const mbedtls_md_info_t *sha256 = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);
    return mbedtls_md_hmac(sha256, engine->cookie_key, sizeof engine->cookie_key, input,
                           sizeof input, cookie) == 0
               ? UW_OK
               : UW_ERR_NOMEM;
}

int uw_tls_set_keys(struct uw_tls_engine *engine)
{
    free_configurations(engine);
    init_configurations(engine);
    engine->calls_with = 0;
    return engine->keys->ops->configure(engine->keys, engine);
}

static int prove(struct uw_tls_engine *engine, uint32_t key, const struct uw_wire_hello *hello,
                 uint8_t proof[UW_WIRE_PROOF_BYTES])
{
    uint8_t input[UW_WIRE_COOKIE_BYTES + UW_WIRE_RANDOM_BYTES], hash[32];
    if (hello->cookie_bytes != UW_WIRE_COOKIE_BYTES) {
        return UW_ERR_INVALID;
    }
    memcpy(input, hello->cookie, UW_WIRE_COOKIE_BYTES);
    memcpy(input + UW_WIRE_COOKIE_BYTES, hello->random, UW_WIRE_RANDOM_BYTES);
    if (mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), engine->proof_key[key],
                        sizeof engine->proof_key[key], input, sizeof input, hash) != 0) {
        return UW_ERR_NOMEM;
    }
    memcpy(proof, hash, UW_WIRE_PROOF_BYTES);
    return UW_OK;
}

int uw_tls_prove(struct uw_tls_session *session, const struct uw_wire_hello *hello,
                 uint8_t proof[UW_WIRE_PROOF_BYTES])
{
    return prove(session->engine, session->key, hello, proof);
}

bool uw_tls_is_proof(struct uw_tls_engine *engine, const struct uw_wire_hello *hello,
                     const uint8_t proof[UW_WIRE_PROOF_BYTES])
{
    uint8_t expected[UW_WIRE_PROOF_BYTES];
    bool found = false;
    for (uint32_t i = 0; i < engine->keys_n; i++) {
        found = found || (prove(engine, i, hello, expected) == UW_OK &&
                          uw_tls_equal(expected, proof, sizeof expected));
    }
    return found;
}

bool uw_tls_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < bytes; i++) {
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    }
    return difference == 0;
}

static int bio_send(void *context, const unsigned char *bytes, size_t size_bytes)
{
    struct uw_tls_session *session = context;
    session->how.output(session->how.owner, bytes, (uint32_t)size_bytes);
    return (int)size_bytes;
}

static int bio_recv(void *context, unsigned char *out, size_t cap_bytes)
{
    struct uw_tls_session *session = context;
    if (session->record == NULL || session->record_bytes > cap_bytes) {
        session->record = NULL;
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    memcpy(out, session->record, session->record_bytes);
    session->record = NULL;
    return (int)session->record_bytes;
}

static void set_timer(void *context, uint32_t soft_ms, uint32_t hard_ms)
{
    struct uw_tls_session *session = context;
    session->timer_set_us = *session->how.now_us;
    session->timer_soft_ms = soft_ms < PAUSE_MAX_MS ? soft_ms : PAUSE_MAX_MS;
    session->timer_hard_ms = hard_ms < PAUSE_MAX_MS ? hard_ms : PAUSE_MAX_MS;
}

/* -1: no timer, 0: running, 1: the soft time has passed, 2: the hard one as well. */
static int get_timer(void *context)
{
    const struct uw_tls_session *session = context;
    if (session->timer_hard_ms == 0) {
        return -1;
    }
    uint64_t passed_us = *session->how.now_us - session->timer_set_us;
    if (passed_us >= session->timer_hard_ms * UINT64_C(1000)) {
        return 2;
    }
    return passed_us >= session->timer_soft_ms * UINT64_C(1000) ? 1 : 0;
}

uint64_t uw_tls_due_us(const struct uw_tls_session *session)
{
    if (!session->open || session->timer_hard_ms == 0) {
        return UINT64_MAX;
    }
    return session->timer_set_us + session->timer_hard_ms * UINT64_C(1000);
}

int uw_tls_open(struct uw_tls_session *session, struct uw_tls_engine *engine,
                const struct uw_tls_open *how)
{
    memset(session, 0, sizeof *session);
    session->how = *how;
    session->engine = engine;
    session->key = engine->calls_with;
    mbedtls_ssl_init(&session->ssl);
    session->open = true;
    if (!how->client) {
        uw_tls_offer(engine, how->cheap);
    }
    int rc = mbedtls_ssl_setup(&session->ssl,
                               &engine->conf[how->client ? 1u + session->key : 0]) == 0
                 ? UW_OK
                 : UW_ERR_NOMEM;
    if (rc == UW_OK && engine->keys != NULL) {
        rc = engine->keys->ops->open(engine->keys, &session->ssl, session->key, how->client,
                                     &session->peer);
    }
    if (rc < 0) {
        uw_tls_close(session, false);
        return rc;
    }
    mbedtls_ssl_set_bio(&session->ssl, session, bio_send, bio_recv, NULL);
    mbedtls_ssl_set_timer_cb(&session->ssl, session, set_timer, get_timer);
    mbedtls_ssl_set_mtu(&session->ssl, (uint16_t)(how->mtu_bytes < UINT16_MAX ? how->mtu_bytes
                                                                              : UINT16_MAX));
    if (!how->client && mbedtls_ssl_set_client_transport_id(
                            &session->ssl, (const unsigned char *)how->address,
                            strlen(how->address)) != 0) {
        uw_tls_close(session, false);
        return UW_ERR_NOMEM;
    }
    return UW_OK;
}

enum uw_tls_result uw_tls_explain(int code, int alert)
{
    switch (code) {
    case MBEDTLS_ERR_SSL_WANT_READ:
    case MBEDTLS_ERR_SSL_WANT_WRITE:
        return UW_TLS_WAIT;
    case MBEDTLS_ERR_SSL_TIMEOUT:
        return UW_TLS_TIMEOUT;
    case 0:
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
    case MBEDTLS_ERR_SSL_CONN_EOF:
        return UW_TLS_CLOSED;
    case MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY:
        return UW_TLS_BAD_IDENTITY;
    case MBEDTLS_ERR_SSL_INVALID_MAC:
        return UW_TLS_BAD_KEY;
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return alert == ALERT_UNKNOWN_PSK_IDENTITY ? UW_TLS_BAD_IDENTITY
               : alert == ALERT_REVOKED            ? UW_TLS_REVOKED
               : alert == ALERT_BAD_RECORD_MAC || alert == ALERT_DECRYPT_ERROR ||
                       alert == ALERT_HANDSHAKE_FAILURE ||
                       (alert >= ALERT_BAD_CERTIFICATE && alert <= ALERT_UNKNOWN_CERTIFICATE) ||
                       alert == ALERT_UNKNOWN_CA
                   ? UW_TLS_BAD_KEY
                   : UW_TLS_FAILED;
    case ERR_NO_SUITE:              /* the other kind of key */
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        return UW_TLS_BAD_KEY;
    default:
        return UW_TLS_FAILED;
    }
}

enum uw_tls_result uw_tls_explain_to(const struct uw_tls_engine *engine,
                                     const struct uw_tls_peer *peer, int code, int alert)
{
    enum uw_tls_result result = uw_tls_explain(code, alert);
    if (peer == NULL) {
        return result != UW_TLS_REVOKED ? result : UW_TLS_FAILED;   /* a run key cannot be */
    }
    if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED) {
        result = engine->keys->ops->is_revoked(peer) ? UW_TLS_REVOKED : UW_TLS_BAD_KEY;
    }
    return result;
}

enum uw_tls_result uw_tls_drive(struct uw_tls_session *session)
{
    if (session->up) {
        return UW_TLS_WAIT;
    }
    int code = mbedtls_ssl_handshake(&session->ssl);
    if (code == 0 && uw_tls_handshake_over(&session->ssl)) {
        session->up = true;
        return UW_TLS_UP;
    }
    enum uw_tls_result result =
        code == 0 ? UW_TLS_WAIT
                  : uw_tls_explain_to(session->engine, session->peer, code, session->alert);
    if (result == UW_TLS_BAD_KEY && session->how.client) {
        (void)uw_tls_turn_key(session->engine, session->key);
    }
    return result;
}

enum uw_tls_result uw_tls_feed(struct uw_tls_session *session, const struct uw_wire_record *r,
                               struct uw_tls_message *m)
{
    const uint8_t *body = r->bytes + UW_WIRE_RECORD_BYTES;
    if (r->type == UW_RECORD_ALERT && r->epoch == 0 && r->size_bytes == UW_WIRE_RECORD_BYTES + 2u &&
        body[0] == ALERT_FATAL) {
        session->alert = body[1];
    }
    session->record = r->bytes;
    session->record_bytes = r->size_bytes;
    enum uw_tls_result result;
    if (!session->up) {
        result = uw_tls_drive(session);
    } else {
        int n = mbedtls_ssl_read(&session->ssl, &m->mark, 1);
        if (n > 0) {
            m->rest = uw_tls_rest(&session->ssl, &m->rest_bytes);
        }
        result = n > 0 ? UW_TLS_DATA : uw_tls_explain(n, session->alert);
        if (result == UW_TLS_BAD_KEY) {
            result = UW_TLS_FAILED;
        }
    }
    session->record = NULL;
    return result;
}

int uw_tls_write(struct uw_tls_session *session, const uint8_t *bytes, uint32_t size_bytes)
{
    int n = mbedtls_ssl_write(&session->ssl, bytes, size_bytes);
    return n == (int)size_bytes ? UW_OK : UW_ERR_IO;
}

uint16_t uw_tls_suite(const struct uw_tls_session *session)
{
    return (uint16_t)mbedtls_ssl_get_ciphersuite_id(mbedtls_ssl_get_ciphersuite(&session->ssl));
}

const char *uw_tls_why(const struct uw_tls_session *session)
{
    return session->peer != NULL ? session->engine->keys->ops->why(session->peer) : "";
}

bool uw_tls_is_void(struct uw_tls_session *session)
{
    return session->peer != NULL && session->engine->keys->ops->is_void(session->peer);
}

void uw_tls_close(struct uw_tls_session *session, bool notify)
{
    if (!session->open) {
        return;
    }
    if (notify && session->up) {
        (void)mbedtls_ssl_close_notify(&session->ssl);
    }
    mbedtls_ssl_free(&session->ssl);
    if (session->peer != NULL) {
        session->engine->keys->ops->close(session->peer);
        session->peer = NULL;
    }
    session->open = false;
    session->up = false;
}
