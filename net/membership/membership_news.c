/* SPDX-License-Identifier: Apache-2.0
 *
 * What members tell of other members. Lists of those whose record went out 0, 1, 2 .. times since
 * it changed: the next message takes from the first list that is not empty. */
#include "membership_priv.h"

#include "base/bits.h"

#include <string.h>

#define TOLD_TIMES 3u               /* tellings: so many times log2 N ... */
#define TOLD_MORE 2u                /* ... and, of few members, so many more */
#define LOOKS_MOST (4u * UW_GATHER_MAX) /* for members that can be told of */

void uw_membership_no_news(struct uw_membership *m, struct uw_member *member)
{
    if (member->told_n >= UW_TOLD_MAX) {
        return;
    }
    uint16_t before = member->news_before, next = member->news_next;
    if (before != 0) {
        m->members[before].news_next = next;
    } else {
        m->news[member->told_n].first = next;
    }
    if (next != 0) {
        m->members[next].news_before = before;
    } else {
        m->news[member->told_n].last = before;
    }
    member->told_n = UW_TOLD_MAX;
}

/* To the end of the list of those told so often. */
static void enlist(struct uw_membership *m, struct uw_member *member, uint8_t told_n)
{
    uint16_t me = uw_member_place(m, member), last = m->news[told_n].last;
    member->told_n = told_n;
    member->news_next = 0;
    member->news_before = last;
    m->news[told_n].last = me;
    if (last != 0) {
        m->members[last].news_next = me;
    } else {
        m->news[told_n].first = me;
    }
}

void uw_membership_news(struct uw_membership *m, struct uw_member *member)
{
    uw_membership_no_news(m, member);
    enlist(m, member, 0);
}

uint32_t uw_membership_news_n(uint32_t members_max)
{
    uint32_t n = TOLD_TIMES * uw_log2_up(members_max) + TOLD_MORE;
    return n < UW_TOLD_MAX ? n : UW_TOLD_MAX;
}

/* So often is enough for all to hear of it. */
static uint32_t enough(const struct uw_membership *m)
{
    return uw_membership_news_n(m->members_n);
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

void uw_membership_sent(struct uw_membership *m, uint32_t bytes, uint32_t told)
{
    for (uint32_t i = 0; i < told; i++) {
        struct uw_member *it = &m->members[m->gathered[i]];
        uint8_t told_n = (uint8_t)(it->told_n + 1u);
        if (told_n <= UW_TOLD_MAX) {
            uw_membership_no_news(m, it);
            if (told_n < enough(m)) {
                enlist(m, it, told_n);
            }
        }
    }
    uw_membership_pay(m, bytes);
}
