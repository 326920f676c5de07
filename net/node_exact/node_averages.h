/* SPDX-License-Identifier: Apache-2.0
 *
 * node_averages.h - a node's exact averages: functions that its files share
 *
 *     node_averages.c    set-up, received messages, the interface to the node
 *     node_cell.c        rounds of a cell: gather, average, decide
 *     node_bridge.c      pulls between cells
 *     node_cost.c        cost of averages, measured and learned
 *     node_gradients.c   averages of every step's gradients
 *     node_near.c        finding a cell by the cost of averages
 *     node_divide.c      dividing a cell that has more nodes than a round takes
 *     node_pairs.c       committed pairs
 *     node_news.c        events
 *
 * There are three scopes, each with its own head and rounds: the node's cell, averaged every T
 * steps in modes with cells; the whole run, averaged once by the nodes that have finished training;
 * the pair of a round, for rules over pairs. Only one of them has this node's parameters at a time.
 *
 * The cost of an average is measured once per group and corrected by every round. After the first
 * round of a group its head measures the cost of messages among the ranks (network_probe.h),
 * chooses the algorithm of the next rounds (network_cost.h), and sends the costs with every START,
 * so that ranks send at a rate that the network carries. The median of every few rounds corrects
 * them, because devices compute at the same time and single rounds are delayed by others. When the
 * costs are far off repeatedly, the head measures again.
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NODE_AVERAGES_H
#define UW_NET_NODE_AVERAGES_H

#include "node_gradients_priv.h"
#include "node_pairs.h"
#include "cell/cell.h"
#include "collective/allreduce.h"
#include "gossip/average.h"
#include "netmodel/network_cost.h"
#include "netmodel/network_probe.h"
#include "node/node_pull.h"

#define UW_NODE_SCOPES 3u
#define UW_AVERAGES_PROTOCOL 1u     /* grows when nodes with and without a change could not average
                                       with each other: docs/compatibility.md */
#define UW_CELL_DIVIDED '~'          /* follows the name of a cell in that of a part */

struct uw_node_scope {
    struct uw_node_state *node;
    enum uw_average_scope scope;
    struct uw_cell cell;
    struct uw_cell_member *rows;    /* [members_max]; of a pair [2] */
};

/* State of finding a cell by the cost of averages: node_near.c. */
struct uw_node_near {
    bool on;
    bool wary;                      /* averages were too expensive: a short round trip alone does
                                       not make a node near */
    uint32_t hops;                  /* to the node whose identity is the cell's */
    uint64_t look_us;               /* time of the next check */
    uint64_t asked_us, back_us;     /* training last handed parameters over; got them back */
    uint64_t lent_us;               /* they were lent to it: asked_us is later by that time */
    uint32_t train_us;              /* a round without its average, smoothed; 0: not known */
    float dear;                     /* recent excess cost of averages, in rounds' training */
    uint32_t left_n;                /* times that this node left a cell for its cost; decremented
                                       after each calm period */
    uint64_t calm_us;               /* end of the current calm period */
    uint64_t hold_us;               /* no node is accepted as near before */
};

/* State of a member for averages, by its place in the table. */
struct uw_node_mate {
    bool near;                      /* may share this node's cell */
    struct uw_allreduce_way way;
};

/* How often a scope's nodes are halved by their identities: node_divide.c. */
struct uw_node_division {
    uint32_t bits;
    uint64_t fits_us;               /* half as many parts would do since; 0: they would not */
};

struct uw_node_cell {
    struct uw_node_mate *mates;     /* [members_max] */
    struct uw_node_scope scopes[UW_NODE_SCOPES];
    struct uw_node_scope *asked;    /* the scope that has the parameters; NULL: training has them */
    bool called;                    /* the cell's round begins when training hands them over */
    struct uw_average average;
    struct uw_allreduce allreduce;
    uint8_t *out;                   /* [buffer_bytes] a part to be sent */
    char whole[UW_NODE_NAME_BYTES]; /* name of the cell; "": none */
    char name[UW_NODE_NAME_BYTES];  /* of this node's part of it: "rack", or "rack~01" */
    struct uw_node_division divisions[UW_AVERAGE_PAIR];     /* of the cell, of the run */
    uint64_t divide_us;             /* time of the next look at them */
    uint64_t crowded_us;            /* the table has had no place for others since; 0: it has */
    struct uw_node_near near;
    enum uw_allreduce_kind algorithm;   /* UW_ALLREDUCE_KINDS_N: the fastest */
    bool stale;                     /* the rows have to be rebuilt */
    uint32_t deaf_n;                /* members that others hear, but not this node */
    uint64_t deaf_us;               /* time of the next count */
    uint32_t wary_n;                /* rounds to go by sweep after a refusal */
    uint32_t sweeps_n;              /* that were committed, up to the first few */
    uint32_t unswept_n;             /* rounds of the same ranks since the last sweep */
    bool guarded, judges;           /* the guard learns from the round under way; judges it */
    uint32_t far_n[UW_CELL_RANKS_MAX];  /* floats of each rank that were refused in this round */
    uint64_t led_us, way_us;        /* leads since, 0: does not; gives way to others until */
    struct uw_node_direct_state *direct;    /* node_direct_priv.h; NULL: not supported */
};

