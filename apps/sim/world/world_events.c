/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's nodes over the simulated links of a fleet, event by event. */
#include "attack.h"
#include "world_clock.h"
#include "world.h"
#include "medium/medium.h"

#include "uwasa/arena.h"
#include "uwasa/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_ALL 64u             /* up to so many nodes all know each other */
#define MEMBERS_SOME 32u            /* of more nodes, if some are enough: the default of nodes */
#define MATES 8u                    /* nodes of its cell among a node's seeds */
#define WINDOW_BYTES (512u * 1024u) /* of chunks: the default of nodes */
#define WINDOWS_BYTES (512u << 20)  /* of all nodes together */
#define WINDOW_HEAD_BYTES 32u       /* more than the header of a chunk's message */
#define STATIONS_MAX 65534u         /* the two highest station numbers of a link are reserved */
#define POLL_US 60000000u           /* long: the world calls a node when training asks */
#define SEEDS_STREAM 0x5eed5u
#define LOOK_US 10000u              /* interval of checks whether all have met */
#define ASKED_EVENTS 64u            /* events between calls of `interrupts` */
#define LOOK_AVERAGE_US 5000u       /* interval of checks of a node that waits for an average */
#define NAME_BYTES 16u
#define SEEDS_MAX 16u           /* addresses given to a node that cannot know all */

/* A node's state in addition to sim_world.h's struct. */
struct seat {
    struct uw_world_node *node;
    void *memory;                   /* of the node, in the block of all */
    uint64_t net_at_us;             /* when its network must be called */
    uint64_t train_known_us;        /* train_at_us when the clock was set */
    uint64_t sent_before;           /* bytes sent before training */
    uint32_t absence;               /* the next one, or the present one */
    bool away, active, listed;      /* active: it trains or will; listed: in changed */
    bool untouched;                 /* uw_world_touches last returned false */
    struct seat *next_changed;
    struct uw_node_counters counted;    /* before its restarts */
    char name[NAME_BYTES], address[12], cell[16];
    const char *seeds[SEEDS_MAX];
};

