/* SPDX-License-Identifier: Apache-2.0
 *
 * formula.h - the nodes of a simulated run whose exchanges take what closed formulas say
 *
 * The second network model: no packets, no membership, nothing in anything else's way. Every node
 * knows all others from the start; an exchange takes the seconds of uwasa/sim_cost.h; what it does
 * to parameters is what the shipped rules and schedules do (uwasa/mix.h, uwasa/peer_schedule.h),
 * and when, what net/gossip/gossip.c, net/gossip/average.c and net/node_exact/node_bridge.c say:
 *
 *     gossip        every T local steps a node publishes its parameters and asks a peer for its
 *                   own. It goes on training. The question takes L; what the peer has published
 *                   by then is sent, since that is when a node that ships begins to serve; it has
 *                   arrived L + G/B later, and is mixed at the end of the local step after. The
 *                   round ends then or after T steps, whichever is later. With pull_waits it does
 *                   no step until the answer is there and mixed
 *     allreduce     a node that has done T steps waits for all others; the average takes from the
 *                   last one's arrival until the formula's seconds are over
 *     hierarchical  the same in every cell of the fleet, a device without one being its own; the
 *                   first device of a cell pulls another cell's first device meanwhile, any of
 *                   them, and what w (s_peer - s) it brought enters the cell's next average
 *     pairs         (rules over pairs) both wait for each other, and L + 2 G/B
 *
 * The first round of gossip has no pull: all nodes still have the same parameters. Who has done its
 * last step is waited for no more; an average of those who are left takes as long as one of all.
 *
 *     uw_formula_open(&f, &config, &err);
 *     while ((n = uw_formula_next(&f)) != NULL) {
 *         if (!n->waits) { ... train n->x one step ... } else { progress.lr = 0; }
 *         rc = uw_formula_trained(&f, n, &progress, 0);    n->train_at_us = UINT64_MAX: no more
 *     }
 *     uw_formula_close(&f);
 *
 * Units      _us microseconds of virtual time, _n floats
 * Memory     from the heap in open: a node has 4 size_n bytes of parameters, as many of velocity
 *            where the rule has one, and some 240 of state. Snapshots come from a pool with
 *            references: one that is on its way is copied only if its owner publishes meanwhile,
 *            and nodes that have just averaged share one. The pool is reserved for the worst case,
 *            two a node in gossip, else one, and touched as far as it is used
 * Blocking   never; virtual time costs what there is to compute. O(log nodes) an event, and the
 *            vectors
 * Context    one thread. The same configuration gives the same run, bit for bit
 */
#ifndef UW_SIM_FORMULA_H
#define UW_SIM_FORMULA_H

#include "world/clock.h"

#include "uwasa/node.h"
#include "uwasa/sim_cost.h"

/* A node's vectors, [size_n] each; velocity NULL when the rule has none. */
struct uw_formula_vectors {
    float *x, *velocity, *snapshot;
};

struct uw_formula_config {
    const struct uw_sim_fleet *fleet;       /* borrowed, as are the tables it names */
    const struct uw_params *params;         /* layout and first values of every node's parameters */
    const struct uw_formula_vectors *vectors;   /* [fleet->devices_n] the nodes' own, x with its
                                               first values and velocity 0; borrowed, the table is
                                               not kept. NULL: from the heap */
    enum uw_node_mode mode;                 /* not UW_NODE_AUTO */
    const struct uw_mix_rule *rule;         /* NULL: uw_mix_none */
    struct uw_mix_constants constants;
    const struct uw_peer_schedule *schedule;    /* NULL: uw_peer_schedule_random */
    uint32_t period_steps;                  /* T; 0: 10 */
    uint64_t seed;
    uint64_t model_bytes;                   /* G; 0: 4 a parameter */
    enum uw_sim_algorithm algorithm;
    bool study_pull;                        /* a pull takes L + G/B, and brings what its peer had
                                               published when it began */
    bool pull_waits;                        /* of gossip, with rules that end no round */
    uint64_t start_us;                      /* of the clock */
    /* Told of every pull and average that is done, with the fields of struct uw_node_event but for
     * texts and station; may be NULL. */
    void (*on_event)(void *arg, uint32_t place, const struct uw_node_event *event);
    void *event_arg;
};

