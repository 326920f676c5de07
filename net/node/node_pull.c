/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include "base/backoff.h"

#include <string.h>

#define DEADLINE_MIN_US 2000000u
#define AVOID_FIRST_US 5000000u     /* after a bad chunk; doubles with each */
#define AVOID_DOUBLINGS 7u          /* up to 640 s */
#define BRIDGE_ROUND UINT32_MAX     /* not a round of gossip */
#define PLAIN_ROUNDS 16u            /* until the code is tried again */
#define SILENCE_TRIPS 3u            /* round trips of silence before a pull ends, at least */
#define ROUND_TRIP_CHUNKS 6u        /* default on a link of frames */
#define AVOID_STALE_MIN_US 20000u
#define WANTS_MOST 8u
#define LIMIT_PULLS 32u             /* pulls with chunks of the size in a refusal */
#define FULL_RETRY_US 2000u

struct uw_member *uw_node_pull_member(struct uw_node_state *s)
{
    return s->pull.round != 0 ? uw_node_lane_member(s, &s->pull.first) : NULL;
}

/* Twice the median of earlier pulls, and eight median deviations. */
uint64_t uw_node_pull_deadline_us(const struct uw_node_state *s)
{
    return uw_deadline_us(&s->pull.took, 2, 8, DEADLINE_MIN_US, s->config.pull_us);
}

/* Chunks that the link can receive at once from one peer, less one for other messages; 0: not
 * known. If the link counts messages, a third is reserved for other messages. */
static uint32_t room_of(const struct uw_node_state *s, uint32_t chunk_n)
{
    const struct uw_link *l = s->config.link;
    uint32_t room = l->burst_bytes / (uw_wire_data_bytes(l->frames) + 4u * chunk_n);
    uint32_t most = l->burst_n - l->burst_n / 3u + 1u;
    room = l->burst_n != 0 && (l->burst_bytes == 0 || most < room) ? most : room;
    room = s->further != NULL ? room / (s->further->n + 1u) : room;
    return l->burst_bytes == 0 && l->burst_n == 0 ? 0 : room > 1u ? room - 1u : 1u;
}

uint64_t uw_node_pull_silence_us(const struct uw_node_state *s, const struct uw_pull *t,
                                 const struct uw_member *m)
{
    uint32_t rtt_us = m->srtt_us > t->srtt_us ? m->srtt_us : t->srtt_us;
    uint64_t silence_us = s->config.pull_silence_us, trips_us = (uint64_t)SILENCE_TRIPS * rtt_us;
    return silence_us > trips_us ? silence_us : trips_us;
}

/* Properties of the path to a member, in chunks of chunk_n. */
static struct uw_path path_to(const struct uw_node_state *s, const struct uw_member *m,
                              uint32_t chunk_n)
{
    const struct uw_link *l = s->config.link;
    uint32_t frame_n = uw_min_u32(chunk_n, uw_node_chunk_n(s));
    uint64_t bits = (uw_wire_data_bytes(l->frames) + 4u * frame_n) * 8u;
    bool steady = l->frames && l->rate_bits_per_s != 0;
    uint32_t chunk_us = steady ? (uint32_t)(bits * 1000000u / l->rate_bits_per_s) : 0;
    uint32_t rtt_us = m->srtt_us != 0 ? m->srtt_us : ROUND_TRIP_CHUNKS * chunk_us;
    return (struct uw_path){rtt_us, uw_node_peer(s, m)->floats_per_us, false, room_of(s, chunk_n),
                            chunk_us};
}

/* A new number for a pull; short forms have a byte for it. */
static uint16_t new_transfer(struct uw_node_state *s, const struct uw_pull *t)
{
    uint32_t all = s->config.link->frames ? UINT8_MAX : UINT16_MAX;
    return (uint16_t)((t->transfer + 1u + uw_rng_below(&s->rng, all)) & all);
}

static void set_member(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place)
{
    lane->member = place;
    lane->member_id = s->membership.members[place].id;
}

