/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel as a link, and admission to handshakes; sessions are in secure_slots.c. */
#include "secure_slots.h"

#include "base/bytes.h"
#include "base/token_bucket.h"

#include <string.h>

#define COOKIE_PERIOD_US 60000000u
#define SESSIONS_DEFAULT 32u
#define HANDSHAKES_DEFAULT 8u
#define INTERVAL_DEFAULT_US 10000000u
#define DATAGRAMS_MAX 64u               /* processed in one recv */
#define PAYLOAD_MAX 16383u              /* of a DTLS record, less the byte of type */

static int dtls_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    int rc = uw_link_resolve(s->lower, address, station);
    for (uint16_t i = 0; rc == UW_OK && i < s->slots_n; i++) {
        if (s->slots[i].state != UW_SECURE_FREE && s->slots[i].station == *station) {
            s->slots[i].was_held = true;
        }
    }
    return rc;
}

static int dtls_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(((struct uw_secure_dtls *)link)->lower, station, text);
}

/* During a session the channel holds the station; the caller's hold is stored in the slots. */
static bool dtls_hold(struct uw_link *link, uint16_t station, bool hold)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    bool before = false;
    bool found = false;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != UW_SECURE_FREE && slot->station == station) {
            before = slot->was_held;
            slot->was_held = hold;
            found = true;
        }
    }
    return found ? before : uw_link_hold(s->lower, station, hold);
}

static int call(struct uw_secure_dtls *s, uint16_t to)
{
    char address[UW_LINK_ADDRESS_BYTES];
    struct uw_secure_slot *slot;
    int rc = uw_link_describe(s->lower, to, address);
    if (rc < 0) {
        return rc;
    }
    if (uw_secure_must_wait(s, address, true)) {
        return UW_ERR_AGAIN;
    }
    rc = uw_secure_start(s, to, address, UW_SECURE_CLIENT, &slot);
    if (rc == UW_OK) {
        uw_secure_conclude(slot, uw_tls_drive(slot->tls));
    }
    return rc == UW_OK ? UW_ERR_AGAIN : rc;
}

