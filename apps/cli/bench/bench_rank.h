/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_rank.h - one rank of `uwasa bench allreduce`, a process or a thread
 *
 * Ranks meet in memory that they share: addresses, barriers, times, failed ranks.
 *
 * Blocking   until measured      Context  the rank's thread */
#ifndef UWASA_CLI_BENCH_RANK_H
#define UWASA_CLI_BENCH_RANK_H

#include "bench_allreduce.h"

#include "uwasa/link_loopback.h"

#include <stdatomic.h>

struct uw_bench_meeting {
    struct uw_bench_allreduce b;        /* what to measure; rank 0 sets the algorithm */
    struct uw_bench_allreduce_result result;    /* rank 0 writes it */
    atomic_uint arrived, generation;    /* of the barrier */
    atomic_int failed;                  /* 0, or the first status that ended a rank */
    char text[UW_ERROR_TEXT_BYTES];     /* why */
    char address[UW_BENCH_RANKS_MAX][UW_LINK_ADDRESS_BYTES];
    char node_address[UW_LINK_ADDRESS_BYTES];   /* of rank 0's */
    double elapsed[UW_BENCH_RANKS_MAX];
    atomic_uint_least64_t ready_us[2][UW_BENCH_RANKS_MAX];  /* nodes: since when a rank waits for
                                                               an even, and an odd round */
};

/* Open the links, measure, close them. What fails is left in the meeting, which ends all ranks.
 *   hub  of threads over memory, else NULL */
void uw_bench_rank(struct uw_bench_meeting *m, uint32_t rank, struct uw_loopback_hub *hub);

/* End all ranks: `rc` and a sentence, unless one is there already. */
void uw_bench_fail(struct uw_bench_meeting *m, int rc, const char *text);

#endif
