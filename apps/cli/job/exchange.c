/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include "uwasa/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 256          /* of a graph */
#define SHARE 0.1               /* by default, with a period that adapts */

void uw_exchange_resolve(struct uw_exchange *x, const struct uw_mix_rule *own)
{
    if (x->mode.at >= UW_NODE_MODES_N) {
        x->gossip = (enum uw_gossip_kind)(x->mode.at - UW_NODE_MODES_N + 1);
        x->mode.at = UW_NODE_GOSSIP;
    }
    bool plain = x->gossip == UW_GOSSIP_PUSH_SUM || x->gossip == UW_GOSSIP_RELAY;
    own = own != NULL && plain ? &uw_mix_none : own;
    x->rule = x->rule_word.word != NULL ? uw_mix_find(x->rule_word.word) : own;
    x->peers = x->graph_file != NULL        ? &uw_peer_schedule_graph
               : x->peers_word.word != NULL ? uw_peer_schedule_find(x->peers_word.word)
                                            : NULL;
}

/* Parse a line of a graph. Returns 1, 0 for an empty line, or UW_ERR_INVALID. */
static int parse_edge(char *line, struct uw_peer_edge *e)
{
    const char *word[4] = {NULL};
    char *at, *end = NULL;
    uint32_t n = 0;
    line[strcspn(line, "#\n")] = '\0';
    for (char *w = strtok_r(line, " \t\r", &at); w != NULL && n < 4u;
         w = strtok_r(NULL, " \t\r", &at)) {
        word[n++] = w;
    }
    if (n == 0) {
        return 0;
    }
    if (n < 2u || n > 3u || strcmp(word[0], word[1]) == 0) {
        return UW_ERR_INVALID;
    }
    *e = (struct uw_peer_edge){{uw_hash32_text(word[0]), uw_hash32_text(word[1])}, 0.0f};
    e->weight = n == 3u ? strtof(word[2], &end) : 0.0f;
    return n == 2u || (*end == '\0' && e->weight > 0.0f && e->weight < 1.0f) ? 1 : UW_ERR_INVALID;
}

/* Whether a link may follow those before: it is new, and no node gives more than 1 to others. */
static bool fits(const struct uw_peer_graph *g, const struct uw_peer_edge *e)
{
    float sum[2] = {e->weight, e->weight};
    uint32_t ends = 0;
    for (uint32_t i = 0; i < g->edges_n && ends < 2u; i++) {
        const struct uw_peer_edge *o = &g->edges[i];
        ends = 0;
        for (uint32_t k = 0; k < 2; k++) {
            bool here = o->id[0] == e->id[k] || o->id[1] == e->id[k];
            sum[k] += here ? o->weight : 0.0f;
            ends += here ? 1u : 0u;
        }
    }
    return ends < 2u && sum[0] <= 1.0f && sum[1] <= 1.0f;
}

/* Append a link. */
static int add_edge(struct uw_exchange *x, const struct uw_peer_edge *e)
{
    uint32_t n = x->graph.edges_n;
    if (!fits(&x->graph, e)) {
        return UW_ERR_INVALID;
    }
    if ((n & (n - 1u)) == 0) {          /* room for as many again */
        struct uw_peer_edge *more = realloc(x->edges, (n != 0 ? 2u * n : 1u) * sizeof *more);
        if (more == NULL) {
            return UW_ERR_NOMEM;
        }
        x->edges = more;
    }
    x->edges[n] = *e;
    x->graph = (struct uw_peer_graph){x->edges, n + 1u};
    return UW_OK;
}

