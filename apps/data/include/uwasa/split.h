/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/split.h - a training set in two parts: one to train on, one to validate with
 *
 * A hash of a sample's index decides, so a sample is in the same part in every run, whatever the
 * seed. Of an endless set this holds for the places in an epoch; the part to validate with has
 * those of the first epoch.
 *
 *     uw_split_open(&s, data.base, data.base, 0.1, &err);
 *     ... s.train, s.validation ...
 *     uw_split_close(&s);
 *
 * Memory     4 bytes a sample, from the heap; the inner sets are borrowed
 * Blocking   as the inner sets        Context  open and close: one thread; reads: any thread
 */
#ifndef UWASA_SPLIT_H
#define UWASA_SPLIT_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"
#include "uwasa/status.h"

UW_C_BEGIN

struct uw_split_part {
    struct uw_dataset base;
    struct uw_dataset *inner;
    const uint32_t *index;      /* [samples_n] of the inner set */
};

struct uw_split {
    struct uw_split_part train, validation;
    uint32_t *index;            /* those of both */
};

/* Split a set.
 *   inner   training samples are read from it
 *   plain   samples to validate with are read from it; the same set, or it without augmentation
 *   share   of samples to validate with, above 0 and below 1
 * Returns UW_OK, UW_ERR_INVALID (a part would have no sample) or UW_ERR_NOMEM, err filled. */
int uw_split_open(struct uw_split *s, struct uw_dataset *inner, struct uw_dataset *plain,
                  double share, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_split_close(struct uw_split *s);

UW_C_END
#endif
