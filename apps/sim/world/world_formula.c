/* SPDX-License-Identifier: Apache-2.0
 *
 * A network model in which exchanges take the time of cost formulas.
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
 *
 * The first round of gossip has no pull: all nodes still have the same parameters. Nodes that have
 * done their last step are not waited for; an average of the others takes as long as one of all.
 *
 * Snapshots come from a reference-counted pool: one in transit is copied only if its owner
 * publishes meanwhile, and nodes that have just averaged share one. The pool is reserved for the
 * worst case, two per node with gossip, else one, but memory is used only as needed. An event costs
 * O(log nodes), plus the vectors. */
#include "groups.h"
#include "snapshots.h"
#include "world.h"
#include "world_clock.h"

#include "uwasa/arena.h"
#include "uwasa/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_STEPS 10u
#define WEIGHT 0.5f
#define NONE UW_SNAPSHOT_NONE       /* no snapshot, no device */
#define BLOCK_N 256u                /* floats that are averaged at a time */

struct node {
    struct uw_world_node *w;        /* what others see of it */
    struct uw_rng rng;
    uint32_t shown;                 /* its snapshot, in the pool */
    uint32_t pulled, held;          /* in transit; of another cell, for the next average */
    float held_weight;              /* weight of held, by the sizes of both cells */
    uint32_t peer;                  /* pulled from, or paired with */
    float weight;                   /* of the peer; 0: the rule's own */
    uint64_t asked_us, arrives_us;
    uint64_t pair_us;               /* time of the exchange with a partner of higher place */
    uint32_t round;
    uint32_t round_steps, steps;    /* since the round began; since it was last published */
    float lr_sum;                   /* of steps */
    float mixed_models, recent;     /* since the rule's turn; see uw_mix_recent */
    bool pulling, due;              /* waits for an answer; the next pull may begin */
    bool mixed;                     /* has mixed in this round */
    bool averaged;                  /* the average that it waited for is done */
    bool agreeing;                  /* its next round is the last average, over all nodes */
    bool ended;                     /* it averages no more */
    int flags;                      /* enum uw_node_after of the average */
};

struct state {
    struct uw_world *world;
    const struct uw_node_config *c; /* the world's */
    struct node *nodes;             /* [nodes_n] */
    uint32_t nodes_n;
    double model_bytes;
    bool pairs;
    double sent_bytes;              /* by all nodes together */
    struct uw_node_counters counters;       /* the same; pulls and averages are counted */
    float *scratch;                 /* of pairs [4 size_n] */
    struct uw_snapshots pool;
    struct uw_world_groups groups;  /* empty in gossip, except over pairs */
    struct uw_sim_clock clock;      /* ends of averages, steps, pulls: in this order */
    uint32_t ends_n, busy_n;        /* alarms of averages; alarms that a node waits for */
    struct node *last;              /* returned by next */
    bool *usable;                   /* [nodes_n] all true */
};

/* ---- alarms: of a group's or a pair's average, of a node's step, of its pull ---- */

static uint32_t step_alarm(const struct state *f, const struct node *n)
{
    return f->ends_n + n->w->place;
}

static uint32_t pull_alarm(const struct state *f, const struct node *n)
{
    return f->ends_n + f->nodes_n + n->w->place;
}

/* Set an alarm (UINT64_MAX: off) and update the count of alarms for which the run must continue. */
static void set_alarm(struct state *f, uint32_t alarm, uint64_t due_us)
{
    if (alarm < f->ends_n + f->nodes_n || f->world->config.pull_waits) {
        f->busy_n -= f->clock.heap[f->clock.where[alarm]].at_us != UINT64_MAX ? 1u : 0u;
        f->busy_n += due_us != UINT64_MAX ? 1u : 0u;
    }
    uw_sim_clock_set(&f->clock, alarm, due_us, UW_SIM_TRAINS);
}

/* Set the alarm for the end of a node's step. */
static void set_step(struct state *f, struct node *n, uint64_t at_us)
{
    n->w->train_at_us = at_us;
    set_alarm(f, step_alarm(f, n), at_us);
}

/* Report that an exchange of a node is done now. peer NONE: with several. */
static void report(const struct state *f, enum uw_node_event_kind kind, const struct node *n,
                   uint32_t peer, uint32_t nodes_n, uint64_t took_us)
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

/* Wake a node, with these flags, after what it waited for was mixed in. */
static void wake(struct state *f, struct node *n, int flags)
{
    n->averaged = true;
    n->flags = flags;
    set_step(f, n, f->world->now_us);
}

