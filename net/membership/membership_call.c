/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of membership: silence and pings. */
#include "membership_priv.h"

#include "base/backoff.h"
#include "base/token_bucket.h"

#include "uwasa/fmath.h"
#include "uwasa/node_sleep.h"

#include <stdio.h>
#include <string.h>

#define CALL_FIRST_US 250000u
#define CALL_DOUBLINGS 5u
#define CALL_MAX_US 5000000u
#define CALLS_A_SESSION 8u          /* pings of a dead member before its session is dropped */
#define CALLS_A_LOOKUP 9u           /* unanswered pings of a seed before it is resolved again */
#define LOOKUP_US 50000u            /* poll interval of a name lookup */
#define TRIES_MIN 3u                /* pings before silence counts */
#define SEED_RARELY 12u             /* factor on the interval */
#define TRIES_EARLY 6u              /* pings of a new member without back-off */
#define LIVE_PARTS 4u               /* parts of the rate, all but one for live members */
#define SPREAD_PARTS 8u             /* "soon" is this fraction of the pace */
#define UNANSWERED_MAX 3u           /* doublings of a ping's timeout */
#define BUSY_TIMES 4u               /* a step later than this multiple of the usual has slept */
#define BEACONS_MISSED 3u           /* missing beacons before a ping; one more ... */
#define CROWD_PINGS 4u              /* ... if the interval of beacons is so many pings */
#define LATE_PARTS 8u               /* smoothing of the usual delay */
#define BURST_US 4000000u           /* size of the token bucket ... */
#define BURST_MESSAGES 8u           /* ... at least so many messages */
#define BEACONS_EARLY 6u            /* beacons for a new device ... */
#define EARLY_PARTS 4u              /* ... at this fraction of the pace, at least */
#define GUARD_US 2000u              /* margin for reports in milliseconds and their delay */
#define GUARD_PARTS 5000u           /* 200 ppm: two clocks that are 100 ppm wrong */
#define GUARD_MOST_PARTS 4u         /* of a window */
#define PERIOD_MOST_MS (UW_NODE_SLEEP_MOST_US / 1000u)

/* ---- costs ---- */

/* Time of so many messages at the configured rate. */
static uint64_t price_us(const struct uw_membership *m, uint32_t messages_n)
{
    uint64_t bytes = (uint64_t)messages_n * m->message_bytes;
    return bytes * 1000000000u / m->config.rate_mbytes_per_s;
}

static uint64_t burst_us(const struct uw_membership *m)
{
    return uw_max_u64(price_us(m, BURST_MESSAGES), BURST_US);
}

static void pay(struct uw_membership *m, uint32_t bytes)
{
    uint64_t us = (uint64_t)bytes * 1000000000u / m->config.rate_mbytes_per_s;
    /* Excessive requests are answered; the debt is limited. */
    uw_bucket_pay(&m->paid_us, us, 2u * burst_us(m), m->now_us);
    m->message_bytes = (m->message_bytes * 15u + bytes + 8u) / 16u;
}

/* When the rate allows the next ping. */
static uint64_t afford_us(const struct uw_membership *m)
{
    uint64_t burst = burst_us(m);
    return m->paid_us > burst ? m->paid_us - burst : 0;
}

/* Interval of exchanges with each live member, with one message of ours each. */
static uint64_t exchange_us(const struct uw_membership *m)
{
    uint32_t live_n = m->states_n[UW_MEMBER_ALIVE] + m->states_n[UW_MEMBER_SUSPECT];
    live_n = m->crowd.n > live_n ? m->crowd.n : live_n;
    return price_us(m, live_n) * LIVE_PARTS / (LIVE_PARTS - 1u);
}

uint64_t uw_membership_pace_us(const struct uw_membership *m)
{
    uint64_t us = exchange_us(m);
    return us > m->config.ping_us ? us : 0;
}

static uint64_t own_pace_us(const struct uw_membership *m)
{
    return uw_max_u64(exchange_us(m), m->config.ping_us);
}

static uint64_t pace_with(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t us = own_pace_us(m);
    uint64_t asleep_us = m->config.windows != NULL ? m->config.windows->pause_us(m, it) : 0;
    return uw_max_u64(uw_max_u64(us, asleep_us), it->pace_us);
}

