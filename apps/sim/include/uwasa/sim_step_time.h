/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_step_time.h - the time of a training step on many equal nodes, from the costs of layers
 *
 * Nothing is trained: a model is a table of layers, a node has a rate, and the network has the
 * costs of uwasa/allreduce_cost.h. A layer takes batch * products / rate, and the rate is lower for
 * small minibatches:
 *
 *     rate(batch) = macs_per_s * batch / (batch + half_batch_n)
 *
 * Layers without products and the update take no time.
 *
 *     overlap off   forward, backward, then the exchange of one bucket after another
 *     overlap on    as in uwasa's nodes. The exchange of a bucket begins when backward has computed
 *                   its gradient. Each of its fragments is a separate all-reduce; all of them share
 *                   one line. The next chunk to send is that of a small bucket, otherwise that of
 *                   the bucket that forward needs first. A layer's forward begins when its own
 *                   bucket is complete, even if others are not.
 *
 * With overlap one node is simulated for all, several steps in a row, because equal nodes do the
 * same at the same time. Where nodes have different work, in a tree or with ranks beyond a power of
 * two, the work of the busiest node counts.
 *
 * Units      seconds; products are multiply-adds; _n counts floats, nodes, layers or samples
 * Memory     the caller's; from the heap only during the call
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
    double forward, backward;       /* products for one sample */
    uint32_t params_n;              /* floats that are exchanged */
};

enum uw_step_exchange {
    UW_STEP_ALLREDUCE,              /* all-reduce with one algorithm */
    UW_STEP_HYBRID,                 /* doubling or halving, whichever is faster alone */
    UW_STEP_PARTNER                 /* send to one partner, receive as much from one */
};

struct uw_step_config {
    const struct uw_step_layer *layers;     /* [layers_n] in the order of forward, borrowed */
    uint32_t layers_n;
    uint32_t bucket_n;              /* adjacent layers share a bucket up to this many floats */
    uint32_t nodes_n, batch_n;      /* samples of one node's step */
    double macs_per_s;
    double half_batch_n;            /* the minibatch that reaches half of macs_per_s */
    double interference;            /* computing takes 1 + this times as long while the line is
                                       busy; only with overlap */
    enum uw_step_exchange exchange;
    enum uw_allreduce_kind kind;    /* of UW_STEP_ALLREDUCE; not a sweep */
    struct uw_network_cost network; /* not shared, no slower nodes, early data is kept */
    bool overlap;
    bool asked;                     /* the receiver requests each message, which takes one more
                                       latency_s; only with overlap */
    bool in_order;                  /* send buckets in the order of backward; only with overlap */
    uint32_t fragment_n;            /* most floats of a fragment; 0: a bucket is one fragment; only
                                       with overlap */
    uint32_t small_n;               /* a bucket of up to this many floats is small; 0:
                                       network.chunk_n */
};

struct uw_step_time {
    double step_s;                  /* from the start of a step to that of the next */
    double compute_s;               /* computing without a network */
    double network_s;               /* exchanging all buckets, one by one, without computing */
    double sent_bytes;              /* in a step, the mean over the nodes, without headers */
    double busiest_bytes;           /* in sequence on the busiest node's line, including what others
                                       send while it waits */
};

/* Compute the time of a step. A single node exchanges nothing.
 * Returns UW_OK, UW_ERR_INVALID (no layer, node or sample, no rate, a sweep, a shared network),
 * UW_ERR_TOOBIG (computing and network add up to more than UW_STEP_SECONDS_MAX) or UW_ERR_NOMEM. */
int uw_step_time(const struct uw_step_config *c, struct uw_step_time *t);

/* Samples per second of all nodes, relative to those of one node:
 * one_s / step_s * batch_n / one_batch_n * nodes_n. */
double uw_step_speed_up(double one_s, uint32_t one_batch_n, double step_s, uint32_t batch_n,
                        uint32_t nodes_n);

UW_C_END
#endif