/* ---- snapshots ---- */

/* Publish a node's current parameters. */
static void publish(struct state *f, struct node *n)
{
    uw_snapshot_write(&f->pool, &n->shown, n->w->x);
}

/* Let two nodes with the same parameters share one snapshot. */
static void share(struct state *f, struct node *n, const struct node *other)
{
    uw_snapshot_drop(&f->pool, &n->shown);
    n->shown = uw_snapshot_hold(&f->pool, other->shown);
}

/* Apply the rule at the end of a round. */
static void end_rule(struct state *f, struct node *n)
{
    uw_mix_end(f->c->rule, &f->c->constants, &n->w->params, f->pool.x[n->shown], n->w->velocity,
               n->lr_sum, n->recent);
}

static void clear_steps(struct node *n)
{
    n->steps = 0;
    n->lr_sum = 0.0f;
}

/* ---- pulls ---- */

/* Request a peer's parameters, to be mixed in with `weight`. */
static void ask(struct state *f, struct node *n, uint32_t peer, float weight)
{
    const struct uw_sim_path path = uw_sim_path_between(f->world->config.fleet, peer, n->w->place);
    bool question = !f->world->config.study_pull;
    uint64_t now_us = f->world->now_us;
    n->peer = peer;
    n->weight = weight;
    n->pulling = true;
    n->asked_us = now_us;
    n->arrives_us = now_us + uw_world_us(uw_sim_pull_s(&path, f->model_bytes, question));
    set_alarm(f, pull_alarm(f, n), now_us + (question ? uw_world_us(path.latency_s) : 0));
}

static void pull_is_here(struct state *f, struct node *n)
{
    n->pulling = false;
    f->counters.pulls_done++;
    f->counters.pulled_bytes += (uint64_t)f->model_bytes;
    report(f, UW_NODE_PULL_DONE, n, n->peer, 1, f->world->now_us - n->asked_us);
}

static float weight_of(const struct state *f, const struct node *n)
{
    return n->weight != 0.0f ? n->weight : f->c->constants.weight;
}

static void mix(struct state *f, struct node *n)
{
    uw_mix_pulled(weight_of(f, n), &n->w->params, 0, n->w->params.size_n, f->pool.x[n->shown],
                  f->pool.x[n->pulled]);
    uw_snapshot_drop(&f->pool, &n->pulled);
    n->mixed = true;
    n->mixed_models += 1.0f;
    pull_is_here(f, n);
}

/* The partner of a node in its round; NONE: there is none. */
static uint32_t pick(struct state *f, struct node *n, float *weight)
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
    const struct uw_peer_view view = {.n = f->nodes_n, .self = place, .usable = f->usable,
                                      .round = n->round, .seed = f->c->seed};
    struct uw_peer_choice choice = f->c->schedule->pick(&view, &n->rng);
    *weight = choice.weight;
    return choice.at < f->nodes_n ? choice.at : NONE;
}

/* ---- gossip ---- */

static int begin_round(struct state *f, struct node *n)
{
    float weight;
    n->round_steps = 0;
    n->mixed = false;
    uint32_t peer = pick(f, n, &weight);
    n->round++;
    if (peer != NONE) {
        ask(f, n, peer, weight);
    }
    return f->world->config.pull_waits && n->pulling ? UW_NODE_AVERAGING : 0;
}

/* After T steps, or the last step: apply the rule and publish the parameters. */
static void end_steps(struct state *f, struct node *n)
{
    if (n->lr_sum > 0.0f) {
        n->recent = uw_mix_recent(&f->c->constants, n->recent, n->mixed_models);
        n->mixed_models = 0.0f;
        end_rule(f, n);
    }
    publish(f, n);
    clear_steps(n);
}

/* What gossip does after a local step. Returns a set of enum uw_node_after. */
static int gossip_step(struct state *f, struct node *n, float lr)
{
    int flags = 0;
    if (n->w->waits) {
        n->averaged = false;
        return n->flags;
    }
    if (lr > 0.0f) {
        n->steps++;
        n->round_steps++;
        n->lr_sum += lr;
    }
    if (n->pulling && n->pulled != NONE && n->arrives_us <= f->world->now_us) {
        mix(f, n);
        flags |= UW_NODE_MIXED;
    }
    bool over = !n->pulling && (lr == 0.0f || n->round_steps >= f->c->period_steps);
    if ((over && lr == 0.0f) || n->steps >= f->c->period_steps) {
        end_steps(f, n);
    }
    if (!over) {
        return flags;
    }
    return flags | (n->mixed ? UW_NODE_ROUND : 0) | begin_round(f, n);
}

