/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include "uwasa/rng.h"

/* ---- pulls ---- */

void uw_formula_ask(struct uw_formula *f, struct uw_formula_node *n, uint32_t peer, float weight)
{
    const struct uw_sim_path path = uw_sim_path_between(f->world->config.fleet, peer, n->w->place);
    bool question = !f->world->config.study_pull;
    uint64_t now_us = f->world->now_us;
    n->peer = peer;
    n->weight = weight;
    n->pulling = true;
    n->asked_us = now_us;
    n->arrives_us = now_us + uw_world_us(uw_sim_pull_s(&path, f->model_bytes, question));
    uw_formula_alarm(f, uw_formula_pull_alarm(f, n),
                     now_us + (question ? uw_world_us(path.latency_s) : 0));
}

void uw_formula_pulled(struct uw_formula *f, struct uw_formula_node *n,
                       const struct uw_formula_node *to)
{
    n->pulling = false;
    if (n->lost) {
        n->lost = false;
        f->counters.pulls_cut++;
        return;
    }
    f->counters.pulls_done++;
    f->counters.pulled_bytes += (uint64_t)f->model_bytes;
    uw_formula_report(f, UW_NODE_PULL_DONE, to, to == n ? n->peer : n->w->place, 1,
                      f->world->now_us - n->asked_us);
}

float uw_formula_weight(const struct uw_formula *f, const struct uw_formula_node *n)
{
    return n->weight != 0.0f ? n->weight : f->c->constants.weight;
}

static bool relays(const struct uw_formula *f)
{
    return f->c->gossip == UW_GOSSIP_RELAY;
}

/* Has what the node asked for left its peer, or been lost? */
static bool is_on_its_way(const struct uw_formula_node *n)
{
    return n->pulled != NONE || n->lost;
}

static void mix(struct uw_formula *f, struct uw_formula_node *n)
{
    if (relays(f)) {
        uw_formula_relay_mix(f, n);
    } else if (!n->lost) {
        uw_mix_pulled(uw_formula_weight(f, n), &n->w->params, 0, n->w->params.size_n,
                      f->pool.x[n->shown], f->pool.x[n->pulled]);
    }
    uw_snapshot_drop(&f->pool, &n->pulled);
    n->mixed = n->mixed || !n->lost;
    n->mixed_models += n->lost ? 0.0f : 1.0f;
    uw_formula_pulled(f, n, n);
}

/* ---- gossip ---- */

static int begin_round(struct uw_formula *f, struct uw_formula_node *n)
{
    float weight;
    n->round_steps = 0;
    n->mixed = false;
    uint32_t peer = uw_formula_pick(f, n, &weight);
    n->round++;
    if (peer != NONE) {
        uw_formula_ask(f, n, peer, weight);
    }
    return f->world->config.pull_waits && n->pulling ? UW_NODE_AVERAGING : 0;
}

/* After T steps, or the last step: apply the rule and publish the parameters. */
static void end_steps(struct uw_formula *f, struct uw_formula_node *n)
{
    if (n->lr_sum > 0.0f) {
        n->recent = uw_mix_recent(&f->c->constants, n->recent, n->mixed_models);
        n->mixed_models = 0.0f;
        uw_formula_end_rule(f, n);
    }
    uw_formula_publish(f, n);
    uw_formula_clear_steps(n);
}

int uw_formula_gossip_step(struct uw_formula *f, struct uw_formula_node *n, float lr)
{
    int flags = 0;
    uint32_t pulls = relays(f) ? n->degree : f->c->pulls_n;
    bool more = pulls > 1u && n->round % pulls != 0;
    if (n->w->waits) {
        n->averaged = false;
        return n->flags | (more ? begin_round(f, n) : 0);
    }
    if (lr > 0.0f) {
        n->steps++;
        n->round_steps++;
        n->lr_sum += lr;
    }
    if (n->pulling && is_on_its_way(n) && n->arrives_us <= f->world->now_us) {
        mix(f, n);
        flags |= UW_NODE_MIXED;
    }
    bool over = !n->pulling && (lr == 0.0f || more || n->round_steps >= n->period_steps);
    if ((over && lr == 0.0f) || n->steps >= n->period_steps) {
        end_steps(f, n);
    }
    if (!over) {
        return flags;
    }
    return flags | (n->mixed ? UW_NODE_ROUND : 0) | begin_round(f, n);
}

void uw_formula_pull_due(struct uw_formula *f, struct uw_formula_node *n)
{
    bool asked = !is_on_its_way(n);
    bool wanted = n->w->waits || f->c->mode == UW_NODE_HIERARCHICAL;
    uw_formula_alarm(f, uw_formula_pull_alarm(f, n), asked && wanted ? n->arrives_us : UINT64_MAX);
    if (asked) {
        n->lost = uw_formula_loses(f, n);
        if (!n->lost && relays(f)) {
            uw_formula_relay_ask(f, n);
        } else if (!n->lost) {
            n->pulled = uw_snapshot_hold(&f->pool, f->nodes[n->peer].shown);
        }
        f->sent_bytes += f->model_bytes;
    } else if (f->c->mode == UW_NODE_GOSSIP) {
        mix(f, n);
        uw_formula_wake(f, n, UW_NODE_MIXED | UW_NODE_ROUND, f->world->now_us);
    } else {
        uw_formula_bridge_here(f, n);
    }
}