void uw_node_lane_start(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place,
                        uint32_t chunk_n, bool coded)
{
    const struct uw_path path = path_to(s, &s->membership.members[place], chunk_n);
    set_member(s, lane, place);
    lane->version = 0;
    uw_pull_start(&lane->transfer, new_transfer(s, &lane->transfer), s->config.params->size_n,
                  chunk_n, &path, s->now_us);
    if (coded) {
        uw_pull_coded(&lane->transfer);
    }
}

void uw_node_lane_move(struct uw_node_state *s, struct uw_node_lane *lane, uint32_t place)
{
    struct uw_pull *t = &lane->transfer;
    const struct uw_path path = path_to(s, &s->membership.members[place], t->chunk_n);
    set_member(s, lane, place);
    uw_pull_move(t, new_transfer(s, t), &path, s->now_us);
}

void uw_node_lane_keep_rate(struct uw_node_state *s, const struct uw_node_lane *lane)
{
    const struct uw_member *m = uw_node_lane_member(s, lane);
    if (m != NULL) {
        uw_node_peer(s, m)->floats_per_us = lane->transfer.rate * (float)lane->transfer.chunk_n;
    }
}

static bool wants_code(struct uw_node_state *s, const struct uw_node_peer *peer)
{
    uint32_t most_n = uw_node_most_n(s, true);
    if (most_n == 0 || (peer->chunk_limit_n != 0 && peer->chunk_limit_n < most_n)) {
        return false;
    }
    if (s->pull.plain_rounds != 0) {
        s->pull.plain_rounds--;
        return false;
    }
    return true;
}

/* Stop using the code if so many chunks did not fit that it saved no frames. */
static void judge_code(struct uw_node_pull *p)
{
    uint64_t chunks = p->bytes / 4u / p->first.transfer.chunk_n;
    if (p->first.transfer.coded && 8u * p->first.transfer.split_n > chunks) {
        p->plain_rounds = PLAIN_ROUNDS;
    }
}

/* Its frames may be larger again: if not, a pull with larger chunks costs two frames. */
static void forget_limit(struct uw_node_peer *peer)
{
    if (peer->chunk_limit_n != 0 && peer->limit_pulls-- == 0) {
        peer->chunk_limit_n = 0;
    }
}

/* Begin the pull of a round from the member at this place; adopt: take its model over. */
static void start_pull(struct uw_node_state *s, uint32_t round, uint32_t place, bool adopt)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = &s->membership.members[place];
    struct uw_node_peer *peer = &s->peers[place];
    forget_limit(peer);
    bool coded = wants_code(s, peer);
    uint32_t chunk_n = uw_node_most_n(s, coded);
    if (peer->chunk_limit_n != 0 && peer->chunk_limit_n < chunk_n) {
        chunk_n = peer->chunk_limit_n;
    }
    p->round = round;
    p->what_for = round == BRIDGE_ROUND ? UW_PULL_TO_BRIDGE
                  : adopt               ? UW_PULL_TO_ADOPT
                                        : UW_PULL_TO_MIX;
    p->judged = false;
    p->bytes = p->paused_us = 0;
    uw_node_lane_start(s, &p->first, place, chunk_n, coded);
    uw_node_pick_slice(s);
    if (s->period != NULL) {
        s->config.parts->periods->began(s);
    }
    uw_node_event_pull(s, m, UW_NODE_PULL_STARTED, UW_WHY_NONE);
}

/* Choose a peer for the round; false: wait for one. */
static bool begin_round(struct uw_node_state *s, uint32_t round)
{
    bool adopt;
    float weight;
    uint32_t place = uw_node_pick(s, round, &adopt, &weight);
    if (place == UW_NODE_LATER) {
        return false;
    }
    if (s->cast != NULL && !adopt) {
        place = s->config.parts->casts->begin(s, round);
        if (place != 0) {
            return place != UW_NODE_LATER;
        }
    }
    if (place == 0) {
        uw_gossip_ended(&s->gossip, round, UW_GOSSIP_NONE);
    } else {
        s->pull.weight = weight;
        s->pull.passed = 0;
        start_pull(s, round, place, adopt);
    }
    return true;
}

