/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include "uwasa/rng.h"

#include <string.h>

#define BLOCK_N 256u                /* floats that are averaged at a time */

/* ---- groups ---- */

static struct uw_world_group *group_of(const struct uw_formula *f, const struct uw_formula_node *n)
{
    return &f->groups.group[f->groups.group_of[n->w->place]];
}

static struct uw_formula_node *member(const struct uw_formula *f, const struct uw_world_group *g,
                                      uint32_t i)
{
    return &f->nodes[f->groups.members[g->first + i]];
}

/* The head of a group: its first node that has not ended. */
static struct uw_formula_node *head_of(const struct uw_formula *f, const struct uw_world_group *g)
{
    uint32_t i = 0;
    while (i + 1u < g->nodes_n && member(f, g, i)->ended) {
        i++;
    }
    return member(f, g, i);
}

/* Whether snapshots are read, by another cell or by the rule at the end of a round. */
static bool snapshots_are_read(const struct uw_formula *f)
{
    return f->pairs || f->c->mode == UW_NODE_HIERARCHICAL || f->c->rule->end != NULL;
}

/* Begin the average if all nodes of the group have arrived. */
static void begin_average(struct uw_formula *f, struct uw_world_group *g)
{
    if (g->waiting_n != 0 && g->waiting_n + g->ended_n == g->nodes_n) {
        struct uw_formula_node *head = head_of(f, g);
        g->bridge = head->held;
        g->weight = head->held_weight;
        head->held = NONE;
        uw_formula_alarm(f, (uint32_t)(g - f->groups.group), f->world->now_us + g->takes_us);
    }
}

/* This node pairs no more: a node that waits for it as a partner skips the round. */
static void release_partner(struct uw_formula *f, const struct uw_formula_node *n)
{
    for (uint32_t i = 0; f->pairs && i < f->nodes_n; i++) {
        struct uw_formula_node *o = &f->nodes[i];
        if (o->w->waits && !o->averaged && !o->agreeing && o->peer == n->w->place) {
            uw_formula_publish(f, o);
            uw_formula_wake(f, o, 0, f->world->now_us);
        }
    }
}

static int gather(struct uw_formula *f, struct uw_formula_node *n)
{
    group_of(f, n)->waiting_n++;
    release_partner(f, n);
    begin_average(f, group_of(f, n));
    return UW_NODE_AVERAGING;
}

void uw_formula_end_node(struct uw_formula *f, struct uw_formula_node *n)
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
static void average(struct uw_formula *f, const struct uw_world_group *g)
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
static void add_bridge(struct uw_formula *f, struct uw_world_group *g)
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
static void bridge(struct uw_formula *f, struct uw_formula_node *n)
{
    if (!n->due || n->pulling || f->groups.n < 2) {
        return;
    }
    uint32_t own = f->groups.group_of[n->w->place], other = uw_rng_below(&n->rng, f->groups.n - 1u);
    other += other >= own ? 1u : 0u;
    n->due = false;
    uw_formula_ask(f, n, head_of(f, &f->groups.group[other])->w->place, 0.0f);
}

/* All members go on with what they have. */
static void lose_average(struct uw_formula *f, struct uw_world_group *g)
{
    struct uw_formula_node *head = head_of(f, g);
    if (head->held == NONE) {
        head->held = g->bridge;
    } else {
        uw_snapshot_drop(&f->pool, &g->bridge);
    }
    g->bridge = NONE;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        if (!member(f, g, i)->ended) {
            uw_formula_wake(f, member(f, g, i), 0, f->world->now_us);
        }
    }
    f->counters.averages_cut += g->waiting_n;
    f->sent_bytes += g->sent_bytes;
    g->waiting_n = 0;
}

