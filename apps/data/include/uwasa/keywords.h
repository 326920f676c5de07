/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/keywords.h - spoken-word-like features without a file, for hosts and boards
 *
 * A keyword spotter sees a second of sound as 49 frames of 10 cepstral coefficients. Here each of
 * ten words is a fixed path of formant-like bumps through time; a sample says it faster or slower,
 * earlier or later, louder or softer, with another voice (a smooth tilt of the coefficients), an
 * uneven pace and noise. Class 10 is silence, class 11 one of many other words.
 *
 *     struct uw_keywords k;
 *     uw_keywords_init(&k, &(struct uw_keywords_config){.seed = 1});
 *     k.base.ops->read(&k.base, 0, x, &label);
 *
 * Layout     [1][49][10] floats, about -3 .. 3; labels 0 .. 11
 * Memory     caller owns the struct; a read takes about 300 bytes of stack; no heap, no files
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
    bool test;                  /* the test stream: shares no sample with the training stream */
};

struct uw_keywords {
    struct uw_dataset base;
    uint64_t key;
};

/* Set up. A training set is endless; a test set has samples_n samples, always the same. */
void uw_keywords_init(struct uw_keywords *k, const struct uw_keywords_config *config);

UW_C_END
#endif
