/* SPDX-License-Identifier: Apache-2.0
 *
 * A network model in which exchanges take the time of cost formulas: set-up, alarms, partners.
 * Gossip is in formula_gossip.c, formula_push.c and formula_relay.c, averages and pairs are in
 * formula_average.c.
 *
 * There are no packets, no membership and no contention. Every node knows all others from the
 * start. An exchange takes the seconds of uwasa/sim_cost.h. Its effect on parameters is that of the
 * library's rules and schedules (uwasa/mix.h, uwasa/peer_schedule.h); its timing follows
 * net/gossip/gossip.c, net/gossip/average.c and net/node_exact/node_bridge.c:
 *
 *     gossip        every T local steps a node publishes its parameters and requests those of a
 *                   peer, while it goes on training. The request takes L. Then the peer sends what
 *                   it has published, as a real node begins to serve at that time. The answer
 *                   arrives L + G/B later and is mixed at the end of the next local step. The
 *                   round ends then or after T steps, whichever is later. With pull_waits the node
 *                   does no step until the answer has arrived and is mixed
 *     allreduce     a node that has done T steps waits for all others; the average takes the
 *                   formula's seconds from the arrival of the last node
 *     hierarchical  the same in every cell of the fleet; a device without a cell is a cell of its
 *                   own. Meanwhile the first device of a cell pulls from the first device of any
 *                   other cell; the difference w (s_peer - s) enters the cell's next average
 *     pairs         (rules over pairs) both nodes wait for each other, and then L + 2 G/B
 *     push          (formula_push.c) every T steps a node sends what it has published. L + G/B
 *                   later it arrives; it is mixed at the end of the receiver's step
 *     relay         (formula_relay.c) as gossip, with a pull from each neighbour in a round
 *
 * A device's share of losses is that of whole exchanges: of its pulls, its pushes, its pairs, and
 * of the averages of the group whose head it is. They take their time and change nothing.
 *
 * The first round of gossip has no pull: all nodes still have the same parameters. Nodes that have
 * done their last step are not waited for; an average of the others takes as long as one of all.
 *
 * Snapshots come from a reference-counted pool: one in transit is copied only if its owner
 * publishes meanwhile, and nodes that have just averaged share one. The pool is reserved for the
 * worst case, two per node with gossip, else one, but memory is used only as needed. An event costs
 * O(log nodes), plus the vectors. */
#include "formula_priv.h"

#include "uwasa/arena.h"
#include "uwasa/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_STEPS 10u
#define WEIGHT 0.5f

/* ---- alarms: of a group's or a pair's average, of a node's step, of its pull ---- */

static uint32_t step_alarm(const struct uw_formula *f, const struct uw_formula_node *n)
{
    return f->ends_n + n->w->place;
}

uint32_t uw_formula_pull_alarm(const struct uw_formula *f, const struct uw_formula_node *n)
{
    return f->ends_n + f->nodes_n + n->w->place;
}

void uw_formula_alarm(struct uw_formula *f, uint32_t alarm, uint64_t due_us)
{
    if (alarm < f->ends_n + f->nodes_n || f->world->config.pull_waits) {
        f->busy_n -= f->clock.heap[f->clock.where[alarm]].at_us != UINT64_MAX ? 1u : 0u;
        f->busy_n += due_us != UINT64_MAX ? 1u : 0u;
    }
    uw_sim_clock_set(&f->clock, alarm, due_us, UW_SIM_TRAINS);
}

/* Set the alarm for the end of a node's step. */
static void set_step(struct uw_formula *f, struct uw_formula_node *n, uint64_t at_us)
{
    n->w->train_at_us = at_us;
    uw_formula_alarm(f, step_alarm(f, n), at_us);
}

void uw_formula_report(const struct uw_formula *f, enum uw_node_event_kind kind,
                       const struct uw_formula_node *n, uint32_t peer, uint32_t nodes_n,
                       uint64_t took_us)
{
    const struct uw_world_config *c = &f->world->config;
    char name[16] = "";
    if (c->on_event == NULL) {
        return;
    }
    bool one = peer != NONE;
    if (one) {
        snprintf(name, sizeof name, "node%u", (unsigned)peer);
    }
    const struct uw_node_event event = {
        .kind = kind, .peer = name, .address = "", .text = "", .station = UW_LINK_STATION_NONE,
        .now_us = f->world->now_us,
        .bytes = (uint64_t)f->model_bytes * (f->pairs && one ? 2u : 1u),
        .duration_us = took_us, .chunks_n = nodes_n, .chunks_total_n = nodes_n};
    c->on_event(c->event_arg, n->w->place, &event);
}

