/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_cost.h - the closed costs of pulls and exact averages between the devices of a fleet
 *
 * K devices, a message of G bytes over a path of rate B and latency L, p' the largest power of two
 * in K, r = K - p'. Nothing is in anything else's way, and adding takes no time.
 *
 *     pull           2 L + G/B                 question and answer; the wide-area study: L + G/B
 *     pair           L + G/B                   both ways at once
 *     butterfly      (L + G/B) log2 p',        r > 0: and 2 (L + G/B)
 *     halving        2 log2 p' L + 2 (p' - 1)/p' G/B,          r > 0: and 3 L + 2 G/B
 *     ring           2 (K - 1) (L + G/(K B))   a message is a K-th of the model
 *     ring-study     2 (K - 1) (L + G/B)       as the wide-area study prints it
 *     tree           2 ceil(log2 K) (L + G/B)
 *     sweep          rounds of the Base-2 graph (L + G/B)
 *
 * butterfly, halving, ring, tree and sweep have the steps and bytes of uwasa/allreduce_steps.h, and
 * for K a power of two, and every ring, the seconds of uwasa/allreduce_cost.h without chunks. For
 * other K these are some latencies less, five at most up to 64 ranks: a rank that only sends in a
 * step goes on before its message has landed.
 * On a shared channel, the air of a cell, messages go one after the other: all bytes of all ranks
 * at its rate, and L a step.
 *
 * Units      seconds, bytes      Memory  nothing is kept      Blocking  never      Context  any
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

/* What lies between devices. */
struct uw_sim_path {
    double latency_s;               /* one way */
    double byte_s;                  /* of a byte; 0: no limit */
    bool shared;                    /* a channel that carries one message at a time */
};

/* From one device to another: latencies added, the least rate, the sender's uplink, the receiver's
 * downlink and the shared channels of their cells among them. shared: inside one cell. */
struct uw_sim_path uw_sim_path_between(const struct uw_sim_fleet *fleet, uint32_t from,
                                       uint32_t to);

/* Among members [n] that average: the least rate of all, up or down; the two largest latencies
 * added, or the cell's when all are in one. A thin link counts with its rate, whoever shares it. */
struct uw_sim_path uw_sim_path_among(const struct uw_sim_fleet *fleet, const uint32_t *members,
                                     uint32_t n);

/* Seconds until a model has been fetched. question: it has to be asked for, as a node does; false:
 * the wide-area study's L + G/B. */
double uw_sim_pull_s(const struct uw_sim_path *path, double model_bytes, bool question);

/* Seconds of an exact average of `ranks`, 0 for one, and in *sent_bytes (may be NULL) what all of
 * them send together. */
double uw_sim_allreduce_s(enum uw_sim_algorithm algorithm, uint32_t ranks,
                          const struct uw_sim_path *path, double model_bytes, double *sent_bytes);

/* What UW_SIM_AUTO is for these ranks; of equals the first in the list. */
enum uw_sim_algorithm uw_sim_cheapest(uint32_t ranks, const struct uw_sim_path *path,
                                      double model_bytes);

UW_C_END
#endif
