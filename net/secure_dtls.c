/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions by station, and the routing of records to them. A station has at most one session that
 * is up and one handshake in progress; the second is how a restarted peer replaces the first. */
#include "secure_tls.h"

#include "uwasa/arena.h"

#include <stdio.h>
#include <string.h>

#define SESSIONS_DEFAULT 32u
#define HANDSHAKES_DEFAULT 8u
#define INTERVAL_DEFAULT_US 10000000u
#define COOKIE_PERIOD_US 60000000u
#define HANDSHAKE_MAX_US 30000000u
#define HANDSHAKE_STALE_US 2000000u     /* a stranger's handshake may then be given up for another */
#define BACKOFF_US 250000u
#define BACKOFF_DOUBLINGS_MAX 5u
#define TOKENS_MAX 32u                  /* handshakes that strangers may start in one burst */
#define TOKEN_US 50000u                 /* and one more each */
#define DATAGRAMS_MAX 64u               /* looked at in one recv */
#define PAYLOAD_MAX 16383u              /* of a DTLS record, less our byte in front */
#define MESSAGE_MARK 0u                 /* that byte: lets messages be empty, which DTLS eats */

enum slot_state { FREE, HANDSHAKE, UP };

struct uw_secure_slot {
    enum slot_state state;
    bool client;
    bool was_held;                      /* by the caller, before the channel held the station */
    bool random_known;
    uint16_t station;
    int output_rc;                      /* of the lower link, for the datagram output last */
    uint64_t started_us, used_us;
    uint8_t random[UW_WIRE_RANDOM_BYTES];   /* of the ClientHello, ours or the peer's */
    struct uw_secure_dtls *owner;
    struct uw_tls_session *tls;
    char address[UW_LINK_ADDRESS_BYTES];
};

static struct uw_secure_slot *find(const struct uw_secure_dtls *s, uint16_t station,
                                   enum slot_state state)
{
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state == state && s->slots[i].station == station) {
            return &s->slots[i];
        }
    }
    return NULL;
}

static struct uw_secure_slot *find_any(const struct uw_secure_dtls *s, uint16_t station)
{
    struct uw_secure_slot *slot = find(s, station, UP);
    return slot != NULL ? slot : find(s, station, HANDSHAKE);
}

static void tell(struct uw_secure_dtls *s, enum uw_secure_event_kind kind, uint16_t station,
                 const char *text)
{
    if (s->event != NULL) {
        const struct uw_secure_event event = {.kind = kind, .station = station, .text = text};
        s->event(s->user, &event);
    }
}

/* ---- peers that failed ---------------------------------------------------------------------- */

static uint32_t hash_text(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text != '\0'; text++) {
        h = (h ^ (uint8_t)*text) * 16777619u;
    }
    return h != 0 ? h : 1u;
}

static struct uw_secure_grudge *find_grudge(struct uw_secure_dtls *s, const char *address)
{
    uint32_t h = hash_text(address);
    for (size_t i = 0; i < UW_SECURE_GRUDGES; i++) {
        if (s->grudges[i].address_hash == h) {
            return &s->grudges[i];
        }
    }
    return NULL;
}

/* The peer's entry, or the oldest one made anew; it keeps reported_us, so that many new faces
 * cannot make more reports than there are entries. */
static struct uw_secure_grudge *grow_grudge(struct uw_secure_dtls *s, const char *address)
{
    struct uw_secure_grudge *g = find_grudge(s, address);
    if (g == NULL) {
        g = &s->grudges[0];
        for (size_t i = 1; i < UW_SECURE_GRUDGES; i++) {
            if (s->grudges[i].failed_us < g->failed_us) {
                g = &s->grudges[i];
            }
        }
        g->address_hash = hash_text(address);
        g->fails = 0;
    }
    g->fails++;
    g->failed_us = s->now_us;
    return g;
}

static void forgive(struct uw_secure_dtls *s, const char *address)
{
    struct uw_secure_grudge *g = find_grudge(s, address);
    if (g != NULL) {
        g->address_hash = 0;
        g->failed_us = 0;
    }
}

static bool must_wait(struct uw_secure_dtls *s, const char *address)
{
    const struct uw_secure_grudge *g = find_grudge(s, address);
    if (g == NULL) {
        return false;
    }
    uint32_t doublings = g->fails < BACKOFF_DOUBLINGS_MAX ? g->fails : BACKOFF_DOUBLINGS_MAX;
    return s->now_us - g->failed_us < (uint64_t)BACKOFF_US << (doublings - 1u);
}

