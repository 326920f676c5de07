/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include "base/bits.h"

#define LEFT_SHARES 8u              /* smallest rest to divide again: an eighth of a share ... */
#define RATE_UNKNOWN 1e-9f          /* chunks a microsecond */
#define LEFT_LEAST 2u               /* ... and at least so many chunks not requested yet */

/* Store that all of this share was mixed in. */
static void settle(struct uw_node_state *s, const struct uw_node_lane *lane)
{
    const struct uw_member *m = uw_node_lane_member(s, lane);
    if (m != NULL && lane->version != 0 && lane->version != UW_NODE_VERSION_MIXED) {
        uw_node_slices_mixed(lane->slices, lane->version, uw_node_peer(s, m), s->outer_us);
    }
}

/* Move up to `most` missing chunks from one lane to the other; asked: requested ones, too. Returns
 * their number. */
static uint32_t hand_over(struct uw_node_state *s, struct uw_node_lane *from,
                          struct uw_node_lane *to, uint32_t most, bool asked)
{
    if (uw_pull_complete(&to->transfer)) {
        settle(s, to);
    }
    uint32_t n = uw_pull_give(&from->transfer, &to->transfer, most, asked, s->now_us);
    if (n != 0) {
        from->version = to->version = UW_NODE_VERSION_MIXED;
    }
    return n;
}

static void end_lane(struct uw_node_state *s, struct uw_node_lane *lane)
{
    if (lane->transfer.rate > 0.0f) {
        uw_node_lane_keep_rate(s, lane);
    }
    uw_pull_stop(&lane->transfer);
    lane->used = false;
}

/* Return the lane's missing chunks to the pull. */
static void drop(struct uw_node_state *s, struct uw_node_lane *lane)
{
    (void)hand_over(s, lane, &s->pull.first, UINT32_MAX, true);
    end_lane(s, lane);
}

static int check_config(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    bool random = c->schedule == NULL || c->schedule == &uw_peer_schedule_random;
    uint32_t slices_n = c->slices_n != 0 ? c->slices_n : 1u;
    if (c->mode != UW_NODE_GOSSIP || uw_node_pairs_up(c) || !random) {
        return UW_NODE_FAULT(fault, pull_peers,
                             "above 1 needs gossip with peers drawn at random, not in pairs");
    }
    if (c->pull_peers > UW_NODE_PULL_PEERS_MAX) {
        return UW_NODE_FAULT(fault, pull_peers, "needs 8 at most");
    }
    if (c->pull_peers * slices_n > UW_NODE_SLICES_MAX) {
        return UW_NODE_FAULT(fault, slices_n, "times pull_peers needs 32 at most");
    }
    return UW_OK;
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    uint32_t n = c->pull_peers - 1u;
    void *part[2];
    const size_t bytes[2] = {sizeof *s->further, n * sizeof *s->further->lane};
    int rc = uw_arena_take_each(arena, 2, bytes, part);
    bool measures = part[0] == NULL || part[1] == NULL;
    struct uw_node_lane spare;
    for (uint32_t i = 0; rc == UW_OK && i < n; i++) {
        struct uw_node_lane *lane = measures ? &spare : (struct uw_node_lane *)part[1] + i;
        *lane = (struct uw_node_lane){0};
        rc = uw_pull_place(&lane->transfer, arena, c->params->size_n, c->chunk_least_n,
                           s->gossip.config.slots_n / c->pull_peers);
        if (rc == UW_OK && uw_node_most_n(s, true) != 0) {
            rc = uw_pull_place_parts(&lane->transfer, arena);
        }
    }
    if (rc == UW_OK && !measures) {
        s->further = part[0];
        *s->further = (struct uw_node_further){.n = n, .lane = part[1]};
    }
    return rc;
}

static void stop(struct uw_node_state *s)
{
    struct uw_node_further *f = s->further;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->lane[i].used) {
            end_lane(s, &f->lane[i]);
        }
    }
    f->asked_n = 0;
}

/* The place of another usable peer for this round's chunks; 0: none. */
static uint32_t pick_further(struct uw_node_state *s)
{
    return uw_node_pick_any(s, s->pull.round, false, s->pull.first.transfer.chunk_n,
                            uw_node_pull_member(s));
}

static uint32_t choose(struct uw_node_state *s, uint32_t most)
{
    struct uw_node_further *f = s->further;
    uint32_t n = 0;
    for (; n < f->n && n < most; n++) {
        uint32_t at = pick_further(s);
        if (at == 0) {
            break;
        }
        f->lane[n].member = at;
        f->lane[n].member_id = s->membership.members[at].id;
        f->lane[n].used = true;
    }
    return n;
}

/* The share of the k-th of n peers. A round's chunks have a part for each configured peer: parts do
 * not depend on the peers in use. */
