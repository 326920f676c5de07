/* SPDX-License-Identifier: Apache-2.0 */
#include "secure_slots.h"

#include "base/backoff.h"
#include "base/slot_table.h"
#include "base/token_bucket.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <string.h>

#define WAIT_FIRST_US 250000u
#define WAIT_DOUBLINGS 5u               /* up to 8 s */
#define HANDSHAKE_STALE_US 2000000u     /* older handshakes may be replaced */

struct uw_secure_slot *uw_secure_find(const struct uw_secure_dtls *s, uint16_t station,
                                      enum uw_secure_state state)
{
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state == state && s->slots[i].station == station) {
            return &s->slots[i];
        }
    }
    return NULL;
}

/* The slot of a station in any state but FREE, or NULL. */
static struct uw_secure_slot *find_any(const struct uw_secure_dtls *s, uint16_t station)
{
    struct uw_secure_slot *slot = uw_secure_find(s, station, UW_SECURE_UP);
    return slot != NULL ? slot : uw_secure_find(s, station, UW_SECURE_HANDSHAKE);
}

void uw_secure_report(struct uw_secure_dtls *s, enum uw_secure_event_kind kind, uint16_t station,
                      const char *text)
{
    if (s->event != NULL) {
        const struct uw_secure_event event = {.kind = kind, .station = station, .text = text};
        s->event(s->user, &event);
    }
}

/* ---- failed peers: back-off and reports ---- */

static uint32_t hash_text(const char *text)
{
    uint32_t h = uw_hash32_text(text);
    return h != 0 ? h : 1u; /* 0 marks a free place */
}

static struct uw_secure_grudge *grudge_of(struct uw_secure_dtls *s, const char *address)
{
    uint32_t h = hash_text(address);
    for (size_t i = 0; i < UW_SECURE_GRUDGES; i++) {
        if (s->grudges[i].address_hash == h) {
            return &s->grudges[i];
        }
    }
    return NULL;
}

static uint64_t grudge_rank(const void *slot, const void *hash)
{
    const struct uw_secure_grudge *g = slot;
    return g->address_hash == *(const uint32_t *)hash ? UW_SLOT_OWN : UW_SLOT_FREE + g->failed_us;
}

/* The peer's entry, or the oldest one reset. It keeps reported_us, so that the number of entries
 * limits reports of new peers. */
static struct uw_secure_grudge *add_failure(struct uw_secure_dtls *s, const char *address)
{
    uint32_t h = hash_text(address);
    struct uw_secure_grudge *g =
        uw_slots_find(s->grudges, UW_SECURE_GRUDGES, sizeof *g, grudge_rank, &h);
    if (g->address_hash != h) {
        g->address_hash = h;
        g->fails = g->bad_keys = g->silences = 0;
    }
    g->failed_us = s->now_us;
    return g;
}

void uw_secure_note_restart(struct uw_secure_dtls *s, const char *address)
{
    add_failure(s, address)->fails++;
}

bool uw_secure_must_wait(struct uw_secure_dtls *s, const char *address, bool calling)
{
    const struct uw_secure_grudge *g = grudge_of(s, address);
    uint32_t n = g == NULL ? 0 : g->fails + (calling ? g->silences : 0);
    if (n == 0) {
        return false;
    }
    return s->now_us - g->failed_us < uw_backoff_after(WAIT_FIRST_US, n - 1u, WAIT_DOUBLINGS);
}

/* Store a refused peer, and report it, at most once per interval. */
static void report_refusal(struct uw_secure_dtls *s, const struct uw_secure_slot *slot,
                           enum uw_tls_result why)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_grudge *g = add_failure(s, slot->address);
    g->fails++;
    bool told_lately = g->reported_us != 0 &&
                       s->now_us - g->reported_us < s->report_interval_us;
    if (uw_secure_find(s, slot->station, UW_SECURE_UP) != NULL) {
        return;     /* the address may be forged, unless the session ends */
    }
    g->bad_keys += why == UW_TLS_BAD_KEY;
    /* One bad key may be a damaged datagram. */
    if (told_lately || (why == UW_TLS_BAD_KEY && g->bad_keys < 2)) {
        return;
    }
    g->reported_us = s->now_us != 0 ? s->now_us : 1;
    if (why == UW_TLS_REVOKED) {
        snprintf(text, sizeof text, "peer %s: %s", slot->address, uw_tls_why(slot->tls));
    } else if (why == UW_TLS_BAD_KEY) {
        snprintf(text, sizeof text, "peer %s does not hold this run's key", slot->address);
    } else {
        snprintf(text, sizeof text, "peer %s belongs to another run, not to \"%s\"",
                 slot->address, s->identity);
    }
    uw_secure_report(s, UW_SECURE_PEER_REFUSED, slot->station, text);
}

