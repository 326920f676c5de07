/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange between cells: the head of a cell pulls from the heads of other cells.
 *
 * The pulled model must reach the whole cell without an additional average. So the head stores
 *
 *     d = w (s_peer - s)         s: its cell's last average, s_peer: the other cell's
 *
 * until the cell's next average, and contributes x + c d to it, c the number of ranks: the average
 * then moves by d, a variance down by half at most (uw_mix_carried). The head's own training never
 * sees c d. If the round is aborted, d stays for the next one. So a node that may be head needs one
 * more vector. w is 1/2; for a smaller cell it is n_peer / (n + n_peer), by the numbers of nodes:
 * a straggler does not hold a large cell back. A rule with momentum over averages amplifies d, so w
 * is divided by that gain (uw_mix_gain), except for running statistics, to which the rule does not
 * apply.
 *
 * A cell of one adds d to its x as soon as d is complete. If a head falls silent, the pull goes on
 * with another one: d then has parts of both, each with the weight of its cell.
 *
 * Training does not wait for it: a pull may take as many rounds as the link needs. When no other
 * cell can be reached, the cell continues alone. Events report that, and contact with one again. */
#include "node_averages.h"

#include "gossip/guard.h"

#include <math.h>
#include <string.h>

#define ALONE_US 5000000u           /* no contact with another cell for so long: alone */

int uw_node_bridge_place(struct uw_node_state *s, struct uw_arena *arena, uint32_t ranks)
{
    const struct uw_node_config *c = &s->config;
    void *inbox = NULL;
    bool cells = c->mode == UW_NODE_HIERARCHICAL || c->mode == UW_NODE_AUTO ||
                 (c->mode == UW_NODE_ALLREDUCE && c->members_max > ranks);
    if (!cells || c->head_weight == 0) {
        return UW_OK;
    }
    int rc = uw_arena_take(arena, uw_size_mul(c->params->size_n, sizeof *s->bridge->inbox), &inbox);
    s->bridge->inbox = inbox;
    return rc < 0 || !c->guard ? rc : c->parts->guards->place_follower(s, arena, &s->bridge->guard);
}

/* The inbox is zero from the first chunk on: who never leads a cell does not touch its memory. */
static void open_inbox(struct uw_node_state *s)
{
    if (!s->bridge->open) {
        s->bridge->open = true;
        memset(s->bridge->inbox, 0, s->config.params->size_n * sizeof *s->bridge->inbox);
    }
}

/* ---- the peer ---- */

static bool reachable(const struct uw_member *m)
{
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->station != UW_LINK_STATION_NONE &&
           m->averaging->averages && m->averaging->cell[0] != '\0';
}

static bool of_another_cell(const struct uw_node_state *s, const struct uw_member *m)
{
    return strcmp(m->averaging->cell, s->cell->name) != 0;
}

/* Is a member the head of its cell, as far as this node knows? */
static bool leads(const struct uw_node_state *s, const struct uw_member *m)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *o = &s->membership.members[i];
        const uwasa_Averaging *its = o->averaging, *own = m->averaging;
        bool better = its->head_weight > own->head_weight ||
                      (its->head_weight == own->head_weight && o->id < m->id);
        if (o != m && reachable(o) && better && strcmp(its->cell, own->cell) == 0) {
            return false;
        }
    }
    return true;
}

/* The place of another cell's head, other than `but`, whose link carries chunks of chunk_n; 0: none
 * now. */
static uint32_t pick_head(struct uw_node_state *s, uint32_t chunk_n, const struct uw_member *but)
{
    uint32_t n = 0, place = 0;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (m != but && reachable(m) && of_another_cell(s, m) && m->progress.version != 0 &&
            !m->progress.newcomer && s->outer_us >= uw_node_peer(s, m)->avoid_until_us &&
            uw_node_carries(s, uw_node_peer(s, m), chunk_n) && leads(s, m) &&
            uw_rng_below(&s->rng, ++n) == 0) {
            place = i;
        }
    }
    return place;
}

static uint32_t nodes_in(const struct uw_node_state *s, const char *cell)
{
    uint32_t n = strcmp(s->cell->name, cell) == 0 ? 1u : 0;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        n += reachable(m) && strcmp(m->averaging->cell, cell) == 0 ? 1u : 0;
    }
    return n;
}

