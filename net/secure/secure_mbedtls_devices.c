/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node's keys do to engines and sessions: suites and configurations, the check of a peer's
 * certificate, the end of sessions when keys change.
 *
 * A client names its key by the extension for host names, in which servers of earlier versions are
 * not interested: so a server with two keys knows which one is meant. */
#include "key_set.h"
#include "secure_slots.h"

#include "base/cpu.h"

#include <mbedtls/platform.h>
#include <mbedtls/ssl_ciphersuites.h>

#include <stdio.h>
#include <string.h>

#define SERVED_AT (UW_TLS_SUITES_MAX + 1u)

struct uw_tls_peer {
    struct uw_secure_keys *keys;
    uint32_t loads_n, changes_n;    /* of keys, at the last check */
    bool is_device, is_revoked;
    uint32_t root_id;
    char name[UW_DEVICE_NAME_BYTES];
    char why[128];
};

/* With forward secrecy, the fastest first. AES-CCM only where the processor has AES, at both ends:
 * see SUITE_BULK in secure_mbedtls.c, whose exchange over finite fields these do not need. */
static uint32_t device_suites(int *suites)
{
    static const int known[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_CCM,
                                MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                                MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256};
    uint32_t n = 0;
    for (size_t i = uw_cpu_has_aes() ? 0 : 1; i < sizeof known / sizeof known[0]; i++) {
        if (mbedtls_ssl_ciphersuite_from_id(known[i]) != NULL) {
            suites[n++] = known[i];
        }
    }
    suites[n] = 0;
    return n;
}

/* Servers take the suites of all kinds of keys. Returns where those of devices begin. */
static const int *set_suites(struct uw_tls_engine *engine, bool has_run_key, bool has_device)
{
    int *served = engine->suites + SERVED_AT;
    uint32_t n = 0;
    while (has_run_key && engine->suites[n] != 0) {
        served[n] = engine->suites[n];
        n++;
    }
    served[n] = 0;
    if (has_device) {
        (void)device_suites(served + n);
    }
    uw_tls_serve_suites(engine, SERVED_AT);
    return served + n;
}

/* A client has named a key: use it. An unknown name changes nothing. */
static int on_label(void *context, mbedtls_ssl_context *ssl, const unsigned char *label,
                    size_t bytes)
{
    struct uw_tls_engine *engine = context;
    struct uw_key_set *set = engine->keys->set;
    for (uint32_t i = 0; i < set->keys_n; i++) {
        struct uw_device_key *key = &set->key[i];
        if (bytes != strlen(key->label) || memcmp(label, key->label, bytes) != 0) {
            continue;
        }
        return key->is_device ? mbedtls_ssl_set_hs_own_cert(ssl, &key->certificate, &key->own)
                              : mbedtls_ssl_set_hs_psk(ssl, key->run_key, UW_KEY_BYTES);
    }
    return 0;
}

