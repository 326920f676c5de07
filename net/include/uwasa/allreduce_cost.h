/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/allreduce_cost.h - how long an all-reduce takes, before it is run
 *
 * The steps of uwasa/allreduce_steps.h are played through: a rank begins a step when its last one
 * is done; a message arrives latency + bytes / bandwidth after it was begun, one after the other at
 * each rank; what is added up takes reduce_s a byte more. The message of a step may be cut into
 * chunks, each with a head, and every one of them pays access_s. On a medium of their own all
 * messages travel at once, and a rank sends and receives at the same time; a shared medium carries
 * one chunk after the other, and what ranks tell each other besides: that all chunks of a step are
 * there, that all of the round is.
 *
 * Who sends before its receiver is there, or has room, is stopped after early_n floats, and goes on
 * when it is told to; what came in between is sent again. Doubling and sweeps have room again when
 * the last step's partner has everything.
 *
 * Units      seconds, bytes; _n counts floats
 * Memory     nothing is kept, the caller lends 2 p numbers     Blocking  until computed
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
    double byte_s;              /* one byte on the wire: beta */
    double reduce_s;            /* one byte added up: gamma */
    bool shared;                /* one medium for all, such as a radio channel */
    double access_s;            /* each message, whatever its size; shared: to get hold of it */
    uint32_t chunk_n;           /* floats of a message at most; 0: a step's is sent in one */
    uint32_t head_bytes;        /* of each message */
    uint32_t early_n;           /* floats kept of what comes before its step; 0: all of them */
    const float *slower;        /* [p] times as long as that takes what a rank sends; NULL: 1.
                                   Borrowed */
};

/* Seconds that the medium is busy with a step's message of n floats. */
double uw_allreduce_wire_s(const struct uw_network_cost *c, uint32_t n);

/* Seconds until the last rank is done; 0 for one rank.
 *   at  [2 * p], written */
double uw_allreduce_seconds(enum uw_allreduce_kind kind, uint32_t p, uint32_t n,
                            const struct uw_network_cost *c, double *at);

/* The algorithm with the least seconds, which are written when `seconds` is not NULL. Sweeps are
 * looked at only where an average that agrees within rounding will do. */
enum uw_allreduce_kind uw_allreduce_choose(uint32_t p, uint32_t n, bool same_bits,
                                           const struct uw_network_cost *c, double *at,
                                           double *seconds);

UW_C_END
#endif
