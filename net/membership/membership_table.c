/* SPDX-License-Identifier: Apache-2.0
 *
 * The table: chains by station and by name, a heap by due time (place 0, this device, is in none of
 * them and ends the chains); and rumours: lists of members whose record was sent 0, 1, 2 .. times
 * since it changed. A message takes from the first list that is not empty. */
#include "membership_priv.h"

#include "base/bits.h"

#include "uwasa/hash.h"

#include <string.h>

#define TOLD_TIMES 3u               /* a rumour is sent so many times log2 N ... */
#define TOLD_MORE 2u                /* ... plus so many times */
#define LOOKS_MOST (4u * UW_GATHER_MAX) /* members checked for a record */
#define NUMBER_BYTES 8u             /* of a station's number as text, with its NUL */

uint32_t uw_name_id(const char *name)
{
    return uw_hash32_text(name);
}

void uw_copy_text(char *to, const char *from, size_t cap_bytes)
{
    size_t n = strlen(from);
    n = n < cap_bytes ? n : cap_bytes - 1u;
    memcpy(to, from, n);
    to[n] = '\0';
}

/* Times that a rumour is sent with a full table. */
static uint32_t news_n(uint32_t members_max)
{
    uint32_t n = TOLD_TIMES * uw_log2_up(members_max) + TOLD_MORE;
    return n < UW_RUMOUR_SENT_MAX ? n : UW_RUMOUR_SENT_MAX;
}

static uint32_t buckets_for(uint32_t members)
{
    uint32_t n = 1;
    while (n < members) {
        n *= 2u;
    }
    return n;
}

int uw_membership_place_table(struct uw_membership *m, struct uw_arena *arena,
                              const struct uw_membership_config *config)
{
    uint32_t max = config->members_max;
    *m = (struct uw_membership){.config = *config, .buckets_n = buckets_for(max)};
    m->address_bytes = config->link->numbered ? NUMBER_BYTES : UW_LINK_ADDRESS_BYTES;
    const size_t buckets_bytes = m->buckets_n * sizeof(uint16_t);
    const size_t bytes[5] = {uw_size_mul(max, sizeof *m->members),
                             uw_size_mul(max, m->address_bytes),
                             config->averages ? uw_size_mul(max, sizeof(uwasa_Averaging)) : 0,
                             buckets_bytes, buckets_bytes};
    void *part[5];
    int rc = uw_arena_take_each(arena, 5, bytes, part);
    char *addresses = part[1];
    uwasa_Averaging *averaging = part[2];
    m->members = part[0];
    m->by_station = part[3];
    m->by_name = part[4];
    if (rc < 0 || m->members == NULL) {
        return rc;
    }
    for (uint32_t i = 0; i < max; i++) {
        m->members[i].place = (uint16_t)i;
        m->members[i].station = UW_LINK_STATION_NONE;
        m->members[i].address = addresses + (size_t)i * m->address_bytes;
        m->members[i].averaging = config->averages ? &averaging[i] : NULL;
    }
    struct uw_member *self = &m->members[0];
    uw_copy_text(self->name, config->name, sizeof self->name);
    uw_copy_text(self->address, config->address != NULL ? config->address : "",
                 m->address_bytes);
    self->id = uw_name_id(config->name);
    self->incarnation = config->incarnation;
    self->state = UW_MEMBER_ALIVE;
    self->same_model = true;
    m->members_n = 1;
    return rc;
}

int uw_membership_place_calls(struct uw_membership *m, struct uw_arena *arena)
{
    uint32_t max = m->config.members_max;
    const size_t bytes[3] = {max * sizeof(uint16_t), news_n(max) * sizeof *m->news,
                             uw_size_mul(m->config.seeds_n, sizeof *m->seeds)};
    void *part[3];
    int rc = uw_arena_take_each(arena, 3, bytes, part);
    m->seeds = part[2];
    m->heap = part[0];
    m->news = part[1];
    return rc;
}

/* ---- chains ---- */

/* Fibonacci hashing: stations are small numbers in a row. */
static uint32_t bucket(const struct uw_membership *m, uint32_t key)
{
    return (key * 2654435769u >> 16) & (m->buckets_n - 1u);
}

