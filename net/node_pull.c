/* SPDX-License-Identifier: Apache-2.0 */
#include "node_periods.h"
#include "node_slice.h"
#include "node_tell.h"

#include "bits.h"

#include <string.h>

#define DEADLINE_MIN_US 2000000u
#define AVOID_CUT_US 2000000u
#define AVOID_STALE_MIN_US 20000u
#define AVOID_FIRST_US 5000000u     /* after a bad chunk; doubles with each, never for ever */
#define AVOID_MAX_US 600000000u
#define WANTS_MOST 8u
#define PASSED_MOST 3u              /* peers a round passes over, and asks one more */
#define BRIDGE_ROUND UINT32_MAX     /* no round of gossip */
#define VERSION_MIXED UINT32_MAX    /* chunks of more than one peer */
#define FULL_RETRY_US 2000u
#define ROUND_TRIP_CHUNKS 6u        /* on a link of frames, where none was measured */

struct uw_member *uw_node_pull_member(struct uw_node_state *s)
{
    const struct uw_node_pull *p = &s->pull;
    if (p->round == 0 || p->member >= s->membership.members_n) {
        return NULL;
    }
    struct uw_member *m = &s->membership.members[p->member];
    return m->id == p->member_id ? m : NULL;
}

/* Twice the median of what pulls took, and eight of its median deviations. */
static uint64_t deadline_us(const struct uw_node_state *s)
{
    return uw_deadline_us(&s->pull.took, 2, 8, DEADLINE_MIN_US, s->config.pull_us);
}

/* Chunks that the link can receive at once, less one for what others say; 0: not known. Where it
 * counts messages, what peers ask and tell takes as much room as a chunk: a third is theirs. */
static uint32_t room_of(const struct uw_node_state *s, uint32_t chunk_n)
{
    const struct uw_link *l = s->config.link;
    uint32_t room = l->burst_bytes / (uw_wire_data_bytes(l->frames) + 4u * chunk_n);
    uint32_t most = l->burst_n - l->burst_n / 3u + 1u;
    room = l->burst_n != 0 && (l->burst_bytes == 0 || most < room) ? most : room;
    return l->burst_bytes == 0 && l->burst_n == 0 ? 0 : room > 1u ? room - 1u : 1u;
}

static struct uw_path path_to(const struct uw_node_state *s, const struct uw_member *m,
                              uint32_t chunk_n)
{
    const struct uw_link *l = s->config.link;
    uint64_t bits = (uw_wire_data_bytes(l->frames) + 4u * chunk_n) * 8u;
    bool steady = l->frames && l->rate_bits_per_s != 0;
    uint32_t chunk_us = steady ? (uint32_t)(bits * 1000000u / l->rate_bits_per_s) : 0;
    uint32_t rtt_us = m->srtt_us != 0 ? m->srtt_us : ROUND_TRIP_CHUNKS * chunk_us;
    return (struct uw_path){rtt_us, m->floats_per_us, false, room_of(s, chunk_n), chunk_us};
}

/* Another one than the last; short forms have a byte for it. */
static uint16_t new_transfer(struct uw_node_state *s)
{
    uint32_t all = s->config.link->frames ? UINT8_MAX : UINT16_MAX;
    return (uint16_t)((s->pull.transfer.transfer + 1u + uw_rng_below(&s->rng, all)) & all);
}

static void start_pull(struct uw_node_state *s, uint32_t round, uint32_t place, bool adopt)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = &s->membership.members[place];
    uint32_t chunk_n = uw_node_chunk_n(s);
    if (m->chunk_limit_n != 0 && m->chunk_limit_n < chunk_n) {
        chunk_n = m->chunk_limit_n;
    }
    p->round = round;
    p->member = place;
    p->member_id = m->id;
    p->adopt = adopt;
    p->bridge = round == BRIDGE_ROUND;
    p->judged = false;
    p->version = 0;
    p->bytes = p->paused_us = 0;
    const struct uw_path path = path_to(s, m, chunk_n);
    uw_pull_start(&p->transfer, new_transfer(s), s->config.params->size_n, chunk_n, &path,
                  s->now_us);
    uw_node_pick_slice(s);
    if (s->period != NULL) {
        s->config.parts->periods->began(s);
    }
    uw_node_tell_pull(s, UW_NODE_PULL_STARTED, UW_WHY_NONE);
}

