/* SPDX-License-Identifier: Apache-2.0
 *
 * sets.h - the datasets of uwasa/data.h (private): those read from files, and those that modify or
 * restrict another dataset
 *
 * Memory     a table's values are kept on the heap as floats; a choice of classes takes 4 bytes
 *            for each sample kept; an inner set is borrowed. Closing is safe on a zeroed struct and
 *            twice; after a failure nothing stays open or allocated.
 */
#ifndef UWASA_DATA_SETS_H
#define UWASA_DATA_SETS_H

#include "file.h"
#include "notes.h"
#include "table_files.h"
#include "uwasa/data.h"
#include "uwasa/dataset.h"

#include <stdbool.h>

/* ---- IDX ----
 *
 * Images and labels in two files, each two zero bytes, a type, a rank, the dimensions as big-endian
 * 32-bit numbers, then the values. A file must have exactly the length that follows. */

/* What is known of the labels before they are read. */
struct uw_idx_labels {
    uint32_t classes;           /* 0: not known, one more than the largest label, at least 2 */
    uint32_t first;             /* label of class 0 */
    uint32_t outputs;           /* of the model, 0: not known: labels from 1 to so many are counted
                                   from 0 */
};

struct uw_idx {
    struct uw_dataset base;
    struct uw_file images, labels;
    uint32_t first_label;       /* of class 0 */
    uint32_t least_label;
    uint64_t images_at;         /* byte of the first value */
    enum uw_file_type type, label_type;
};

/* Open a pair and check headers, sizes and every label.
 *   hint     see uw_file_open
 * Returns the codes of uw_data_open. */
int uw_idx_open(struct uw_idx *d, const char *images, const char *labels,
                const struct uw_idx_labels *known, const char *hint, struct uw_error *err);
void uw_idx_close(struct uw_idx *d);

/* ---- CIFAR-10 ----
 *
 * Files of records; a record is one label byte and 32x32 bytes each of red, green and blue. */

#define UW_CIFAR10_FILES_MAX 5

struct uw_cifar10 {
    struct uw_dataset base;     /* [3][32][32], ten classes */
    struct uw_file files[UW_CIFAR10_FILES_MAX];
    uint32_t records_n[UW_CIFAR10_FILES_MAX];
    uint32_t files_n;
};

/* Open data_batch_1.bin .. data_batch_5.bin or test_batch.bin in a folder, and check sizes and
 * every label. Returns the codes of uw_data_open. */
int uw_cifar10_open(struct uw_cifar10 *d, const char *folder, bool test, struct uw_error *err);
void uw_cifar10_close(struct uw_cifar10 *d);

/* ---- tables ----
 *
 * Tables of text, one sample a line, and arrays of NumPy; the rules are in uwasa/data.h. */

struct uw_csv {
    struct uw_dataset base;     /* opened with as many channels as features, of height and width 1;
                                   another shape must have the same product */
    float *values;              /* [samples_n][features_n] */
    float *targets;             /* [samples_n][base.targets_n] */
    uint32_t *labels;           /* [samples_n] */
    struct uw_data_columns columns;
    struct uw_notes notes;
};

/* Read FILE[,FILE...][,OPTION...]: its training or test set.
 * err names file:line:byte. Returns the codes of uw_data_open. */
int uw_csv_open(struct uw_csv *d, enum uw_table_kind kind, const char *text,
                const struct uw_data_config *config, struct uw_error *err);
void uw_csv_close(struct uw_csv *d);

/* ---- images ----
 *
 * Files in a folder a class, decoded when the set is opened, and brought to the model's size. */

struct uw_images {
    struct uw_dataset base;
    uint8_t *bytes;             /* [samples_n][C][H][W] */
    uint32_t *labels;           /* [samples_n] */
    struct uw_data_columns columns;
    struct uw_notes notes;
};

/* Read DIR[,TESTDIR][,OPTION...]: its training or test set. Returns the codes of uw_data_open. */
int uw_images_open(struct uw_images *d, const char *text, const struct uw_data_config *config,
                   struct uw_error *err);
void uw_images_close(struct uw_images *d);

/* ---- scales ----
 *
 * (x - mean) * inverse, of features and of values to compute. */

