/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"

#include "node_direct_priv.h"
#include "base/bits.h"
#include "gossip/guard.h"
#include "wire/part.h"

#include "uwasa/fmath.h"

#include <string.h>

#define JUDGED_STEPS_LEAST 5u       /* of a round */
#define WARY_ROUNDS 64u             /* by sweep after a refusal */
#define SWEEPS_FIRST 8u             /* at the start */
#define AUDIT_ROUNDS 15u            /* at most, from one sweep to the next */
#define DIRECT_POLL_US 200u
#define DEAF_US 500000u             /* interval of counts */
#define LEAD_US 20000000u           /* a head that does not hear all gives way after so long, ... */
#define LEAD_AGAIN 3u               /* ... for so many times as long */

/* ---- members of the cell ---- */

bool uw_node_averages_too(const struct uw_member *m)
{
    return m->same_model && m->averaging->averages && uw_member_is_live(m) &&
           m->station != UW_LINK_STATION_NONE;
}

static bool in_scope(const struct uw_node_state *s, const struct uw_member *m,
                     enum uw_average_scope scope)
{
    return uw_node_averages_too(m) &&
           (scope == UW_AVERAGE_RUN
                ? uw_node_in_part(s, scope, m->id)
                : s->cell->name[0] != '\0' && strcmp(s->cell->name, m->averaging->cell) == 0);
}

/* The scope whose head a node reports: its cell, or the whole run. */
static enum uw_average_scope main_scope(const struct uw_node_state *s)
{
    return s->cell->name[0] != '\0' ? UW_AVERAGE_CELL : UW_AVERAGE_RUN;
}

uint32_t uw_node_cell_head(const struct uw_node_state *s)
{
    return s->cell->scopes[main_scope(s)].cell.head;
}

static void list_rows(struct uw_node_state *s, struct uw_node_scope *o)
{
    uint32_t n = 0;
    bool told = o->scope == main_scope(s);
    if (o->scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_rows(s);
        return;
    }
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (i > 0 && !in_scope(s, m, o->scope)) {
            continue;
        }
        uint32_t k = n++;
        for (; k > 0 && o->rows[k - 1u].id > m->id; k--) {
            o->rows[k] = o->rows[k - 1u];
        }
        o->rows[k] = (struct uw_cell_member){
            .id = m->id, .usable = i == 0 || m->state == UW_MEMBER_ALIVE,
            .deaf = i == 0 ? s->cell->deaf_n : m->averaging->deaf,
            .head = i > 0 && told ? m->averaging->head : UW_CELL_NOBODY,
            .weight = i == 0 ? s->config.head_weight : m->averaging->head_weight};
    }
    uw_cell_members(&o->cell, o->rows, n);
}

static void tell_versions(struct uw_node_state *s)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        uint32_t protocol = m->averaging->protocol;
        if (uw_member_is_live(m) && protocol != 0 && protocol != UW_AVERAGES_PROTOCOL) {
            uw_node_report_version(s, m);
        }
    }
}

/* Write up to `most` identities of members that others hear, but not this node. Returns how many
 * there are. */
static uint32_t list_deaf(const struct uw_node_state *s, uint32_t *ids, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (uw_membership_is_deaf(&s->membership, m, s->outer_us)) {
            if (n < most) {
                ids[n] = m->id;
            }
            n++;
        }
    }
    return n;
}

/* Where nobody hears all, those whom one head does not hear meet others under the next one. Returns
 * whether this node gives way now. */
static bool gives_way(struct uw_node_state *s, bool hears_all)
{
    struct uw_node_cell *c = s->cell;
    bool leads = !hears_all && uw_node_own(s, uw_node_cell_head(s));
    if (s->now_us < c->way_us || !leads) {
        c->led_us = 0;
    } else if (c->led_us == 0) {
        c->led_us = s->now_us;
    } else if (s->now_us - c->led_us >= LEAD_US) {
        c->way_us = s->now_us + LEAD_AGAIN * LEAD_US;
    }
    return !hears_all && s->now_us < c->way_us;
}

