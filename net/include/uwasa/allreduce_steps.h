/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/allreduce_steps.h - all-reduce algorithms as lists of messages
 *
 * An algorithm for p ranks and a vector of n floats is a list of steps. In a step a rank sends at
 * most one message and receives at most one; each is a window of the vector. Every message of step
 * k has a receive of step k and the same size at the other end. A step is a pure function of
 * (algorithm, p, rank, n, k), shared by the engine, the cost model and the simulator.
 *
 *   tree      binomial reduction to rank 0, binomial broadcast
 *   doubling  recursive doubling; the first 2r ranks fold in pairs before, r = p - p', p' the
 *             largest power of two in p
 *   halving   recursive halving, then doubling of windows; the first 2r ranks fold in halves
 *   ring      p windows, twice around the ring
 *   sweep     matchings of the Base-2 graph; averages only
 *
 * All ranks end with the same bits: each sum has one owner (tree, halving, ring) or both ends add
 * the same two terms (doubling). After a sweep the ranks agree within rounding.
 *
 * Units      _n and _at count floats
 * Memory     nothing is kept      Blocking  never      Context  any thread
 * Source     R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
 *            Operations in MPICH", 2005; P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce
 *            algorithms for clusters of workstations", 2009
 */
#ifndef UWASA_ALLREDUCE_STEPS_H
#define UWASA_ALLREDUCE_STEPS_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_RANK_NONE UINT32_MAX

enum uw_allreduce_kind {
    UW_ALLREDUCE_TREE,
    UW_ALLREDUCE_DOUBLING,
    UW_ALLREDUCE_HALVING,
    UW_ALLREDUCE_RING,
    UW_ALLREDUCE_SWEEP,
    UW_ALLREDUCE_KINDS_N
};

enum uw_allreduce_take {
    UW_TAKE_COPY,               /* window = received */
    UW_TAKE_ADD,                /* window += received */
    UW_TAKE_MIX                 /* window = (1 - weight) window + weight received */
};

struct uw_allreduce_step {
    uint32_t to, from;          /* ranks; UW_RANK_NONE: no send, no receive */
    uint32_t send_at, send_n;
    uint32_t recv_at, recv_n;
    enum uw_allreduce_take take;
    float weight;
};

/* Name of an algorithm: "tree", "doubling", "halving", "ring", "sweep". */
const char *uw_allreduce_name(enum uw_allreduce_kind kind);

/* Find an algorithm by its name. Returns false, kind unchanged, for an unknown name. */
bool uw_allreduce_find(const char *name, enum uw_allreduce_kind *kind);

/* Number of steps for p ranks, equal on all of them; 0 when p is 0 or 1. */
uint32_t uw_allreduce_steps_n(enum uw_allreduce_kind kind, uint32_t p);

/* Step k < steps_n of a rank. The windows may overlap: a message is the window's content before the
 * step. A message of 0 floats is not sent; `to` and `from` still name the partner. */
struct uw_allreduce_step uw_allreduce_step(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank,
                                           uint32_t n, uint32_t k);

/* The window whose sums step k completes, on this rank first: the place to divide sums by p.
 * Returns its size in floats; *at is its offset. */
uint32_t uw_allreduce_owned(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank, uint32_t n,
                            uint32_t k, uint32_t *at);

UW_C_END
#endif
