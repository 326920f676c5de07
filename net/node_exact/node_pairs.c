/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"

#include "base/bits.h"
#include "cell/cell_priv.h"

#include <string.h>

#define READY_REPEAT_US 100000u
#define WAIT_MIN_US 200000u
#define HALF_MIN 2u
#define HALF_PERCENT 1u
#define PAIR_N 2u

static struct uw_node_scope *scope(struct uw_node_state *s)
{
    return &s->cell->scopes[UW_AVERAGE_PAIR];
}

static bool waits(struct uw_node_state *s)
{
    return s->cell->asked == scope(s) && scope(s)->cell.state == UW_CELL_WAITING;
}

int uw_node_pairs_place(struct uw_node_state *s, struct uw_arena *arena)
{
    void *ends = NULL;
    if (s->config.rule->over != UW_MIX_OVER_PAIRS) {
        return UW_OK;
    }
    int rc = uw_arena_take(arena, uw_size_mul(s->config.members_max, sizeof *s->pairs->ends),
                           &ends);
    s->pairs->ends = ends;
    s->pairs->state = UW_PAIRS_TRACKING;
    s->pairs->turn = 1;
    return rc;
}

/* ---- ends of rounds ---- */

static struct uw_pair_end *find_end(struct uw_node_state *s, uint32_t id)
{
    struct uw_pair_end *e = s->pairs->ends, *end = e + s->pairs->ends_n;
    while (e < end && e->id != id) {
        e++;
    }
    return e < end ? e : NULL;
}

/* The entry of a member; a new one may replace that of a member no longer in the table. */
static struct uw_pair_end *end_of(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_pairs *p = s->pairs;
    struct uw_pair_end *e = find_end(s, id);
    for (uint32_t i = 0; e == NULL && p->ends_n == s->config.members_max && i < p->ends_n; i++) {
        e = uw_node_member(s, p->ends[i].id) == NULL ? &p->ends[i] : NULL;
    }
    if (e == NULL && p->ends_n < s->config.members_max) {
        e = &p->ends[p->ends_n++];
    }
    return e;
}

static void retreat(struct uw_node_state *s, const struct uw_member *from)
{
    s->pairs->state = UW_PAIRS_RETREATED;
    s->config.schedule = &uw_peer_schedule_random;
    uw_average_retreat(&s->cell->average);
    uw_node_report_retreat(s, from);
    uw_membership_hurry(&s->membership, s->outer_us);
    if (waits(s)) {
        uw_cell_withdraw(&scope(s)->cell, s->now_us);
    }
}

static void count_round(struct uw_node_state *s)
{
    struct uw_node_pairs *p = s->pairs;
    bool *half = &p->half[p->rounds_n++ % UW_PAIRS_WINDOW];
    p->half_n -= *half ? 1u : 0u;
    *half = false;
}

/* Count a half-open round among the last rounds, although it is older. */
static void count_half(struct uw_node_state *s)
{
    struct uw_node_pairs *p = s->pairs;
    uint32_t n = uw_min_u32(p->rounds_n, UW_PAIRS_WINDOW), k = 0;
    while (k < n && p->half[(p->rounds_n - 1u - k) % UW_PAIRS_WINDOW]) {
        k++;
    }
    if (k < n) {
        p->half[(p->rounds_n - 1u - k) % UW_PAIRS_WINDOW] = true;
        p->half_n++;
    }
    s->counters.pairs_half++;
    if (p->state == UW_PAIRS_TRACKING && p->half_n >= HALF_MIN &&
        100u * p->half_n > HALF_PERCENT * n) {
        retreat(s, NULL);
    }
}

/* Compare a member's report of the last common round with this node's. */
static void compare(struct uw_node_state *s, uint32_t id, uint32_t group, uint32_t round,
                    enum uw_cell_status status)
{
    struct uw_pair_end *e = find_end(s, id);
    bool decided = status == UW_CELL_COMMITTED || status == UW_CELL_ABORTED;
    if (e != NULL && decided && !e->compared && e->group == group && e->round == round) {
        e->compared = true;
        if (e->committed != (status == UW_CELL_COMMITTED)) {
            count_half(s);
        }
    }
}

void uw_node_pairs_decided(struct uw_node_state *s, bool commit)
{
    const struct uw_cell *c = &scope(s)->cell;
    struct uw_pair_end *e = c->ranks_n == PAIR_N ? end_of(s, s->pairs->partner) : NULL;
    if (e != NULL) {
        *e = (struct uw_pair_end){.id = s->pairs->partner, .group = c->group, .round = c->round,
                                  .committed = commit};
        count_round(s);
        if (commit) {
            uw_deadline_add(&s->pairs->took, s->now_us - c->since_us);
        }
    }
    s->cell->average.weight = s->pairs->weight;
}

void uw_node_pairs_ended(struct uw_node_state *s)
{
    s->pairs->partner = UW_CELL_NOBODY;
    s->pairs->turn++;
}

/* ---- partners ---- */

