/* SPDX-License-Identifier: Apache-2.0
 *
 * The shipped nodes over the simulated links of a fleet, one event after the other. */
#include "world_events.h"

#include "block.h"

#include "uwasa/arena.h"
#include "uwasa/rng.h"

#include <stdlib.h>

#define LOOK_US 10000u              /* how often to see whether all have met */
#define ASKED_EVENTS 64u            /* so often the caller may interrupt */
#define LOOK_AVERAGE_US 5000u       /* how often who waits for an average looks at it */

/* ---- when a node is due ---- */

/* What the clock should say of it. */
static void set_due(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_events_state *e = w->state;
    struct uw_world_node *n = s->node;
    const struct uw_sim_device *d = &w->config.fleet->devices[n->place];
    const struct uw_sim_absence *a = s->absence < d->absences_n ? &d->absences[s->absence] : NULL;
    uint64_t at_us = s->net_at_us;
    enum uw_sim_turn turn = UW_SIM_NETWORK;
    bool active = n->train_at_us != UINT64_MAX || n->waits;
    e->active_n += (active ? 1u : 0u) - (s->active ? 1u : 0u);
    s->active = active;
    s->train_known_us = n->train_at_us;
    if (s->away) {
        uw_sim_clock_set(&e->clock, n->place, w->start_us + a->to_us, UW_SIM_RETURNS);
        return;
    }
    if (e->training && a != NULL && w->start_us + a->from_us <= at_us) {
        at_us = w->start_us + a->from_us;
        turn = UW_SIM_GOES;
    }
    if (n->train_at_us <= at_us && n->train_at_us != UINT64_MAX) {
        at_us = n->train_at_us;
        turn = UW_SIM_TRAINS;
    }
    uw_sim_clock_set(&e->clock, n->place, at_us, turn);
}

static bool events_touches(const struct uw_world *w, const struct uw_world_node *n)
{
    (void)w;
    return n->waits || n->restarted || uw_node_touches(&n->node);
}

/* What has arrived may be for the training. */
static void tell_touch(struct uw_world *w, struct uw_seat *s)
{
    if (s->untouched && uw_node_touches(&s->node->node)) {
        s->untouched = false;
        w->config.on_touch(w->config.touch_arg, s->node->place);
    }
}

/* Who averages and has done its last step leaves, so that nobody waits for it; gossip does not. */
static bool leaves(const struct uw_world *w, const struct uw_seat *s)
{
    const struct uw_node_config *c = &w->config.node;
    bool pairs = c->rule != NULL && c->rule->over == UW_MIX_OVER_PAIRS;
    return !s->active && !s->away && (c->mode != UW_NODE_GOSSIP || pairs) &&
           ((const struct uw_world_events_state *)w->state)->training &&
           !uw_node_owes(&s->node->node);
}

/* Who waits for an average looks whether it is there. */
static void step_network(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_node *n = s->node;
    if (leaves(w, s)) {
        uw_node_leave(&n->node, w->now_us);
    }
    uint64_t next_us = uw_node_step(&n->node, w->now_us);
    tell_touch(w, s);
    if (n->waits) {
        n->train_at_us = w->now_us;
        next_us = next_us < w->now_us + LOOK_AVERAGE_US ? next_us : w->now_us + LOOK_AVERAGE_US;
    }
    s->net_at_us = next_us > w->now_us ? next_us : w->now_us + 1u;
    set_due(w, s);
}

static void go_away(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_events_state *e = w->state;
    struct uw_world_node *n = s->node;
    const struct uw_sim_device *d = &w->config.fleet->devices[n->place];
    const struct uw_sim_absence *a = &d->absences[s->absence];
    s->away = true;
    uw_sim_link_away(&e->net.links[n->place], true);
    if (n->train_at_us != UINT64_MAX) {
        n->train_at_us += a->to_us - a->from_us;
    }
    set_due(w, s);
}

static void come_back(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_events_state *e = w->state;
    struct uw_world_node *n = s->node;
    const struct uw_sim_device *d = &w->config.fleet->devices[n->place];
    bool forgets = d->absences[s->absence++].forgets;
    s->away = false;
    uw_sim_link_away(&e->net.links[n->place], false);
    if (forgets && s->active) {
        n->waits = n->restarted = true;
        n->train_at_us = w->now_us;
    }
    s->net_at_us = w->now_us;
    set_due(w, s);
}