/* Others elect their head by this number. Returns the time of the next count. */
static uint64_t count_deaf(struct uw_node_state *s)
{
    if (s->now_us >= s->cell->deaf_us) {
        uint32_t ids[UW_CELL_DEAF_MAX], n = list_deaf(s, NULL, 0);
        n = uw_max_u32(n, uw_cell_deaf(&s->cell->scopes[main_scope(s)].cell, s->now_us, ids));
        n += gives_way(s, n == 0);
        s->cell->stale = s->cell->stale || n != s->cell->deaf_n;
        s->cell->deaf_n = n;
        s->cell->deaf_us = s->now_us + DEAF_US;
    }
    return s->cell->deaf_us;
}

/* ---- callbacks of the cell ---- */

static uint32_t deaf(void *arg, uint32_t ids[UW_CELL_DEAF_MAX])
{
    const struct uw_node_scope *o = arg;
    return uw_min_u32(list_deaf(o->node, ids, UW_CELL_DEAF_MAX), UW_CELL_DEAF_MAX);
}

static void send_message(void *arg, uint32_t to, const struct uw_cell_message *m)
{
    struct uw_node_scope *o = arg;
    struct uw_node_state *s = o->node;
    const struct uw_member *member = uw_node_member(s, to);
    if (member == NULL || member->station == UW_LINK_STATION_NONE) {
        return;
    }
    uwasa_Cell cell = {.run = s->run, .model = s->model, .scope = (uint32_t)o->scope,
                      .act = (uint32_t)m->act, .group = m->group, .round = m->round,
                      .status = (uint32_t)m->status, .kind = (uint32_t)m->kind, .step = m->step,
                      .waits_for = m->waits_for, .culprit = m->culprit,
                      .incarnation = m->incarnation, .rms = m->rms, .asks = m->asks,
                      .chunk_n = m->chunk_n, .stream_n = m->stream_n,
                      .ids_count = (pb_size_t)m->ids_n, .deaf_count = (pb_size_t)m->deaf_n,
                      .hints_count = m->hints[2] > 0.0f ? UW_CELL_HINTS : 0};
    uwasa_Cell *w = &cell;
    memcpy(w->hints, m->hints, sizeof m->hints);
    memcpy(w->ids, m->ids, m->ids_n * sizeof m->ids[0]);
    memcpy(w->deaf, m->deaf, m->deaf_n * sizeof m->deaf[0]);
    if (o->scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_fill(s, to, w);
    }
    if (s->cell->direct != NULL) {
        s->config.parts->directs->send(o, member->station, m, w);
        return;
    }
    (void)uw_node_send(s, member->station, UW_WIRE_CELL, &uw_form_cell, w);
}

/* The vector that a scope averages. */
static float *vector_of(const struct uw_node_scope *o, uint32_t *size_n)
{
    const struct uw_node_config *c = &o->node->config;
    bool pair = o->scope == UW_AVERAGE_PAIR;
    *size_n = pair ? 2u * c->params->size_n : c->params->size_n;
    return pair ? c->spare : c->params->x;
}

/* Overlapped gradients have no scratch for the whole vector; a streamed sweep needs none. */
bool uw_node_cell_has_room(const struct uw_node_scope *o, enum uw_allreduce_kind kind,
                           bool streamed)
{
    const struct uw_allreduce_config *a = &o->node->cell->allreduce.config;
    bool sweep = kind == UW_ALLREDUCE_SWEEP;
    uint32_t room_n = sweep ? a->scratch_n : uw_max_u32(o->node->config.scratch_n, a->small_n);
    uint32_t size_n;
    (void)vector_of(o, &size_n);
    return (kind != UW_ALLREDUCE_DOUBLING && !sweep) ||
           (!o->node->gradients->on && (streamed || size_n <= room_n));
}