struct state {
    struct uw_sim_net net;
    struct uw_sim_clock clock;
    struct seat *seats;          /* [devices_n] */
    uint8_t *arenas;                /* of all nodes, node_bytes each */
    size_t node_bytes;
    struct uw_node_member *rows;    /* [members_max] */
    uint32_t active_n;
    uint32_t events_n;              /* of uw_world_next so far; wraps */
    bool training;
    struct seat *changed;        /* list of nodes whose train_at_us the caller may have set */
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t largest_cell(const struct uw_sim_fleet *f)
{
    uint32_t largest = 0;
    uint32_t *n = malloc((f->cells_n + 1u) * sizeof *n);
    if (n != NULL) {
        uw_sim_fleet_count(f, n);
    }
    for (uint32_t c = 0; n != NULL && c < f->cells_n; c++) {
        largest = n[c] > largest ? n[c] : largest;
    }
    free(n);
    return largest;
}

/* Whether a node need not know all others. Schedules other than the random one, and pairs, require
 * that all nodes have the same members. */
static bool may_know_some(const struct uw_node_config *c)
{
    bool random = c->schedule == NULL || c->schedule == &uw_peer_schedule_random;
    return c->mode != UW_NODE_ALLREDUCE && random && !uw_world_pairs(c) && !c->agree;
}

static bool averages(const struct uw_node_config *c)
{
    return (c->mode != UW_NODE_GOSSIP && c->mode != UW_NODE_BROADCAST) || uw_world_pairs(c) ||
           c->agree;
}

/* A window that holds a model never blocks, so a larger one is no better. */
static void set_window(struct uw_world_config *c)
{
    c->mtu_bytes = c->radio != NULL ? uw_sim_radio_mtu(c->radio) : c->mtu_bytes;
    size_t chunk = c->mtu_bytes > WINDOW_HEAD_BYTES ? c->mtu_bytes - WINDOW_HEAD_BYTES : 1u;
    size_t chunks = (c->params->size_n * sizeof(float) + chunk - 1u) / chunk;
    size_t model = uw_size_mul(chunks, c->mtu_bytes), share = WINDOWS_BYTES / c->fleet->devices_n;
    if (c->node.window_bytes == 0) {
        c->node.window_bytes = share < WINDOW_BYTES ? share : WINDOW_BYTES;
        c->node.window_bytes = model < c->node.window_bytes ? model : c->node.window_bytes;
    } else if (!averages(&c->node) && model < c->node.window_bytes) {
        c->node.window_bytes = model;
    }
}

static void events_defaults(struct uw_world_config *c)
{
    uint32_t nodes = c->fleet->devices_n;
    if (c->members_max == 0) {
        uint32_t cell = averages(&c->node) ? 2u * largest_cell(c->fleet) : 0;
        uint32_t some = cell > MEMBERS_SOME ? cell : MEMBERS_SOME;
        c->members_max = nodes > MEMBERS_ALL && may_know_some(&c->node) ? some : nodes;
    }
    c->members_max = min_u32(c->members_max, nodes);
    set_window(c);
}

static bool knows_all(const struct uw_world_config *c)
{
    return c->members_max >= c->fleet->devices_n;
}

static void report_event(void *arg, const struct uw_node_event *event)
{
    const struct uw_world_node *n = arg;
    const struct uw_world_config *c = &n->world->config;
    c->on_event(c->event_arg, n->place, event);
}

/* The configuration on which all nodes' memory depends. */
static struct uw_node_config common_config(const struct uw_world_config *world)
{
    struct uw_node_config c = world->node;
    c.parts = &uw_node_parts_all;
    c.incarnation = 1;
    c.members_max = world->members_max;
    c.on_event = world->on_event != NULL ? report_event : NULL;
    if (c.seeds == NULL && world->radio == NULL) {      /* on a radio all nodes are in range */
        c.seeds_n = knows_all(world) ? 1u : min_u32(SEEDS_MAX, world->fleet->devices_n - 1u);
    }
    c.poll_us = averages(&c) ? 0 : POLL_US;
    return c;
}

/* With a radio a node has a number and no address. Names have 4 characters, so that a member record
 * fits a frame of 51 bytes. */
static void write_name(const struct uw_world_config *world, uint32_t i,
                       char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s%u", world->radio != NULL ? "" : "node", (unsigned)i);
}

/* Measure one node's memory with texts of maximal length; without its vectors. */
static int measure_node(const struct uw_world_config *world, size_t *bytes, struct uw_error *err)
{
    static const char *const seeds[SEEDS_MAX] = {"65533"};
    char name[NAME_BYTES];
    static const struct uw_link_ops none = {.name = "simulated"};
    struct uw_link link = {.ops = &none, .mtu_bytes = world->mtu_bytes, .fd = -1};
    if (world->radio != NULL) {
        uw_sim_radio_link(&link, world->radio, 0);
    }
    struct uw_snapshot snapshot = {.size_n = world->params->size_n};
    struct uw_node_config c = common_config(world);
    write_name(world, world->radio != NULL ? world->fleet->devices_n - 1u : 65533u, name);
    c.name = name;
    c.address = world->radio != NULL ? NULL : "65533";
    c.seeds = c.seeds != NULL ? c.seeds : seeds;
    c.link = &link;
    c.params = world->params;
    c.snapshot = &snapshot;
    int rc = uw_node_measure(&c, bytes, err);
    *bytes += uw_arena_slack_bytes();
    *bytes = uw_arena_padded(*bytes);
    return rc;
}

/* Estimate the memory of messages. Requested chunks have room at the receiver, so there is at most
 * one window per node; as not all are in flight at once, half of that is assumed. */
static size_t messages_bytes(const struct uw_world_config *c)
{
    size_t model = c->params->size_n * sizeof(float);
    size_t window = c->node.window_bytes < model ? c->node.window_bytes : model;
    return uw_size_mul(window / 2u + 2u * c->mtu_bytes, c->fleet->devices_n);
}

static int events_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err)
{
    size_t node = 0;
    if (c->fleet->devices_n > STATIONS_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%u nodes: the network of events has room for %u",
                            (unsigned)c->fleet->devices_n, STATIONS_MAX);
    }
    int rc = measure_node(c, &node, err);
    node += sizeof(struct seat) + sizeof(struct uw_sim_link) + sizeof(struct uw_sim_due) +
            sizeof(uint32_t);
    size_t all = uw_size_mul(node, c->fleet->devices_n);
    size_t more = c->members_max * sizeof(struct uw_node_member) + messages_bytes(c) +
                  c->fleet->cells_n * sizeof(struct uw_sim_net_cell);
    *bytes = all > SIZE_MAX - more ? SIZE_MAX : all + more;
    return rc;
}