static void report(struct uw_secure_dtls *s, const struct uw_secure_slot *slot,
                   enum uw_tls_result why)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_grudge *g = grow_grudge(s, slot->address);
    bool told_lately = g->reported_us != 0 &&
                       s->now_us - g->reported_us < s->report_interval_us;
    /* One bad key may be a damaged datagram. */
    if (told_lately || (why == UW_TLS_BAD_KEY && g->fails < 2)) {
        return;
    }
    g->reported_us = s->now_us != 0 ? s->now_us : 1;
    if (why == UW_TLS_BAD_KEY) {
        snprintf(text, sizeof text, "peer %s does not hold this run's key", slot->address);
    } else {
        snprintf(text, sizeof text, "peer %s belongs to another run, not to \"%s\"",
                 slot->address, s->identity);
    }
    tell(s, UW_SECURE_PEER_REFUSED, slot->station, text);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void output(void *owner, const uint8_t *bytes, uint32_t size_bytes)
{
    struct uw_secure_slot *slot = owner;
    struct uw_wire_record record;
    struct uw_wire_hello hello;
    if (slot->client && !slot->random_known &&
        uw_wire_next_record(bytes, size_bytes, &record) && uw_wire_read_hello(&record, &hello)) {
        memcpy(slot->random, hello.random, UW_WIRE_RANDOM_BYTES);
        slot->random_known = true;
    }
    slot->output_rc = uw_link_send(slot->owner->lower, slot->station, bytes, size_bytes);
}

/* Give a slot back; the lower link's hold on the station goes with its last slot. */
static void release(struct uw_secure_slot *slot, bool notify)
{
    struct uw_secure_dtls *s = slot->owner;
    uw_tls_close(slot->tls, notify);
    slot->state = FREE;
    if (find_any(s, slot->station) == NULL) {
        uw_link_hold(s->lower, slot->station, slot->was_held);
    }
}

static struct uw_secure_slot *oldest(struct uw_secure_dtls *s, enum slot_state state,
                                     bool strangers_only, const struct uw_secure_slot *spare,
                                     uint32_t *count)
{
    struct uw_secure_slot *old = NULL;
    *count = 0;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != state) {
            continue;
        }
        ++*count;
        if (slot != spare && !(strangers_only && slot->client) &&
            (old == NULL || slot->used_us < old->used_us)) {
            old = slot;
        }
    }
    return old;
}

/* A slot for a new handshake. NULL: all are busy, and no stranger's is stale. */
static struct uw_secure_slot *take_slot(struct uw_secure_dtls *s)
{
    uint32_t handshakes;
    struct uw_secure_slot *stale = oldest(s, HANDSHAKE, true, NULL, &handshakes);
    if (handshakes >= s->handshakes_n) {
        if (stale == NULL || s->now_us - stale->started_us < HANDSHAKE_STALE_US) {
            return NULL;
        }
        s->stats.failed_n++;
        release(stale, false);
    }
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state == FREE) {
            return &s->slots[i];
        }
    }
    return NULL;
}

static int start(struct uw_secure_dtls *s, uint16_t station, const char *address, bool client,
                 struct uw_secure_slot **out)
{
    struct uw_secure_slot *slot = take_slot(s);
    if (slot == NULL) {
        return UW_ERR_AGAIN;
    }
    const struct uw_secure_slot *sibling = find_any(s, station);
    bool was_held = uw_link_hold(s->lower, station, true);
    slot->was_held = sibling != NULL ? sibling->was_held : was_held;
    slot->client = client;
    slot->random_known = false;
    slot->station = station;
    slot->output_rc = UW_OK;
    slot->started_us = slot->used_us = s->now_us;
    memcpy(slot->address, address, UW_LINK_ADDRESS_BYTES);
    const struct uw_tls_open how = {
        .client = client,
        .mtu_bytes = s->lower->mtu_bytes,
        .address = slot->address,
        .now_us = &s->now_us,
        .output = output,
        .owner = slot,
    };
    int rc = uw_tls_open(slot->tls, s->tls, &how);
    slot->state = HANDSHAKE;
    if (rc < 0) {
        release(slot, false);
        return rc;
    }
    *out = slot;
    return UW_OK;
}