/* ---- groups ---- */

static struct uw_world_group *group_of(const struct state *f, const struct node *n)
{
    return &f->groups.group[f->groups.group_of[n->w->place]];
}

static struct node *member(const struct state *f, const struct uw_world_group *g, uint32_t i)
{
    return &f->nodes[f->groups.members[g->first + i]];
}

/* The head of a group: its first node that has not ended. */
static struct node *head_of(const struct state *f, const struct uw_world_group *g)
{
    uint32_t i = 0;
    while (i + 1u < g->nodes_n && member(f, g, i)->ended) {
        i++;
    }
    return member(f, g, i);
}

/* Whether snapshots are read, by another cell or by the rule at the end of a round. */
static bool snapshots_are_read(const struct state *f)
{
    return f->pairs || f->c->mode == UW_NODE_HIERARCHICAL || f->c->rule->end != NULL;
}

/* Begin the average if all nodes of the group have arrived. */
static void begin_average(struct state *f, struct uw_world_group *g)
{
    if (g->waiting_n != 0 && g->waiting_n + g->ended_n == g->nodes_n) {
        struct node *head = head_of(f, g);
        g->bridge = head->held;
        g->weight = head->held_weight;
        head->held = NONE;
        set_alarm(f, (uint32_t)(g - f->groups.group), f->world->now_us + g->takes_us);
    }
}

/* This node pairs no more: a node that waits for it as a partner skips the round. */
static void release_partner(struct state *f, const struct node *n)
{
    for (uint32_t i = 0; f->pairs && i < f->nodes_n; i++) {
        struct node *o = &f->nodes[i];
        if (o->w->waits && !o->averaged && !o->agreeing && o->peer == n->w->place) {
            publish(f, o);
            wake(f, o, 0);
        }
    }
}

static int gather(struct state *f, struct node *n)
{
    group_of(f, n)->waiting_n++;
    release_partner(f, n);
    begin_average(f, group_of(f, n));
    return UW_NODE_AVERAGING;
}

/* A node has ended: averages continue without it. */
static void end_node(struct state *f, struct node *n)
{
    if (f->groups.n != 0 && !n->ended) {
        n->ended = true;
        group_of(f, n)->ended_n++;
        release_partner(f, n);
        begin_average(f, group_of(f, n));
    }
}

/* Replace the parameters of all waiting nodes with their mean, summed in double in the order of the
 * members. */
