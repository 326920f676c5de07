/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels.h - how fast a kernel table is on this machine
 *
 * Times the products (gemm plain and transposed, 64 to 1024), every part of the convolutions and
 * dense layers of the built-in models at their usual batch, and the memory-bound slots on a long
 * vector.
 *
 * Memory     from the board, released before return
 * Blocking   about 55 times `seconds`      Context  one thread; the pool's threads work
 */
#ifndef UWASA_CLI_BENCH_KERNELS_H
#define UWASA_CLI_BENCH_KERNELS_H

#include "uwasa/cuda.h"
#include "uwasa/kernels.h"

#include <stdbool.h>
#include <stdio.h>

struct uw_bench_kernels {
    const struct uw_kernels *kernels;
    struct uw_cuda *gpu;            /* whose kernels they are; NULL: the processor's */
    struct uw_workers *workers;
    double seconds;                 /* for each row */
    bool json;
};

/* Measure and print. json: one object a line, else a table. What a GPU is given is measured until
 * it is done; buffers are in its memory.
 *
 *   {"event":"peak","gflops":..}             register tile on panels in the first cache, one core;
 *                                            absent when the table has no tile
 *   {"event":"kernel","name":..,"shape":..,"ms":..,"gflops":..,"gbytes_per_s":..}
 *   {"event":"done","backend":..,"threads":..,"seconds":..}
 *
 * ms is the fastest call; gflops counts multiplications and additions of the definition,
 * gbytes_per_s the operands read and written once. A slot has one of the two, the other is 0.
 *
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO (out could not be written), or what a slot returned; err
 * filled. */
int uw_bench_kernels(FILE *out, const struct uw_bench_kernels *config, struct uw_error *err);

#endif