/* ---- sessions ---- */

/* Put the proof in front of a ClientHello with a cookie, in s->plain, which is not in use. */
static void add_proof(struct uw_secure_dtls *s, struct uw_tls_session *tls,
                      const struct uw_wire_hello *hello, const uint8_t **bytes,
                      uint32_t *size_bytes)
{
    uint8_t proof[UW_WIRE_PROOF_BYTES];
    uint32_t room = UW_WIRE_RECORD_BYTES + UW_WIRE_PROOF_BYTES;
    if (*size_bytes <= s->lower->mtu_bytes - room && uw_tls_prove(tls, hello, proof) == UW_OK) {
        uw_wire_write_proof(proof, s->plain);
        memcpy(s->plain + room, *bytes, *size_bytes);
        *bytes = s->plain;
        *size_bytes += room;
    }
}

static void output(void *owner, const uint8_t *bytes, uint32_t size_bytes)
{
    struct uw_secure_slot *slot = owner;
    struct uw_wire_record record;
    struct uw_wire_hello hello;
    if (slot->client && slot->state == UW_SECURE_HANDSHAKE &&
        uw_wire_next_record(bytes, size_bytes, &record) && uw_wire_read_hello(&record, &hello)) {
        memcpy(slot->random, hello.random, UW_WIRE_RANDOM_BYTES);
        slot->random_known = true;
        add_proof(slot->owner, slot->tls, &hello, &bytes, &size_bytes);
    }
    slot->output_rc = uw_link_send(slot->owner->lower, slot->station, bytes, size_bytes);
}

void uw_secure_release(struct uw_secure_slot *slot, bool notify)
{
    struct uw_secure_dtls *s = slot->owner;
    uw_tls_close(slot->tls, notify);
    slot->state = UW_SECURE_FREE;
    if (find_any(s, slot->station) == NULL) {
        uw_link_hold(s->lower, slot->station, slot->was_held);
    }
}

/* The session silent longest, of those that are up, except `spare`. */
static struct uw_secure_slot *oldest_up(struct uw_secure_dtls *s,
                                        const struct uw_secure_slot *spare, uint32_t *count)
{
    struct uw_secure_slot *old = NULL;
    *count = 0;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state == UW_SECURE_UP) {
            ++*count;
            if (slot != spare && (old == NULL || slot->heard_us < old->heard_us)) {
                old = slot;
            }
        }
    }
    return old;
}

static bool is_older(const struct uw_secure_slot *slot, const struct uw_secure_slot *than)
{
    return than == NULL || slot->started_us < than->started_us;
}

/* A slot for a new handshake, or NULL. Client and server handshakes share the slots, but a quarter
 * (at least one) is reserved for either, so that neither dead nor unknown peers use all. A full
 * side replaces its oldest handshake when that is stale; for a peer that has proved that it holds
 * the key, the oldest of one that has not. */
static struct uw_secure_slot *open_slot(struct uw_secure_dtls *s, enum uw_secure_side side)
{
    bool client = side == UW_SECURE_CLIENT;
    uint32_t all = 0;
    uint32_t own = 0;
    struct uw_secure_slot *old = NULL, *stranger = NULL;
    uint32_t kept = s->handshakes_n / 4u > 1u ? s->handshakes_n / 4u : 1u;
    uint32_t quota = s->handshakes_n > kept ? s->handshakes_n - kept : 1u;
    for (uint16_t i = 0; i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        if (slot->state != UW_SECURE_HANDSHAKE) {
            continue;
        }
        all++;
        if (slot->client == client) {
            own++;
            old = is_older(slot, old) ? slot : old;
            stranger = !slot->proven && is_older(slot, stranger) ? slot : stranger;
        }
    }
    if (own >= quota || all >= s->handshakes_n) {
        if (side == UW_SECURE_SERVER_PROVEN && stranger != NULL) {
            old = stranger;
        } else if (old == NULL || s->now_us - old->started_us < HANDSHAKE_STALE_US) {
            return NULL;
        }
        uw_secure_conclude(old, UW_TLS_TIMEOUT);
    }
    for (uint16_t i = 0; i < s->slots_n; i++) {
        if (s->slots[i].state == UW_SECURE_FREE) {
            return &s->slots[i];
        }
    }
    return NULL;
}

