/* SPDX-License-Identifier: Apache-2.0
 *
 * How many devices share a link, from whose beacons are heard. A table holds a part of them only,
 * and one that sends without end counts once: stations are counted by a bitmap (linear counting,
 * after Whang, Vander-Zanden, Taylor, 1990). */
#include "membership_inner.h"

#include "bits.h"

#include "uwasa/fmath.h"

#include <string.h>

void uw_membership_crowd(struct uw_membership *m, uint16_t station)
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

void uw_membership_count_crowd(struct uw_membership *m, uint64_t pace_us)
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
