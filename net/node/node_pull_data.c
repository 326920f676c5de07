/* SPDX-License-Identifier: Apache-2.0 */
#include "node_lanes.h"
#include "node_tell.h"

#include "base/bits.h"

#include <string.h>

#define AVOID_STALE_MIN_US 20000u
#define WANTS_MOST 8u
#define LIMIT_PULLS 32u             /* with chunks as small as a refusal said */
#define FULL_RETRY_US 2000u

/* The largest message for a member, whose link may be as narrow as the chunks it sends. */
static uint32_t mtu_to(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t bytes = UW_WIRE_SHORT_DATA_BYTES + 4u * m->chunk_limit_n;
    return m->chunk_limit_n != 0 && bytes < uw_node_mtu(s) ? bytes : uw_node_mtu(s);
}

/* Free slots for this pull's chunks, its own on their way included: the others' have places too. */
static uint32_t room_for(const struct uw_node_state *s, const struct uw_pull *t)
{
    uint32_t room = uw_gossip_room(&s->gossip), others = 0;
    if (uw_node_pulls_from_many(s)) {
        others = s->pull.transfer.out_chunks - t->out_chunks;
        for (uint32_t i = 0; i < s->further->n; i++) {
            const struct uw_node_lane *lane = &s->further->lane[i];
            others += lane->used ? lane->transfer.out_chunks : 0;
        }
    }
    return room > others ? room - others : 0;
}

/* The version of what a member shows of which all that is to come from it was mixed in; 0: none. */
static uint32_t known_of(const struct uw_node_state *s, const struct uw_node_lane *lane,
                         const struct uw_member *m)
{
    const struct uw_node_pull *p = &s->pull;
    return lane != NULL ? uw_node_slices_known(lane->slices, lane->version, m)
           : p->adopt   ? 0
                        : uw_node_slices_known(p->slices, p->version, m);
}

/* As many questions as fit, in one frame. */
static void send_short_wants(struct uw_node_state *s, struct uw_pull *t, const struct uw_member *m)
{
    const struct uw_node_frames *f = s->config.parts->frames;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    const struct uw_short_wants head = {.model = (uint32_t)s->model,
                                        .mixed = known_of(s, uw_node_lane_of(s, m), m)};
    uint32_t n = 0, room = room_for(s, t);
    uint32_t most = s->late_bytes == 0 ? f->wants(mtu_to(s, m)) : 0;    /* else it is not sent */
    for (; n < most && uw_pull_next(t, room, s->now_us, &wants[n]); n++) {
    }
    if (n != 0) {
        int bytes = f->write_wants(UW_WIRE_WANT, &head, wants, n, s->buffer);
        (void)uw_node_send_buffer(s, m->station, (uint32_t)bytes);
    }
}

void uw_node_pull_ask(struct uw_node_state *s, struct uw_pull *t, const struct uw_member *m)
{
    struct uw_want w;
    if (m != NULL && s->config.link->frames) {
        send_short_wants(s, t, m);
        return;
    }
    for (uint32_t i = 0; m != NULL && i < WANTS_MOST &&
                         uw_pull_next(t, room_for(s, t), s->now_us, &w); i++) {
        s->message->type = UW_WIRE_WANT;
        s->message->want = (uwasa_Want){
            .run = s->run, .model = s->model, .transfer = w.transfer, .seq = w.seq,
            .chunk_n = w.chunk_n, .base = w.base, .wanted = w.wanted, .spread_us = w.spread_us};
        (void)uw_node_send(s, m->station);
    }
}

uint64_t uw_node_pull_due_us(const struct uw_node_state *s, const struct uw_pull *t)
{
    uint32_t room = room_for(s, t);
    uint64_t next_us = uw_pull_next_us(t, room, s->now_us);
    if (t->active && room <= t->out_chunks && s->now_us + FULL_RETRY_US < next_us) {
        return s->now_us + FULL_RETRY_US;
    }
    return next_us;
}

struct uw_pull *uw_node_pull_of(struct uw_node_state *s, const struct uw_member *m)
{
    struct uw_node_lane *lane = m != NULL ? uw_node_lane_of(s, m) : NULL;
    return lane != NULL ? &lane->transfer
           : m != NULL && m == uw_node_pull_member(s) ? &s->pull.transfer
                                                      : NULL;
}

uint64_t uw_node_stale_us(const struct uw_node_state *s, const struct uw_member *m)
{
    uint64_t age_us = uw_min_u64(s->outer_us - m->mixed_us, UW_NODE_AVOID_US);
    return age_us > AVOID_STALE_MIN_US ? age_us : AVOID_STALE_MIN_US;
}

/* What the peer shows was mixed in before: again and again, it would hold back whoever is faster.
 * Look elsewhere, but not everywhere: round trips add up. It is asked again when what it showed is
 * twice as old. */
static void pass_over(struct uw_node_state *s, struct uw_member *m, struct uw_node_lane *lane)
{
    struct uw_node_pull *p = &s->pull;
    if (uw_node_pulls_from_many(s)) {
        s->config.parts->lanes->stale(s, lane);
        return;
    }
    m->avoid_until_us = s->outer_us + uw_node_stale_us(s, m);
    s->counters.pulls_stale++;
    bool more = !p->bridge && p->passed < UW_NODE_PASSED_MOST;
    uint32_t place = more ? uw_node_pick_any(s, p->round, false, 1, m) : 0;
    if (place == 0) {
        uw_node_pull_finish(s, UW_GOSSIP_STALE);
        return;
    }
    p->passed++;
    uw_pull_stop(&p->transfer);
    uw_node_pull_start(s, p->round, place, false);
}