/* Of many devices some always miss beacons by chance: pings would cost more than beacons. */
static uint32_t beacons_missed(const struct uw_membership *m)
{
    return BEACONS_MISSED + (exchange_us(m) > CROWD_PINGS * m->config.ping_us);
}

void uw_membership_exchanged(struct uw_membership *m, struct uw_member *it)
{
    uint64_t pace_us = pace_with(m, it);
    if (m->config.beacons != NULL) {
        it->next_us = m->now_us + uw_membership_jitter(m, beacons_missed(m) * pace_us);
        uw_membership_rush(m, it);
        return;
    }
    /* If the rate allows it, both sides ping: only the sender of a ping measures the round trip. */
    bool crowded = pace_us > m->config.ping_us ||
                   2u * exchange_us(m) > m->config.ping_us;
    if (crowded && it->srtt_us != 0) {
        it->next_us = m->now_us + uw_membership_jitter(m, pace_us);
        uw_membership_rush(m, it);
    }
}

/* Is its pace slower than this device's? Then pings of all members at once load its link. */
static bool is_thin(const struct uw_membership *m, const struct uw_member *it)
{
    return it->pace_us / 2u > own_pace_us(m);
}

/* Unscheduled pings are spread over so long. */
static uint64_t spread_us(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t pace_us = pace_with(m, it);
    return pace_us > m->config.ping_us ? pace_us / SPREAD_PARTS : 0;
}

void uw_membership_soon(struct uw_membership *m, struct uw_member *it)
{
    uint32_t most_us = (uint32_t)uw_min_u64(spread_us(m, it), INT32_MAX);
    uint64_t next_us = m->now_us + uw_rng_below(&m->rng, most_us + 1u);
    it->next_us = uw_min_u64(it->next_us, next_us);
    uw_membership_rush(m, it);
}

void uw_membership_sent(struct uw_membership *m, uint32_t bytes, uint32_t told)
{
    uw_membership_mark_sent(m, told);
    pay(m, bytes);
}

/* ---- silence ---- */

static uint64_t suspect_after(const struct uw_membership *m, const struct uw_member *it)
{
    return m->config.suspect_us * it->patience / UW_MEMBER_PATIENCE + 4u * (uint64_t)it->srtt_us;
}

static uint64_t dead_after(const struct uw_membership *m, const struct uw_member *it)
{
    return uw_max_u64(m->config.dead_us, 2u * suspect_after(m, it));
}

/* Begin of a member's silence: it was pinged, or should have been. */
static uint64_t silent_since_us(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t lead_us = uw_min_u64(it->asked_us, m->config.ping_us);
    return uw_max_u64(it->asked_us - lead_us, it->heard_us);
}

/* When silence changes a member's state. */
static uint64_t verdict_us(const struct uw_membership *m, const struct uw_member *it)
{
    if (it->asked_us == 0 || it->tries < TRIES_MIN || !uw_member_is_live(it)) {
        return UINT64_MAX;
    }
    uint64_t silence_us = it->state == UW_MEMBER_ALIVE ? suspect_after(m, it) : dead_after(m, it);
    if (m->config.windows != NULL) {
        silence_us = m->config.windows->stretched_us(m, it, silence_us);
    }
    return silent_since_us(m, it) + silence_us;
}

static uint64_t call_pause(struct uw_membership *m, uint32_t tries)
{
    uint64_t us = uw_backoff_after(CALL_FIRST_US, tries / 2u, CALL_DOUBLINGS);
    return uw_membership_jitter(m, uw_min_u64(us, CALL_MAX_US));
}

/* Interval of pings to members that are not live: a part of the rate for all together. */
static uint64_t member_pause(struct uw_membership *m, const struct uw_member *it)
{
    uint32_t lost_n = m->states_n[UW_MEMBER_UNKNOWN] + m->states_n[UW_MEMBER_DEAD];
    uint64_t us = call_pause(m, it->tries);
    bool all = m->config.beacons != NULL;   /* lost members are pinged */
    uint64_t each_us = all ? exchange_us(m) : price_us(m, 1);
    uint64_t least_us = it->tries > TRIES_EARLY ? each_us * lost_n * LIVE_PARTS : 0;
    uint64_t spread = is_thin(m, it) ? spread_us(m, it) : 0;
    least_us = uw_max_u64(least_us, spread);
    return us > least_us ? us : uw_membership_jitter(m, least_us);
}

