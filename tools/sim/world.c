/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_world.h"

#include "uwasa/arena.h"
#include "uwasa/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_N 128u                /* messages on their way from a node, and arrived at it */
#define QUEUE_US 50000u             /* of the rate: what may wait in front of a slow link ... */
#define QUEUE_MIN 8u                /* ... but so many messages at least ... */
#define QUEUE_MAX_BYTES (1u << 20)  /* ... and so many bytes at most */

static struct uw_impairment path_of(const struct uw_world_config *c)
{
    uint64_t queue = c->bandwidth / 8u * QUEUE_US / 1000000u;
    queue = queue < QUEUE_MAX_BYTES ? queue : QUEUE_MAX_BYTES;
    uint64_t least = (uint64_t)QUEUE_MIN * c->mtu_bytes;
    return (struct uw_impairment){.delay_us = c->latency_us,
                                  .rate_bits_per_s = c->bandwidth,
                                  .rate_queue_bytes = (uint32_t)(queue > least ? queue : least)};
}

static int open_hub(struct uw_world *w)
{
    const struct uw_world_config *c = &w->config;
    struct uw_loopback_config hub = {
        .endpoints_n = (uint16_t)c->nodes_n, .mtu_bytes = c->mtu_bytes, .queue_n = QUEUE_N};
    hub.memory_bytes = uw_loopback_hub_bytes(&hub);
    hub.memory = w->hub_memory = malloc(hub.memory_bytes);
    w->nodes = calloc(c->nodes_n, sizeof *w->nodes);
    w->rows = calloc(c->nodes_n, sizeof *w->rows);
    if (w->nodes == NULL || w->rows == NULL || hub.memory == NULL) {
        return UW_ERR_NOMEM;
    }
    return uw_loopback_hub_init(&w->hub, &hub);
}

static int open_vectors(struct uw_world *w, struct uw_world_node *n)
{
    const struct uw_params *p = w->config.params;
    const struct uw_mix_rule *rule = w->config.node.rule;
    n->vectors = calloc(5u, p->size_n * sizeof(float));
    if (n->vectors == NULL) {
        return UW_ERR_NOMEM;
    }
    n->x = n->vectors;
    memcpy(n->x, p->x, p->size_n * sizeof(float));
    n->params = *p;
    n->params.x = n->x;
    n->snapshot.data = n->vectors + p->size_n;
    n->snapshot.size_n = p->size_n;
    atomic_flag_clear(&n->snapshot.busy);
    if (rule != NULL && rule->velocity) {
        n->velocity = n->vectors + 2u * (size_t)p->size_n;
    }
    return UW_OK;
}

static int open_link(struct uw_world *w, struct uw_world_node *n)
{
    int rc = uw_link_loopback_init(&n->loopback, &w->hub, (uint16_t)n->place);
    if (rc < 0) {
        return rc;
    }
    struct uw_link_emulated_config c = {.lower = &n->loopback.link,
                                        .queue_n = QUEUE_N,
                                        .seed = uw_rng_mix(w->config.node.seed, n->place),
                                        .send = path_of(&w->config)};
    c.memory_bytes = uw_link_emulated_bytes(&c);
    c.memory = n->link_memory = malloc(c.memory_bytes);
    return c.memory != NULL ? uw_link_emulated_init(&n->emulated, &c) : UW_ERR_NOMEM;
}

static void tell(void *arg, const struct uw_node_event *event)
{
    const struct uw_world_node *n = arg;
    n->config->on_event(n->config->event_arg, n->place, event);
}

