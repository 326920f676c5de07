/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_train.h - measure how fast this machine trains the built-in models, and compare
 *
 * A work is a model and a minibatch size, "fedavg-cnn:20". A step is forward, loss, backward and
 * SGD on one generated minibatch that stays in the model's input.
 *
 * Memory     one model at a time, released before return
 * Blocking   windows * seconds for each work, and at least one step per window
 * Context    one thread, which uses the pool's
 */
#ifndef UWASA_CLI_BENCH_TRAIN_H
#define UWASA_CLI_BENCH_TRAIN_H

#include "base/progress.h"
#include "job/job_gpu.h"

#include "uwasa/kernels.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct uw_bench_train {
    const char *work;           /* "MODEL:BATCH,..."; NULL: the works of the table in the README */
    struct uw_choice backend;   /* enum uw_backend */
    bool exact;                 /* see uwasa/exact.h */
    bool tf32;                  /* with a GPU */
    uint32_t threads;           /* 0: one per core */
    uint32_t windows;           /* 1 to UW_BENCH_WINDOWS_MAX */
    double seconds;             /* of a window */
    double momentum;            /* of SGD; 0: plain */
    bool beside;                /* compare, in turns, with the ref kernels and plain ones */
    bool json;
};

#define UW_BENCH_WINDOWS_MAX UW_SPREAD_MAX

/* Measure and print. json: one object per work, else a table.
 *
 *   {"event":"work","work":"fedavg-cnn:20","threads":..,"backend":..,"samples_per_s":[..],
 *    "gflop_per_s":..,"arena_bytes":..,"peak_rss_bytes":..}
 *
 * and with a GPU "device", "device_bytes", "tf32". Every step copies the minibatch to the GPU.
 *
 * samples_per_s has one number per window; gflop_per_s is for the median and counts the products
 * of forward and backward by their definition. peak_rss_bytes is for the whole process: measure one
 * work alone to learn its memory. With beside, two objects follow each work, "backend":"ref" and
 * "plain", with "ratio":[low,median,high], how many times as fast the first one is.
 *
 * Returns UW_OK, UW_ERR_INVALID (a work is not MODEL:BATCH; err names it), or an error of planning
 * or training. */
int uw_bench_train(FILE *out, const struct uw_bench_train *b, struct uw_error *err);

/* Fill in a kernel table called "plain", for comparison: products as small C frameworks write them.
 * Convolution by im2col, matrix products as loops over i, k and j without blocking or intrinsics,
 * one thread, compiled like the rest of uwasa; scratch is one unrolled image. All else is ref.
 * Contracts as in uwasa/kernels.h. */
void uw_bench_plain_kernels(struct uw_kernels *k);

/* Print the table of a file that tools/bench_pytorch wrote (format: bench_against.c). For each work
 * and number of threads it has the samples per second of uwasa and of the fastest framework, the
 * ratio of consecutive windows (median, lowest, highest), and the ratio of peak memory to the
 * framework with the least. markdown: as in the README, with lowest and highest of every median.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_CORRUPT (err names the line). */
int uw_bench_against(FILE *out, const char *file, bool markdown, struct uw_error *err);

#endif
