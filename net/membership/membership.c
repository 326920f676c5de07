/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_priv.h"

#include "base/bits.h"

#include "uwasa/hash.h"

#include <string.h>

#define PATIENCE_MAX 16u
#define MESSAGE_FIRST_BYTES 128u
#define PACE_MAX_MS 600000u         /* largest pace that a member may report */
#define CALLS_IN_VAIN 12u
#define HELLOS_IN_VAIN 4u           /* in a row, all answered: the answers do not arrive */
#define RTT_TIMES 4u                /* most that a measured round trip is longer than before, */
#define RTT_SLACK_US 10000u         /* and this */

int uw_membership_place(struct uw_membership *m, struct uw_arena *arena,
                        const struct uw_membership_config *config)
{
    int rc = uw_membership_place_table(m, arena, config);
    rc = rc == UW_OK ? uw_membership_place_calls(m, arena) : rc;
    for (uint32_t i = 0; rc == UW_OK && m->seeds != NULL && i < config->seeds_n; i++) {
        m->seeds[i].address = config->seeds[i];
        m->seeds[i].station = UW_LINK_STATION_NONE;
    }
    m->message_bytes = MESSAGE_FIRST_BYTES;
    uw_rng_seed(&m->rng, config->seed);
    return rc;
}

static void beacon_soon(struct uw_membership *m)
{
    if (m->config.beacons != NULL) {
        m->config.beacons->show(m);
    }
}

static void sign_of_life(struct uw_membership *m, struct uw_member *member)
{
    enum uw_member_state before = member->state;
    uint64_t silent_us = m->now_us - member->heard_us;
    member->heard_us = m->now_us;
    member->asked_us = 0;
    member->tries = 0;
    if (before == UW_MEMBER_ALIVE) {
        return;
    }
    uw_membership_set_state(m, member, UW_MEMBER_ALIVE);
    member->unanswered = 0;
    member->next_us = m->now_us + uw_membership_jitter(m, m->config.ping_us);
    uw_membership_rush(m, member);
    if (before == UW_MEMBER_SUSPECT) {
        uint32_t patience = member->patience + member->patience / 2u;
        member->patience = (uint8_t)uw_min_u32(patience, PATIENCE_MAX);
    }
    if (m->members_n < m->config.members_max) {     /* a full table always has new members */
        beacon_soon(m);
    }
    bool is_new = before == UW_MEMBER_UNKNOWN;
    uw_membership_changed(m, is_new ? UW_NODE_ALIVE : UW_NODE_REJOINED, member,
                          is_new ? 0 : silent_us);
}

struct uw_member *uw_membership_heard(struct uw_membership *m, uint16_t station, uint64_t now_us)
{
    struct uw_member *member = uw_membership_at(m, station);
    m->now_us = now_us;
    /* A member that has left, or is unknown, must send a hello first. */
    if (member != NULL && member->state != UW_MEMBER_UNKNOWN && member->state != UW_MEMBER_LEFT) {
        sign_of_life(m, member);
    }
    return member;
}

static void release(struct uw_membership *m, struct uw_member *member)
{
    uint16_t station = member->station;
    uw_membership_set_station(m, member, UW_LINK_STATION_NONE);
    uw_membership_let_go(m, station);
}

static struct uw_member *longest(struct uw_membership *m, enum uw_member_state state,
                                 uint32_t tries)
{
    struct uw_member *slot = NULL;
    for (uint32_t i = 1; m->states_n[state] != 0 && i < m->members_n; i++) {
        struct uw_member *c = &m->members[i];
        if (c->state == state && c->tries >= tries &&
            (slot == NULL || c->heard_us < slot->heard_us)) {
            slot = c;
        }
    }
    return slot;
}

/* A member to replace; a rumour replaces only one that has not answered pings for long. */
static struct uw_member *gone(struct uw_membership *m, bool heard)
{
    struct uw_member *slot = heard ? longest(m, UW_MEMBER_UNKNOWN, 0) : NULL;
    slot = slot != NULL ? slot : longest(m, UW_MEMBER_LEFT, 0);
    slot = slot != NULL ? slot : longest(m, UW_MEMBER_DEAD, heard ? 0 : CALLS_IN_VAIN);
    return slot != NULL ? slot : longest(m, UW_MEMBER_UNKNOWN, CALLS_IN_VAIN);
}

/* A random live member, to be replaced by a device of this name. One member at a time is added by a
 * rumour, because it may not exist. */
