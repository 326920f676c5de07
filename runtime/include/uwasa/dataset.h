/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/dataset.h - datasets, and a loader of shuffled minibatches
 *
 * A dataset reads samples by index. The loader makes shuffled epochs of minibatches without an
 * index array and without a copy of the set: the order of an epoch is a keyed permutation
 * (uw_rng_permute), which a cursor of (epoch, position) resumes.
 *
 * Layout     a sample is [C][H][W] floats (rank 1 data: [features][1][1]) and a label; a set for
 *            regression has values beside it
 * Memory     datasets and loaders are the caller's
 * Blocking   read may touch a file; never the network      Context  one thread per loader
 */
#ifndef UWASA_DATASET_H
#define UWASA_DATASET_H

#include "uwasa/between.h"
#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_dataset;

struct uw_dataset_ops {
    const char *name;
    /* Write sample `index` (0 .. samples_n-1; an endless set takes any index).
     *   x      [channels*height*width] written
     *   label  0 .. classes-1
     * The same index always gives the same sample. Safe to call from several threads.
     * Returns UW_OK, UW_ERR_INVALID (no such index), UW_ERR_IO. */
    int (*read)(struct uw_dataset *d, uint64_t index, float *x, uint32_t *label);
    /* Write the values that a model is to compute from sample `index` (optional; NULL: the set has
     * labels only, and targets_n is 0).
     *   target  [targets_n] written
     * Otherwise as read. */
    int (*read_target)(struct uw_dataset *d, uint64_t index, float *target);
};

struct uw_dataset {
    const struct uw_dataset_ops *ops;
    uint32_t channels, height, width;
    uint32_t classes;
    uint32_t samples_n;             /* samples an epoch */
    bool endless;                   /* epoch e starts at index e * samples_n: no sample repeats */
    uint32_t targets_n;             /* values beside a sample, for regression; 0: none */
};

struct uw_loader_config {
    struct uw_dataset *dataset;     /* borrowed */
    uint32_t batch_n;               /* 1 or more */
    uint64_t seed;                  /* of the shuffle */
    bool no_shuffle;                /* step k takes samples k*batch_n .. in order */
    uw_between_fn between;          /* called after each sample; NULL: none */
    void *between_arg;
};

/* Plain data: a checkpoint stores epoch and position. */
struct uw_loader {
    struct uw_loader_config config;
    uint64_t epoch;                 /* epochs finished */
    uint32_t position;              /* samples taken from this epoch */
};

/* Start at epoch 0, position 0. Returns UW_OK or UW_ERR_INVALID (batch 0, empty dataset). */
int uw_loader_init(struct uw_loader *l, const struct uw_loader_config *config);

/* Read the next minibatch. The last one of an epoch may be shorter; the cursor then moves to the
 * start of the next epoch.
 *
 *   x      [batch_n][C][H][W] written
 *   label  [batch_n] written
 *   target [batch_n][targets_n] written; of a set without values [batch_n], each sample's label as
 *          a float, for a loss on one output. NULL: not wanted
 *
 * Returns the samples read (1 .. batch_n) or the dataset's error, cursor then unchanged. */
int uw_loader_next(struct uw_loader *l, float *x, uint32_t *label, float *target);

UW_C_END
#endif