static bool tracks(const struct uw_member *m)
{
    return m->same_model && m->averaging->pairs == (uint32_t)UW_PAIRS_TRACKING &&
           m->state != UW_MEMBER_DEAD && m->state != UW_MEMBER_LEFT &&
           m->state != UW_MEMBER_UNKNOWN && m->station != UW_LINK_STATION_NONE;
}

/* List the members that use pairs, by identity, this node included. */
static void list(struct uw_node_state *s)
{
    struct uw_node_candidates *c = &s->candidates;
    const struct uw_member *members = s->membership.members;
    c->n = 0;
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        if (i > 0 && !tracks(&members[i])) {
            continue;
        }
        c->usable[uw_node_list(s, i)] = members[i].state == UW_MEMBER_ALIVE;
    }
}

void uw_node_pairs_rows(struct uw_node_state *s)
{
    struct uw_node_scope *o = scope(s);
    const struct uw_member *m = uw_node_member(s, s->pairs->partner);
    uint32_t self = s->membership.members[0].id;
    uint32_t me = m != NULL && m->id < self ? 1u : 0u;
    o->rows[me] = (struct uw_cell_member){.id = self, .usable = true};
    if (m != NULL) {
        o->rows[1u - me] = (struct uw_cell_member){.id = m->id,
                                                   .usable = m->state == UW_MEMBER_ALIVE};
    }
    uw_cell_members(&o->cell, o->rows, m != NULL ? PAIR_N : 1u);
}

/* Choose the partner of this round of the schedule. Returns whether there is one. */
static bool choose(struct uw_node_state *s)
{
    const struct uw_node_candidates *c = &s->candidates;
    struct uw_node_pairs *p = s->pairs;
    list(s);
    struct uw_peer_view view = {.n = c->n, .usable = c->usable, .round = p->turn, .seed = s->run};
    while (c->place[view.self] != 0) {
        view.self++;
    }
    struct uw_peer_choice choice = s->config.schedule->pick(&view, &s->rng);
    bool somebody = p->state == UW_PAIRS_TRACKING && choice.at < c->n;
    p->partner = somebody ? s->membership.members[c->place[choice.at]].id : UW_CELL_NOBODY;
    p->weight = choice.weight;
    p->since_us = p->repeat_us = s->now_us;
    if (somebody) {
        uw_node_pairs_rows(s);
        const struct uw_cell *cell = &scope(s)->cell;
        uw_cell_regroup(&scope(s)->cell, cell->members, cell->members_n, s->now_us);
    }
    return somebody;
}

void uw_node_pairs_finish(struct uw_node_state *s)
{
    if (s->pairs->state == UW_PAIRS_TRACKING) {
        s->pairs->state = UW_PAIRS_NONE;
        uw_membership_hurry(&s->membership, s->outer_us);
    }
}

void uw_node_pairs_ask(struct uw_node_state *s)
{
    if (s->pairs->state == UW_PAIRS_NONE) {
        s->pairs->state = UW_PAIRS_TRACKING;
    }
    s->pairs->asked_us = s->now_us;
    if (choose(s)) {
        uw_cell_ask(&scope(s)->cell, (float)uw_gossip_rms(&s->gossip), s->now_us);
    } else {
        scope(s)->cell.config.give_up(scope(s));
    }
}

/* A member is in a later round of the schedule. */
static void catch_up(struct uw_node_state *s, uint32_t turn)
{
    struct uw_node_pairs *p = s->pairs;
    bool waiting = waits(s);
    if (turn <= p->turn || (s->cell->asked == scope(s) && !waiting)) {
        return;
    }
    p->turn = turn;
    if (waiting && !choose(s)) {
        uw_cell_withdraw(&scope(s)->cell, s->now_us);
    }
}

/* ---- messages ---- */

void uw_node_pairs_fill(struct uw_node_state *s, uint32_t to, uwasa_Cell *w)
{
    w->turn = s->pairs->turn;
    if (w->act == UW_CELL_START) {
        memcpy(&w->waits_for, &s->pairs->weight, sizeof w->waits_for);
    }
    const struct uw_pair_end *e = find_end(s, to);
    if ((w->act == UW_CELL_READY || w->act == UW_CELL_BUSY) && e != NULL) {
        w->group = e->group;
        w->round = e->round;
        w->step = (uint32_t)(e->committed ? UW_CELL_COMMITTED : UW_CELL_ABORTED);
    }
}

static void send_act(struct uw_node_state *s, uint32_t to, enum uw_cell_act act)
{
    const struct uw_cell_message m = {.act = act, .incarnation = s->config.incarnation};
    scope(s)->cell.config.send(scope(s), to, &m);
}

/* Answer a message about a past round with that member. Returns whether it was one. */
static bool answer(struct uw_node_state *s, uint32_t from, const struct uw_cell_message *m)
{
    const struct uw_pair_end *e = find_end(s, from);
    bool asks = m->act == UW_CELL_START || m->act == UW_CELL_POLL ||
                (m->act == UW_CELL_STATE && m->status != UW_CELL_COMMITTED &&
                 m->status != UW_CELL_ABORTED);
    if (e == NULL || e->group != m->group || e->round != m->round || !asks) {
        return false;
    }
    const struct uw_cell_message state = {
        .act = UW_CELL_STATE, .group = m->group, .round = m->round,
        .status = e->committed ? UW_CELL_COMMITTED : UW_CELL_ABORTED};
    scope(s)->cell.config.send(scope(s), from, &state);
    return true;
}