static void average(struct state *f, const struct uw_world_group *g)
{
    double sum[BLOCK_N];
    float mean[BLOCK_N];
    uint32_t size_n = f->world->config.params->size_n;
    for (uint32_t at = 0; at < size_n; at += BLOCK_N) {
        uint32_t n = size_n - at < BLOCK_N ? size_n - at : BLOCK_N;
        memset(sum, 0, sizeof sum);
        for (uint32_t i = 0; i < g->nodes_n; i++) {
            const float *x = member(f, g, i)->w->x + at;
            uint32_t count_n = member(f, g, i)->ended ? 0 : n;
            for (uint32_t k = 0; k < count_n; k++) {
                sum[k] += (double)x[k];
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            mean[k] = (float)(sum[k] / g->waiting_n);
        }
        for (uint32_t i = 0; i < g->nodes_n; i++) {
            if (!member(f, g, i)->ended) {
                memcpy(member(f, g, i)->w->x + at, mean, n * sizeof *mean);
            }
        }
    }
}

/* x += weight * (s_peer - s) for every member of a cell. The members' snapshots may differ by the
 * rule's velocity, so s is the head's, which has pulled. */
static void add_bridge(struct state *f, struct uw_world_group *g)
{
    const float *peer = f->pool.x[g->bridge], *own = f->pool.x[head_of(f, g)->shown];
    const struct uw_params *p = f->world->config.params;
    float d[BLOCK_N];
    for (uint32_t at = 0; at < p->size_n; at += BLOCK_N) {
        uint32_t n = p->size_n - at < BLOCK_N ? p->size_n - at : BLOCK_N;
        for (uint32_t k = 0; k < n; k++) {
            d[k] = peer[at + k] - own[at + k];
        }
        uw_mix_from_cell(f->c->rule, &f->c->constants, g->weight, p, at, n, d);
        for (uint32_t i = 0; i < g->nodes_n; i++) {
            if (!member(f, g, i)->ended) {
                uw_mix_carried(1.0f, &member(f, g, i)->w->params, at, n, d);
            }
        }
    }
    uw_snapshot_drop(&f->pool, &g->bridge);
}

/* If n is the head of a cell, begin a pull from another cell when possible. */
static void bridge(struct state *f, struct node *n)
{
    if (!n->due || n->pulling || f->groups.n < 2) {
        return;
    }
    uint32_t own = f->groups.group_of[n->w->place], other = uw_rng_below(&n->rng, f->groups.n - 1u);
    other += other >= own ? 1u : 0u;
    n->due = false;
    ask(f, n, head_of(f, &f->groups.group[other])->w->place, 0.0f);
}

static void finish_group(struct state *f, struct uw_world_group *g)
{
    struct node *head = head_of(f, g);
    bool together = g->waiting_n > 1, mixed = together || g->bridge != NONE;
    if (together) {
        average(f, g);
        f->counters.averages_done += g->waiting_n;
        f->sent_bytes += g->sent_bytes;
    }
    if (g->bridge != NONE) {
        add_bridge(f, g);
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        struct node *n = member(f, g, i);
        if (n->ended) {
            continue;
        }
        if (!n->agreeing && n->lr_sum > 0.0f && f->c->rule->end != NULL) {
            end_rule(f, n);
        }
        if (mixed || n->lr_sum > 0.0f) {
            n->recent = uw_mix_recent(&f->c->constants, n->recent, mixed ? 1.0f : 0.0f);
        }
        if (snapshots_are_read(f) && n != head &&
            memcmp(n->w->x, head->w->x, n->w->params.size_n * sizeof(float)) == 0) {
            share(f, n, head);
        } else if (snapshots_are_read(f)) {
            publish(f, n);
        }
        wake(f, n, mixed ? UW_NODE_MIXED | UW_NODE_ROUND : 0);
        if (together) {
            report(f, UW_NODE_AVERAGED, n, NONE, g->waiting_n, g->takes_us);
        }
    }
    g->waiting_n = 0;
    if (f->c->mode == UW_NODE_HIERARCHICAL) {
        head->due = true;
        bridge(f, head);
    }
}

/* ---- pairs ---- */

/* Exchange with the round's partner if it waits already, else wait for it. */
static int meet_partner(struct state *f, struct node *n)
{
    uint32_t place = n->w->place;
    n->peer = pick(f, n, &n->weight);
    n->round++;
    const struct node *partner = n->peer != NONE ? &f->nodes[n->peer] : NULL;
    if (partner == NULL || partner->agreeing || partner->ended) {
        publish(f, n);
        clear_steps(n);
        return 0;
    }
    if (partner->w->waits && !partner->averaged && partner->peer == place &&
        partner->round == n->round) {
        uint32_t both[2] = {place, n->peer}, lower = place < n->peer ? place : n->peer;
        const struct uw_sim_path path = uw_sim_path_among(f->world->config.fleet, both, 2);
        double bytes = (path.shared ? 4.0 : 2.0) * f->model_bytes;
        f->nodes[lower].pair_us = uw_world_us(uw_sim_pull_s(&path, bytes, false));
        set_alarm(f, 1u + lower, f->world->now_us + f->nodes[lower].pair_us);
    }
    return UW_NODE_AVERAGING;
}

static void finish_pair(struct state *f, struct node *a)
{
    struct node *both[2] = {a, &f->nodes[a->peer]};
    size_t both_n = 2u * (size_t)f->world->config.params->size_n;
    float *mean = f->scratch, *other = f->scratch + both_n;
    for (uint32_t i = 0; i < 2; i++) {
        uw_mix_pair_vector(&both[i]->w->params, f->pool.x[both[i]->shown], both[i]->lr_sum,
                           i == 0 ? mean : other);
    }
    for (size_t k = 0; k < both_n; k++) {
        mean[k] = 0.5f * (mean[k] + other[k]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct node *n = both[i];
        uw_mix_pair(f->c->rule, weight_of(f, n), &n->w->params, f->pool.x[n->shown], mean,
                    n->w->velocity, n->lr_sum);
        publish(f, n);
        wake(f, n, UW_NODE_MIXED | UW_NODE_ROUND);
        report(f, UW_NODE_AVERAGED, n, both[1u - i]->w->place, 2, a->pair_us);
    }
    f->counters.averages_done += 2u;
    f->sent_bytes += 4.0 * f->model_bytes;
}

/* ---- what alarms and steps do ---- */

/* A request has arrived, or the answer of another cell. */
static void pull_due(struct state *f, struct node *n)
{
    bool asked = n->pulled == NONE;
    bool wanted = n->w->waits || f->c->mode == UW_NODE_HIERARCHICAL;
    set_alarm(f, pull_alarm(f, n), asked && wanted ? n->arrives_us : UINT64_MAX);
    if (asked) {
        n->pulled = uw_snapshot_hold(&f->pool, f->nodes[n->peer].shown);
        f->sent_bytes += f->model_bytes;
    } else if (f->c->mode == UW_NODE_GOSSIP) {
        mix(f, n);
        wake(f, n, UW_NODE_MIXED | UW_NODE_ROUND);
    } else {
        uw_snapshot_drop(&f->pool, &n->held);
        n->held = n->pulled;
        n->held_weight = uw_mix_cell_weight(f->c->constants.weight, group_of(f, n)->nodes_n,
                                            group_of(f, &f->nodes[n->peer])->nodes_n);
        n->pulled = NONE;
        pull_is_here(f, n);
        bridge(f, n);
    }
}

static void average_due(struct state *f, uint32_t alarm)
{
    set_alarm(f, alarm, UINT64_MAX);
    if (f->pairs && alarm > 0) {
        finish_pair(f, &f->nodes[alarm - 1u]);
    } else {
        finish_group(f, &f->groups.group[alarm]);
    }
}

/* What a node that averages does after a local step, or after a wait. */
static int average_step(struct state *f, struct node *n, float lr)
{
    if (n->w->waits) {
        if (!n->averaged) {
            return UW_NODE_AVERAGING;
        }
        n->averaged = n->agreeing = false;
        clear_steps(n);
        return n->flags;
    }
    if (lr > 0.0f) {
        n->steps++;
        n->lr_sum += lr;
    }
    if (!n->agreeing && n->steps < f->c->period_steps) {
        return 0;
    }
    return f->pairs && !n->agreeing ? meet_partner(f, n) : gather(f, n);
}

/* ---- set-up ---- */

static bool averages(const struct state *f)
{
    return f->c->mode != UW_NODE_GOSSIP || f->pairs;
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

/* Number of snapshots in addition to those of the nodes. Gossip: one pull per node. Averages: three
 * pulls per head. */
static uint32_t pulls_of(const struct uw_world_config *c, uint32_t groups_n)
{
    return c->node.mode == UW_NODE_GOSSIP && !uw_world_pairs(&c->node) ? c->fleet->devices_n
                                                                 : 3u * groups_n;
}

static int formula_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err)
{
    uint32_t nodes = c->fleet->devices_n;
    uint32_t groups_n = c->node.mode == UW_NODE_HIERARCHICAL ? nodes : 1u;
    size_t each = sizeof(struct node) + sizeof(struct uw_world_group) +
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
        if (d->absences_n != 0 || d->loss > 0.0f) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "device %u %s, which the formula network does not model: use "
                                "--network events", (unsigned)i,
                                d->absences_n != 0 ? "comes and goes" : "loses messages");
        }
    }
    return UW_OK;
}

