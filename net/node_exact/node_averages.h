/* SPDX-License-Identifier: Apache-2.0
 *
 * node_averages.h - a node's exact averages: what its files call of each other
 *
 *     node_averages.c    set-up, what comes in, the table that the node knows
 *     node_cell.c        gather, average, decide
 *     node_bridge.c      between cells
 *     node_cost.c        what averages cost
 *     node_gradients.c   of every step's gradients
 *     node_near.c        cells that are found
 *     node_pairs.c       committed pairs
 *     node_news.c        what is reported
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

struct uw_node_scope {
    struct uw_node_state *node;
    enum uw_average_scope scope;
    struct uw_cell cell;
    struct uw_cell_member *rows;    /* [members_max]; of a pair [2] */
};

/* A cell that is found, by what averages with others cost: node_near.c. */
struct uw_node_near {
    bool on;
    bool wary;                      /* round trips alone prove nothing: averages were too dear */
    uint32_t hops;                  /* to the node that the cell is named by */
    uint64_t look_us;               /* when to look again */
    uint64_t asked_us, back_us;     /* training handed the parameters over, and has them since */
    uint32_t train_us;              /* a round without its average, smoothed; 0: not known */
    float dear;                     /* what averages cost too much lately, in rounds' training */
    uint32_t left_n;                /* times that this node has left for that, less calm holds */
    uint64_t calm_us;               /* the next of them counts no more */
    uint64_t hold_us;               /* nobody is taken in before */
};

/* What averages keep about a member, by its place in the table. */
struct uw_node_mate {
    bool near;                      /* may share this node's cell */
    struct uw_allreduce_way way;
};

struct uw_node_cell {
    struct uw_node_mate *mates;     /* [members_max] */
    struct uw_node_scope scopes[UW_NODE_SCOPES];
    struct uw_node_scope *asked;    /* the one that has the parameters; NULL: training has them */
    struct uw_average average;
    struct uw_allreduce allreduce;
    uint8_t *out;                   /* [buffer_bytes] a part on its way out */
    char name[UW_NODE_NAME_BYTES];  /* of the cell; "": none */
    struct uw_node_near near;
    enum uw_allreduce_kind algorithm;   /* UW_ALLREDUCE_KINDS_N: the fastest */
    bool stale;                     /* the rows are */
    struct uw_node_direct_state *direct;    /* node_direct_priv.h; NULL: this node does without */
};

/* Where d, what comes between cells (node_bridge.c), is:
 *
 *     EMPTY --chunk--> HELD --offer, in a cell of one--> OFFERED --training added it--> EMPTY
 *                      HELD --a round begins--> ADDED --commit--> EMPTY, --abort--> HELD */
enum uw_bridge_state { UW_BRIDGE_EMPTY, UW_BRIDGE_HELD, UW_BRIDGE_OFFERED, UW_BRIDGE_ADDED };

/* Other cells, as reported. */
enum uw_bridge_contact { UW_BRIDGE_UNMET, UW_BRIDGE_MET, UW_BRIDGE_ALONE };

struct uw_node_bridge {
    float *inbox;                   /* [size_n] d; NULL: this node never leads a cell */
    bool due;                       /* the next pull is */
    enum uw_bridge_state state;
    enum uw_bridge_contact contact;
    bool whole;                     /* the last pull is: d is of all of the other's model */
    bool holds;                     /* the last average is not published yet: chunks wait */
    float weight;                   /* w of the pull */
    uint32_t version;               /* what is published instead */
    uint64_t heard_us;              /* of another cell; 0: not looked yet */
    uint64_t alone_us;              /* alone since */
};

#define UW_NODE_COST_ROUNDS 5u      /* of which the median is learned from */