void uw_formula_wake(struct uw_formula *f, struct uw_formula_node *n, int flags, uint64_t at_us)
{
    n->averaged = true;
    n->flags = flags;
    set_step(f, n, at_us);
}

bool uw_formula_loses(struct uw_formula *f, struct uw_formula_node *n)
{
    float loss = f->world->config.fleet->devices[n->w->place].loss;
    return loss > 0.0f && uw_rng_uniform(&n->rng) < loss;
}

/* ---- snapshots ---- */

void uw_formula_publish(struct uw_formula *f, struct uw_formula_node *n)
{
    uw_snapshot_write(&f->pool, &n->shown, n->w->x);
}

void uw_formula_share(struct uw_formula *f, struct uw_formula_node *n,
                      const struct uw_formula_node *other)
{
    uw_snapshot_drop(&f->pool, &n->shown);
    n->shown = uw_snapshot_hold(&f->pool, other->shown);
}

void uw_formula_end_rule(struct uw_formula *f, struct uw_formula_node *n)
{
    uw_mix_end(f->c->rule, &f->c->constants, &n->w->params, f->pool.x[n->shown], n->w->velocity,
               n->lr_sum, n->recent);
}

void uw_formula_clear_steps(struct uw_formula_node *n)
{
    n->steps = 0;
    n->lr_sum = 0.0f;
}

/* ---- partners ---- */

/* As uw_peer_view.id. */
static uint32_t id_of(const void *arg, uint32_t at)
{
    return ((const struct uw_formula *)arg)->id[at];
}

static struct uw_peer_view view_of(const struct uw_formula *f, const struct uw_formula_node *n)
{
    return (struct uw_peer_view){.n = f->nodes_n, .self = n->w->place, .usable = f->usable,
                                 .round = n->round, .seed = f->c->seed,
                                 .graph = f->c->graph, .id = id_of, .arg = f};
}

uint32_t uw_formula_degree(struct uw_formula *f, struct uw_formula_node *n)
{
    const struct uw_peer_view view = view_of(f, n);
    return f->c->schedule->degree(&view);
}

uint32_t uw_formula_pick(struct uw_formula *f, struct uw_formula_node *n, float *weight)
{
    uint32_t place = n->w->place;
    *weight = 0.0f;
    if (f->nodes_n < 2) {
        return NONE;
    }
    if (f->c->schedule == &uw_peer_schedule_random) {
        /* The same choice as if all reachable nodes were listed, without listing them. */
        uint32_t at = uw_rng_below(&n->rng, f->nodes_n - 1u);
        return at + (at >= place ? 1u : 0u);
    }
    const struct uw_peer_view view = view_of(f, n);
    struct uw_peer_choice choice = f->c->schedule->pick(&view, &n->rng);
    *weight = choice.weight;
    return choice.at < f->nodes_n ? choice.at : NONE;
}

/* ---- set-up ---- */

static bool averages(const struct uw_formula *f)
{
    return f->c->mode != UW_NODE_GOSSIP || f->pairs;
}

static bool pushes(const struct uw_formula *f)
{
    return f->c->gossip == UW_GOSSIP_PUSH || f->c->gossip == UW_GOSSIP_PUSH_SUM;
}

static void formula_defaults(struct uw_world_config *c)
{
    struct uw_node_config *n = &c->node;
    n->schedule = n->schedule != NULL ? n->schedule : &uw_peer_schedule_random;
    n->period_steps = n->period_steps != 0 ? n->period_steps : PERIOD_STEPS;
    n->constants.weight = n->constants.weight != 0.0f ? n->constants.weight : WEIGHT;
    c->model_bytes = c->model_bytes != 0 ? c->model_bytes : c->params->size_n * sizeof(float);
    c->members_max = c->fleet->devices_n;
}

/* Number of snapshots in addition to those of the nodes. Gossip: one pull per node, with pushes its
 * inbox, with relays what two neighbours sent on average. Averages: three pulls per head. */
static uint32_t pulls_of(const struct uw_world_config *c, uint32_t groups_n)
{
    static const uint32_t of_node[] = {1, 2, 2, 3};
    return c->node.mode == UW_NODE_GOSSIP && !uw_world_pairs(&c->node)
               ? of_node[c->node.gossip] * c->fleet->devices_n : 3u * groups_n;
}