/* Do what comes next, unless it is training: then return who trains. */
static struct uw_world_node *next_event(struct uw_world *w)
{
    struct uw_world_events_state *e = w->state;
    const struct uw_sim_due due = *uw_sim_clock_first(&e->clock);
    uint64_t message_us = uw_sim_net_next_us(&e->net);
    struct uw_seat *s = &e->seats[due.place];
    if (message_us < due.at_us || (message_us == due.at_us && due.turn > UW_SIM_MESSAGE)) {
        w->now_us = message_us > w->now_us ? message_us : w->now_us;
        const struct uw_sim_link *at = uw_sim_net_step(&e->net);
        if (at != NULL) {
            step_network(w, &e->seats[at->place]);
        }
        return NULL;
    }
    w->now_us = due.at_us > w->now_us ? due.at_us : w->now_us;
    switch ((enum uw_sim_turn)due.turn) {
    case UW_SIM_TRAINS:
        return s->node;
    case UW_SIM_RETURNS:
        come_back(w, s);
        break;
    case UW_SIM_GOES:
        go_away(w, s);
        break;
    case UW_SIM_MESSAGE:
    case UW_SIM_NETWORK:
    default:
        step_network(w, s);
        break;
    }
    return NULL;
}

/* ---- the calls of sim_world.h ---- */

static uint64_t next_event_us(const struct uw_world_events_state *e)
{
    uint64_t message_us = uw_sim_net_next_us(&e->net);
    uint64_t due_us = uw_sim_clock_first(&e->clock)->at_us;
    return message_us < due_us ? message_us : due_us;
}

/* Has it met enough others? */
static bool has_met(const struct uw_world *w, const struct uw_seat *s)
{
    struct uw_world_events_state *e = w->state;
    uint32_t max = w->config.members_max, met = 0;
    uint32_t want = max >= w->config.fleet->devices_n ? w->config.fleet->devices_n - 1u : max / 2u;
    uint32_t n = uw_node_status(&s->node->node, w->now_us, e->rows, max, NULL);
    for (uint32_t k = 1; k < n; k++) {
        met += e->rows[k].state == UW_MEMBER_ALIVE && e->rows[k].version != 0;
    }
    return met >= want;
}

static int begin(struct uw_world *w, struct uw_seat *s)
{
    const struct uw_node_progress fresh = {.step = 0};
    int rc = uw_node_after_step(&s->node->node, &fresh);
    s->net_at_us = w->now_us;
    set_due(w, s);
    return rc < 0 ? rc : UW_OK;
}

/* Its first step, or what is left of the one that it was in. What its absences until then have
 * delayed is in that. */
static void begin_training(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_events_state *e = w->state;
    const struct uw_world_past *past = &w->config.past;
    const struct uw_sim_device *d = &w->config.fleet->devices[s->node->place];
    uint64_t left_us = past->left_us != NULL ? past->left_us[s->node->place]
                                             : d->start_us + d->step_us;
    s->sent_before = e->net.links[s->node->place].link.stats.sent_bytes;
    s->node->train_at_us = left_us != UINT64_MAX ? w->now_us + left_us : UINT64_MAX;
    while (s->absence < d->absences_n && d->absences[s->absence].to_us <= past->trained_us &&
           past->trained_us != 0) {
        s->absence++;
    }
    if (s->absence < d->absences_n && d->absences[s->absence].from_us < past->trained_us) {
        s->away = true;
        uw_sim_link_away(&e->net.links[s->node->place], true);
    }
    set_due(w, s);
}

static int events_meet(struct uw_world *w, uint64_t limit_us)
{
    struct uw_world_events_state *e = w->state;
    uint32_t nodes = w->config.fleet->devices_n, met = 0;
    uint64_t end_us = w->now_us + limit_us;
    uint64_t look_us = w->now_us;
    for (uint32_t i = 0; i < nodes; i++) {
        int rc = begin(w, &e->seats[i]);
        if (rc < 0) {
            return rc;
        }
    }
    /* Who has met the others is not looked at again: a look costs what is left to do. */
    while (met < nodes && w->now_us < end_us) {
        if (next_event_us(e) <= look_us) {
            (void)next_event(w);
            continue;
        }
        w->now_us = look_us;
        look_us += LOOK_US;
        while (met < nodes && has_met(w, &e->seats[met])) {
            met++;
        }
    }
    w->start_us = w->now_us - w->config.past.trained_us;
    e->training = true;
    for (uint32_t i = 0; i < nodes; i++) {
        begin_training(w, &e->seats[i]);
    }
    return met == nodes ? UW_OK : UW_ERR_AGAIN;
}

