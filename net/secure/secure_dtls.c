/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel as a link; sessions are in secure_slots.c, arriving records in secure_route.c. */
#include "secure_slots.h"

#include <string.h>

#define SESSIONS_DEFAULT 32u
#define HANDSHAKES_DEFAULT 8u
#define INTERVAL_DEFAULT_US 10000000u
#define DATAGRAMS_MAX 64u               /* looked at in one recv */
#define PAYLOAD_MAX 16383u              /* of a DTLS record, less our byte in front */

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

/* While a session lives, the channel holds its station; the caller's wish waits in the slots. */
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

/* Open a session to a station that has none. */
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
    rc = uw_secure_start(s, to, address, true, &slot);
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
        uw_secure_end(slot, "it broke", false);
        return rc;
    }
    /* A record that the lower link refused is as good as lost: a new one is made on the retry. */
    rc = slot->output_rc;
    if (rc == UW_OK) {
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

/* Count a message that is handed over. */
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

/* A datagram has come, of `bytes`. What is more than one record of data is kept here, since the
 * lower link may be called before all of it is read. */
static void take_datagram(struct uw_secure_dtls *s, uint8_t *datagram, uint32_t bytes)
{
    struct uw_wire_record r;
    bool alone = uw_wire_next_record(datagram, bytes, &r) && r.size_bytes == bytes &&
                 r.epoch != 0 && r.type == UW_RECORD_DATA;
    if (!alone && datagram != s->kept && bytes != 0) {
        memcpy(s->kept, datagram, bytes);
    }
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
            int rc = uw_secure_route(s, s->datagram_from, &r, view);
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
            take_datagram(s, datagram, (uint32_t)rc);
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
    s->kept = at;
    s->plain = at + padded(config->lower->mtu_bytes);
    const struct uw_tls_keys keys = {.key = config->key, .identity = config->identity,
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
    memcpy(s->identity, config->identity, strlen(config->identity) + 1u);
    s->link.mtu_bytes = room < PAYLOAD_MAX ? room : PAYLOAD_MAX;
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
        uw_secure_end(up, "it was reset here", true);
    }
}