static int dtls_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_secure_slot *slot = uw_secure_find(s, to, UW_SECURE_UP);
    if (slot == NULL) {
        return uw_secure_find(s, to, UW_SECURE_HANDSHAKE) != NULL ? UW_ERR_AGAIN : call(s, to);
    }
    s->plain[0] = UW_SECURE_MESSAGE_MARK;
    if (buf_bytes != 0) {
        memcpy(s->plain + 1, buf, buf_bytes);
    }
    slot->output_rc = UW_OK;
    int rc = uw_tls_write(slot->tls, s->plain, buf_bytes + 1u);
    if (rc < 0) {
        uw_secure_end(slot, "error", false);
        return rc;
    }
    /* A record that the lower link refused is lost: the retry makes a new one. */
    rc = slot->output_rc;
    if (rc == UW_OK) {
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

/* ---- received records ---- */

static void request_cookie(struct uw_secure_dtls *s, uint16_t from, const char *address,
                           const struct uw_wire_record *r)
{
    uint8_t cookie[UW_WIRE_COOKIE_BYTES];
    uint8_t verify[UW_WIRE_VERIFY_BYTES];
    if (uw_tls_cookie(s->tls, address, s->now_us / COOKIE_PERIOD_US, cookie) == UW_OK) {
        uw_wire_write_verify(r, cookie, verify);
        (void)uw_link_send(s->lower, from, verify, sizeof verify);
        s->stats.strangers_n++;
    }
}

static bool has_our_cookie(struct uw_secure_dtls *s, const char *address,
                           const struct uw_wire_hello *hello)
{
    if (hello->cookie_bytes != UW_WIRE_COOKIE_BYTES) {
        return false;
    }
    uint64_t period = s->now_us / COOKIE_PERIOD_US;
    for (uint64_t back = 0; back < 2 && back <= period; back++) {
        uint8_t cookie[UW_WIRE_COOKIE_BYTES];
        if (uw_tls_cookie(s->tls, address, period - back, cookie) == UW_OK &&
            uw_tls_equal(cookie, hello->cookie, sizeof cookie)) {
            return true;
        }
    }
    return false;
}

/* Has the datagram proved, before this hello, that the sender holds the run's key? A stranger
 * cannot, and who listens in can repeat a proof only from the address that it is about. */
static bool is_proven(struct uw_secure_dtls *s, const struct uw_wire_hello *hello)
{
    return s->has_proof && uw_tls_is_proof(s->tls, hello, s->proof);
}

static bool same_hello(const struct uw_secure_slot *slot, const uint8_t *random)
{
    return slot->random_known && memcmp(slot->random, random, UW_WIRE_RANDOM_BYTES) == 0;
}

static void feed_handshake(struct uw_secure_slot *slot, const struct uw_wire_record *r)
{
    struct uw_tls_message none;
    uw_secure_conclude(slot, uw_tls_feed(slot->tls, r, &none));
}

/* May a ClientHello with a valid cookie start a handshake, given the slots of its station? */
static bool admits_hello(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r,
                         const struct uw_wire_hello *hello)
{
    const struct uw_secure_slot *up = uw_secure_find(s, from, UW_SECURE_UP);
    struct uw_secure_slot *busy = uw_secure_find(s, from, UW_SECURE_HANDSHAKE);
    if (up != NULL && !up->client && same_hello(up, hello->random)) {
        return false; /* a late copy of the hello that made the session */
    }
    if (busy == NULL) {
        return true;
    }
    if (!busy->client && same_hello(busy, hello->random)) {
        feed_handshake(busy, r);
        return false;
    }
    /* Both ends are clients: the one with the greater random stays it. Equal: an echo. */
    if (busy->client &&
        memcmp(hello->random, busy->random, UW_WIRE_RANDOM_BYTES) <= 0) {
        return false;
    }
    if (!busy->client) {
        uw_secure_note_restart(s, busy->address); /* limits restarts */
    }
    uw_secure_release(busy, false);
    return true;
}

/* Strangers share a rate of handshakes. Those of peers with the key count, but are not refused. */
static bool pay_for_start(struct uw_secure_dtls *s, bool proven)
{
    uint64_t most_us = UW_SECURE_START_MAX * UW_SECURE_START_US;
    if (proven) {
        uw_bucket_pay(&s->started_us, UW_SECURE_START_US, most_us, s->now_us);
        return true;
    }
    return uw_bucket_take(&s->started_us, s->now_us, UW_SECURE_START_US, most_us, 0);
}

static void handle_hello(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r)
{
    struct uw_wire_hello hello;
    char address[UW_LINK_ADDRESS_BYTES];
    if (!uw_wire_read_hello(r, &hello) || uw_link_describe(s->lower, from, address) < 0) {
        s->stats.stray_n++;
        return;
    }
    if (!has_our_cookie(s, address, &hello)) {
        request_cookie(s, from, address, r);
        return;
    }
    if (!admits_hello(s, from, r, &hello)) {
        return;
    }
    struct uw_secure_slot *slot;
    bool proven = is_proven(s, &hello);
    if (uw_secure_must_wait(s, address, false) || !pay_for_start(s, proven) ||
        uw_secure_start(s, from, address, proven ? UW_SECURE_SERVER_PROVEN : UW_SECURE_SERVER,
                        &slot) < 0) {
        s->stats.limited_n++;
        return;
    }
    memcpy(slot->random, hello.random, UW_WIRE_RANDOM_BYTES);
    slot->random_known = true;
    feed_handshake(slot, r);
}

/* A message of the channel itself. */
static void take_probe(struct uw_secure_slot *slot, const struct uw_tls_message *m)
{
    struct uw_secure_dtls *s = slot->owner;
    uint32_t bytes = m->rest_bytes >= UW_SECURE_PROBE_BYTES ? uw_get_u16(m->rest) : 0;
    if (m->mark == UW_SECURE_PROBE_MARK && bytes != 0 && bytes == m->rest_bytes) {
        s->plain[0] = UW_SECURE_PROBED_MARK;
        uw_put_u16(s->plain + 1, bytes);
        (void)uw_tls_write(slot->tls, s->plain, 1u + UW_SECURE_PROBE_BYTES);
    } else if (m->mark == UW_SECURE_PROBED_MARK && s->paths != NULL) {
        s->paths->probed(slot, bytes);
    } else {
        s->stats.stray_n++;
    }
}

/* Feed a session that is up. Returns as route. */
static int feed_up(struct uw_secure_slot *slot, const struct uw_wire_record *r, void **message)
{
    struct uw_secure_dtls *s = slot->owner;
    struct uw_tls_message m = {0};
    enum uw_tls_result result = uw_tls_feed(slot->tls, r, &m);
    uw_secure_conclude(slot, result);
    if (result != UW_TLS_DATA) {
        return UW_ERR_AGAIN;
    }
    slot->heard_us = s->now_us;
    if (m.mark != UW_SECURE_MESSAGE_MARK) {
        take_probe(slot, &m);
        return UW_ERR_AGAIN;
    }
    *message = m.rest;
    return (int)m.rest_bytes;
}

/* Pass a record to the session or handshake of its station.
 * Returns the bytes of a message, which *message points to until the next call of the session, or
 * UW_ERR_AGAIN. */
static int route(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r,
                 void **message)
{
    struct uw_secure_slot *up = uw_secure_find(s, from, UW_SECURE_UP);
    struct uw_secure_slot *busy = uw_secure_find(s, from, UW_SECURE_HANDSHAKE);
    const uint8_t *proof = uw_wire_read_proof(r);
    if (uw_wire_is_hello(r)) {
        handle_hello(s, from, r);
    } else if (proof != NULL) {
        memcpy(s->proof, proof, sizeof s->proof);
        s->has_proof = true;
    } else if (r->epoch == 0) {
        /* Unencrypted: for a handshake only, so that it cannot harm a session that is up. */
        if (busy != NULL && r->type != UW_RECORD_DATA) {
            feed_handshake(busy, r);
        } else {
            s->stats.stray_n++;
        }
    } else if (r->type == UW_RECORD_HANDSHAKE && busy != NULL) {
        feed_handshake(busy, r);
    } else if (up != NULL) {
        int rc = feed_up(up, r, message);
        if (r->type != UW_RECORD_ALERT || busy == NULL) {
            return rc;
        }
        feed_handshake(busy, r); /* encrypted by either session: the wrong one cannot read it */
    } else if (busy != NULL && r->type == UW_RECORD_ALERT) {
        feed_handshake(busy, r);
    } else {
        s->stats.stray_n++;
    }
    return UW_ERR_AGAIN;
}

static int deliver(struct uw_secure_dtls *s, uint32_t bytes)
{
    if (bytes > s->link.mtu_bytes) {
        s->link.stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    s->link.stats.received_n++;
    s->link.stats.received_bytes += bytes;
    return (int)bytes;
}

/* Handle a datagram. One with more than a record of data is stored, because the lower link may be
 * called before all of it is read. */
static void handle_datagram(struct uw_secure_dtls *s, uint8_t *datagram, uint32_t bytes)
{
    struct uw_wire_record r;
    bool alone = uw_wire_next_record(datagram, bytes, &r) && r.size_bytes == bytes &&
                 r.epoch != 0 && r.type == UW_RECORD_DATA;
    if (!alone && datagram != s->kept && bytes != 0) {
        memcpy(s->kept, datagram, bytes);
    }
    s->has_proof = false;
    s->datagram = alone ? datagram : s->kept;
    s->datagram_bytes = bytes;
}

static int dtls_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    uint32_t datagrams = 0;
    for (;;) {
        struct uw_wire_record r;
        if (s->datagram_at < s->datagram_bytes &&
            uw_wire_next_record(s->datagram + s->datagram_at,
                                s->datagram_bytes - s->datagram_at, &r)) {
            s->datagram_at += r.size_bytes;
            int rc = route(s, s->datagram_from, &r, view);
            if (rc >= 0) {
                *from = s->datagram_from;
                return deliver(s, (uint32_t)rc);
            }
            continue;
        }
        s->stats.stray_n += s->datagram_at < s->datagram_bytes;
        s->datagram_at = s->datagram_bytes = 0;
        if (datagrams++ == DATAGRAMS_MAX) {
            return UW_ERR_AGAIN;
        }
        void *datagram;
        int rc = uw_link_recv_view(s->lower, &s->datagram_from,
                                   uw_link_views(s->lower) ? NULL : s->kept,
                                   s->lower->mtu_bytes, &datagram);
        if (rc < 0 && rc != UW_ERR_TOOBIG) {
            return rc;
        }
        if (rc >= 0) {
            handle_datagram(s, datagram, (uint32_t)rc);
        } else {
            link->stats.dropped_n++;
        }
    }
}

static uint64_t dtls_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    if (now_us > s->now_us) {
        s->now_us = now_us;
    }
    if (s->keys != NULL && s->keys->changes_n != s->changes_n) {
        s->changes_n = s->keys->changes_n;
        s->keys->ops->follow(s);
    }
    uint64_t next = UINT64_MAX;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != UW_SECURE_HANDSHAKE) {
            continue;
        }
        if (s->now_us - slot->started_us >= UW_SECURE_HANDSHAKE_MAX_US) {
            uw_secure_conclude(slot, UW_TLS_TIMEOUT);
        } else if (uw_tls_due_us(slot->tls) <= s->now_us) {
            uw_secure_conclude(slot, uw_tls_drive(slot->tls));
        }
        if (slot->state == UW_SECURE_HANDSHAKE) {
            uint64_t due = uw_tls_due_us(slot->tls);
            uint64_t end = slot->started_us + UW_SECURE_HANDSHAKE_MAX_US;
            next = uw_min_u64(next, uw_min_u64(due, end));
        }
    }
    if (s->paths != NULL) {
        next = uw_min_u64(next, s->paths->step(s));
    }
    return uw_min_u64(next, uw_link_step(s->lower, now_us));
}