static int formula_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err)
{
    uint32_t nodes = c->fleet->devices_n;
    uint32_t groups_n = c->node.mode == UW_NODE_HIERARCHICAL ? nodes : 1u;
    size_t each = sizeof(struct uw_formula_node) + sizeof(struct uw_world_group) +
                  3u * (sizeof(struct uw_sim_due) + 4u) + 2u * sizeof(float *) +
                  8u * sizeof(uint32_t);
    size_t vectors = pulls_of(c, groups_n) + (uw_world_pairs(&c->node) ? 4u : 0);
    size_t rest = nodes * each;
    for (uint32_t i = 0; i < nodes; i++) {
        if (c->fleet->devices[i].attack != UW_SIM_HONEST) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED, "\"attack\" needs the network of events");
        }
    }
    *bytes = uw_size_mul(vectors, c->params->size_n * sizeof(float));
    *bytes = *bytes > SIZE_MAX - rest ? SIZE_MAX : *bytes + rest;
    return UW_OK;
}

static int check(const struct uw_world_config *c, struct uw_error *err)
{
    if (c->node.mode == UW_NODE_AUTO) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "nodes find their cells by messages, which the formula network does "
                            "not have: use --network events, or --exchange hierarchical");
    }
    for (uint32_t i = 0; i < c->fleet->devices_n; i++) {
        const struct uw_sim_device *d = &c->fleet->devices[i];
        if (d->absences_n != 0) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "device %u comes and goes, which the formula network does not "
                                "model: use --network events", (unsigned)i);
        }
    }
    if (c->node.gossip == UW_GOSSIP_RELAY && c->node.schedule->degree == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "relays need a schedule that is a tree");
    }
    return UW_OK;
}

static void open_nodes(struct uw_formula *f)
{
    const struct uw_world_config *c = &f->world->config;
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        struct uw_formula_node *n = &f->nodes[i];
        const struct uw_sim_device *d = &c->fleet->devices[i];
        *n = (struct uw_formula_node){.w = &f->world->nodes[i], .recent = UW_MIX_RECENT_FIRST,
                                      .shown = NONE, .pulled = NONE, .held = NONE, .peer = NONE,
                                      .inbox = NONE, .mass = 1.0f};
        char name[16];
        snprintf(name, sizeof name, "node%u", (unsigned)i);
        n->period_steps = f->c->period_steps;
        uw_rng_seed(&n->rng, uw_rng_mix(f->c->seed, i));
        f->usable[i] = true;
        f->id[i] = uw_hash32_text(name);
        if (i == 0) {
            uw_formula_publish(f, n);
        } else {
            uw_formula_share(f, n, &f->nodes[0]);
        }
        set_step(f, n, f->world->now_us + d->start_us + d->step_us);
    }
}

static int formula_open(struct uw_world *w, struct uw_error *err)
{
    struct uw_formula *f = w->state = calloc(1, sizeof *f);
    int rc = f != NULL ? check(&w->config, err) : UW_ERR_NOMEM;
    if (rc < 0) {
        return rc;
    }
    f->world = w;
    f->c = &w->config.node;
    f->nodes_n = w->config.fleet->devices_n;
    f->model_bytes = (double)w->config.model_bytes;
    f->pairs = uw_world_pairs(f->c);
    f->nodes = calloc(f->nodes_n, sizeof *f->nodes);
    f->usable = calloc(f->nodes_n, sizeof *f->usable);
    f->id = calloc(f->nodes_n, sizeof *f->id);
    f->scratch = calloc(f->pairs ? 4u * (size_t)w->config.params->size_n : 1u, sizeof(float));
    rc = averages(f) ? uw_world_groups_open(&f->groups, &w->config) : UW_OK;
    rc = rc < 0 ? rc : uw_snapshots_open(&f->pool, w, pulls_of(&w->config, f->groups.n));
    rc = f->nodes == NULL || f->usable == NULL || f->id == NULL || f->scratch == NULL
             ? UW_ERR_NOMEM : rc;
    f->ends_n = f->pairs ? 1u + f->nodes_n : f->groups.n;
    rc = rc < 0 ? rc : uw_sim_clock_open(&f->clock, f->ends_n + 2u * f->nodes_n);
    if (rc < 0) {
        return rc;
    }
    open_nodes(f);
    rc = f->c->gossip == UW_GOSSIP_RELAY ? uw_formula_relay_open(f) : UW_OK;
    return rc == UW_ERR_INVALID ? uw_error_set(err, rc, "relays need a schedule that is a tree")
                                : rc;
}

/* ---- the calls of sim_world.h ---- */

/* All nodes know each other. In a resumed run all publish their parameters, and steps end when they
 * would have. */
