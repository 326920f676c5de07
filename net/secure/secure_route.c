/* SPDX-License-Identifier: Apache-2.0
 *
 * What arrives, record by record: who may see it, and who may start a handshake. */
#include "secure_slots.h"

#include "base/bucket.h"

#include <string.h>

#define COOKIE_PERIOD_US 60000000u

static void ask_for_cookie(struct uw_secure_dtls *s, uint16_t from, const char *address,
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

static bool same_hello(const struct uw_secure_slot *slot, const uint8_t *random)
{
    return slot->random_known && memcmp(slot->random, random, UW_WIRE_RANDOM_BYTES) == 0;
}

static void feed_handshake(struct uw_secure_slot *slot, const struct uw_wire_record *r)
{
    struct uw_tls_message none;
    uw_secure_conclude(slot, uw_tls_feed(slot->tls, r, &none));
}

/* What a ClientHello with a good cookie finds here already. true: it may start a handshake. */
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
    /* Both are calling each other: the greater random stays client. Equal: our own echo. */
    if (busy->client &&
        memcmp(hello->random, busy->random, UW_WIRE_RANDOM_BYTES) <= 0) {
        return false;
    }
    if (!busy->client) {
        uw_secure_note_restart(s, busy->address); /* it starts over: not too often */
    }
    uw_secure_release(busy, false);
    return true;
}

static void take_hello(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r)
{
    struct uw_wire_hello hello;
    char address[UW_LINK_ADDRESS_BYTES];
    if (!uw_wire_read_hello(r, &hello) || uw_link_describe(s->lower, from, address) < 0) {
        s->stats.stray_n++;
        return;
    }
    if (!has_our_cookie(s, address, &hello)) {
        ask_for_cookie(s, from, address, r);
        return;
    }
    if (!admits_hello(s, from, r, &hello)) {
        return;
    }
    struct uw_secure_slot *slot;
    if (uw_secure_must_wait(s, address, false) ||
        !uw_bucket_take(&s->started_us, s->now_us, UW_SECURE_START_US,
                        UW_SECURE_START_MAX * UW_SECURE_START_US, 0) ||
        uw_secure_start(s, from, address, false, &slot) < 0) {
        s->stats.limited_n++;
        return;
    }
    memcpy(slot->random, hello.random, UW_WIRE_RANDOM_BYTES);
    slot->random_known = true;
    feed_handshake(slot, r);
}

/* Feed a session that is up. Returns what uw_secure_route does. */
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
        s->stats.stray_n++;
        return UW_ERR_AGAIN;
    }
    *message = m.rest;
    return (int)m.rest_bytes;
}

int uw_secure_route(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r,
                    void **message)
{
    struct uw_secure_slot *up = uw_secure_find(s, from, UW_SECURE_UP);
    struct uw_secure_slot *busy = uw_secure_find(s, from, UW_SECURE_HANDSHAKE);
    if (uw_wire_is_hello(r)) {
        take_hello(s, from, r);
    } else if (r->epoch == 0) {
        /* In the clear, so only a handshake may see it: it cannot hurt a session that is up. */
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