static enum uw_allreduce_kind choose(void *arg, struct uw_cell_message *start)
{
    struct uw_node_scope *o = arg;
    struct uw_node_state *s = o->node;
    uint32_t ranks_n = start->ids_n;
    enum uw_allreduce_kind kind;
    bool streams = start->stream_n != 0;
    bool sweep = start->kind == UW_ALLREDUCE_SWEEP &&
                 uw_node_cell_has_room(o, start->kind, streams);
    start->direct = s->cell->direct != NULL && !sweep &&
                    s->config.parts->directs->choose(o, start);
    if (sweep) {
        (void)uw_node_cost_choose(s, ranks_n, start->hints);
        kind = UW_ALLREDUCE_SWEEP;
    } else if (s->gradients->on && s->cell->algorithm == UW_ALLREDUCE_KINDS_N) {
        kind = (ranks_n & (ranks_n - 1u)) == 0 ? UW_ALLREDUCE_HALVING : UW_ALLREDUCE_RING;
    } else {
        kind = uw_node_cost_choose(s, ranks_n, start->hints);
        kind = uw_node_cell_has_room(o, kind, false) ? kind : UW_ALLREDUCE_HALVING;
    }
    start->stream_n = uw_allreduce_segment_n(kind, start->ids_n, start->stream_n);
    return kind;
}

/* ---- the guard of exact averages ---- */

/* Where cells pull from each other, an average may rightly be far away. In few steps a node moves
 * by the noise of its minibatches: then honest nodes seem to move against each other. */
static bool is_guarded(const struct uw_node_scope *o)
{
    const struct uw_node_state *s = o->node;
    return s->gossip.guard != NULL && s->config.guard_averages && !s->gradients->on &&
           s->cell->direct == NULL && s->cell->algorithm == UW_ALLREDUCE_KINDS_N &&
           o->scope != UW_AVERAGE_PAIR && uw_load(&s->gossip.period) >= JUDGED_STEPS_LEAST &&
           !uw_node_bridge_knows_any(s, true);
}

/* Does this node want a round by sweep, in which it judges each rank? Not the last one of a run, if
 * nobody was refused: after a sweep the nodes' values may differ by a rounding. */
static bool is_wary(const struct uw_node_scope *o)
{
    const struct uw_node_cell *c = o->node->cell;
    bool audits = o->scope == UW_AVERAGE_CELL &&
                  (c->sweeps_n < SWEEPS_FIRST || c->unswept_n >= AUDIT_ROUNDS);
    return is_guarded(o) && (c->wary_n != 0 || audits);
}

static float judge(void *arg, uint32_t rank, uint32_t at, const float *floats, const float *x,
                   uint32_t n)
{
    struct uw_node_state *s = arg;
    const struct uw_guarded c = {.offset_n = at, .count_n = n, .rank = rank,
                                 .x = floats, .own = x};
    float share = s->gossip.guard->share(s->gossip.guard, &s->gossip, &c);
    s->cell->far_n[rank] += share > 0.0f ? 0 : n;
    return share > 0.0f ? share : 0.0f;
}

/* A guarded round begins. Returns whether it is judged. */
static bool meet(const struct uw_node_scope *o)
{
    struct uw_node_state *s = o->node;
    memset(s->cell->far_n, 0, sizeof s->cell->far_n);
    return s->gossip.guard->averages(s->gossip.guard, &s->gossip, o->cell.ranks, o->cell.ranks_n,
                                     o->cell.rank, o->cell.unequal);
}

/* Is the result of a round that is no sweep as near as averages usually are? */
static bool is_near(const struct uw_node_scope *o)
{
    struct uw_node_state *s = o->node;
    struct uw_guard *guard = s->gossip.guard;
    if (!s->cell->judges || o->cell.kind == UW_ALLREDUCE_SWEEP) {
        return true;
    }
    const struct uw_params *p = s->config.params;
    const struct uw_guarded c = {.count_n = p->size_n, .rank = UW_GUARDED_RESULT,
                                 .x = p->x, .own = uw_average_own(&s->cell->average)};
    bool near = guard->share(guard, &s->gossip, &c) > 0.0f;
    (void)guard->ends(guard, &s->gossip, !near);
    return near;
}

