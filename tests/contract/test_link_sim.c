/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over the links of the simulator: what a world does between two steps of a node is
 * done here by the step itself. */
#include "link_pair.h"

#include "medium/medium.h"

static struct uw_sim_net net;
static struct uw_sim_device devices[2];
static const struct uw_sim_fleet fleet = {.devices = devices, .devices_n = 2};
static struct uw_link_ops pumped;
static const struct uw_link_ops *plain;

static uint64_t pump(struct uw_link *link, uint64_t now_us)
{
    while (uw_sim_net_next_us(&net) <= now_us) {
        (void)uw_sim_net_step(&net);
    }
    return plain->step(link, now_us);
}

static const char *open_pair(struct pair *p, uint64_t bits_per_s, uint64_t latency_us)
{
    const struct uw_sim_net_config config = {.fleet = &fleet, .mtu_bytes = MTU, .seed = 1};
    uw_sim_net_close(&net);
    for (uint32_t i = 0; i < 2; i++) {
        devices[i] = (struct uw_sim_device){.up_bits_per_s = bits_per_s, .latency_us = latency_us,
                                            .cell = UW_SIM_NO_CELL};
    }
    assert_int_equal(uw_sim_net_open(&net, &config), UW_OK);
    plain = net.links[0].link.ops;
    pumped = *plain;
    pumped.step = pump;
    for (uint32_t i = 0; i < 2; i++) {
        p->link[i] = &net.links[i].link;
        p->link[i]->ops = &pumped;
    }
    assert_int_equal(uw_link_resolve(p->link[0], "1", &p->to[0]), UW_OK);
    return NULL;
}

static const char *open_ideal(struct pair *p)
{
    return open_pair(p, 0, 0);
}

static const char *open_slow(struct pair *p)
{
    return open_pair(p, 100000000, 300);
}

int main(void)
{
    static const struct variant variants[] = {{"simulated, ideal", open_ideal},
                                              {"simulated, with a rate and a latency", open_slow}};
    int failed = uw_test_link_suite(variants, sizeof variants / sizeof variants[0]);
    uw_sim_net_close(&net);
    return failed;
}
