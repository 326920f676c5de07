/* SPDX-License-Identifier: Apache-2.0
 *
 * device_world.h - a world of average_world.h whose nodes have devices that average among
 * themselves (uwasa/node_direct.h): made up, and with flaws where a test wants them. One at a time.
 *
 * Context  test's thread; with UWASA_TEST_IMAGES=1 in the environment */
#ifndef UWASA_TESTS_DEVICE_WORLD_H
#define UWASA_TESTS_DEVICE_WORLD_H

#include "fault/average_world.h"

#include "uwasa/node_direct.h"

#define NODES 4u
#define SIZE_N 400u
#define GROUPS 512u

/* What a device does wrong in its next round; then it is well again, unless `always`. */
enum flaw { WELL, FAILS_TO_BEGIN, FAILS, HANGS, DIFFERS };

struct device {
    struct uw_node_direct hooks;
    struct world_node *node;
    enum flaw flaw;
    bool always;
    uint32_t version, begins, settles, aborts, polls, unlike;
    struct group *group;            /* NULL: it is in none */
    uint32_t rank;
    bool bad;                       /* in the round at hand */
    float *result;
};

struct group {
    uint8_t id[UW_NODE_DIRECT_ID_BYTES];
    uint32_t ranks, left;           /* left: somebody has, nothing can be done any more */
    uint32_t begun[NODES];          /* rounds, by rank */
    float *x[NODES];                /* what a rank began with */
};

struct devices {
    struct average_world *a;
    struct device of[NODES];
    struct group groups[GROUPS];
    uint32_t ids;
};

extern struct devices device_world;

/* n nodes with a device each, none of them up. */
struct average_world *device_world_new(uint32_t n);

/* Of a node, with its device or without. */
struct uw_node_config device_world_config(uint32_t i, bool direct);

/* All are up; `without` has no device. */
void device_world_start(uint32_t without);

/* The latter where nobody may have committed what another aborted. */
void device_world_free(void);
void device_world_end(void);

#endif
