/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/node_gradients.h"

#include "node_averages.h"
#include "node_direct.h"
#include "cell/cell_priv.h"
#include "wire/part.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_CHUNKS 128u          /* on their way to one rank of a link that loses messages */
#define FRAGMENT_N 65536u           /* where 64 chunks would be more */
#define HASH_STEPS 100u             /* between two looks whether all are equal */
#define TELL_AGAIN_US 20000u

static uint32_t look(const atomic_uint_least32_t *number)
{
    return (uint32_t)atomic_load_explicit(number, memory_order_acquire);
}

static uint32_t own_id(const struct uw_node_state *s)
{
    return s->membership.members[0].id;
}

/* ---- set-up ---- */

/* Nodes average their gradients only with those who cut them alike. */
static void name_cell(struct uw_node_state *s, uint32_t chunk_n)
{
    const struct uw_node_gradients_config *c = s->config.gradients;
    const uint8_t reliable = s->config.link->reliable;
    uint64_t hash = uw_hash64(UW_HASH64_START, c->bucket_n, c->buckets_n * sizeof *c->bucket_n);
    hash = uw_hash64(hash, &c->tag, sizeof c->tag);
    hash = uw_hash64(hash, &chunk_n, sizeof chunk_n);
    hash = uw_hash64(hash, &reliable, 1);
    snprintf(s->cell->name, sizeof s->cell->name, "*%08lx",
             (unsigned long)((hash ^ hash >> 32) & 0xffffffffu));
}

static int send_part(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct uw_node_state *s = arg;
    return uw_node_send_part(s, s->gradients->stations[rank], part);
}

static void trace(void *arg, uint32_t bucket, uint32_t fragment, bool end, uint64_t now_us)
{
    const struct uw_node_state *s = arg;
    const struct uw_node_gradients_config *c = s->config.gradients;
    c->trace(c->arg, bucket, fragment, end, now_us + s->slept_us - s->clock_us);
}

/* ---- between devices ---- */

static int add_all(void *arg)
{
    struct uw_node_state *s = arg;
    struct uw_node_gradients *g = s->gradients;
    for (uint32_t i = 0; i < g->overlap.config.buckets_n; i++) {
        g->parts[i].x = g->overlap.buckets[i].x;
    }
    return s->config.parts->directs->add(s, g->parts, g->overlap.config.buckets_n);
}

static int look_at_all(void *arg)
{
    struct uw_node_state *s = arg;
    return s->config.parts->directs->look_added(s);
}

static void drop_all(void *arg)
{
    struct uw_node_state *s = arg;
    s->config.parts->directs->drop_added(s);
}

static int place_parts(struct uw_node_state *s, struct uw_arena *arena)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_node_gradients_config *c = s->config.gradients;
    void *parts = NULL;
    if (s->config.direct == NULL) {
        return UW_OK;
    }
    int rc = uw_arena_take(arena, uw_size_mul(c->buckets_n, sizeof *g->parts), &parts);
    g->parts = parts;
    for (uint32_t i = 0; i < c->buckets_n && parts != NULL; i++) {
        g->parts[i] = (struct uw_node_direct_part){.size_n = c->bucket_n[i]};
    }
    g->whole = (struct uw_overlap_whole){.begin = add_all, .poll = look_at_all, .stop = drop_all,
                                         .arg = s};
    return rc;
}

int uw_node_gradients_place(struct uw_node_state *s, struct uw_arena *arena)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_node_gradients_config *c = s->config.gradients;
    if (c == NULL) {
        return UW_OK;
    }
    uint32_t ranks = s->cell->allreduce.config.ranks_max;
    const struct uw_overlap_config overlap = {
        .kind = UW_ALLREDUCE_RING, .bucket_n = c->bucket_n, .buckets_n = c->buckets_n,
        .ranks_max = ranks, .chunk_n = s->cell->allreduce.config.chunk_n,
        .fragment_n = FRAGMENT_N,
        .window_chunks = s->config.link->reliable ? 0 : WINDOW_CHUNKS,
        .reliable = s->config.link->reliable, .send = send_part,
        .trace = c->trace != NULL ? trace : NULL, .arg = s};
    name_cell(s, overlap.chunk_n);
    int rc = uw_overlap_place(&g->overlap, arena, &overlap);
    rc = rc < 0 ? rc : uw_overlap_gate_place(&g->gate, arena, &g->overlap);
    rc = rc < 0 ? rc : place_parts(s, arena);
    atomic_init(&g->begun, 0);
    atomic_init(&g->broken, 0);
    atomic_init(&g->recalled, 0);
    atomic_init(&g->alone, 0);
    atomic_init(&g->hash, 0);
    atomic_init(&g->hash_step, 0);
    g->on = true;
    s->cell->average.pace = UW_AVERAGE_NOW;
    return rc;
}

