/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include "uwasa/secure_frames.h"

/* Time of a pull, and of the pulls of all members, on a shared medium; 0: not known. */
static uint64_t kept_us(const struct uw_node_state *s)
{
    const struct uw_link *l = s->config.link;
    if (!l->shared || l->rate_bits_per_s == 0) {
        return 0;
    }
    float messages = (float)s->config.params->size_n / (float)s->chunk_n;
    uint32_t bytes = l->mtu_bytes + (l->frames ? UW_SECURE_FRAMES_OVERHEAD : 0);
    float own_us = messages * (float)bytes * 8e6f / (float)l->rate_bits_per_s;
    float nodes = (float)(uw_membership_alive(&s->membership) + 1u);
    float all = l->duty_ppm != 0 ? nodes * (float)l->duty_ppm * 1e-6f : nodes;
    return (uint64_t)(all > 1.0f ? all * own_us : own_us);
}

static void began(struct uw_node_state *s)
{
    struct uw_node_period *p = s->period;
    if (p->since_us == 0) {
        p->since_us = s->outer_us;
        p->since_step = uw_load(&s->gossip.step);
    }
}

static void learn(struct uw_node_state *s, uint64_t took_us)
{
    struct uw_node_period *p = s->period;
    uint32_t step = uw_load(&s->gossip.step), steps = step - p->since_step;
    uint32_t period = uw_period_learn(&p->period, took_us, steps, s->outer_us - p->since_us);
    if (steps != 0) {
        p->since_us = s->outer_us;
        p->since_step = step;
    }
    atomic_store_explicit(&s->gossip.period, period, memory_order_relaxed);
}

static void ended(struct uw_node_state *s)
{
    uint64_t took_us = s->now_us - s->pull.first.transfer.started_us, least_us = kept_us(s);
    learn(s, took_us > least_us ? took_us : least_us);
}

static void cast_ended(struct uw_node_state *s, uint64_t all_us)
{
    uint64_t us = kept_us(s);
    learn(s, us != 0 ? us : all_us);
}

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    bool pulls = c->mode == UW_NODE_GOSSIP || c->mode == UW_NODE_BROADCAST;
    if (!(c->period_share >= 0.0f && c->period_share <= 1.0f)) {
        return UW_NODE_FAULT(fault, period_share, "needs 0 to 1");
    }
    return pulls && !uw_node_pairs_up(c)
               ? UW_OK : UW_NODE_FAULT(fault, period_share, "can adapt in gossip and broadcast "
                                                            "only, and not by pairs");
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    void *memory;
    int rc = uw_arena_take(arena, sizeof *s->period, &memory);
    s->period = memory;
    if (rc == UW_OK && s->period != NULL) {
        *s->period = (struct uw_node_period){.since_us = 0};
        uw_period_init(&s->period->period, s->config.period_share, s->config.period_steps);
    }
    return rc;
}

const struct uw_node_periods uw_node_periods = {{check, place}, began, ended, cast_ended};
