/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/keywords.h - generated features that resemble spoken words, for hosts and boards
 *
 * The input of a keyword spotter is a second of sound: 49 frames of 10 cepstral coefficients. Here
 * each of ten words is a fixed path of formant-like bumps over time. A sample varies its speed,
 * start, loudness, voice (a smooth tilt of the coefficients) and pace, and adds noise. Class 10 is
 * silence, class 11 one of many other words.
 *
 *     struct uw_keywords k;
 *     uw_keywords_init(&k, &(struct uw_keywords_config){.seed = 1});
 *     k.base.ops->read(&k.base, 0, x, &label);
 *
 * Layout     [1][49][10] floats, about -3 .. 3; labels 0 .. 11
 * Memory     the caller owns the struct; a read takes about 300 bytes of stack; no heap, no files
 * Blocking   never          Context  any thread; several may read one set
 */
#ifndef UWASA_KEYWORDS_H
#define UWASA_KEYWORDS_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_KEYWORDS_CLASSES 12u
#define UW_KEYWORDS_FRAMES 49u
#define UW_KEYWORDS_FEATURES 10u
#define UW_KEYWORDS_TRAIN_N 30000u
#define UW_KEYWORDS_TEST_N 4000u

struct uw_keywords_config {
    uint64_t seed;
    uint32_t samples_n;         /* samples an epoch; 0: UW_KEYWORDS_TRAIN_N or .._TEST_N */
    bool test;                  /* the test set, which shares no sample with the training set */
};

struct uw_keywords {
    struct uw_dataset base;
    uint64_t key;
};

/* Set up. A training set is endless; a test set always has the same samples_n samples. */
void uw_keywords_init(struct uw_keywords *k, const struct uw_keywords_config *config);

UW_C_END
#endif
