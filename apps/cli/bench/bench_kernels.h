/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels.h - speed of a kernel table: alone, compared with BLAS libraries, by block sizes
 *
 * Memory     from the board, released before return; libraries allocate their own
 * Context    one thread; the pool and the libraries use their threads
 */
#ifndef UWASA_CLI_BENCH_KERNELS_H
#define UWASA_CLI_BENCH_KERNELS_H

#include "uwasa/backends.h"
#include "uwasa/cuda.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdio.h>

struct uw_bench_kernels {
    const struct uw_kernels *kernels;
    struct uw_cuda *gpu;            /* the GPU that the kernels are for; NULL: the processor */
    struct uw_workers *workers;
    const char *file;               /* gemm: shared libraries with cblas_sgemm, "FILE,..."; table:
                                       file whose rows of other caches or kernels are kept */
    uint32_t windows;               /* gemm, table: 1 to UW_BENCH_WINDOWS_MAX */
    double seconds;                 /* of a window; kernels: of each row */
    bool json;
};

/* Time the products (gemm plain and transposed, 64 to 1024), every part of the convolutions and
 * dense layers of the built-in models at their usual batch, and the memory-bound slots on a long
 * vector. On a GPU, buffers are in its memory and the time includes the end of the work. It takes
 * about 55 times `seconds`. json: one object per line, else a table.
 *
 *   {"event":"peak","gflops":..}             register tile on panels in L1 cache, one core;
 *                                            absent if the table has no tile
 *   {"event":"kernel","name":..,"shape":..,"ms":..,"gflops":..,"gbytes_per_s":..}
 *   {"event":"done","backend":..,"threads":..,"seconds":..}
 *
 * ms is the fastest call. gflops counts the multiplications and additions of the definition,
 * gbytes_per_s counts each operand once. A slot has one of the two, the other is 0.
 *
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO (out could not be written), or what a slot returned; err
 * filled. */
int uw_bench_kernels(FILE *out, const struct uw_bench_kernels *config, struct uw_error *err);

/* For each size and each of the three products of training (NN forward, TN gradient of weights, NT
 * gradient of inputs or forward of a dense layer), windows alternate between the cores' peak, uwasa
 * and every other library. So ratios are right even if the machine's speed varies.
 * json: one object per product, else a table.
 *
 *   {"event":"gemm","shape":"NN","size":512,"threads":1,"gflops":[U,L,..],"peak_gflops":..,
 *    "peak_share":[low,median,high],"ratios":[[low,median,high],..]}
 *
 * gflops are medians, of uwasa and of each library; a ratio is of two consecutive windows. The peak
 * is that of multiply-adds on registers alone, on all threads at once; peak and share are 0 if the
 * table has no register tile. A library's threads are set by openblas_set_num_threads,
 * bli_thread_set_num_threads or MKL_Set_Num_Threads; a library without these runs with its default.
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (not a library with cblas_sgemm; err names it), UW_ERR_MISMATCH
 * (a library's product is not uwasa's), UW_ERR_INVALID, UW_ERR_NOMEM, UW_ERR_IO. */
int uw_bench_gemm(FILE *out, const struct uw_bench_kernels *config, struct uw_error *err);

/* Find the block sizes of matrix products that suit this machine's caches. In turns, measures sizes
 * around the register tile's own that fit the caches, on the three products of training, and
 * writes the best as a row of kernels/packed/blocking_table.h (uwasa/backends.h says what a row
 * changes). The next build uses it on every machine with the same caches. Sizes less than 2 %
 * faster than the tile's own give no row. It takes up to 16 * 3 * windows * seconds.
 * Returns UW_OK, UW_ERR_UNSUPPORTED (the kernels have no register tile, or the system does not
 * report its caches), UW_ERR_NOMEM, what uw_bench_table_put returns; err filled. */
int uw_bench_table(FILE *out, const struct uw_bench_kernels *config, struct uw_error *err);

struct uw_table_row {
    const char *kernels;
    struct uw_caches caches;
    uint32_t rows, columns;     /* block sizes; 0: remove the row */
};

/* Put a row into a file in the format of kernels/packed/blocking_table.h, in place of the row for
 * the same kernels and caches. FILE.part is written first and renamed when complete. row NULL: only
 * check that the file has this format and can be replaced.
 * Returns UW_OK, UW_ERR_CORRUPT (not such a file, or a very long one), UW_ERR_NOTFOUND, UW_ERR_IO;
 * err names the file, which is then unchanged. */
int uw_bench_table_put(const char *file, const struct uw_table_row *row, struct uw_error *err);

#endif
