/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/peer_schedule.h - choose the partner of a round
 *
 * A schedule is a pure function of the run's seed, the round and the members, sorted by identity:
 * every device computes the whole round without a message. Only `random` draws from a generator of
 * its own. The other schedules order the members by a pseudo-random permutation that changes every
 * ceil(log2 p) rounds (`matching`: every round; `base2`: after every sweep). In the end all pairs
 * meet, and within one permutation an update reaches all members.
 *
 *                  partner in round r, at place v of p            pairs are mutual
 *   random         any member, new in each round, by weight       no
 *   matching       a perfect matching; with odd p one rests       yes
 *   exponential    pulls from v + 2^(r mod L), L = ceil(log2 p)   no
 *   dissemination  pulls from v - 2^(r mod L)                     no
 *   hypercube      v with bit r mod L inverted, if below p        yes
 *   base2          the Base-2 graph: an exact average every sweep yes
 *   ring           its neighbours in turn: v - 1 and v + 1        no
 *   chain          a ring without the link from the last to the first
 *   torus          neighbours of a grid whose rows and columns are rings
 *   tree           of a binary tree: (v - 1) / 2, 2 v + 1, 2 v + 2
 *   graph          neighbours in a given graph
 *
 * The last five are graphs that stay as they are while the members do. With d(v) the number of v's
 * neighbours, the weight of an edge is Metropolis', 1 / (1 + max(d(v), d(w))), unless a given graph
 * has its own. A member that pulls from all its neighbours in a round does a step of D-PSGD.
 *
 * If a partner cannot be reached, the round is an identity for that member: weights stay doubly
 * stochastic where pairs are mutual.
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 * Source     M. Assran et al., "Stochastic Gradient Push", 2019: exponential; D. Hensgen et al.,
 *            "Two algorithms for barrier synchronization", 1988: dissemination; J. Daily et al.,
 *            "GossipGraD", 2018: rotation; Y. Takezawa et al., "Beyond Exponential Graph", 2023;
 *            L. Xiao et al., "A scheme for robust distributed sensor fusion", 2005: weights;
 *            X. Lian et al., "Can decentralized algorithms outperform centralized ones", 2017:
 *            D-PSGD
 */
#ifndef UWASA_PEER_SCHEDULE_H
#define UWASA_PEER_SCHEDULE_H

#include "uwasa/cplusplus.h"
#include "uwasa/rng.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_PEER_NOBODY UINT32_MAX

/* A link of a given graph, in both directions. */
struct uw_peer_edge {
    uint32_t id[2];             /* uw_hash32_text of its members' names */
    float weight;               /* share of the other member; 0: Metropolis' */
};

struct uw_peer_graph {
    const struct uw_peer_edge *edges;
    uint32_t edges_n;
};

struct uw_peer_view {
    uint32_t n;                 /* members, this one included */
    uint32_t self;              /* index of this member */
    const bool *usable;         /* [n] can be exchanged with now; entry of self ignored */
    const uint8_t *weight;      /* [n] relative weights for `random`, 1 or more; NULL: equal */
    uint32_t round;
    uint64_t seed;              /* of the run */
    const struct uw_peer_graph *graph;      /* for `graph` only, as the next two */
    uint32_t (*id)(const void *arg, uint32_t at);       /* the same of a member */
    const void *arg;
};

struct uw_peer_choice {
    uint32_t at;                /* index of the partner; UW_PEER_NOBODY: none in this round */
    float weight;               /* its share if the schedule prescribes one; else 0 */
};

struct uw_peer_schedule {
    const char *name;
    bool mutual;                /* the partner's partner is this member */
    /* The partner of view->self in view->round. rng: used by `random` only. */
    struct uw_peer_choice (*pick)(const struct uw_peer_view *view, struct uw_rng *rng);
    /* Of graphs, else NULL: the number of neighbours of view->self. Round r picks number r modulo
     * it. */
    uint32_t (*degree)(const struct uw_peer_view *view);
};

/* Weight of a peer with this battery charge in percent: the charge, at least 10, so that each peer
 * is drawn now and then; 100 for 0 (mains, or not known). */
#define UW_PEER_WEIGHT_LEAST 10u
#define UW_PEER_WEIGHT_FULL 100u
uint8_t uw_peer_weight(uint32_t battery_percent);

/* Draws among the usable members by weight. */
extern const struct uw_peer_schedule uw_peer_schedule_random;

/* Used by rules over pairs, and by leases of samples. */
extern const struct uw_peer_schedule uw_peer_schedule_matching, uw_peer_schedule_dissemination;

/* Neighbours in view->graph. */
extern const struct uw_peer_schedule uw_peer_schedule_graph;

/* Find a schedule by name; NULL for an unknown name. */
const struct uw_peer_schedule *uw_peer_schedule_find(const char *name);

UW_C_END
#endif
