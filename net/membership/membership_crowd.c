/* SPDX-License-Identifier: Apache-2.0
 *
 * Beacons, and how many devices share a link, from whose beacons are heard. A table holds a part of
 * them only, and one that sends without end counts once: stations are counted by a bitmap (linear
 * counting, after Whang, Vander-Zanden, Taylor, 1990). */
#include "membership_priv.h"

#include "base/bits.h"

#include "uwasa/fmath.h"

#include <string.h>

#define SPREAD_PARTS 8u             /* "soon" is that part of the pace */
#define BEACONS_EARLY 6u            /* for who is new ... */
#define EARLY_PARTS 4u              /* ... that part of the pace apart at least */

static void heard(struct uw_membership *m, uint16_t station)
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

/* At this device's own beacons: everybody has sent one in a pace. */
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

static void show(struct uw_membership *m)
{
    uint64_t wait_us = uw_membership_exchange_us(m) / SPREAD_PARTS;
    uint64_t us = m->now_us + uw_rng_below(&m->rng, (uint32_t)uw_min_u64(wait_us, INT32_MAX) + 1u);
    m->beacon_us = us < m->beacon_us ? us : m->beacon_us;
    m->beacons_n = 0;
}

static int next(struct uw_membership *m, uint16_t *station, uint32_t *seq)
{
    if (m->now_us < m->beacon_us) {
        return 0;
    }
    uint64_t pace_us = uw_membership_exchange_us(m);
    pace_us = pace_us > m->config.ping_us ? pace_us : m->config.ping_us;
    bool alone = m->states_n[UW_MEMBER_ALIVE] == 0, early = m->beacons_n < BEACONS_EARLY;
    uint64_t pause_us = uw_membership_call_pause(m, m->beacons_n++);
    pause_us = alone || pause_us > pace_us / EARLY_PARTS ? pause_us : pace_us / EARLY_PARTS;
    count_crowd(m, pace_us);
    m->beacon_us = m->now_us + (alone || (early && pause_us < pace_us)
                                    ? pause_us : uw_membership_jitter(m, pace_us));
    *station = UW_LINK_STATION_BROADCAST;
    *seq = 0;
    return UW_WIRE_PING;
}

const struct uw_beacons uw_beacons = {heard, show, next};