static struct uw_member *spared(struct uw_membership *m, const char *name, bool heard)
{
    struct uw_member *slot = NULL;
    uint32_t n = 0;
    bool wanted = m->config.wants != NULL && m->config.wants(m->config.arg, uw_name_id(name));
    if (m->config.spares == NULL || (m->now_us < m->swap_us && !wanted) ||
        (!heard && longest(m, UW_MEMBER_UNKNOWN, 0) != NULL)) {
        return NULL;
    }
    for (uint32_t i = 1; i < m->members_n; i++) {
        struct uw_member *c = &m->members[i];
        if (m->config.spares(m->config.arg, c) && uw_rng_below(&m->rng, ++n) == 0) {
            slot = c;
        }
    }
    m->swap_us = m->now_us + uw_membership_jitter(m, m->config.suspect_us);
    return slot;
}

static void forget(struct uw_membership *m, const struct uw_member *it, bool restarted)
{
    if (m->config.forget != NULL) {
        m->config.forget(m->config.arg, it, restarted);
    }
}

/* A place for a new name: a free one, or that of the least important member. */
static struct uw_member *enter(struct uw_membership *m, const char *name, bool heard)
{
    struct uw_member *slot = NULL;
    bool is_free = m->members_n < m->config.members_max;
    if (is_free) {
        slot = &m->members[m->members_n++];
        slot->rumour_sent_n = UW_RUMOUR_SENT_MAX;
        slot->in_heap = (uint16_t)(m->members_n - 2u);
    } else {
        slot = gone(m, heard);
        m->crowded_us = slot != NULL ? m->crowded_us : m->now_us;
        slot = slot != NULL ? slot : spared(m, name, heard);
    }
    if (slot == NULL) {
        return NULL;
    }
    release(m, slot);
    uw_membership_no_news(m, slot);
    uw_membership_drop_name(m, slot);
    m->states_n[slot->state] -= is_free ? 0 : 1u;
    m->states_n[UW_MEMBER_UNKNOWN]++;
    char *address = slot->address;
    uwasa_Averaging *averaging = slot->averaging;
    uint16_t in_heap = slot->in_heap, place = slot->place;
    *slot = (struct uw_member){
        .station = UW_LINK_STATION_NONE,
        .was_station = UW_LINK_STATION_NONE,
        .same_model = true,
        .patience = UW_MEMBER_PATIENCE,
        .rumour_sent_n = UW_RUMOUR_SENT_MAX,
        .place = place,
        .in_heap = in_heap,
        .address = address,
        .averaging = averaging,
    };
    uw_membership_set_name(m, slot, name);
    if (averaging != NULL) {
        *averaging = (uwasa_Averaging){.averages = false};
    }
    address[0] = '\0';
    forget(m, slot, false);
    uw_membership_set_due(m, slot, 0);
    return slot;
}

/* A station belongs to one member only. */
static void move_to(struct uw_membership *m, struct uw_member *member, uint16_t station)
{
    if (member->station == station) {
        return;
    }
    struct uw_member *other = uw_membership_at(m, station);
    if (other != NULL) {
        /* A device that changes its name must not fill the table. */
        uw_membership_set_station(m, other, UW_LINK_STATION_NONE);
        if (uw_member_is_live(other)) {
            uw_membership_set_state(m, other, UW_MEMBER_LEFT);
            uw_membership_changed(m, UW_NODE_LEFT, other, 0);
        }
    }
    uint16_t before = member->station;
    release(m, member);
    member->was_station = before;
    uw_membership_set_station(m, member, station);
    (void)uw_link_hold(m->config.link, station, true);
}

static void set_pace(struct uw_member *it, const uwasa_Peer *peer)
{
    it->pace_us = uw_min_u32(peer->pace_ms, PACE_MAX_MS) * 1000u;
}

static bool is_self(const struct uw_membership *m, const char *name)
{
    return strcmp(name, m->members[0].name) == 0;
}

static bool is_at(const struct uw_membership *m, const struct uw_member *it, const char *address)
{
    return strncmp(it->address, address, m->address_bytes - 1u) == 0;
}

/* From now on this device's pings have numbers that a device with the same name would not choose:
 * the two differ in the stations they meet, and when. */
static void leap(struct uw_membership *m, uint16_t station)
{
    char at[UW_LINK_ADDRESS_BYTES] = "";
    (void)uw_link_describe(m->config.link, station, at);
    m->unmet_seq = m->seq;
    m->seq += (uint32_t)uw_rng_mix(m->now_us, uw_name_id(at)) >> 2;
    m->met_seq = ++m->seq;
}

/* Handle a message with this device's own name: an echo, or another device, maybe configured and
 * started alike.
 *   same  equal incarnation and address
 * Returns UW_ERR_INVALID (an echo), UW_ERR_DENIED (another device). */
