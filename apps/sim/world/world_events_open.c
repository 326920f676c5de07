/* SPDX-License-Identifier: Apache-2.0 */
#include "world_events.h"

#include "block.h"
#include "medium/medium_radio.h"

#include "uwasa/arena.h"
#include "uwasa/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_ALL 64u             /* so many nodes all know each other */
#define MEMBERS_SOME 32u            /* of more, where some will do: what nodes have by themselves */
#define MATES 8u                    /* of its cell among a node's seeds */
#define WINDOW_BYTES (512u * 1024u) /* of chunks, as nodes have by themselves */
#define WINDOWS_BYTES (512u << 20)  /* of all nodes together */
#define WINDOW_HEAD_BYTES 32u       /* more than a chunk's message has beside floats */
#define STATIONS_MAX 65534u         /* the two highest numbers of a link mean something else */
#define POLL_US 60000000u           /* the world calls a node as soon as training asks */
#define SEEDS_STREAM 0x5eed5u

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

/* Schedules other than the random one, and pairs, need all nodes to see the same members. */
static bool some_will_do(const struct uw_node_config *c)
{
    bool pairs = c->rule != NULL && c->rule->over == UW_MIX_OVER_PAIRS;
    bool random = c->schedule == NULL || c->schedule == &uw_peer_schedule_random;
    return c->mode != UW_NODE_ALLREDUCE && random && !pairs && !c->agree;
}

static bool averages(const struct uw_node_config *c)
{
    bool pairs = c->rule != NULL && c->rule->over == UW_MIX_OVER_PAIRS;
    return (c->mode != UW_NODE_GOSSIP && c->mode != UW_NODE_BROADCAST) || pairs || c->agree;
}

static size_t min_bytes(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A ring that holds a model is never waited for, and a larger one is no better. */
static void set_window(struct uw_world_config *c)
{
    c->mtu_bytes = c->radio != NULL ? uw_sim_radio_mtu(c->radio) : c->mtu_bytes;
    size_t chunk = c->mtu_bytes > WINDOW_HEAD_BYTES ? c->mtu_bytes - WINDOW_HEAD_BYTES : 1u;
    size_t chunks = (c->params->size_n * sizeof(float) + chunk - 1u) / chunk;
    size_t model = uw_size_mul(chunks, c->mtu_bytes), share = WINDOWS_BYTES / c->fleet->devices_n;
    if (c->node.window_bytes == 0) {
        c->node.window_bytes = min_bytes(min_bytes(model, WINDOW_BYTES), share);
    } else if (!averages(&c->node)) {
        c->node.window_bytes = min_bytes(model, c->node.window_bytes);
    }
}

void uw_world_events_defaults(struct uw_world_config *c)
{
    uint32_t nodes = c->fleet->devices_n;
    if (c->members_max == 0) {
        uint32_t cell = averages(&c->node) ? 2u * largest_cell(c->fleet) : 0;
        uint32_t some = cell > MEMBERS_SOME ? cell : MEMBERS_SOME;
        c->members_max = nodes > MEMBERS_ALL && some_will_do(&c->node) ? some : nodes;
    }
    c->members_max = min_u32(c->members_max, nodes);
    set_window(c);
}

static bool knows_all(const struct uw_world_config *c)
{
    return c->members_max >= c->fleet->devices_n;
}

static void tell(void *arg, const struct uw_node_event *event)
{
    const struct uw_world_node *n = arg;
    const struct uw_world_config *c = &n->world->config;
    c->on_event(c->event_arg, n->place, event);
}

/* What all nodes' memory depends on. */
static struct uw_node_config common_config(const struct uw_world_config *world)
{
    struct uw_node_config c = world->node;
    c.parts = &uw_node_parts_all;
    c.incarnation = 1;
    c.members_max = world->members_max;
    c.on_event = world->on_event != NULL ? tell : NULL;
    if (c.seeds == NULL && world->radio == NULL) {      /* on a radio all hear each other */
        c.seeds_n = knows_all(world) ? 1u : min_u32(UW_SEAT_SEEDS, world->fleet->devices_n - 1u);
    }
    c.poll_us = averages(&c) ? 0 : POLL_US;
    return c;
}

/* On a radio a node is its number, and has no address beside: frames of 51 bytes carry all that it
 * tells of itself with a name of 4 characters. */
static void write_name(const struct uw_world_config *world, uint32_t i,
                       char name[UW_SEAT_NAME_BYTES])
{
    snprintf(name, UW_SEAT_NAME_BYTES, "%s%u", world->radio != NULL ? "" : "node", (unsigned)i);
}

/* One node's memory: the texts are as long as they get, the vectors do not matter. */
static int measure_node(const struct uw_world_config *world, size_t *bytes, struct uw_error *err)
{
    static const char *const seeds[UW_SEAT_SEEDS] = {"65533"};
    char name[UW_SEAT_NAME_BYTES];
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

/* Chunks that are asked for have room where they go, so that they are a window a node at most; they
 * take turns with what has arrived, and half of it is a guess. */
static size_t messages_bytes(const struct uw_world_config *c)
{
    size_t model = c->params->size_n * sizeof(float);
    size_t window = c->node.window_bytes < model ? c->node.window_bytes : model;
    return uw_size_mul(window / 2u + 2u * c->mtu_bytes, c->fleet->devices_n);
}

int uw_world_events_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err)
{
    size_t node = 0;
    if (c->fleet->devices_n > STATIONS_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%u nodes: the network of events has room for %u",
                            (unsigned)c->fleet->devices_n, STATIONS_MAX);
    }
    int rc = measure_node(c, &node, err);
    node += sizeof(struct uw_seat) + sizeof(struct uw_sim_link) + sizeof(struct uw_sim_due) +
            sizeof(uint32_t);
    size_t all = uw_size_mul(node, c->fleet->devices_n);
    size_t more = c->members_max * sizeof(struct uw_node_member) + messages_bytes(c) +
                  c->fleet->cells_n * sizeof(struct uw_sim_net_cell);
    *bytes = all > SIZE_MAX - more ? SIZE_MAX : all + more;
    return rc;
}

