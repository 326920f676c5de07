/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rank_node.h - a rank's node: the all-reduce of `uwasa bench allreduce --node`
 *
 * A node with a vector in place of a model, as `uwasa node` runs it: a network thread, membership,
 * and averages over all ranks by one algorithm. A round is what training waits for: it hands the
 * parameters over, the nodes gather, average and commit, and it has them back.
 *
 * Memory     the board's, released by close
 * Blocking   round, open: until done; meet: until the nodes know each other
 * Context    the rank's thread
 */
#ifndef UWASA_CLI_BENCH_RANK_NODE_H
#define UWASA_CLI_BENCH_RANK_NODE_H

#include "bench_allreduce.h"
#include "bench_link.h"
#include "node/node_net.h"

struct uw_bench_rank_node {
    struct uw_bench_node own;
    struct uw_node_net net;
    enum uw_allreduce_kind kind;
    const char *seeds[1];
    atomic_uint_least64_t committed_us; /* the last average */
    atomic_int aborted;                 /* averages that were given up */
};

/* Set the node up and start its network.
 *   first    address of rank 0's, or NULL: this is rank 0
 *   address  written: where this one listens */
int uw_bench_rank_node_open(struct uw_bench_rank_node *n, const struct uw_bench_allreduce *b,
                            uint32_t rank, const char *first, char address[UW_LINK_ADDRESS_BYTES],
                            struct uw_error *err);

/* Close in every case. */
void uw_bench_rank_node_close(struct uw_bench_rank_node *n);

/* Does this node know all others? */
bool uw_bench_rank_node_sees(struct uw_bench_rank_node *n, uint32_t ranks);

/* One average.
 *   ready_us  written: when this node had handed its parameters over
 *   to_us     written: when the average was committed here
 * Returns UW_OK, UW_ERR_IO (it was given up), UW_ERR_TIMEOUT, or what uw_node_after_step fails
 * with. */
int uw_bench_rank_node_round(struct uw_bench_rank_node *n, uint64_t limit_us,
                             atomic_uint_least64_t *ready_us, uint64_t *to_us);

/* Is the vector the mean of all ranks'? */
bool uw_bench_rank_node_is_right(const struct uw_bench_rank_node *n, uint32_t ranks);

#endif
