/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_train.h - how fast this machine trains the built-in models, and how that compares
 *
 * A work is a model and a minibatch, "fedavg-cnn:20". Its steps are forward, loss, backward and
 * SGD on one made minibatch that lies in the model's input.
 *
 * Memory     one model at a time, released before return
 * Blocking   windows * seconds for each work, and at least one step a window
 * Context    one thread; the pool's threads work
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
    uint32_t threads;           /* 0: one a core */
    uint32_t windows;           /* 1 to UW_BENCH_WINDOWS_MAX */
    double seconds;             /* of a window */
    double momentum;            /* of SGD; 0: plain */
    bool beside;                /* in turns with the ref kernels and plain ones */
    bool json;
};

#define UW_BENCH_WINDOWS_MAX UW_SPREAD_MAX

/* Measure and print. json: one object a work, else a table.
 *
 *   {"event":"work","work":"fedavg-cnn:20","threads":..,"backend":..,"samples_per_s":[..],
 *    "gflop_per_s":..,"arena_bytes":..,"peak_rss_bytes":..}
 *
 * and with a GPU "device", "device_bytes", "tf32". Its minibatch is copied to it in every step.
 *
 * samples_per_s has one number a window; gflop_per_s belongs to the median and counts the products
 * of forward and backward as they are defined. peak_rss_bytes is the process's: ask for one work
 * to know what that work takes. With beside, two more works follow each, "backend":"ref" and
 * "plain", with "ratio":[low,median,high], how many times as fast the first one is.
 *
 * Returns UW_OK, UW_ERR_INVALID (a work is not MODEL:BATCH; err names it), or what planning and
 * training return. */
int uw_bench_train(FILE *out, const struct uw_bench_train *b, struct uw_error *err);

/* Fill in a kernel table called "plain": products as small C frameworks write them, to measure
 * uwasa beside. Convolution by im2col, matrix products as loops over i, k and j without blocks or
 * vectors by hand, one thread, compiled like the rest of uwasa; scratch is one unrolled image. All
 * else is ref. Contracts as in uwasa/kernels.h. */
void uw_bench_plain_kernels(struct uw_kernels *k);

/* Print the table of a file that tools/bench_pytorch wrote (its form: bench_against.c): for each
 * work and number of threads the samples per second of uwasa and of the fastest peer, the ratio of
 * windows that were measured one after the other (median, lowest, highest), and that of peak
 * memory to the peer that takes least. markdown: as the README shows it, with the lowest and the
 * highest of every median.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_CORRUPT (err names the line). */
int uw_bench_against(FILE *out, const char *file, bool markdown, struct uw_error *err);

#endif
