/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"
#include "node_direct_priv.h"
#include "base/backoff.h"
#include "base/slot_table.h"
#include "cell/cell_priv.h"
#include "wire/part.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_CHUNKS 128u          /* on their way to a rank, on lossy links */
#define FRAGMENT_N 65536u           /* limit of a fragment's size, unless 64 chunks are less */
#define HASH_STEPS 100u             /* between two comparisons of parameters */
#define BREAK_AGAIN_US 20000u
#define STALL_MIN_US 2000000u
#define ASK_AGAIN_US 200000u
#define ASKS_MAX 4u
#define KNOCK_US 300000u            /* interval of KNOCK */
#define KNOCKS_APART_US 200000u     /* a KNOCK within this time counts as a duplicate */
#define KNOCK_STALE_US 2000000u
#define AVOID_US 2000000u           /* doubles with each strike */
#define AVOID_DOUBLINGS 5u
#define FORGET_US 60000000u         /* strikes end after so long without a fault */
#define BACK_US 5000000u            /* shortest life of a group on the link; doubles */
#define BACK_DOUBLINGS 8u
#define SETTLE_US 1000000u          /* a new group ignores KNOCK for so long */
#define TURN_US 20000000u           /* of those who are in a group while others are left out */

static uint32_t look(const atomic_uint_least32_t *number)
{
    return (uint32_t)atomic_load_explicit(number, memory_order_acquire);
}

/* ---- set-up ---- */

/* Name the cell by a hash of the buckets: only nodes with the same ones average their gradients. */
static void name_cell(struct uw_node_state *s, uint32_t chunk_n)
{
    const struct uw_node_gradients_config *c = s->config.gradients;
    const uint8_t reliable = s->config.link->reliable;
    uint64_t hash = uw_hash64(UW_HASH64_START, c->bucket_n, c->buckets_n * sizeof *c->bucket_n);
    hash = uw_hash64(hash, &c->tag, sizeof c->tag);
    hash = uw_hash64(hash, &chunk_n, sizeof chunk_n);
    hash = uw_hash64(hash, &reliable, 1);
    snprintf(s->cell->whole, sizeof s->cell->whole, "*%08lx",
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

/* ---- begin of a group ---- */

static uint32_t rank_of(const struct uw_node_gradients *g, uint32_t id)
{
    uint32_t rank = 0;
    while (rank < g->ranks_n && g->ranks[rank] != id) {
        rank++;
    }
    return rank;
}

static void find_stations(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    for (uint32_t rank = 0; rank < g->ranks_n; rank++) {
        const struct uw_member *m = uw_node_member(s, g->ranks[rank]);
        g->stations[rank] = m != NULL ? m->station : UW_LINK_STATION_NONE;
    }
    g->look_us = s->now_us + 100000u;
}

/* The overlap's number of a group: equal on all ranks, and unique. */
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
    /* Their parts have one size: on a narrower path parameters are averaged instead. */
    bool fits = c->direct || c->chunk_n >= g->overlap.config.chunk_n;
    if (!g->on || o->scope != UW_AVERAGE_CELL || c->ranks_n < 2 || !fits) {
        return;
    }
    struct uw_overlap_group group = {.group = number_of(c->group, c->round), .ranks = c->ranks_n,
                                     .rank = c->rank,
                                     .whole = c->direct ? &s->cell->direct->whole : NULL};
    for (uint32_t i = 0; i < c->ranks_n; i++) {
        const struct uw_member *m = uw_node_member(s, c->ranks[i]);
        group.rtt_us = m != NULL && m->srtt_us > group.rtt_us ? m->srtt_us : group.rtt_us;
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
    g->sent_step = (uint32_t)atomic_load_explicit(&g->hash_step, memory_order_acquire);
    g->in_step = false;
    g->active = true;
    find_stations(s);
    g->overlap.config.kind = c->kind;
    uw_overlap_begin(&g->overlap, &group, s->now_us);
    atomic_store_explicit(&g->begun, look(&g->begun) + 1u, memory_order_release);
    uw_node_report_gradients(s, UW_NODE_GRADIENTS);
}

/* ---- end of a group ---- */

static void send_to(struct uw_node_state *s, uint32_t to, enum uw_gradients_act act,
                    struct uw_cell_message *m)
{
    struct uw_node_scope *o = &s->cell->scopes[UW_AVERAGE_CELL];
    m->act = (enum uw_cell_act)act;
    o->cell.config.send(o, to, m);
}

static void send_break(struct uw_node_state *s, uint32_t to, uint32_t group,
                       enum uw_gradients_why why, uint32_t culprit)
{
    send_to(s, to, UW_GRADIENTS_BREAK, &(struct uw_cell_message){
        .group = group, .culprit = culprit, .status = (enum uw_cell_status)why});
}

static uint64_t rank_blame(const void *slot, const void *id)
{
    const struct uw_gradients_blame *b = slot;
    return b->id == *(const uint32_t *)id ? UW_SLOT_OWN : UW_SLOT_FREE + b->until_us;
}

/* Leave a node out of groups and rounds for a while, longer each time. */
static void blame(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_gradients *g = s->gradients;
    struct uw_cell_head *h = &s->cell->scopes[UW_AVERAGE_CELL].cell.h;
    if (id == UW_CELL_NOBODY) {
        return;
    }
    struct uw_gradients_blame *b = uw_slots_find(g->blamed, UW_GRADIENTS_BLAMED, sizeof *b,
                                                 rank_blame, &id);
    bool again = b->id == id && s->now_us < b->until_us + FORGET_US;
    b->strikes = again ? b->strikes : 0;
    b->id = id;
    b->until_us = s->now_us + uw_backoff_us(AVOID_US, &b->strikes, AVOID_DOUBLINGS);
    for (uint32_t i = 0; i < h->seats_n; i++) {
        if (h->seats[i].id == id) {
            h->seats[i].avoid_until_us = b->until_us;
        }
    }
}

/* Give up the group, and send BREAK to its members. */
static void give_up(struct uw_node_state *s, enum uw_gradients_why why, uint32_t culprit)
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
        s->config.parts->directs->failed(s, uw_node_own(s, culprit));
    }
    atomic_store_explicit(&g->broken, look(&g->begun), memory_order_release);
    if (why < UW_GRADIENTS_DIFFERS) {
        blame(s, culprit);
    }
    for (uint32_t i = 0; i < g->ranks_n; i++) {
        if (i != g->rank) {
            send_break(s, g->ranks[i], g->group, why, culprit);
        }
    }
    uw_node_report_gradients(s, UW_NODE_GRADIENTS_CUT);
}

