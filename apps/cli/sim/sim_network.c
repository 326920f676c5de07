/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#include "job/momentum.h"

#include <string.h>

#define SCRATCH_N 65536u            /* lent to averages, as in uwasa node */

/* Of exact averages in both networks; of the formulas what they take to be on the wire. */
static void choose_network(struct uw_world_config *c, const struct uw_sim_options *o)
{
    static const enum uw_allreduce_kind shipped[] = {
        [UW_SIM_BUTTERFLY] = UW_ALLREDUCE_DOUBLING, [UW_SIM_HALVING] = UW_ALLREDUCE_HALVING,
        [UW_SIM_RING] = UW_ALLREDUCE_RING, [UW_SIM_TREE] = UW_ALLREDUCE_TREE,
        [UW_SIM_SWEEP] = UW_ALLREDUCE_SWEEP};
    c->network = strcmp(o->network, "formula") == 0 ? UW_WORLD_FORMULA : UW_WORLD_EVENTS;
    c->mtu_bytes = o->mtu;
    c->radio = o->link != NULL ? &o->radio : NULL;
    c->algorithm = UW_SIM_AUTO;
    if (o->algorithm != NULL) {
        (void)uw_sim_algorithm_find(o->algorithm, &c->algorithm);
    }
    c->node.algorithm = c->algorithm != UW_SIM_AUTO ? &shipped[c->algorithm] : NULL;
    c->model_bytes = o->model_bytes;
    c->study_pull = o->pull_latencies == 1u;
    c->pull_waits = o->pull_waits;
}

struct uw_world_config uw_sim_world_config(const struct uw_sim_options *o,
                                           const struct uw_sim_fleet *fleet,
                                           const struct uw_params *params, const char *run)
{
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    struct uw_world_config config = {
        .fleet = fleet,
        .params = params,
        .node = {.run = run,
                 .mode = uw_node_mode_find(o->exchange),
                 .head_weight = 1, .scratch_n = SCRATCH_N,
                 .rule = rule,
                 .constants = {.beta = uw_momentum_beta(rule, o->momentum)},
                 .schedule = uw_peer_schedule_find(o->schedule),
                 .period_steps = o->period, .period_share = (float)o->share, .slices_n = o->slices,
                 .window_bytes = (size_t)o->pull_window,
                 .seed = uw_rng_mix(o->seed, 0)}};
    choose_network(&config, o);
    return config;
}