static void close_with(struct uw_secure_slot *slot, const char *how, bool notify)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_dtls *s = slot->owner;
    uint16_t station = slot->station;
    snprintf(text, sizeof text, "session with peer %s ended: %s", slot->address, how);
    release(slot, notify);
    tell(s, UW_SECURE_PEER_CLOSED, station, text);
}

/* A handshake is done: the session takes the place of an older one with this station, or of the
 * one used longest ago. */
static void promote(struct uw_secure_slot *slot)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_dtls *s = slot->owner;
    struct uw_secure_slot *before = find(s, slot->station, UP);
    slot->state = UP;
    slot->used_us = s->now_us;
    if (before != NULL) {
        release(before, false);
    }
    uint32_t up;
    struct uw_secure_slot *idle = oldest(s, UP, false, slot, &up);
    if (up > s->sessions_n && idle != NULL) {
        close_with(idle, "its place was needed for another peer", true);
    }
    s->stats.handshakes_n++;
    forgive(s, slot->address);
    snprintf(text, sizeof text, "peer %s authenticated%s", slot->address,
             before != NULL ? " again: it had restarted" : "");
    tell(s, UW_SECURE_PEER_UP, slot->station, text);
}

/* Act on what the engine says about a session. */
static void conclude(struct uw_secure_slot *slot, enum uw_tls_result result)
{
    struct uw_secure_dtls *s = slot->owner;
    char text[UW_SECURE_TEXT_BYTES];
    uint16_t station = slot->station;
    if (result == UW_TLS_WAIT || result == UW_TLS_DATA) {
        return;
    }
    if (result == UW_TLS_UP) {
        promote(slot);
        return;
    }
    if (slot->state == UP) {
        close_with(slot, result == UW_TLS_CLOSED ? "the peer closed it" : "it broke", false);
        return;
    }
    if (result == UW_TLS_BAD_KEY || result == UW_TLS_BAD_IDENTITY) {
        s->stats.refused_n++;
        report(s, slot, result);
        release(slot, false);
        return;
    }
    s->stats.failed_n++;
    bool silent = result == UW_TLS_TIMEOUT && slot->client;
    snprintf(text, sizeof text, "peer %s does not answer a handshake", slot->address);
    release(slot, false);
    if (silent) {
        tell(s, UW_SECURE_PEER_SILENT, station, text);
    }
}

/* ---- arriving records ----------------------------------------------------------------------- */

/* A rate for handshakes that others start. */
static bool take_token(struct uw_secure_dtls *s)
{
    uint64_t grown = (s->now_us - s->tokens_us) / TOKEN_US;
    if (grown != 0) {
        s->tokens_us += grown * TOKEN_US;
        grown += s->tokens_n;
        s->tokens_n = grown < TOKENS_MAX ? (uint32_t)grown : TOKENS_MAX;
    }
    if (s->tokens_n == 0) {
        return false;
    }
    s->tokens_n--;
    return true;
}

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
    uint32_t none = 0;
    conclude(slot, uw_tls_feed(slot->tls, r, slot->owner->plain, slot->owner->lower->mtu_bytes,
                               &none));
}