/* Hand a chunk to whoever mixes it. */
static void push(struct uw_node_state *s, struct uw_gossip_slot *slot, const struct uw_member *m,
                 uint32_t offset_n, uint32_t count_n)
{
    slot->round = s->pull.round;
    slot->offset_n = offset_n;
    slot->count_n = count_n;
    slot->adopt = s->pull.adopt;
    slot->weight = s->pull.weight;
    slot->from_id = uw_node_pulls_from_many(s) ? m->id : 0;
    uw_gossip_push(&s->gossip);
}

/* Is a chunk that has come what was mixed in before, or not finite? Then it is dealt with. */
static bool is_refused(struct uw_node_state *s, struct uw_member *m, struct uw_node_lane *lane,
                       const struct uw_data *d, float *x)
{
    const struct uw_node_lanes *lanes = s->config.parts->lanes;
    if (d->version != 0 && known_of(s, lane, m) == d->version) {
        pass_over(s, m, lane);
        return true;
    }
    if ((d->coded_bytes != 0 ? s->config.parts->codes->floats(d, x) : uw_message_floats(d, x)) ==
        UW_OK) {
        return false;
    }
    s->counters.refused_nonfinite++;
    if (lane != NULL) {
        lanes->nonfinite(s, lane);
    } else {
        uw_node_pull_refuse(s, m, UW_NODE_CHUNK_NONFINITE);
    }
    return true;
}

/* The oldest of what came; chunks of several peers stay such. */
static uint32_t oldest(uint32_t version, uint32_t of)
{
    return version == 0                                       ? of
           : version == UW_NODE_VERSION_MIXED || version < of ? version
                                                              : of;
}

void uw_node_pull_data(struct uw_node_state *s, uint16_t station, const struct uw_data *d)
{
    struct uw_node_pull *p = &s->pull;
    if (d->run != s->run) {
        s->counters.refused_run++;
        return;
    }
    struct uw_member *m = uw_membership_heard(&s->membership, station, s->outer_us);
    struct uw_pull *t = uw_node_pull_of(s, m);
    if (t == NULL) {
        return;
    }
    struct uw_node_lane *lane = t == &p->transfer ? NULL : uw_node_lane_of(s, m);
    int rc = uw_pull_check(t, d->transfer, d->offset_n, d->count_n);
    if (rc == UW_ERR_CORRUPT) {
        s->counters.refused_corrupt++;
    }
    struct uw_gossip_slot *slot = rc == UW_OK ? uw_gossip_slot(&s->gossip) : NULL;
    if (slot == NULL || is_refused(s, m, lane, d, slot->x)) {
        return;
    }
    uint32_t offset_n = d->offset_n, count_n = d->count_n;
    uint32_t known_n = uw_pull_new(t, &offset_n, &count_n);
    if (known_n != 0) {
        memmove(slot->x, slot->x + known_n, count_n * sizeof slot->x[0]);
    }
    push(s, slot, m, offset_n, count_n);
    uint32_t *version = lane != NULL ? &lane->version : &p->version;
    *version = oldest(*version, d->version);
    uw_pull_took(t, d->seq, offset_n, count_n, s->now_us);
    p->bytes += count_n * 4u;
    m->from_bytes += count_n * 4u;
    s->counters.pulled_bytes += count_n * 4u;
}

static enum uw_node_why why_refused(uwasa_Reason reason)
{
    return reason == uwasa_Reason_NOT_READY     ? UW_WHY_NOT_READY
           : reason == uwasa_Reason_WRONG_MODEL ? UW_WHY_MODEL
                                                : UW_WHY_NARROW;
}

void uw_node_pull_refused(struct uw_node_state *s, struct uw_member *m,
                          const uwasa_Refuse *refuse)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_node_lane *lane = uw_node_lane_of(s, m);
    enum uw_node_why why = why_refused(refuse->reason);
    bool coded = p->transfer.coded;     /* that one may not know, or be narrower */
    bool narrow = refuse->reason == uwasa_Reason_CHUNK_TOO_BIG &&
                  refuse->chunk_n >= UW_CHUNK_MIN_N &&
                  (coded || refuse->chunk_n < p->transfer.chunk_n);
    bool mixed = refuse->reason == uwasa_Reason_MIXED;
    if (narrow) {
        m->chunk_limit_n = uw_min_u32(refuse->chunk_n, uw_node_chunk_n(s));
        m->limit_pulls = LIMIT_PULLS;
    }
    if (mixed && (lane != NULL ? lane->version : p->version) == 0 && !p->adopt) {
        pass_over(s, m, lane);
        return;
    }
    if (lane != NULL) {
        s->config.parts->lanes->refused(s, lane, why);
        return;
    }
    if (narrow && p->bytes == 0 && uw_node_carries(s, m, 1)) {
        uw_node_pull_start(s, p->round, p->member, p->adopt);
        return;
    }
    s->counters.pulls_refused++;
    m->avoid_until_us = s->outer_us + UW_NODE_AVOID_US / 4u;
    if (uw_node_pulls_from_many(s) && s->config.parts->lanes->take_over(s, why)) {
        return;
    }
    uw_node_pull_finish(s, p->bytes != 0 ? UW_GOSSIP_CUT : UW_GOSSIP_NONE);
    uw_node_tell_pull(s, m, UW_NODE_PULL_REFUSED, why);
}
