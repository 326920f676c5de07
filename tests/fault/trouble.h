/* SPDX-License-Identifier: Apache-2.0
 *
 * trouble.h - what random scenarios over a world of nodes have in common
 *
 * Context  test's thread */
#ifndef UW_TESTS_FAULT_TROUBLE_H
#define UW_TESTS_FAULT_TROUBLE_H

#include "fault/gossip_world.h"

#include "uwasa/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* True with probability p. */
bool trouble_chance(struct uw_rng *rng, float p);

/* How bad a link may be drawn: [0] how often it has such a fault, [1] the most of it. One of five
 * has more delay than 2 ms. */
struct trouble_link {
    uint32_t delay_us, jitter_us;
    float loss[2], duplicate[2], reorder[2], corrupt[2];
    bool rates;                     /* three of ten links have 0.5 to 8.5 Mbit/s */
};

void trouble_draw_link(struct uw_rng *rng, const struct trouble_link *most,
                       struct uw_impairment *bad);

/* What i sends to k, and with UW_EMULATED_BOTH what it gets from it, is lost from now on. */
void trouble_cut(struct world *w, uint32_t i, uint32_t k, uint8_t directions);

/* Nodes whose bits differ in `side` no longer reach each other. */
void trouble_part(struct world *w, uint32_t side);

/* Draw who hears whom, until trouble_all_hear: a pair that does not hear each other, or one of them
 * not the other; two between whom messages above a size are lost, as above a path's MTU; devices
 * behind one NAT; two groups that some of both join; or any of it anywhere. Sizes are of messages
 * of up to mtu_bytes; pings alone always pass. All nodes are seeds from now on. */
void trouble_draw_reach(struct uw_rng *rng, struct world *w, uint32_t mtu_bytes);

void trouble_all_hear(struct world *w);

/* Steps of all nodes; fails if one that is up has made none since. */
struct trouble_steps {
    uint32_t of[WORLD_MAX];
};
struct trouble_steps trouble_steps(const struct world *w);
void trouble_expect_steps(const struct world *w, const struct trouble_steps *since);

/* No cuts, nobody paused or slow. */
void trouble_heal(struct world *w);

/* Call scenario(seed, arg) for each seed: from UWASA_TEST_SEED, or 1, as many as UWASA_TEST_COUNT
 * says, or `count`. */
void trouble_seeds(uint32_t count, void (*scenario)(uint64_t seed, void *arg), void *arg);

#endif
