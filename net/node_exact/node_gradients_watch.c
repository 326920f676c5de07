/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the group that averages gradients still one? Deadlines, the hunt for who holds it up, hashes
 * of the parameters, those who knock. */
#include "node_averages.h"
#include "node_direct.h"
#include "cell/cell_priv.h"

#include "base/backoff.h"

#define STALL_MIN_US 2000000u
#define ASK_AGAIN_US 200000u
#define ASKS_MAX 4u
#define KNOCK_US 300000u            /* between two knocks */
#define KNOCKS_APART_US 200000u     /* at least: one that came twice does not count */
#define KNOCK_STALE_US 2000000u
#define AVOID_US 2000000u           /* doubles with each strike */
#define AVOID_DOUBLINGS 5u
#define FORGET_US 60000000u         /* a node that gave no reason for so long has no strikes */
#define BACK_US 5000000u            /* a group over the link lasts so long; doubles each time */
#define BACK_DOUBLINGS 8u
#define SETTLE_US 1000000u          /* a group that has begun hears no knocks for so long */

static uint32_t look(const atomic_uint_least32_t *number)
{
    return (uint32_t)atomic_load_explicit(number, memory_order_acquire);
}

static uint32_t own_id(const struct uw_node_state *s)
{
    return s->membership.members[0].id;
}

/* ---- who holds it up ---- */

/* Whom this node waits for; UW_CELL_NOBODY: for itself. */
static uint32_t waits_for(const struct uw_node_gradients *g)
{
    uint32_t rank;
    (void)uw_overlap_progress(&g->overlap, &rank);
    return g->overlap.running_n > 0 && rank < g->ranks_n ? g->ranks[rank] : UW_CELL_NOBODY;
}

void uw_node_gradients_answer(struct uw_node_state *s, uint32_t to)
{
    const struct uw_cell_message m = {.act = (enum uw_cell_act)UW_GRADIENTS_WAITS,
                                      .group = s->gradients->group,
                                      .waits_for = waits_for(s->gradients)};
    uw_node_gradients_send(s, to, &m);
}

static void ask(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell_message m = {.act = (enum uw_cell_act)UW_GRADIENTS_ASK,
                                      .group = g->group};
    g->asks_n++;
    g->ask_us = s->now_us + ASK_AGAIN_US;
    uw_node_gradients_send(s, g->asked, &m);
}

static void ask_next(struct uw_node_state *s, uint32_t id)
{
    s->gradients->asked = id;
    s->gradients->asks_n = 0;
    ask(s);
}

/* All wait for each other. */
static enum uw_gradients_why why_in_circle(const struct uw_node_gradients *g)
{
    return g->overlap.group.whole != NULL ? UW_GRADIENTS_DEVICE : UW_GRADIENTS_LATE;
}

void uw_node_gradients_hunt(struct uw_node_state *s, uint32_t from, uint32_t next)
{
    struct uw_node_gradients *g = s->gradients;
    if (g->asked == UW_CELL_NOBODY || from != g->asked) {
        return;
    }
    if (next == UW_CELL_NOBODY) {
        uw_node_gradients_break(s, UW_GRADIENTS_LATE, from);
    } else if (next == own_id(s) || ++g->hops >= g->ranks_n) {
        uw_node_gradients_break(s, why_in_circle(g), UW_CELL_NOBODY);
    } else {
        ask_next(s, next);
    }
}

static void begin_step(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    g->in_step = true;
    g->step_us = g->moved_us = s->now_us;
}

/* All buckets have been averaged equally often. */
static bool step_is_over(const struct uw_overlap *o)
{
    bool over = o->running_n == 0;
    for (uint32_t i = 1; i < o->config.buckets_n && over; i++) {
        over = o->buckets[i].round == o->buckets[0].round;
    }
    return over;
}

/* Returns when to look again. */
static uint64_t watch_step(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t rank, moved = uw_overlap_progress(&g->overlap, &rank);
    if (!g->in_step && g->overlap.running_n > 0) {
        begin_step(s);
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
        uw_node_gradients_break(s, UW_GRADIENTS_DEVICE, UW_CELL_NOBODY);
    } else if (s->now_us >= g->step_us + round_us) {
        uw_node_gradients_break(s, UW_GRADIENTS_LATE, who);
    } else if (s->now_us < due_us) {
        return due_us;
    } else if (who == UW_CELL_NOBODY) {
        g->moved_us = s->now_us;
    } else if (g->asked == UW_CELL_NOBODY) {
        g->hops = 0;
        ask_next(s, who);
    } else if (s->now_us >= g->ask_us && g->asks_n == ASKS_MAX) {
        uw_node_gradients_break(s, UW_GRADIENTS_LATE, g->asked);
    } else if (s->now_us >= g->ask_us) {
        ask(s);
    }
    return g->ask_us;
}

/* ---- are all equal? ---- */

void uw_node_gradients_compare(struct uw_node_state *s, uint32_t rank, uint32_t step,
                               uint32_t hash)
{
    struct uw_node_gradients *g = s->gradients;
    g->hash_at[rank] = step;
    g->hash_of[rank] = hash;
    for (uint32_t i = 0; i < g->ranks_n && g->active; i++) {
        if (g->hash_at[i] == g->hash_at[g->rank] && g->hash_at[i] != 0 &&
            g->hash_of[i] != g->hash_of[g->rank]) {
            uw_node_gradients_break(s, UW_GRADIENTS_DIFFERS, g->ranks[i]);
        }
    }
}

