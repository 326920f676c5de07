/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange.h - how nodes exchange: the options that `uwasa node` and `uwasa sim` share
 *
 * Here each option is checked by itself; uw_node_check checks that they fit together.
 */
#ifndef UWASA_CLI_EXCHANGE_H
#define UWASA_CLI_EXCHANGE_H

#include "base/args.h"

#include "uwasa/mix.h"
#include "uwasa/node.h"

#define UW_PEER_SCHEDULES \
    "random|matching|exponential|dissemination|hypercube|base2|ring|chain|torus|tree"
#define UW_EXCHANGES UW_NODE_MODES "|" UW_GOSSIP_KINDS
#define UW_MOMENTUM_RULES "qg|noloco|slowmo|diloco|kgt|updates|none"    /* uw_mix_find */
#define UW_GUARDS "off|pulls|all"
#define UW_PERIOD_MOST 1e9
#define UW_PULLS_MOST 16

/* What is refused if it is far away. */
enum uw_guarding { UW_GUARD_OFF, UW_GUARD_PULLS, UW_GUARD_ALL };

struct uw_exchange {
    struct uw_choice mode;                  /* enum uw_node_mode; words UW_EXCHANGES */
    enum uw_gossip_kind gossip;             /* of the words after the modes */
    struct uw_choice rule_word, peers_word;
    const char *graph_file;                 /* the schedule; NULL: none */
    struct uw_phases period;                /* local steps per round */
    uint32_t pulls;                         /* per round; 0: 1 */
    uint32_t ranks;                         /* most nodes of an exact average; 0: 64 */
    uint32_t slices;                        /* of the model, one per round; 0: 1 */
    struct uw_choice guard;                 /* enum uw_guarding; words UW_GUARDS */
    double share;                           /* of the time, with period auto; 0: not given */
    double momentum;                        /* of local steps; below 0: not given */
    bool nesterov;                          /* the steps' momentum is Nesterov's */
    const struct uw_mix_rule *rule;         /* of rule_word, set by uw_exchange_resolve */
    const struct uw_peer_schedule *peers;   /* the same; NULL: the rule's own */
    struct uw_peer_edge *edges;             /* of graph_file, read by uw_exchange_read */
    struct uw_peer_graph graph;
};

#define UW_EXCHANGE_DEFAULTS \
    {.mode = {"gossip", UW_NODE_GOSSIP}, .period = {.n = 10}, \
     .guard = {"all", UW_GUARD_ALL}, .momentum = -1.0}

/* Resolve the words. own: the rule to use if none was given. */
void uw_exchange_resolve(struct uw_exchange *x, const struct uw_mix_rule *own);

/* Read the graph, if there is one: a line for each link, with the names of two nodes and, if it is
 * not to be Metropolis', the share that each gives the other; "#" begins a comment. At the end,
 * call uw_exchange_close. */
int uw_exchange_read(struct uw_exchange *x, struct uw_error *err);
void uw_exchange_close(struct uw_exchange *x);

/* Check what uw_node_check cannot see: a share without an adaptive period, and a rule that needs
 * momentum without one.
 *   sentence  written on a mistake: what the key needs, to print after the key
 * Returns the wrong key, "share" or "momentum"; NULL: none. */
const char *uw_exchange_wrong(const struct uw_exchange *x, const char **sentence);

/* Put it into a node's configuration. */
void uw_exchange_fill(const struct uw_exchange *x, struct uw_node_config *c);

/* The peer schedule: the rule's own if none was given. */
const struct uw_peer_schedule *uw_exchange_peers(const struct uw_exchange *x);

/* Share of the time that pulls may take; 0: the period is fixed. */
double uw_exchange_share(const struct uw_exchange *x);

/* The momentum of local steps: that of quasi-global momentum, from the start or after a retreat to
 * it; else the rule's, which is 1 over pairs: there the tracker enters the steps undivided. */
float uw_exchange_momentum_qg(const struct uw_exchange *x);
float uw_exchange_momentum(const struct uw_exchange *x);

#endif