void uw_node_gradients_gone(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_gradients *g = s->gradients;
    if (rank_of(g, id) < g->ranks_n) {
        give_up(s, UW_GRADIENTS_GONE, id);
    }
}

void uw_node_gradients_end(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (g->active && g->leave_us == 0) {
        g->leave_us = s->now_us + 3u * g->overlap.patience_us;
    }
}

void uw_node_gradients_left_out(struct uw_node_state *s)
{
    s->gradients->turn_us = s->now_us + TURN_US;
}

bool uw_node_gradients_waits(const struct uw_node_state *s)
{
    bool leads = uw_node_own(s, s->cell->scopes[UW_AVERAGE_CELL].cell.head);
    return s->gradients->on && s->now_us < s->gradients->turn_us && !leads;
}

/* ---- the cause of a stall ---- */

/* The identity that this node waits for; UW_CELL_NOBODY: none. */
static uint32_t waits_for(const struct uw_node_gradients *g)
{
    uint32_t rank;
    (void)uw_overlap_progress(&g->overlap, &rank);
    return g->overlap.running_n > 0 && rank < g->ranks_n ? g->ranks[rank] : UW_CELL_NOBODY;
}

static void answer(struct uw_node_state *s, uint32_t to)
{
    send_to(s, to, UW_GRADIENTS_WAITS, &(struct uw_cell_message){
        .group = s->gradients->group, .waits_for = waits_for(s->gradients)});
}

static void ask(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_gradients *g = s->gradients;
    g->asks_n = g->asked == id ? g->asks_n + 1u : 1u;
    g->asked = id;
    g->ask_us = s->now_us + ASK_AGAIN_US;
    send_to(s, id, UW_GRADIENTS_ASK, &(struct uw_cell_message){.group = g->group});
}

static void hunt(struct uw_node_state *s, uint32_t from, uint32_t next)
{
    struct uw_node_gradients *g = s->gradients;
    if (g->asked == UW_CELL_NOBODY || from != g->asked) {
        return;
    }
    if (next == UW_CELL_NOBODY) {
        give_up(s, UW_GRADIENTS_LATE, from);
    } else if (uw_node_own(s, next) || ++g->hops >= g->ranks_n) {
        bool by_device = g->overlap.group.whole != NULL;    /* all wait for each other */
        give_up(s, by_device ? UW_GRADIENTS_DEVICE : UW_GRADIENTS_LATE, UW_CELL_NOBODY);
    } else {
        ask(s, next);
    }
}

