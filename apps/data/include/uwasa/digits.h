/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/digits.h - generated digits that look handwritten, for hosts and boards
 *
 * A sample is drawn when it is read: one of several forms of the digit, as strokes, with random
 * slant, rotation, size, place, wobble, elastic distortion, pen width and pressure, noise, and
 * sometimes a stray stroke. Sample i has the same bits on every device, so devices with the same
 * seed have the same dataset.
 *
 *     struct uw_digits d;
 *     uw_digits_init(&d, &(struct uw_digits_config){.seed = 1, .classes_mask = 1u << 3 | 1u << 7});
 *     d.base.ops->read(&d.base, 0, x, &label);
 *
 * Layout     [1][28][28] floats, 0 paper .. 1 ink; labels 0 .. 9
 * Memory     the caller owns the struct; a read takes about 500 bytes of stack; no heap, no files
 * Blocking   never          Context  any thread; several may read one set
 */
#ifndef UWASA_DIGITS_H
#define UWASA_DIGITS_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_DIGITS_CLASSES 10u
#define UW_DIGITS_SIDE 28u
#define UW_DIGITS_PIXELS_N (UW_DIGITS_SIDE * UW_DIGITS_SIDE)
#define UW_DIGITS_TRAIN_N 60000u
#define UW_DIGITS_TEST_N 10000u

struct uw_digits_config {
    uint64_t seed;
    uint32_t classes_mask;      /* bit c set: digit c appears; 0: all ten */
    uint32_t samples_n;         /* samples an epoch; 0: UW_DIGITS_TRAIN_N or UW_DIGITS_TEST_N */
    bool test;                  /* the test set, which shares no sample with the training set */
};

struct uw_digits {
    struct uw_dataset base;     /* classes is 10 with any mask */
    uint64_t key;
    uint8_t classes[UW_DIGITS_CLASSES];     /* those of the mask */
    uint32_t classes_n;
};

/* Set up. A training set is endless: epoch e continues where epoch e-1 ended. A test set always
 * has the same samples_n samples.
 *
 * Returns UW_OK or UW_ERR_INVALID (the mask names a class above 9). */
int uw_digits_init(struct uw_digits *d, const struct uw_digits_config *config);

UW_C_END
#endif