/* Choose a peer for the round; false: wait a little for one to appear. */
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

void uw_node_punish(struct uw_node_state *s, struct uw_member *m)
{
    if (m == NULL) {
        return;
    }
    m->refused_n++;
    uint64_t us = (uint64_t)AVOID_FIRST_US << (m->strikes < 7u ? m->strikes : 7u);
    m->avoid_until_us = s->now_us + (us < AVOID_MAX_US ? us : AVOID_MAX_US);
    m->strikes = (uint8_t)(m->strikes + (m->strikes < UINT8_MAX));
}

static void remember_rate(struct uw_node_state *s)
{
    struct uw_member *m = uw_node_pull_member(s);
    if (m != NULL) {
        m->floats_per_us = s->pull.transfer.rate * (float)s->pull.transfer.chunk_n;
    }
}

static void finish(struct uw_node_state *s, enum uw_gossip_end how)
{
    struct uw_node_pull *p = &s->pull;
    if (how != UW_GOSSIP_STALE) {       /* of which nothing was taken, and nothing learned */
        remember_rate(s);
    }
    uw_pull_stop(&p->transfer);
    if (p->bridge) {
        s->averages->pull_ended(s, how);
    } else {
        uw_gossip_ended(&s->gossip, p->round, how);
    }
}

/* The period learns from it. */
static void count(struct uw_node_state *s)
{
    if (s->period != NULL && !s->pull.bridge) {
        s->config.parts->periods->ended(s);
    }
}

static void cut(struct uw_node_state *s, enum uw_node_why why)
{
    s->counters.pulls_cut++;
    finish(s, UW_GOSSIP_CUT);
    uw_node_tell_pull(s, UW_NODE_PULL_CUT, why);
}

static void refuse_chunk(struct uw_node_state *s, struct uw_member *m,
                         enum uw_node_event_kind kind)
{
    uw_node_punish(s, m);
    uw_node_tell_pull(s, kind, UW_WHY_NONE);
    if (s->pull.transfer.active) {
        cut(s, UW_WHY_CHUNK);
    }
}

/* The training thread met an outlier, maybe after the last chunk had arrived. Only when it asks for
 * the next round is it known that it met none. */
static void judge_pull(struct uw_node_state *s, bool mixed)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    if (p->round == 0 || p->judged) {
        return;
    }
    if (!uw_gossip_rejected(&s->gossip, p->round)) {
        if (mixed && m != NULL && uw_pull_complete(&p->transfer)) {
            m->strikes /= 2u;
        }
        p->judged = mixed;
        return;
    }
    p->judged = true;
    uw_node_punish(s, m);
    uw_node_tell_pull(s, UW_NODE_CHUNK_OUTLIER, UW_WHY_NONE);
    if (p->transfer.active) {
        cut(s, UW_WHY_CHUNK);
    }
}

static void complete(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    uw_deadline_add(&p->took, s->now_us - p->transfer.started_us);
    s->counters.pulls_done++;
    count(s);
    if (m != NULL && p->version != VERSION_MIXED) {
        uw_node_slices_mixed(p, m, s->now_us);
    }
    finish(s, UW_GOSSIP_COMPLETE);
    uw_node_tell_pull(s, UW_NODE_PULL_DONE, UW_WHY_NONE);
    if (p->adopt) {
        uw_node_tell_pull(s, UW_NODE_ADOPTED, UW_WHY_NONE);
    }
}

/* The place of another member than m, whose link carries this pull's chunks; 0: nobody. */
static uint32_t another_than(struct uw_node_state *s, struct uw_member *m)
{
    bool newcomer = atomic_load_explicit(&s->gossip.newcomer, memory_order_relaxed);
    uint64_t avoid_until_us = m != NULL ? m->avoid_until_us : 0;
    uint32_t chunk_n = s->pull.transfer.chunk_n;
    if (m != NULL) {
        m->avoid_until_us = s->now_us + AVOID_CUT_US;
    }
    uint32_t place = s->pull.bridge ? s->averages->pull_another(s, chunk_n)
                                    : uw_node_pick_any(s, s->pull.round, newcomer, chunk_n);
    if (place == 0 && m != NULL) {
        m->avoid_until_us = avoid_until_us;
    }
    return place;
}

