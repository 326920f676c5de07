/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_link_node.h - a node with a vector in place of a model, and what it says over its link
 *
 * Memory     the board's, taken by open, given back by close
 * Context    the fields that a callback writes are atomic: the callback comes from whichever thread
 *            steps the node
 */
#ifndef UWASA_CLI_BENCH_LINK_NODE_H
#define UWASA_CLI_BENCH_LINK_NODE_H

#include "uwasa/node.h"
#include "uwasa/node_says.h"

#include <stdatomic.h>

/* A link that counts what passes on its way out, in front of any other. */
struct uw_bench_count {
    struct uw_link link;
    struct uw_link_ops ops;         /* those that the lower link has */
    struct uw_link *lower;
    atomic_uint_least64_t sent[UW_NODE_SAYS_N];
};

/* Put it in front of lower, which is borrowed. Returns c->link. */
struct uw_link *uw_bench_count_init(struct uw_bench_count *c, struct uw_link *lower);

struct uw_bench_node {
    char name[12];
    struct uw_bench_count count;
    struct uw_segment segment;
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_node_progress progress;
    struct uw_node_config config;       /* without a link */
    void *memory;
    size_t memory_bytes;
    uint64_t (*now_us)(void *arg);      /* of the events */
    void *arg;
    atomic_uint_least64_t started_us, ended_us;     /* of its pull; 0: not yet */
    atomic_int failed;                  /* 0, or why its pull was cut */
    char why[UW_NODE_TEXT_BYTES];       /* in a sentence */
};

/* Vector number i, whose elements are base + i STEP, and a configuration.
 *   pulls  from whoever comes next by identity; false: from nobody
 *   now_us, arg  the clock for started_us and ended_us
 * Returns UW_OK or UW_ERR_NOMEM. Close in every case. */
int uw_bench_node_open(struct uw_bench_node *n, uint32_t i, uint32_t size_n, bool pulls,
                       uint64_t (*now_us)(void *arg), void *arg, uint64_t seed);
void uw_bench_node_close(struct uw_bench_node *n);

/* Has the first training step, before any step of the network: what is shown is the vector, and
 * nobody is there to pull from. */
int uw_bench_node_start(struct uw_bench_node *n, struct uw_node *node);

/* Show the same vector as a new version. */
int uw_bench_node_renew(struct uw_bench_node *n, struct uw_node *node);

/* Would its pull find whom it needs? rows: as uw_node_status has them. */
bool uw_bench_node_sees(const struct uw_node_member *rows, uint32_t rows_n, uint32_t nodes);

/* Is every element base + (i + share (j - i)) STEP with one j of 0 .. nodes - 1, which is not i?
 * That comes of mixing, where only others' vectors were there to be mixed in. */
bool uw_bench_node_mixed(const struct uw_bench_node *n, uint32_t i, uint32_t nodes, double share,
                         uint64_t seed);

/* Is every element the mean of all nodes'; not exact: somewhere among theirs? */
bool uw_bench_node_averaged(const struct uw_bench_node *n, uint32_t nodes, bool exact,
                            uint64_t seed);

#endif