int uw_secure_start(struct uw_secure_dtls *s, uint16_t station, const char *address,
                    enum uw_secure_side side, struct uw_secure_slot **out)
{
    bool client = side == UW_SECURE_CLIENT;
    struct uw_secure_slot *slot = open_slot(s, side);
    if (slot == NULL) {
        return UW_ERR_AGAIN;
    }
    const struct uw_secure_slot *sibling = find_any(s, station);
    bool was_held = uw_link_hold(s->lower, station, true);
    slot->was_held = sibling != NULL ? sibling->was_held : was_held;
    slot->client = client;
    slot->proven = side == UW_SECURE_SERVER_PROVEN;
    slot->random_known = false;
    slot->station = station;
    slot->output_rc = UW_OK;
    slot->started_us = slot->heard_us = s->now_us;
    memcpy(slot->address, address, UW_LINK_ADDRESS_BYTES);
    const struct uw_tls_open how = {
        .client = client,
        .cheap = uw_bucket_owed_us(s->started_us, s->now_us) >
                 UW_SECURE_START_MAX / 2u * UW_SECURE_START_US,
        .mtu_bytes = s->lower->mtu_bytes,
        .address = slot->address,
        .now_us = &s->now_us,
        .output = output,
        .owner = slot,
    };
    int rc = uw_tls_open(slot->tls, s->tls, &how);
    slot->state = UW_SECURE_HANDSHAKE;
    if (rc < 0) {
        uw_secure_release(slot, false);
        return rc;
    }
    *out = slot;
    return UW_OK;
}

void uw_secure_end(struct uw_secure_slot *slot, const char *how, bool notify)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_dtls *s = slot->owner;
    uint16_t station = slot->station;
    snprintf(text, sizeof text, "session with peer %s ended: %s", slot->address, how);
    uw_secure_release(slot, notify);
    uw_secure_report(s, UW_SECURE_PEER_CLOSED, station, text);
}

/* A handshake is done: the session replaces an older one with this station, or the one silent
 * longest. */
static void promote(struct uw_secure_slot *slot)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_dtls *s = slot->owner;
    struct uw_secure_slot *before = uw_secure_find(s, slot->station, UW_SECURE_UP);
    slot->state = UW_SECURE_UP;
    slot->heard_us = s->now_us;
    if (before != NULL) {
        uw_secure_release(before, false);
    }
    uint32_t up;
    struct uw_secure_slot *idle = oldest_up(s, slot, &up);
    if (up > s->sessions_n && idle != NULL) {
        uw_secure_end(idle, "another peer needed its slot", true);
    }
    s->stats.handshakes_n++;
    struct uw_secure_grudge *g = grudge_of(s, slot->address);
    if (g != NULL) {
        g->address_hash = 0;
        g->failed_us = 0;
    }
    snprintf(text, sizeof text, "peer %s authenticated%s", slot->address,
             before != NULL ? " again: it restarted" : "");
    uw_secure_report(s, UW_SECURE_PEER_UP, slot->station, text);
}

void uw_secure_conclude(struct uw_secure_slot *slot, enum uw_tls_result result)
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
    if (slot->state == UW_SECURE_UP) {
        uw_secure_end(slot, result == UW_TLS_CLOSED ? "the peer closed it" : "error", false);
        return;
    }
    if (result <= UW_TLS_REVOKED) {
        s->stats.refused_n++;
        report_refusal(s, slot, result);
        uw_secure_release(slot, false);
        return;
    }
    s->stats.failed_n++;
    bool silent = result == UW_TLS_TIMEOUT && slot->client;
    struct uw_secure_grudge *g = add_failure(s, slot->address);
    g->silences += slot->client;
    g->fails += !slot->client;
    snprintf(text, sizeof text, "peer %s does not answer a handshake", slot->address);
    uw_secure_release(slot, false);
    if (silent) {
        uw_secure_report(s, UW_SECURE_PEER_SILENT, station, text);
    }
}
