/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over streams: sessions of Mbed TLS as a guard of the TCP link. */
#include "secure_mbedtls.h"
#include "link/stream_guard.h"

#include "uwasa/secure_stream.h"

#include <stdio.h>
#include <string.h>

#define RECORD_BYTES 16384u
#define OVERHEAD_BYTES 64u          /* record header 5, explicit nonce 8, tag 16 */
#define HANDSHAKE_BYTES 4096u
#define READ_AHEAD_BYTES 65536u     /* reads many records in one call */
#define HEAD_BYTES 5u               /* of a record */
#define BULK_BYTES 8192u            /* larger records are read to the library's buffer */
#define ALERT_FATAL 2u
#define REPORT_EVERY 64u            /* refusals: the first is reported, then one of so many */

struct session {
    mbedtls_ssl_context ssl;
    struct uw_tls_peer *peer;       /* NULL: of a run key alone */
    struct uw_stream_io io;
    bool open, client, cheap;
    uint8_t key;                    /* of a client */
    bool in_head, bulk;             /* the library reads a header; the last record is large */
    char address[UW_LINK_ADDRESS_BYTES];
    uint32_t at, end;               /* of what was read ahead */
    uint8_t ahead[READ_AHEAD_BYTES];
};

static int bio_send(void *context, const unsigned char *bytes, size_t size_bytes)
{
    const struct session *t = context;
    return t->io.write(t->io.arg, bytes, (uint32_t)size_bytes) == UW_OK
               ? (int)size_bytes
               : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static int bio_recv(void *context, unsigned char *out, size_t cap_bytes)
{
    struct session *t = context;
    bool head = cap_bytes <= HEAD_BYTES;
    t->bulk = t->in_head && !head ? cap_bytes >= BULK_BYTES : t->bulk;
    t->in_head = head;
    if (t->at == t->end) {
        bool direct = t->bulk && !head;     /* behind a large record there is another */
        uint32_t most = direct ? (uint32_t)cap_bytes : t->bulk ? HEAD_BYTES : READ_AHEAD_BYTES;
        int n = t->io.read(t->io.arg, direct ? out : t->ahead, most);
        if (n <= 0) {
            return n == UW_ERR_AGAIN ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_CONN_EOF;
        }
        if (direct) {
            return n;
        }
        t->at = 0;
        t->end = (uint32_t)n;
    }
    size_t n = t->end - t->at < cap_bytes ? t->end - t->at : cap_bytes;
    memcpy(out, t->ahead + t->at, n);
    t->at += (uint32_t)n;
    return (int)n;
}

static struct uw_secure_stream *owner_of(struct uw_stream_guard *g)
{
    return (struct uw_secure_stream *)g;    /* its first member */
}

static uint32_t stream_session_bytes(void)
{
    return sizeof(struct session);
}

static void stream_close(struct uw_stream_guard *g, void *session)
{
    struct session *t = session;
    if (t->open) {
        mbedtls_ssl_free(&t->ssl);
        t->open = false;
        if (t->peer != NULL) {
            owner_of(g)->keys->ops->close(t->peer);
            t->peer = NULL;
        }
    }
}

static int stream_open(struct uw_stream_guard *g, void *session, const struct uw_stream_io *io,
                       bool client, bool cheap, const char *address)
{
    struct session *t = session;
    struct uw_secure_stream *s = owner_of(g);
    int rc = UW_OK;
    if (s->keys != NULL && s->keys->loads_n != s->tls->loads_n) {
        rc = uw_tls_set_keys(s->tls);
    }
    t->client = client;
    t->key = s->tls->calls_with;
    t->peer = NULL;
    t->cheap = cheap;
    t->io = *io;
    t->at = t->end = 0;
    t->in_head = t->bulk = false;
    t->open = true;
    snprintf(t->address, sizeof t->address, "%s", address);
    mbedtls_ssl_init(&t->ssl);
    if (rc == UW_OK &&
        mbedtls_ssl_setup(&t->ssl, &s->tls->conf[client ? 1u + t->key : 0]) != 0) {
        rc = UW_ERR_NOMEM;
    }
    if (rc == UW_OK && s->keys != NULL) {
        rc = s->keys->ops->open(s->keys, &t->ssl, t->key, client, &t->peer);
    }
    if (rc < 0) {
        stream_close(g, t);
        return rc;
    }
    mbedtls_ssl_set_bio(&t->ssl, t, bio_send, bio_recv, NULL);
    return UW_OK;
}

/* The format has the address and one more text. */
static void report(struct uw_secure_stream *s, enum uw_secure_event_kind kind,
                   const char *format, const char *address, const char *more)
{
    char text[UW_SECURE_TEXT_BYTES];
    if (s->event != NULL) {
        snprintf(text, sizeof text, format, address, more);
        const struct uw_secure_event event = {.kind = kind, .station = UW_LINK_STATION_NONE,
                                              .text = text};
        s->event(s->user, &event);
    }
}

/* Report a peer with another key or of another run, limited so that it cannot fill a log. Not if
 * this end called it and has another key to try. */
static int refuse(struct uw_secure_stream *s, const struct session *t, enum uw_tls_result result)
{
    s->stats.refused_n++;
    if (result == UW_TLS_BAD_KEY && t->client && uw_tls_turn_key(s->tls, t->key)) {
        return UW_ERR_DENIED;
    }
    if (s->quiet_n++ % REPORT_EVERY != 0) {
        return UW_ERR_DENIED;
    }
    if (result == UW_TLS_REVOKED) {
        report(s, UW_SECURE_PEER_REFUSED, "peer %s: %s", t->address, s->keys->ops->why(t->peer));
    } else {
        report(s, UW_SECURE_PEER_REFUSED,
               result == UW_TLS_BAD_IDENTITY ? "peer %s belongs to another run, not to \"%s\""
                                             : "peer %s does not hold this run's key",
               t->address, s->identity);
    }
    return UW_ERR_DENIED;
}

/* Whether a session must end because keys have changed, which is then reported. */
static bool is_over(struct uw_secure_stream *s, const struct session *t)
{
    bool over = t->peer != NULL && s->keys->ops->is_void(t->peer);
    if (over) {
        report(s, UW_SECURE_PEER_CLOSED, "session with peer %s ended: %s", t->address,
               s->keys->ops->why(t->peer));
    }
    return over;
}

/* The alert that ended a handshake, from the last record: the library does not return it. */
static int alert_of(const struct session *t)
{
    return t->at >= 2 && t->ahead[t->at - 2u] == ALERT_FATAL ? t->ahead[t->at - 1u] : 0;
}

static int stream_handshake(struct uw_stream_guard *g, void *session)
{
    struct uw_secure_stream *s = owner_of(g);
    struct session *t = session;
    if (t->peer != NULL && s->keys->ops->is_void(t->peer)) {
        return UW_ERR_DENIED;
    }
    if (!t->client) {
        uw_tls_offer(s->tls, t->cheap);
    }
    int code = mbedtls_ssl_handshake(&t->ssl);
    if (code == 0 && uw_tls_handshake_over(&t->ssl)) {
        s->stats.handshakes_n++;
        s->suite = (uint16_t)mbedtls_ssl_get_ciphersuite_id(mbedtls_ssl_get_ciphersuite(&t->ssl));
        report(s, UW_SECURE_PEER_UP, "peer %s authenticated", t->address, "");
        return UW_OK;
    }
    enum uw_tls_result result = code == 0 ? UW_TLS_WAIT
                                          : uw_tls_explain_to(s->tls, t->peer, code, alert_of(t));
    if (result == UW_TLS_WAIT) {
        return UW_ERR_AGAIN;
    }
    if (result == UW_TLS_BAD_IDENTITY || result == UW_TLS_BAD_KEY || result == UW_TLS_REVOKED) {
        return refuse(s, t, result);
    }
    s->stats.failed_n++;
    return UW_ERR_CORRUPT;
}

static int stream_read(struct uw_stream_guard *g, void *session, uint8_t *buf, uint32_t cap_bytes)
{
    struct session *t = session;
    if (is_over(owner_of(g), t)) {
        return UW_ERR_CLOSED;
    }
    int n = mbedtls_ssl_read(&t->ssl, buf, cap_bytes);
    if (n > 0) {
        return n;
    }
    enum uw_tls_result result = uw_tls_explain(n, 0);
    return result == UW_TLS_WAIT     ? UW_ERR_AGAIN
           : result == UW_TLS_CLOSED ? UW_ERR_CLOSED
                                     : UW_ERR_CORRUPT;
}

static int stream_write(struct uw_stream_guard *g, void *session, const uint8_t *buf,
                        uint32_t bytes)
{
    struct session *t = session;
    return !is_over(owner_of(g), t) && mbedtls_ssl_write(&t->ssl, buf, bytes) == (int)bytes
               ? UW_OK
               : UW_ERR_IO;
}

static const struct uw_stream_guard_ops stream_ops = {
    .record_bytes = RECORD_BYTES,
    .overhead_bytes = OVERHEAD_BYTES,
    .handshake_bytes = HANDSHAKE_BYTES,
    .session_bytes = stream_session_bytes,
    .open = stream_open,
    .handshake = stream_handshake,
    .read = stream_read,
    .write = stream_write,
    .close = stream_close,
};

size_t uw_secure_stream_bytes(const struct uw_secure_stream_config *config)
{
    return config != NULL && config->identity != NULL && config->identity[0] != '\0' &&
                   strlen(config->identity) <= UW_SECURE_IDENTITY_MAX
               ? uw_tls_engine_bytes()
               : SIZE_MAX;
}

int uw_secure_stream_init(struct uw_secure_stream *s,
                          const struct uw_secure_stream_config *config)
{
    memset(s, 0, sizeof *s);
    size_t need = uw_secure_stream_bytes(config);
    if (need == SIZE_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    memset(config->memory, 0, need);
    struct uw_tls_engine *engine = config->memory;
    memcpy(s->identity, config->identity, strlen(config->identity) + 1u);
    const struct uw_tls_keys keys = {.keys = config->keys, .stream = true, .key = config->key,
                                     .identity = s->identity, .suites = config->suites,
                                     .bulk = config->bulk,
                                     .entropy = config->entropy, .user = config->user};
    int rc = uw_tls_engine_init(engine, &keys);
    if (rc < 0) {
        return rc;
    }
    s->tls = engine;
    s->keys = config->keys;
    s->event = config->event;
    s->user = config->user;
    s->guard.ops = &stream_ops;
    return UW_OK;
}

void uw_secure_stream_deinit(struct uw_secure_stream *s)
{
    if (s->guard.ops != NULL) {
        uw_tls_engine_deinit(s->tls);
        s->guard.ops = NULL;
    }
}
