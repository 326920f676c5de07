/* SPDX-License-Identifier: Apache-2.0
 *
 * Push gossip and push-sum. What arrives at a node during a step is mixed at the step's end. */
#include "formula_priv.h"

static bool has_weights(const struct uw_formula *f)
{
    return f->c->gossip == UW_GOSSIP_PUSH_SUM;
}

/* All nodes' steps count alike in the weighted mean of the models: divide what steps have changed
 * since the last publish by the node's weight. */
static void divide_steps(struct uw_formula *f, struct uw_formula_node *n)
{
    const float *s = f->pool.x[n->shown];
    for (uint32_t k = 0; n->mass != 1.0f && k < n->w->params.size_n; k++) {
        n->w->x[k] = s[k] + (n->w->x[k] - s[k]) / n->mass;
    }
}

/* Mix what has arrived, by weights. Returns whether anything has. */
static bool mix_inbox(struct uw_formula *f, struct uw_formula_node *n)
{
    if (n->inbox == NONE) {
        return false;
    }
    if (has_weights(f)) {
        divide_steps(f, n);
    }
    n->mass += n->inbox_mass;
    uw_mix_chunk(n->inbox_mass / n->mass, n->w->params.size_n, f->pool.x[n->inbox], n->w->x);
    uw_snapshot_drop(&f->pool, &n->inbox);
    if (has_weights(f)) {
        uw_formula_publish(f, n);
    }
    n->mixed_models += 1.0f;
    return true;
}

/* Add a model to a node's inbox, the weighted mean of those that wait. */
static void receive(struct uw_formula *f, struct uw_formula_node *n, const float *x, float mass)
{
    if (n->inbox == NONE) {
        n->inbox_mass = 0.0f;
        uw_snapshot_write(&f->pool, &n->inbox, x);
    } else {
        uw_mix_chunk(mass / (n->inbox_mass + mass), n->w->params.size_n, x, f->pool.x[n->inbox]);
    }
    n->inbox_mass += mass;
}

static void end_steps(struct uw_formula *f, struct uw_formula_node *n)
{
    if (has_weights(f)) {
        divide_steps(f, n);
    } else if (n->lr_sum > 0.0f) {
        n->recent = uw_mix_recent(&f->c->constants, n->recent, n->mixed_models);
        uw_formula_end_rule(f, n);
    }
    n->mixed_models = 0.0f;
    uw_formula_publish(f, n);
    uw_formula_clear_steps(n);
}

/* Send the published parameters to the partner of the round. Returns whether there is one. */
static bool send(struct uw_formula *f, struct uw_formula_node *n)
{
    float none;
    n->peer = uw_formula_pick(f, n, &none);
    n->round++;
    n->mass = has_weights(f) ? n->mass : 1.0f;
    if (n->peer == NONE) {
        return false;
    }
    const struct uw_sim_path path = uw_sim_path_between(f->world->config.fleet, n->w->place,
                                                        n->peer);
    n->sent_mass = has_weights(f) ? 0.5f * n->mass : 1.0f;
    n->mass -= has_weights(f) ? n->sent_mass : 0.0f;
    n->pulled = uw_snapshot_hold(&f->pool, n->shown);
    n->lost = uw_formula_loses(f, n);
    n->pulling = true;
    n->asked_us = f->world->now_us;
    f->sent_bytes += f->model_bytes;
    uw_formula_alarm(f, uw_formula_pull_alarm(f, n),
                     n->asked_us + uw_world_us(uw_sim_pull_s(&path, f->model_bytes, false)));
    return true;
}

int uw_formula_push_step(struct uw_formula *f, struct uw_formula_node *n, float lr)
{
    bool waited = n->w->waits;
    int flags = mix_inbox(f, n) ? UW_NODE_MIXED : 0;
    n->averaged = false;
    if (!waited && lr > 0.0f) {
        n->steps++;
        n->lr_sum += lr;
    }
    if (waited || n->pulling || (lr > 0.0f && n->steps < n->period_steps)) {
        return flags | (waited ? UW_NODE_ROUND : 0);
    }
    flags |= n->round != 0 ? UW_NODE_ROUND : 0;
    end_steps(f, n);
    bool waits = send(f, n) && f->world->config.pull_waits;
    return flags | (waits ? UW_NODE_AVERAGING : 0);
}

void uw_formula_push_due(struct uw_formula *f, struct uw_formula_node *n)
{
    /* The sender of a weight knows that it was lost, and takes it back. */
    struct uw_formula_node *to = n->lost ? n : &f->nodes[n->peer];
    uw_formula_alarm(f, uw_formula_pull_alarm(f, n), UINT64_MAX);
    if (!n->lost || has_weights(f)) {
        receive(f, to, f->pool.x[n->pulled], n->sent_mass);
    }
    uw_snapshot_drop(&f->pool, &n->pulled);
    uw_formula_pulled(f, n, to);
    if (n->w->waits) {
        uw_formula_wake(f, n, UW_NODE_ROUND, f->world->now_us + 1u);    /* after other arrivals */
    }
}