void uw_node_avoid(struct uw_node_state *s, const struct uw_member *m, uint64_t us)
{
    uw_node_peer(s, m)->avoid_until_us = s->outer_us + us;
}

void uw_node_punish(struct uw_node_state *s, struct uw_member *m)
{
    if (m == NULL) {
        return;
    }
    struct uw_node_peer *peer = uw_node_peer(s, m);
    peer->refused_n++;
    uw_node_avoid(s, m, uw_backoff_us(AVOID_FIRST_US, &peer->strikes, AVOID_DOUBLINGS));
}

static void finish(struct uw_node_state *s, enum uw_gossip_end how)
{
    struct uw_node_pull *p = &s->pull;
    if (how != UW_GOSSIP_STALE) {       /* a stale pull measures nothing */
        uw_node_lane_keep_rate(s, &p->first);
    }
    judge_code(p);
    p->first.transfer.have_chunks -= uw_node_lanes_missing(s);    /* assigned to lanes */
    uw_pull_stop(&p->first.transfer);
    if (s->further != NULL) {
        s->config.parts->lanes->stop(s);
    }
    if (p->what_for == UW_PULL_TO_BRIDGE) {
        s->averages->pull_ended(s, how);
    } else {
        uw_gossip_ended(&s->gossip, p->round, how);
    }
}

/* Count a pull for the period. */
static void count(struct uw_node_state *s)
{
    if (s->period != NULL && s->pull.what_for != UW_PULL_TO_BRIDGE) {
        s->config.parts->periods->ended(s);
    }
}

void uw_node_pull_cut(struct uw_node_state *s, enum uw_node_why why)
{
    s->counters.pulls_cut++;
    finish(s, UW_GOSSIP_CUT);
    uw_node_event_pull(s, uw_node_pull_member(s), UW_NODE_PULL_CUT, why);
}

/* Replace the pull's peer by a further one of this round. */
static bool take_over(struct uw_node_state *s, enum uw_node_why why)
{
    return uw_node_pulls_from_many(s) && s->config.parts->lanes->take_over(s, why);
}

/* Refuse a member's chunk that is not finite: avoid it for a while, and cut the pull. */
static void refuse_chunk(struct uw_node_state *s, struct uw_member *m)
{
    uw_node_punish(s, m);
    uw_node_event_pull(s, m, UW_NODE_CHUNK_NONFINITE, UW_WHY_NONE);
    if (s->pull.first.transfer.active && !take_over(s, UW_WHY_CHUNK)) {
        uw_node_pull_cut(s, UW_WHY_CHUNK);
    }
}

/* Of a guard, one model that is too far away may be that of a node that could not mix for a moment,
 * as during a pull from a node that has died. */
static void refuse_outlier(struct uw_node_state *s)
{
    struct uw_member *m = uw_node_pull_member(s);
    bool again = m == NULL || s->gossip.guard == NULL || uw_node_peer(s, m)->far;
    if (again && !uw_gossip_doubts(&s->gossip)) {
        uw_node_punish(s, m);
    }
    if (again) {
        uw_node_event_pull(s, m, UW_NODE_CHUNK_OUTLIER, UW_WHY_NONE);
    } else {
        uw_node_peer(s, m)->far = true;
    }
    if (s->pull.first.transfer.active) {
        uw_node_pull_cut(s, UW_WHY_CHUNK);
    }
}

/* Handle an outlier, which the training thread may find after the last chunk has arrived. Only its
 * request of the next round tells that there was none. */
static void judge_pull(struct uw_node_state *s, bool mixed)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    if (p->round == 0 || p->judged) {
        return;
    }
    if (!uw_gossip_rejected(&s->gossip, p->round)) {
        if (mixed && m != NULL && uw_pull_complete(&p->first.transfer)) {
            uw_node_peer(s, m)->strikes /= 2u;
            uw_node_peer(s, m)->far = false;
        }
        p->judged = mixed;
        return;
    }
    p->judged = true;
    refuse_outlier(s);
}

