/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that average the gradients of every step, in the world of gossip_world.h. A gradient is
 * noise that follows from the node and its step; an update subtracts it, in the next step's forward
 * pass. What is averaged is compared with the mean of what its ranks handed over, and the
 * parameters of ranks at the same step of a group bit for bit. */
#ifndef UWASA_TESTS_GRADIENT_WORLD_H
#define UWASA_TESTS_GRADIENT_WORLD_H

#include "fault/gossip_world.h"

#include "base/bits.h"

#include "uwasa/node_gradients.h"

#define GRADIENT_BUCKETS 4u
#define GRADIENT_SIZE 300u
#define GRADIENT_RECORDS 64u

/* A step of a group. */
struct gradient_step {
    uint32_t group, round, ranks_n, handed, looked;     /* handed, looked: bits of nodes */
    double sum[GRADIENT_SIZE];
    float mean[GRADIENT_SIZE], x[GRADIENT_SIZE];
    uint32_t have_mean;                     /* bits of buckets */
    bool have_x;
};

struct gradient_node {
    struct world_node *it;
    float gradient[GRADIENT_SIZE];
    bool pending, finishing, averaging, stalled, done, dropped;
    uint32_t group, round;                  /* in a group: its number, steps handed over */
    uint32_t averaged_n;                    /* steps averaged whole */
    uint32_t steps_most;                    /* 0: for ever */
    uint64_t moved_us;                      /* last step or hand-over */
};

struct gradient_world {
    struct world *w;
    struct uw_node_gradients_config config;
    struct gradient_node nodes[WORLD_MAX];
    struct gradient_step steps[GRADIENT_RECORDS];
    uint32_t steps_n, compared_n;
    uint64_t longest_us, limit_us;          /* that a node waited, and may wait */
    bool bits;                              /* compare parameters */
};

struct gradient_world *gradient_world_new(uint32_t n, uint32_t mtu_bytes);

void gradient_world_run(struct gradient_world *g, uint64_t us);

/* Until all nodes that are up have averaged so many steps more in one group of `ranks`. */
void gradient_world_together(struct gradient_world *g, uint32_t ranks, uint32_t steps,
                             uint64_t limit_us);

/* The node is gone, or starts anew. */
void gradient_world_forget(struct gradient_world *g, uint32_t i);

void gradient_world_free(struct gradient_world *g);

#endif