static int meet_self(struct uw_membership *m, uint16_t station, uint32_t seq, bool same)
{
    const struct uw_link *l = m->config.link;
    if (!l->numbered && m->met_seq == 0) {
        leap(m, station);
    }
    bool echo = l->numbered ? station == l->own : seq - m->met_seq <= m->seq - m->met_seq;
    for (uint32_t i = 0; same && echo && i < m->config.seeds_n; i++) {
        m->seeds[i].self = m->seeds[i].self || m->seeds[i].station == station;
    }
    bool maybe = !l->numbered && seq <= m->unmet_seq;   /* sent before, and late */
    return same && (echo || maybe) ? UW_ERR_INVALID : UW_ERR_DENIED;
}

int uw_membership_update(struct uw_membership *m, uint16_t station, bool hello,
                         const uwasa_Ping *ping, uint64_t now_us, struct uw_member **member)
{
    const uwasa_Peer *peer = &ping->self;
    m->now_us = now_us;
    if (m->config.beacons != NULL && ping->seq == 0) {
        m->config.beacons->heard(m, station);
    }
    if (is_self(m, peer->name)) {
        const struct uw_member *self = &m->members[0];
        bool same = peer->incarnation == self->incarnation && is_at(m, self, peer->address);
        return meet_self(m, station, ping->seq, same);
    }
    struct uw_member *it = uw_membership_named(m, peer->name);
    bool restarted = false;
    if (it == NULL) {
        it = enter(m, peer->name, true);
        if (it == NULL) {
            return UW_ERR_FULL;
        }
        it->heard_us = now_us;
    } else if (it->state != UW_MEMBER_UNKNOWN) {
        bool elsewhere = it->station != station && it->station != UW_LINK_STATION_NONE;
        /* Of two with equal incarnations, the one that returns while the other is alive. */
        bool older = peer->incarnation < it->incarnation ||
                     (peer->incarnation == it->incarnation && it->was_station == station);
        if (older && elsewhere && it->state == UW_MEMBER_ALIVE) {
            return UW_ERR_DENIED;
        }
        restarted = peer->incarnation > it->incarnation && it->incarnation != 0;
    }
    if (restarted) {
        /* The restarted member has no state of this device. */
        it->srtt_us = 0;
        it->unanswered = it->hellos = 0;
        forget(m, it, true);
    }
    move_to(m, it, station);
    if (peer->incarnation > it->incarnation) {
        it->incarnation = peer->incarnation;
    }
    if (restarted || !is_at(m, it, peer->address)) {
        uw_membership_news(m, it);
    }
    uw_copy_text(it->address, peer->address, m->address_bytes);
    set_pace(it, peer);
    it->same_model = ping->model == m->config.model;
    if (ping->has_progress) {
        it->progress = ping->progress;
        if (it->averaging != NULL) {
            *it->averaging = ping->averaging;
        }
        if (m->config.windows != NULL) {
            m->config.windows->set(it, now_us);
        }
    }
    enum uw_member_state before = it->state;
    it->hellos = hello ? (uint8_t)uw_min_u32(it->hellos + 1u, HELLOS_IN_VAIN) : 0;
    if (it->hellos < HELLOS_IN_VAIN) {
        sign_of_life(m, it);
        uw_membership_exchanged(m, it);
    }
    if (restarted && before != UW_MEMBER_UNKNOWN) {
        uw_membership_changed(m, UW_NODE_RESTARTED, it, 0);
    }
    if (member != NULL) {
        *member = it;
    }
    return UW_OK;
}