static void complete(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    if (p->bytes == 0) {
        finish(s, UW_GOSSIP_STALE);
        return;
    }
    uw_deadline_add(&p->took, s->now_us - p->first.transfer.started_us);
    s->counters.pulls_done++;
    count(s);
    if (m != NULL && p->first.version != 0 && p->first.version != UW_NODE_VERSION_MIXED) {
        uw_node_slices_mixed(p->first.slices, p->first.version, uw_node_peer(s, m), s->outer_us);
    }
    finish(s, UW_GOSSIP_COMPLETE);
    uw_node_event_pull(s, m, UW_NODE_PULL_DONE, UW_WHY_NONE);
    if (p->what_for == UW_PULL_TO_ADOPT) {
        uw_node_event_pull(s, m, UW_NODE_ADOPTED, UW_WHY_NONE);
    }
}

/* The place of a member other than m whose link carries this pull's chunks; 0: none. */
static uint32_t another_than(struct uw_node_state *s, const struct uw_member *m)
{
    bool newcomer = uw_gossip_is_newcomer(&s->gossip);
    uint32_t chunk_n = s->pull.first.transfer.chunk_n;
    return s->pull.what_for == UW_PULL_TO_BRIDGE ? s->averages->pull_another(s, chunk_n, m)
                          : uw_node_pick_any(s, s->pull.round, newcomer, chunk_n, m);
}

/* Not when a model is taken over: halves of two models make none. First the training thread has to
 * mix all chunks, so that an outlier is attributed to its sender; in a pull from several peers,
 * chunks name theirs. */
static bool move_on(struct uw_node_state *s, enum uw_node_why why)
{
    struct uw_node_pull *p = &s->pull;
    if (p->what_for == UW_PULL_TO_ADOPT) {
        return false;
    }
    if (take_over(s, why)) {
        return true;
    }
    if (!uw_node_pulls_from_many(s) && uw_gossip_room(&s->gossip) < s->gossip.config.slots_n) {
        return true;
    }
    judge_pull(s, false);
    if (!p->first.transfer.active) {
        return true;
    }
    struct uw_member *stopped = uw_node_pull_member(s);
    uint32_t place = another_than(s, stopped);
    if (place == 0) {
        return false;
    }
    if (stopped != NULL) {
        uw_node_avoid(s, stopped, UW_NODE_AVOID_US);
    }
    uw_node_event_pull(s, stopped, UW_NODE_PULL_MOVED, why);
    uw_node_lane_keep_rate(s, &p->first);
    p->first.version = UW_NODE_VERSION_MIXED;
    uw_node_lane_move(s, &p->first, place);
    return true;
}

/* End the pull when it is complete, late, or its peer is lost. */
static void check_pull(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_pull *t = &p->first.transfer;
    struct uw_member *m = uw_node_pull_member(s);
    bool here = uw_pull_complete(t);
    if (here && (s->further == NULL || s->config.parts->lanes->over(s))) {
        complete(s);
        return;
    }
    if (uw_gossip_room(&s->gossip) == 0 || here) {
        t->progress_us = s->now_us;     /* the ring is full, or lanes are not complete */
    }
    uint64_t most_us = uw_node_pull_deadline_us(s), silent_us = s->now_us - t->progress_us;
    uint64_t silence_us = m != NULL ? uw_node_pull_silence_us(s, t, m) : 0;
    if (s->now_us >= t->started_us + most_us) {
        /* Lengthen later timeouts: pulls may have become longer. */
        uw_deadline_add(&p->took, 2u * (s->now_us - t->started_us));
        if ((s->limits.open & UW_NODE_PULL_OPEN) != 0 && most_us == s->config.pull_us) {
            s->config.pull_us *= 2u;    /* the limit was computed from this node's rate */
        }
        count(s);
        uw_node_pull_cut(s, UW_WHY_LATE);
    } else if (t->chunk_n > uw_node_most_n(s, t->coded)) {
        /* The frames have become smaller; the next pull has smaller chunks. */
        uw_node_pull_cut(s, UW_WHY_NARROW);
    } else if (here) {
        return;
    } else if (m == NULL || uw_member_is_gone(m)) {
        if (!move_on(s, UW_WHY_GONE)) {
            uw_node_pull_cut(s, UW_WHY_GONE);
        }
    } else if (silent_us >= silence_us || silent_us >= most_us / 2u) {
        /* If pulls are quick, move to another peer soon. */
        s->members->doubt(&s->membership, m, s->outer_us);
        if (!move_on(s, UW_WHY_SILENT) && silent_us >= silence_us) {
            uw_node_avoid(s, m, UW_NODE_AVOID_US);
            uw_node_pull_cut(s, UW_WHY_SILENT);
        }
    }
}