/* Have all buckets been averaged equally often? */
static bool step_is_over(const struct uw_overlap *o)
{
    uint32_t i = 0;
    while (i < o->config.buckets_n && o->buckets[i].round == o->buckets[0].round) {
        i++;
    }
    return o->running_n == 0 && i == o->config.buckets_n;
}

/* Returns the time of the next call. */
static uint64_t watch_step(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t rank, moved = uw_overlap_progress(&g->overlap, &rank);
    if (!g->in_step && g->overlap.running_n > 0) {
        g->in_step = true;
        g->step_us = g->moved_us = s->now_us;
    }
    if (moved != g->moved || g->overlap.running_n == 0) {
        g->moved = moved;
        g->moved_us = s->now_us;
        g->asked = UW_CELL_NOBODY;
    }
    if (g->in_step && step_is_over(&g->overlap)) {
        g->in_step = false;
        uw_deadline_add(&g->took, s->now_us - g->step_us);
    }
    if (g->overlap.running_n == 0) {
        return UINT64_MAX;
    }
    uint64_t round_us = s->config.round_us;
    uint64_t due_us = g->moved_us + uw_deadline_us(&g->took, 4, 8, STALL_MIN_US, round_us / 2u);
    uint32_t who = waits_for(g);
    if (s->now_us >= g->step_us + round_us && g->overlap.phase == UW_OVERLAP_WHOLE_BEGUN) {
        give_up(s, UW_GRADIENTS_DEVICE, UW_CELL_NOBODY);
    } else if (s->now_us >= g->step_us + round_us) {
        give_up(s, UW_GRADIENTS_LATE, who);
    } else if (s->now_us < due_us) {
        return due_us;
    } else if (who == UW_CELL_NOBODY) {
        g->moved_us = s->now_us;
    } else if (g->asked == UW_CELL_NOBODY) {
        g->hops = 0;
        ask(s, who);
    } else if (s->now_us >= g->ask_us && g->asks_n == ASKS_MAX) {
        give_up(s, UW_GRADIENTS_LATE, g->asked);
    } else if (s->now_us >= g->ask_us) {
        ask(s, g->asked);
    }
    return g->ask_us;
}

/* ---- comparison of parameters ---- */

static void compare(struct uw_node_state *s, uint32_t rank, uint32_t step,
                               uint32_t hash)
{
    struct uw_node_gradients *g = s->gradients;
    g->hash_at[rank] = step;
    g->hash_of[rank] = hash;
    for (uint32_t i = 0; i < g->ranks_n && g->active; i++) {
        if (g->hash_at[i] == g->hash_at[g->rank] && g->hash_at[i] != 0 &&
            g->hash_of[i] != g->hash_of[g->rank]) {
            give_up(s, UW_GRADIENTS_DIFFERS, g->ranks[i]);
        }
    }
}

/* Every rank sends its hash to the first one, which compares. */
static void send_hash(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t step = look(&g->hash_step);
    if (step == g->sent_step) {
        return;
    }
    g->sent_step = step;
    uint32_t hash = look(&g->hash);
    if (step != 0 && g->rank != 0) {
        send_to(s, g->ranks[0], UW_GRADIENTS_HASH, &(struct uw_cell_message){
            .group = g->group, .step = step, .culprit = hash});
    } else if (step != 0) {
        compare(s, 0, step, hash);
    }
}

/* ---- nodes that want to join ---- */

static bool is_avoided(const struct uw_node_gradients *g, uint32_t id, uint64_t now_us)
{
    const struct uw_gradients_blame *b = g->blamed, *end = b + UW_GRADIENTS_BLAMED;
    while (b < end && !(b->id == id && now_us < b->until_us)) {
        b++;
    }
    return b < end;
}

static void take_knock(struct uw_node_state *s, uint32_t from, uint32_t group)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
    if (!g->active || g->leave_us != 0 || s->now_us < g->began_us + SETTLE_US ||
        !uw_cell_reaches(c, from) || is_avoided(g, from, s->now_us)) {
        return;
    }
    if (group != 0) {
        if (group != g->group) {    /* two groups, as after a partition: the other one joins */
            send_break(s, from, group, UW_GRADIENTS_KNOCKED, s->membership.members[0].id);
        }
        return;
    }
    if (!uw_cell_shares_head(c, from)) {
        return;                         /* the next round would be without it, too */
    }
    if (g->knocked_us == 0 || s->now_us > g->knocked_us + KNOCK_STALE_US) {
        g->knocked_us = s->now_us;
    } else if (s->now_us >= g->knocked_us + KNOCKS_APART_US) {
        give_up(s, UW_GRADIENTS_KNOCKED, from);
    }
}