bool uw_node_bridge_knows_any(const struct uw_node_state *s, bool live)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool counts = live ? m->same_model && uw_member_is_live(m)
                           : m->state != UW_MEMBER_LEFT && m->state != UW_MEMBER_UNKNOWN;
        if (counts && m->averaging->cell[0] != '\0' && of_another_cell(s, m)) {
            return true;
        }
    }
    return false;
}

static bool is_head(const struct uw_node_state *s)
{
    const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
    return c->head == c->config.self;
}

static void go_alone(struct uw_node_state *s)
{
    struct uw_node_bridge *b = s->bridge;
    b->contact = UW_BRIDGE_ALONE;
    b->alone_us = b->heard_us;
    uw_node_report_bridge(s, UW_NODE_CELL_ALONE, s->now_us - b->heard_us);
}

static uint32_t shown(const struct uw_node_state *s)
{
    return (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_acquire);
}

/* Set w for the cell of the member at this place. */
static void weigh(struct uw_node_state *s, uint32_t place)
{
    const struct uw_member *m = &s->membership.members[place];
    s->bridge->weight = uw_mix_cell_weight(s->gossip.config.constants.weight,
                                           nodes_in(s, s->cell->name),
                                           nodes_in(s, m->averaging->cell));
}

uint32_t uw_node_bridge_another(struct uw_node_state *s, uint32_t chunk_n,
                                const struct uw_member *but)
{
    uint32_t place = pick_head(s, chunk_n, but);
    if (place != 0) {
        weigh(s, place);
    }
    return place;
}

uint32_t uw_node_bridge_take(struct uw_node_state *s)
{
    struct uw_node_bridge *b = s->bridge;
    bool newcomer = atomic_load_explicit(&s->gossip.newcomer, memory_order_acquire);
    if (!b->due || newcomer || !is_head(s)) {
        return 0;
    }
    b->heard_us = b->heard_us != 0 ? b->heard_us : s->now_us;
    uint32_t place = pick_head(s, 1, NULL);
    if (place != 0 && uw_gossip_oldest(&s->gossip) != NULL) {
        return 0;       /* d of the last pull is not added yet */
    }
    if (place != 0) {
        b->due = b->whole = false;
        weigh(s, place);
    } else if (b->contact != UW_BRIDGE_ALONE && s->now_us - b->heard_us > ALONE_US &&
               uw_node_bridge_knows_any(s, false)) {
        go_alone(s);
    }
    return place;
}

void uw_node_bridge_ended(struct uw_node_state *s, enum uw_gossip_end how)
{
    struct uw_node_bridge *b = s->bridge;
    bool complete = how == UW_GOSSIP_COMPLETE;
    if (how == UW_GOSSIP_STALE) {
        b->heard_us = s->now_us;        /* contact with that cell */
    }
    uint64_t silent_us = s->now_us - b->heard_us;
    b->whole = complete;
    b->ended = true;
    if (complete) {
        silent_us = b->contact == UW_BRIDGE_ALONE ? s->now_us - b->alone_us : silent_us;
        bool met = b->contact == UW_BRIDGE_MET;
        b->contact = UW_BRIDGE_MET;
        b->heard_us = s->now_us;
        if (!met) {
            uw_node_report_bridge(s, UW_NODE_CELLS_MEET, silent_us);
        }
        return;
    }
    b->due = true;
    if (b->contact != UW_BRIDGE_ALONE && silent_us > ALONE_US) {
        go_alone(s);
    }
}

/* ---- chunks ---- */

/* All chunks of a pull were judged, or it is refused. */
static void end_judging(struct uw_node_state *s, bool refused)
{
    struct uw_node_bridge *b = s->bridge;
    if (b->guard != NULL) {
        (void)b->guard->ends(b->guard, &s->gossip, refused);
    }
    b->ended = false;
}

/* Drop the pull, and what it has brought since the last round. */
static int refuse(struct uw_node_state *s)
{
    struct uw_node_bridge *b = s->bridge;
    while (uw_gossip_oldest(&s->gossip) != NULL) {
        uw_gossip_pop(&s->gossip);
    }
    if (b->state == UW_BRIDGE_HELD) {
        memset(b->inbox, 0, s->config.params->size_n * sizeof *b->inbox);
        b->state = UW_BRIDGE_EMPTY;
    }
    end_judging(s, true);
    return UW_ERR_DENIED;
}

/* Handle a chunk of another cell's head.
 * Returns UW_OK, UW_ERR_AGAIN (not now), UW_ERR_DENIED (too far from this node's parameters). */