static int open_node(struct uw_world *w, struct uw_world_node *n, struct uw_error *err)
{
    static const char *const seeds[] = {"0"};
    struct uw_node_config c = w->config.node;
    struct uw_arena arena;
    size_t bytes = 0;
    snprintf(n->name, sizeof n->name, "node%u", (unsigned)n->place);
    snprintf(n->address, sizeof n->address, "%u", (unsigned)n->place);
    c.name = n->name;
    c.address = n->address;
    c.seeds = seeds;
    c.seeds_n = 1;
    c.incarnation = 1;
    c.link = &n->emulated.link;
    c.params = &n->params;
    c.snapshot = &n->snapshot;
    c.velocity = n->velocity;
    c.seed = uw_rng_mix(c.seed, n->place);
    c.members_max = w->config.nodes_n;
    if (w->config.on_event != NULL) {
        n->config = &w->config;
        c.on_event = tell;
        c.event_arg = n;
    }
    if (w->config.cell_n != 0) {
        uint32_t cell = n->place / w->config.cell_n;
        uint32_t left = w->config.nodes_n - cell * w->config.cell_n;
        snprintf(n->cell, sizeof n->cell, "cell%u", (unsigned)cell);
        c.cell = n->cell;
        c.cell_first_n = left < w->config.cell_n ? left : w->config.cell_n;
    }
    n->spare = c.spare = n->vectors + 3u * (size_t)c.params->size_n;
    int rc = uw_node_measure(&c, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    bytes += uw_arena_slack_bytes();
    n->node_memory = malloc(bytes);
    if (n->node_memory == NULL) {
        return UW_ERR_NOMEM;
    }
    uw_arena_init(&arena, n->node_memory, bytes);
    rc = uw_node_bind(&n->node, &c, &arena, err);
    uw_arena_seal(&arena);
    return rc;
}

int uw_world_open(struct uw_world *w, const struct uw_world_config *config, struct uw_error *err)
{
    *w = (struct uw_world){.config = *config, .now_us = 1};
    int rc = open_hub(w);
    for (uint32_t i = 0; rc == UW_OK && i < config->nodes_n; i++) {
        struct uw_world_node *n = &w->nodes[i];
        n->place = i;
        n->train_at_us = UINT64_MAX;
        rc = open_vectors(w, n);
        rc = rc < 0 ? rc : open_link(w, n);
        rc = rc < 0 ? rc : open_node(w, n, err);
    }
    if (rc < 0 && err->text[0] == '\0') {
        return uw_error_set(err, rc, "%u nodes: %s", (unsigned)config->nodes_n,
                            uw_status_text(rc));
    }
    return rc;
}

/* What comes first on the clock. */
struct next {
    struct uw_world_node *network, *trains;     /* NULL: nobody's */
    uint64_t network_us, train_us;
    bool waits;                                 /* somebody does */
};

/* A message wakes its receiver. */
static struct next look_ahead(struct uw_world *w)
{
    struct next first = {.network_us = UINT64_MAX, .train_us = UINT64_MAX};
    for (uint32_t i = 0; i < w->config.nodes_n; i++) {
        struct uw_world_node *n = &w->nodes[i];
        uint64_t due_us = uw_link_loopback_waiting(&n->loopback) ? w->now_us : n->net_at_us;
        if (due_us < first.network_us) {
            first.network_us = due_us;
            first.network = n;
        }
        if (n->train_at_us < first.train_us) {
            first.train_us = n->train_at_us;
            first.trains = n;
        }
        first.waits = first.waits || n->waits;
    }
    return first;
}

/* Who waits for an average looks whether it is there. */
static void step_network(struct uw_world *w, const struct next *next)
{
    struct uw_world_node *n = next->network;
    w->now_us = next->network_us > w->now_us ? next->network_us : w->now_us;
    uint64_t next_us = uw_node_step(&n->node, w->now_us);
    n->net_at_us = next_us > w->now_us ? next_us : w->now_us + 1u;
    n->train_at_us = n->waits ? w->now_us : n->train_at_us;
}

static bool all_met(struct uw_world *w)
{
    uint32_t nodes = w->config.nodes_n;
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t met = 0;
        uint32_t n = uw_node_status(&w->nodes[i].node, w->now_us, w->rows, nodes, NULL);
        for (uint32_t k = 1; k < n; k++) {
            met += w->rows[k].state == UW_MEMBER_ALIVE && w->rows[k].version != 0;
        }
        if (met + 1u < nodes) {
            return false;
        }
    }
    return true;
}

