/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/data.h - open a dataset by the name that a user gives
 *
 *     digits                            built in, generated (uwasa/digits.h)
 *     keywords                          built in, generated (uwasa/keywords.h)
 *     mnist:DIR                         the four MNIST files, packed by gzip or not
 *     fashion-mnist:DIR  kmnist:DIR     as mnist:DIR, files of the same names
 *     emnist-letters:DIR                EMNIST, files of its names; also -balanced, -byclass,
 *                                       -bymerge, -digits, -mnist. Letters are classes 0 to 25
 *     cifar10:DIR                       CIFAR-10, binary: data_batch_1..5.bin, test_batch.bin
 *     idx:IMAGES,LABELS[,IMAGES,LABELS]     the second pair is the test set
 *     csv:FILE[,TESTFILE][,OPTION...]   a table of text
 *     npy:X,Y[,TESTX,TESTY][,OPTION...]     arrays of NumPy: samples, and labels or values
 *     npz:FILE[,OPTION...]              the same in an archive
 *     images:DIR[,TESTDIR][,OPTION...]  files .png, .jpg, .ppm, .pgm, in a folder a class
 *     sounds:DIR[,TESTDIR][,OPTION...]     files .wav, in a folder a class
 *     stream:-  stream:unix:PATH  stream:tcp:127.0.0.1:PORT     samples that arrive, see below
 *     mqtt://[USER@]HOST[:PORT]/TOPIC[,OPTION...]   the same from a broker; mqtts:// with TLS
 *     arrays[,OPTION...]                of the program's own memory (struct uw_data_arrays)
 *
 * IDX images are unsigned bytes (divided by 255), or big-endian whole numbers of 8, 16 or 32 bits,
 * floats or doubles (unchanged), [N][H][W] or [N][C][H][W]; labels are whole numbers of 8, 16 or 32
 * bits, 65536 classes at most. Without a second pair the test set has the files of the
 * training set.
 *
 * A table has one sample a line; cells between " may have breaks of lines. A line in front that has
 * names where others have numbers is a header, one that is mostly of numbers a sample. Lines of a
 * label and INDEX:VALUE, as LIBSVM has them, are a table whose other values are 0; indices count
 * from 1, or from 0 if the training data has one that is 0. What a table
 * does not say by itself is found by looking at it, and uw_data_note tells what was found. Options
 * decide instead:
 *
 *     label=last|first|NAME|N|none   the column of the class, by name or number, from 1
 *     label=A+B+C                    one column a class, of which one is 1 and the others are 0
 *     target=NAME[+NAME..]           columns of values to compute, instead of a class
 *     labels=FILE, test-labels=FILE  a label a line, in a file of their own
 *     classes=A+B+C                  every class, in this order, also those that the file lacks
 *     drop=NAME[+NAME..]             columns to leave out
 *     scale=none|255|standard        divide by 255; or to mean 0 and deviation 1, column by column
 *     target-scale=none|standard|N   the same of values to compute; N: divide by N
 *     test=FILE|SHARE                the test set (1/6 of the lines, by a hash of their numbers)
 *     missing=refuse|mean|drop       an empty value: an error, the column's mean, or no sample; a
 *                                    line without label or value to compute is none with mean
 *     delimiter=C                    a character, or comma, semicolon, tab, blank
 *     skip=N                         lines before the first sample
 *
 * Arrays take classes, scale, target-scale, test=SHARE, missing and label=none of these; of an
 * archive x=NAME, y=NAME, test-x=NAME and test-y=NAME name the arrays (x_train, y_train, x_test,
 * y_test and others that are usual), and test=FILE is an archive with the test set.
 * Images are [N][H][W], [N][C][H][W] or [N][H][W][C]; bytes of images are divided by 255. Labels
 * are [N], or one-hot [N][CLASSES]. Masks have a class for each place, [N][H][W]; below 0 a place
 * does not count, nor does 255 in bytes if the model has fewer classes.
 *
 * Images are brought to the size of the model's input, or to that of the first one, and divided by
 * 255. DIR may have folders train and test (or val) with the classes' folders in them. Options:
 * test=SHARE or test=DIR, classes, label=none. DIR may be one image. PNG needs libpng,
 * JPEG libjpeg in the build.
 *
 * Sounds become the features of uwasa/sound.h: of the middle of a file as many frames, and features
 * of each, as the model's input has. All files have the rate of the first one. Options, beside
 * those of images: window=MS (30), hop=MS (20), mels=N, mfcc=N (cepstra; 0: mels), low=HZ (20),
 * high=HZ (half the rate). Of a frame fewer than 20 features are cepstra of 40 mels, if nothing
 * else is said. In a folder like Speech Commands testing_list.txt names the test set, or with
 * test=validation validation_list.txt; the other list's clips are in neither. With classes=A+B+...
 * a class _unknown_ has clips of all other folders, not more than the largest class, and _silence_
 * pieces of the files in _background_noise_, which is no class.
 *
 * With an earlier set (`like`) whose columns have names, features, label and values are found by
 * them, in any order, and a standard scale, that of values and the means for gaps are the earlier
 * ones. Where other columns are left, and the label's or a value's is not there, no other one is
 * taken without being named: UW_ERR_MISMATCH, or, if answers are asked for, samples alone. True and
 * false are 1 and 0.
 *
 * Words are classes in alphabetical order. Whole numbers from 0 that the model has are classes
 * themselves; those from 1 to its last one are counted from 0; others, as -1 and 1, or 0, 10 and
 * 20, are numbered in their order. A file that is both training and test set is not split.
 *
 * A stream is lines on standard input, or that others send to a socket of this machine: numbers as
 * in CSV, also between semicolons or blanks, or {"x": [numbers], "label": n}. The first line with
 * numbers decides how many; lines as long as the model's sample have no label. Lines that do not
 * fit are skipped and counted. A bounded number of samples is kept, of all classes alike
 * (",keep=N", 4096), and drawn from at random, all classes with the same probability. Every sixth
 * sample is for the test. An epoch is a number of draws (",epoch=N", 1000). Opening waits for the
 * first sample. When standard input ends, what is kept is trained on. Where values are wanted, a
 * line has them in place of the label, in JSON a list of several. scale=255 and target-scale=N
 * divide features and values; a standard scale is that of earlier training only. Labels are words
 * where classes are named, by earlier training (`like`) or with classes=A+B+C.
 * A first line of words is a header, of each sender its own. By the names of earlier training
 * columns are found in any order and among others, and so are numbers of JSON objects, as in
 * {"temp": 20.5, "load": 3, "state": "ok"}. Without earlier names those of the first header, or
 * object, hold for the stream: label=NAME or target=NAME[+NAME..] (else the column "label", or the
 * last ones) and drop=NAME[+NAME..] say which are no features.
 * Each message of an MQTT topic (+ and # as there) is such a line, or several; options
 * password=FILE, ca=FILE, cert=FILE and key=FILE name files with the user's password and with
 * certificates. A broker that goes away is connected to again when it is there. MQTT needs
 * libmosquitto in the build.
 *
 * Arrays in memory are neither copied nor split; they take the options scale and target-scale, and
 * NaN of their x gets the mean of a standard scale of earlier training.
 * Their y is read by what is wanted: labels are whole numbers from 0, or one-hot, or the names of
 * earlier training's classes; where a model begins those that do not fit it are numbered as a
 * table's. Where neither the model nor the
 * loss says, one number for a sample is a label if it comes from an integer type or
 * the model has several outputs, and anything else is values.
 *
 *     struct uw_data d;
 *     rc = uw_data_open(&d, "mnist:data", &(struct uw_data_config){.test = true}, &err);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = d.base, .batch_n = 20});
 *     uw_data_close(&d);
 *
 * Memory     samples of IDX and CIFAR-10 are read from the files when needed; tables are kept as
 *            floats, images as bytes; a choice of classes takes 4 bytes per sample. All from the
 *            heap.
 * Blocking   file access          Context  open and close: one thread; reads: any thread
 */