struct uw_node_cost {
    struct uw_network_fit fit;
    struct uw_network_probe probe;
    uint32_t group, shift;          /* that is probed, 0: none yet; rank of its head */
    uint32_t learned_group;         /* whose rounds are learned from */
    bool measured, probing;         /* this node leads the probe that is under way */
    uint32_t aborts;                /* rounds given up in a row */
    uint32_t rounds_n, probe_after_n, pause_n;  /* committed ones; no probe before; doubles */
    uint64_t began_us, took_us;     /* the round at hand; its all-reduce */
    uint64_t last_us[UW_NODE_COST_ROUNDS];  /* of rounds alike, going up */
    uint32_t last_n;
    enum uw_allreduce_kind kind;    /* theirs */
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

/* Is it this node's identity? */
static inline bool uw_node_own(const struct uw_node_state *s, uint32_t id)
{
    return id == s->membership.members[0].id;
}

/* node_near.c */

/* Find the cell of a node without a configured one: the nodes that are near, and those near to
 * them. A node is near when an exact average with it costs at most a tenth of a round's training
 * (more where the nodes' samples differ), by round trip and rate of pulls, and when it trains at
 * the same pace, which the first round shows. While a rate is not known, near is within
 * config.near_us. The cell's identity is the least one among its nodes. Each node takes it over
 * from its neighbours while its owner is alive. Returns when to look again. */
uint64_t uw_node_near_step(struct uw_node_state *s);

/* Training has handed its parameters over for an average; it has them back, averaged with others or
 * not. */
void uw_node_near_asked(struct uw_node_state *s);
void uw_node_near_back(struct uw_node_state *s, bool averaged);

/* node_cell.c */

/* Take the memory of a scope's cell, of so many ranks. Returns UW_OK or what uw_arena_take
 * returns. */
int uw_node_cell_place(struct uw_node_state *s, struct uw_arena *arena,
                       enum uw_average_scope scope, uint32_t ranks);

/* Gather, average, decide. Returns when it wants to run again, if nothing arrives. */
uint64_t uw_node_cell_step(struct uw_node_state *s);

/* Is the all-reduce done? Then agree on it. */
void uw_node_cell_look(struct uw_node_state *s);

/* Is there room to work so on what a scope averages? */
bool uw_node_cell_has_room(const struct uw_node_scope *o, enum uw_allreduce_kind kind);

/* node_bridge.c */

/* Take the memory of a node that may lead a cell. Returns UW_OK or what uw_arena_take returns. */
int uw_node_bridge_place(struct uw_node_state *s, struct uw_arena *arena);

/* The member to pull from now, its place in the table; 0: none. */
uint32_t uw_node_bridge_take(struct uw_node_state *s);

/* A cell's head to go on with in chunks of chunk_n where that one, `but` or NULL, has stopped: its
 * place in the table; 0: none. What comes from now on has its cell's weight. */
uint32_t uw_node_bridge_another(struct uw_node_state *s, uint32_t chunk_n,
                                const struct uw_member *but);

/* A pull is over. */
void uw_node_bridge_ended(struct uw_node_state *s, enum uw_gossip_end how);

/* Look at the chunks of another cell's head that have come.
 * Returns UW_OK or UW_ERR_DENIED (one was too far from ours, and is gone). */
int uw_node_bridge_step(struct uw_node_state *s);

/* The node's parameters were handed over: an offer to training is off. */
void uw_node_bridge_keep(struct uw_node_state *s);

/* A round of the cell begins with so many ranks; it is decided. */
void uw_node_bridge_add(struct uw_node_state *s, uint32_t ranks_n);
void uw_node_bridge_committed(struct uw_node_state *s, bool commit);

/* node_cost.c */

/* Take the tables; the all-reduce is placed. Returns UW_OK or what uw_arena_take returns. */
int uw_node_cost_place(struct uw_node_state *s, struct uw_arena *arena,
                       const struct uw_allreduce_config *allreduce);

/* Send a part to a station, and count its bytes. Returns UW_OK, UW_ERR_NOTFOUND (there is no such
 * station) or what uw_part_send returns. */
int uw_node_send_part(struct uw_node_state *s, uint16_t station, const struct uw_part *part);

/* The algorithm for so many ranks, and the hints for them. */
enum uw_allreduce_kind uw_node_cost_choose(struct uw_node_state *s, uint32_t ranks_n,
                                           float hints[UW_CELL_HINTS]);

/* A round begins: set what the engine asks about the network. It counts.
 *   ways  written; r points to it */
void uw_node_cost_begin(struct uw_node_state *s, const struct uw_node_scope *o,
                        struct uw_allreduce_round *r,
                        struct uw_allreduce_way ways[UW_CELL_RANKS_MAX]);
void uw_node_cost_committed(struct uw_node_state *s, const struct uw_node_scope *o);

/* A round is over: members keep what it has taught of the ways to them, for other groups too. */
void uw_node_cost_keep(struct uw_node_state *s, const struct uw_cell *cell);

/* A round was given up. */
void uw_node_cost_aborted(struct uw_node_state *s);

/* A part with round 0, of a probe. */
void uw_node_cost_take(struct uw_node_state *s, uint32_t rank, const struct uw_part *part);

/* Probe. Returns when it wants to run again. */
uint64_t uw_node_cost_run(struct uw_node_state *s);

/* node_news.c */

/* UW_NODE_CELL_ALONE, UW_NODE_CELLS_MEET. */
void uw_node_report_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us);

/* There is no room for this node in its cell, or no way for it to take part. */
void uw_node_report_full(struct uw_node_state *s);

/* News of a cell. */
void uw_node_report_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news);

/* UW_NODE_GRADIENTS, UW_NODE_GRADIENTS_CUT. */
void uw_node_report_gradients(struct uw_node_state *s, enum uw_node_event_kind kind);

/* Pairs are given up, because a member has (`from`), or because of too many half-open ones. */
void uw_node_report_retreat(struct uw_node_state *s, const struct uw_member *from);

/* News of a pair, but for an outlier. */
void uw_node_report_pair(struct uw_node_state *s, const struct uw_cell_news *news);

#endif
