/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the table somebody is: chains by station and by name, a heap by what is due next. Place
 * 0, this device, is in none of them and ends the chains. */
#include "membership_priv.h"

#include <string.h>

static uint32_t buckets_for(uint32_t members)
{
    uint32_t n = 1;
    while (n < members) {
        n *= 2u;
    }
    return n;
}

int uw_membership_place_tables(struct uw_membership *m, struct uw_arena *arena)
{
    uint32_t max = m->config.members_max;
    m->buckets_n = buckets_for(max);
    const size_t buckets_bytes = m->buckets_n * sizeof(uint16_t);
    const size_t bytes[4] = {max * sizeof(uint16_t), buckets_bytes, buckets_bytes,
                             uw_membership_news_n(max) * sizeof *m->news};
    void *part[4];
    int rc = uw_arena_take_each(arena, 4, bytes, part);
    m->heap = part[0];
    m->by_station = part[1];
    m->by_name = part[2];
    m->news = part[3];
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
    uint16_t me = uw_member_place(m, member);
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
    uint16_t me = uw_member_place(m, member);
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
    *first = uw_member_place(m, member);
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
    uint16_t me = uw_member_place(m, member);
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