/* Report the ranks that were refused in a sweep, and learn. */
static bool learn_near(const struct uw_node_scope *o)
{
    struct uw_node_state *s = o->node;
    bool any = false;
    for (uint32_t i = 0; i < o->cell.ranks_n; i++) {
        if (s->cell->far_n[i] > s->config.params->size_n / 2u) {
            any = true;
            s->counters.refused_outlier++;
            uw_node_report_far(s, o->cell.ranks[i]);
        }
    }
    (void)s->gossip.guard->ends(s->gossip.guard, &s->gossip, false);
    return any;
}

/* A guarded round was committed. */
static void learn(const struct uw_node_scope *o)
{
    struct uw_node_cell *c = o->node->cell;
    bool sweep = o->cell.kind == UW_ALLREDUCE_SWEEP;
    bool any = sweep && c->judges && learn_near(o);
    c->wary_n = any ? WARY_ROUNDS : c->wary_n - (sweep && c->wary_n != 0 ? 1u : 0u);
    c->sweeps_n += sweep && c->sweeps_n < SWEEPS_FIRST ? 1u : 0u;
    c->unswept_n = sweep ? 0 : c->unswept_n + (o->cell.unequal ? 0 : 1u);
    o->node->gossip.guard->averaged(o->node->gossip.guard, &o->node->gossip);
}

static void refuse(struct uw_node_scope *o, bool far)
{
    struct uw_node_state *s = o->node;
    if (far) {
        s->cell->wary_n = WARY_ROUNDS;
        s->counters.refused_outlier++;
        uw_node_report_far(s, UW_CELL_NOBODY);
    }
    uw_cell_refuse(&o->cell, far, s->now_us);
}

static void begin(void *arg)
{
    struct uw_node_scope *o = arg;
    struct uw_node_state *s = o->node;
    struct uw_allreduce_round r = {
        .group = o->cell.group, .round = o->cell.round, .kind = o->cell.kind, .average = true,
        .ranks = o->cell.ranks_n, .rank = o->cell.rank, .chunk_n = o->cell.chunk_n,
        .segment_n = o->cell.stream_n};
    r.x = vector_of(o, &r.size_n);
    if (o->cell.lent) {
        s->cell->called = true;
        if (!o->cell.direct) {
            uw_allreduce_expect(&s->cell->allreduce, &r);
        }
        uw_average_call(&s->cell->average, UW_AVERAGE_CALLED);
        return;
    }
    struct uw_allreduce_way ways[UW_CELL_RANKS_MAX];
    s->cell->guarded = is_guarded(o);
    s->cell->judges = s->cell->guarded && meet(o);
    r.judge = s->cell->judges && r.kind == UW_ALLREDUCE_SWEEP ? judge : NULL;
    if (o->scope == UW_AVERAGE_CELL) {
        uw_node_bridge_add(s, r.ranks);
    } else if (o->scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_began(s);
    }
    if (o->cell.direct) {
        s->cost->predicted_s = 0.0f;
        s->config.parts->directs->begin(o);
        return;
    }
    uw_node_cost_begin(s, o, &r, ways);
    uw_allreduce_begin(&s->cell->allreduce, &r, s->now_us);
}

static void give_back(struct uw_node_scope *o, enum uw_average_end how)
{
    struct uw_node_state *s = o->node;
    s->cell->asked = NULL;
    uw_node_near_back(s, how == UW_AVERAGE_DONE && o->cell.ranks_n > 1u);
    uw_allreduce_release(&s->cell->allreduce);
    if (o->scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_ended(s);
    }
    s->cell->average.unequal = o->cell.unequal;
    uw_average_ended(&s->cell->average, how);
    s->bridge->due = s->bridge->inbox != NULL;     /* the next pull from another cell */
}

