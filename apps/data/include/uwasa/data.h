/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/data.h - open a dataset by the name that a user gives
 *
 *     digits                            built in, generated (uwasa/digits.h)
 *     keywords                          built in, generated (uwasa/keywords.h)
 *     mnist:DIR                         the four MNIST files, unpacked
 *     cifar10:DIR                       CIFAR-10, binary: data_batch_1..5.bin, test_batch.bin
 *     idx:IMAGES,LABELS[,IMAGES,LABELS]     the second pair is the test set
 *     csv:FILE[,FILE]                   numbers; the label last; the second file is the test set
 *     stream:-  stream:unix:PATH  stream:tcp:127.0.0.1:PORT     samples that arrive, see below
 *
 * IDX images are unsigned bytes (divided by 255) or big-endian floats (unchanged), [N][H][W] or
 * [N][C][H][W]; labels are unsigned bytes. Without a second pair the test set has the files of the
 * training set.
 *
 * CSV has one sample per line: decimal numbers separated by commas, equally many on every line. The
 * last one is the label, a whole number from 0. Empty lines are skipped, and so is a first line
 * whose last field is not a number (a header). Without a second file every sixth line (the 6th, the
 * 12th, ...) is a test sample; with fewer than six lines both sets have all of them.
 *
 * A stream is lines on standard input, or that others send to a socket of this machine: numbers as
 * in CSV, also between semicolons or blanks, or {"x": [numbers], "label": n}. The first line with
 * numbers decides how many; lines as long as the model's sample have no label. Lines that do not
 * fit are skipped and counted. A bounded number of samples is kept, of all classes alike
 * (",keep=N", 4096), and drawn from at random, all classes with the same probability. Every sixth
 * sample is for the test. An epoch is a number of draws (",epoch=N", 1000). Opening waits for the
 * first sample. When standard input ends, what is kept is trained on.
 *
 *     struct uw_data d;
 *     rc = uw_data_open(&d, "mnist:data", &(struct uw_data_config){.test = true}, &err);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = d.base, .batch_n = 20});
 *     uw_data_close(&d);
 *
 * Memory     samples of IDX and CIFAR-10 are read from the files when needed; a CSV file is kept as
 *            floats; a choice of classes takes 4 bytes per sample. All from the heap.
 * Blocking   file access          Context  open and close: one thread; reads: any thread
 */
#ifndef UWASA_DATA_H
#define UWASA_DATA_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_data_parts;           /* private */

struct uw_data {
    struct uw_dataset *base;    /* NULL when closed */
    struct uw_data_parts *parts;
};

struct uw_data_config {
    uint64_t seed;              /* of digits, keywords and augmentation */
    bool test;
    uint32_t classes_mask;      /* bit c set: keep class c (c below 32); 0: keep all */
    /* Training set only. The set is then endless: images differ from epoch to epoch. */
    uint32_t crop;              /* shift images by up to this many pixels, filling with zeros */
    bool flip;                  /* mirror half of the images, at random */
    /* Shape of the image in a CSV row, if the row has that many numbers; 0: samples stay rows. */
    uint32_t channels, height, width;
    bool live;                  /* streams are allowed */
    uint32_t outputs;           /* classes of the model: labels of a stream are below; 0: not
                                   known */
    uint32_t shard, shards_n;   /* every shards_n-th kept sample, from `shard` on; 0, 0: all */
};

/* Open a dataset.
 *
 *   d       set on success; closed otherwise
 *   config  NULL: the whole training set
 *   err     a sentence that names the file, the place in it and what is allowed
 *
 * A choice of classes does not change d->base->classes. The shards of a set are disjoint and
 * together are the set.
 *
 * Returns UW_OK, UW_ERR_INVALID (no such dataset, no sample is left, or samples too small for crop
 * and flip), UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_CORRUPT (malformed file), UW_ERR_MISMATCH (two
 * files do not fit together), UW_ERR_UNSUPPORTED (an IDX type or rank that is not listed above),
 * UW_ERR_TOOBIG, UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_AGAIN (a stream: the program was asked to end). */
int uw_data_open(struct uw_data *d, const char *spec, const struct uw_data_config *config,
                 struct uw_error *err);

/* The next sentence about a stream: how its lines are, lines that were skipped, its end. Returns
 * whether there is one. */
bool uw_data_news(const struct uw_data *d, char *text, size_t text_bytes);

/* Close its files and free its memory. Safe on a zeroed struct and twice. */
void uw_data_close(struct uw_data *d);

UW_C_END
#endif