/* Does the pull wait for a sleeping peer? Moves to a peer that is awake, if any. */
static bool rests(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = uw_node_pull_member(s);
    bool asleep = p->first.transfer.active && m != NULL && !uw_member_is_gone(m) &&
                  uw_membership_window(&s->membership, m, s->outer_us).from_us > s->outer_us;
    if (p->paused_us != 0) {
        uw_pull_paused(&p->first.transfer, s->now_us - p->paused_us);  /* some came meanwhile */
        p->first.transfer.progress_us = uw_min_u64(p->first.transfer.progress_us, s->now_us);
    }
    p->paused_us = asleep ? s->now_us : 0;
    bool here = uw_pull_complete(&p->first.transfer);
    if (asleep && !here && p->what_for == UW_PULL_TO_MIX &&
        (uw_node_lanes_missing(s) != 0 || uw_node_any_awake(s))) {
        (void)move_on(s, UW_WHY_SLEEPS);
    }
    return asleep && !here;
}

void uw_node_pull_step(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    judge_pull(s, false);
    const struct uw_node_averages *averages = s->averages;
    if (averages != NULL && averages->pull_step(s) == UW_ERR_DENIED &&
        p->what_for == UW_PULL_TO_BRIDGE) {
        s->counters.refused_outlier++;
        refuse_outlier(s);
    }
    if (s->further != NULL) {
        s->config.parts->lanes->step(s);
    }
    if (rests(s)) {
        return;
    }
    if (p->first.transfer.active) {
        check_pull(s);
    }
    if (!p->first.transfer.active) {
        uint32_t round = p->pending != 0 ? p->pending : uw_gossip_next_round(&s->gossip);
        uint32_t head = round == 0 && averages != NULL ? averages->pull_from(s) : 0;
        if (head != 0) {
            start_pull(s, BRIDGE_ROUND, head, false);
        }
        if (round == 0) {
            uw_node_pull_ask(s, &p->first);
            return;
        }
        judge_pull(s, true);
        p->pending = begin_round(s, round) ? 0 : round;
    }
    uw_node_pull_ask(s, &p->first);
}

/* ---- wants and chunks ---- */

/* The largest message for a member, whose frames may be as small as its chunks. */
static uint32_t mtu_to(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t limit_n = uw_node_peer(s, m)->chunk_limit_n;
    uint32_t bytes = UW_WIRE_SHORT_DATA_BYTES + 4u * limit_n;
    return limit_n != 0 && bytes < uw_node_mtu(s) ? bytes : uw_node_mtu(s);
}

/* Free slots for this pull's chunks, requested ones included; slots of other lanes are reserved. */
static uint32_t room_for(const struct uw_node_state *s, const struct uw_pull *t)
{
    uint32_t room = uw_gossip_room(&s->gossip), others = 0;
    if (uw_node_pulls_from_many(s)) {
        others = s->pull.first.transfer.out_chunks - t->out_chunks;
        for (uint32_t i = 0; i < s->further->n; i++) {
            const struct uw_node_lane *lane = &s->further->lane[i];
            others += lane->used ? lane->transfer.out_chunks : 0;
        }
    }
    return room > others ? room - others : 0;
}

