/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_gemm.h - matrix products beside other BLAS libraries, and beside what the cores can do
 *
 * For each size and each of the three products of training (NN forward, TN gradient of weights, NT
 * gradient of inputs or forward of a dense layer), windows are measured in turns: the cores' peak,
 * uwasa, and every other library. So a machine whose speed wanders still gives honest ratios.
 *
 * Memory     from the board, released before return; the libraries take their own
 * Blocking   windows * seconds * (2 + libraries) for each product, and at least one call a window
 * Context    one thread; the threads of the pool and of the libraries work
 */
#ifndef UWASA_CLI_BENCH_GEMM_H
#define UWASA_CLI_BENCH_GEMM_H

#include "uwasa/kernels.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdio.h>

struct uw_bench_gemm {
    const struct uw_kernels *kernels;
    struct uw_workers *workers;
    const char *against;        /* shared libraries with cblas_sgemm, "FILE,..." */
    uint32_t windows;           /* 1 to UW_BENCH_WINDOWS_MAX */
    double seconds;             /* of a window */
    bool json;
};

/* Measure and print. json: one object a product, else a table.
 *
 *   {"event":"gemm","shape":"NN","size":512,"threads":1,"gflops":[U,L,..],"peak_gflops":..,
 *    "peak_share":[low,median,high],"ratios":[[low,median,high],..]}
 *
 * gflops are medians, of uwasa and of each library; a ratio is that of windows measured one after
 * the other. The peak is that of multiply-adds on registers alone, on all threads at once; 0 and
 * a share of 0 when the table has no register tile. A library's threads are set by
 * openblas_set_num_threads, bli_thread_set_num_threads or MKL_Set_Num_Threads; one that has none
 * of these is measured as it is.
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (not a library with cblas_sgemm; err names it), UW_ERR_MISMATCH
 * (a library's product is not uwasa's), UW_ERR_INVALID, UW_ERR_NOMEM, UW_ERR_IO. */
int uw_bench_gemm(FILE *out, const struct uw_bench_gemm *b, struct uw_error *err);

#endif
