/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include <stdio.h>

/* When an alarm is set to. */
static uint64_t due_of(const struct uw_formula *f, uint32_t alarm)
{
    return f->clock.heap[f->clock.where[alarm]].at_us;
}

void uw_formula_set(struct uw_formula *f, uint32_t alarm, uint64_t due_us)
{
    if (alarm < uw_formula_pull_alarm(f, 0) || f->config.pull_waits) {
        f->busy_n -= due_of(f, alarm) != UINT64_MAX ? 1u : 0u;
        f->busy_n += due_us != UINT64_MAX ? 1u : 0u;
    }
    uw_sim_clock_set(&f->clock, alarm, due_us, UW_SIM_TRAINS);
}

void uw_formula_tell(struct uw_formula *f, enum uw_node_event_kind kind, uint32_t place,
                     uint32_t peer, uint32_t nodes_n, uint64_t took_us)
{
    char name[16] = "";
    if (f->config.on_event == NULL) {
        return;
    }
    bool one = peer != UW_FORMULA_NONE;
    if (one) {
        snprintf(name, sizeof name, "node%u", (unsigned)peer);
    }
    const struct uw_node_event event = {
        .kind = kind, .peer = name, .address = "", .text = "", .station = UW_LINK_STATION_NONE,
        .now_us = f->now_us, .bytes = (uint64_t)f->model_bytes * (f->pairs && one ? 2u : 1u),
        .duration_us = took_us, .chunks_n = nodes_n, .chunks_total_n = nodes_n};
    f->config.on_event(f->config.event_arg, place, &event);
}

struct uw_formula_node *uw_formula_next(struct uw_formula *f)
{
    if (f->last != NULL) {      /* whoever trains may have said that it is over */
        uw_formula_set(f, uw_formula_step_alarm(f, f->last->place), f->last->train_at_us);
        if (f->last->train_at_us == UINT64_MAX && !f->last->waits) {
            uw_formula_end(f, f->last);
        }
        f->last = NULL;
    }
    while (f->busy_n != 0) {
        uint64_t due_us = uw_sim_clock_first(&f->clock)->at_us;
        uint32_t alarm = uw_sim_clock_first(&f->clock)->place;
        f->now_us = due_us > f->now_us ? due_us : f->now_us;
        if (alarm < f->ends_n) {
            uw_formula_average_due(f, alarm);
        } else if (alarm < uw_formula_pull_alarm(f, 0)) {
            f->last = &f->nodes[alarm - f->ends_n];
            return f->last;
        } else {
            uw_formula_pull_due(f, &f->nodes[alarm - uw_formula_pull_alarm(f, 0)]);
        }
    }
    return NULL;
}

int uw_formula_trained(struct uw_formula *f, struct uw_formula_node *n,
                       const struct uw_node_progress *progress, uint64_t pause_us)
{
    bool average = f->config.mode != UW_NODE_GOSSIP || f->pairs;
    int flags = average ? uw_formula_average_step(f, n, progress->lr)
                        : uw_formula_gossip_step(f, n, progress->lr);
    uint64_t step_us = f->config.fleet->devices[n->place].step_us;
    n->waits = (flags & UW_NODE_AVERAGING) != 0;
    n->train_at_us =
        n->waits ? UINT64_MAX : f->now_us + (pause_us != 0 ? pause_us : step_us);
    uw_formula_set(f, uw_formula_step_alarm(f, n->place), n->train_at_us);
    return flags;
}

bool uw_formula_touches(const struct uw_formula *f, const struct uw_formula_node *n)
{
    bool arrives = n->pulling && n->arrives_us <= n->train_at_us;
    bool average = f->config.mode != UW_NODE_GOSSIP || f->pairs;
    uint32_t steps = n->steps > n->round_steps ? n->steps : n->round_steps;
    bool over = steps + 1u >= f->config.period_steps;
    return n->waits || n->agreeing || over || (arrives && !average);
}

void uw_formula_agree(struct uw_formula *f, struct uw_formula_node *n)
{
    n->agreeing = n->agreeing || f->pairs;
}