static void take_ready(struct uw_node_state *s, uint32_t from, const struct uw_cell_message *m,
                       uint32_t turn)
{
    struct uw_node_pairs *p = s->pairs;
    catch_up(s, turn);
    bool mine = s->cell->asked == scope(s) && p->partner == from && turn >= p->turn;
    if (mine) {
        uw_cell_receive(&scope(s)->cell, from, m, s->now_us);
    } else if (m->status != UW_CELL_ABORTED &&
               (turn < p->turn || s->cell->asked != NULL || p->state != UW_PAIRS_TRACKING)) {
        send_act(s, from, UW_CELL_BUSY);
    }
}

static void take_busy(struct uw_node_state *s, uint32_t from, uint32_t turn)
{
    bool rest = waits(s) && s->pairs->partner == from && turn == s->pairs->turn;
    catch_up(s, turn);
    if (rest && waits(s)) {
        uw_cell_withdraw(&scope(s)->cell, s->now_us);
    }
}

/* Use the head's weight: nodes that know other members compute another one. */
static void take_weight(struct uw_node_state *s, uint32_t bits)
{
    float weight;
    memcpy(&weight, &bits, sizeof weight);
    if (weight >= 0.0f && weight < 1.0f) {
        s->pairs->weight = weight;
    }
}

void uw_node_pairs_message(struct uw_node_state *s, uint32_t from, const struct uw_cell_message *m,
                           uint32_t turn)
{
    struct uw_cell *c = &scope(s)->cell;
    if (s->pairs->ends == NULL) {
        return;
    }
    if (m->act == UW_CELL_READY || m->act == UW_CELL_BUSY) {
        compare(s, from, m->group, m->round, (enum uw_cell_status)m->step);
    }
    if (m->act == UW_CELL_READY) {
        take_ready(s, from, m, turn);
    } else if (m->act == UW_CELL_BUSY) {
        take_busy(s, from, turn);
    } else if (!answer(s, from, m)) {
        if (m->act == UW_CELL_STATE) {
            compare(s, from, m->group, m->round, m->status);
        }
        if (m->act == UW_CELL_START && (s->pairs->partner != from || !waits(s))) {
            if (s->pairs->partner != from || c->group != m->group) {
                uw_cell_note(c, m->group, m->round, false);
                uw_cell_send_state(c, from, m->group, m->round);
            }
            return;
        }
        if (m->act == UW_CELL_START) {
            take_weight(s, m->waits_for);
        }
        uw_cell_receive(c, from, m, s->now_us);
    }
}

/* ---- the step ---- */

/* Longest wait for the partner, which may still be in another round. */
static uint64_t patience_us(const struct uw_node_state *s)
{
    uint64_t most_us = s->config.gather_us;
    return uw_deadline_us(&s->pairs->waited, 3, 8, WAIT_MIN_US, most_us) +
           uw_deadline_us(&s->pairs->took, 2, 8, 0, most_us);
}

void uw_node_pairs_began(struct uw_node_state *s)
{
    uw_deadline_add(&s->pairs->waited, s->now_us - s->pairs->since_us);
}

/* Give up pairs if a member has. */
static void look_around(struct uw_node_state *s)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (s->pairs->state == UW_PAIRS_TRACKING && m->same_model &&
            m->averaging->pairs == (uint32_t)UW_PAIRS_RETREATED) {
            retreat(s, m);
        }
    }
}

uint64_t uw_node_pairs_step(struct uw_node_state *s)
{
    struct uw_node_pairs *p = s->pairs;
    if (p->ends == NULL) {
        return UINT64_MAX;
    }
    look_around(s);
    if (!waits(s)) {
        return UINT64_MAX;
    }
    const struct uw_member *m = uw_node_member(s, p->partner);
    uint64_t until_us = uw_min_u64(p->since_us + patience_us(s),
                                   p->asked_us + s->config.gather_us);
    if (m == NULL || m->state != UW_MEMBER_ALIVE) {
        uw_cell_withdraw(&scope(s)->cell, s->now_us);
        return s->now_us;
    }
    if (s->now_us >= until_us) {
        uw_deadline_add(&p->waited, 2u * (s->now_us - p->since_us));
        uw_cell_report(&scope(s)->cell, UW_CELL_NEWS_LATE, p->partner);
        uw_cell_withdraw(&scope(s)->cell, s->now_us);
        return s->now_us;
    }
    if (uw_node_own(s, scope(s)->cell.head) && s->now_us >= p->repeat_us) {
        p->repeat_us = s->now_us + READY_REPEAT_US;
        send_act(s, p->partner, UW_CELL_READY);
    }
    return p->repeat_us > s->now_us && p->repeat_us < until_us ? p->repeat_us : until_us;
}