static int add_key(struct uw_tls_engine *engine, mbedtls_ssl_config *conf,
                   struct uw_device_key *key)
{
    if (!key->is_device) {
        return mbedtls_ssl_conf_psk(conf, key->run_key, UW_KEY_BYTES,
                                    (const unsigned char *)engine->identity,
                                    strlen(engine->identity));
    }
    mbedtls_ssl_conf_authmode(conf, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(conf, &engine->keys->set->roots, NULL);
    return mbedtls_ssl_conf_own_cert(conf, &key->certificate, &key->own);
}

static int prove_with(struct uw_tls_engine *engine, uint32_t i, const struct uw_device_key *key)
{
    /* Only devices have the root's certificate, which has a random number and is never sent. */
    const mbedtls_x509_buf *root = &key->root.raw;
    uint8_t secret[32];
    if (!key->is_device) {
        return uw_tls_set_proof(engine, i, engine->identity, key->run_key, UW_KEY_BYTES);
    }
    return uw_sha256(root->p, root->len, secret) == 0
               ? uw_tls_set_proof(engine, i, engine->identity, secret, sizeof secret)
               : UW_ERR_NOMEM;
}

static int configure_server(struct uw_tls_engine *engine)
{
    struct uw_key_set *set = engine->keys->set;
    mbedtls_ssl_config *conf = &engine->conf[0];
    bool has[2] = {false, false};       /* the first of each kind, unless the client names one */
    int rc = uw_tls_configure(engine, conf, MBEDTLS_SSL_IS_SERVER);
    for (uint32_t i = 0; i < set->keys_n && rc == UW_OK; i++) {
        if (!has[set->key[i].is_device]) {
            has[set->key[i].is_device] = true;
            rc = add_key(engine, conf, &set->key[i]) == 0 ? UW_OK : UW_ERR_NOMEM;
        }
    }
    mbedtls_ssl_conf_cert_req_ca_list(conf, MBEDTLS_SSL_CERT_REQ_CA_LIST_DISABLED);
    mbedtls_ssl_conf_sni(conf, on_label, engine);
    return rc;
}

static int configure(struct uw_secure_keys *k, struct uw_tls_engine *engine)
{
    struct uw_key_set *set = k->set;
    bool has[2] = {false, false};
    for (uint32_t i = 0; i < set->keys_n; i++) {
        has[set->key[i].is_device] = true;
    }
    engine->keys_n = (uint8_t)set->keys_n;
    engine->loads_n = k->loads_n;
    const int *for_devices = set_suites(engine, has[0], has[1]);
    int rc = configure_server(engine);
    uw_tls_offer(engine, false);
    for (uint32_t i = 0; i < set->keys_n && rc == UW_OK; i++) {
        struct uw_device_key *key = &set->key[i];
        mbedtls_ssl_config *conf = &engine->conf[1u + i];
        rc = uw_tls_configure(engine, conf, MBEDTLS_SSL_IS_CLIENT);
        rc = rc < 0 ? rc : prove_with(engine, i, key);
        if (rc == UW_OK && add_key(engine, conf, key) != 0) {
            rc = UW_ERR_NOMEM;
        }
        mbedtls_ssl_conf_ciphersuites(conf, key->is_device ? for_devices : engine->suites);
    }
    return rc;
}

/* ---- sessions ---- */

static void mark_revoked(struct uw_tls_peer *peer)
{
    peer->is_revoked = true;
    snprintf(peer->why, sizeof peer->why, "it is device %s, whose key is revoked", peer->name);
}

/* The root comes first, the device's certificate last. */
static int verify(void *context, mbedtls_x509_crt *c, int depth, uint32_t *flags)
{
    struct uw_tls_peer *peer = context;
    *flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE |
                          MBEDTLS_X509_BADCERT_CN_MISMATCH);     /* the name is a label */
    if (depth == 1) {
        peer->root_id = uw_root_id(c);
        peer->is_device = *flags == 0;
    } else if (*flags == 0 &&
               (depth > 1 || !peer->is_device || !uw_read_name(c, peer->name))) {
        *flags |= MBEDTLS_X509_BADCERT_OTHER;
    } else if (*flags == 0 && uw_keys_revoke(peer->keys, peer->root_id, peer->name)) {
        *flags |= MBEDTLS_X509_BADCERT_REVOKED;
        mark_revoked(peer);
    }
    return 0;
}

static int open_peer(struct uw_secure_keys *k, void *ssl, uint8_t key, bool client,
                     struct uw_tls_peer **out)
{
    struct uw_tls_peer *peer = mbedtls_calloc(1, sizeof *peer);
    if (peer == NULL) {
        return UW_ERR_NOMEM;
    }
    *out = peer;
    peer->keys = k;
    peer->loads_n = k->loads_n;
    peer->changes_n = k->changes_n;
    mbedtls_ssl_set_verify(ssl, verify, peer);
    return !client || mbedtls_ssl_set_hostname(ssl, k->set->key[key].label) == 0 ? UW_OK
                                                                                : UW_ERR_NOMEM;
}

static void close_peer(struct uw_tls_peer *peer)
{
    mbedtls_free(peer);
}

static bool is_void(struct uw_tls_peer *peer)
{
    const struct uw_secure_keys *k = peer->keys;
    if (peer->changes_n != k->changes_n && peer->loads_n == k->loads_n) {
        peer->changes_n = k->changes_n;
        if (peer->is_device && uw_keys_revoke(k, peer->root_id, peer->name)) {
            mark_revoked(peer);
        }
    }
    return peer->loads_n != k->loads_n || peer->is_revoked;
}

static bool is_revoked(const struct uw_tls_peer *peer)
{
    return peer->is_revoked;
}

static const char *why(const struct uw_tls_peer *peer)
{
    return peer->is_revoked                       ? peer->why
           : peer->loads_n != peer->keys->loads_n ? "this node has loaded its keys again"
                                                  : "it says that this device's key is revoked";
}

static void follow(struct uw_secure_dtls *s)
{
    bool loaded = s->tls->loads_n != s->keys->loads_n;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state == UW_SECURE_FREE || !uw_tls_is_void(slot->tls)) {
            continue;
        }
        if (slot->state == UW_SECURE_UP) {
            uw_secure_end(slot, uw_tls_why(slot->tls), true);
        } else {
            uw_secure_release(slot, false);
        }
    }
    if (loaded) {
        (void)uw_tls_set_keys(s->tls);      /* without memory: no handshake succeeds */
    }
}

static const struct uw_secure_keys_ops device_ops = {
    .configure = configure,
    .open = open_peer,
    .close = close_peer,
    .is_void = is_void,
    .is_revoked = is_revoked,
    .why = why,
    .follow = follow,
    .revoke = uw_secure_keys_revoke,
};

int uw_secure_keys_init(struct uw_secure_keys *k, const char *text, struct uw_error *err)
{
    memset(k, 0, sizeof *k);
    int rc = uw_secure_keys_load(k, text, err);
    k->ops = &device_ops;
    return rc < 0 ? rc : UW_OK;
}