/* What a ClientHello with a good cookie finds here already. true: it may start a handshake. */
static bool admits_hello(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r,
                         const struct uw_wire_hello *hello)
{
    const struct uw_secure_slot *up = find(s, from, UP);
    struct uw_secure_slot *busy = find(s, from, HANDSHAKE);
    if (up != NULL && !up->client && same_hello(up, hello->random)) {
        return false; /* a late copy of the hello that made this session */
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
    release(busy, false); /* we yield, or the peer has started over */
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
    if (must_wait(s, address) || !take_token(s) || start(s, from, address, false, &slot) < 0) {
        s->stats.limited_n++;
        return;
    }
    memcpy(slot->random, hello.random, UW_WIRE_RANDOM_BYTES);
    slot->random_known = true;
    feed_handshake(slot, r);
}

/* Feed a session that is up. Returns the bytes of a message now in s->plain, or AGAIN. */
static int feed_up(struct uw_secure_slot *slot, const struct uw_wire_record *r)
{
    struct uw_secure_dtls *s = slot->owner;
    uint32_t bytes = 0;
    enum uw_tls_result result = uw_tls_feed(slot->tls, r, s->plain, s->lower->mtu_bytes, &bytes);
    conclude(slot, result);
    if (result != UW_TLS_DATA) {
        return UW_ERR_AGAIN;
    }
    slot->used_us = s->now_us;
    if (s->plain[0] != MESSAGE_MARK) {
        s->stats.stray_n++;
        return UW_ERR_AGAIN;
    }
    return (int)bytes;
}

/* Returns the bytes of a message now in s->plain, or UW_ERR_AGAIN. */
static int route(struct uw_secure_dtls *s, uint16_t from, const struct uw_wire_record *r)
{
    struct uw_secure_slot *up = find(s, from, UP);
    struct uw_secure_slot *busy = find(s, from, HANDSHAKE);
    if (uw_wire_is_hello(r)) {
        take_hello(s, from, r);
    } else if (r->epoch == 0) {
        /* In the clear, so only a handshake may see it: it cannot hurt a session that is up. */
        if (busy != NULL && r->type != UW_WIRE_DATA) {
            feed_handshake(busy, r);
        } else {
            s->stats.stray_n++;
        }
    } else if (r->type == UW_WIRE_HANDSHAKE && busy != NULL) {
        feed_handshake(busy, r);
    } else if (up != NULL) {
        int rc = feed_up(up, r);
        if (r->type != UW_WIRE_ALERT || busy == NULL) {
            return rc;
        }
        feed_handshake(busy, r); /* encrypted by either session: the wrong one cannot read it */
    } else if (busy != NULL && r->type == UW_WIRE_ALERT) {
        feed_handshake(busy, r);
    } else {
        s->stats.stray_n++;
    }
    return UW_ERR_AGAIN;
}

/* ---- the link ------------------------------------------------------------------------------- */

static int dtls_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    int rc = uw_link_resolve(s->lower, address, station);
    for (uint16_t i = 0; rc == UW_OK && i < s->slots_n; i++) {
        if (s->slots[i].state != FREE && s->slots[i].station == *station) {
            s->slots[i].was_held = true;
        }
    }
    return rc;
}

static int dtls_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(((struct uw_secure_dtls *)link)->lower, station, text);
}

/* While a session lives, the channel holds its station; the caller's wish waits in the slots. */
static bool dtls_hold(struct uw_link *link, uint16_t station, bool hold)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    bool before = false;
    bool found = false;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != FREE && slot->station == station) {
            before = slot->was_held;
            slot->was_held = hold;
            found = true;
        }
    }
    return found ? before : uw_link_hold(s->lower, station, hold);
}

/* Open a session to a station that has none. */
static int call(struct uw_secure_dtls *s, uint16_t to)
{
    char address[UW_LINK_ADDRESS_BYTES];
    struct uw_secure_slot *slot;
    int rc = uw_link_describe(s->lower, to, address);
    if (rc < 0) {
        return rc;
    }
    if (must_wait(s, address)) {
        return UW_ERR_AGAIN;
    }
    rc = start(s, to, address, true, &slot);
    if (rc == UW_OK) {
        conclude(slot, uw_tls_drive(slot->tls));
    }
    return rc == UW_OK ? UW_ERR_AGAIN : rc;
}