/* ---- the first peers of a node ---- */

static bool is_seed(const struct seat *s, uint32_t n, const char *address)
{
    for (uint32_t i = 0; i < n; i++) {
        if (s->seeds[i] == address) {
            return true;
        }
    }
    return s->address == address;
}

/* Choose some nodes of its cell, then others at random. */
static void choose_seeds(const struct uw_world *w, struct seat *s, uint32_t seeds_n)
{
    const struct state *e = w->state;
    const struct uw_sim_fleet *f = w->config.fleet;
    uint32_t place = s->node->place, cell = f->devices[place].cell, n = 0;
    struct uw_rng rng;
    if (knows_all(&w->config)) {
        s->seeds[0] = e->seats[0].address;
        return;
    }
    uint32_t mates = w->config.node.mode != UW_NODE_GOSSIP && cell != UW_SIM_NO_CELL
                         ? min_u32(MATES, seeds_n) : 0;
    for (uint32_t i = 1; i < f->devices_n && n < mates; i++) {
        uint32_t other = (place + i) % f->devices_n;
        if (f->devices[other].cell == cell) {
            s->seeds[n++] = e->seats[other].address;
        }
    }
    uw_rng_seed(&rng, uw_rng_mix(uw_rng_mix(w->config.node.seed, SEEDS_STREAM), place));
    while (n < seeds_n) {
        const char *address = e->seats[uw_rng_below(&rng, f->devices_n)].address;
        if (!is_seed(s, n, address)) {
            s->seeds[n++] = address;
        }
    }
}

/* ---- set-up ---- */

/* Nodes have met before they train: the first average waits for those that are there. */
static void set_cell(const struct uw_world *w, struct seat *s, struct uw_node_config *c)
{
    uint32_t cell = w->config.fleet->devices[s->node->place].cell;
    if (c->mode == UW_NODE_HIERARCHICAL && cell != UW_SIM_NO_CELL) {
        snprintf(s->cell, sizeof s->cell, "cell%u", (unsigned)cell);
        c->cell = s->cell;
    }
}

/* Set a node up in its memory, for the first time or after a restart.
 * Returns what uw_node_bind does. */
static int bind_seat(struct uw_world *w, struct seat *s, struct uw_error *err)
{
    struct state *e = w->state;
    struct uw_world_node *n = s->node;
    struct uw_node_config c = common_config(&w->config);
    struct uw_arena arena;
    c.name = s->name;
    c.address = w->config.radio != NULL ? NULL : s->address;
    c.seeds = c.seeds != NULL ? c.seeds : s->seeds;
    c.incarnation += n->restarts;
    c.newcomer = c.newcomer || n->restarts != 0;
    c.link = &e->net.links[n->place].link;
    bool shows = n->shown.x != NULL;
    c.params = shows ? &n->shown : &n->params;
    c.snapshot = &n->snapshot;
    c.velocity = shows && n->velocity != NULL ? n->shown_velocity : n->velocity;
    c.spare = n->spare;
    c.seed = uw_rng_mix(c.seed, n->place);
    c.event_arg = n;
    set_cell(w, s, &c);
    uw_arena_init(&arena, s->memory, e->node_bytes);
    int rc = uw_node_bind(&n->node, &c, &arena, err);
    uw_arena_seal(&arena);
    return rc;
}

static int open_seats(struct uw_world *w, struct uw_error *err)
{
    struct state *e = w->state;
    uint32_t nodes = w->config.fleet->devices_n;
    uint32_t seeds_n = common_config(&w->config).seeds_n;
    for (uint32_t i = 0; i < nodes; i++) {
        struct seat *s = &e->seats[i];
        s->node = &w->nodes[i];
        s->memory = e->arenas + i * e->node_bytes;
        s->net_at_us = UINT64_MAX;
        write_name(&w->config, i, s->name);
        snprintf(s->address, sizeof s->address, "%u", (unsigned)i);
    }
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && i < nodes; i++) {
        if (w->config.node.seeds == NULL) {
            choose_seeds(w, &e->seats[i], seeds_n);
        }
        rc = bind_seat(w, &e->seats[i], err);
    }
    return rc;
}