#ifndef UWASA_DATA_H
#define UWASA_DATA_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/sound.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_data_parts;           /* private */

struct uw_data {
    struct uw_dataset *base;    /* NULL when closed */
    struct uw_dataset *plain;   /* its samples without crop and flip, each once */
    struct uw_data_parts *parts;
};

/* What the columns of a table mean. Saved with a model's weights, it lets later samples be read in
 * the same way. */
struct uw_data_columns {
    uint32_t features_n, classes_n, targets_n;
    char **features;            /* [features_n] names; NULL: the columns have none */
    char **classes;             /* [classes_n] what the file calls each class; NULL: no labels */
    char **targets;             /* [targets_n] names; NULL: none */
    char *label;                /* the name of the label's column; NULL: it has none, or several */
    float *mean, *inverse;      /* [features_n] a sample is (column - mean) * inverse; NULL: as it
                                   is in the file */
    float *target_mean, *target_inverse;    /* [targets_n] the same of values */
    uint32_t columns_n;         /* of a line of the table ... */
    uint32_t *places;           /* [features_n] ... and where the features are, from 0; NULL: a line
                                   has nothing else, or it is not known */
    char indices_from;          /* '0' or '1': features are of INDEX:VALUE, counted from there;
                                   0: they are not */
    uint32_t *counts;           /* [classes_n] training samples of each class; NULL: not known */
    struct uw_sound_config *sound;      /* what features are of sound; NULL: of none */
};

