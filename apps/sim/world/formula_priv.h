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
    bool pulling, due;              /* waits for an answer; the next pull may begin */
    bool mixed;                     /* has mixed in this round */
    bool averaged;                  /* the average that it waited for is done */
    bool agreeing;                  /* its next round is the last average, over all nodes */
    bool ended;                     /* it averages no more */
    int flags;                      /* enum uw_node_after of the average */
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
    bool *usable;                   /* [nodes_n] all true */
    uint32_t *id;                   /* [nodes_n] of names, for a graph */
};

/* ---- world_formula.c ---- */

/* Alarms are of averages of a group or a pair, of a node's step, and of its pull. Set one
 * (UINT64_MAX: off). */
void uw_formula_alarm(struct uw_formula *f, uint32_t alarm, uint64_t due_us);
uint32_t uw_formula_pull_alarm(const struct uw_formula *f, const struct uw_formula_node *n);

/* Report that an exchange of a node is done now. peer NONE: with several. */
void uw_formula_report(const struct uw_formula *f, enum uw_node_event_kind kind,
                       const struct uw_formula_node *n, uint32_t peer, uint32_t nodes_n,
                       uint64_t took_us);

/* Wake a node, with these flags, after what it waited for was mixed in. */
void uw_formula_wake(struct uw_formula *f, struct uw_formula_node *n, int flags);

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

/* ---- formula_gossip.c ---- */

/* The weight of what a node pulls. */
float uw_formula_weight(const struct uw_formula *f, const struct uw_formula_node *n);

/* Request a peer's parameters, to be mixed in with `weight`; they have arrived. */
void uw_formula_ask(struct uw_formula *f, struct uw_formula_node *n, uint32_t peer, float weight);
void uw_formula_pulled(struct uw_formula *f, struct uw_formula_node *n);

/* A request has arrived, or the answer of another cell. */
void uw_formula_pull_due(struct uw_formula *f, struct uw_formula_node *n);

/* What gossip does after a local step. Returns a set of enum uw_node_after. */
int uw_formula_gossip_step(struct uw_formula *f, struct uw_formula_node *n, float lr);

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