static void open_nodes(struct state *f)
{
    const struct uw_world_config *c = &f->world->config;
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        struct node *n = &f->nodes[i];
        const struct uw_sim_device *d = &c->fleet->devices[i];
        *n = (struct node){.w = &f->world->nodes[i], .recent = UW_MIX_RECENT_FIRST, .shown = NONE,
                           .pulled = NONE, .held = NONE, .peer = NONE};
        uw_rng_seed(&n->rng, uw_rng_mix(f->c->seed, i));
        f->usable[i] = true;
        if (i == 0) {
            publish(f, n);
        } else {
            share(f, n, &f->nodes[0]);
        }
        set_step(f, n, f->world->now_us + d->start_us + d->step_us);
    }
}

static int formula_open(struct uw_world *w, struct uw_error *err)
{
    struct state *f = w->state = calloc(1, sizeof *f);
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
    f->scratch = calloc(f->pairs ? 4u * (size_t)w->config.params->size_n : 1u, sizeof(float));
    rc = averages(f) ? uw_world_groups_open(&f->groups, &w->config) : UW_OK;
    rc = rc < 0 ? rc : uw_snapshots_open(&f->pool, w, pulls_of(&w->config, f->groups.n));
    rc = f->nodes == NULL || f->usable == NULL || f->scratch == NULL ? UW_ERR_NOMEM : rc;
    f->ends_n = f->pairs ? 1u + f->nodes_n : f->groups.n;
    rc = rc < 0 ? rc : uw_sim_clock_open(&f->clock, f->ends_n + 2u * f->nodes_n);
    if (rc == UW_OK) {
        open_nodes(f);
    }
    return rc;
}