static void dtls_deinit(struct uw_link *link)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state != UW_SECURE_FREE) {
            uw_secure_release(&s->slots[i], true);
        }
    }
    uw_tls_engine_deinit(s->tls);
    s->lower = NULL;
    link->ops = NULL;
}

static void dtls_forget(struct uw_link *link, uint16_t station)
{
    uw_secure_dtls_reset((struct uw_secure_dtls *)link, station);
}

static const struct uw_link_ops dtls_ops = {
    .name = "dtls",
    .resolve = dtls_resolve,
    .describe = dtls_describe,
    .hold = dtls_hold,
    .send = dtls_send,
    .step = dtls_step,
    .deinit = dtls_deinit,
    .forget = dtls_forget,
    .recv_view = dtls_recv_view,
};

static size_t padded(size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    return (bytes + align - 1u) / align * align;
}

static uint16_t sessions_of(const struct uw_secure_dtls_config *c)
{
    return c->sessions_n != 0 ? c->sessions_n : SESSIONS_DEFAULT;
}

static uint16_t handshakes_of(const struct uw_secure_dtls_config *c)
{
    return c->handshakes_n != 0 ? c->handshakes_n : HANDSHAKES_DEFAULT;
}

static uint32_t slots_of(const struct uw_secure_dtls_config *c)
{
    /* One more: a new session needs a slot before the one that it replaces is released. */
    return (uint32_t)sessions_of(c) + handshakes_of(c) + 1u;
}

