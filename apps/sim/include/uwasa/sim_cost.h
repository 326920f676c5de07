/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_cost.h - formulas for the cost of pulls and exact averages between devices of a fleet
 *
 * K devices, a message of G bytes over a path of rate B and latency L, p' the largest power of two
 * up to K, r = K - p'. Messages do not delay each other, and additions take no time.
 *
 *     pull           2 L + G/B                 request and reply; the wide-area study: L + G/B
 *     pair           L + G/B                   both ways at once
 *     butterfly      (L + G/B) log2 p',        r > 0: and 2 (L + G/B)
 *     halving        2 log2 p' L + 2 (p' - 1)/p' G/B,          r > 0: and 3 L + 2 G/B
 *     ring           2 (K - 1) (L + G/(K B))   a message is a K-th of the model
 *     ring-study     2 (K - 1) (L + G/B)       as the wide-area study prints it
 *     tree           2 ceil(log2 K) (L + G/B)
 *     sweep          rounds of the Base-2 graph (L + G/B)
 *
 * butterfly, halving, ring, tree and sweep have the steps and bytes of uwasa/allreduce_steps.h. For
 * K a power of two, and for any ring, they have the seconds of uwasa/allreduce_cost.h without
 * chunks. For other K that header's seconds are lower by some latencies, at most five up to 64
 * ranks: a rank that only sends in a step continues before its message has arrived.
 * On a shared channel (a cell's radio) messages follow one another: the time is the bytes of all
 * ranks at its rate, and L per step.
 *
 * Units      seconds, bytes      Memory  none      Blocking  never      Context  any thread
 * Source     the cost model of the wide-area study of gossip and all-reduce; R. Thakur,
 *            R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
 *            MPICH", 2005
 */
#ifndef UWASA_SIM_COST_H
#define UWASA_SIM_COST_H

#include "uwasa/cplusplus.h"
#include "uwasa/sim_fleet.h"

UW_C_BEGIN

enum uw_sim_algorithm {
    UW_SIM_AUTO,                    /* the cheapest of butterfly, halving, ring and tree */
    UW_SIM_BUTTERFLY,
    UW_SIM_HALVING,
    UW_SIM_RING,
    UW_SIM_RING_STUDY,
    UW_SIM_TREE,
    UW_SIM_SWEEP
};

/* Their names, in that order. */
#define UW_SIM_ALGORITHMS "auto|butterfly|halving|ring|ring-study|tree|sweep"

/* The network between devices. */
struct uw_sim_path {
    double latency_s;               /* one way */
    double byte_s;                  /* for each byte; 0: no limit */
    bool shared;                    /* a channel that carries one message at a time */
};

/* From one device to another: the sum of latencies, and the lowest rate of uplink, downlink and the
 * shared channels of their cells. shared can be true only inside one cell. */
struct uw_sim_path uw_sim_path_between(const struct uw_sim_fleet *fleet, uint32_t from,
                                       uint32_t to);

/* Among members [n] that average: the lowest rate of all, up or down; the sum of the two largest
 * latencies, or the cell's latency if all are in one. A thin link counts with its full rate. */
struct uw_sim_path uw_sim_path_among(const struct uw_sim_fleet *fleet, const uint32_t *members,
                                     uint32_t n);

/* Seconds until a model has been pulled. question: with the request, which nodes send; false: the
 * wide-area study's L + G/B. */
double uw_sim_pull_s(const struct uw_sim_path *path, double model_bytes, bool question);

/* Seconds of an exact average of `ranks`; 0 for one rank. *sent_bytes (may be NULL) is set to the
 * bytes that all of them send. */
double uw_sim_allreduce_s(enum uw_sim_algorithm algorithm, uint32_t ranks,
                          const struct uw_sim_path *path, double model_bytes, double *sent_bytes);

/* The algorithm of UW_SIM_AUTO for these ranks; of equally cheap ones the first in the list. */
enum uw_sim_algorithm uw_sim_cheapest(uint32_t ranks, const struct uw_sim_path *path,
                                      double model_bytes);

UW_C_END
#endif