/* ---- a group begins ---- */

static void find_stations(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    for (uint32_t rank = 0; rank < g->ranks_n; rank++) {
        g->stations[rank] = UW_LINK_STATION_NONE;
        for (uint32_t i = 1; i < s->membership.members_n; i++) {
            const struct uw_member *m = &s->membership.members[i];
            g->stations[rank] = m->id == g->ranks[rank] ? m->station : g->stations[rank];
        }
    }
    g->look_us = s->now_us + 100000u;
}

/* Equal on all ranks, and no other group's. */
static uint32_t number_of(uint32_t group, uint32_t round)
{
    uint32_t x = group ^ round * 0x9e3779b1u;
    x = (x ^ x >> 16) * 0x7feb352du;
    return x ^ x >> 15;
}

void uw_node_gradients_begin(struct uw_node_state *s, const struct uw_node_scope *o)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell *c = &o->cell;
    if (!g->on || o->scope != UW_AVERAGE_CELL || c->ranks_n < 2) {
        return;
    }
    struct uw_overlap_group group = {.group = number_of(c->group, c->round), .ranks = c->ranks_n,
                                     .rank = c->rank,
                                     .whole = c->direct ? &g->whole : NULL};
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool ranked = uw_cell_ranks(c, m->id);
        group.rtt_us = ranked && m->srtt_us > group.rtt_us ? m->srtt_us : group.rtt_us;
    }
    memcpy(g->ranks, c->ranks, c->ranks_n * sizeof c->ranks[0]);
    g->waits = c->direct ? 0 : g->waits;
    memset(g->hash_at, 0, sizeof g->hash_at);
    g->ranks_n = c->ranks_n;
    g->rank = c->rank;
    g->group = group.group;
    g->began_us = g->moved_us = g->step_us = s->now_us;
    g->leave_us = 0;
    g->asked = UW_CELL_NOBODY;
    g->knocked_us = 0;
    g->told_step = (uint32_t)atomic_load_explicit(&g->hash_step, memory_order_acquire);
    g->in_step = false;
    g->active = true;
    find_stations(s);
    uw_overlap_use(&g->overlap, c->kind);
    uw_overlap_begin(&g->overlap, &group, s->now_us);
    atomic_store_explicit(&g->begun, look(&g->begun) + 1u, memory_order_release);
    uw_node_tell_gradients(s, UW_NODE_GRADIENTS);
}

/* ---- and is given up ---- */

void uw_node_gradients_send(struct uw_node_state *s, uint32_t to,
                            const struct uw_cell_message *m)
{
    struct uw_node_scope *o = &s->cell->scopes[UW_AVERAGE_CELL];
    o->cell.config.send(o, to, m);
}

void uw_node_gradients_tell(struct uw_node_state *s, uint32_t to, uint32_t group,
                            enum uw_gradients_why why, uint32_t culprit)
{
    const struct uw_cell_message m = {
        .act = (enum uw_cell_act)UW_GRADIENTS_BREAK, .group = group, .culprit = culprit,
        .status = (enum uw_cell_status)why};
    uw_node_gradients_send(s, to, &m);
}

