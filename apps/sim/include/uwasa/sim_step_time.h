/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_step_time.h - how long a training step takes on many equal nodes, from what its layers cost
 *
 * No training: a model is a table of layers, a node a rate, the network the costs of
 * uwasa/allreduce_cost.h. A layer computes batch * products / rate, and small minibatches reach
 * less of the rate:
 *
 *     rate(batch) = macs_per_s * batch / (batch + half_batch_n)
 *
 * What layers without products do takes no time, nor does the update.
 *
 *     overlap off   forward, backward, then the exchange of bucket after bucket
 *     overlap on    the rules of the nodes that ship. A bucket's gradient leaves when backward has
 *                   made it; its fragments are all-reduces of their own, all under way at once on
 *                   one line. Before each chunk it is decided anew what goes first: small buckets,
 *                   then those that forward needs first. A layer's forward begins when its own
 *                   bucket is in, whatever is still on its way.
 *
 * With overlap one node is played for all of them, step after step until they repeat: equal nodes
 * do the same at the same time. What nodes do in turns, in a tree or to fold ranks beyond a power
 * of two, counts as what the busiest does.
 *
 * Units      seconds; products are multiply-adds; _n counts floats, nodes, layers or samples
 * Memory     the caller's; the play of a step takes from the heap and gives back
 * Blocking   until computed      Context  any thread. Equal arguments give equal bits
 */
#ifndef UWASA_SIM_STEP_TIME_H
#define UWASA_SIM_STEP_TIME_H

#include "uwasa/allreduce_cost.h"
#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

UW_C_BEGIN

#define UW_STEP_SECONDS_MAX 1e9         /* 30 years */

struct uw_step_layer {
    double forward, backward;       /* products of one sample */
    uint32_t params_n;              /* floats that are exchanged */
};

enum uw_step_exchange {
    UW_STEP_ALLREDUCE,              /* by one algorithm */
    UW_STEP_HYBRID,                 /* doubling or halving, whichever is done sooner alone */
    UW_STEP_PARTNER                 /* to one partner, and as much from one */
};

struct uw_step_config {
    const struct uw_step_layer *layers;     /* [layers_n] as forward comes to them, borrowed */
    uint32_t layers_n;
    uint32_t bucket_n;              /* neighbours share a bucket until it has so many floats */
    uint32_t nodes_n, batch_n;      /* samples of one node's step */
    double macs_per_s;
    double half_batch_n;            /* the minibatch that reaches half of it */
    double interference;            /* computing takes 1 + this times as long while the line is
                                       busy. With overlap only */
    enum uw_step_exchange exchange;
    enum uw_allreduce_kind kind;    /* of UW_STEP_ALLREDUCE; no sweep */
    struct uw_network_cost network; /* not shared; none is slower, all that is early is kept */
    bool overlap;
    bool asked;                     /* a message leaves when its receiver has asked for it: one
                                       latency_s more. With overlap only */
    bool in_order;                  /* nothing overtakes. With overlap only */
    uint32_t fragment_n;            /* floats of a fragment at most; 0: a bucket's are one. With
                                       overlap only */
    uint32_t small_n;               /* a bucket of so many floats goes before larger ones; 0:
                                       network.chunk_n */
};

struct uw_step_time {
    double step_s;                  /* from one step to the next */
    double compute_s;               /* of one node left alone */
    double network_s;               /* the exchange of bucket after bucket left alone */
    double sent_bytes;              /* of a step, the mean over the nodes, without heads */
    double busiest_bytes;           /* one after the other on the busiest node's line: what others
                                       send while it waits counts too */
};

/* Find the time of a step. One node exchanges nothing.
 * Returns UW_OK, UW_ERR_INVALID (no layer, node or sample, no rate, a sweep, a shared network),
 * UW_ERR_TOOBIG (one after the other, computing and network take more than UW_STEP_SECONDS_MAX) or
 * UW_ERR_NOMEM. */
int uw_step_time(const struct uw_step_config *c, struct uw_step_time *t);

/* Samples a second of all nodes, compared with one node's:
 * one_s / step_s * batch_n / one_batch_n * nodes_n. */
double uw_step_speed_up(double one_s, uint32_t one_batch_n, double step_s, uint32_t batch_n,
                        uint32_t nodes_n);

UW_C_END
#endif
