/* SPDX-License-Identifier: Apache-2.0
 *
 * gradient_devices.h - a world of gradient_world.h whose nodes have devices that average among
 * themselves (uwasa/node_direct.h): made up. A group's n-th sum of a rank meets the n-th of the
 * others, whatever it is of, as NCCL's do; sums that do not belong together fail the test. One
 * world at a time.
 *
 * Context  test's thread */
#ifndef UWASA_TESTS_GRADIENT_DEVICES_H
#define UWASA_TESTS_GRADIENT_DEVICES_H

#include "fault/gradient_world.h"

#include "uwasa/node_direct.h"

#define GRADIENT_DEVICES 6u
#define GROUPS 256u

struct vector {
    float x[GRADIENT_SIZE];
    bool of_gradients;
};

struct group {
    uint8_t id[UW_NODE_DIRECT_ID_BYTES];
    uint32_t ranks;
    bool left;                          /* by a rank: nothing can be done any more */
    uint32_t begun[GRADIENT_DEVICES];              /* sums, by rank */
    struct vector last[GRADIENT_DEVICES][2];       /* a rank is ahead of another by one at most */
};

struct device {
    struct uw_node_direct hooks;
    struct world_node *node;
    struct group *group;
    uint32_t rank, adds, aborts;
    uint32_t fails_at, hangs_at;        /* adds; 0: never */
    bool hangs;
    const struct uw_node_direct_part *parts;
    uint32_t parts_n;
};

struct gradient_devices {
    struct gradient_world *g;
    struct device of[GRADIENT_DEVICES];
    struct group groups[GROUPS];
    uint32_t ids;
};

extern struct gradient_devices gradient_devices;

/* A world of n nodes with a device each, none of them up; with UWASA_TEST_IMAGES=1 in the
 * environment. */
struct gradient_world *gradient_devices_new(uint32_t n);

/* A node starts, with its device; a node is gone, whatever it was in the middle of. */
void gradient_devices_up(uint32_t i, bool newcomer);
void gradient_devices_down(uint32_t i);

#endif