static struct uw_node_range share_of(const struct uw_node_range *all, uint32_t parts, uint32_t k,
                                     uint32_t n, uint32_t *slices)
{
    uint32_t from = parts * k / n, to = parts * (k + 1u) / n, rest = all->n % parts;
    uint32_t first = all->n / parts * from + uw_min_u32(from, rest);
    uint32_t last = all->n / parts * to + uw_min_u32(to, rest);
    *slices = 0;
    for (uint32_t i = from; i < to; i++) {
        *slices |= (uint32_t)1 << (all->at * parts + i);
    }
    return (struct uw_node_range){all->at, all->from + first, last - first};
}

static void began(struct uw_node_state *s, const struct uw_node_range *all)
{
    struct uw_node_further *f = s->further;
    struct uw_node_pull *p = &s->pull;
    uint32_t parts = f->n + 1u;
    stop(s);
    f->asked_n = choose(s, all->n - 1u);
    uint32_t n = f->asked_n + 1u;
    struct uw_node_range share = share_of(all, parts, 0, n, &p->first.slices);
    if (share.n != p->first.transfer.chunks) {
        uw_pull_only(&p->first.transfer, share.from, share.n);
    }
    for (uint32_t k = 1; k < n; k++) {
        struct uw_node_lane *lane = &f->lane[k - 1u];
        share = share_of(all, parts, k, n, &lane->slices);
        uw_node_lane_start(s, lane, lane->member, p->first.transfer.chunk_n,
                           p->first.transfer.coded);
        if (share.n != 0) {
            uw_pull_only(&lane->transfer, share.from, share.n);
        } else {
            end_lane(s, lane);
        }
    }
}

static uint32_t missing(const struct uw_pull *t)
{
    return t->chunks - t->have_chunks;
}

/* Time of n chunks at the measured rate; very long if none has arrived yet. */
static float takes_us(const struct uw_pull *t, uint32_t n)
{
    return (float)n / (t->rate > 0.0f ? t->rate : RATE_UNKNOWN);
}

/* A lane with a complete share takes over chunks of the lane that needs longest: half of those not
 * requested yet, else half of the requested ones, if its peer is faster; none of slices that were
 * mixed from its peer before. */
static bool help(struct uw_node_state *s, struct uw_node_lane *helper)
{
    struct uw_node_further *f = s->further;
    struct uw_node_lane *slowest = &s->pull.first;
    const struct uw_member *m = uw_node_lane_member(s, helper);
    settle(s, helper);
    for (uint32_t i = 0; i < f->n; i++) {
        struct uw_pull *t = &f->lane[i].transfer;
        if (f->lane[i].used && takes_us(t, missing(t)) >
                                   takes_us(&slowest->transfer, missing(&slowest->transfer))) {
            slowest = &f->lane[i];
        }
    }
    if (slowest == helper || helper->version == 0 || m == NULL ||
        uw_node_slices_known(slowest->slices, 0, uw_node_peer(s, m)) == helper->version) {
        return false;
    }
    const struct uw_pull *slow = &slowest->transfer, *quick = &helper->transfer;
    uint32_t all = missing(slow), new_n = all - slow->out_chunks;
    uint32_t least = slow->chunks / (f->n + 1u) / LEFT_SHARES + LEFT_LEAST;
    bool asked = new_n < least;
    uint32_t n = (asked ? all : new_n) / 2u;
    bool sooner = 2.0f * (takes_us(quick, n) + (float)quick->srtt_us) < takes_us(slow, all);
    return n != 0 && (!asked || sooner) && hand_over(s, slowest, helper, n, asked) != 0;
}

static bool over(struct uw_node_state *s)
{
    struct uw_node_further *f = s->further;
    bool all = true;
    for (uint32_t i = 0; i < f->n; i++) {
        all = all && !f->lane[i].used;
    }
    if (!all) {
        (void)help(s, &s->pull.first);
    }
    return all;
}

static bool take_over(struct uw_node_state *s, enum uw_node_why why)
{
    struct uw_node_further *f = s->further;
    struct uw_node_pull *p = &s->pull;
    uint32_t i = 0;
    for (; i < f->n && !f->lane[i].used; i++) {
    }
    if (i == f->n || !p->first.transfer.active) {
        return false;
    }
    struct uw_node_lane *lane = &f->lane[i];
    uw_node_event_pull(s, uw_node_pull_member(s), UW_NODE_PULL_MOVED, why);
    (void)hand_over(s, &p->first, lane, UINT32_MAX, true);
    struct uw_node_lane stopped = p->first;
    p->first = *lane;
    p->first.transfer.started_us = stopped.transfer.started_us;
    p->first.version = UW_NODE_VERSION_MIXED;
    p->first.slices = stopped.slices;
    p->paused_us = 0;
    *lane = stopped;
    uw_pull_stop(&lane->transfer);
    lane->used = false;
    return true;
}

/* Avoid a lane's peer for a while, and return its share. */
static void give_up(struct uw_node_state *s, struct uw_node_lane *lane, uint64_t avoid_us)
{
    struct uw_member *m = uw_node_lane_member(s, lane);
    struct uw_node_peer *peer = m != NULL ? uw_node_peer(s, m) : NULL;
    if (peer != NULL && peer->avoid_until_us < s->outer_us + avoid_us) {
        peer->avoid_until_us = s->outer_us + avoid_us;
    }
    drop(s, lane);
}