/* ---- whom a node knows at first ---- */

static bool is_seed(const struct uw_seat *s, uint32_t n, const char *address)
{
    for (uint32_t i = 0; i < n; i++) {
        if (s->seeds[i] == address) {
            return true;
        }
    }
    return s->address == address;
}

/* Some of its cell, then others at random. */
static void choose_seeds(const struct uw_world *w, struct uw_seat *s, uint32_t seeds_n)
{
    const struct uw_world_events_state *e = w->state;
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

/* Averages wait for the whole cell, or for all, before the first. */
static void set_cell(const struct uw_world *w, struct uw_seat *s, struct uw_node_config *c)
{
    const struct uw_world_events_state *e = w->state;
    const struct uw_sim_fleet *f = w->config.fleet;
    uint32_t cell = f->devices[s->node->place].cell;
    if (c->mode == UW_NODE_ALLREDUCE) {
        c->cell_first_n = f->devices_n;
    } else if (c->mode == UW_NODE_HIERARCHICAL && cell != UW_SIM_NO_CELL) {
        snprintf(s->cell, sizeof s->cell, "cell%u", (unsigned)cell);
        c->cell = s->cell;
        c->cell_first_n = e->cell_sizes[cell];
    }
}

int uw_seat_bind(struct uw_world *w, struct uw_seat *s, struct uw_error *err)
{
    struct uw_world_events_state *e = w->state;
    struct uw_world_node *n = s->node;
    struct uw_node_config c = common_config(&w->config);
    struct uw_arena arena;
    c.name = s->name;
    c.address = w->config.radio != NULL ? NULL : s->address;
    c.seeds = c.seeds != NULL ? c.seeds : s->seeds;
    c.incarnation += n->restarts;
    c.newcomer = c.newcomer || n->restarts != 0;
    c.link = &e->net.links[n->place].link;
    c.params = &n->params;
    c.snapshot = &n->snapshot;
    c.velocity = n->velocity;
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
    struct uw_world_events_state *e = w->state;
    uint32_t nodes = w->config.fleet->devices_n;
    uint32_t seeds_n = common_config(&w->config).seeds_n;
    for (uint32_t i = 0; i < nodes; i++) {
        struct uw_seat *s = &e->seats[i];
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
        rc = uw_seat_bind(w, &e->seats[i], err);
    }
    return rc;
}

int uw_world_events_open(struct uw_world *w, struct uw_error *err)
{
    const struct uw_world_config *c = &w->config;
    uint32_t nodes = c->fleet->devices_n;
    struct uw_world_events_state *e = w->state = calloc(1, sizeof *e);
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
    e->cell_sizes = calloc(c->fleet->cells_n + 1u, sizeof *e->cell_sizes);
    if (e->arenas == NULL || e->seats == NULL || e->rows == NULL || e->cell_sizes == NULL) {
        return UW_ERR_NOMEM;
    }
    uw_sim_fleet_count(c->fleet, e->cell_sizes);
    rc = uw_sim_net_open(&e->net, &net);
    rc = rc < 0 ? rc : uw_sim_clock_open(&e->clock, nodes);
    return rc < 0 ? rc : open_seats(w, err);
}