/* Every rank tells the first one, which compares. */
static void tell_hash(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t step = look(&g->hash_step);
    if (step == g->told_step) {
        return;
    }
    g->told_step = step;
    uint32_t hash = look(&g->hash);
    const struct uw_cell_message m = {.act = (enum uw_cell_act)UW_GRADIENTS_HASH,
                                      .group = g->group, .step = step, .culprit = hash};
    if (step != 0 && g->rank != 0) {
        uw_node_gradients_send(s, g->ranks[0], &m);
    } else if (step != 0) {
        uw_node_gradients_compare(s, 0, step, hash);
    }
}

/* ---- who would like to be in it ---- */

void uw_node_gradients_blame(struct uw_node_state *s, uint32_t id)
{
    struct uw_node_gradients *g = s->gradients;
    struct uw_cell_head *h = &s->cell->scopes[UW_AVERAGE_CELL].cell.h;
    struct uw_gradients_blame *b = g->blamed;
    if (id == UW_CELL_NOBODY) {
        return;
    }
    for (uint32_t i = 0; i < UW_GRADIENTS_BLAMED && b->id != id; i++) {
        bool better = g->blamed[i].id == id || g->blamed[i].until_us < b->until_us;
        b = better ? &g->blamed[i] : b;
    }
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

static bool is_avoided(const struct uw_node_gradients *g, uint32_t id, uint64_t now_us)
{
    bool avoided = false;
    for (uint32_t i = 0; i < UW_GRADIENTS_BLAMED; i++) {
        avoided = avoided || (g->blamed[i].id == id && now_us < g->blamed[i].until_us);
    }
    return avoided;
}

void uw_node_gradients_knocked(struct uw_node_state *s, uint32_t from, uint32_t group)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
    if (!g->active || g->leave_us != 0 || s->now_us < g->began_us + SETTLE_US ||
        !uw_cell_reaches(c, from) || is_avoided(g, from, s->now_us)) {
        return;
    }
    if (group != 0) {
        if (group != g->group) {    /* two groups, as after a cut: theirs comes to ours */
            uw_node_gradients_tell(s, from, group, UW_GRADIENTS_KNOCKED, own_id(s));
        }
        return;
    }
    if (g->knocked_us == 0 || s->now_us > g->knocked_us + KNOCK_STALE_US) {
        g->knocked_us = s->now_us;
    } else if (s->now_us >= g->knocked_us + KNOCKS_APART_US) {
        uw_node_gradients_break(s, UW_GRADIENTS_KNOCKED, from);
    }
}

/* This node waits for a round, and others may be busy with their gradients. As head it waits for
 * nobody, and trains alone. */
static uint64_t knock(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
    bool alone = c->head == own_id(s) && look(&g->alone) != g->alone_seen;
    if (c->state != UW_CELL_WAITING && !alone) {
        return UINT64_MAX;
    }
    if (s->now_us >= g->knock_us) {
        g->alone_seen = look(&g->alone);
        const struct uw_cell_message m = {.act = (enum uw_cell_act)UW_GRADIENTS_KNOCK};
        g->knock_us = s->now_us + KNOCK_US;
        for (uint32_t i = 0; i < c->members_n; i++) {
            if (c->members[i].usable && c->members[i].id != own_id(s)) {
                uw_node_gradients_send(s, c->members[i].id, &m);
            }
        }
    }
    return g->knock_us;
}

/* The head may be in a group of its own. */
static void knock_at_head(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint32_t head = s->cell->scopes[UW_AVERAGE_CELL].cell.head;
    bool ranked = head == UW_CELL_NOBODY;
    for (uint32_t i = 0; i < g->ranks_n && !ranked; i++) {
        ranked = g->ranks[i] == head;
    }
    if (!ranked && s->now_us >= g->began_us + SETTLE_US && s->now_us >= g->knock_us) {
        const struct uw_cell_message m = {.act = (enum uw_cell_act)UW_GRADIENTS_KNOCK,
                                          .group = g->group};
        g->knock_us = s->now_us + KNOCK_US;
        uw_node_gradients_send(s, head, &m);
    }
}

/* The head of a group that only had to wait for a device asks for a new one. */
static void look_for_devices(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    uint64_t least_us = uw_backoff_after(BACK_US, g->waits, BACK_DOUBLINGS);
    if (s->cell->direct != NULL && g->overlap.group.whole == NULL && g->leave_us == 0 &&
        s->cell->scopes[UW_AVERAGE_CELL].cell.decider == own_id(s) &&
        s->now_us >= g->began_us + least_us && s->config.parts->directs->is_back(s)) {
        g->waits++;
        uw_node_gradients_break(s, UW_GRADIENTS_BACK, own_id(s));
    }
}

uint64_t uw_node_gradients_watch(struct uw_node_state *s)
{
    struct uw_node_gradients *g = s->gradients;
    if (!g->active) {
        return knock(s);
    }
    tell_hash(s);
    knock_at_head(s);
    look_for_devices(s);
    uint64_t next_us = g->active ? watch_step(s) : s->now_us;
    return g->leave_us != 0 && g->leave_us < next_us ? g->leave_us : next_us;
}
