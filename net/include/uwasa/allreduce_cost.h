/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/allreduce_cost.h - predict how long an all-reduce takes
 *
 * The model simulates the steps of uwasa/allreduce_steps.h. A rank begins a step when its previous
 * one is done. A message arrives latency + bytes / bandwidth after its start; a rank sends its
 * messages one after the other. Reduction adds reduce_s per byte. A step's message may be split
 * into chunks, each with a header and the cost access_s. On a switched network all messages travel
 * at once, and a rank sends and receives at the same time. A shared medium carries one chunk at a
 * time, and also the notices of ranks that all chunks of a step, or of the round, have arrived.
 *
 * A rank that sends before its receiver has begun the step or has buffer space is stopped after
 * early_n floats, and continues when the receiver asks; chunks in between are sent again. In
 * doubling and sweeps a receiver has buffer space again when its partner of the last step has
 * received everything.
 *
 * Units      seconds, bytes; _n counts floats
 * Memory     nothing is kept; the caller lends 2 p numbers     Blocking  until computed
 * Context    any thread
 * Source     R. Hockney, "The communication challenge for MPP", 1994: latency + bytes / bandwidth
 */
#ifndef UWASA_ALLREDUCE_COST_H
#define UWASA_ALLREDUCE_COST_H

#include "uwasa/allreduce_steps.h"
#include "uwasa/cplusplus.h"

UW_C_BEGIN

struct uw_network_cost {
    double latency_s;           /* of a message: alpha */
    double byte_s;              /* to send one byte: beta */
    double reduce_s;            /* to add one byte: gamma */
    bool shared;                /* one medium for all, such as a radio channel */
    double access_s;            /* of each message, at any size: to access the medium */
    uint32_t chunk_n;           /* floats of a message, at most; 0: no limit */
    uint32_t head_bytes;        /* of each message */
    uint32_t early_n;           /* floats buffered before their step begins; 0: all */
    const float *slower;        /* [p] factor on the time of a rank's messages; NULL: 1. Borrowed */
};

/* Seconds that a step's message of n floats occupies the medium. */
double uw_allreduce_wire_s(const struct uw_network_cost *c, uint32_t n);

/* Seconds until the last rank is done; 0 for one rank.
 *   at  [2 * p], written */
double uw_allreduce_seconds(enum uw_allreduce_kind kind, uint32_t p, uint32_t n,
                            const struct uw_network_cost *c, double *at);

/* Choose the fastest algorithm. Its time is written to `seconds`, which may be NULL.
 *   same_bits  all ranks need bit-identical results: excludes sweeps */
enum uw_allreduce_kind uw_allreduce_choose(uint32_t p, uint32_t n, bool same_bits,
                                           const struct uw_network_cost *c, double *at,
                                           double *seconds);

UW_C_END
#endif