/* Training has the parameters, and the round does not begin, or was one of this node alone. */
static void leave_lent(struct uw_node_scope *o, enum uw_average_turn turn)
{
    o->node->cell->called = false;
    uw_average_call(&o->node->cell->average, turn);
}

static void decided(void *arg, bool commit, uint32_t culprit)
{
    struct uw_node_scope *o = arg;
    struct uw_node_state *s = o->node;
    if (o->cell.lent) {
        leave_lent(o, commit ? UW_AVERAGE_WHEN_DUE : UW_AVERAGE_UNCALLED);
        return;
    }
    bool alone = o->cell.ranks_n == 1, pair = o->scope == UW_AVERAGE_PAIR;
    if (o->cell.direct) {
        s->config.parts->directs->decided(o, commit, culprit);
    } else {
        uw_node_cost_keep(s, &o->cell);
    }
    if (pair) {
        uw_node_pairs_decided(s, commit);
    }
    if (commit && !alone && s->cell->guarded) {
        learn(o);
    } else if (commit && !alone && !pair && s->gossip.guard != NULL) {
        s->gossip.guard->begins(s->gossip.guard, &s->gossip);
    }
    if (commit && alone && o->scope == UW_AVERAGE_CELL) {
        uw_node_bridge_add(s, 1);
    }
    bool moved = s->bridge->state == UW_BRIDGE_ADDED;
    bool publishes = !alone || moved || (s->config.spare != NULL && !pair);
    uw_node_bridge_committed(s, commit && publishes);
    if (!commit) {
        if (!o->cell.direct) {
            uw_node_cost_aborted(s);
            uw_allreduce_stop(&s->cell->allreduce);
        }
        if (!pair) {
            uw_average_restore(&s->cell->average);
        }
        return;
    }
    if (!s->gradients->on && !o->cell.direct) {
        uw_node_cost_committed(s, o);   /* else the link is busy now */
    }
    uw_node_gradients_begin(s, o);
    give_back(o, !alone || moved ? UW_AVERAGE_DONE : UW_AVERAGE_ALONE);
}

static void give_up(void *arg)
{
    struct uw_node_scope *o = arg;
    if (o->cell.lent) {
        leave_lent(o, UW_AVERAGE_WHEN_DUE);
    } else {
        give_back(o, UW_AVERAGE_NONE);
    }
}

static void lend(void *arg)
{
    struct uw_node_state *s = ((struct uw_node_scope *)arg)->node;
    s->cell->asked = NULL;
    uw_node_near_lent(s);
    uw_average_lend(&s->cell->average);
}

static uint32_t progress(void *arg, uint32_t *waits_for)
{
    const struct uw_node_scope *o = arg;
    *waits_for = UW_RANK_NONE;
    return o->cell.lent     ? 0
           : o->cell.direct ? o->node->config.parts->directs->progress(o->node)
                            : uw_allreduce_progress(&o->node->cell->allreduce, waits_for);
}

static void report(void *arg, const struct uw_cell_news *news)
{
    struct uw_node_scope *o = arg;
    if (news->kind == UW_CELL_NEWS_HEAD && o->scope == main_scope(o->node)) {
        uw_membership_hurry(&o->node->membership, o->node->outer_us);   /* the new head waits */
    }
    if (news->kind == UW_CELL_NEWS_APART) {
        uw_node_gradients_left_out(o->node);
    }
    if (news->kind == UW_CELL_NEWS_UNABLE) {
        uw_node_report_unable(o->node);
    } else if (news->kind == UW_CELL_NEWS_FULL) {
        o->node->cell->divide_us = 0;   /* it may be divided now */
    } else if (o->scope == UW_AVERAGE_PAIR && news->kind != UW_CELL_NEWS_OUTLIER) {
        uw_node_report_pair(o->node, news);
    } else {
        uw_node_report_cell(o->node, o, news);
    }
}