static int take_chunk(struct uw_node_state *s, const struct uw_gossip_slot *peer)
{
    const struct uw_gossip_config *c = &s->gossip.config;
    float *own = s->chunk;
    struct uw_snapshot_info info;
    if (uw_snapshot_read(s->config.snapshot, peer->offset_n, peer->count_n, own, &info) < 0) {
        return UW_ERR_AGAIN;
    }
    float share = uw_gossip_share(&s->gossip, s->bridge->guard, peer, own, s->bridge->weight);
    if (share < 0.0f) {
        return refuse(s);
    }
    for (uint32_t i = 0; i < peer->count_n; i++) {
        own[i] = peer->x[i] - own[i];
    }
    open_inbox(s);
    uw_mix_from_cell(c->rule, &c->constants, share * s->bridge->weight, c->params, peer->offset_n,
                     peer->count_n, own);
    memcpy(s->bridge->inbox + peer->offset_n, own, peer->count_n * sizeof *own);
    s->bridge->state = UW_BRIDGE_HELD;
    s->bridge->heard_us = s->now_us;
    return UW_OK;
}

/* If training has added the offered d, drop it. */
static void look_at_offer(struct uw_node_state *s)
{
    struct uw_node_bridge *b = s->bridge;
    if (b->state == UW_BRIDGE_OFFERED && !uw_average_offers(&s->cell->average)) {
        b->state = UW_BRIDGE_EMPTY;
    }
}

void uw_node_bridge_keep(struct uw_node_state *s)
{
    if (s->bridge->guard != NULL) {
        s->bridge->guard->follows(s->bridge->guard, s->gossip.guard, &s->gossip);
    }
    look_at_offer(s);
    if (s->bridge->state == UW_BRIDGE_OFFERED) {
        bool open = uw_average_keep(&s->cell->average);
        s->bridge->state = open ? UW_BRIDGE_HELD : UW_BRIDGE_EMPTY;
    }
}

static void offer_alone(struct uw_node_state *s)
{
    struct uw_node_bridge *b = s->bridge;
    if (b->state == UW_BRIDGE_HELD && b->whole && nodes_in(s, s->cell->name) == 1u) {
        b->state = UW_BRIDGE_OFFERED;
        uw_average_offer(&s->cell->average);
    }
}

/* Chunks are compared with the last average. It is not available while the cell averages, and until
 * the training thread has published the result. */
int uw_node_bridge_step(struct uw_node_state *s)
{
    int rc = UW_OK;
    if (s->bridge->inbox == NULL ||
        atomic_load_explicit(&s->gossip.newcomer, memory_order_acquire)) {
        return rc;
    }
    s->bridge->holds = s->bridge->holds && s->bridge->version == shown(s);
    look_at_offer(s);
    while (s->cell->asked == NULL && !s->bridge->holds &&
           s->bridge->state != UW_BRIDGE_OFFERED && rc == UW_OK) {
        const struct uw_gossip_slot *slot = uw_gossip_oldest(&s->gossip);
        if (slot == NULL) {
            offer_alone(s);
            break;
        }
        rc = take_chunk(s, slot);
        if (rc == UW_OK) {
            uw_gossip_pop(&s->gossip);
        }
    }
    if (s->bridge->ended && uw_gossip_oldest(&s->gossip) == NULL) {
        end_judging(s, false);
    }
    return rc == UW_ERR_AGAIN ? UW_OK : rc;
}

void uw_node_bridge_add(struct uw_node_state *s, uint32_t ranks_n)
{
    if (s->bridge->state != UW_BRIDGE_HELD) {
        return;
    }
    uw_mix_carried((float)ranks_n, s->config.params, 0, s->config.params->size_n,
                   s->bridge->inbox);
    s->bridge->state = UW_BRIDGE_ADDED;
}

void uw_node_bridge_committed(struct uw_node_state *s, bool commit)
{
    if (commit && s->bridge->state == UW_BRIDGE_ADDED) {
        memset(s->bridge->inbox, 0, s->config.params->size_n * sizeof *s->bridge->inbox);
        s->bridge->state = UW_BRIDGE_EMPTY;
    } else if (s->bridge->state == UW_BRIDGE_ADDED) {
        s->bridge->state = UW_BRIDGE_HELD;
    }
    s->bridge->holds = commit;
    s->bridge->version = shown(s);
}
