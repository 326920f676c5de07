/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/allreduce_steps.h - all-reduce as tables of messages: who sends what to whom, and when
 *
 * An algorithm for p ranks and a vector of n floats is a list of steps. In a step a rank sends at
 * most one message and receives at most one; both are windows of the vector. A message of step k
 * meets a receive of step k at the other end, of the same size. Everything is a function of
 * (algorithm, p, rank, n, k): no tables, no state, so that the engine, the cost model and the
 * simulator work with the very same steps.
 *
 *   tree      binomial reduction to rank 0, binomial broadcast
 *   doubling  recursive doubling; the first 2r ranks fold in pairs before, r = p - p', p' the
 *             largest power of two in p
 *   halving   recursive halving, then doubling of windows; the first 2r ranks fold in halves
 *   ring      p windows go round twice
 *   sweep     matchings of the Base-2 graph; averages only
 *
 * Sums have one owner (tree, halving, ring) or are a commutative sum of the same two terms at both
 * ends (doubling): all ranks end with the same bits. After a sweep they agree within rounding.
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
    UW_TAKE_COPY,               /* the window becomes what arrives */
    UW_TAKE_ADD,                /* it is added */
    UW_TAKE_MIX                 /* window = (1 - weight) window + weight arrived */
};

struct uw_allreduce_step {
    uint32_t to, from;          /* ranks; UW_RANK_NONE: nothing is sent, nothing is received */
    uint32_t send_at, send_n;
    uint32_t recv_at, recv_n;
    enum uw_allreduce_take take;
    float weight;
};

/* "tree", "doubling", "halving", "ring", "sweep" */
const char *uw_allreduce_name(enum uw_allreduce_kind kind);

/* Returns false, kind untouched, when no algorithm has this name. */
bool uw_allreduce_find(const char *name, enum uw_allreduce_kind *kind);

/* Steps of p ranks, the same for all of them; 0 when p is 0 or 1. */
uint32_t uw_allreduce_steps_n(enum uw_allreduce_kind kind, uint32_t p);

/* Step k < steps_n of a rank. What is received may be what is being sent: the message is the
 * window's content before the step. A message of 0 floats is not sent; `to` and `from` then still
 * name the partner. */
struct uw_allreduce_step uw_allreduce_step(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank,
                                           uint32_t n, uint32_t k);

/* The window whose sums are complete on this rank, and were nowhere before, once step k is done: to
 * turn sums into averages before they are handed on. Returns its floats, *at where it begins. */
uint32_t uw_allreduce_owned(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank, uint32_t n,
                            uint32_t k, uint32_t *at);

/* Floats of the largest message that any rank receives. */
uint32_t uw_allreduce_message_n(enum uw_allreduce_kind kind, uint32_t p, uint32_t n);

UW_C_END
#endif
