/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that lend samples, on the virtual time of gossip_world.h. After every tick each node's pool
 * is read as a whole, the way a loader would, and no sample may be found on two nodes. */
#ifndef UWASA_TESTS_SHUFFLE_WORLD_H
#define UWASA_TESTS_SHUFFLE_WORLD_H

#include "fault/gossip_world.h"

#include "uwasa/sample_pool.h"

#define SHUFFLE_SAMPLES_MAX 24u

struct shuffle_source {
    struct uw_dataset base;
    const float *elements;          /* sample after sample */
    uint32_t owner;
};

struct shuffle_node {
    struct shuffle_source source;
    struct uw_sample_pool pool;
    void *memory;
    double rate;                    /* of its clock, less 1 */
    double drift_us;
    bool on;                        /* lends samples */
};

struct shuffle_world {
    struct world *w;
    uint32_t samples_n, sample_n, slots_n;  /* of every node; floats of a sample */
    uint64_t loan_us;
    float *elements;                /* of all samples: node after node */
    uint32_t seen_by[WORLD_MAX][SHUFFLE_SAMPLES_MAX];       /* nodes that draw it now: bits */
    uint64_t seen_us[WORLD_MAX][SHUFFLE_SAMPLES_MAX];       /* last drawn by anybody */
    uint32_t foreign_n[WORLD_MAX];  /* samples of others it draws now */
    struct shuffle_node nodes[WORLD_MAX];
};

struct shuffle_world *shuffle_world_new(uint32_t n, uint32_t samples_n, uint32_t sample_n,
                                        uint32_t slots_n, uint32_t mtu_bytes);

/* A node is started; its samples are those it had at first. */
void shuffle_world_up(struct shuffle_world *a, uint32_t i, bool on);

void shuffle_world_down(struct shuffle_world *a, uint32_t i);

/* Read all pools. Fails when a sample is on two nodes, or not whole. */
void shuffle_world_check(struct shuffle_world *a);

void shuffle_world_run(struct shuffle_world *a, uint64_t us);

void shuffle_world_free(struct shuffle_world *a);

#endif