static int dtls_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    struct uw_secure_slot *slot = find(s, to, UP);
    if (slot == NULL) {
        return find(s, to, HANDSHAKE) != NULL ? UW_ERR_AGAIN : call(s, to);
    }
    s->plain[0] = MESSAGE_MARK;
    if (buf_bytes != 0) {
        memcpy(s->plain + 1, buf, buf_bytes);
    }
    slot->output_rc = UW_OK;
    int rc = uw_tls_write(slot->tls, s->plain, buf_bytes + 1u);
    if (rc < 0) {
        close_with(slot, "it broke", false);
        return rc;
    }
    /* A record that the lower link refused is as good as lost: a new one is made on the retry. */
    rc = slot->output_rc;
    if (rc == UW_OK) {
        slot->used_us = s->now_us;
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

/* Hand over the message in s->plain. */
static int deliver(struct uw_secure_dtls *s, uint32_t plain_bytes, void *buf, uint32_t cap_bytes)
{
    uint32_t bytes = plain_bytes - 1u;
    if (bytes > cap_bytes || bytes > s->link.mtu_bytes) {
        s->link.stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    if (bytes != 0) {
        memcpy(buf, s->plain + 1, bytes);
    }
    s->link.stats.received_n++;
    s->link.stats.received_bytes += bytes;
    return (int)bytes;
}

static int dtls_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    uint32_t datagrams = 0;
    for (;;) {
        struct uw_wire_record r;
        if (s->datagram_at < s->datagram_bytes &&
            uw_wire_next_record(s->datagram + s->datagram_at,
                                s->datagram_bytes - s->datagram_at, &r)) {
            s->datagram_at += r.size_bytes;
            int rc = route(s, s->datagram_from, &r);
            if (rc > 0) {
                *from = s->datagram_from;
                return deliver(s, (uint32_t)rc, buf, cap_bytes);
            }
            continue;
        }
        s->stats.stray_n += s->datagram_at < s->datagram_bytes;
        s->datagram_at = s->datagram_bytes = 0;
        if (datagrams++ == DATAGRAMS_MAX) {
            return UW_ERR_AGAIN;
        }
        int rc = uw_link_recv(s->lower, &s->datagram_from, s->datagram, s->lower->mtu_bytes);
        if (rc < 0 && rc != UW_ERR_TOOBIG) {
            return rc;
        }
        if (rc >= 0) {
            s->datagram_bytes = (uint32_t)rc;
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
    uint64_t next = UINT64_MAX;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != HANDSHAKE) {
            continue;
        }
        if (s->now_us - slot->started_us >= HANDSHAKE_MAX_US) {
            conclude(slot, UW_TLS_TIMEOUT);
        } else if (uw_tls_due_us(slot->tls) <= s->now_us) {
            conclude(slot, uw_tls_drive(slot->tls));
        }
        if (slot->state == HANDSHAKE) {
            uint64_t due = uw_tls_due_us(slot->tls);
            uint64_t end = slot->started_us + HANDSHAKE_MAX_US;
            due = due < end ? due : end;
            next = due < next ? due : next;
        }
    }
    uint64_t lower = uw_link_step(s->lower, now_us);
    return lower < next ? lower : next;
}

static void dtls_deinit(struct uw_link *link)
{
    struct uw_secure_dtls *s = (struct uw_secure_dtls *)link;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state != FREE) {
            release(&s->slots[i], true);
        }
    }
    uw_tls_engine_deinit(s->tls);
    s->lower = NULL;
    link->ops = NULL;
}

static const struct uw_link_ops dtls_ops = {
    .name = "dtls",
    .resolve = dtls_resolve,
    .describe = dtls_describe,
    .hold = dtls_hold,
    .send = dtls_send,
    .recv = dtls_recv,
    .step = dtls_step,
    .deinit = dtls_deinit,
};

/* ---- set-up --------------------------------------------------------------------------------- */

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
    /* One more: a session made up must fit before the one it displaces goes. */
    return (uint32_t)sessions_of(c) + handshakes_of(c) + 1u;
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
    s->datagram = at;
    s->plain = at + padded(config->lower->mtu_bytes);
    int rc = uw_tls_engine_init(s->tls, config);
    if (rc < 0) {
        return rc;
    }
    uint32_t room = config->lower->mtu_bytes - UW_SECURE_OVERHEAD_BYTES;
    s->lower = config->lower;
    s->sessions_n = sessions_of(config);
    s->handshakes_n = handshakes_of(config);
    s->tokens_n = TOKENS_MAX;
    s->report_interval_us = config->report_interval_us != 0 ? config->report_interval_us
                                                            : INTERVAL_DEFAULT_US;
    s->event = config->event;
    s->user = config->user;
    memcpy(s->identity, config->identity, strlen(config->identity) + 1u);
    s->link.mtu_bytes = room < PAYLOAD_MAX ? room : PAYLOAD_MAX;
    s->link.secure = true;
    s->link.fd = config->lower->fd;
    s->link.ops = &dtls_ops;
    return UW_OK;
}

bool uw_secure_dtls_is_up(const struct uw_secure_dtls *s, uint16_t station)
{
    return s->link.ops != NULL && find(s, station, UP) != NULL;
}

void uw_secure_dtls_reset(struct uw_secure_dtls *s, uint16_t station)
{
    if (s->link.ops == NULL) {
        return;
    }
    struct uw_secure_slot *busy = find(s, station, HANDSHAKE);
    struct uw_secure_slot *up = find(s, station, UP);
    if (busy != NULL) {
        release(busy, false);
    }
    if (up != NULL) {
        close_with(up, "it was reset here", true);
    }
}
