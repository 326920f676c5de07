/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#define SCRATCH_N 65536u            /* lent to averages, as in uwasa node */

/* Of exact averages in both networks; of the formulas what they take to be on the wire. */
static void choose_network(struct uw_world_config *c, const struct uw_sim_options *o)
{
    static const enum uw_allreduce_kind shipped[] = {
        [UW_SIM_BUTTERFLY] = UW_ALLREDUCE_DOUBLING, [UW_SIM_HALVING] = UW_ALLREDUCE_HALVING,
        [UW_SIM_RING] = UW_ALLREDUCE_RING, [UW_SIM_TREE] = UW_ALLREDUCE_TREE,
        [UW_SIM_SWEEP] = UW_ALLREDUCE_SWEEP};
    c->network = (enum uw_world_network)o->network.at;
    c->mtu_bytes = o->mtu;
    c->radio = o->link != NULL ? &o->radio : NULL;
    c->algorithm = (enum uw_sim_algorithm)o->algorithm.at;
    c->node.algorithm = c->algorithm != UW_SIM_AUTO ? &shipped[c->algorithm] : NULL;
    c->model_bytes = o->model_bytes;
    c->study_pull = o->pull_latencies == 1u;
    c->pull_waits = o->pull_waits;
}

struct uw_world_config uw_sim_world_config(const struct uw_sim_options *o,
                                           const struct uw_sim_fleet *fleet,
                                           const struct uw_params *params, const char *run)
{
    struct uw_world_config config = {
        .fleet = fleet,
        .params = params,
        .node = {.run = run,
                 .head_weight = 1, .scratch_n = SCRATCH_N,
                 .window_bytes = (size_t)o->pull_window,
                 .seed = uw_rng_mix(o->seed, 0)}};
    uw_exchange_fill(&o->exchange, &config.node);
    config.node.schedule = uw_exchange_peers(&o->exchange);
    choose_network(&config, o);
    return config;
}
