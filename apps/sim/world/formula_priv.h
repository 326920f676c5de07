/* SPDX-License-Identifier: Apache-2.0
 *
 * formula_priv.h - the state of a network of cost formulas, see world_formula.c
 *
 * Memory     from the heap, at the set-up      Context  the thread that runs the world
 */
#ifndef UWASA_SIM_FORMULA_PRIV_H
#define UWASA_SIM_FORMULA_PRIV_H

#include "groups.h"
#include "snapshots.h"
#include "world.h"
#include "world_clock.h"

#include "uwasa/rng.h"

#define NONE UW_SNAPSHOT_NONE       /* no snapshot, no device */

struct uw_formula_node {
    struct uw_world_node *w;        /* what others see of it */
    struct uw_rng rng;
    uint32_t shown;                 /* its snapshot, in the pool */
    uint32_t pulled, held;          /* in transit; of another cell, for the next average */
    float held_weight;              /* weight of held, by the sizes of both cells */
    uint32_t peer;                  /* pulled from, or paired with */
    float weight;                   /* of the peer; 0: the rule's own */
    uint64_t asked_us, arrives_us;
    uint64_t pair_us;               /* time of the exchange with a partner of higher place */
    uint32_t round;
    uint32_t round_steps, steps;    /* since the round began; since it was last published */
    uint32_t period_steps;          /* T */
    float lr_sum;                   /* of steps */
    float mixed_models, recent;     /* since the rule's turn; see uw_mix_recent */
    bool pulling, due;              /* waits for an answer, or its push is on its way; the next
                                       pull may begin */
    bool lost;                      /* what is on its way will not arrive */
    bool mixed;                     /* has mixed in this round */
    bool averaged;                  /* the average that it waited for is done */
    bool agreeing;                  /* its next round is the last average, over all nodes */
    bool ended;                     /* it averages no more */
    int flags;                      /* enum uw_node_after of the average */

    /* of pushes */
    float mass, inbox_mass, sent_mass;      /* its weight; of what is in its inbox, on its way */
    uint32_t inbox;                 /* snapshot: the weighted mean of what has arrived */

    /* of relays */
    uint32_t first_edge, degree;    /* its neighbours in edges */
    uint32_t pulled_models;         /* number of models in pulled */
};

/* What a node has received from a neighbour. */
struct uw_formula_edge {
    uint32_t peer;
    uint32_t got;                   /* snapshot: the sum of models; NONE: nothing yet */
    uint32_t models;                /* number of models in it */
};

struct uw_formula {
    struct uw_world *world;
    const struct uw_node_config *c; /* the world's */
    struct uw_formula_node *nodes;             /* [nodes_n] */
    uint32_t nodes_n;
    double model_bytes;
    bool pairs;
    double sent_bytes;              /* by all nodes together */
    struct uw_node_counters counters;       /* the same; pulls and averages are counted */
    float *scratch;                 /* of pairs [4 size_n] */
    struct uw_snapshots pool;
    struct uw_world_groups groups;  /* empty in gossip, except over pairs */
    struct uw_sim_clock clock;      /* ends of averages, steps, pulls: in this order */
    uint32_t ends_n, busy_n;        /* alarms of averages; alarms that a node waits for */
    struct uw_formula_node *last;              /* returned by next */
    struct uw_formula_edge *edges;  /* of relays, those of a node in a row */
    bool *usable;                   /* [nodes_n] all true */
    uint32_t *id;                   /* [nodes_n] of names, for a graph */
};

/* ---- world_formula.c ---- */

/* Alarms are of averages of a group or a pair, of a node's step, and of its pull. Set one
 * (UINT64_MAX: off). */
void uw_formula_alarm(struct uw_formula *f, uint32_t alarm, uint64_t due_us);
uint32_t uw_formula_pull_alarm(const struct uw_formula *f, const struct uw_formula_node *n);

/* Is this exchange of a node lost? Draws by its device's share of losses. */
bool uw_formula_loses(struct uw_formula *f, struct uw_formula_node *n);

/* Report that an exchange of a node is done now. peer NONE: with several. */
void uw_formula_report(const struct uw_formula *f, enum uw_node_event_kind kind,
                       const struct uw_formula_node *n, uint32_t peer, uint32_t nodes_n,
                       uint64_t took_us);

/* Wake a node at this time, with these flags, after what it waited for. */
void uw_formula_wake(struct uw_formula *f, struct uw_formula_node *n, int flags, uint64_t at_us);

/* Publish a node's current parameters. */
void uw_formula_publish(struct uw_formula *f, struct uw_formula_node *n);

/* Let two nodes with the same parameters share one snapshot. */
void uw_formula_share(struct uw_formula *f, struct uw_formula_node *n,
                      const struct uw_formula_node *other);

/* Apply the rule at the end of a round; begin to count steps anew. */
void uw_formula_end_rule(struct uw_formula *f, struct uw_formula_node *n);
void uw_formula_clear_steps(struct uw_formula_node *n);

/* The partner of a node in its round; NONE: there is none. */
uint32_t uw_formula_pick(struct uw_formula *f, struct uw_formula_node *n, float *weight);

/* The number of its neighbours, of a schedule that is a graph. */
uint32_t uw_formula_degree(struct uw_formula *f, struct uw_formula_node *n);

/* ---- formula_gossip.c ---- */

/* The weight of what a node pulls. */
float uw_formula_weight(const struct uw_formula *f, const struct uw_formula_node *n);

/* Request a peer's parameters, to be mixed in with `weight`. What a node asked for or sent has
 * arrived at `to`, or was lost. */
void uw_formula_ask(struct uw_formula *f, struct uw_formula_node *n, uint32_t peer, float weight);
void uw_formula_pulled(struct uw_formula *f, struct uw_formula_node *n,
                       const struct uw_formula_node *to);

/* A request has arrived, or the answer of another cell. */
void uw_formula_pull_due(struct uw_formula *f, struct uw_formula_node *n);

/* What gossip does after a local step. Returns a set of enum uw_node_after. */
int uw_formula_gossip_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

/* ---- formula_push.c ---- */

/* What a node that pushes does after a local step. Returns a set of enum uw_node_after. */
int uw_formula_push_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

/* A push has arrived, or its loss is known. */
void uw_formula_push_due(struct uw_formula *f, struct uw_formula_node *n);

/* ---- formula_relay.c ---- */

/* Find the neighbours of all nodes. Returns UW_OK, UW_ERR_NOMEM, or UW_ERR_INVALID: they are no
 * tree. */
int uw_formula_relay_open(struct uw_formula *f);

/* Put into n->pulled what n's peer sends it: its model, and what its other neighbours sent it. */
void uw_formula_relay_ask(struct uw_formula *f, struct uw_formula_node *n);

/* Keep what has arrived, or nothing if it was lost. After the last neighbour of a round, mix. */
void uw_formula_relay_mix(struct uw_formula *f, struct uw_formula_node *n);

/* ---- formula_average.c ---- */

/* The end of an average. */
void uw_formula_average_due(struct uw_formula *f, uint32_t alarm);

/* What a node that averages does after a local step, or after a wait. */
int uw_formula_average_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

/* Another cell's parameters have arrived at the head of a cell. */
void uw_formula_bridge_here(struct uw_formula *f, struct uw_formula_node *n);

/* A node has ended: averages continue without it. */
void uw_formula_end_node(struct uw_formula *f, struct uw_formula_node *n);

#endif