struct uw_member *uw_membership_at(struct uw_membership *m, uint16_t station)
{
    uint16_t at = station != UW_LINK_STATION_NONE ? m->by_station[bucket(m, station)] : 0;
    while (at != 0 && m->members[at].station != station) {
        at = m->members[at].at_station_next;
    }
    return at != 0 ? &m->members[at] : NULL;
}

void uw_membership_set_station(struct uw_membership *m, struct uw_member *member,
                               uint16_t station)
{
    uint16_t me = member->place;
    if (member->station != UW_LINK_STATION_NONE) {
        uint16_t *link = &m->by_station[bucket(m, member->station)];
        while (*link != me) {
            link = &m->members[*link].at_station_next;
        }
        *link = member->at_station_next;
    }
    member->station = station;
    if (station != UW_LINK_STATION_NONE) {
        uint16_t *first = &m->by_station[bucket(m, station)];
        member->at_station_next = *first;
        *first = me;
    }
}

struct uw_member *uw_membership_named(struct uw_membership *m, const char *name)
{
    uint32_t id = uw_name_id(name);
    uint16_t at = m->by_name[bucket(m, id)];
    while (at != 0 && (m->members[at].id != id || strcmp(m->members[at].name, name) != 0)) {
        at = m->members[at].at_name_next;
    }
    return at != 0 ? &m->members[at] : NULL;
}

void uw_membership_drop_name(struct uw_membership *m, struct uw_member *member)
{
    uint16_t me = member->place;
    if (member->name[0] != '\0') {
        uint16_t *link = &m->by_name[bucket(m, member->id)];
        while (*link != me) {
            link = &m->members[*link].at_name_next;
        }
        *link = member->at_name_next;
        member->name[0] = '\0';
    }
}

void uw_membership_set_name(struct uw_membership *m, struct uw_member *member, const char *name)
{
    uw_copy_text(member->name, name, sizeof member->name);
    member->id = uw_name_id(member->name);
    uint16_t *first = &m->by_name[bucket(m, member->id)];
    member->at_name_next = *first;
    *first = member->place;
}

/* ---- heap ---- */

static void put(struct uw_membership *m, uint32_t slot, uint16_t place)
{
    m->heap[slot] = place;
    m->members[place].in_heap = (uint16_t)slot;
}

static uint64_t due_at(const struct uw_membership *m, uint32_t slot)
{
    return m->members[m->heap[slot]].due_us;
}

void uw_membership_set_due(struct uw_membership *m, struct uw_member *member, uint64_t due_us)
{
    uint16_t me = member->place;
    uint32_t slot = member->in_heap, n = m->members_n - 1u;
    member->due_us = due_us;
    while (slot > 0 && due_us < due_at(m, (slot - 1u) / 2u)) {
        put(m, slot, m->heap[(slot - 1u) / 2u]);
        slot = (slot - 1u) / 2u;
    }
    for (;;) {
        uint32_t child = 2u * slot + 1u;
        child += child + 1u < n && due_at(m, child + 1u) < due_at(m, child);
        if (child >= n || due_at(m, child) >= due_us) {
            break;
        }
        put(m, slot, m->heap[child]);
        slot = child;
    }
    put(m, slot, me);
}

/* ---- rumours ---- */

void uw_membership_no_news(struct uw_membership *m, struct uw_member *member)
{
    if (member->rumour_sent_n >= UW_RUMOUR_SENT_MAX) {
        return;
    }
    uint16_t before = member->news_before, next = member->news_next;
    if (before != 0) {
        m->members[before].news_next = next;
    } else {
        m->news[member->rumour_sent_n].first = next;
    }
    if (next != 0) {
        m->members[next].news_before = before;
    } else {
        m->news[member->rumour_sent_n].last = before;
    }
    member->rumour_sent_n = UW_RUMOUR_SENT_MAX;
}

