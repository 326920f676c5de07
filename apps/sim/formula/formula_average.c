/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include <string.h>

#define BLOCK_N 256u

/* Does anybody read what a node shows: another cell, or the rule at the end of a round? */
static bool shows(const struct uw_formula *f)
{
    return f->pairs || f->config.mode == UW_NODE_HIERARCHICAL || f->config.rule->end != NULL;
}

static void begin_round(struct uw_formula_node *n)
{
    n->steps = 0;
    n->lr_sum = 0.0f;
}

void uw_formula_wake(struct uw_formula *f, struct uw_formula_node *n, int flags)
{
    n->averaged = true;
    n->flags = flags;
    n->train_at_us = f->now_us;
    uw_formula_set(f, uw_formula_step_alarm(f, n->place), f->now_us);
}

/* ---- groups ---- */

static struct uw_formula_node *member(const struct uw_formula *f, const struct uw_formula_group *g,
                                      uint32_t i)
{
    return &f->nodes[f->members[g->first + i]];
}

/* The first who has not ended. */
static struct uw_formula_node *head_of(const struct uw_formula *f, const struct uw_formula_group *g)
{
    uint32_t i = 0;
    while (i + 1u < g->nodes_n && member(f, g, i)->ended) {
        i++;
    }
    return member(f, g, i);
}

/* Begin the average if all are there. */
static void begin_average(struct uw_formula *f, uint32_t group)
{
    struct uw_formula_group *g = &f->groups[group];
    if (g->waiting_n != 0 && g->waiting_n + g->ended_n == g->nodes_n) {
        struct uw_formula_node *head = head_of(f, g);
        g->bridge = head->held;
        g->weight = head->held_weight;
        head->held = UW_FORMULA_NONE;
        uw_formula_set(f, uw_formula_end_alarm(group), f->now_us + g->takes_us);
    }
}

/* Who waits for this node as a partner rests: it pairs no more. */
static void let_go(struct uw_formula *f, const struct uw_formula_node *n)
{
    for (uint32_t i = 0; f->pairs && i < f->nodes_n; i++) {
        struct uw_formula_node *waits = &f->nodes[i];
        if (waits->waits && !waits->averaged && !waits->agreeing && waits->peer == n->place) {
            uw_formula_publish(f, waits);
            uw_formula_wake(f, waits, 0);
        }
    }
}

static int gather(struct uw_formula *f, struct uw_formula_node *n)
{
    f->groups[f->group_of[n->place]].waiting_n++;
    let_go(f, n);
    begin_average(f, f->group_of[n->place]);
    return UW_NODE_AVERAGING;
}

void uw_formula_end(struct uw_formula *f, struct uw_formula_node *n)
{
    if (f->groups_n != 0 && !n->ended) {
        n->ended = true;
        f->groups[f->group_of[n->place]].ended_n++;
        let_go(f, n);
        begin_average(f, f->group_of[n->place]);
    }
}

/* The parameters of all who wait become their mean, summed in double in the members' order. */
static void average(struct uw_formula *f, const struct uw_formula_group *g)
{
    double sum[BLOCK_N];
    float mean[BLOCK_N];
    uint32_t size_n = f->config.params->size_n;
    for (uint32_t at = 0; at < size_n; at += BLOCK_N) {
        uint32_t n = size_n - at < BLOCK_N ? size_n - at : BLOCK_N;
        memset(sum, 0, sizeof sum);
        for (uint32_t i = 0; i < g->nodes_n; i++) {
            const float *x = member(f, g, i)->x + at;
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
                memcpy(member(f, g, i)->x + at, mean, n * sizeof *mean);
            }
        }
    }
}

/* x += what a cell takes of s_peer - s, for everybody. The members' snapshots may differ, by the
 * rule's velocity; what has come was meant for the head's. */
static void add_bridge(struct uw_formula *f, struct uw_formula_group *g)
{
    const float *peer = uw_formula_vector(f, g->bridge);
    const float *own = uw_formula_vector(f, head_of(f, g)->snapshot);
    const struct uw_params *p = f->config.params;
    float d[BLOCK_N];
    for (uint32_t at = 0; at < p->size_n; at += BLOCK_N) {
        uint32_t n = p->size_n - at < BLOCK_N ? p->size_n - at : BLOCK_N;
        for (uint32_t k = 0; k < n; k++) {
            d[k] = peer[at + k] - own[at + k];
        }
        uw_mix_from_cell(f->config.rule, &f->config.constants, g->weight, p, at, n, d);
        for (uint32_t i = 0; i < g->nodes_n; i++) {
            if (!member(f, g, i)->ended) {
                uw_mix_carried(1.0f, &member(f, g, i)->params, at, n, d);
            }
        }
    }
    uw_formula_drop(f, &g->bridge);
}

static void end_rule(struct uw_formula *f, struct uw_formula_node *n, bool mixed)
{
    const struct uw_formula_config *c = &f->config;
    if (!n->agreeing && n->lr_sum > 0.0f && c->rule->end != NULL) {
        uw_mix_end(c->rule, &c->constants, &n->params, uw_formula_vector(f, n->snapshot),
                   n->velocity, n->lr_sum, n->recent);
    }
    if (mixed || n->lr_sum > 0.0f) {
        n->recent = uw_mix_recent(&c->constants, n->recent, mixed ? 1.0f : 0.0f);
    }
}