/* Callers end a node's training by its train_at_us. */
static void see_changes(struct uw_world *w)
{
    struct uw_world_events_state *e = w->state;
    while (e->changed != NULL) {
        struct uw_seat *s = e->changed;
        e->changed = s->next_changed;
        s->next_changed = NULL;
        s->listed = false;
        if (s->node->train_at_us != s->train_known_us) {
            s->net_at_us = w->now_us;       /* it may be over */
            set_due(w, s);
        }
    }
}

static bool interrupted(const struct uw_world *w)
{
    struct uw_world_events_state *e = w->state;
    const struct uw_world_config *c = &w->config;
    return ++e->events_n % ASKED_EVENTS == 0 && c->interrupts != NULL &&
           c->interrupts(c->interrupt_arg);
}

static struct uw_world_node *events_next(struct uw_world *w)
{
    const struct uw_world_events_state *e = w->state;
    struct uw_world_node *n = NULL;
    see_changes(w);
    while (n == NULL && e->active_n != 0 && !interrupted(w)) {
        n = next_event(w);
    }
    return n;
}

static int restart(struct uw_world *w, struct uw_seat *s)
{
    struct uw_world_node *n = s->node;
    struct uw_node_counters c;
    (void)uw_node_status(&n->node, w->now_us, NULL, 0, &c);
    uw_counters_add(&s->counted, &c);
    uw_world_node_reset(n);
    n->restarted = n->waits = false;
    n->restarts++;
    int rc = uw_seat_bind(w, s, NULL);
    return rc < 0 ? rc : UW_OK;
}

static int events_trained(struct uw_world *w, struct uw_world_node *n,
                          const struct uw_node_progress *progress, uint64_t pause_us)
{
    struct uw_world_events_state *e = w->state;
    struct uw_seat *s = &e->seats[n->place];
    bool waited = n->waits;
    int rc = n->restarted ? restart(w, s) : UW_OK;
    int flags = rc < 0 ? rc : uw_node_after_step(&n->node, progress);
    n->waits = flags > 0 && (flags & (UW_NODE_AVERAGING | UW_NODE_ADOPTING)) != 0;
    n->averaging = flags > 0 && (flags & UW_NODE_AVERAGING) != 0;
    if ((flags > 0 && !waited) || waited != n->waits || uw_node_asks(&n->node)) {
        s->net_at_us = w->now_us;
    }
    s->untouched = w->config.on_touch != NULL && !events_touches(w, n);
    uint64_t step_us = w->config.fleet->devices[n->place].step_us;
    n->train_at_us = n->waits ? UINT64_MAX : w->now_us + (pause_us != 0 ? pause_us : step_us);
    set_due(w, s);
    if (!s->listed) {
        s->listed = true;
        s->next_changed = e->changed;
        e->changed = s;
    }
    return flags;
}

static void events_agree(struct uw_world *w, struct uw_world_node *n)
{
    (void)w;
    uw_node_agree(&n->node);
}

static uint64_t events_sent_bytes(const struct uw_world *w)
{
    const struct uw_world_events_state *e = w->state;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        sum += e->net.links[i].link.stats.sent_bytes - e->seats[i].sent_before;
    }
    return sum;
}

void uw_world_air(const struct uw_world *w, uint64_t *busy_us, uint64_t *frames_n)
{
    const struct uw_world_events_state *e = w->state;
    *busy_us = e->net.air.busy_us;
    *frames_n = e->net.air.frames_n;
}

static struct uw_node_counters events_counters(const struct uw_world *w)
{
    const struct uw_world_events_state *e = w->state;
    struct uw_node_counters sum = {.sent_bytes = 0};
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        struct uw_node_counters c;
        (void)uw_node_status(&w->nodes[i].node, w->now_us, NULL, 0, &c);
        uw_counters_add(&sum, &c);
        sum.period_steps += c.period_steps;
        uw_counters_add(&sum, &e->seats[i].counted);
    }
    return sum;
}

static void events_close(struct uw_world *w)
{
    struct uw_world_events_state *e = w->state;
    if (e == NULL) {
        return;
    }
    uw_sim_net_close(&e->net);
    uw_sim_clock_close(&e->clock);
    free(e->rows);
    free(e->cell_sizes);
    uw_sim_block_give(e->arenas, uw_size_mul(e->node_bytes, w->config.fleet->devices_n));
    free(e->seats);
    free(e);
    w->state = NULL;
}

const struct uw_world_ops uw_world_events = {
    .name = "events",
    .defaults = uw_world_events_defaults,
    .measure = uw_world_events_measure,
    .open = uw_world_events_open,
    .meet = events_meet,
    .next = events_next,
    .trained = events_trained,
    .touches = events_touches,
    .agree = events_agree,
    .sent_bytes = events_sent_bytes,
    .counters = events_counters,
    .close = events_close,
};