void uw_node_gradients_break(struct uw_node_state *s, enum uw_gradients_why why, uint32_t culprit)
{
    struct uw_node_gradients *g = s->gradients;
    if (!g->active) {
        return;
    }
    g->active = false;
    g->why = why;
    g->culprit = culprit;
    g->past[g->past_n++ % UW_GRADIENTS_PAST] = g->group;
    g->past_n = g->past_n < 2u * UW_GRADIENTS_PAST ? g->past_n : UW_GRADIENTS_PAST;
    uw_overlap_stop(&g->overlap);
    if (g->overlap.group.whole != NULL &&
        (why == UW_GRADIENTS_DEVICE || why == UW_GRADIENTS_DIFFERS)) {
        s->config.parts->directs->failed(s, culprit == own_id(s));
    }
    atomic_store_explicit(&g->broken, look(&g->begun), memory_order_release);
    if (why < UW_GRADIENTS_DIFFERS) {
        uw_node_gradients_blame(s, culprit);
    }
    for (uint32_t i = 0; i < g->ranks_n; i++) {
        if (i != g->rank) {
            uw_node_gradients_tell(s, g->ranks[i], g->group, why, culprit);
        }
    }
    uw_node_tell_gradients(s, UW_NODE_GRADIENTS_CUT);
}

void uw_node_gradients_gone(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_gradients *g = s->gradients;
    for (uint32_t i = 0; g->active && i < g->ranks_n; i++) {
        if (g->ranks[i] == id) {
            uw_node_gradients_break(s, UW_GRADIENTS_GONE, id);
        }
    }
}

void uw_node_gradients_end(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (g->active && g->leave_us == 0) {
        g->leave_us = s->now_us + 3u * g->overlap.patience_us;
    }
}

/* ---- what comes in ---- */

static bool is_past(const struct uw_node_gradients *g, uint32_t group)
{
    bool past = false;
    for (uint32_t i = 0; i < UW_GRADIENTS_PAST && i < g->past_n; i++) {
        past = past || g->past[i] == group;
    }
    return past;
}

static uint32_t rank_of(const struct uw_node_gradients *g, uint32_t id)
{
    uint32_t rank = 0;
    while (rank < g->ranks_n && g->ranks[rank] != id) {
        rank++;
    }
    return rank;
}

void uw_node_gradients_part(struct uw_node_state *s, const struct uw_member *from,
                            const struct uw_part *part)
{
    struct uw_node_gradients *g = s->gradients;
    if (!g->on) {
        return;
    }
    if (g->active && part->group == g->group) {
        uint32_t rank = rank_of(g, from->id);
        if (rank < g->ranks_n) {
            uw_overlap_take(&g->overlap, rank, part, s->now_us);
        }
    } else if (is_past(g, part->group) && s->now_us >= g->told_us) {
        g->told_us = s->now_us + TELL_AGAIN_US;
        uw_node_gradients_tell(s, from->id, part->group, g->why, g->culprit);
    }
}

void uw_node_gradients_message(struct uw_node_state *s, const struct uw_member *from,
                               const struct uw_cell_message *m)
{
    struct uw_node_gradients *g = s->gradients;
    bool ours = g->active && m->group == g->group && rank_of(g, from->id) < g->ranks_n;
    if (!g->on) {
        return;
    }
    switch ((enum uw_gradients_act)m->act) {
    case UW_GRADIENTS_BREAK:
        if (m->group == g->group && (uint32_t)m->status < UW_GRADIENTS_WHYS_N) {
            uw_node_gradients_break(s, (enum uw_gradients_why)m->status, m->culprit);
        }
        break;
    case UW_GRADIENTS_ASK:
        if (ours) {
            uw_node_gradients_answer(s, from->id);
        } else if (!g->active || m->group != g->group) {
            uw_node_gradients_tell(s, from->id, m->group, UW_GRADIENTS_GONE, own_id(s));
        }
        break;
    case UW_GRADIENTS_WAITS:
        if (ours) {
            uw_node_gradients_hunt(s, from->id, m->waits_for);
        }
        break;
    case UW_GRADIENTS_HASH:
        if (ours) {
            uw_node_gradients_compare(s, rank_of(g, from->id), m->step, m->culprit);
        }
        break;
    case UW_GRADIENTS_KNOCK: uw_node_gradients_knocked(s, from->id, m->group); break;
    default: break;
    }
}

