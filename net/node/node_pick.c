/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include "base/bits.h"

#define ADOPT_ROUNDS 2u             /* a peer with so many mixed rounds is ahead */
#define JOIN_GRACE_US 3000000u      /* a newcomer waits so long for a peer before it starts */

static bool can_be_pulled_from(const struct uw_node_state *s, const struct uw_member *m,
                               bool newcomer, bool further, uint32_t chunk_n)
{
    const struct uw_node_peer *peer = uw_node_peer(s, m);
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->progress.version != 0 &&
           m->station != UW_LINK_STATION_NONE &&
           s->outer_us >= peer->avoid_until_us &&
           (!m->progress.newcomer || newcomer) && uw_node_lane_of(s, m) == NULL &&
           uw_node_carries(s, peer, chunk_n) &&
           (!further || (m->progress.rounds >= ADOPT_ROUNDS &&
                         m->progress.step / 2u >= s->config.trained_steps));
}

/* Does it still have its initial model? */
static bool is_untrained(const struct uw_member *m)
{
    return m->progress.step == 0 && m->progress.rounds == 0;
}

uint32_t uw_node_list(struct uw_node_state *s, uint32_t i)
{
    struct uw_node_candidates *c = &s->candidates;
    const struct uw_member *members = s->membership.members;
    uint32_t k = c->n++;
    for (; k > 0 && members[c->place[k - 1u]].id > members[i].id; k--) {
        c->place[k] = c->place[k - 1u];
        c->usable[k] = c->usable[k - 1u];
        c->weight[k] = c->weight[k - 1u];
    }
    c->place[k] = (uint16_t)i;
    return k;
}

/* List the members of the run by identity, this one included, without those long gone. Usable are
 * peers other than `but` whose link carries chunks of chunk_n; with `further` only those with
 * a model that a newcomer would take over. Returns the number of usable ones. */
static uint32_t list_members(struct uw_node_state *s, bool newcomer, bool further,
                             uint32_t chunk_n, const struct uw_member *but)
{
    struct uw_node_candidates *c = &s->candidates;
    uint32_t usable_n = 0;
    c->n = 0;
    c->weighted = false;
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool usable = i > 0 && m != but && can_be_pulled_from(s, m, newcomer, further, chunk_n);
        if (i > 0 && (uw_member_is_gone(m) || !m->same_model)) {
            continue;
        }
        uint32_t k = uw_node_list(s, i);
        c->usable[k] = usable;
        uint32_t percent = s->config.batteries_alike ? 0 : m->progress.battery_percent;
        c->weight[k] = is_untrained(m) ? UW_PEER_WEIGHT_LEAST : uw_peer_weight(percent);
        c->weighted = c->weighted || (usable && c->weight[k] != UW_PEER_WEIGHT_FULL);
        usable_n += usable;
    }
    const struct uw_node_sleeps *sleeps = s->config.parts->sleeps;
    return sleeps != NULL ? sleeps->prefer_awake(s, usable_n) : usable_n;
}

struct uw_member *uw_node_member(struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        if (s->membership.members[i].id == id) {
            return &s->membership.members[i];
        }
    }
    return NULL;
}

bool uw_node_is_awake(const struct uw_node_state *s, const struct uw_member *m)
{
    const struct uw_window w = uw_membership_window(&s->membership, m, s->outer_us);
    uint64_t half_us = m->progress.awake_ms * UINT64_C(500);
    return w.from_us <= s->outer_us &&
           w.to_us - s->outer_us >= uw_deadline_us(&s->pull.took, 1, 0, 0, half_us);
}

bool uw_node_any_awake(struct uw_node_state *s)
{
    bool newcomer = uw_gossip_is_newcomer(&s->gossip);
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (can_be_pulled_from(s, m, newcomer, false, s->pull.first.transfer.chunk_n) &&
            uw_node_is_awake(s, m)) {
            return true;
        }
    }
    return false;
}

/* As uw_peer_view.id. */
static uint32_t id_of(const void *arg, uint32_t at)
{
    const struct uw_node_state *s = arg;
    return s->membership.members[s->candidates.place[at]].id;
}

uint32_t uw_node_pick_listed(struct uw_node_state *s, const struct uw_peer_schedule *schedule,
                             uint32_t round, float *weight)
{
    const struct uw_node_candidates *c = &s->candidates;
    struct uw_peer_view view = {.n = c->n, .usable = c->usable, .round = round,
                                .seed = s->run, .weight = c->weighted ? c->weight : NULL,
                                .graph = s->config.graph, .id = id_of, .arg = s};
    while (c->place[view.self] != 0) {
        view.self++;
    }
    struct uw_peer_choice choice = schedule->pick(&view, &s->rng);
    *weight = choice.weight;
    return choice.at < c->n ? c->place[choice.at] : 0;
}

uint32_t uw_node_pick_any(struct uw_node_state *s, uint32_t round, bool newcomer,
                          uint32_t chunk_n, const struct uw_member *but)
{
    float none;
    return list_members(s, newcomer, false, chunk_n, but) != 0
               ? uw_node_pick_listed(s, &uw_peer_schedule_random, round, &none)
               : 0;
}

uint32_t uw_node_pick(struct uw_node_state *s, uint32_t round, bool *adopt, float *weight)
{
    bool newcomer = uw_gossip_is_newcomer(&s->gossip);
    bool further = newcomer && list_members(s, true, true, 1, NULL) != 0;
    bool adopt_only = s->gossip.config.adopt_only;
    uint32_t n = further ? 1 : list_members(s, newcomer, false, 1, NULL);
    *adopt = further;
    *weight = 0.0f;
    if (n != 0 && (further || !adopt_only)) {
        const struct uw_node_frames *frames = s->config.parts->frames;
        if (frames != NULL && frames->waits_turn(s, n)) {
            return UW_NODE_LATER;
        }
        return uw_node_pick_listed(s, further ? &uw_peer_schedule_random : s->config.schedule,
                                   round, weight);
    }
    bool early = n == 0 && newcomer && s->config.seeds_n != 0 &&
                 uw_membership_alive(&s->membership) == 0 &&
                 s->now_us - s->first_us < JOIN_GRACE_US;
    return early ? UW_NODE_LATER : 0;
}

void uw_node_pick_slice(struct uw_node_state *s)
{
    struct uw_node_pull *p = &s->pull;
    struct uw_node_range range = {.n = p->first.transfer.chunks};
    p->first.slices = UINT32_MAX;
    if (p->what_for != UW_PULL_TO_MIX ||
        uw_gossip_is_newcomer(&s->gossip)) {
        return;
    }
    if (s->config.slices_n > 1u) {
        s->config.parts->slices->pick(s, &range);
    }
    if (s->further != NULL) {
        s->config.parts->lanes->began(s, &range);
    }
}
