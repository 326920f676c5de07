/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_allreduce.h - measure how long ranks on this machine take to add up a vector
 *
 * Ranks are processes over TCP or UDP on the loopback interface, or threads over memory; all run
 * the library's code (uwasa/collective.h). A window is a number of consecutive rounds between two
 * barriers; the slowest rank counts. Before and after the windows a round on known numbers is
 * checked. The time of each algorithm is predicted from two short measurements on the same links:
 * of one float, and of a large vector. If the algorithm is to be chosen, those whose predictions
 * are close to the best are tried on the vector itself. If nodes average the same vector for
 * comparison, the windows of both alternate.
 *
 * Memory     mapped, released before return; processes of ranks end before return
 * Blocking   until measured      Context  main thread, no other threads
 */
#ifndef UWASA_CLI_BENCH_ALLREDUCE_H
#define UWASA_CLI_BENCH_ALLREDUCE_H

#include "base/progress.h"

#include "uwasa/allreduce_cost.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_BENCH_RANKS_MAX 256u
#define UW_BENCH_ALLREDUCE_WINDOWS_MAX UW_SPREAD_MAX

enum uw_bench_rank_link { UW_BENCH_TCP, UW_BENCH_UDP, UW_BENCH_LOOPBACK };

struct uw_bench_allreduce {
    enum uw_bench_rank_link link;
    bool tls;                       /* over TCP */
    bool node;                      /* over TCP: compare with nodes (bench_rank_node.h) */
    bool automatic;                 /* choose the algorithm: kind is then set to the choice */
    enum uw_allreduce_kind kind;
    uint32_t ranks, n;              /* n floats */
    uint32_t windows;
    double seconds;                 /* of a window, approximately */
    uint32_t chunk_n, segment_n;    /* 0: the defaults of uwasa/collective.h */
};

struct uw_bench_allreduce_result {
    struct uw_network_cost cost;    /* as measured */
    double predicted_seconds;
    uint32_t rounds;                /* in a window */
    double seconds[UW_BENCH_ALLREDUCE_WINDOWS_MAX];    /* per round, of each window */
    /* with node: from handing the parameters over until the average is applied; and the whole
     * round, with what training does before and after that */
    double node_seconds[UW_BENCH_ALLREDUCE_WINDOWS_MAX];
    double node_round_seconds[UW_BENCH_ALLREDUCE_WINDOWS_MAX];
};

/* The bytes that each rank must send at least, 2 (p - 1) / p of the vector, per second. NVIDIA's
 * nccl-tests call this bus bandwidth. */
double uw_bench_bus_bytes_per_s(uint32_t ranks, uint32_t n, double seconds);

/* Measure. Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO (a rank ended or a link failed), UW_ERR_TIMEOUT
 * (a round does not end), UW_ERR_CORRUPT (a wrong sum), err filled. */
int uw_bench_allreduce(struct uw_bench_allreduce *b, struct uw_bench_allreduce_result *result,
                       struct uw_error *err);

#endif