static size_t path_bytes(const struct uw_secure_dtls_config *c)
{
    return c->paths != NULL ? c->paths->slot_bytes : 0;
}

size_t uw_secure_dtls_bytes(const struct uw_secure_dtls_config *config)
{
    if (config == NULL || config->lower == NULL || config->lower->ops == NULL ||
        config->lower->mtu_bytes < UW_SECURE_LOWER_MTU_MIN || slots_of(config) > UINT16_MAX ||
        config->identity == NULL || config->identity[0] == '\0' ||
        strlen(config->identity) > UW_SECURE_IDENTITY_MAX) {
        return SIZE_MAX;
    }
    return padded(uw_tls_engine_bytes()) +
           slots_of(config) * (padded(sizeof(struct uw_secure_slot)) +
                               padded(uw_tls_session_bytes())) +
           padded(slots_of(config) * path_bytes(config)) +
           2u * padded(config->lower->mtu_bytes);
}

int uw_secure_dtls_init(struct uw_secure_dtls *s, const struct uw_secure_dtls_config *config)
{
    memset(s, 0, sizeof *s);
    size_t need = uw_secure_dtls_bytes(config);
    if (need == SIZE_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    uint8_t *at = config->memory;
    memset(at, 0, need);
    s->tls = (struct uw_tls_engine *)(void *)at;
    at += padded(uw_tls_engine_bytes());
    s->slots = (struct uw_secure_slot *)(void *)at;
    s->slots_n = (uint16_t)slots_of(config);
    at += s->slots_n * padded(sizeof(struct uw_secure_slot));
    for (uint16_t i = 0; i < s->slots_n; i++) {
        s->slots[i].owner = s;
        s->slots[i].tls = (struct uw_tls_session *)(void *)at;
        at += padded(uw_tls_session_bytes());
    }
    s->paths = config->paths;
    s->path = (struct uw_secure_path *)(void *)at;
    at += padded(s->slots_n * path_bytes(config));
    s->kept = at;
    s->plain = at + padded(config->lower->mtu_bytes);
    memcpy(s->identity, config->identity, strlen(config->identity) + 1u);
    s->keys = config->keys;
    s->changes_n = config->keys != NULL ? config->keys->changes_n : 0;
    const struct uw_tls_keys keys = {.keys = config->keys, .key = config->key,
                                     .identity = s->identity,
                                     .suites = config->suites, .bulk = config->bulk,
                                     .entropy = config->entropy,
                                     .user = config->user};
    int rc = uw_tls_engine_init(s->tls, &keys);
    if (rc < 0) {
        return rc;
    }
    uint32_t room = config->lower->mtu_bytes - UW_SECURE_OVERHEAD_BYTES;
    s->lower = config->lower;
    s->sessions_n = sessions_of(config);
    s->handshakes_n = handshakes_of(config);
    s->report_interval_us = config->report_interval_us != 0 ? config->report_interval_us
                                                            : INTERVAL_DEFAULT_US;
    s->event = config->event;
    s->user = config->user;
    s->link.mtu_bytes = s->most_bytes = room < PAYLOAD_MAX ? room : PAYLOAD_MAX;
    s->link.rate_bits_per_s = config->lower->rate_bits_per_s;
    s->link.burst_bytes = (uint32_t)((uint64_t)config->lower->burst_bytes * s->link.mtu_bytes /
                                     config->lower->mtu_bytes);
    s->link.burst_n = config->lower->burst_n;
    s->link.secure = true;
    s->link.fd = config->lower->fd;
    s->link.ops = &dtls_ops;
    return UW_OK;
}

bool uw_secure_dtls_is_up(const struct uw_secure_dtls *s, uint16_t station)
{
    return s->link.ops != NULL && uw_secure_find(s, station, UW_SECURE_UP) != NULL;
}

uint16_t uw_secure_dtls_suite(const struct uw_secure_dtls *s, uint16_t station)
{
    const struct uw_secure_slot *up =
        s->link.ops != NULL ? uw_secure_find(s, station, UW_SECURE_UP) : NULL;
    return up != NULL ? uw_tls_suite(up->tls) : 0;
}

void uw_secure_dtls_reset(struct uw_secure_dtls *s, uint16_t station)
{
    if (s->link.ops == NULL) {
        return;
    }
    struct uw_secure_slot *busy = uw_secure_find(s, station, UW_SECURE_HANDSHAKE);
    struct uw_secure_slot *up = uw_secure_find(s, station, UW_SECURE_UP);
    if (busy != NULL) {
        uw_secure_release(busy, false);
    }
    if (up != NULL) {
        uw_secure_end(up, "reset by this node", true);
    }
}