static void notice_silence(struct uw_membership *m, struct uw_member *it)
{
    uint64_t silent_us = m->now_us - it->heard_us;
    if (m->now_us < verdict_us(m, it)) {
        return;
    }
    if (it->state == UW_MEMBER_ALIVE) {
        uw_membership_set_state(m, it, UW_MEMBER_SUSPECT);
        uw_membership_changed(m, UW_NODE_SUSPECT, it, silent_us);
    } else {
        uw_membership_set_state(m, it, UW_MEMBER_DEAD);
        it->tries = 2;
        it->next_us = m->now_us + member_pause(m, it);
        uw_membership_changed(m, UW_NODE_DEAD, it, silent_us);
    }
}

/* ---- windows of sleeping members ---- */

static void set_window(struct uw_member *it, uint64_t now_us)
{
    uwasa_Progress *p = &it->progress;
    if (p->sleep_ms > PERIOD_MOST_MS || p->awake_ms >= p->sleep_ms || p->awake_ms == 0) {
        p->sleep_ms = p->awake_ms = 0;
        return;
    }
    uint64_t period_us = uw_member_period_us(it), since_us = p->since_ms % p->sleep_ms * 1000u;
    it->window_us = now_us >= since_us ? now_us - since_us : now_us + period_us - since_us;
}

struct uw_window uw_member_window(const struct uw_member *it, uint64_t now_us)
{
    uint64_t period_us = uw_member_period_us(it), awake_us = it->progress.awake_ms * 1000u;
    if (period_us == 0) {
        return (struct uw_window){.to_us = UINT64_MAX};
    }
    uint64_t age_us = now_us > it->window_us ? now_us - it->window_us : 0;
    uint64_t guard_us = GUARD_US + age_us / GUARD_PARTS, most_us = awake_us / GUARD_MOST_PARTS;
    guard_us = uw_min_u64(guard_us, most_us);
    uint64_t start_us = it->window_us + age_us / period_us * period_us;
    start_us += now_us >= start_us + awake_us - guard_us ? period_us : 0;
    return (struct uw_window){start_us + guard_us, start_us + awake_us - guard_us};
}

/* Members with the same windows lose no time: this device's sleep does not count. */
static bool is_apart(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t period_us = uw_member_period_us(it);
    return period_us != 0 && period_us != m->config.sleep_us;
}

static uint64_t stretched_us(const struct uw_membership *m, const struct uw_member *it, uint64_t us)
{
    if (!is_apart(m, it)) {
        return us;
    }
    return us / it->progress.awake_ms * it->progress.sleep_ms + uw_member_period_us(it);
}

static uint64_t pause_us(const struct uw_membership *m, const struct uw_member *it)
{
    return is_apart(m, it) ? uw_member_period_us(it) : it->progress.awake_ms * 1000u;
}

const struct uw_member_windows uw_member_windows = {set_window, uw_member_window, stretched_us,
                                                    pause_us};

/* ---- pings ---- */

/* Resolve the station of a member. Returns as uw_link_resolve. */
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
        uw_membership_set_station(m, it, station);
    }
    return rc;
}

/* The round trip of one ping at a time is measured, which may exceed the interval. An unanswered
 * ping was lost, or takes longer: the next one has twice the timeout. */
static void time_ping(struct uw_membership *m, struct uw_member *it, uint32_t seq, bool live)
{
    uint64_t lost_us = m->config.suspect_us << (live ? it->unanswered : 0);
    if (it->ping_us != 0 && m->now_us - it->ping_us < lost_us) {
        return;
    }
    if (it->ping_us != 0 && it->unanswered < UNANSWERED_MAX) {
        it->unanswered++;
    }
    it->ping_seq = seq;
    it->ping_us = m->now_us;
}

