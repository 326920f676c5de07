/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#include <string.h>

#define ADOPT_ROUNDS 2u             /* a peer with so many mixed rounds is further along */
#define JOIN_GRACE_US 3000000u      /* a newcomer looks this long for somebody before it starts */
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
#define SEND_RETRY_US 500u

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

static bool can_be_pulled_from(const struct uw_node_state *s, const struct uw_member *m,
                               bool newcomer, bool further, uint32_t chunk_n)
{
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->progress.version != 0 &&
           m->station != UW_LINK_STATION_NONE && s->now_us >= m->avoid_until_us &&
           (!m->progress.newcomer || newcomer) &&
           (m->chunk_limit_n == 0 || m->chunk_limit_n >= chunk_n) &&
           (!further || m->progress.rounds >= ADOPT_ROUNDS);
}

/* List the members of the run by identity, this one too; those who are gone for long are none.
 * `further`: only what a newcomer would adopt can be used; and only whose link carries chunks of
 * chunk_n. Returns how many can. */
static uint32_t list_members(struct uw_node_state *s, bool newcomer, bool further,
                             uint32_t chunk_n)
{
    struct uw_node_candidates *c = &s->candidates;
    uint32_t usable_n = 0;
    c->n = 0;
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool usable = i > 0 && can_be_pulled_from(s, m, newcomer, further, chunk_n);
        if (i > 0 && (m->state == UW_MEMBER_DEAD || m->state == UW_MEMBER_LEFT ||
                      !m->same_model)) {
            continue;
        }
        uint32_t k = c->n++;
        for (; k > 0 && s->membership.members[c->place[k - 1u]].id > m->id; k--) {
            c->place[k] = c->place[k - 1u];
            c->usable[k] = c->usable[k - 1u];
        }
        c->place[k] = i;
        c->usable[k] = usable;
        usable_n += usable;
    }
    return usable_n;
}

static struct uw_path path_to(const struct uw_member *m)
{
    return (struct uw_path){.rtt_us = m->srtt_us, .floats_per_us = m->floats_per_us};
}

static void start_pull(struct uw_node_state *s, uint32_t round, uint32_t place, bool adopt)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = &s->membership.members[place];
    uint32_t chunk_n = s->chunk_n;
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
    p->bytes = 0;
    const struct uw_path path = path_to(m);
    uw_pull_start(&p->transfer, (uint16_t)uw_rng_u32(&s->rng), s->config.params->size_n, chunk_n,
                  &path, s->now_us);
    uw_node_tell_pull(s, UW_NODE_PULL_STARTED, "");
}

/* The place in the table of whom the schedule names among those listed; 0: nobody this round. */
static uint32_t pick(struct uw_node_state *s, const struct uw_peer_schedule *schedule,
                     uint32_t round, float *weight)
{
    const struct uw_node_candidates *c = &s->candidates;
    struct uw_peer_view view = {.n = c->n, .usable = c->usable, .round = round,
                                .seed = s->run};
    while (c->place[view.self] != 0) {
        view.self++;
    }
    struct uw_peer_choice choice = schedule->pick(&view, &s->rng);
    *weight = choice.weight;
    return choice.at < c->n ? c->place[choice.at] : 0;
}

/* Any of those listed. */
static uint32_t pick_any(struct uw_node_state *s, uint32_t round)
{
    float none;
    return pick(s, &uw_peer_schedule_random, round, &none);
}

/* Choose a peer for the round; false: wait a little for one to appear. */
static bool begin_round(struct uw_node_state *s, uint32_t round)
{
    bool newcomer = atomic_load_explicit(&s->gossip.newcomer, memory_order_relaxed);
    bool further = newcomer && list_members(s, true, true, 1) != 0;
    bool adopt_only = s->gossip.config.adopt_only;
    uint32_t n = further ? 1 : list_members(s, newcomer, false, 1), place = 0;
    float weight = 0.0f;
    if (n != 0 && (further || !adopt_only)) {
        place = pick(s, further ? &uw_peer_schedule_random : s->config.schedule, round, &weight);
    } else if (n == 0 && newcomer && s->config.seeds_n != 0 &&
               uw_membership_alive(&s->membership) == 0 &&
               s->now_us - s->first_us < JOIN_GRACE_US) {
        return false;
    }
    if (place == 0) {
        uw_gossip_ended(&s->gossip, round, UW_GOSSIP_NONE);
    } else {
        s->pull.weight = weight;
        s->pull.passed = 0;
        start_pull(s, round, place, further);
    }
    return true;
}