/* What the samples are wanted for. */
enum uw_data_wanted {
    UW_DATA_WANT_ANY = 0,       /* labels or values, whatever the table has */
    UW_DATA_WANT_LABELS,
    UW_DATA_WANT_VALUES,
    UW_DATA_WANT_NOTHING        /* the sample itself is the target */
};

/* Whether to tell that features or values are far from 1 and not scaled. */
enum uw_data_advice {
    UW_DATA_ADVISES = 0,        /* with what scales them: nobody has trained the weights */
    UW_DATA_ADVISES_NEW,        /* the model has weights of its own, which a scale would spoil */
    UW_DATA_ADVISES_NOTHING
};

/* Samples in the memory of a program, for "arrays". */
struct uw_data_arrays {
    const float *x;             /* [samples_n][channels][height][width] borrowed until close */
    const float *y;             /* [samples_n][y_n] borrowed until close; NULL: none */
    uint32_t samples_n, channels, height, width, y_n;
    bool whole;                 /* y comes from an integer type */
    const char *const *features;    /* [channels * height * width] names; NULL: they have none */
    const char *const *classes;     /* [classes_n] what the numbers of y stand for, all classes of
                                       the model's training first; NULL: y is what it is */
    uint32_t classes_n;
};

struct uw_data_config {
    uint64_t seed;              /* of digits, keywords and augmentation */
    bool test;
    uint32_t classes_mask;      /* bit c set: keep class c (c below 32); 0: keep all */
    /* Training set only. The set is then endless: images differ from epoch to epoch. Values as many
     * as pixels go with the image, as masks do. */
    uint32_t crop;              /* shift images by up to this many pixels, filling with zeros */
    bool flip;                  /* mirror half of the images, at random */
    /* Shape of the model's sample, 0: not known. A table's row of so many numbers gets it; images
     * of the same axes in another order are turned, channels last. */
    uint32_t channels, height, width;
    uint32_t output[3];         /* the model's output as channels, height and width, 0: not known;
                                   images to compute with channels last are turned to it */
    bool live;                  /* streams are allowed */
    void (*tell)(void *arg, const char *text);  /* hears of a stream's lines that do not fit, while
                                                   it is opened; may be NULL */
    void *tell_arg;
    bool scale_values;          /* values of a table that are far from 1 get mean 0 and deviation 1,
                                   if nothing else is said: for weights that nobody has trained */
    bool asks;                  /* samples are for answers: they may have no label and no value, and
                                   are then not split */
    bool unscaled;              /* features of a table are as in the file, whatever is said or was
                                   earlier: for who scales them */
    enum uw_data_advice advice;
    bool tokens;                /* features may be numbers of tokens, which have no scale */
    bool leave_values;          /* values may be classes: they are not scaled, nor doubted; nor are
                                   those of which there are not as many as outputs */
    /* Values beside a sample that are classes; below 0 a place does not count. */
    uint32_t mask_outputs;      /* of a model that tells classes apart at each place: an equal share
                                   for each value; 0: it does not */
    const uint32_t *classes;    /* [classes_n] classes of each value, 0: it is none; NULL: not
                                   known. Borrowed */
    uint32_t classes_n;
    const struct uw_data_arrays *train, *held;  /* of "arrays": training set and test set */
    /* For tables, to tell features from labels; 0: not known. */
    uint32_t outputs;           /* of the model, for one sample */
    enum uw_data_wanted wanted;
    const struct uw_data_columns *like;     /* an earlier set: scale, classes; may be NULL */
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

/* Whether a set of that name arrives while a program runs: a stream. */
bool uw_data_is_live(const char *spec);

/* The next sentence about a stream: how its lines are, lines that were skipped, its end, a broker
 * that is gone. Returns whether there is one. */
bool uw_data_news(const struct uw_data *d, char *text, size_t text_bytes);

/* What the columns of a table mean; valid until close. NULL: the set is no table. */
const struct uw_data_columns *uw_data_columns(const struct uw_data *d);

/* Compute a model's sample from the middle of a WAV file.
 *   c  of the training data
 *   x  [frames_n][features] written
 * Returns UW_OK, UW_ERR_MISMATCH (another rate) or the codes of uw_data_open for files; err
 * filled. */
int uw_data_read_sound(const struct uw_sound_config *c, const char *path, float *x,
                       struct uw_error *err);

/* Free columns that a caller has made, each member of the heap, and clear them. Safe on a zeroed
 * struct and twice. */
void uw_data_columns_free(struct uw_data_columns *c);

/* Whether the set has labels or values beside its samples. */
bool uw_data_has_targets(const struct uw_data *d);

/* Sentence number i, from 0, about what was found in a table, taken for granted, or looks wrong.
 * NULL: there are no more. */
const char *uw_data_note(const struct uw_data *d, uint32_t i);

/* Close its files and free its memory. Safe on a zeroed struct and twice. */
void uw_data_close(struct uw_data *d);

UW_C_END
#endif