/* On a shared link: was a member's last message recent enough? */
static bool is_heard(const struct uw_membership *m, struct uw_member *it, bool live)
{
    uint64_t until_us = it->heard_us + beacons_missed(m) * pace_with(m, it);
    if (m->config.beacons == NULL || !live || it->doubted || until_us <= m->now_us) {
        return false;
    }
    it->next_us = until_us;
    return true;
}

struct uw_window uw_membership_window(const struct uw_membership *m, const struct uw_member *it,
                                      uint64_t now_us)
{
    return m->config.windows != NULL ? m->config.windows->get(it, now_us)
                                     : (struct uw_window){.to_us = UINT64_MAX};
}

static int call_member(struct uw_membership *m, struct uw_member *it, uint16_t *station,
                       uint32_t *seq)
{
    bool live = uw_member_is_live(it);
    if (is_heard(m, it, live)) {
        return 0;
    }
    const struct uw_window w = uw_membership_window(m, it, m->now_us);
    if (w.from_us > m->now_us) {
        uint32_t spread = (uint32_t)(w.to_us - w.from_us) / SPREAD_PARTS;
        it->next_us = w.from_us + uw_rng_below(&m->rng, spread + 1u);
        return 0;
    }
    it->doubted = false;
    int found = locate(m, it);
    if (found == UW_ERR_AGAIN) {
        it->next_us = m->now_us + LOOKUP_US;
        return 0;
    }
    if (live) {
        /* Until an answer arrives, ping three times as often, for lossy links. */
        uint64_t again_us = m->config.ping_us / 3u;
        again_us = again_us > it->srtt_us ? again_us : it->srtt_us;
        again_us = is_thin(m, it) && it->tries + 1u >= TRIES_MIN ? spread_us(m, it) : again_us;
        bool waits = m->now_us - it->heard_us >= m->config.ping_us;
        it->next_us = m->now_us + uw_membership_jitter(m, waits ? again_us : m->config.ping_us);
    } else {
        it->next_us = m->now_us + member_pause(m, it);
        /* It may have lost its secure session in a restart, and know no member. */
        if (it->state == UW_MEMBER_DEAD && it->tries % CALLS_A_SESSION == CALLS_A_SESSION - 1u) {
            uw_link_forget(m->config.link, it->station);
        }
    }
    *station = it->station;
    if (!live && m->config.addresses != NULL) {
        found = m->config.addresses->choose(m, it, found, station);
    }
    it->tries = (uint8_t)(it->tries + 1u - (it->tries == UINT8_MAX ? CALLS_A_SESSION : 0));
    it->asked_us = it->asked_us != 0 ? it->asked_us : m->now_us;
    if (found < 0) {
        return 0;
    }
    *seq = ++m->seq;
    time_ping(m, it, *seq, live);
    return live ? UW_WIRE_PING : UW_WIRE_HELLO;
}

static void seed_failed(struct uw_membership *m, struct uw_seed *s)
{
    if (!s->reported) {
        char address[UW_LINK_ADDRESS_BYTES];
        struct uw_member nobody = {.station = UW_LINK_STATION_NONE, .address = address};
        snprintf(address, sizeof address, "%s", s->address);
        uw_membership_changed(m, UW_NODE_SEED_FAILED, &nobody, 0);
        s->reported = true;
    }
}

/* Resolve a seed; again when it does not answer, because its address may have changed. The old
 * address is used until the new one is known. */
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
    /* With enough live members, a seed outside the table is pinged rarely: its answers are long. */
    bool rarely = m->states_n[UW_MEMBER_ALIVE] > TRIES_EARLY && s->tries > TRIES_EARLY;
    s->next_us = m->now_us + call_pause(m, s->tries++) * (rarely ? SEED_RARELY : 1u);
    /* Pings to a member cover its seed. */
    if (s->station == UW_LINK_STATION_NONE || state_at(m, s->station) == UW_MEMBER_DEAD) {
        return 0;
    }
    *station = s->station;
    *seq = ++m->seq;
    return UW_WIRE_HELLO;
}