/* The version of a member of which all slices of this lane were mixed in; 0: none. */
static uint32_t known_of(const struct uw_node_state *s, const struct uw_node_lane *lane,
                         const struct uw_member *m)
{
    return s->pull.what_for == UW_PULL_TO_ADOPT
               ? 0
               : uw_node_slices_known(lane->slices, lane->version, uw_node_peer(s, m));
}

static void send_short_wants(struct uw_node_state *s, struct uw_node_lane *lane,
                             const struct uw_member *m)
{
    const struct uw_node_frames *f = s->config.parts->frames;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    const struct uw_short_wants head = {.model = (uint32_t)s->model,
                                        .mixed = known_of(s, lane, m)};
    uint32_t n = 0, room = room_for(s, &lane->transfer);
    uint32_t most = s->late_bytes == 0 ? f->wants(mtu_to(s, m)) : 0;    /* else it is not sent */
    for (; n < most && uw_pull_next(&lane->transfer, room, s->now_us, &wants[n]); n++) {
    }
    if (n != 0) {
        int bytes = f->write_wants(UW_WIRE_WANT, &head, wants, n, s->buffer);
        (void)uw_node_send_buffer(s, m->station, (uint32_t)bytes);
    }
}

void uw_node_pull_ask(struct uw_node_state *s, struct uw_node_lane *lane)
{
    const struct uw_member *m = s->pull.round != 0 ? uw_node_lane_member(s, lane) : NULL;
    struct uw_want w;
    if (m != NULL && s->config.link->frames) {
        send_short_wants(s, lane, m);
        return;
    }
    for (uint32_t i = 0; m != NULL && i < WANTS_MOST &&
                         uw_pull_next(&lane->transfer, room_for(s, &lane->transfer), s->now_us,
                                      &w); i++) {
        s->message->want = (uwasa_Want){
            .run = s->run, .model = s->model, .transfer = w.transfer, .seq = w.seq,
            .chunk_n = w.chunk_n, .base = w.base, .wanted = w.wanted, .spread_us = w.spread_us};
        (void)uw_node_send(s, m->station, UW_WIRE_WANT, &uw_form_want, s->message);
    }
}

/* When the next wants of a lane are due. */
static uint64_t due_us(const struct uw_node_state *s, const struct uw_pull *t)
{
    uint32_t room = room_for(s, t);
    uint64_t next_us = uw_pull_next_us(t, room, s->now_us);
    if (t->active && room <= t->out_chunks && s->now_us + FULL_RETRY_US < next_us) {
        return s->now_us + FULL_RETRY_US;
    }
    return next_us;
}

uint64_t uw_node_pull_next_us(struct uw_node_state *s)
{
    const struct uw_node_pull *p = &s->pull;
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; s->further != NULL && i < s->further->n; i++) {
        const struct uw_node_lane *lane = &s->further->lane[i];
        next_us = lane->used ? uw_min_u64(next_us, due_us(s, &lane->transfer))
                             : next_us;
    }
    if (p->paused_us != 0 && uw_node_pull_member(s) != NULL) {
        const struct uw_member *m = uw_node_pull_member(s);
        const struct uw_window w = uw_membership_window(&s->membership, m, s->outer_us);
        return uw_min_u64(next_us, w.from_us - s->slept_us);
    }
    return uw_min_u64(next_us, due_us(s, &p->first.transfer));
}

struct uw_node_lane *uw_node_pull_of(struct uw_node_state *s, const struct uw_member *m)
{
    struct uw_node_lane *lane = m != NULL ? uw_node_lane_of(s, m) : NULL;
    return lane == NULL && m != NULL && m == uw_node_pull_member(s) ? &s->pull.first : lane;
}

uint64_t uw_node_stale_us(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t age_ms = (uint32_t)(s->outer_us / 1000u) - uw_node_peer(s, m)->mixed_ms;
    uint32_t age_us = uw_min_u32(age_ms, UW_NODE_AVOID_US / 1000u) * 1000u;
    return age_us > AVOID_STALE_MIN_US ? age_us : AVOID_STALE_MIN_US;
}

/* Skip a peer whose version was mixed before: mixing it again would delay faster nodes. Try a few
 * other peers only, because round trips add up. The peer is used again when its version is twice as
 * old. */
