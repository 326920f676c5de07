/* SPDX-License-Identifier: Apache-2.0
 *
 * A world of nodes on one virtual clock: loopback endpoints behind emulated links, vectors in
 * place of models, and a step function in place of training. The nodes are the ones that ship.
 *
 * With UWASA_TEST_IMAGES=1 training works in vectors that no node sees (uwasa/node_image.h): what a
 * node has not fetched since the step before is NaN. Whatever holds of a world holds with them. */
#ifndef UWASA_TESTS_GOSSIP_WORLD_H
#define UWASA_TESTS_GOSSIP_WORLD_H

#include "test_support.h"

#include "node/node_state.h"
#include "node_exact/node_averages.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"
#include "uwasa/node.h"
#include "uwasa/node_image.h"

#define WORLD_MAX 10u
#define WORLD_QUEUE 256u

struct world;

struct world_node {
    struct world *world;
    uint32_t place;
    bool up, trains, averaging;
    bool paused;                        /* as by SIGSTOP */
    uint64_t clock_us;                  /* what its clock is ahead of the world's; wraps */
    int32_t drift_ppm;                  /* and what it gains or loses */
    uint64_t deaf_until_us;             /* it sleeps: what comes is lost */
    uint64_t on_us;                     /* it did not for so long */
    uint32_t slowness;                  /* its training steps take so many times as long; 0: 1 */
    uint32_t burst_bytes, burst_n;      /* of its link */
    uint32_t mtu_bytes;                 /* the same; 0: the medium's */
    bool keeps_burst;                   /* which does not tell */
    uint64_t pause_us, step_at_us;      /* its network thread runs so seldom; 0: when it wants */
    struct uw_link_loopback loopback;
    struct uw_link_emulated emulated;
    void *emulated_memory;
    struct uw_node node;
    void *memory;
    struct uw_params params;
    struct uw_snapshot snapshot;
    float *x, *velocity;
    float *spare;                       /* of the configuration; the test's */
    struct uw_params image_params;      /* with images: what the node has in place of params, */
    float *image, *image_velocity;      /* x and velocity; else NULL */
    struct uw_node_image hooks;
    uint32_t copies;                    /* calls of the hooks */
    char name[16], address[16];
    struct uw_node_progress progress;
    uint64_t train_at_us;
    uint32_t rounds;
    void *link_above;                   /* the hook's */
    uint32_t events[UW_NODE_EVENTS_N];
    char text[UW_NODE_EVENTS_N][UW_NODE_TEXT_BYTES];    /* the last of each kind */
    /* Called before uw_node_after_step: the local step. May be NULL. */
    void (*train)(struct world_node *n);
    /* Called after it. May be NULL. */
    void (*after)(struct world_node *n, int flags);
};

struct world {
    uint64_t now_us;
    uint64_t seed;
    uint32_t n, size_n;
    struct uw_segment segments[2];
    struct uw_loopback_hub hub;
    void *hub_memory;
    struct uw_impairment impairment;    /* of every node's sending side */
    struct uw_impairment arriving;      /* and of its receiving side */
    struct uw_emulated_medium *medium;  /* that all share; NULL: none */
    uint32_t queue_n;                   /* messages that may wait to be sent; 0: WORLD_QUEUE */
    /* Called with the emulated link up: the link that its node gets. And before that goes down. Both
     * may be NULL. */
    struct uw_link *(*above)(struct world_node *n);
    void (*above_down)(struct world_node *n);
    /* NULL: towards all others; else towards these. arg is the world_node. */
    bool (*far)(void *arg, uint16_t place);
    uint32_t most_bytes[WORLD_MAX][WORLD_MAX];      /* world_narrow */
    struct uw_node_config config;       /* what all nodes share; name, link, vectors are added */
    uint64_t train_us;                  /* between two local steps */
    const char *seeds[1];
    bool listed;                        /* seeds are all peers: uw_node_bind_listed */
    uint32_t incarnation;
    bool talk;
    void *user;
    struct world_node nodes[WORLD_MAX];
};

struct world *world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes);

void world_up_with(struct world *w, uint32_t i, struct uw_node_config c);

struct uw_node_config world_config(struct world *w, uint32_t i);

/* Where its parameters are now: while they are averaged that is the image, if there is one. */
float *world_x(struct world_node *n);

void world_up(struct world *w, uint32_t i);

void world_down(struct world *w, uint32_t i);

/* From now on i's messages to k of more than so many bytes are lost, whatever happens to i. 0: none;
 * WORLD_NOTHING: all. */
#define WORLD_NOTHING 1u
void world_narrow(struct world *w, uint32_t i, uint32_t k, uint32_t most_bytes);

void world_start(struct world *w);

void world_tick(struct world *w);

void world_run(struct world *w, uint64_t us);

void world_until(struct world *w, bool (*done)(struct world *w), uint64_t limit_us);

void world_free(struct world *w);

struct uw_node_counters world_counters(struct world *w, uint32_t i);

/* Does each node that is up know all others that are, and nobody else, as alive? For world_until. */
bool world_all_know_all(struct world *w);

enum uw_member_state world_state(struct world *w, uint32_t i, const char *name);

#endif
