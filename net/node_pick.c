/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#define ADOPT_ROUNDS 2u             /* a peer with so many mixed rounds is further along */
#define JOIN_GRACE_US 3000000u      /* a newcomer looks this long for somebody before it starts */

static bool can_be_pulled_from(const struct uw_node_state *s, const struct uw_member *m,
                               bool newcomer, bool further, uint32_t chunk_n)
{
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->progress.version != 0 &&
           m->station != UW_LINK_STATION_NONE && s->now_us >= m->avoid_until_us &&
           (!m->progress.newcomer || newcomer) &&
           uw_node_carries(s, m, chunk_n) &&
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

uint32_t uw_node_pick_any(struct uw_node_state *s, uint32_t round, bool newcomer,
                          uint32_t chunk_n)
{
    float none;
    return list_members(s, newcomer, false, chunk_n) != 0
               ? pick(s, &uw_peer_schedule_random, round, &none)
               : 0;
}

uint32_t uw_node_pick(struct uw_node_state *s, uint32_t round, bool *adopt, float *weight)
{
    bool newcomer = atomic_load_explicit(&s->gossip.newcomer, memory_order_relaxed);
    bool further = newcomer && list_members(s, true, true, 1) != 0;
    bool adopt_only = s->gossip.config.adopt_only;
    uint32_t n = further ? 1 : list_members(s, newcomer, false, 1);
    *adopt = further;
    *weight = 0.0f;
    if (n != 0 && (further || !adopt_only)) {
        return pick(s, further ? &uw_peer_schedule_random : s->config.schedule, round, weight);
    }
    bool early = n == 0 && newcomer && s->config.seeds_n != 0 &&
                 uw_membership_alive(&s->membership) == 0 &&
                 s->now_us - s->first_us < JOIN_GRACE_US;
    return early ? UW_NODE_LATER : 0;
}
