/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include <string.h>

/* ---- snapshots ---- */

void uw_formula_drop(struct uw_formula *f, uint32_t *snapshot)
{
    uint32_t i = *snapshot;
    *snapshot = UW_FORMULA_NONE;
    if (i != UW_FORMULA_NONE && --f->refs[i] == 0) {
        f->unused[f->unused_n++] = i;
    }
}

static uint32_t hold(struct uw_formula *f, uint32_t snapshot)
{
    f->refs[snapshot]++;
    return snapshot;
}

void uw_formula_publish(struct uw_formula *f, struct uw_formula_node *n)
{
    if (n->snapshot == UW_FORMULA_NONE || f->refs[n->snapshot] > 1) {
        uw_formula_drop(f, &n->snapshot);
        n->snapshot = hold(f, f->unused[--f->unused_n]);
    }
    memcpy(uw_formula_vector(f, n->snapshot), n->x, n->params.size_n * sizeof(float));
}

void uw_formula_share(struct uw_formula *f, struct uw_formula_node *n,
                      const struct uw_formula_node *other)
{
    uw_formula_drop(f, &n->snapshot);
    n->snapshot = hold(f, other->snapshot);
}

/* ---- pulls ---- */

void uw_formula_ask(struct uw_formula *f, struct uw_formula_node *n, uint32_t peer, float weight)
{
    const struct uw_sim_path path = uw_sim_path_between(f->config.fleet, peer, n->place);
    bool question = !f->config.study_pull;
    n->peer = peer;
    n->weight = weight;
    n->pulling = true;
    n->asked_us = f->now_us;
    n->arrives_us = f->now_us + uw_formula_us(uw_sim_pull_s(&path, f->model_bytes, question));
    uw_formula_set(f, uw_formula_pull_alarm(f, n->place),
                   f->now_us + (question ? uw_formula_us(path.latency_s) : 0));
}

static void pull_is_here(struct uw_formula *f, struct uw_formula_node *n)
{
    n->pulling = false;
    f->counters.pulls_done++;
    f->counters.pulled_bytes += (uint64_t)f->model_bytes;
    uw_formula_tell(f, UW_NODE_PULL_DONE, n->place, n->peer, 1, f->now_us - n->asked_us);
}

static void mix(struct uw_formula *f, struct uw_formula_node *n)
{
    float weight = n->weight != 0.0f ? n->weight : f->config.constants.weight;
    uw_mix_pulled(weight, &n->params, 0, n->params.size_n, uw_formula_vector(f, n->snapshot),
                  uw_formula_vector(f, n->pulled));
    uw_formula_drop(f, &n->pulled);
    n->mixed = true;
    n->mixed_models += 1.0f;
    pull_is_here(f, n);
}

void uw_formula_pull_due(struct uw_formula *f, struct uw_formula_node *n)
{
    bool asked = n->pulled == UW_FORMULA_NONE;
    bool wanted = n->waits || f->config.mode == UW_NODE_HIERARCHICAL;
    uw_formula_set(f, uw_formula_pull_alarm(f, n->place),
                   asked && wanted ? n->arrives_us : UINT64_MAX);
    if (asked) {
        n->pulled = hold(f, f->nodes[n->peer].snapshot);
        f->sent_bytes += f->model_bytes;
    } else if (f->config.mode == UW_NODE_GOSSIP) {
        mix(f, n);
        uw_formula_wake(f, n, UW_NODE_MIXED | UW_NODE_ROUND);
    } else {
        uw_formula_drop(f, &n->held);
        n->held = n->pulled;
        n->held_weight = uw_mix_cell_weight(f->config.constants.weight,
                                            f->groups[f->group_of[n->place]].nodes_n,
                                            f->groups[f->group_of[n->peer]].nodes_n);
        n->pulled = UW_FORMULA_NONE;
        pull_is_here(f, n);
        uw_formula_bridge(f, n);
    }
}

uint32_t uw_formula_pick(struct uw_formula *f, struct uw_formula_node *n, float *weight)
{
    *weight = 0.0f;
    if (f->nodes_n < 2) {
        return UW_FORMULA_NONE;
    }
    if (f->config.schedule == &uw_peer_schedule_random) {
        /* As it picks where everybody can be reached, without looking at everybody. */
        uint32_t at = uw_rng_below(&n->rng, f->nodes_n - 1u);
        return at + (at >= n->place ? 1u : 0u);
    }
    const struct uw_peer_view view = {.n = f->nodes_n, .self = n->place, .usable = f->usable,
                                      .round = n->round, .seed = f->config.seed};
    struct uw_peer_choice choice = f->config.schedule->pick(&view, &n->rng);
    *weight = choice.weight;
    return choice.at < f->nodes_n ? choice.at : UW_FORMULA_NONE;
}

/* ---- rounds ---- */

static int begin_round(struct uw_formula *f, struct uw_formula_node *n)
{
    float weight;
    n->round_steps = 0;
    n->mixed = false;
    uint32_t peer = uw_formula_pick(f, n, &weight);
    n->round++;
    if (peer != UW_FORMULA_NONE) {
        uw_formula_ask(f, n, peer, weight);
    }
    return f->config.pull_waits && n->pulling ? UW_NODE_AVERAGING : 0;
}

/* T steps are done, or there are no more: the rule has its turn, others see what is here. */
static void end_steps(struct uw_formula *f, struct uw_formula_node *n)
{
    const struct uw_formula_config *c = &f->config;
    if (n->lr_sum > 0.0f) {
        n->recent = uw_mix_recent(&c->constants, n->recent, n->mixed_models);
        n->mixed_models = 0.0f;
        uw_mix_end(c->rule, &c->constants, &n->params, uw_formula_vector(f, n->snapshot),
                   n->velocity, n->lr_sum, n->recent);
    }
    uw_formula_publish(f, n);
    n->steps = 0;
    n->lr_sum = 0.0f;
}

int uw_formula_gossip_step(struct uw_formula *f, struct uw_formula_node *n, float lr)
{
    const struct uw_formula_config *c = &f->config;
    int flags = 0;
    if (n->waits) {
        n->averaged = false;
        return n->flags;
    }
    if (lr > 0.0f) {
        n->steps++;
        n->round_steps++;
        n->lr_sum += lr;
    }
    if (n->pulling && n->pulled != UW_FORMULA_NONE && n->arrives_us <= f->now_us) {
        mix(f, n);
        flags |= UW_NODE_MIXED;
    }
    bool over = !n->pulling && (lr == 0.0f || n->round_steps >= c->period_steps);
    if ((over && lr == 0.0f) || n->steps >= c->period_steps) {
        end_steps(f, n);
    }
    if (!over) {
        return flags;
    }
    return flags | (n->mixed ? UW_NODE_ROUND : 0) | begin_round(f, n);
}