static int events_open(struct uw_world *w, struct uw_error *err)
{
    const struct uw_world_config *c = &w->config;
    uint32_t nodes = c->fleet->devices_n;
    struct state *e = w->state = calloc(1, sizeof *e);
    if (e == NULL) {
        return UW_ERR_NOMEM;
    }
    int rc = measure_node(c, &e->node_bytes, err);
    if (rc < 0) {
        return rc;
    }
    const struct uw_sim_net_config net = {
        .fleet = c->fleet, .mtu_bytes = c->mtu_bytes, .seed = c->node.seed,
        .radio = c->radio};
    e->arenas = uw_sim_block_take(uw_size_mul(e->node_bytes, nodes));
    e->seats = calloc(nodes, sizeof *e->seats);
    e->rows = calloc(c->members_max, sizeof *e->rows);
    if (e->arenas == NULL || e->seats == NULL || e->rows == NULL) {
        return UW_ERR_NOMEM;
    }
    rc = uw_sim_net_open(&e->net, &net);
    rc = rc < 0 ? rc : uw_sim_clock_open(&e->clock, nodes);
    return rc < 0 ? rc : open_seats(w, err);
}

/* ---- when a node is due ---- */

/* Set a node's entry in the clock. */
static void set_due(struct uw_world *w, struct seat *s)
{
    struct state *e = w->state;
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

/* Report on_touch if what has arrived may change the training's vectors. */
static void report_touch(struct uw_world *w, struct seat *s)
{
    if (s->untouched && uw_node_touches(&s->node->node)) {
        s->untouched = false;
        w->config.on_touch(w->config.touch_arg, s->node->place);
    }
}

/* Whether a node leaves after its last step: with exact averages it does, so that no node waits for
 * it; with gossip it stays. */
static bool leaves(const struct uw_world *w, const struct seat *s)
{
    const struct uw_node_config *c = &w->config.node;
    return !s->active && !s->away && (c->mode != UW_NODE_GOSSIP || uw_world_pairs(c)) &&
           ((const struct state *)w->state)->training &&
           !uw_node_owes(&s->node->node);
}

/* Step a node's network; if it waits for an average, check whether that is done. */
static void step_network(struct uw_world *w, struct seat *s)
{
    struct uw_world_node *n = s->node;
    if (leaves(w, s)) {
        uw_node_leave(&n->node, w->now_us);
    }
    uint64_t next_us = uw_node_step(&n->node, w->now_us);
    report_touch(w, s);
    if (n->waits) {
        n->train_at_us = w->now_us;
        next_us = next_us < w->now_us + LOOK_AVERAGE_US ? next_us : w->now_us + LOOK_AVERAGE_US;
    }
    s->net_at_us = next_us > w->now_us ? next_us : w->now_us + 1u;
    set_due(w, s);
}

static void go_away(struct uw_world *w, struct seat *s)
{
    struct state *e = w->state;
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

static void come_back(struct uw_world *w, struct seat *s)
{
    struct state *e = w->state;
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

/* Process the next event. If it is of training, only return the node. */
static struct uw_world_node *next_event(struct uw_world *w)
{
    struct state *e = w->state;
    const struct uw_sim_due due = *uw_sim_clock_first(&e->clock);
    uint64_t message_us = uw_sim_net_next_us(&e->net);
    struct seat *s = &e->seats[due.place];
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

static uint64_t next_event_us(const struct state *e)
{
    uint64_t message_us = uw_sim_net_next_us(&e->net);
    uint64_t due_us = uw_sim_clock_first(&e->clock)->at_us;
    return message_us < due_us ? message_us : due_us;
}

/* Whether it has met enough others. */
static bool has_met(const struct uw_world *w, const struct seat *s)
{
    struct state *e = w->state;
    uint32_t max = w->config.members_max, met = 0;
    uint32_t want = max >= w->config.fleet->devices_n ? w->config.fleet->devices_n - 1u : max / 2u;
    uint32_t n = uw_node_status(&s->node->node, w->now_us, e->rows, max, NULL);
    for (uint32_t k = 1; k < n; k++) {
        met += e->rows[k].state == UW_MEMBER_ALIVE && e->rows[k].version != 0;
    }
    return met >= want;
}

static int begin(struct uw_world *w, struct seat *s)
{
    const struct uw_node_progress fresh = {.step = 0};
    uw_attack_show(w, s->node);
    int rc = uw_node_after_step(&s->node->node, &fresh);
    s->net_at_us = w->now_us;
    set_due(w, s);
    return rc < 0 ? rc : UW_OK;
}

/* Its first step, or what is left of the one that it was in. What its absences until then have
 * delayed is in that. */
static void begin_training(struct uw_world *w, struct seat *s)
{
    struct state *e = w->state;
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
    struct state *e = w->state;
    uint32_t nodes = w->config.fleet->devices_n, met = 0;
    uint64_t end_us = w->now_us + limit_us;
    uint64_t look_us = w->now_us;
    for (uint32_t i = 0; i < nodes; i++) {
        int rc = begin(w, &e->seats[i]);
        if (rc < 0) {
            return rc;
        }
    }
    /* A node that has met the others is not checked again: a check costs what is left to do. */
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

/* Notice nodes whose training the caller has ended by setting train_at_us. */
static void notice_changes(struct uw_world *w)
{
    struct state *e = w->state;
    while (e->changed != NULL) {
        struct seat *s = e->changed;
        e->changed = s->next_changed;
        s->next_changed = NULL;
        s->listed = false;
        if (s->node->train_at_us != s->train_known_us) {
            s->net_at_us = w->now_us;       /* the wait may be over */
            set_due(w, s);
        }
    }
}

static bool interrupted(const struct uw_world *w)
{
    struct state *e = w->state;
    const struct uw_world_config *c = &w->config;
    return ++e->events_n % ASKED_EVENTS == 0 && c->interrupts != NULL &&
           c->interrupts(c->interrupt_arg);
}

static struct uw_world_node *events_next(struct uw_world *w)
{
    const struct state *e = w->state;
    struct uw_world_node *n = NULL;
    notice_changes(w);
    while (n == NULL && e->active_n != 0 && !interrupted(w)) {
        n = next_event(w);
    }
    return n;
}

static int restart(struct uw_world *w, struct seat *s)
{
    struct uw_world_node *n = s->node;
    struct uw_node_counters c;
    (void)uw_node_status(&n->node, w->now_us, NULL, 0, &c);
    uw_counters_add(&s->counted, &c);
    uw_world_node_reset(n);
    n->restarted = n->waits = false;
    n->restarts++;
    int rc = bind_seat(w, s, NULL);
    return rc < 0 ? rc : UW_OK;
}

static int events_trained(struct uw_world *w, struct uw_world_node *n,
                          const struct uw_node_progress *progress, uint64_t pause_us)
{
    struct state *e = w->state;
    struct seat *s = &e->seats[n->place];
    bool waited = n->waits;
    int rc = n->restarted ? restart(w, s) : UW_OK;
    uw_attack_show(w, n);
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
    const struct state *e = w->state;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        sum += e->net.links[i].link.stats.sent_bytes - e->seats[i].sent_before;
    }
    return sum;
}

void uw_world_air(const struct uw_world *w, uint64_t *busy_us, uint64_t *frames_n)
{
    const struct state *e = w->state;
    *busy_us = e->net.air.busy_us;
    *frames_n = e->net.air.frames_n;
}

static struct uw_node_counters events_counters(const struct uw_world *w)
{
    const struct state *e = w->state;
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
    struct state *e = w->state;
    if (e == NULL) {
        return;
    }
    uw_sim_net_close(&e->net);
    uw_sim_clock_close(&e->clock);
    free(e->rows);
    uw_sim_block_give(e->arenas, uw_size_mul(e->node_bytes, w->config.fleet->devices_n));
    free(e->seats);
    free(e);
    w->state = NULL;
}

const struct uw_world_ops uw_world_events = {
    .defaults = events_defaults,
    .measure = events_measure,
    .open = events_open,
    .meet = events_meet,
    .next = events_next,
    .trained = events_trained,
    .touches = events_touches,
    .agree = events_agree,
    .sent_bytes = events_sent_bytes,
    .counters = events_counters,
    .close = events_close,
};