/* ---- set-up and the step ---- */

int uw_node_cell_place(struct uw_node_state *s, struct uw_arena *arena,
                       enum uw_average_scope scope, uint32_t ranks)
{
    const struct uw_node_config *c = &s->config;
    const struct uw_allreduce_config *a = &s->cell->allreduce.config;
    struct uw_node_scope *o = &s->cell->scopes[scope];
    bool pair = scope == UW_AVERAGE_PAIR;
    bool lends = scope == UW_AVERAGE_CELL && !c->together && c->gradients == NULL;
    const struct uw_cell_config cell = {
        .self = uw_name_id(c->name), .incarnation = c->incarnation, .series = (uint32_t)scope,
        .ranks_max = pair ? 2u : ranks, .patient = c->together && !pair,
        .lasting = c->gradients != NULL && scope == UW_AVERAGE_CELL,
        .first_n = pair ? 2u : scope == UW_AVERAGE_CELL ? c->cell_first_n : 0,
        .stream_n = c->link->reliable ? uw_allreduce_ahead_n(&s->cell->allreduce) : 0,
        .gather_us = scope == UW_AVERAGE_RUN ? c->agree_us : c->gather_us,
        .round_us = c->round_us, .tries_max = pair ? 1u : 0, .chunk_n = a->chunk_n,
        .is_last = scope == UW_AVERAGE_RUN, .arg = o, .send = send_message,
        .choose = choose, .begin = begin, .decided = decided, .give_up = give_up,
        .lend = lends ? lend : NULL,
        .progress = progress, .report = report, .deaf = pair ? NULL : deaf};
    o->node = s;
    o->scope = scope;
    int rc = uw_cell_place(&o->cell, arena, &cell);
    void *rows = NULL;
    rc = rc < 0 ? rc : uw_arena_take(arena, uw_size_mul(pair ? 2u : c->members_max,
                                                        sizeof *o->rows), &rows);
    o->rows = rows;
    return rc;
}

static bool vector_is_finite(const struct uw_node_scope *o)
{
    uint32_t n;
    const float *x = vector_of(o, &n);
    return uw_all_finite(x, n);
}

/* Training hands over parameters that were lent to it, and the cell still waits for its round or is
 * in one. For another scope the cell goes on without. Returns whether they are for the cell. */
static bool take_lent(struct uw_node_state *s, const struct uw_node_scope *o, bool finite)
{
    struct uw_node_scope *cell = &s->cell->scopes[UW_AVERAGE_CELL];
    if (!cell->cell.lent || cell->cell.state == UW_CELL_IDLE) {
        return false;
    }
    bool called = s->cell->called;
    s->cell->called = false;
    if (o != cell) {
        uw_cell_withdraw(&cell->cell, s->now_us);
        return false;
    }
    uw_cell_hold(&cell->cell, s->now_us);
    if (!finite) {
        uw_cell_withdraw(&cell->cell, s->now_us);
    } else if (called) {
        begin(cell);
    }
    return true;
}

/* Accept parameters that the training thread has handed over. */
static void take_up(struct uw_node_state *s)
{
    enum uw_average_scope scope;
    if (uw_average_next_round(&s->cell->average, &scope) == 0) {
        return;
    }
    struct uw_node_scope *o = &s->cell->scopes[scope];
    const float rms = uw_gossip_rms(&s->gossip);
    s->cell->asked = o;
    uw_node_near_asked(s);
    uw_node_bridge_keep(s);
    /* The rms is finite if all parameters are. */
    bool finite = s->cell->average.measured ? uw_all_finite(&rms, 1) : vector_is_finite(o);
    s->counters.refused_nonfinite += finite ? 0 : 1u;
    if (take_lent(s, o, finite)) {
        return;
    }
    if (!finite) {
        give_up(o);
    } else if (scope == UW_AVERAGE_CELL && uw_node_gradients_waits(s)) {
        give_up(o);
    } else if (scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_ask(s);
    } else {
        uw_node_pairs_finish(s);
        o->cell.wary = is_wary(o);
        uw_cell_ask(&o->cell, rms, s->now_us);
    }
    if (scope == UW_AVERAGE_RUN) {
        uw_cell_leave(&s->cell->scopes[UW_AVERAGE_CELL].cell, s->now_us);
        uw_node_gradients_end(s);
    }
}

