/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_table.h - find the blocks of matrix products that suit this machine's caches
 *
 * Measures, in turns, blocks around those of the register tile that the caches have room for, on
 * the three products of training, and writes the best as a row of kernels/packed/blocking_table.h
 * (uwasa/backends.h tells what a row changes). The next build uses it on every machine with the
 * same caches.
 *
 * Memory     from the board, released before return
 * Blocking   up to 16 * 3 * windows * seconds
 * Context    one thread; the pool's threads work
 */
#ifndef UWASA_CLI_BENCH_TABLE_H
#define UWASA_CLI_BENCH_TABLE_H

#include "uwasa/backends.h"
#include "uwasa/status.h"

#include <stdio.h>

struct uw_bench_table {
    const struct uw_kernels *kernels;
    struct uw_workers *workers;
    const char *file;           /* rows of other caches or kernels in it are kept */
    uint32_t windows;           /* 1 to UW_BENCH_WINDOWS_MAX */
    double seconds;             /* of a window */
};

/* Measure, print what was measured to out, write the file. Blocks that are no 2 % faster than the
 * tile's own give no row.
 * Returns UW_OK, UW_ERR_UNSUPPORTED (the kernels have no register tile, or the system does not
 * tell its caches), UW_ERR_NOMEM, what uw_bench_table_put returns; err filled. */
int uw_bench_table(FILE *out, const struct uw_bench_table *b, struct uw_error *err);

struct uw_table_row {
    const char *kernels;
    struct uw_caches caches;
    uint32_t rows, columns;     /* 0: the row is taken out */
};

/* Put a row into a file of the form of kernels/packed/blocking_table.h, instead of the one for the
 * same kernels and caches. FILE.part becomes the file when it is whole.
 * Returns UW_OK, UW_ERR_CORRUPT (not such a file, or a very long one), UW_ERR_NOTFOUND, UW_ERR_IO;
 * err names the file, which is then as it was. */
int uw_bench_table_put(const char *file, const struct uw_table_row *row, struct uw_error *err);

#endif
