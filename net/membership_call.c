/* SPDX-License-Identifier: Apache-2.0
 *
 * The clockwork of membership: who has been silent for how long, who is called when. */
#include "membership.h"

#include <stdio.h>

#define CALL_FIRST_US 250000u
#define CALL_MAX_US 5000000u
#define CALLS_A_SESSION 8u          /* calls of a dead member before its session is forgotten */
#define CALLS_A_LOOKUP 9u           /* of a seed in vain before its name is looked up once more */
#define LOOKUP_US 50000u            /* how soon to see whether a name has been looked up */

static uint64_t call_pause(struct uw_membership *m, uint32_t tries)
{
    uint64_t us = (uint64_t)CALL_FIRST_US << (tries < 10u ? tries / 2u : 5u);
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

/* Find out where to call a member. Returns UW_OK; UW_ERR_AGAIN (soon); or that nobody knows. */
static int locate(struct uw_membership *m, struct uw_member *it)
{
    uint16_t station;
    if (it->station != UW_LINK_STATION_NONE) {
        return UW_OK;
    }
    int rc = it->address[0] != '\0' ? uw_link_resolve(m->config.link, it->address, &station)
                                    : UW_ERR_NOTFOUND;
    if (rc == UW_OK && uw_membership_at(m, station) != NULL) {
        rc = UW_ERR_NOTFOUND;
    }
    if (rc == UW_OK) {
        it->station = station;
    }
    return rc;
}

static int call_member(struct uw_membership *m, struct uw_member *it, uint16_t *station,
                       uint32_t *seq)
{
    bool live = it->state == UW_MEMBER_ALIVE || it->state == UW_MEMBER_SUSPECT;
    if (it->state == UW_MEMBER_LEFT || m->now_us < it->next_us) {
        return 0;
    }
    int found = locate(m, it);
    if (found == UW_ERR_AGAIN) {
        it->next_us = m->now_us + LOOKUP_US;
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
    if (found < 0) {
        return 0;
    }
    *station = it->station;
    it->ping_seq = *seq = ++m->seq;
    it->ping_us = m->now_us;
    return live ? UW_WIRE_PING : UW_WIRE_HELLO;
}

static void seed_failed(struct uw_membership *m, struct uw_seed *s)
{
    if (!s->told) {
        struct uw_member nobody = {.station = UW_LINK_STATION_NONE};
        snprintf(nobody.address, sizeof nobody.address, "%s", s->address);
        uw_membership_changed(m, UW_NODE_SEED_FAILED, &nobody, 0);
        s->told = true;
    }
}

/* Look a seed up; once more when it does not answer, for its name may have moved. It is called
 * where it was until the new answer is there. */
static void locate_seed(struct uw_membership *m, struct uw_seed *s)
{
    uint16_t found;
    bool known = s->station != UW_LINK_STATION_NONE;
    if (known && !s->asking && s->tries % CALLS_A_LOOKUP != CALLS_A_LOOKUP - 1u) {
        return;
    }
    int rc = uw_link_resolve(m->config.link, s->address, &found);
    s->asking = rc == UW_ERR_AGAIN;
    if (rc == UW_OK) {
        uint16_t before = s->station;
        s->station = found;
        uw_membership_let_go(m, before);
    } else if (!s->asking && !known) {
        seed_failed(m, s);
    }
}

static enum uw_member_state state_at(struct uw_membership *m, uint16_t station)
{
    const struct uw_member *it =
        station != UW_LINK_STATION_NONE ? uw_membership_at(m, station) : NULL;
    return it != NULL ? it->state : UW_MEMBER_UNKNOWN;
}

static int call_seed(struct uw_membership *m, struct uw_seed *s, uint16_t *station, uint32_t *seq)
{
    if (s->self || m->now_us < s->next_us) {
        return 0;
    }
    enum uw_member_state state = state_at(m, s->station);
    if (state == UW_MEMBER_ALIVE || state == UW_MEMBER_SUSPECT) {
        s->tries = 0;
        s->next_us = m->now_us + uw_membership_jitter(m, CALL_MAX_US);
        return 0;
    }
    locate_seed(m, s);
    if (s->station == UW_LINK_STATION_NONE && s->asking) {
        s->next_us = m->now_us + LOOKUP_US;
        return 0;
    }
    s->next_us = m->now_us + call_pause(m, s->tries++);
    /* A member's own calls cover its seed. */
    if (s->station == UW_LINK_STATION_NONE || state_at(m, s->station) == UW_MEMBER_DEAD) {
        return 0;
    }
    *station = s->station;
    *seq = ++m->seq;
    return UW_WIRE_HELLO;
}

/* When there is something to do about a member, or its silence to notice. */
static uint64_t member_due_us(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t due_us = it->state != UW_MEMBER_LEFT ? it->next_us : UINT64_MAX;
    uint64_t silence_us = UINT64_MAX;
    if (it->state == UW_MEMBER_ALIVE) {
        silence_us = it->heard_us + suspect_after(m, it);
    } else if (it->state == UW_MEMBER_SUSPECT) {
        silence_us = it->heard_us + dead_after(m, it);
    }
    return silence_us < due_us ? silence_us : due_us;
}

static uint64_t least_due_us(const struct uw_membership *m)
{
    uint64_t due_us = UINT64_MAX;
    for (uint32_t i = 1; i < m->members_n; i++) {
        uint64_t member_us = member_due_us(m, &m->members[i]);
        due_us = member_us < due_us ? member_us : due_us;
    }
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        if (!m->seeds[i].self && m->seeds[i].next_us < due_us) {
            due_us = m->seeds[i].next_us;
        }
    }
    return due_us;
}

void uw_membership_rush(struct uw_membership *m, const struct uw_member *member)
{
    uint64_t due_us = member_due_us(m, member);
    m->due_us = due_us < m->due_us ? due_us : m->due_us;
}

/* due_us may be too early, when somebody was heard since, and is made exact when all was looked at
 * and nothing found. */
int uw_membership_next(struct uw_membership *m, uint64_t now_us, uint16_t *station, uint32_t *seq)
{
    m->now_us = now_us;
    if (now_us < m->due_us) {
        return 0;
    }
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
    m->due_us = least_due_us(m);
    return 0;
}

uint64_t uw_membership_next_us(const struct uw_membership *m)
{
    return m->due_us;
}

uint64_t uw_membership_wake(struct uw_membership *m, uint64_t now_us)
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
    return slept ? late_us : 0;
}