void uw_node_cell_look(struct uw_node_state *s)
{
    struct uw_node_scope *o = s->cell->asked;
    if (o == NULL || o->cell.state != UW_CELL_IN_ROUND) {
        return;
    }
    const struct uw_allreduce *a = &s->cell->allreduce;
    int rc = o->cell.direct                     ? s->config.parts->directs->look(o)
             : a->state == UW_ALLREDUCE_DONE    ? UW_OK
             : a->state == UW_ALLREDUCE_FAILED  ? UW_ERR_CORRUPT
                                                : UW_ERR_AGAIN;
    if (rc == UW_ERR_AGAIN) {
        return;
    }
    if (!o->cell.direct) {
        s->cost->took_us = s->now_us - s->cost->began_us;
    }
    bool finite = rc < 0 || (o->cell.direct ? vector_is_finite(o) : uw_allreduce_is_finite(a));
    bool near = rc < 0 || !finite || is_near(o);
    if (rc == UW_OK && finite && near) {
        uw_cell_prepared(&o->cell, s->now_us);
    } else {
        s->counters.refused_nonfinite += !finite;
        refuse(o, !near);
    }
}

/* A device does not wake this thread when it is done: poll. */
static uint64_t look_again_us(const struct uw_node_state *s)
{
    const struct uw_node_scope *o = s->cell->asked;
    bool direct = o != NULL && o->cell.state == UW_CELL_IN_ROUND && o->cell.direct;
    return direct ? s->now_us + DIRECT_POLL_US : UINT64_MAX;
}

/* The link may have found a narrower path: the parts of a round become smaller. */
static void fit(struct uw_node_state *s, struct uw_cell *c)
{
    c->config.chunk_n = (uw_node_mtu(s) - UW_PART_HEAD_BYTES) / 4u;
    if (!c->direct && c->chunk_n > c->config.chunk_n) {
        uw_cell_refuse(c, true, s->now_us);
    }
}

uint64_t uw_node_cell_step(struct uw_node_state *s)
{
    uint64_t next_us = uw_min_u64(count_deaf(s), uw_node_near_step(s));
    next_us = uw_min_u64(next_us, uw_node_divide(s));
    if (s->cell->stale) {
        s->cell->stale = false;
        tell_versions(s);
        for (uint32_t i = 0; i < UW_NODE_SCOPES; i++) {
            list_rows(s, &s->cell->scopes[i]);
        }
    }
    take_up(s);
    if (s->cell->asked != NULL && uw_average_recalled(&s->cell->average)) {
        uw_cell_withdraw(&s->cell->asked->cell, s->now_us);
    }
    next_us = uw_min_u64(next_us, uw_node_pairs_step(s));
    for (uint32_t i = 0; i < UW_NODE_SCOPES; i++) {
        struct uw_cell *cell = &s->cell->scopes[i].cell;
        fit(s, cell);
        next_us = uw_min_u64(next_us, uw_cell_run(cell, s->now_us));
    }
    next_us = uw_min_u64(next_us, uw_node_cost_run(s));
    next_us = uw_min_u64(next_us, uw_allreduce_run(&s->cell->allreduce, s->now_us));
    uw_node_cell_look(s);
    next_us = uw_min_u64(next_us, look_again_us(s));
    return uw_min_u64(next_us, uw_node_gradients_step(s));
}
