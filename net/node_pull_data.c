/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"
#include "node_slice.h"
#include "node_tell.h"

#define AVOID_STALE_MIN_US 20000u
#define WANTS_MOST 8u
#define PASSED_MOST 3u              /* peers a round passes over, and asks one more */

/* The largest message for a member, whose link may be as narrow as the chunks it sends. */
static uint32_t mtu_to(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t bytes = UW_WIRE_SHORT_DATA_BYTES + 4u * m->chunk_limit_n;
    return m->chunk_limit_n != 0 && bytes < uw_node_mtu(s) ? bytes : uw_node_mtu(s);
}

/* As many questions as fit, in one frame. */
static void send_short_wants(struct uw_node_state *s, const struct uw_member *m)
{
    const struct uw_node_frames *f = s->config.parts->frames;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    const struct uw_short_wants head = {.model = (uint32_t)s->model,
                                        .mixed = uw_node_slices_known(&s->pull, m)};
    struct uw_pull *t = &s->pull.transfer;
    uint32_t n = 0, most = f->wants(mtu_to(s, m)), room = uw_gossip_room(&s->gossip);
    for (; n < most && uw_pull_next(t, room, s->now_us, &wants[n]); n++) {
    }
    if (n != 0) {
        int bytes = f->write_wants(UW_WIRE_WANT, &head, wants, n, s->buffer);
        (void)uw_node_send_buffer(s, m->station, (uint32_t)bytes);
    }
}

void uw_node_pull_ask(struct uw_node_state *s)
{
    struct uw_pull *t = &s->pull.transfer;
    const struct uw_member *m = uw_node_pull_member(s);
    struct uw_want w;
    if (m != NULL && s->config.link->frames) {
        send_short_wants(s, m);
        return;
    }
    for (uint32_t i = 0; m != NULL && i < WANTS_MOST &&
                         uw_pull_next(t, uw_gossip_room(&s->gossip), s->now_us, &w); i++) {
        s->message->type = UW_WIRE_WANT;
        s->message->want = (uwasa_Want){
            .run = s->run, .model = s->model, .transfer = w.transfer, .seq = w.seq,
            .chunk_n = w.chunk_n, .base = w.base, .wanted = w.wanted, .spread_us = w.spread_us};
        (void)uw_node_send(s, m->station);
    }
}

/* What the peer shows was mixed in before: again and again, it would hold back whoever is faster.
 * Look elsewhere, but not everywhere: round trips add up. It is asked again when what it showed is
 * twice as old. */
static void pass_over(struct uw_node_state *s, struct uw_member *m)
{
    struct uw_node_pull *p = &s->pull;
    uint64_t age_us = s->now_us - m->mixed_us;
    age_us = age_us < UW_NODE_AVOID_US ? age_us : UW_NODE_AVOID_US;
    m->avoid_until_us = s->now_us + (age_us > AVOID_STALE_MIN_US ? age_us : AVOID_STALE_MIN_US);
    s->counters.pulls_stale++;
    bool more = !p->bridge && p->passed < PASSED_MOST;
    uint32_t place = more ? uw_node_pick_any(s, p->round, false, 1) : 0;
    if (place == 0) {
        uw_node_pull_finish(s, UW_GOSSIP_STALE);
        return;
    }
    p->passed++;
    uw_pull_stop(&p->transfer);
    uw_node_pull_start(s, p->round, place, false);
}

/* Hand a chunk to whoever mixes it. */
static void push(struct uw_node_state *s, struct uw_gossip_slot *slot, const struct uw_data *d)
{
    slot->round = s->pull.round;
    slot->offset_n = d->offset_n;
    slot->count_n = d->count_n;
    slot->adopt = s->pull.adopt;
    slot->weight = s->pull.weight;
    slot->from_id = 0;
    uw_gossip_push(&s->gossip);
}

void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d)
{
    struct uw_node_pull *p = &s->pull;
    if (d->run != s->run) {
        s->counters.refused_run++;
        return;
    }
    struct uw_member *m = uw_membership_heard(&s->membership, station, s->now_us);
    if (m == NULL || m != uw_node_pull_member(s)) {
        return;
    }
    int rc = uw_pull_check(&p->transfer, d->transfer, d->offset_n, d->count_n);
    if (rc == UW_ERR_CORRUPT) {
        s->counters.refused_corrupt++;
    }
    if (rc == UW_OK && uw_node_slices_known(p, m) == d->version && d->version != 0) {
        pass_over(s, m);
        return;
    }
    struct uw_gossip_slot *slot = rc == UW_OK ? uw_gossip_slot(&s->gossip) : NULL;
    if (slot == NULL) {
        return;
    }
    if (uw_message_floats(d, slot->x) < 0) {
        s->counters.refused_nonfinite++;
        uw_node_pull_refuse(s, m, UW_NODE_CHUNK_NONFINITE);
        return;
    }
    push(s, slot, d);
    p->version = p->version == 0 || d->version < p->version ? d->version : p->version;
    uw_pull_arrived(&p->transfer, d->seq, d->offset_n, s->now_us);
    p->bytes += d->count_n * 4u;
    m->from_bytes += d->count_n * 4u;
    s->counters.pulled_bytes += d->count_n * 4u;
}

void uw_node_pull_refused(struct uw_node_state *s, const uwasa_Refuse *refuse)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    if (m == NULL) {
        return;
    }
    bool narrow = refuse->reason == uwasa_Reason_CHUNK_TOO_BIG &&
                  refuse->chunk_n >= UW_CHUNK_MIN_N && refuse->chunk_n < p->transfer.chunk_n;
    m->chunk_limit_n = narrow ? refuse->chunk_n : m->chunk_limit_n;
    if (narrow && p->transfer.have_chunks == 0 && uw_node_carries(s, m, 1)) {
        uw_node_pull_start(s, p->round, p->member, p->adopt);
        return;
    }
    if (refuse->reason == uwasa_Reason_MIXED && !p->adopt && p->version == 0) {
        pass_over(s, m);
        return;
    }
    s->counters.pulls_refused++;
    m->avoid_until_us = s->now_us + UW_NODE_AVOID_US / 4u;
    uw_node_pull_finish(s, p->transfer.have_chunks != 0 ? UW_GOSSIP_CUT : UW_GOSSIP_NONE);
    uw_node_tell_pull(s, UW_NODE_PULL_REFUSED,
                      refuse->reason == uwasa_Reason_NOT_READY     ? UW_WHY_NOT_READY
                      : refuse->reason == uwasa_Reason_WRONG_MODEL ? UW_WHY_MODEL
                                                                   : UW_WHY_NARROW);
}
