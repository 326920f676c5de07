/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/data.h - open a dataset by the name that a person types
 *
 *     digits                            built in, endless (uwasa/digits.h)
 *     keywords                          built in, endless (uwasa/keywords.h)
 *     mnist:DIR                         the four MNIST files, unpacked
 *     cifar10:DIR                       CIFAR-10, binary: data_batch_1..5.bin, test_batch.bin
 *     idx:IMAGES,LABELS[,IMAGES,LABELS]     the second pair is the test set
 *     csv:FILE[,FILE]                   numbers; the label last; the second file is the test set
 *
 * IDX images are unsigned bytes (divided by 255) or big-endian floats (taken as they are),
 * [N][H][W] or [N][C][H][W]; labels are unsigned bytes. Without a test pair, test and training set
 * are the same files.
 *
 * CSV has one sample a line, decimal numbers separated by commas, as many on every line. The last
 * one is the label, a whole number from 0. A first line whose last field is no number is a header
 * and skipped, and so are empty lines. Without a test file every sixth line (the 6th, the 12th,
 * ...) is a test sample and the others are for training; below six lines both are all.
 *
 *     struct uw_data d;
 *     rc = uw_data_open(&d, "mnist:data", &(struct uw_data_config){.test = true}, &err);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = d.base, .batch_n = 20});
 *     uw_data_close(&d);
 *
 * Memory     IDX and CIFAR-10 are read sample by sample from the files; a CSV file is kept in
 *            memory as floats; a choice of classes takes 4 bytes a sample. All from the heap.
 * Blocking   file access          Context  open and close: one thread; reads: any thread
 */
#ifndef UWASA_DATA_H
#define UWASA_DATA_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_data_parts;           /* private */

struct uw_data {
    struct uw_dataset *base;    /* NULL when closed */
    struct uw_data_parts *parts;
};

struct uw_data_config {
    uint64_t seed;              /* of digits, keywords and what augmentation does */
    bool test;
    uint32_t classes_mask;      /* bit c set: keep class c (c below 32); 0: keep all */
    /* Training set only; it then counts as endless, each epoch looks different. */
    uint32_t crop;              /* move images by up to so many pixels, zeros come in */
    bool flip;                  /* mirror every other image */
    /* What samples that are rows of numbers (CSV) are images of, when they have so many; 0: they
     * stay rows. */
    uint32_t channels, height, width;
    uint32_t shard, shards_n;   /* of the samples kept, every shards_n-th from `shard`; 0, 0: all */
};

/* Open a dataset.
 *
 *   d       set on success; closed otherwise
 *   config  NULL: the whole training set
 *   err     a sentence that names the file, the place and what is allowed
 *
 * A choice of classes does not change d->base->classes. Shards of one set are disjoint and
 * together are the set.
 *
 * Returns UW_OK, UW_ERR_INVALID (no such dataset, the choice leaves no sample, or crop and flip are
 * for images larger than these samples), UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_CORRUPT (malformed
 * file), UW_ERR_MISMATCH (two files do not fit together), UW_ERR_UNSUPPORTED (an IDX type or rank
 * that is not listed above), UW_ERR_TOOBIG, UW_ERR_NOMEM, UW_ERR_IO. */
int uw_data_open(struct uw_data *d, const char *spec, const struct uw_data_config *config,
                 struct uw_error *err);

/* Close its files and free its memory. Safe on a zeroed struct and twice. */
void uw_data_close(struct uw_data *d);

UW_C_END
#endif
