/* SPDX-License-Identifier: Apache-2.0
 *
 * A world of nodes that average exactly (gossip_world.h), and what must hold in it whatever the
 * network does:
 *
 *   - parameters that training gets back are an average of what some ranks handed over, the same
 *     bits at every rank of the round, or exactly what was handed over; a rule of mixing that
 *     changes them works on that;
 *   - nobody waits for ever. */
#ifndef UWASA_TESTS_AVERAGE_WORLD_H
#define UWASA_TESTS_AVERAGE_WORLD_H

#include "fault/gossip_world.h"

#define AVERAGE_ROUNDS_MAX 16384u

struct average_round {
    uint32_t group, round, ranks_n;
    uint32_t began, committed, aborted;     /* bits of nodes by place */
    uint32_t ranked;
    double *sum;                            /* [size_n] of what was handed over */
    double largest;                         /* of |x| */
    float *result;                          /* [size_n] of the first who committed */
    uint32_t lives[WORLD_MAX];              /* of those who began it */
};

struct average_node {
    float *handed;                          /* [size_n] copy of what is being averaged */
    float *came;                            /* [size_n] what the rule of mixing then began with */
    bool waits, ruled;                      /* ruled: came is written */
    uint64_t since_us;
    uint32_t given_up;                      /* handed back as it was */
    uint32_t life;                          /* its groups may be named as in an earlier one */
};

struct average_world {
    struct world *w;
    struct average_node nodes[WORLD_MAX];
    struct average_round rounds[AVERAGE_ROUNDS_MAX];
    uint32_t rounds_n, committed_n;
    uint64_t longest_us;                    /* that anybody waited */
    uint64_t limit_us;                      /* longer than that is a hang */
    uint32_t reliable;                      /* bits of nodes */
    uint32_t streamed_n;                    /* committed rounds */
    bool same_bits;                         /* the algorithms in use promise them */
    const struct uw_mix_rule *rule;         /* NULL: none */
    struct uw_mix_rule seen;                /* the same, looked at */
};

/* n nodes whose training adds noise of their own to size_n parameters. */
struct average_world *average_world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes);

/* The rule of mixing, before any node is up. Of an average that is checked which the rule gets. */
void average_world_mix(struct average_world *a, const struct uw_mix_rule *rule);

/* The links of those nodes, a bit each, say that they are reliable, which they are but for cuts and
 * restarts: rounds of such nodes alone are streamed. Before any node is up. */
void average_world_stream(struct average_world *a, uint32_t nodes);

void average_world_run(struct average_world *a, uint64_t us);

/* A node is gone or starts anew: what it waits for is not asked about any more. */
void average_world_forget(struct average_world *a, uint32_t i);

/* Rounds that one rank committed and another aborted. */
uint32_t average_world_split(const struct average_world *a);

void average_world_free(struct average_world *a);

#endif
