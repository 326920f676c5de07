/* SPDX-License-Identifier: Apache-2.0 */
#include "secure_slots.h"

#include "base/bucket.h"

#include <stdio.h>
#include <string.h>

#define HANDSHAKE_STALE_US 2000000u     /* it may then be given up for another */

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

void uw_secure_tell(struct uw_secure_dtls *s, enum uw_secure_event_kind kind, uint16_t station,
                    const char *text)
{
    if (s->event != NULL) {
        const struct uw_secure_event event = {.kind = kind, .station = station, .text = text};
        s->event(s->user, &event);
    }
}

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

void uw_secure_release(struct uw_secure_slot *slot, bool notify)
{
    struct uw_secure_dtls *s = slot->owner;
    uw_tls_close(slot->tls, notify);
    slot->state = UW_SECURE_FREE;
    if (find_any(s, slot->station) == NULL) {
        uw_link_hold(s->lower, slot->station, slot->was_held);
    }
}

/* Of the sessions that are up, but `spare`, the one heard from longest ago. */
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

/* A slot for a new handshake, NULL when there is none now. Calls made here and calls from outside
 * share the places, but a quarter (at least one) is kept from either, so that neither dead peers
 * nor strangers can take all. A full side gives up its own oldest handshake once it is stale. */
static struct uw_secure_slot *take_slot(struct uw_secure_dtls *s, bool client)
{
    uint32_t all = 0;
    uint32_t own = 0;
    struct uw_secure_slot *old = NULL;
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
            old = old == NULL || slot->started_us < old->started_us ? slot : old;
        }
    }
    if (own >= quota || all >= s->handshakes_n) {
        if (old == NULL || s->now_us - old->started_us < HANDSHAKE_STALE_US) {
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

int uw_secure_start(struct uw_secure_dtls *s, uint16_t station, const char *address, bool client,
                    struct uw_secure_slot **out)
{
    struct uw_secure_slot *slot = take_slot(s, client);
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
    uw_secure_tell(s, UW_SECURE_PEER_CLOSED, station, text);
}

/* A handshake is done: the session takes the place of an older one with this station, or of the
 * one heard from longest ago. */
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
        uw_secure_end(idle, "its place was needed for another peer", true);
    }
    s->stats.handshakes_n++;
    uw_secure_forgive(s, slot->address);
    snprintf(text, sizeof text, "peer %s authenticated%s", slot->address,
             before != NULL ? " again: it had restarted" : "");
    uw_secure_tell(s, UW_SECURE_PEER_UP, slot->station, text);
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
        uw_secure_end(slot, result == UW_TLS_CLOSED ? "the peer closed it" : "it broke", false);
        return;
    }
    if (result == UW_TLS_BAD_KEY || result == UW_TLS_BAD_IDENTITY) {
        s->stats.refused_n++;
        uw_secure_report_refusal(s, slot, result);
        uw_secure_release(slot, false);
        return;
    }
    s->stats.failed_n++;
    bool silent = result == UW_TLS_TIMEOUT && slot->client;
    if (slot->client) {
        uw_secure_note_silence(s, slot->address);
    } else {
        uw_secure_resent(s, slot->address);
    }
    snprintf(text, sizeof text, "peer %s does not answer a handshake", slot->address);
    uw_secure_release(slot, false);
    if (silent) {
        uw_secure_tell(s, UW_SECURE_PEER_SILENT, station, text);
    }
}
