/* SPDX-License-Identifier: Apache-2.0
 *
 * Who goes by this device's own name: itself, or another device, maybe one that was configured and
 * started alike. */
#include "membership_priv.h"

/* From the first time on, what this device sends has numbers that no other one would choose: what
 * differs for sure is whom each of them meets, and when. */
static void leap(struct uw_membership *m, uint16_t station)
{
    char at[UW_LINK_ADDRESS_BYTES] = "";
    (void)uw_link_describe(m->config.link, station, at);
    m->unmet_seq = m->seq;
    m->seq += (uint32_t)uw_rng_mix(m->now_us, uw_name_id(at)) >> 2;
    m->met_seq = ++m->seq;
}

int uw_membership_meet_self(struct uw_membership *m, uint16_t station, uint32_t seq, bool same)
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