/* State of d, the difference to another cell's model (node_bridge.c):
 *
 *     EMPTY --chunk--> HELD --offer, in a cell of one--> OFFERED --training added it--> EMPTY
 *                      HELD --a round begins--> ADDED --commit--> EMPTY, --abort--> HELD */
enum uw_bridge_state { UW_BRIDGE_EMPTY, UW_BRIDGE_HELD, UW_BRIDGE_OFFERED, UW_BRIDGE_ADDED };

/* The last reported contact with other cells. */
enum uw_bridge_contact { UW_BRIDGE_UNMET, UW_BRIDGE_MET, UW_BRIDGE_ALONE };

struct uw_node_bridge {
    float *inbox;                   /* [size_n] d; NULL: this node never leads a cell */
    struct uw_guard *guard;         /* of these pulls; NULL: they are not judged */
    bool ended;                     /* the last pull, but not all of its chunks were judged */
    bool open;                      /* it has been written */
    bool due;                       /* the next pull should begin */
    enum uw_bridge_state state;
    enum uw_bridge_contact contact;
    bool whole;                     /* the last pull was complete: d covers the whole model */
    bool holds;                     /* the last average is not published yet: chunks wait */
    float weight;                   /* w of the pull */
    uint32_t version;               /* published when that average was committed */
    uint64_t heard_us;              /* last contact with another cell; 0: not checked yet */
    uint64_t alone_us;              /* no contact since */
};

#define UW_NODE_COST_ROUNDS 5u      /* whose median updates the cost model */

struct uw_node_cost {
    struct uw_network_fit fit;
    struct uw_network_probe probe;
    uint32_t group, shift;          /* last probed group, 0: none yet; the rank of its head */
    uint32_t learned_group;         /* group whose rounds update the model */
    bool measured, probing;         /* probing: this node leads the current probe */
    uint32_t aborts;                /* aborted rounds in a row */
    uint32_t rounds_n;              /* committed rounds; no probe before there are probe_after_n; */
    uint32_t probe_after_n, pause_n;    /* pause_n is added for the next probe, and doubles */
    uint64_t began_us, took_us;     /* begin of the current round; duration of its all-reduce */
    uint64_t last_us[UW_NODE_COST_ROUNDS];  /* durations of rounds of one kind, ascending */
    uint32_t last_n;
    enum uw_allreduce_kind kind;    /* of these rounds */
    float predicted_s;              /* 0: not known */
};

/* The state of a node that takes part in averages. */
struct uw_node_exact {
    struct uw_node_cell cell;
    struct uw_node_bridge bridge;
    struct uw_node_gradients gradients;
    struct uw_node_pairs pairs;
    struct uw_node_cost cost;
};

static inline bool uw_node_own(const struct uw_node_state *s, uint32_t id)
{
    return id == s->membership.members[0].id;
}

/* node_near.c */

/* Find the cell of a node without a configured one: the nodes that are near, and those near to
 * them. A node is near when an exact average with it costs at most a tenth of a round's training
 * (more where the nodes' samples differ), by round trip and rate of pulls, and when it trains at
 * the same pace, which the first round shows. While a rate is not known, a node is near when its
 * round trip is within config.near_us. The cell's identity is the lowest of its nodes'; each node
 * takes it over from its neighbours while that node is alive. Returns the time of the next call. */
uint64_t uw_node_near_step(struct uw_node_state *s);

/* Training has handed its parameters over for an average; has them back (averaged: with others).
 * Between the two they may be lent to it. */
void uw_node_near_asked(struct uw_node_state *s);
void uw_node_near_lent(struct uw_node_state *s);
void uw_node_near_back(struct uw_node_state *s, bool averaged);

/* node_divide.c */

/* Divide the cell, or join its halves, by the number of its nodes; and the run for its last
 * average. Returns the time of the next call. */
uint64_t uw_node_divide(struct uw_node_state *s);

/* Is a node in the same part of a scope, by its identity? */
bool uw_node_in_part(const struct uw_node_state *s, enum uw_average_scope scope, uint32_t id);

/* node_cell.c */

/* Does a member average exactly, and has it been heard? */
bool uw_node_averages_too(const struct uw_member *m);

/* Allocate a scope's cell. Returns UW_OK or what uw_arena_take returns. */
int uw_node_cell_place(struct uw_node_state *s, struct uw_arena *arena,
                       enum uw_average_scope scope, uint32_t ranks);

