/* SPDX-License-Identifier: Apache-2.0
 *
 * The clockwork of membership: who has been silent for how long, who is called when. */
#include "membership.h"

#include <stdio.h>

#define CALL_FIRST_US 250000u
#define CALL_MAX_US 5000000u
#define CALLS_A_SESSION 5u          /* calls of a dead member before its session is forgotten */

static uint64_t call_pause(struct uw_membership *m, uint32_t tries)
{
    uint64_t us = (uint64_t)CALL_FIRST_US << (tries < 5u ? tries : 5u);
    return uw_membership_jitter(m, us < CALL_MAX_US ? us : CALL_MAX_US);
}

static uint64_t suspect_after(const struct uw_membership *m, const struct uw_member *it)
{
    return m->config.suspect_us * it->patience / UW_MEMBER_PATIENCE + 4u * (uint64_t)it->srtt_us;
}

static uint64_t dead_after(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t suspect = suspect_after(m, it);
    return m->config.dead_us > 2u * suspect ? m->config.dead_us : 2u * suspect;
}

static void notice_silence(struct uw_membership *m, struct uw_member *it)
{
    uint64_t silent_us = m->now_us - it->heard_us;
    if (it->state == UW_MEMBER_ALIVE && silent_us >= suspect_after(m, it)) {
        uw_member_set_state(it, UW_MEMBER_SUSPECT, m->now_us);
        uw_membership_changed(m, UW_NODE_SUSPECT, it, silent_us);
    } else if (it->state == UW_MEMBER_SUSPECT && silent_us >= dead_after(m, it)) {
        uw_member_set_state(it, UW_MEMBER_DEAD, m->now_us);
        it->tries = 2;
        it->next_us = m->now_us + call_pause(m, it->tries);
        uw_membership_changed(m, UW_NODE_DEAD, it, silent_us);
    }
}

/* Where to call a member; UW_LINK_STATION_NONE when nobody knows. */
static uint16_t station_of(struct uw_membership *m, struct uw_member *it)
{
    if (it->station == UW_LINK_STATION_NONE && it->address[0] != '\0') {
        uint16_t station;
        if (uw_link_resolve(m->config.link, it->address, &station) == UW_OK &&
            uw_membership_at(m, station) == NULL) {
            it->station = station;
        }
    }
    return it->station;
}

static int call_member(struct uw_membership *m, struct uw_member *it, uint16_t *station,
                       uint32_t *seq)
{
    bool live = it->state == UW_MEMBER_ALIVE || it->state == UW_MEMBER_SUSPECT;
    if (it->state == UW_MEMBER_LEFT || m->now_us < it->next_us) {
        return 0;
    }
    uint64_t quiet_us = m->now_us - it->heard_us;
    if (live && quiet_us >= m->config.ping_us) {
        /* Nothing came back yet: ask three times as often, one of them will get through. */
        it->next_us = m->now_us + uw_membership_jitter(m, m->config.ping_us / 3u);
    } else if (live) {
        it->next_us = m->now_us + uw_membership_jitter(m, m->config.ping_us);
    } else {
        it->next_us = m->now_us + call_pause(m, it->tries);
        /* It may have lost its half of a secure session in a restart, and know nobody to call. */
        if (it->state == UW_MEMBER_DEAD && it->tries % CALLS_A_SESSION == CALLS_A_SESSION - 1u) {
            uw_link_forget(m->config.link, it->station);
        }
    }
    it->tries++;
    *station = station_of(m, it);
    if (*station == UW_LINK_STATION_NONE) {
        return 0;
    }
    it->ping_seq = *seq = ++m->seq;
    it->ping_us = m->now_us;
    return live ? UW_WIRE_PING : UW_WIRE_HELLO;
}

static int call_seed(struct uw_membership *m, struct uw_seed *s, uint16_t *station, uint32_t *seq)
{
    if (s->self || m->now_us < s->next_us) {
        return 0;
    }
    if (s->station != UW_LINK_STATION_NONE) {
        const struct uw_member *it = uw_membership_at(m, s->station);
        if (it != NULL && it->state != UW_MEMBER_UNKNOWN && it->state != UW_MEMBER_LEFT) {
            /* The member's own calls cover it; look again later. */
            s->tries = 0;
            s->next_us = m->now_us + uw_membership_jitter(m, CALL_MAX_US);
            return 0;
        }
    }
    s->next_us = m->now_us + call_pause(m, s->tries++);
    if (s->station == UW_LINK_STATION_NONE) {
        uint16_t found;
        int rc = uw_link_resolve(m->config.link, s->address, &found);
        if (rc != UW_OK) {
            if (!s->told) {
                struct uw_member nobody = {.station = UW_LINK_STATION_NONE};
                snprintf(nobody.address, sizeof nobody.address, "%s", s->address);
                uw_membership_changed(m, UW_NODE_SEED_FAILED, &nobody, 0);
                s->told = true;
            }
            return 0;
        }
        s->station = found;
    }
    *station = s->station;
    *seq = ++m->seq;
    return UW_WIRE_HELLO;
}

int uw_membership_next(struct uw_membership *m, uint64_t now_us, uint16_t *station, uint32_t *seq)
{
    m->now_us = now_us;
    for (uint32_t i = 1; i < m->members_n; i++) {
        notice_silence(m, &m->members[i]);
        int type = call_member(m, &m->members[i], station, seq);
        if (type != 0) {
            return type;
        }
    }
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        int type = call_seed(m, &m->seeds[i], station, seq);
        if (type != 0) {
            return type;
        }
    }
    return 0;
}

uint64_t uw_membership_next_us(const struct uw_membership *m)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 1; i < m->members_n; i++) {
        const struct uw_member *it = &m->members[i];
        if (it->state != UW_MEMBER_LEFT && it->next_us < next) {
            next = it->next_us;
        }
        uint64_t silence = UINT64_MAX;
        if (it->state == UW_MEMBER_ALIVE) {
            silence = it->heard_us + suspect_after(m, it);
        } else if (it->state == UW_MEMBER_SUSPECT) {
            silence = it->heard_us + dead_after(m, it);
        }
        next = silence < next ? silence : next;
    }
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        if (!m->seeds[i].self && m->seeds[i].next_us < next) {
            next = m->seeds[i].next_us;
        }
    }
    return next;
}

void uw_membership_wake(struct uw_membership *m, uint64_t now_us)
{
    uint64_t promised_us = uw_membership_next_us(m);
    promised_us = promised_us > m->now_us ? promised_us : m->now_us;
    uint64_t late_us = now_us > promised_us ? now_us - promised_us : 0;
    bool slept = m->started && late_us >= m->config.ping_us;
    m->started = true;
    m->now_us = now_us;
    for (uint32_t i = 1; slept && i < m->members_n; i++) {
        uint64_t heard_us = m->members[i].heard_us + late_us;
        m->members[i].heard_us = heard_us < now_us ? heard_us : now_us;
        m->members[i].ping_us = 0;  /* the answer waited for us: that is no round trip */
    }
}