/* Zeros for n numbers each, of the heap; what: their data, for err. Returns UW_OK or
 * UW_ERR_NOMEM. */
int uw_scale_room(size_t n, float **mean, float **inverse, const char *what, struct uw_error *err);

/* Whether n features get the scale of the training data; notes tell it, and which scale is
 * replaced.
 *   like  of the training data; may be NULL */
bool uw_scale_is_earlier(const struct uw_table_options *o, const struct uw_data_columns *like,
                         size_t n, struct uw_notes *notes);

/* The same for n values to compute. */
bool uw_target_scale_is_earlier(const struct uw_table_options *o,
                                const struct uw_data_columns *like, size_t n,
                                struct uw_notes *notes);

/* Whether values are so far from 1 that they are learned badly as they are. */
bool uw_values_are_far(float mean, float inverse, float least, float most);

/* ---- arrays ----
 *
 * Samples in the program's own memory. */

struct uw_arrays {
    struct uw_dataset base;
    const float *x;             /* borrowed */
    const float *y;             /* borrowed; NULL: labels, or nothing */
    uint32_t *labels;           /* [samples_n]; NULL: values, or nothing */
    struct uw_data_columns columns;     /* the scales; features_n 0: none */
    struct uw_notes notes;
};

/* Read y as labels or values, and check that every number is finite. Returns UW_OK,
 * UW_ERR_INVALID, UW_ERR_MISMATCH or UW_ERR_NOMEM; err names the array and the place. */
int uw_arrays_open(struct uw_arrays *d, const struct uw_table_options *options,
                   const struct uw_data_config *config, struct uw_error *err);
void uw_arrays_close(struct uw_arrays *d);

/* ---- sounds ----
 *
 * WAV files in a folder a class, as features of uwasa/sound.h, computed when the set is opened. */

struct uw_sounds {
    struct uw_dataset base;     /* [1][frames][features] */
    float *x;                   /* [samples_n][frames][features] */
    uint32_t *labels;           /* [samples_n] */
    struct uw_data_columns columns;
    struct uw_notes notes;
};

/* Read DIR[,TESTDIR][,OPTION...]: its training or test set. Returns the codes of uw_data_open. */
int uw_sounds_open(struct uw_sounds *d, const char *text, const struct uw_data_config *config,
                   struct uw_error *err);
void uw_sounds_close(struct uw_sounds *d);

/* ---- channels last ----
 *
 * Images [C][H][W] as [H][W][C], for models that take them so. */

struct uw_turned {
    struct uw_dataset base;
    struct uw_dataset *inner;
};

void uw_turned_init(struct uw_turned *d, struct uw_dataset *inner);

/* ---- a part of another set ----
 *
 * First classes are selected, then every shards_n-th of the remaining samples. */

struct uw_subset {
    struct uw_dataset base;
    struct uw_dataset *inner;
    uint32_t *kept;             /* inner indexes; NULL: all of them */
    uint32_t shard, shards_n;
};

/* Set up d as a part of `inner`.
 *   classes_mask        bit c set: keep class c; 0: keep all. Must be 0 for an endless set.
 *   shard, shards_n     keep samples shard, shard + shards_n, ...; shards_n is 1 or more
 * Returns UW_OK, UW_ERR_INVALID (nothing is left; no sentence), UW_ERR_NOMEM, or what reading
 * gives. */
int uw_subset_open(struct uw_subset *d, struct uw_dataset *inner, uint32_t classes_mask,
                   uint32_t shard, uint32_t shards_n);
void uw_subset_close(struct uw_subset *d);

/* ---- augmented images ----
 *
 * Each time a sample is drawn it is shifted by up to `crop` pixels in each direction (as a random
 * crop of a zero-padded image) and, with probability 1/2, mirrored left to right. Both depend on
 * seed, epoch and sample alone, so a resumed run sees the same images. */

struct uw_augment {
    struct uw_dataset base;         /* endless: index / samples_n is the epoch */
    struct uw_dataset *inner;
    uint64_t seed;
    uint32_t crop;
    bool flip;
};

/* Set up a as augmented samples of `inner`. */
void uw_augment_init(struct uw_augment *a, struct uw_dataset *inner, uint64_t seed, uint32_t crop,
                     bool flip);

#endif