/* Identity of the head that this node follows, which it reports. */
uint32_t uw_node_cell_head(const struct uw_node_state *s);

/* Gather, average, decide. Returns the time of the next call if no message arrives. */
uint64_t uw_node_cell_step(struct uw_node_state *s);

/* If the all-reduce is done, report the result to the cell. */
void uw_node_cell_look(struct uw_node_state *s);

/* Does the all-reduce have the memory for this algorithm on the vector of a scope? */
bool uw_node_cell_has_room(const struct uw_node_scope *o, enum uw_allreduce_kind kind,
                           bool streamed);

/* node_bridge.c */

/* Allocate memory if this node may lead a cell, as any may in a run of more nodes than `ranks`.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_node_bridge_place(struct uw_node_state *s, struct uw_arena *arena, uint32_t ranks);

/* The place of the member to pull from now; 0: none. */
uint32_t uw_node_bridge_take(struct uw_node_state *s);

/* The place of another cell's head to continue the pull with, in chunks of chunk_n, after `but`
 * (may be NULL) has stopped; 0: none. Chunks from now on get the weight of its cell. */
uint32_t uw_node_bridge_another(struct uw_node_state *s, uint32_t chunk_n,
                                const struct uw_member *but);

/* A pull has ended. */
void uw_node_bridge_ended(struct uw_node_state *s, enum uw_gossip_end how);

/* Handle received chunks of another cell's head.
 * Returns UW_OK or UW_ERR_DENIED (one was too far from this node's parameters, and is dropped). */
int uw_node_bridge_step(struct uw_node_state *s);

/* Training handed its parameters over: withdraw an offer to training. */
void uw_node_bridge_keep(struct uw_node_state *s);

/* A round of the cell begins with ranks_n ranks; it is decided. */
void uw_node_bridge_add(struct uw_node_state *s, uint32_t ranks_n);
void uw_node_bridge_committed(struct uw_node_state *s, bool commit);

/* Is another cell there; live: now, else has it been there, and not left? */
bool uw_node_bridge_knows_any(const struct uw_node_state *s, bool live);

/* node_cost.c */

/* Allocate the tables, after the all-reduce. Returns UW_OK or what uw_arena_take returns. */
int uw_node_cost_place(struct uw_node_state *s, struct uw_arena *arena,
                       const struct uw_allreduce_config *allreduce);

/* Send a part to a station, and count its bytes.
 * Returns UW_OK, UW_ERR_NOTFOUND (no such station) or what uw_part_send returns. */
int uw_node_send_part(struct uw_node_state *s, uint16_t station, const struct uw_part *part);

/* Choose the algorithm for ranks_n ranks, and set the hints that START carries. */
enum uw_allreduce_kind uw_node_cost_choose(struct uw_node_state *s, uint32_t ranks_n,
                                           float hints[UW_CELL_HINTS]);

/* A round begins: set the parameters of the network in r.
 *   ways  written; r points to it */
void uw_node_cost_begin(struct uw_node_state *s, const struct uw_node_scope *o,
                        struct uw_allreduce_round *r,
                        struct uw_allreduce_way ways[UW_CELL_RANKS_MAX]);
void uw_node_cost_committed(struct uw_node_state *s, const struct uw_node_scope *o);

/* A round is over: store the measured ways to its ranks with the members, for other groups too. */
void uw_node_cost_keep(struct uw_node_state *s, const struct uw_cell *cell);

/* A round was aborted. */
void uw_node_cost_aborted(struct uw_node_state *s);

/* Handle a part with round 0: of a probe. */
void uw_node_cost_take(struct uw_node_state *s, uint32_t rank, const struct uw_part *part);

/* Continue a probe. Returns the time of the next call. */
uint64_t uw_node_cost_run(struct uw_node_state *s);

/* node_news.c */

/* Report UW_NODE_CELL_ALONE or UW_NODE_CELLS_MEET. */
void uw_node_report_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us);

/* Report: a member averages by another protocol, now and then; this node cannot take part; what a
 * rank sent, or with UW_CELL_NOBODY an average, was refused; news of a cell. */
void uw_node_report_version(struct uw_node_state *s, const struct uw_member *m);
void uw_node_report_unable(struct uw_node_state *s);
void uw_node_report_far(struct uw_node_state *s, uint32_t id);
void uw_node_report_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news);

/* Report UW_NODE_GRADIENTS or UW_NODE_GRADIENTS_CUT. */
void uw_node_report_gradients(struct uw_node_state *s, enum uw_node_event_kind kind);

/* Report that pairs are given up: after a member (`from`), or for too many half-open rounds. */
void uw_node_report_retreat(struct uw_node_state *s, const struct uw_member *from);

/* Report news of a pair, except an outlier. */
void uw_node_report_pair(struct uw_node_state *s, const struct uw_cell_news *news);

#endif
