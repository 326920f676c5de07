/* SPDX-License-Identifier: Apache-2.0
 *
 * augment.h - images that never look the same twice
 *
 * Each time a sample is drawn it is moved by up to `crop` pixels in each direction, zeros coming
 * in from outside (what cutting from a zero-padded image gives), and mirrored left to right every
 * other time. Which, is a function of seed, epoch and sample alone, so a resumed run sees the
 * same images.
 *
 * Memory     none of its own; the inner set is borrowed
 */
#ifndef UWASA_DATA_AUGMENT_H
#define UWASA_DATA_AUGMENT_H

#include "uwasa/dataset.h"

struct uw_augment {
    struct uw_dataset base;         /* endless: index / samples_n is the epoch */
    struct uw_dataset *inner;
    uint64_t seed;
    uint32_t crop;
    bool flip;
};

/* Show `inner` in ever new ways. */
void uw_augment_init(struct uw_augment *a, struct uw_dataset *inner, uint64_t seed, uint32_t crop,
                     bool flip);

#endif