static int formula_meet(struct uw_world *w, uint64_t limit_us)
{
    struct uw_formula *f = w->state;
    const struct uw_world_past *past = &w->config.past;
    (void)limit_us;
    w->start_us = w->now_us - past->trained_us;
    for (uint32_t i = 0; past->left_us != NULL && i < f->nodes_n; i++) {
        struct uw_formula_node *n = &f->nodes[i];
        bool over = past->left_us[i] == UINT64_MAX;
        uw_formula_publish(f, n);
        set_step(f, n, over ? UINT64_MAX : w->now_us + past->left_us[i]);
        if (over) {
            uw_formula_end_node(f, n);
        }
    }
    return UW_OK;
}

static struct uw_world_node *formula_next(struct uw_world *w)
{
    struct uw_formula *f = w->state;
    if (f->last != NULL) {      /* a node that trains may have ended */
        uw_formula_alarm(f, step_alarm(f, f->last), f->last->w->train_at_us);
        if (f->last->w->train_at_us == UINT64_MAX && !f->last->w->waits) {
            uw_formula_end_node(f, f->last);
        }
        f->last = NULL;
    }
    while (f->busy_n != 0) {
        uint64_t due_us = uw_sim_clock_first(&f->clock)->at_us;
        uint32_t alarm = uw_sim_clock_first(&f->clock)->place;
        w->now_us = due_us > w->now_us ? due_us : w->now_us;
        if (alarm < f->ends_n) {
            uw_formula_average_due(f, alarm);
        } else if (alarm < f->ends_n + f->nodes_n) {
            f->last = &f->nodes[alarm - f->ends_n];
            return f->last->w;
        } else if (pushes(f)) {
            uw_formula_push_due(f, &f->nodes[alarm - f->ends_n - f->nodes_n]);
        } else {
            uw_formula_pull_due(f, &f->nodes[alarm - f->ends_n - f->nodes_n]);
        }
    }
    return NULL;
}

static int formula_trained(struct uw_world *w, struct uw_world_node *node,
                           const struct uw_node_progress *progress, uint64_t pause_us)
{
    struct uw_formula *f = w->state;
    struct uw_formula_node *n = &f->nodes[node->place];
    int flags = averages(f) ? uw_formula_average_step(f, n, progress->lr)
                : pushes(f) ? uw_formula_push_step(f, n, progress->lr)
                            : uw_formula_gossip_step(f, n, progress->lr);
    uint64_t step_us = w->config.fleet->devices[node->place].step_us;
    node->waits = (flags & UW_NODE_AVERAGING) != 0;
    n->period_steps = progress->period_steps != 0 ? progress->period_steps : n->period_steps;
    set_step(f, n,
             node->waits ? UINT64_MAX : w->now_us + (pause_us != 0 ? pause_us : step_us));
    return flags;
}

/* The answer does not change during a step. */
static bool formula_touches(const struct uw_world *w, const struct uw_world_node *node)
{
    const struct uw_formula *f = w->state;
    const struct uw_formula_node *n = &f->nodes[node->place];
    bool arrives = n->pulling && n->arrives_us <= node->train_at_us;
    uint32_t steps = n->steps > n->round_steps ? n->steps : n->round_steps;
    bool over = steps + 1u >= n->period_steps;
    return node->waits || n->agreeing || over || (arrives && !averages(f)) || pushes(f);
}

/* For rules over pairs: make the node's next round an average over all nodes, which waits for all
 * of them. */
static void formula_agree(struct uw_world *w, struct uw_world_node *node)
{
    struct uw_formula *f = w->state;
    struct uw_formula_node *n = &f->nodes[node->place];
    n->agreeing = n->agreeing || f->pairs;
}

static uint64_t formula_sent_bytes(const struct uw_world *w)
{
    return (uint64_t)(((const struct uw_formula *)w->state)->sent_bytes + 0.5);
}

static struct uw_node_counters formula_counters(const struct uw_world *w)
{
    return ((const struct uw_formula *)w->state)->counters;
}

static void formula_close(struct uw_world *w)
{
    struct uw_formula *f = w->state;
    if (f == NULL) {
        return;
    }
    uw_sim_clock_close(&f->clock);
    uw_snapshots_close(&f->pool);
    uw_world_groups_close(&f->groups);
    free(f->scratch);
    free(f->nodes);
    free(f->edges);
    free(f->usable);
    free(f->id);
    free(f);
    w->state = NULL;
}

const struct uw_world_ops uw_world_formula = {
    .defaults = formula_defaults,
    .measure = formula_measure,
    .open = formula_open,
    .meet = formula_meet,
    .next = formula_next,
    .trained = formula_trained,
    .touches = formula_touches,
    .agree = formula_agree,
    .sent_bytes = formula_sent_bytes,
    .counters = formula_counters,
    .close = formula_close,
};