/* Leave a peer alone for a while; each time twice as long. */
static void punish(struct uw_node_state *s, struct uw_member *m)
{
    if (m == NULL) {
        return;
    }
    m->refused_n++;
    uint64_t us = (uint64_t)AVOID_FIRST_US << (m->strikes < 7u ? m->strikes : 7u);
    m->avoid_until_us = s->now_us + (us < AVOID_MAX_US ? us : AVOID_MAX_US);
    m->strikes++;
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
    s->counters.chunks_again += (uint32_t)p->transfer.again_n;
    s->counters.chunks_twice += (uint32_t)p->transfer.twice_n;
    p->transfer.again_n = p->transfer.twice_n = 0;
    if (p->bridge) {
        uw_node_bridge_ended(s, how == UW_GOSSIP_COMPLETE);
    } else {
        uw_gossip_ended(&s->gossip, p->round, how);
    }
}

static void cut(struct uw_node_state *s, const char *why)
{
    s->counters.pulls_cut++;
    finish(s, UW_GOSSIP_CUT);
    uw_node_tell_pull(s, UW_NODE_PULL_CUT, why);
}

static void refuse_chunk(struct uw_node_state *s, struct uw_member *m,
                         enum uw_node_event_kind kind)
{
    punish(s, m);
    uw_node_tell_pull(s, kind, "");
    if (s->pull.transfer.active) {
        cut(s, "a chunk was refused");
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
    punish(s, m);
    uw_node_tell_pull(s, UW_NODE_CHUNK_OUTLIER, "");
    if (p->transfer.active) {
        cut(s, "a chunk was refused");
    }
}

static void complete(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_member *m = uw_node_pull_member(s);
    uw_deadline_add(&p->took, s->now_us - p->transfer.started_us);
    s->counters.pulls_done++;
    if (m != NULL && p->version != VERSION_MIXED) {
        m->mixed_version = p->version;
        m->mixed_us = s->now_us;
    }
    finish(s, UW_GOSSIP_COMPLETE);
    uw_node_tell_pull(s, UW_NODE_PULL_DONE, "");
    if (p->adopt) {
        uw_node_tell_pull(s, UW_NODE_ADOPTED, "");
    }
}

/* The place of another member than m, whose link carries this pull's chunks; 0: nobody. */
static uint32_t another_than(struct uw_node_state *s, struct uw_member *m)
{
    bool newcomer = atomic_load_explicit(&s->gossip.newcomer, memory_order_relaxed);
    uint64_t avoid_until_us = m != NULL ? m->avoid_until_us : 0;
    uint32_t chunk_n = s->pull.transfer.chunk_n, place = 0;
    if (m != NULL) {
        m->avoid_until_us = s->now_us + AVOID_CUT_US;
    }
    if (s->pull.bridge) {
        place = uw_node_bridge_another(s, chunk_n);
    } else if (list_members(s, newcomer, false, chunk_n) != 0) {
        place = pick_any(s, s->pull.round);
    }
    if (place == 0 && m != NULL) {
        m->avoid_until_us = avoid_until_us;
    }
    return place;
}

/* Go on with another peer where this one has stopped. Only what is averaged: to adopt half of one
 * model and half of another makes neither. First the training thread has to have looked at all that
 * is here, so that an outlier among it is blamed on the peer that sent it.
 * Returns false when there is nobody to go on with. */
static bool move_pull(struct uw_node_state *s, const char *why)
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
    const struct uw_path path = path_to(m);
    uw_node_tell_pull(s, UW_NODE_PULL_MOVED, why);
    remember_rate(s);
    p->version = VERSION_MIXED;
    p->member = place;
    p->member_id = m->id;
    uw_pull_move(&p->transfer, (uint16_t)uw_rng_u32(&s->rng), &path, s->now_us);
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
    uint64_t most_us = deadline_us(s);
    uint64_t silent_us = s->now_us - t->progress_us;
    if (s->now_us >= t->started_us + most_us) {
        /* The history must learn that pulls have become longer. */
        uw_deadline_add(&p->took, 2u * (s->now_us - t->started_us));
        cut(s, "it took far longer than pulls usually do");
    } else if (m == NULL || m->state == UW_MEMBER_DEAD || m->state == UW_MEMBER_LEFT) {
        if (!move_pull(s, "the peer is gone")) {
            cut(s, "the peer is gone");
        }
    } else if (silent_us >= s->config.pull_silence_us || silent_us >= most_us / 2u) {
        /* Where pulls are quick another peer is asked soon, if there is one. */
        uw_membership_doubt(&s->membership, m, s->now_us);
        if (!move_pull(s, "the peer fell silent") && silent_us >= s->config.pull_silence_us) {
            m->avoid_until_us = s->now_us + AVOID_CUT_US;
            cut(s, "the peer fell silent");
        }
    }
}