static void finish_group(struct uw_formula *f, struct uw_world_group *g)
{
    struct uw_formula_node *head = head_of(f, g);
    bool together = g->waiting_n > 1, mixed = together || g->bridge != NONE;
    if (together && uw_formula_loses(f, head)) {
        lose_average(f, g);
        return;
    }
    if (together) {
        average(f, g);
        f->counters.averages_done += g->waiting_n;
        f->sent_bytes += g->sent_bytes;
    }
    if (g->bridge != NONE) {
        add_bridge(f, g);
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        struct uw_formula_node *n = member(f, g, i);
        if (n->ended) {
            continue;
        }
        if (!n->agreeing && n->lr_sum > 0.0f && f->c->rule->end != NULL) {
            uw_formula_end_rule(f, n);
        }
        if (mixed || n->lr_sum > 0.0f) {
            n->recent = uw_mix_recent(&f->c->constants, n->recent, mixed ? 1.0f : 0.0f);
        }
        if (snapshots_are_read(f) && n != head &&
            memcmp(n->w->x, head->w->x, n->w->params.size_n * sizeof(float)) == 0) {
            uw_formula_share(f, n, head);
        } else if (snapshots_are_read(f)) {
            uw_formula_publish(f, n);
        }
        uw_formula_wake(f, n, mixed ? UW_NODE_MIXED | UW_NODE_ROUND : 0, f->world->now_us);
        if (together) {
            uw_formula_report(f, UW_NODE_AVERAGED, n, NONE, g->waiting_n, g->takes_us);
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
static int meet_partner(struct uw_formula *f, struct uw_formula_node *n)
{
    uint32_t place = n->w->place;
    n->peer = uw_formula_pick(f, n, &n->weight);
    n->round++;
    const struct uw_formula_node *partner = n->peer != NONE ? &f->nodes[n->peer] : NULL;
    if (partner == NULL || partner->agreeing || partner->ended) {
        uw_formula_publish(f, n);
        uw_formula_clear_steps(n);
        return 0;
    }
    if (partner->w->waits && !partner->averaged && partner->peer == place &&
        partner->round == n->round) {
        uint32_t both[2] = {place, n->peer}, lower = place < n->peer ? place : n->peer;
        const struct uw_sim_path path = uw_sim_path_among(f->world->config.fleet, both, 2);
        double bytes = (path.shared ? 4.0 : 2.0) * f->model_bytes;
        f->nodes[lower].pair_us = uw_world_us(uw_sim_pull_s(&path, bytes, false));
        uw_formula_alarm(f, 1u + lower, f->world->now_us + f->nodes[lower].pair_us);
    }
    return UW_NODE_AVERAGING;
}

static void finish_pair(struct uw_formula *f, struct uw_formula_node *a)
{
    struct uw_formula_node *both[2] = {a, &f->nodes[a->peer]};
    bool lost = uw_formula_loses(f, a);
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
        struct uw_formula_node *n = both[i];
        if (!lost) {
            uw_mix_pair(f->c->rule, uw_formula_weight(f, n), &n->w->params, f->pool.x[n->shown],
                        mean, n->w->velocity, n->lr_sum);
            uw_formula_report(f, UW_NODE_AVERAGED, n, both[1u - i]->w->place, 2, a->pair_us);
        }
        uw_formula_publish(f, n);
        uw_formula_wake(f, n, lost ? 0 : UW_NODE_MIXED | UW_NODE_ROUND, f->world->now_us);
    }
    f->counters.averages_done += lost ? 0 : 2u;
    f->counters.averages_cut += lost ? 2u : 0;
    f->sent_bytes += 4.0 * f->model_bytes;
}

void uw_formula_bridge_here(struct uw_formula *f, struct uw_formula_node *n)
{
    if (!n->lost) {
        uw_snapshot_drop(&f->pool, &n->held);
        n->held = n->pulled;
        n->held_weight = uw_mix_cell_weight(f->c->constants.weight, group_of(f, n)->nodes_n,
                                            group_of(f, &f->nodes[n->peer])->nodes_n);
    }
    n->pulled = NONE;
    uw_formula_pulled(f, n, n);
    bridge(f, n);
}

/* ---- what alarms and steps do ---- */

void uw_formula_average_due(struct uw_formula *f, uint32_t alarm)
{
    uw_formula_alarm(f, alarm, UINT64_MAX);
    if (f->pairs && alarm > 0) {
        finish_pair(f, &f->nodes[alarm - 1u]);
    } else {
        finish_group(f, &f->groups.group[alarm]);
    }
}

int uw_formula_average_step(struct uw_formula *f, struct uw_formula_node *n, float lr)
{
    if (n->w->waits) {
        if (!n->averaged) {
            return UW_NODE_AVERAGING;
        }
        n->averaged = n->agreeing = false;
        uw_formula_clear_steps(n);
        return n->flags;
    }
    if (lr > 0.0f) {
        n->steps++;
        n->lr_sum += lr;
    }
    if (!n->agreeing && n->steps < n->period_steps) {
        return 0;
    }
    return f->pairs && !n->agreeing ? meet_partner(f, n) : gather(f, n);
}
