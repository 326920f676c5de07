/* SPDX-License-Identifier: Apache-2.0
 *
 * How large datagrams reach the other end of a session. If no probe of full size is answered,
 * volleys of several sizes find what arrives, after RFC 8899. A size counts as lost after several
 * volleys only, so that losses at random do not look like it. */
#include "secure_slots.h"

#include "base/bits.h"
#include "base/bytes.h"

#include <stdio.h>
#include <string.h>

#define WAIT_US 500000u             /* for answers */
#define AGAIN_US 120000000u         /* the path may have changed */
#define SILENT_US 10000000u         /* who says nothing is not probed again */
#define FULL_TRIES 2u
#define TRIES 3u                    /* of each volley */
#define SIZES 8u                    /* of a volley */
#define LEAST_BYTES 200u            /* the smallest probe: membership needs as much */
#define EXACT_BYTES 32u             /* the search ends here */

enum phase { FULL, SEARCH, KNOWN };

struct uw_secure_path {
    uint64_t session_us;            /* when the session began: another one starts anew */
    uint64_t due_us;
    uint16_t carries;               /* messages that it carries, as far as known */
    uint16_t from, below;           /* of the search: all of `from` arrive, none of `below` */
    uint16_t arrived;               /* the largest in the search */
    uint8_t phase, tries;
    bool is_narrow;                 /* reported */
};

static void probe(struct uw_secure_slot *slot, uint32_t bytes)
{
    uint8_t *plain = slot->owner->plain;
    memset(plain, 0, bytes + 1u);
    plain[0] = UW_SECURE_PROBE_MARK;
    uw_put_u16(plain + 1, bytes);
    (void)uw_tls_write(slot->tls, plain, bytes + 1u);
}

/* Report what became of a path. Datagrams are as large as with the suite that adds most. */
static void tell(struct uw_secure_slot *slot, const struct uw_secure_path *p)
{
    char text[UW_SECURE_TEXT_BYTES];
    struct uw_secure_dtls *s = slot->owner;
    unsigned bytes = p->carries + UW_SECURE_OVERHEAD_BYTES;
    if (p->is_narrow) {
        snprintf(text, sizeof text,
                 "datagrams above %u bytes do not reach %.63s: sends smaller ones; \"mtu\": %u "
                 "spares the search", bytes, slot->address, bytes);
    } else {
        snprintf(text, sizeof text, "datagrams of %u bytes reach %.63s again", bytes,
                 slot->address);
    }
    uw_secure_report(s, p->is_narrow ? UW_SECURE_PATH_NARROW : UW_SECURE_PATH_WIDE, slot->station,
                     text);
}

static void know(struct uw_secure_slot *slot, struct uw_secure_path *p, uint32_t carries)
{
    struct uw_secure_dtls *s = slot->owner;
    bool narrow = carries < s->most_bytes, news = narrow != p->is_narrow || carries != p->carries;
    p->carries = (uint16_t)carries;
    p->phase = KNOWN;
    p->due_us = s->now_us + AGAIN_US;
    p->tries = 0;
    if (news && (narrow || p->is_narrow)) {
        p->is_narrow = narrow;
        tell(slot, p);
    }
}

static void probed(struct uw_secure_slot *slot, uint32_t bytes)
{
    struct uw_secure_dtls *s = slot->owner;
    struct uw_secure_path *p = &s->path[slot - s->slots];
    if (slot->started_us != p->session_us || bytes > s->most_bytes) {
        return;
    }
    if (bytes == s->most_bytes) {
        know(slot, p, bytes);
    } else if (p->phase == SEARCH && bytes > p->arrived) {
        p->arrived = (uint16_t)bytes;
        /* Until the search ends, what has arrived is better than nothing. */
        bool first = !p->is_narrow && (p->carries == s->most_bytes || p->carries < bytes);
        p->carries = first ? (uint16_t)bytes : p->carries;
    }
}

/* The size i of a volley. */
static uint32_t size_of(const struct uw_secure_path *p, uint32_t i)
{
    return p->from + (uint32_t)(p->below - p->from) * i / SIZES;
}

static void narrow_down(struct uw_secure_slot *slot, struct uw_secure_path *p)
{
    struct uw_secure_dtls *s = slot->owner;
    if (p->arrived == 0) {          /* silent, or of a version without answers */
        know(slot, p, p->is_narrow ? p->carries : s->most_bytes);
        return;
    }
    uint32_t i = 0;
    while (i < SIZES && size_of(p, i) <= p->arrived) {
        i++;
    }
    p->below = (uint16_t)size_of(p, i);
    p->from = p->arrived;
    p->tries = 0;
    if (p->below <= p->from + EXACT_BYTES) {
        know(slot, p, p->arrived);
    }
}

static void search(struct uw_secure_slot *slot, struct uw_secure_path *p)
{
    if (p->tries == TRIES) {
        narrow_down(slot, p);
    }
    if (p->phase == SEARCH) {
        for (uint32_t i = 0; i <= SIZES; i++) {
            probe(slot, size_of(p, i));
        }
        p->tries++;
        p->due_us = slot->owner->now_us + WAIT_US;
    }
}

static void drive(struct uw_secure_slot *slot, struct uw_secure_path *p)
{
    struct uw_secure_dtls *s = slot->owner;
    if (p->phase == KNOWN && s->now_us - slot->heard_us > SILENT_US) {
        p->due_us = s->now_us + SILENT_US;
        return;
    }
    if (p->phase == KNOWN) {
        p->phase = FULL;
    }
    if (p->phase == FULL && p->tries < FULL_TRIES) {
        probe(slot, s->most_bytes);
        p->tries++;
        p->due_us = s->now_us + WAIT_US;
        return;
    }
    if (p->phase == FULL) {
        p->phase = SEARCH;
        p->tries = 0;
        p->arrived = 0;
        p->from = LEAST_BYTES;
        p->below = (uint16_t)s->most_bytes;
    }
    search(slot, p);
}

static uint64_t step(struct uw_secure_dtls *s)
{
    uint64_t next_us = UINT64_MAX;
    uint32_t mtu = s->most_bytes;
    for (uint16_t i = 0; s->most_bytes > LEAST_BYTES && i < s->slots_n; i++) {
        struct uw_secure_slot *slot = &s->slots[i];
        struct uw_secure_path *p = &s->path[i];
        if (slot->state != UW_SECURE_UP) {
            continue;
        }
        if (p->session_us != slot->started_us || p->carries == 0) {
            *p = (struct uw_secure_path){.session_us = slot->started_us,
                                         .carries = (uint16_t)s->most_bytes};
        }
        if (s->now_us >= p->due_us) {
            drive(slot, p);
        }
        next_us = uw_min_u64(next_us, p->due_us);
        mtu = uw_min_u32(mtu, p->carries);
    }
    s->link.mtu_bytes = mtu;
    return next_us;
}

const struct uw_secure_paths uw_secure_paths = {sizeof(struct uw_secure_path), probed, step};
