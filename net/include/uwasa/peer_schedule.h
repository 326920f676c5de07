/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/peer_schedule.h - whom to exchange with in a round
 *
 * A schedule is a pure function of the run's seed, the round and the members, sorted by identity:
 * every device works out the whole round without a message. Only `random` draws from a generator of
 * its own. The others put the members in a virtual order, a pseudo-random permutation that
 * changes every ceil(log2 p) rounds (`matching`: every round; `base2`: after every sweep): so all
 * pairs meet in the end, and an update reaches everybody in between.
 *
 *                  partner in round r, at place v of p            pairs are mutual
 *   random         anybody, each time anew, by their weights      no
 *   matching       a perfect matching; with an odd p one rests    yes
 *   exponential    pulls from v + 2^(r mod L), L = ceil(log2 p)   no
 *   dissemination  pulls from v - 2^(r mod L)                     no
 *   hypercube      v with bit r mod L turned over, if below p     yes
 *   base2          the Base-2 graph: an exact average every sweep yes
 *
 * A partner that cannot be reached now makes the round an identity for whoever has it: weights stay
 * doubly stochastic where pairs are mutual.
 *
 * Memory     nothing is kept      Blocking  never      Context  any thread
 * Source     M. Assran et al., "Stochastic Gradient Push", 2019: exponential; D. Hensgen et al.,
 *            "Two algorithms for barrier synchronization", 1988: dissemination; J. Daily et al.,
 *            "GossipGraD", 2018: rotation; Y. Takezawa et al., "Beyond Exponential Graph", 2023
 */
#ifndef UWASA_PEER_SCHEDULE_H
#define UWASA_PEER_SCHEDULE_H

#include "uwasa/cplusplus.h"
#include "uwasa/rng.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_PEER_NOBODY UINT32_MAX

struct uw_peer_view {
    uint32_t n;                 /* members, this one included */
    uint32_t self;              /* its place among them */
    const bool *usable;         /* [n] can be exchanged with now; that of self is not looked at */
    const uint8_t *weight;      /* [n] how often `random` draws each, against the others: 1 or more.
                                   NULL: all alike */
    uint32_t round;
    uint64_t seed;              /* the run's */
};

struct uw_peer_choice {
    uint32_t at;                /* place of the partner; UW_PEER_NOBODY: nobody this round */
    float weight;               /* its share, for schedules that prescribe one; else 0 */
};

struct uw_peer_schedule {
    const char *name;
    bool mutual;                /* the partner's partner is oneself */
    /* The partner of view->self in view->round. rng: of `random`, else not touched. */
    struct uw_peer_choice (*pick)(const struct uw_peer_view *view, struct uw_rng *rng);
};

/* Of a peer with this charge left, 1 .. 100 percent: its percent, and no less than 10, so that
 * nobody is never asked; 0, on mains or not known: 100. */
#define UW_PEER_WEIGHT_LEAST 10u
#define UW_PEER_WEIGHT_FULL 100u
uint8_t uw_peer_weight(uint32_t battery_percent);

/* Among the usable, each as often as its weight says. */
extern const struct uw_peer_schedule uw_peer_schedule_random;

/* What pairs and lent samples go by. */
extern const struct uw_peer_schedule uw_peer_schedule_matching, uw_peer_schedule_dissemination;

/* Schedule by name; NULL when there is none. */
const struct uw_peer_schedule *uw_peer_schedule_find(const char *name);

UW_C_END
#endif
