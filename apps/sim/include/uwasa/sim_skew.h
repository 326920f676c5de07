/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_skew.h - distributes the samples of a training set among the nodes of a run
 *
 *     even            all nodes have equally many samples, of every class
 *     sorted          the set is sorted by label and cut into 2 K shards, two random ones a node
 *     dirichlet:A     shares of each class are drawn from a Dirichlet distribution of concentration
 *                     A: with a small A few nodes have a class, with a large one all
 *
 * Every sample is on exactly one node.
 *
 *     uw_skew_parse("dirichlet:0.3", &skew);
 *     uw_deal_open(&deal, data.base, &skew, 16, seed, &err);
 *     uw_share_init(&share[i], data.base, &deal, i);
 *     uw_deal_close(&deal);
 *
 * Memory     4 bytes a sample from the heap; the dataset is borrowed. Of an endless set the samples
 *            of one epoch are distributed
 * Blocking   open reads every label      Context  one thread
 * Source     sorted: McMahan et al., "Communication-efficient learning", 2017;
 *            dirichlet: Hsu et al., "Measuring the effects of non-identical data", 2019
 */
#ifndef UWASA_SIM_SKEW_H
#define UWASA_SIM_SKEW_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/status.h"

UW_C_BEGIN

enum uw_skew_kind { UW_SKEW_EVEN, UW_SKEW_SORTED, UW_SKEW_DIRICHLET };

struct uw_skew {
    enum uw_skew_kind kind;
    double concentration;       /* of dirichlet */
};

#define UW_SKEW_ALLOWED "even, sorted or dirichlet:A with A from 0.001 to 1000"

/* Read "even", "sorted" or "dirichlet:A". Returns UW_OK or UW_ERR_INVALID. */
int uw_skew_parse(const char *text, struct uw_skew *skew);

/* Node i has samples index[start[i]] .. index[start[i + 1] - 1]. */
struct uw_deal {
    uint32_t *index;            /* [samples_n] */
    uint32_t *start;            /* [nodes_n + 1] */
    uint32_t nodes_n;
};

/* Distribute a set among nodes_n nodes. Each node gets at least one sample.
 * Returns UW_OK, UW_ERR_INVALID (too few samples, or a concentration that leaves nodes without
 * any), UW_ERR_NOMEM, or an error of reading the set; err is filled. */
int uw_deal_open(struct uw_deal *d, struct uw_dataset *whole, const struct uw_skew *skew,
                 uint32_t nodes_n, uint64_t seed, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_deal_close(struct uw_deal *d);

/* One node's part of a set, as a dataset. */
struct uw_share {
    struct uw_dataset base;
    struct uw_dataset *inner;
    const uint32_t *index;
};

/* Set up the part of `node`. The set and the deal are borrowed. */
void uw_share_init(struct uw_share *s, struct uw_dataset *whole, const struct uw_deal *deal,
                   uint32_t node);

UW_C_END
#endif