uint64_t uw_node_gradients_step(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (!g->on) {
        return UINT64_MAX;
    }
    if (g->active && s->now_us >= g->look_us) {
        find_stations(s);
    }
    bool recalled = g->active && look(&g->recalled) == look(&g->begun);
    if (recalled || (g->leave_us != 0 && s->now_us >= g->leave_us)) {
        uw_node_gradients_break(s, UW_GRADIENTS_ENDED, own_id(s));
    }
    uint64_t next_us = uw_overlap_gate_run(&g->gate, s->now_us);
    if (g->overlap.phase == UW_OVERLAP_WHOLE_FAILED) {
        uw_node_gradients_break(s, UW_GRADIENTS_DEVICE, own_id(s));
        next_us = uw_overlap_gate_run(&g->gate, s->now_us);
    }
    uint64_t watch_us = uw_node_gradients_watch(s);
    return next_us < watch_us ? next_us : watch_us;
}

/* ---- training thread ---- */

bool uw_node_grouped(const struct uw_node *n)
{
    return n->state != NULL && n->state->gradients != NULL && n->state->gradients->grouped;
}

void uw_node_gradient_ready(struct uw_node *n, uint32_t bucket, float *gradient)
{
    struct uw_node_gradients *g = n->state->gradients;
    if (g == NULL) {
        return;
    }
    g->handed = g->grouped;
    if (g->grouped) {
        uw_overlap_gate_ready(&g->gate, bucket, gradient);
    }
}

enum uw_gradient_state uw_node_gradient_state(const struct uw_node *n, uint32_t bucket)
{
    const struct uw_node_gradients *g = n->state->gradients;
    if (g == NULL || !g->handed) {
        return UW_GRADIENT_OWN;
    }
    switch (uw_overlap_gate_state(&g->gate, bucket)) {
    case UW_OVERLAP_RUNNING: return UW_GRADIENT_RUNNING;
    case UW_OVERLAP_DONE: return UW_GRADIENT_AVERAGED;
    case UW_OVERLAP_IDLE: return UW_GRADIENT_OWN;
    case UW_OVERLAP_STOPPED:
    default: return UW_GRADIENT_DROPPED;
    }
}

bool uw_node_wants_parameters(struct uw_node *n)
{
    struct uw_node_gradients *g = n->state->gradients;
    if (g == NULL) {
        return false;
    }
    if (g->grouped && look(&g->broken) == look(&g->begun)) {
        g->grouped = false;
        n->state->cell->average.pace = UW_AVERAGE_NOW;
    }
    return g->on && !g->grouped;
}

/* Of what the group trains: running statistics are each node's own. */
static uint32_t hash_of(const struct uw_params *p)
{
    uint64_t hash = UW_HASH64_START;
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *segment = &p->segments[i];
        for (uint32_t k = 0; !segment->statistic && k < segment->size_n; k++) {
            uint32_t bits;
            memcpy(&bits, &p->x[segment->offset_n + k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3u;
        }
    }
    return (uint32_t)(hash ^ hash >> 32);
}

int uw_node_gradients_after_step(struct uw_node_state *s, const struct uw_node_progress *p)
{
    struct uw_node_gradients *g = s->gradients;
    struct uw_average *a = &s->cell->average;
    if (g->grouped && p->lr > 0.0f) {
        g->steps++;
        if (g->steps % s->config.period_steps == 0) {
            (void)uw_gossip_publish(&s->gossip, p->step, true);       /* for newcomers */
            uw_gossip_mixed_round(&s->gossip);
        }
        if (g->steps % HASH_STEPS == 0 && uw_image_fetch_all(&s->gossip.image) == UW_OK) {
            atomic_store_explicit(&g->hash, hash_of(s->config.params), memory_order_relaxed);
            atomic_store_explicit(&g->hash_step, g->steps, memory_order_release);
        }
    }
    if (!g->grouped && p->lr > 0.0f && a->state != UW_AVERAGE_LOOK) {
        atomic_fetch_add_explicit(&g->alone, 1, memory_order_relaxed);
    }
    bool waited = a->state >= UW_AVERAGE_WAIT;
    int rc = uw_average_after_step(a, p);
    if (waited && a->state < UW_AVERAGE_WAIT) {
        g->grouped = look(&g->begun) != look(&g->broken);
        g->steps = 0;
        atomic_store_explicit(&g->hash_step, 0, memory_order_relaxed);
        a->pace = g->grouped ? UW_AVERAGE_HOLD : UW_AVERAGE_BY_PERIOD;
    }
    return rc;
}

void uw_node_gradients_recall(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (g->grouped) {
        atomic_store_explicit(&g->recalled, look(&g->begun), memory_order_release);
    }
}