void uw_membership_rumour(struct uw_membership *m, const uwasa_Peer *peer, uint64_t now_us)
{
    if (is_self(m, peer->name)) {
        /* Another address is another device with this name: do not raise the incarnation. */
        struct uw_member *self = &m->members[0];
        bool ours = self->address[0] == '\0' || is_at(m, self, peer->address);
        if (peer->incarnation > self->incarnation && (ours || peer->state != uwasa_State_ALIVE)) {
            self->incarnation = peer->incarnation + (peer->incarnation != UINT32_MAX ? 1u : 0u);
        }
        return;
    }
    m->now_us = now_us;
    struct uw_member *it = uw_membership_named(m, peer->name);
    if (it == NULL) {
        if (peer->address[0] == '\0' || peer->state == uwasa_State_LEFT ||
            peer->state == uwasa_State_DEAD) {
            return;
        }
        it = enter(m, peer->name, false);
        if (it == NULL) {
            return;
        }
        it->incarnation = peer->incarnation;
        it->heard_us = it->told_us = now_us;
        uw_copy_text(it->address, peer->address, m->address_bytes);
        set_pace(it, peer);
        it->next_us = UINT64_MAX;
        uw_membership_soon(m, it);
        return;
    }
    it->told_us = peer->state == uwasa_State_ALIVE ? now_us : it->told_us;
    /* Another member receives nothing from it. */
    if (peer->state != uwasa_State_ALIVE && peer->incarnation >= it->incarnation) {
        uw_membership_doubt(m, it, now_us);
    }
    /* A rumour of an unreachable member: it may have returned at another address. */
    if (it->state != UW_MEMBER_ALIVE && peer->incarnation > it->incarnation &&
        peer->address[0] != '\0' && peer->state == uwasa_State_ALIVE) {
        uw_copy_text(it->address, peer->address, m->address_bytes);
        release(m, it);
        if (it->state == UW_MEMBER_LEFT) {
            uw_membership_set_state(m, it, UW_MEMBER_DEAD);
        }
        it->tries = 0;
        it->next_us = now_us;
        uw_membership_rush(m, it);
    }
}

bool uw_membership_is_deaf(const struct uw_membership *m, const struct uw_member *it,
                           uint64_t now_us)
{
    bool met = it->state != UW_MEMBER_UNKNOWN;
    uint64_t wait_us = m->config.suspect_us * (met ? 2u : 1u);
    return it->state != UW_MEMBER_ALIVE && it->state != UW_MEMBER_LEFT &&
           it->told_us > it->heard_us + wait_us && now_us < it->told_us + m->config.dead_us;
}

void uw_membership_goodbye(struct uw_membership *m, uint16_t station, const uwasa_Peer *peer,
                           uint64_t now_us)
{
    struct uw_member *it = uw_membership_named(m, peer->name);
    if (it == NULL || it->station != station || it->state == UW_MEMBER_LEFT ||
        peer->incarnation < it->incarnation) {
        return;
    }
    m->now_us = now_us;
    uw_membership_set_state(m, it, UW_MEMBER_LEFT);
    uw_membership_changed(m, UW_NODE_LEFT, it, 0);
}

void uw_membership_acked(struct uw_membership *m, struct uw_member *member, uint32_t seq,
                         uint64_t now_us)
{
    if (seq != member->ping_seq || member->ping_us == 0) {
        return;
    }
    uint64_t rtt_us = now_us - member->ping_us, was_us = member->srtt_us;
    /* Rare samples have more weight, as the old value may be outdated; so have far shorter ones: it
     * may be of a node that was paused. */
    bool rare = uw_membership_pace_us(m) + member->pace_us != 0;
    uint64_t parts = was_us == 0 ? 1u : rare || 8u * rtt_us < was_us ? 2u : 8u;
    rtt_us = was_us == 0 ? rtt_us : uw_min_u64(rtt_us, RTT_TIMES * was_us + RTT_SLACK_US);
    rtt_us = (was_us * (parts - 1u) + rtt_us) / parts;
    member->srtt_us = (uint32_t)uw_min_u64(uw_max_u64(rtt_us, 1u), UINT32_MAX);
    member->ping_us = 0;
    member->ping_seq = 0;
    member->unanswered = 0;
    if (member->patience > UW_MEMBER_PATIENCE && uw_rng_below(&m->rng, 64) == 0) {
        member->patience--;
    }
    uw_membership_rush(m, member);
}

void uw_membership_doubt(struct uw_membership *m, struct uw_member *member, uint64_t now_us)
{
    m->now_us = now_us;
    if (member->state == UW_MEMBER_ALIVE && member->asked_us == 0 &&
        now_us - member->heard_us >= m->config.ping_us) {
        member->doubted = true;
        uw_membership_soon(m, member);
    }
}

void uw_membership_hurry(struct uw_membership *m, uint64_t now_us)
{
    m->now_us = now_us;
    beacon_soon(m);
    for (uint32_t i = 1; m->config.beacons == NULL && i < m->members_n; i++) {
        if (m->members[i].state == UW_MEMBER_ALIVE) {
            uw_membership_soon(m, &m->members[i]);
        }
    }
}

void uw_membership_self(const struct uw_membership *m, uwasa_Peer *peer)
{
    uint64_t pace_ms = uw_membership_pace_us(m) / 1000u;
    uw_membership_record(m, &m->members[0], peer);
    peer->pace_ms = pace_ms < PACE_MAX_MS ? (uint32_t)pace_ms : PACE_MAX_MS;
}