/* The next event of a member: a ping, or a change of its state. */
static uint64_t member_due_us(const struct uw_membership *m, const struct uw_member *it)
{
    uint64_t call_us = it->state != UW_MEMBER_LEFT ? it->next_us : UINT64_MAX;
    uint64_t silence_us = verdict_us(m, it);
    return uw_min_u64(silence_us, call_us);
}

void uw_membership_rush(struct uw_membership *m, struct uw_member *it)
{
    uint64_t due_us = member_due_us(m, it);
    if (due_us < it->due_us) {
        uw_membership_set_due(m, it, due_us);
    }
}

static int next_seed(struct uw_membership *m, uint16_t *station, uint32_t *seq)
{
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        int type = call_seed(m, &m->seeds[i], station, seq);
        if (type != 0) {
            return type;
        }
    }
    return 0;
}

/* Keys of the heap may be too early after a received message; they are corrected when they are due.
 * A ping that the rate does not allow stays first. A quarter of the rate is reserved for own pings,
 * so that requests of others do not prevent the detection of silence. */
int uw_membership_next(struct uw_membership *m, uint64_t now_us, uint16_t *station, uint32_t *seq)
{
    m->now_us = now_us;
    bool affordable = now_us >= afford_us(m) || now_us >= m->own_us;
    const struct uw_beacons *beacons = m->config.beacons;
    int type = affordable && beacons != NULL ? beacons->next(m, station, seq) : 0;
    type = affordable && type == 0 ? next_seed(m, station, seq) : type;
    while (type == 0 && m->members_n > 1u) {
        struct uw_member *it = &m->members[m->heap[0]];
        if (now_us < it->due_us) {
            break;
        }
        notice_silence(m, it);
        bool calls = it->state != UW_MEMBER_LEFT && now_us >= it->next_us;
        if (calls && !affordable) {
            break;
        }
        type = calls ? call_member(m, it, station, seq) : 0;
        uw_membership_set_due(m, it, member_due_us(m, it));
    }
    if (type != 0) {
        m->own_us = now_us + price_us(m, LIVE_PARTS);
    }
    return type;
}

uint64_t uw_membership_next_us(const struct uw_membership *m)
{
    uint64_t due_us = m->members_n > 1u ? m->members[m->heap[0]].due_us : UINT64_MAX;
    for (uint32_t i = 0; i < m->config.seeds_n; i++) {
        if (!m->seeds[i].self && m->seeds[i].next_us < due_us) {
            due_us = m->seeds[i].next_us;
        }
    }
    if (m->config.beacons != NULL && m->beacon_us < due_us) {
        due_us = m->beacon_us;
    }
    /* Not before the rate allows it. */
    uint64_t paid_us = afford_us(m) < m->own_us ? afford_us(m) : m->own_us;
    return due_us > m->now_us || due_us > paid_us ? due_us : paid_us;
}

/* A time that lies so much later, but not after now. */
static uint64_t later(uint64_t us, uint64_t late_us, uint64_t now_us)
{
    return uw_min_u64(us + late_us, now_us);
}

/* Shift times by a sleep of this device: members were not silent. */
static void forgive(struct uw_membership *m, uint64_t us)
{
    for (uint32_t i = 1; i < m->members_n; i++) {
        struct uw_member *it = &m->members[i];
        it->heard_us = later(it->heard_us, us, m->now_us);
        it->asked_us = it->asked_us != 0 ? later(it->asked_us, us, m->now_us) : 0;
        it->ping_us = 0;    /* the answer may have waited in the link */
    }
}

void uw_membership_slept(struct uw_membership *m, uint64_t slept_us, uint64_t now_us)
{
    m->now_us = now_us;
    m->beacon_us = m->beacon_us > now_us ? m->beacon_us : now_us + slept_us;
    forgive(m, slept_us);
}

void uw_membership_beacon_soon(struct uw_membership *m, uint64_t pause_us, uint64_t soon_us,
                               uint64_t now_us)
{
    if (m->beacon_us > now_us + soon_us && m->beacon_us <= now_us + pause_us) {
        m->beacon_us = now_us + uw_rng_below(&m->rng, (uint32_t)soon_us + 1u);
    }
}