/* Pull this share from a new peer or not at all: other peers of this round have most often a mixed
 * version of it, too. */
static void stale(struct uw_node_state *s, struct uw_node_lane *lane)
{
    struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = uw_node_lane_member(s, lane);
    uint32_t at = p->passed < UW_NODE_PASSED_MOST ? pick_further(s) : 0;
    s->counters.pulls_stale++;
    uw_node_avoid(s, m, uw_node_stale_us(s, m));
    if (at == 0) {
        (void)uw_pull_give(&lane->transfer, NULL, UINT32_MAX, true, s->now_us);
        return;
    }
    p->passed++;
    uw_node_lane_move(s, lane, at);
}

static void nonfinite(struct uw_node_state *s, struct uw_node_lane *lane)
{
    struct uw_member *m = uw_node_lane_member(s, lane);
    uw_node_punish(s, m);
    uw_node_event_pull(s, m, UW_NODE_CHUNK_NONFINITE, UW_WHY_NONE);
    drop(s, lane);
}

static void refused(struct uw_node_state *s, struct uw_node_lane *lane, enum uw_node_why why)
{
    s->counters.pulls_refused++;
    uw_node_event_pull(s, uw_node_lane_member(s, lane), UW_NODE_PULL_REFUSED, why);
    give_up(s, lane, UW_NODE_AVOID_US / 4u);
}

/* Handle an outlier that the training thread has found; its sender is known by its identity. */
static void judge(struct uw_node_state *s)
{
    uint32_t id = s->further->asked_n != 0 ? uw_gossip_outlier_id(&s->gossip) : 0;
    struct uw_member *m = id != 0 ? uw_node_member(s, id) : NULL;
    if (m == NULL) {
        return;
    }
    struct uw_node_lane *lane = uw_node_lane_of(s, m);
    uw_node_punish(s, m);
    uw_node_event_pull(s, m, UW_NODE_CHUNK_OUTLIER, UW_WHY_NONE);
    if (lane != NULL) {
        drop(s, lane);
    } else if (m == uw_node_pull_member(s) && s->pull.first.transfer.active &&
               !take_over(s, UW_WHY_CHUNK)) {
        uw_node_pull_cut(s, UW_WHY_CHUNK);
    }
}

static void check(struct uw_node_state *s, struct uw_node_lane *lane)
{
    struct uw_pull *t = &lane->transfer;
    struct uw_member *m = uw_node_lane_member(s, lane);
    if (uw_pull_complete(t)) {
        if (!help(s, lane)) {
            end_lane(s, lane);
        }
        return;
    }
    if (uw_gossip_room(&s->gossip) == 0) {
        t->progress_us = s->now_us;     /* the ring is full */
    }
    uint64_t silent_us = s->now_us - t->progress_us;
    if (m == NULL || uw_member_is_gone(m) ||
        uw_membership_window(&s->membership, m, s->outer_us).from_us > s->outer_us) {
        drop(s, lane);
    } else if (silent_us >= uw_node_pull_silence_us(s, t, m) ||
               silent_us >= uw_node_pull_deadline_us(s) / 2u) {
        s->members->doubt(&s->membership, m, s->outer_us);
        give_up(s, lane, UW_NODE_AVOID_US);
    }
}

static void step(struct uw_node_state *s)
{
    struct uw_node_further *f = s->further;
    judge(s);
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->lane[i].used) {
            check(s, &f->lane[i]);
        }
        if (f->lane[i].used) {
            uw_node_pull_ask(s, &f->lane[i]);
        }
    }
}

const struct uw_node_lanes uw_node_lanes = {.setup = {check_config, place},
                                            .began = began,
                                            .step = step,
                                            .over = over,
                                            .take_over = take_over,
                                            .stale = stale,
                                            .nonfinite = nonfinite,
                                            .refused = refused,
                                            .stop = stop};

/* ---- slices ---- */

static int check_slices(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    if (c->slices_n <= UW_NODE_SLICES_MAX && c->mode == UW_NODE_GOSSIP && !uw_node_pairs_up(c)) {
        return UW_OK;
    }
    return UW_NODE_FAULT(fault, slices_n, "needs 1, or up to 32 in gossip without pairs");
}

static void pick_slice(struct uw_node_state *s, struct uw_node_range *range)
{
    struct uw_node_pull *p = &s->pull;
    uint32_t chunks = p->first.transfer.chunks;
    uint32_t slices_n = uw_min_u32(s->config.slices_n, chunks);
    if (slices_n < 2u) {
        return;
    }
    uint32_t k = uw_node_slice(s->membership.members[0].id, p->round, slices_n);
    uint32_t rest = chunks % slices_n;
    *range = (struct uw_node_range){k, chunks / slices_n * k + uw_min_u32(k, rest),
                                    chunks / slices_n + (k < rest)};
    uw_pull_only(&p->first.transfer, range->from, range->n);
    p->first.slices = (uint32_t)1 << k;
}

const struct uw_node_slices uw_node_slices = {{check_slices, NULL}, pick_slice};