/* Go on with another peer where this one has stopped. Only what is averaged: to adopt half of one
 * model and half of another makes neither. First the training thread has to have looked at all that
 * is here, so that an outlier among it is blamed on the peer that sent it.
 * Returns false when there is nobody to go on with. */
static bool move_pull(struct uw_node_state *s, enum uw_node_why why)
{
    struct uw_node_pull *p = &s->pull;
    if (p->adopt) {
        return false;
    }
    if (uw_gossip_room(&s->gossip) < s->gossip.config.slots_n) {
        return true;
    }
    judge_pull(s, false);
    if (!p->transfer.active) {
        return true;
    }
    uint32_t place = another_than(s, uw_node_pull_member(s));
    if (place == 0) {
        return false;
    }
    const struct uw_member *m = &s->membership.members[place];
    const struct uw_path path = path_to(s, m, p->transfer.chunk_n);
    uw_node_tell_pull(s, UW_NODE_PULL_MOVED, why);
    remember_rate(s);
    p->version = VERSION_MIXED;
    p->member = place;
    p->member_id = m->id;
    uw_pull_move(&p->transfer, new_transfer(s), &path, s->now_us);
    return true;
}

/* Ends the pull when it is over one way or another. */
static void check_pull(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_pull *t = &p->transfer;
    struct uw_member *m = uw_node_pull_member(s);
    if (uw_pull_complete(t)) {
        complete(s);
        return;
    }
    if (uw_gossip_room(&s->gossip) == 0) {
        t->progress_us = s->now_us;     /* we are the slow side */
    }
    uint64_t most_us = deadline_us(s), silent_us = s->now_us - t->progress_us;
    if (s->now_us >= t->started_us + most_us) {
        /* The history must learn that pulls have become longer. */
        uw_deadline_add(&p->took, 2u * (s->now_us - t->started_us));
        count(s);
        cut(s, UW_WHY_LATE);
    } else if (t->chunk_n > uw_node_chunk_n(s)) {
        cut(s, UW_WHY_NARROW);      /* the link has become so; the next pull has smaller chunks */
    } else if (m == NULL || m->state == UW_MEMBER_DEAD || m->state == UW_MEMBER_LEFT) {
        if (!move_pull(s, UW_WHY_GONE)) {
            cut(s, UW_WHY_GONE);
        }
    } else if (silent_us >= s->config.pull_silence_us || silent_us >= most_us / 2u) {
        /* Where pulls are quick another peer is asked soon, if there is one. */
        uw_membership_doubt(&s->membership, m, s->now_us);
        if (!move_pull(s, UW_WHY_SILENT) && silent_us >= s->config.pull_silence_us) {
            m->avoid_until_us = s->now_us + AVOID_CUT_US;
            cut(s, UW_WHY_SILENT);
        }
    }
}

/* The largest message for a member, whose link may be as narrow as the chunks it sends. */
static uint32_t mtu_to(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t bytes = UW_WIRE_SHORT_DATA_BYTES + 4u * m->chunk_limit_n;
    return m->chunk_limit_n != 0 && bytes < uw_node_mtu(s) ? bytes : uw_node_mtu(s);
}

/* Does the pull wait for a peer that sleeps? Somebody awake goes on with it, if there is one. */
static bool rests(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = uw_node_pull_member(s);
    bool asleep = p->transfer.active && m != NULL && m->state != UW_MEMBER_DEAD &&
                  m->state != UW_MEMBER_LEFT && uw_member_window(m, s->now_us).from_us > s->now_us;
    if (p->paused_us != 0) {
        uw_pull_slept(&p->transfer, s->now_us - p->paused_us);  /* some came meanwhile */
        p->transfer.progress_us = uw_min_u64(p->transfer.progress_us, s->now_us);
    }
    p->paused_us = asleep ? s->now_us : 0;
    if (asleep && !p->adopt && !p->bridge && uw_node_any_awake(s)) {
        (void)move_pull(s, UW_WHY_SLEEPS);
    }
    return asleep && !uw_pull_complete(&p->transfer);
}