void uw_membership_follow(struct uw_membership *m, uint64_t now_us)
{
    uint64_t ping_us = m->config.ping_us;
    m->now_us = now_us;
    uw_bucket_pay(&m->paid_us, 0, 2u * burst_us(m), now_us);
    m->own_us = uw_min_u64(m->own_us, now_us + price_us(m, LIVE_PARTS));
    m->beacon_us = uw_min_u64(m->beacon_us, now_us + uw_membership_jitter(m, ping_us));
    for (uint32_t i = 1; i < m->members_n; i++) {
        struct uw_member *it = &m->members[i];
        it->srtt_us = 0;
        it->next_us = uw_min_u64(it->next_us, now_us + uw_membership_jitter(m, ping_us));
        uw_membership_rush(m, it);
    }
}

uint64_t uw_membership_wake(struct uw_membership *m, uint64_t promised_us, uint64_t now_us)
{
    uint64_t late_us = m->started && now_us > promised_us ? now_us - promised_us : 0;
    bool slept = late_us >= m->config.ping_us && late_us / BUSY_TIMES >= m->late_us;
    m->late_us = (m->late_us * (LATE_PARTS - 1u) + late_us) / LATE_PARTS;
    m->started = true;
    m->now_us = now_us;
    if (slept) {
        forgive(m, late_us);
    }
    return slept ? late_us : 0;
}

/* ---- beacons ----
 *
 * The number of devices on a shared link is estimated from the stations of received beacons, by a
 * bitmap (linear counting, after Whang, Vander-Zanden, Taylor, 1990): the table may have a part of
 * them only. */

static void beacon_heard(struct uw_membership *m, uint16_t station)
{
    uw_set_add(m->crowd.heard, (station * 40503u >> 4) % UW_CROWD_BITS);
}

/* Of n stations s bits are set, n = -B log(1 - s / B) about; a full bitmap counts as one less. */
static uint32_t stations_of(uint32_t s)
{
    float rest = (float)(UW_CROWD_BITS - (s < UW_CROWD_BITS ? s : UW_CROWD_BITS - 1u));
    float n = -(float)UW_CROWD_BITS * uw_logf(rest / (float)UW_CROWD_BITS);
    return (uint32_t)(n + 0.5f);
}

/* Called with each own beacon: all devices have sent one within a pace. */
static void count_crowd(struct uw_membership *m, uint64_t pace_us)
{
    struct uw_crowd *c = &m->crowd;
    uint32_t s = 0;
    if (m->now_us - c->since_us < pace_us) {
        return;
    }
    for (uint32_t i = 0; i < UW_CROWD_BITS / 32u; i++) {
        s += uw_bits_in(c->heard[i]);
    }
    c->n = (c->n + stations_of(s) + 1u) / 2u;
    c->since_us = m->now_us;
    memset(c->heard, 0, sizeof c->heard);
}

static void beacon_soon(struct uw_membership *m)
{
    uint64_t wait_us = exchange_us(m) / SPREAD_PARTS;
    uint64_t us = m->now_us + uw_rng_below(&m->rng, (uint32_t)uw_min_u64(wait_us, INT32_MAX) + 1u);
    m->beacon_us = uw_min_u64(m->beacon_us, us);
    m->beacons_n = 0;
}

static int next_beacon(struct uw_membership *m, uint16_t *station, uint32_t *seq)
{
    if (m->now_us < m->beacon_us) {
        return 0;
    }
    uint64_t pace_us = own_pace_us(m);
    bool alone = m->states_n[UW_MEMBER_ALIVE] == 0, early = m->beacons_n < BEACONS_EARLY;
    uint64_t pause_us = call_pause(m, m->beacons_n++);
    pause_us = alone || pause_us > pace_us / EARLY_PARTS ? pause_us : pace_us / EARLY_PARTS;
    count_crowd(m, pace_us);
    m->beacon_us = m->now_us + (alone || (early && pause_us < pace_us)
                                    ? pause_us : uw_membership_jitter(m, pace_us));
    *station = UW_LINK_STATION_BROADCAST;
    *seq = 0;
    return UW_WIRE_PING;
}

const struct uw_beacons uw_beacons = {beacon_heard, beacon_soon, next_beacon};
