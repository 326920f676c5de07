/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers that failed to authenticate: slowed down by doubling pauses, reported once in a while. */
#include "secure_slots.h"

#include "base/backoff.h"
#include "base/slots.h"

#include "uwasa/hash.h"

#include <stdio.h>

#define WAIT_FIRST_US 250000u
#define WAIT_DOUBLINGS 5u               /* up to 8 s */

static uint32_t hash_text(const char *text)
{
    uint32_t h = uw_hash32_text(text);
    return h != 0 ? h : 1u; /* 0 marks a free place */
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

static uint64_t rank(const void *slot, const void *hash)
{
    const struct uw_secure_grudge *g = slot;
    return g->address_hash == *(const uint32_t *)hash ? UW_SLOT_OWN : UW_SLOT_FREE + g->failed_us;
}

/* The peer's entry, or the oldest one made anew; it keeps reported_us, so that many new faces
 * cannot make more reports than there are entries. */
static struct uw_secure_grudge *grow_grudge(struct uw_secure_dtls *s, const char *address)
{
    uint32_t h = hash_text(address);
    struct uw_secure_grudge *g = uw_slots_find(s->grudges, UW_SECURE_GRUDGES, sizeof *g, rank, &h);
    if (g->address_hash != h) {
        g->address_hash = h;
        g->fails = g->bad_keys = g->silences = 0;
    }
    g->failed_us = s->now_us;
    return g;
}

void uw_secure_resent(struct uw_secure_dtls *s, const char *address)
{
    grow_grudge(s, address)->fails++;
}

void uw_secure_note_silence(struct uw_secure_dtls *s, const char *address)
{
    grow_grudge(s, address)->silences++;
}

void uw_secure_forgive(struct uw_secure_dtls *s, const char *address)
{
    struct uw_secure_grudge *g = find_grudge(s, address);
    if (g != NULL) {
        g->address_hash = 0;
        g->failed_us = 0;
    }
}

bool uw_secure_must_wait(struct uw_secure_dtls *s, const char *address, bool calling)
{
    const struct uw_secure_grudge *g = find_grudge(s, address);
    uint32_t n = g == NULL ? 0 : g->fails + (calling ? g->silences : 0);
    if (n == 0) {
        return false;
    }
    return s->now_us - g->failed_us < uw_backoff_after(WAIT_FIRST_US, n - 1u, WAIT_DOUBLINGS);
}

void uw_secure_report_refusal(struct uw_secure_dtls *s, const struct uw_secure_slot *slot,
                              enum uw_tls_result why)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_grudge *g = grow_grudge(s, slot->address);
    g->fails++;
    bool told_lately = g->reported_us != 0 &&
                       s->now_us - g->reported_us < s->report_interval_us;
    if (uw_secure_find(s, slot->station, UW_SECURE_UP) != NULL) {
        return;     /* it was another in its name, unless its session ends */
    }
    g->bad_keys += why == UW_TLS_BAD_KEY;
    /* One bad key may be a damaged datagram. */
    if (told_lately || (why == UW_TLS_BAD_KEY && g->bad_keys < 2)) {
        return;
    }
    g->reported_us = s->now_us != 0 ? s->now_us : 1;
    if (why == UW_TLS_BAD_KEY) {
        snprintf(text, sizeof text, "peer %s does not hold this run's key", slot->address);
    } else {
        snprintf(text, sizeof text, "peer %s belongs to another run, not to \"%s\"",
                 slot->address, s->identity);
    }
    uw_secure_tell(s, UW_SECURE_PEER_REFUSED, slot->station, text);
}