/* ---- the calls of sim_world.h ---- */

/* All nodes know each other. In a resumed run all publish their parameters, and steps end when they
 * would have. */
static int formula_meet(struct uw_world *w, uint64_t limit_us)
{
    struct state *f = w->state;
    const struct uw_world_past *past = &w->config.past;
    (void)limit_us;
    w->start_us = w->now_us - past->trained_us;
    for (uint32_t i = 0; past->left_us != NULL && i < f->nodes_n; i++) {
        struct node *n = &f->nodes[i];
        bool over = past->left_us[i] == UINT64_MAX;
        publish(f, n);
        set_step(f, n, over ? UINT64_MAX : w->now_us + past->left_us[i]);
        if (over) {
            end_node(f, n);
        }
    }
    return UW_OK;
}

static struct uw_world_node *formula_next(struct uw_world *w)
{
    struct state *f = w->state;
    if (f->last != NULL) {      /* a node that trains may have ended */
        set_alarm(f, step_alarm(f, f->last), f->last->w->train_at_us);
        if (f->last->w->train_at_us == UINT64_MAX && !f->last->w->waits) {
            end_node(f, f->last);
        }
        f->last = NULL;
    }
    while (f->busy_n != 0) {
        uint64_t due_us = uw_sim_clock_first(&f->clock)->at_us;
        uint32_t alarm = uw_sim_clock_first(&f->clock)->place;
        w->now_us = due_us > w->now_us ? due_us : w->now_us;
        if (alarm < f->ends_n) {
            average_due(f, alarm);
        } else if (alarm < f->ends_n + f->nodes_n) {
            f->last = &f->nodes[alarm - f->ends_n];
            return f->last->w;
        } else {
            pull_due(f, &f->nodes[alarm - f->ends_n - f->nodes_n]);
        }
    }
    return NULL;
}

static int formula_trained(struct uw_world *w, struct uw_world_node *node,
                           const struct uw_node_progress *progress, uint64_t pause_us)
{
    struct state *f = w->state;
    struct node *n = &f->nodes[node->place];
    int flags = averages(f) ? average_step(f, n, progress->lr) : gossip_step(f, n, progress->lr);
    uint64_t step_us = w->config.fleet->devices[node->place].step_us;
    node->waits = (flags & UW_NODE_AVERAGING) != 0;
    set_step(f, n,
             node->waits ? UINT64_MAX : w->now_us + (pause_us != 0 ? pause_us : step_us));
    return flags;
}

/* The answer does not change during a step. */
static bool formula_touches(const struct uw_world *w, const struct uw_world_node *node)
{
    const struct state *f = w->state;
    const struct node *n = &f->nodes[node->place];
    bool arrives = n->pulling && n->arrives_us <= node->train_at_us;
    uint32_t steps = n->steps > n->round_steps ? n->steps : n->round_steps;
    bool over = steps + 1u >= f->c->period_steps;
    return node->waits || n->agreeing || over || (arrives && !averages(f));
}

/* For rules over pairs: make the node's next round an average over all nodes, which waits for all
 * of them. */
static void formula_agree(struct uw_world *w, struct uw_world_node *node)
{
    struct state *f = w->state;
    struct node *n = &f->nodes[node->place];
    n->agreeing = n->agreeing || f->pairs;
}

static uint64_t formula_sent_bytes(const struct uw_world *w)
{
    return (uint64_t)(((const struct state *)w->state)->sent_bytes + 0.5);
}

static struct uw_node_counters formula_counters(const struct uw_world *w)
{
    return ((const struct state *)w->state)->counters;
}

static void formula_close(struct uw_world *w)
{
    struct state *f = w->state;
    if (f == NULL) {
        return;
    }
    uw_sim_clock_close(&f->clock);
    uw_snapshots_close(&f->pool);
    uw_world_groups_close(&f->groups);
    free(f->scratch);
    free(f->nodes);
    free(f->usable);
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
