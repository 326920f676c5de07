/* SPDX-License-Identifier: Apache-2.0
 *
 * reservoir.h - a bounded choice of all samples that have arrived, with equally many of each class
 *
 * While there is room every sample is kept. Then a sample of a class that has not the most samples
 * takes the place of one of the largest class; one of a largest class takes the place of one of its
 * own with probability m / n: m kept of n that have arrived. So each class has a uniform choice of
 * its samples. Draws give all classes the same probability.
 *
 * Memory     cap_n samples of the heap, and 24 bytes a class      Blocking  never
 * Context    one thread at a time
 * Source     Chrysakis and Moens, "Online Continual Learning from Imbalanced Data", 2020
 */
#ifndef UWASA_DATA_RESERVOIR_H
#define UWASA_DATA_RESERVOIR_H

#include "uwasa/rng.h"

#include <stddef.h>
#include <stdint.h>

struct uw_reservoir_class {
    uint32_t label, kept_n;
    uint64_t seen_n;
};

struct uw_reservoir {
    uint32_t cap_n, n, features_n;
    float *x;                           /* [cap_n][features_n] */
    uint32_t *label;                    /* [cap_n] */
    struct uw_reservoir_class *class;   /* [classes_n] */
    uint32_t classes_n, classes_cap_n;
    struct uw_rng rng;
};

/* Returns UW_OK or UW_ERR_NOMEM. */
int uw_reservoir_open(struct uw_reservoir *r, uint32_t cap_n, uint32_t features_n, uint64_t seed);

/* Take in a sample. Returns 1 (kept), 0 (not kept) or UW_ERR_NOMEM. */
int uw_reservoir_add(struct uw_reservoir *r, const float *x, uint32_t label);

/* The place of a sample of a random class; key decides, with what is kept. n is 1 or more. */
uint32_t uw_reservoir_draw(const struct uw_reservoir *r, uint64_t key);

/* Safe on a zeroed struct and twice. */
void uw_reservoir_close(struct uw_reservoir *r);

#endif