struct uw_formula_node {
    uint32_t place;                 /* in the fleet */
    float *x, *velocity;            /* [size_n]; velocity NULL when the rule has none */
    uint64_t train_at_us;           /* when its local step is done; UINT64_MAX: it does none */
    bool waits;                     /* for an average, or a pull: no step was done */

    /* private */
    struct uw_params params;
    struct uw_rng rng;
    uint32_t snapshot;              /* published; of the pool */
    uint32_t pulled, held;          /* on its way; of another cell, for the next average */
    float held_weight;              /* by the nodes of that cell and its own */
    uint32_t peer;                  /* pulled from, or paired with */
    float weight;                   /* of the peer; 0: the rule's own */
    uint64_t asked_us, arrives_us;
    uint64_t pair_us;               /* what the exchange with a higher place takes */
    uint32_t round;
    uint32_t round_steps, steps;    /* since the round began; since it was last published */
    float lr_sum;                   /* of steps */
    float mixed_models, recent;     /* since the rule's turn; see uw_mix_recent */
    bool pulling, due;              /* an answer is not here yet; the next pull may begin */
    bool mixed;                     /* in this round */
    bool averaged;                  /* what it waited for is there */
    bool agreeing;                  /* its next round is the whole run's last average */
    bool ended;                     /* it averages no more */
    int flags;                      /* of the average */
};

/* Nodes that average exactly. */
struct uw_formula_group {
    uint32_t first, nodes_n;        /* in f->members */
    uint32_t waiting_n, ended_n;    /* of them */
    uint32_t bridge;                /* what its head pulled and this average takes; of the pool */
    float weight;                   /* of it */
    uint64_t takes_us;
    double sent_bytes;
};

struct uw_formula {
    struct uw_formula_config config;
    uint64_t now_us;
    struct uw_formula_node *nodes;          /* [fleet->devices_n] */
    double sent_bytes;                      /* by all nodes together */
    struct uw_node_counters counters;       /* the same; pulls and averages are counted */

    /* private */
    uint32_t nodes_n;
    double model_bytes;
    bool pairs;
    float *memory, *scratch;                /* scratch of pairs [4 size_n] */
    float **pool;                           /* [pool_n] vectors of snapshots */
    uint32_t *refs, *unused;                /* of the pool's vectors; those with none, a stack */
    uint32_t pool_n, unused_n;
    uint32_t *members, *group_of;           /* [nodes_n] places, group by group */
    struct uw_formula_group *groups;        /* [groups_n] */
    uint32_t groups_n;
    struct uw_sim_clock clock;              /* ends of averages, steps, pulls: in this order */
    uint32_t ends_n, busy_n;                /* alarms of averages; what somebody goes on after */
    struct uw_formula_node *last;           /* returned by next */
    bool *usable;                           /* [nodes_n] all true */
};

/* Bytes that uw_formula_open takes when it is given the vectors; SIZE_MAX: more than there are. */
size_t uw_formula_bytes(const struct uw_formula_config *config);

/* Set the nodes up; training begins at once.
 * Returns UW_OK, UW_ERR_UNSUPPORTED (mode auto, or devices that come and go or lose messages: these
 * need the other model), UW_ERR_NOMEM; err filled. Close in every case. */
int uw_formula_open(struct uw_formula *f, const struct uw_formula_config *config,
                    struct uw_error *err);

/* Go on to the next end of a local step, or to where a node that waits may go on.
 * Returns the node; NULL: nobody trains. */
struct uw_formula_node *uw_formula_next(struct uw_formula *f);

/* Tell that the step was done, or that the average was looked at. The next step ends pause_us later
 * (0: the device's step_us), or when an average that began with it lets it go on.
 * Returns a set of enum uw_node_after. */
int uw_formula_trained(struct uw_formula *f, struct uw_formula_node *n,
                       const struct uw_node_progress *progress, uint64_t pause_us);

/* As uw_world_touches. It stays what it was when the step began. */
bool uw_formula_touches(const struct uw_formula *f, const struct uw_formula_node *n);

/* As uw_node_agree, for rules over pairs: the node's next round is an average over all nodes, which
 * waits for all of them. */
void uw_formula_agree(struct uw_formula *f, struct uw_formula_node *n);

/* Safe on a zeroed struct and twice. */
void uw_formula_close(struct uw_formula *f);

#endif