static int read_edges(struct uw_exchange *x, FILE *f, struct uw_error *err)
{
    char line[LINE_BYTES];
    struct uw_peer_edge e;
    for (unsigned row = 1; fgets(line, sizeof line, f) != NULL; row++) {
        bool whole = strchr(line, '\n') != NULL || feof(f);
        int rc = whole ? parse_edge(line, &e) : UW_ERR_INVALID;
        rc = rc == 1 ? add_edge(x, &e) : rc;
        if (rc < 0) {
            return uw_error_set(err, rc, "%s:%u: needs the names of two nodes, each link once, and "
                                "perhaps its weight, those of a node 1 at most together",
                                x->graph_file, row);
        }
    }
    return x->graph.edges_n != 0
               ? UW_OK : uw_error_set(err, UW_ERR_INVALID, "%s: has no link", x->graph_file);
}

int uw_exchange_read(struct uw_exchange *x, struct uw_error *err)
{
    if (x->graph_file == NULL) {
        return UW_OK;
    }
    FILE *f = fopen(x->graph_file, "r");
    if (f == NULL) {
        return uw_error_set(err, UW_ERR_IO, "%s: %s", x->graph_file, strerror(errno));
    }
    int rc = read_edges(x, f, err);
    fclose(f);
    return rc;
}

void uw_exchange_close(struct uw_exchange *x)
{
    free(x->edges);
    x->edges = NULL;
    x->graph = (struct uw_peer_graph){NULL, 0};
}

const char *uw_exchange_wrong(const struct uw_exchange *x, const char **sentence)
{
    if (!x->period.automatic && x->share > 0.0) {
        *sentence = "needs \"period\": \"auto\"";
        return "share";
    }
    if (x->graph_file != NULL && x->peers_word.word != NULL &&
        strcmp(x->peers_word.word, uw_peer_schedule_graph.name) != 0) {
        *sentence = "is one schedule, and another is given";
        return "graph";
    }
    if (x->rule->frozen && x->momentum == 0.0) {
        *sentence = "needs more than 0 by rule qg or kgt";
        return "momentum";
    }
    if (x->nesterov && (x->rule->frozen || x->momentum <= 0.0)) {
        *sentence = "needs a momentum above 0, and no rule qg or kgt, which have their own";
        return "nesterov";
    }
    return NULL;
}

void uw_exchange_fill(const struct uw_exchange *x, struct uw_node_config *c)
{
    c->mode = (enum uw_node_mode)x->mode.at;
    c->gossip = x->gossip;
    c->rule = x->rule;
    c->schedule = x->peers;
    c->graph = &x->graph;
    c->pulls_n = x->pulls;
    c->period_steps = x->period.n;
    c->period_share = (float)uw_exchange_share(x);
    c->ranks_max = x->ranks;
    c->slices_n = x->slices;
    c->guard = x->guard.at != UW_GUARD_OFF;
    c->guard_averages = x->guard.at == UW_GUARD_ALL;
    c->constants.beta = x->rule->frozen ? uw_exchange_momentum_qg(x) : 0.0f;    /* 0: its own */
}

const struct uw_peer_schedule *uw_exchange_peers(const struct uw_exchange *x)
{
    const char *own = x->rule->over == UW_MIX_OVER_PAIRS ? "matching"
                      : x->gossip == UW_GOSSIP_PUSH_SUM  ? "exponential"
                      : x->gossip == UW_GOSSIP_RELAY     ? "tree"
                                                         : "random";
    return x->peers != NULL ? x->peers : uw_peer_schedule_find(own);
}

double uw_exchange_share(const struct uw_exchange *x)
{
    return x->share > 0.0 ? x->share : x->period.automatic ? SHARE : 0.0;
}

float uw_exchange_momentum_qg(const struct uw_exchange *x)
{
    return x->momentum >= 0.0 ? (float)x->momentum : 0.9f;
}

float uw_exchange_momentum(const struct uw_exchange *x)
{
    return x->rule->over == UW_MIX_OVER_PAIRS ? 1.0f
           : x->rule->frozen                  ? uw_exchange_momentum_qg(x)
           : x->momentum >= 0.0               ? (float)x->momentum
                                              : 0.0f;
}
