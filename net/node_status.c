/* SPDX-License-Identifier: Apache-2.0 */
#include "node_shuffle.h"
#include "node_state.h"

#include "bits.h"
#include "status_rows.h"

#include <string.h>

static uint32_t told(const atomic_uint_least32_t *a)
{
    return (uint32_t)atomic_load_explicit(a, memory_order_relaxed);
}

/* Within bounds, so that pings keep to the size that was checked. */
static void fill_vitals(const struct uw_gossip *g, uwasa_Progress *p)
{
    int32_t mc = (int32_t)told(&g->temperature_mc);
    int32_t hottest = UW_VITALS_HOTTEST_MC;
    p->power_mw = uw_min_u32(told(&g->power_mw), UW_VITALS_POWER_MAX_MW);
    p->temperature_mc = mc > hottest ? hottest : mc < -hottest ? -hottest : mc;
    p->battery_percent = uw_min_u32(told(&g->battery_percent), 100u);
}

void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p)
{
    const struct uw_gossip *g = &s->gossip;
    *p = (uwasa_Progress){
        .step = told(&g->step),
        .rounds = told(&g->rounds),
        .version = told(&g->version),
        .loss = uw_told_float(&g->loss),
        .accuracy = uw_told_float(&g->accuracy),
        .samples_per_s = uw_told_float(&g->samples_per_s),
        .pulled_bytes = s->counters.pulled_bytes,
        .newcomer = atomic_load_explicit(&g->newcomer, memory_order_relaxed),
        .head_weight = s->config.head_weight,
        .shuffles = s->samples != NULL && !s->left,
    };
    if (s->averages != NULL) {
        s->averages->fill(s, p);
    }
    if (s->config.vitals) {
        fill_vitals(g, p);
    }
}

void uw_node_fill_row(const struct uw_node_state *s, uint32_t place, uwasa_Row *row)
{
    const struct uw_member *m = &s->membership.members[place];
    *row = (uwasa_Row){.has_peer = true, .has_progress = true};
    if (place == 0) {
        uw_membership_self(&s->membership, &row->peer);
        uw_node_fill_progress(s, &row->progress);
        row->same_model = true;
        return;
    }
    memcpy(row->peer.name, m->name, sizeof row->peer.name);
    memcpy(row->peer.address, m->address, sizeof row->peer.address);
    if (m->address[0] == '\0') {
        (void)uw_link_describe(s->config.link, m->station, row->peer.address);
    }
    row->peer.incarnation = m->incarnation;
    row->peer.state = (uwasa_State)m->state;
    row->progress = m->progress;
    row->silent_us = s->now_us > m->heard_us ? s->now_us - m->heard_us : 0;
    row->rtt_us = m->srtt_us;
    row->from_bytes = m->from_bytes;
    row->refused_n = m->refused_n;
    row->same_model = m->same_model;
}

void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c)
{
    *c = s->counters;
    if (s->samples != NULL) {
        c->samples_in = s->samples->loans.in_n;
        c->samples_out = s->samples->loans.out_n;
        c->sample_bytes = s->samples->loans.sent_bytes;
    }
    c->chunks_mixed = told(&s->gossip.mixed);
    c->refused_outlier += told(&s->gossip.outliers);
    c->chunks_again += (uint32_t)s->pull.transfer.again_n;
    c->chunks_twice += (uint32_t)s->pull.transfer.twice_n;
}

uint32_t uw_node_status(const struct uw_node *n, uint64_t caller_us, struct uw_node_member *rows,
                        uint32_t cap_n, struct uw_node_counters *counters)
{
    const struct uw_node_state *s = n->state;
    if (s == NULL) {
        return 0;
    }
    uint64_t now_us = caller_us + s->clock_us;
    uint32_t most = s->membership.members_n < cap_n ? s->membership.members_n : cap_n;
    for (uint32_t i = 0; i < most; i++) {
        uwasa_Row row;
        uw_node_fill_row(s, i, &row);
        if (i != 0) {
            uint64_t heard_us = s->membership.members[i].heard_us;
            row.silent_us = now_us > heard_us ? now_us - heard_us : 0;
        }
        uw_status_row(&row, &rows[i]);
    }
    if (counters != NULL) {
        uw_node_count(s, counters);
    }
    return most;
}