/* Append to the list of rumours sent rumour_sent_n times. */
static void enlist(struct uw_membership *m, struct uw_member *member, uint8_t rumour_sent_n)
{
    uint16_t me = member->place, last = m->news[rumour_sent_n].last;
    member->rumour_sent_n = rumour_sent_n;
    member->news_next = 0;
    member->news_before = last;
    m->news[rumour_sent_n].last = me;
    if (last != 0) {
        m->members[last].news_next = me;
    } else {
        m->news[rumour_sent_n].first = me;
    }
}

void uw_membership_news(struct uw_membership *m, struct uw_member *member)
{
    uw_membership_no_news(m, member);
    enlist(m, member, 0);
}

/* Times that a rumour has to be sent to reach all. */
static uint32_t enough(const struct uw_membership *m)
{
    return news_n(m->members_n);
}

static bool is_gathered(const struct uw_membership *m, uint32_t n, uint16_t place)
{
    for (uint32_t i = 0; i < n; i++) {
        if (m->gathered[i] == place) {
            return true;
        }
    }
    return false;
}

void uw_membership_record(const struct uw_membership *m, const struct uw_member *it,
                          uwasa_Peer *peer)
{
    *peer = (uwasa_Peer){.incarnation = it->incarnation, .state = (uwasa_State)it->state,
                         .pace_ms = it->pace_us / 1000u};
    memcpy(peer->name, it->name, sizeof it->name);
    uw_copy_text(peer->address, it->address, m->address_bytes);
    if (peer->address[0] == '\0' && it != &m->members[0]) {
        (void)uw_link_describe(m->config.link, it->station, peer->address);
    }
}

void uw_membership_gathered(const struct uw_membership *m, uint32_t i, uwasa_Peer *peer)
{
    uw_membership_record(m, &m->members[m->gathered[i]], peer);
}

uint32_t uw_membership_gather(struct uw_membership *m, uint32_t others)
{
    uint32_t n = 0, seen_n = m->members_n - 1u;
    for (uint32_t told = 0; told < enough(m); told++) {
        for (uint16_t at = m->news[told].first; at != 0 && n < UW_GATHER_MAX;
             at = m->members[at].news_next) {
            m->gathered[n++] = at;
        }
    }
    others = others < UW_GATHER_MAX - n ? others : UW_GATHER_MAX - n;
    for (uint32_t i = 0; i < seen_n && i < LOOKS_MOST && others != 0; i++) {
        uint16_t at = (uint16_t)(1u + m->turn++ % seen_n);
        if (m->members[at].state != UW_MEMBER_UNKNOWN && !is_gathered(m, n, at)) {
            m->gathered[n++] = at;
            others--;
        }
    }
    return n;
}

void uw_membership_mark_sent(struct uw_membership *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct uw_member *it = &m->members[m->gathered[i]];
        uint8_t rumour_sent_n = (uint8_t)(it->rumour_sent_n + 1u);
        if (rumour_sent_n <= UW_RUMOUR_SENT_MAX) {
            uw_membership_no_news(m, it);
            if (rumour_sent_n < enough(m)) {
                enlist(m, it, rumour_sent_n);
            }
        }
    }
}

/* ---- states ---- */

void uw_membership_changed(struct uw_membership *m, enum uw_node_event_kind kind,
                           const struct uw_member *member, uint64_t silent_us)
{
    if (m->config.changed != NULL) {
        m->config.changed(m->config.arg, kind, member, silent_us);
    }
}

uint64_t uw_membership_jitter(struct uw_membership *m, uint64_t us)
{
    return us - us / 8u + uw_rng_below(&m->rng, (uint32_t)uw_min_u64(us / 4u, INT32_MAX) + 1u);
}

void uw_membership_set_state(struct uw_membership *m, struct uw_member *member,
                             enum uw_member_state state)
{
    m->states_n[member->state]--;
    m->states_n[state]++;
    member->state = (uint8_t)state;
    uw_membership_news(m, member);
}

void uw_membership_let_go(struct uw_membership *m, uint16_t station)
{
    bool keep = station == UW_LINK_STATION_NONE || uw_membership_at(m, station) != NULL;
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        keep = keep || m->seeds[i].station == station;
    }
    if (!keep) {
        (void)uw_link_hold(m->config.link, station, false);
    }
}