static void send_wants(struct uw_node_state *s)
{
    struct uw_pull *t = &s->pull.transfer;
    const struct uw_member *m = uw_node_pull_member(s);
    struct uw_want w;
    for (uint32_t i = 0; m != NULL && i < WANTS_MOST &&
                         uw_pull_next(t, uw_gossip_room(&s->gossip), s->now_us, &w); i++) {
        s->out.type = UW_WIRE_WANT;
        s->out.want = (uwasa_Want){
            .run = s->run, .model = s->model, .transfer = w.transfer, .seq = w.seq,
            .chunk_n = w.chunk_n, .base = w.base, .wanted = w.wanted, .spread_us = w.spread_us};
        (void)uw_node_send(s, m->station);
    }
}

void uw_node_pull_step(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    judge_pull(s, false);
    if (uw_node_bridge_step(s) == UW_ERR_DENIED && p->bridge) {
        s->counters.refused_outlier++;
        refuse_chunk(s, uw_node_pull_member(s), UW_NODE_CHUNK_OUTLIER);
    }
    if (p->transfer.active) {
        check_pull(s);
    }
    if (!p->transfer.active) {
        uint32_t round = p->pending != 0 ? p->pending : uw_gossip_take(&s->gossip);
        uint32_t head = round == 0 ? uw_node_bridge_take(s) : 0;
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
    if (p->bridge) {
        s->bridge.heard_us = s->now_us;     /* that cell lives */
    } else if (p->passed < PASSED_MOST && list_members(s, false, false, 1) != 0) {
        p->passed++;
        uint32_t place = pick_any(s, p->round);
        uw_pull_stop(&p->transfer);
        start_pull(s, p->round, place, false);
        return;
    }
    finish(s, UW_GOSSIP_STALE);
}

/* Hand a chunk to whoever mixes it. */
static void push(struct uw_node_state *s, struct uw_gossip_slot *slot, const struct uw_data *d)
{
    slot->round = s->pull.round;
    slot->offset_n = d->offset_n;
    slot->count_n = d->count_n;
    slot->adopt = s->pull.adopt;
    slot->weight = s->pull.weight;
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
    if (rc == UW_OK && !p->adopt && p->version == 0 && d->version == m->mixed_version) {
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
    if (narrow && p->transfer.have_chunks == 0) {
        start_pull(s, p->round, p->member, p->adopt);
        return;
    }
    s->counters.pulls_refused++;
    m->avoid_until_us = s->now_us + AVOID_CUT_US / 4u;
    finish(s, p->transfer.have_chunks != 0 ? UW_GOSSIP_CUT : UW_GOSSIP_NONE);
    uw_node_tell_pull(s, UW_NODE_PULL_REFUSED,
                      refuse->reason == uwasa_Reason_NOT_READY     ? "it has nothing to show yet"
                      : refuse->reason == uwasa_Reason_WRONG_MODEL ? "it trains another model"
                                                                   : "its link is too narrow");
}

uint64_t uw_node_pull_next_us(const struct uw_node_state *s)
{
    uint32_t room = uw_gossip_room(&s->gossip);
    uint64_t next_us = uw_pull_next_us(&s->pull.transfer, room, s->now_us);
    if (s->pull.transfer.active && room <= s->pull.transfer.out_chunks &&
        s->now_us + FULL_RETRY_US < next_us) {
        return s->now_us + FULL_RETRY_US;
    }
    return next_us;
}

void uw_node_serve_step(struct uw_node_state *s, uint32_t most)
{
    struct uw_serve_item item;
    for (uint32_t i = 0; i < most && uw_serve_next(&s->serve, s->now_us, &item); i++) {
        struct uw_snapshot_info info;
        if (uw_snapshot_read(s->config.snapshot, item.offset_n, item.count_n, s->chunk, &info) !=
            UW_OK) {
            s->blocked = true;
            return;
        }
        const struct uw_data d = {
            .run = s->run, .transfer = item.transfer, .seq = item.seq, .version = info.version,
            .offset_n = item.offset_n, .count_n = (uint16_t)item.count_n};
        int bytes = uw_message_encode_data(&d, s->chunk, s->buffer, s->buffer_bytes);
        int rc = bytes < 0 ? bytes
                           : uw_link_send(s->config.link, item.station, s->buffer,
                                          (uint32_t)bytes);
        if (rc == UW_ERR_AGAIN) {
            uw_serve_blocked(&s->serve, &item, s->now_us + SEND_RETRY_US);
            continue;
        }
        uw_serve_sent(&s->serve, &item);
        if (rc == UW_OK) {
            s->counters.sent_bytes += (uint32_t)bytes;
            s->counters.served_bytes += item.count_n * 4u;
        }
    }
}
