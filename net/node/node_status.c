/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include "base/bits.h"
#include "status/status_rows.h"

/* Clamped, so that pings do not exceed the size that was checked. */
static void fill_vitals(const struct uw_gossip *g, uwasa_Progress *p)
{
    int32_t mc = (int32_t)uw_load(&g->temperature_mc);
    int32_t hottest = UW_VITALS_HOTTEST_MC;
    p->power_mw = uw_min_u32(uw_load(&g->power_mw), UW_VITALS_POWER_MAX_MW);
    p->temperature_mc = mc > hottest ? hottest : mc < -hottest ? -hottest : mc;
}

void uw_node_fill_progress(const struct uw_node_state *s, uwasa_Progress *p)
{
    const struct uw_gossip *g = &s->gossip;
    *p = (uwasa_Progress){
        .step = uw_load(&g->step),
        .rounds = uw_load(&g->rounds),
        .version = uw_load(&g->version),
        .loss = uw_load_float(&g->loss),
        .accuracy = uw_load_float(&g->accuracy),
        .samples_per_s = uw_load_float(&g->samples_per_s),
        .pulled_bytes = s->counters.pulled_bytes,
        .newcomer = uw_gossip_is_newcomer(g),
        .battery_percent = uw_min_u32(uw_load(&g->battery_percent), 100u),
        .still_s = s->config.link->frames ? 0 : uw_load(&g->still_s),
        .shuffles = s->samples != NULL && !s->left,
        .release = s->config.link->frames ? 0 : s->config.release,
        .hears = uw_node_mtu(s) < s->buffer_bytes ? uw_node_mtu(s) : 0,
    };
    if (s->sleeper != NULL) {
        s->config.parts->sleeps->fill(s, p);
    }
    if (s->config.vitals) {
        fill_vitals(g, p);
    }
}

void uw_node_count(const struct uw_node_state *s, struct uw_node_counters *c)
{
    *c = s->counters;
    if (s->samples != NULL) {
        c->samples_in = s->samples->leases.in_n;
        c->samples_out = s->samples->leases.out_n;
        c->sample_bytes = s->samples->leases.sent_bytes;
    }
    c->chunks_mixed = uw_load(&s->gossip.mixed);
    c->period_steps = uw_load(&s->gossip.period);
    c->refused_outlier += uw_load(&s->gossip.outliers);
    c->chunks_again = s->pull.first.transfer.again_n;
    c->chunks_twice = s->pull.first.transfer.twice_n;
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        c->chunks_again += s->further->lane[i].transfer.again_n;
        c->chunks_twice += s->further->lane[i].transfer.twice_n;
    }
}

bool uw_node_fill_averaging(const struct uw_node_state *s, uwasa_Averaging *a)
{
    if (s->averages != NULL) {
        s->averages->fill(s, a);
    }
    return s->averages != NULL;
}

void uw_node_fill_row(const struct uw_node_state *s, uint32_t place, uint64_t now_us,
                      uwasa_Row *row)
{
    const struct uw_member *m = &s->membership.members[place];
    const struct uw_node_peer *peer = uw_node_peer(s, m);
    *row = (uwasa_Row){.has_peer = true, .has_progress = true, .same_model = m->same_model,
                       .rtt_us = m->srtt_us, .from_bytes = peer->from_bytes,
                       .refused_n = peer->refused_n};
    uw_membership_record(&s->membership, m, &row->peer);
    row->peer.pace_ms = 0;          /* not displayed */
    if (place == 0) {
        uw_node_fill_progress(s, &row->progress);
        row->has_averaging = uw_node_fill_averaging(s, &row->averaging);
        return;
    }
    row->silent_us = now_us > m->heard_us ? now_us - m->heard_us : 0;
    row->progress = m->progress;
    if (s->members->message == NULL) {      /* it reports none */
        row->progress = (uwasa_Progress){.accuracy = -1.0f};
    }
    if (m->averaging != NULL) {
        row->has_averaging = true;
        row->averaging = *m->averaging;
    }
}

uint32_t uw_node_status(const struct uw_node *n, uint64_t caller_us, struct uw_node_member *rows,
                        uint32_t cap_n, struct uw_node_counters *counters)
{
    const struct uw_node_state *s = n->state;
    uwasa_Row row;
    if (s == NULL) {
        return 0;
    }
    uint32_t most = uw_min_u32(s->membership.members_n, cap_n);
    for (uint32_t i = 0; i < most; i++) {
        uw_node_fill_row(s, i, caller_us + s->clock_us, &row);
        uw_status_row(&row, &rows[i]);
    }
    if (counters != NULL) {
        uw_node_count(s, counters);
    }
    return most;
}
