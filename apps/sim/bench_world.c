/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_world NODES [STEPS [FLOATS [MEMBERS]]]: what a step of a node costs in a world whose nodes
 * hold vectors and train nothing. 1 Gbit/s, 5 ms, steps of 10 ms, pull gossip every 10 steps with
 * quasi-global momentum. */
#include "uwasa/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rss_bytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1024.0 * (double)u.ru_maxrss;
}

/* Every node does so many steps. Returns the seconds they took. */
static double run(struct uw_world *w, uint32_t *done, uint32_t steps)
{
    double start_s = now_s();
    struct uw_world_node *n;
    while ((n = uw_world_next(w)) != NULL) {
        done[n->place] += !n->waits;
        n->x[done[n->place] % n->params.size_n] += 1e-3f;
        const struct uw_node_progress p = {.step = done[n->place], .lr = n->waits ? 0.0f : 0.1f};
        if (uw_world_trained(w, n, &p, 0) < 0) {
            break;
        }
        n->train_at_us = done[n->place] == steps ? UINT64_MAX : n->train_at_us;
    }
    return now_s() - start_s;
}

int main(int argc, char **argv)
{
    uint32_t given[4] = {16, 100, 50890, 0};
    for (int i = 1; i < argc && i <= 4; i++) {
        given[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
    }
    const struct uw_sim_even even = {.devices_n = given[0], .up_bits_per_s = 1000000000,
                                     .latency_us = 5000, .step_us = 10000};
    const struct uw_segment segment = {.name = "w", .size_n = given[2]};
    float *x = calloc(given[2], sizeof *x);
    uint32_t *done = calloc(given[0], sizeof *done);
    struct uw_sim_fleet fleet;
    struct uw_world w = {.nodes = NULL};
    struct uw_error err = {.text = ""};
    int rc = x != NULL && done != NULL ? uw_sim_fleet_even(&fleet, &even) : UW_ERR_NOMEM;
    const struct uw_params params = {
        .x = x, .size_n = given[2], .segments = &segment, .segments_n = 1, .hash = 7};
    const struct uw_world_config config = {
        .fleet = &fleet, .params = &params, .mtu_bytes = 16384, .members_max = given[3],
        .node = {.run = "bench", .rule = &uw_mix_qg, .period_steps = 10, .seed = 1}};
    double start_s = now_s();
    size_t bytes = rc < 0 ? 0 : uw_world_measure(&config, &err);
    rc = rc < 0 ? rc : uw_world_open(&w, &config, &err);
    double opened_s = now_s();
    rc = rc < 0 ? rc : uw_world_meet(&w, 600000000u);
    double met_s = now_s();
    if (rc < 0) {
        fprintf(stderr, "%s %s\n", uw_status_text(rc), err.text);
        return 1;
    }
    double took_s = run(&w, done, given[1]);
    struct uw_node_counters c = uw_world_counters(&w);
    double steps = (double)given[0] * given[1];
    printf("nodes %u  open %.2f s  meet %.2f s (at %.3f s)  steps %.0f in %.3f s: %.2f us a "
           "node-step, %.0f a second  pulls %u + %u cut  sent %.1f MB  measured %.1f MB, rss "
           "%.1f MB\n",
           (unsigned)given[0], opened_s - start_s, met_s - opened_s, (double)w.start_us / 1e6,
           steps, took_s, 1e6 * took_s / steps, steps / took_s, (unsigned)c.pulls_done,
           (unsigned)c.pulls_cut, (double)uw_world_sent_bytes(&w) / 1e6, (double)bytes / 1e6,
           rss_bytes() / 1e6);
    uw_world_close(&w);
    uw_sim_fleet_close(&fleet);
    free(done);
    free(x);
    return 0;
}
