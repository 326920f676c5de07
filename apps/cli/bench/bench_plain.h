/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_plain.h - products as small C frameworks write them, to measure uwasa beside
 *
 * Convolution by im2col, matrix products as loops over i, k and j without blocks or vectors by
 * hand, one thread, compiled like the rest of uwasa. All else is ref.
 *
 * Memory     the table is the caller's; scratch: one unrolled image
 * Blocking   until computed      Context  one thread
 */
#ifndef UWASA_CLI_BENCH_PLAIN_H
#define UWASA_CLI_BENCH_PLAIN_H

#include "uwasa/kernels.h"

/* Fill in a kernel table called "plain", contracts as in uwasa/kernels.h. */
void uw_bench_plain_kernels(struct uw_kernels *k);

#endif