/* Send KNOCK if this node waits for a round, because others may be in a group. A head does not
 * wait; it sends KNOCK while it trains alone. */
static uint64_t knock(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
    bool alone = uw_node_own(s, c->head) && look(&g->alone) != g->alone_seen;
    if (c->state != UW_CELL_WAITING && !alone) {
        return UINT64_MAX;
    }
    if (s->now_us >= g->knock_us) {
        g->alone_seen = look(&g->alone);
        g->knock_us = s->now_us + KNOCK_US;
        for (uint32_t i = 0; i < c->members_n; i++) {
            if (c->members[i].usable && !uw_node_own(s, c->members[i].id)) {
                send_to(s, c->members[i].id, UW_GRADIENTS_KNOCK, &(struct uw_cell_message){0});
            }
        }
    }
    return g->knock_us;
}

/* Send KNOCK to a head outside of this group: it may be in another one. */
static void knock_at_head(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t head = s->cell->scopes[UW_AVERAGE_CELL].cell.head;
    bool ranked = head == UW_CELL_NOBODY || rank_of(g, head) < g->ranks_n;
    if (!ranked && s->now_us >= g->began_us + SETTLE_US && s->now_us >= g->knock_us) {
        g->knock_us = s->now_us + KNOCK_US;
        send_to(s, head, UW_GRADIENTS_KNOCK, &(struct uw_cell_message){.group = g->group});
    }
}

/* If devices are available again, the head of a group on the link asks for a new group. */
static void look_for_devices(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint64_t least_us = uw_backoff_after(BACK_US, g->waits, BACK_DOUBLINGS);
    if (s->cell->direct != NULL && g->overlap.group.whole == NULL && g->leave_us == 0 &&
        uw_node_own(s, s->cell->scopes[UW_AVERAGE_CELL].cell.decider) &&
        s->now_us >= g->began_us + least_us && s->config.parts->directs->is_back(s)) {
        g->waits++;
        give_up(s, UW_GRADIENTS_BACK, s->membership.members[0].id);
    }
}

static uint64_t watch(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (!g->active) {
        return knock(s);
    }
    send_hash(s);
    knock_at_head(s);
    look_for_devices(s);
    uint64_t next_us = g->active ? watch_step(s) : s->now_us;
    return uw_min_u64(next_us, g->leave_us != 0 ? g->leave_us : UINT64_MAX);
}

/* ---- received messages ---- */

static bool is_past(const struct uw_node_gradients *g, uint32_t group)
{
    uint32_t i = 0, n = uw_min_u32(g->past_n, UW_GRADIENTS_PAST);
    while (i < n && g->past[i] != group) {
        i++;
    }
    return i < n;
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
    } else if (is_past(g, part->group) && s->now_us >= g->break_us) {
        g->break_us = s->now_us + BREAK_AGAIN_US;
        send_break(s, from->id, part->group, g->why, g->culprit);
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
            give_up(s, (enum uw_gradients_why)m->status, m->culprit);
        }
        break;
    case UW_GRADIENTS_ASK:
        if (ours) {
            answer(s, from->id);
        } else if (!g->active || m->group != g->group) {
            send_break(s, from->id, m->group, UW_GRADIENTS_GONE, s->membership.members[0].id);
        }
        break;
    case UW_GRADIENTS_WAITS:
        if (ours) {
            hunt(s, from->id, m->waits_for);
        }
        break;
    case UW_GRADIENTS_HASH:
        if (ours) {
            compare(s, rank_of(g, from->id), m->step, m->culprit);
        }
        break;
    case UW_GRADIENTS_KNOCK: take_knock(s, from->id, m->group); break;
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
        give_up(s, UW_GRADIENTS_ENDED, s->membership.members[0].id);
    }
    uint64_t next_us = uw_overlap_gate_run(&g->gate, s->now_us);
    if (g->overlap.phase == UW_OVERLAP_WHOLE_FAILED) {
        give_up(s, UW_GRADIENTS_DEVICE, s->membership.members[0].id);
        next_us = uw_overlap_gate_run(&g->gate, s->now_us);
    }
    return uw_min_u64(next_us, watch(s));
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

/* Hash of trained parameters, without running statistics, which differ from node to node. */
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
        if (g->steps % s->gossip.config.period_steps == 0) {
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
