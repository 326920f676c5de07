/* SPDX-License-Identifier: Apache-2.0
 *
 * A world of nodes that track gradients over committed pairs (gossip_world.h), and what must hold
 * in it whatever the network does:
 *
 *   - parameters and tracker that training gets back are those that a pair has from both sides'
 *     vectors, the same bits of x on both sides where they meet in the middle, or exactly what was
 *     handed over;
 *   - nobody waits for ever. */
#ifndef UWASA_TESTS_PAIRS_WORLD_H
#define UWASA_TESTS_PAIRS_WORLD_H

#include "fault/gossip_world.h"

struct pairs_round {
    uint32_t group, round;
    uint32_t began, committed, aborted;     /* bits of nodes by place */
    uint32_t place[2];                      /* of the two nodes, as they began */
    float *v[2];                            /* [2 size_n] what they handed over */
    float *x;                               /* [size_n] of the first who committed */
};

struct pairs_node {
    float *handed, *velocity;               /* [2 size_n], [size_n] as they were handed over */
    bool waits;
    uint64_t since_us;
    uint32_t identity;                      /* rounds that changed nothing */
    uint32_t retreats;
};

struct pairs_world {
    struct world *w;
    struct pairs_node nodes[WORLD_MAX];
    struct pairs_round *rounds;
    uint32_t rounds_n, rounds_max, committed_n;
    uint64_t longest_us;                    /* that anybody waited */
    uint64_t limit_us;                      /* longer than that is a hang */
    /* Local step of a node, its tracker included; NULL: noise of its own. */
    void (*step)(struct world_node *n);
};

/* n nodes under uw_mix_kgt that add noise to size_n parameters. */
struct pairs_world *pairs_world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes);

void pairs_world_run(struct pairs_world *a, uint64_t us);

/* A node is gone or starts anew: what it waits for is not asked about any more. */
void pairs_world_forget(struct pairs_world *a, uint32_t i);

/* Rounds that one side has committed and the other has not, and never will. */
uint32_t pairs_world_half(const struct pairs_world *a);

/* The largest |sum of trackers| over the largest |tracker|, of all elements. */
double pairs_world_imbalance(const struct pairs_world *a);

const struct uw_cell *pairs_world_cell(const struct world_node *n);

void pairs_world_free(struct pairs_world *a);

#endif