/* As many questions as fit, in one frame. */
static void send_short_wants(struct uw_node_state *s, const struct uw_member *m)
{
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    const struct uw_short_wants head = {.model = (uint32_t)s->model,
                                        .mixed = uw_node_slices_known(&s->pull, m)};
    struct uw_pull *t = &s->pull.transfer;
    uint32_t n = 0, most = uw_message_short_wants(mtu_to(s, m)), room = uw_gossip_room(&s->gossip);
    for (; n < most && uw_pull_next(t, room, s->now_us, &wants[n]); n++) {
    }
    if (n != 0) {
        int bytes = uw_message_write_short_wants(UW_WIRE_WANT, &head, wants, n, s->buffer);
        (void)uw_node_send_buffer(s, m->station, (uint32_t)bytes);
    }
}

static void send_wants(struct uw_node_state *s)
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

void uw_node_pull_step(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    judge_pull(s, false);
    const struct uw_node_averages *averages = s->averages;
    if (averages != NULL && averages->pull_step(s) == UW_ERR_DENIED && p->bridge) {
        s->counters.refused_outlier++;
        refuse_chunk(s, uw_node_pull_member(s), UW_NODE_CHUNK_OUTLIER);
    }
    if (rests(s)) {
        return;
    }
    if (p->transfer.active) {
        check_pull(s);
    }
    if (!p->transfer.active) {
        uint32_t round = p->pending != 0 ? p->pending : uw_gossip_take(&s->gossip);
        uint32_t head = round == 0 && averages != NULL ? averages->pull_from(s) : 0;
        if (head != 0) {
            start_pull(s, BRIDGE_ROUND, head, false);
        }
        if (round == 0) {
            send_wants(s);
            return;
        }
        judge_pull(s, true);
        p->pending = begin_round(s, round) ? 0 : round;
    }
    send_wants(s);
}

/* What the peer shows was mixed in before: again and again, it would hold back whoever is faster.
 * Look elsewhere, but not everywhere: round trips add up. It is asked again when what it showed is
 * twice as old. */
static void pass_over(struct uw_node_state *s, struct uw_member *m)
{
    struct uw_node_pull *p = &s->pull;
    uint64_t age_us = s->now_us - m->mixed_us;
    age_us = age_us < AVOID_CUT_US ? age_us : AVOID_CUT_US;
    m->avoid_until_us = s->now_us + (age_us > AVOID_STALE_MIN_US ? age_us : AVOID_STALE_MIN_US);
    s->counters.pulls_stale++;
    bool more = !p->bridge && p->passed < PASSED_MOST;
    uint32_t place = more ? uw_node_pick_any(s, p->round, false, 1) : 0;
    if (place == 0) {
        finish(s, UW_GOSSIP_STALE);
        return;
    }
    p->passed++;
    uw_pull_stop(&p->transfer);
    start_pull(s, p->round, place, false);
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
        refuse_chunk(s, m, UW_NODE_CHUNK_NONFINITE);
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
        start_pull(s, p->round, p->member, p->adopt);
        return;
    }
    if (refuse->reason == uwasa_Reason_MIXED && !p->adopt && p->version == 0) {
        pass_over(s, m);
        return;
    }
    s->counters.pulls_refused++;
    m->avoid_until_us = s->now_us + AVOID_CUT_US / 4u;
    finish(s, p->transfer.have_chunks != 0 ? UW_GOSSIP_CUT : UW_GOSSIP_NONE);
    uw_node_tell_pull(s, UW_NODE_PULL_REFUSED,
                      refuse->reason == uwasa_Reason_NOT_READY     ? UW_WHY_NOT_READY
                      : refuse->reason == uwasa_Reason_WRONG_MODEL ? UW_WHY_MODEL
                                                                   : UW_WHY_NARROW);
}

uint64_t uw_node_pull_next_us(struct uw_node_state *s)
{
    if (s->pull.paused_us != 0 && uw_node_pull_member(s) != NULL) {
        return uw_member_window(uw_node_pull_member(s), s->now_us).from_us;
    }
    uint32_t room = uw_gossip_room(&s->gossip);
    uint64_t next_us = uw_pull_next_us(&s->pull.transfer, room, s->now_us);
    if (s->pull.transfer.active && room <= s->pull.transfer.out_chunks &&
        s->now_us + FULL_RETRY_US < next_us) {
        return s->now_us + FULL_RETRY_US;
    }
    return next_us;
}