static void finish_group(struct uw_formula *f, struct uw_formula_group *g)
{
    struct uw_formula_node *head = head_of(f, g);
    bool bridged = g->bridge != UW_FORMULA_NONE, together = g->waiting_n > 1;
    if (together) {
        average(f, g);
        f->counters.averages_done += g->waiting_n;
        f->sent_bytes += g->sent_bytes;
    }
    if (bridged) {
        add_bridge(f, g);
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        struct uw_formula_node *n = member(f, g, i);
        if (n->ended) {
            continue;
        }
        end_rule(f, n, together || bridged);
        if (shows(f) && n != head && memcmp(n->x, head->x, n->params.size_n * sizeof(float)) == 0) {
            uw_formula_share(f, n, head);
        } else if (shows(f)) {
            uw_formula_publish(f, n);
        }
        uw_formula_wake(f, n, together || bridged ? UW_NODE_MIXED | UW_NODE_ROUND : 0);
        if (together) {
            uw_formula_tell(f, UW_NODE_AVERAGED, n->place, UW_FORMULA_NONE, g->waiting_n,
                            g->takes_us);
        }
    }
    g->waiting_n = 0;
    if (f->config.mode == UW_NODE_HIERARCHICAL) {
        head->due = true;
        uw_formula_bridge(f, head);
    }
}

void uw_formula_bridge(struct uw_formula *f, struct uw_formula_node *n)
{
    if (!n->due || n->pulling || f->groups_n < 2) {
        return;
    }
    uint32_t own = f->group_of[n->place], other = uw_rng_below(&n->rng, f->groups_n - 1u);
    other += other >= own ? 1u : 0u;
    n->due = false;
    uw_formula_ask(f, n, head_of(f, &f->groups[other])->place, 0.0f);
}

/* ---- pairs ---- */

/* The partner of the round waits already, or will. */
static int meet(struct uw_formula *f, struct uw_formula_node *n)
{
    n->peer = uw_formula_pick(f, n, &n->weight);
    n->round++;
    const struct uw_formula_node *partner = n->peer != UW_FORMULA_NONE ? &f->nodes[n->peer] : NULL;
    if (partner == NULL || partner->agreeing || partner->ended) {
        uw_formula_publish(f, n);
        begin_round(n);
        return 0;
    }
    if (partner->waits && !partner->averaged && partner->peer == n->place &&
        partner->round == n->round) {
        uint32_t both[2] = {n->place, n->peer};
        const struct uw_sim_path path = uw_sim_path_among(f->config.fleet, both, 2);
        double bytes = (path.shared ? 4.0 : 2.0) * f->model_bytes;
        uint32_t lower = n->place < n->peer ? n->place : n->peer;
        f->nodes[lower].pair_us = uw_formula_us(uw_sim_pull_s(&path, bytes, false));
        uw_formula_set(f, uw_formula_end_alarm(1u + lower),
                       f->now_us + f->nodes[lower].pair_us);
    }
    return UW_NODE_AVERAGING;
}

static void finish_pair(struct uw_formula *f, struct uw_formula_node *a)
{
    struct uw_formula_node *both[2] = {a, &f->nodes[a->peer]};
    uint32_t size_n = f->config.params->size_n;
    float *mean = f->scratch, *other = f->scratch + 2u * (size_t)size_n;
    for (uint32_t i = 0; i < 2; i++) {
        uw_mix_pair_vector(&both[i]->params, uw_formula_vector(f, both[i]->snapshot),
                           both[i]->lr_sum, i == 0 ? mean : other);
    }
    for (size_t k = 0; k < 2u * (size_t)size_n; k++) {
        mean[k] = 0.5f * (mean[k] + other[k]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct uw_formula_node *n = both[i];
        float weight = n->weight != 0.0f ? n->weight : f->config.constants.weight;
        uw_mix_pair(f->config.rule, weight, &n->params, uw_formula_vector(f, n->snapshot), mean,
                    n->velocity, n->lr_sum);
        uw_formula_publish(f, n);
        uw_formula_wake(f, n, UW_NODE_MIXED | UW_NODE_ROUND);
        uw_formula_tell(f, UW_NODE_AVERAGED, n->place, both[1u - i]->place, 2, a->pair_us);
    }
    f->counters.averages_done += 2u;
    f->sent_bytes += 4.0 * f->model_bytes;
}

/* ---- both ---- */

void uw_formula_average_due(struct uw_formula *f, uint32_t alarm)
{
    uw_formula_set(f, alarm, UINT64_MAX);
    if (f->pairs && alarm > 0) {
        finish_pair(f, &f->nodes[alarm - 1u]);
    } else {
        finish_group(f, &f->groups[alarm]);
    }
}

int uw_formula_average_step(struct uw_formula *f, struct uw_formula_node *n, float lr)
{
    if (n->waits) {
        if (!n->averaged) {
            return UW_NODE_AVERAGING;
        }
        n->averaged = n->agreeing = false;
        begin_round(n);
        return n->flags;
    }
    if (lr > 0.0f) {
        n->steps++;
        n->lr_sum += lr;
    }
    if (!n->agreeing && n->steps < f->config.period_steps) {
        return 0;
    }
    return f->pairs && !n->agreeing ? meet(f, n) : gather(f, n);
}