int uw_world_meet(struct uw_world *w, uint64_t limit_us)
{
    const struct uw_node_progress fresh = {.step = 0};
    uint64_t end_us = w->now_us + limit_us;
    uint64_t look_us = 0;
    for (uint32_t i = 0; i < w->config.nodes_n; i++) {
        int rc = uw_node_after_step(&w->nodes[i].node, &fresh);
        if (rc < 0) {
            return rc;
        }
    }
    bool met = false;
    while (!met && w->now_us < end_us) {
        const struct next next = look_ahead(w);
        step_network(w, &next);
        if (w->now_us >= look_us) {
            met = all_met(w);
            look_us = w->now_us + 10000u;
        }
    }
    w->start_us = w->now_us;
    for (uint32_t i = 0; i < w->config.nodes_n; i++) {
        struct uw_world_node *n = &w->nodes[i];
        n->sent_before = n->emulated.link.stats.sent_bytes;
        n->train_at_us = w->now_us + w->config.step_us;
    }
    return met ? UW_OK : UW_ERR_AGAIN;
}

struct uw_world_node *uw_world_next(struct uw_world *w)
{
    struct next next = look_ahead(w);
    /* At the same time training comes first: what it publishes is there for whoever asks then. */
    while (next.network_us < next.train_us && (next.trains != NULL || next.waits)) {
        step_network(w, &next);
        next = look_ahead(w);
    }
    if (next.trains != NULL) {
        w->now_us = next.train_us > w->now_us ? next.train_us : w->now_us;
    }
    return next.trains;
}

int uw_world_trained(struct uw_world *w, struct uw_world_node *n,
                     const struct uw_node_progress *progress, uint64_t pause_us)
{
    int flags = uw_node_after_step(&n->node, progress);
    if (flags > 0 && !n->waits) {
        n->net_at_us = w->now_us;
    }
    n->waits = flags > 0 && (flags & UW_NODE_AVERAGING) != 0;
    n->train_at_us =
        n->waits ? UINT64_MAX : w->now_us + (pause_us != 0 ? pause_us : w->config.step_us);
    return flags;
}

/* An average goes back to the copy in spare, without one to the snapshot; pairs leave x alone. */
const float *uw_world_model(const struct uw_world *w, const struct uw_world_node *n)
{
    const struct uw_mix_rule *rule = w->config.node.rule;
    if (!n->waits || (rule != NULL && rule->over == UW_MIX_OVER_PAIRS)) {
        return n->x;
    }
    return n->spare != NULL ? n->spare : n->snapshot.data;
}

uint64_t uw_world_sent_bytes(const struct uw_world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->config.nodes_n; i++) {
        sum += w->nodes[i].emulated.link.stats.sent_bytes - w->nodes[i].sent_before;
    }
    return sum;
}

struct uw_node_counters uw_world_counters(const struct uw_world *w)
{
    struct uw_node_counters sum = {.sent_bytes = 0};
    for (uint32_t i = 0; i < w->config.nodes_n; i++) {
        struct uw_node_counters c;
        (void)uw_node_status(&w->nodes[i].node, w->now_us, NULL, 0, &c);
        sum.pulls_done += c.pulls_done;
        sum.pulls_cut += c.pulls_cut;
        sum.pulls_refused += c.pulls_refused;
        sum.averages_done += c.averages_done;
        sum.averages_cut += c.averages_cut;
        sum.pairs_half += c.pairs_half;
        sum.refused_outlier += c.refused_outlier;
        sum.chunks_again += c.chunks_again;
        sum.pulled_bytes += c.pulled_bytes;
    }
    return sum;
}

void uw_world_close(struct uw_world *w)
{
    for (uint32_t i = 0; w->nodes != NULL && i < w->config.nodes_n; i++) {
        struct uw_world_node *n = &w->nodes[i];
        uw_link_deinit(&n->emulated.link);
        uw_link_deinit(&n->loopback.link);
        free(n->node_memory);
        free(n->link_memory);
        free(n->vectors);
    }
    free(w->rows);
    free(w->nodes);
    free(w->hub_memory);
    *w = (struct uw_world){.nodes = NULL};
}