static void pass_over(struct uw_node_state *s, struct uw_member *m, struct uw_node_lane *lane)
{
    struct uw_node_pull *p = &s->pull;
    if (uw_node_pulls_from_many(s)) {
        s->config.parts->lanes->stale(s, lane);
        return;
    }
    uw_node_avoid(s, m, uw_node_stale_us(s, m));
    s->counters.pulls_stale++;
    bool more = p->what_for != UW_PULL_TO_BRIDGE && p->passed < UW_NODE_PASSED_MOST;
    uint32_t place = more ? uw_node_pick_any(s, p->round, false, 1, m) : 0;
    if (place == 0) {
        finish(s, UW_GOSSIP_STALE);
        return;
    }
    p->passed++;
    uw_pull_stop(&p->first.transfer);
    start_pull(s, p->round, place, false);
}

/* Pass a chunk to the training thread or the bridge. */
static void push(struct uw_node_state *s, struct uw_gossip_slot *slot, const struct uw_member *m,
                 uint32_t offset_n, uint32_t count_n)
{
    slot->round = s->pull.round;
    slot->offset_n = offset_n;
    slot->count_n = count_n;
    slot->adopt = s->pull.what_for == UW_PULL_TO_ADOPT;
    slot->weight = s->pull.weight;
    slot->from_id = uw_node_pulls_from_many(s) ? m->id : 0;
    uw_gossip_push(&s->gossip);
}

/* Handle a chunk that was mixed before or is not finite. Returns whether it is one. */
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
    if (lane != &s->pull.first) {
        lanes->nonfinite(s, lane);
    } else {
        refuse_chunk(s, m);
    }
    return true;
}

/* The older of two versions; UW_NODE_VERSION_MIXED stays. */
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
    struct uw_member *m = s->members->heard(&s->membership, station, s->outer_us);
    struct uw_node_lane *lane = uw_node_pull_of(s, m);
    if (lane == NULL) {
        return;
    }
    struct uw_pull *t = &lane->transfer;
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
    lane->version = oldest(lane->version, d->version);
    uw_pull_took(t, d->seq, offset_n, count_n, s->now_us);
    p->bytes += count_n * 4u;
    uw_node_peer(s, m)->from_bytes += count_n * 4u;
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
    struct uw_node_lane *lane = uw_node_pull_of(s, m);
    struct uw_node_peer *peer = uw_node_peer(s, m);
    enum uw_node_why why = why_refused(refuse->reason);
    bool coded = p->first.transfer.coded;     /* the peer may lack the code */
    bool narrow = refuse->reason == uwasa_Reason_CHUNK_TOO_BIG &&
                  refuse->chunk_n >= UW_CHUNK_MIN_N &&
                  (coded || refuse->chunk_n < p->first.transfer.chunk_n);
    bool mixed = refuse->reason == uwasa_Reason_MIXED;
    if (narrow) {
        peer->chunk_limit_n = (uint16_t)uw_min_u32(refuse->chunk_n, uw_node_chunk_n(s));
        peer->limit_pulls = LIMIT_PULLS;
    }
    if (mixed && lane->version == 0 && p->what_for != UW_PULL_TO_ADOPT) {
        pass_over(s, m, lane);
        return;
    }
    if (lane != &p->first) {
        s->config.parts->lanes->refused(s, lane, why);
        return;
    }
    if (narrow && p->bytes == 0 && uw_node_carries(s, peer, 1)) {
        start_pull(s, p->round, p->first.member, p->what_for == UW_PULL_TO_ADOPT);
        return;
    }
    s->counters.pulls_refused++;
    uw_node_avoid(s, m, UW_NODE_AVOID_US / 4u);
    if (uw_node_pulls_from_many(s) && s->config.parts->lanes->take_over(s, why)) {
        return;
    }
    finish(s, p->bytes != 0 ? UW_GOSSIP_CUT : UW_GOSSIP_NONE);
    uw_node_event_pull(s, m, UW_NODE_PULL_REFUSED, why);
}
