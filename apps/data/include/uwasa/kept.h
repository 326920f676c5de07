/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kept.h - a dataset whose first samples stay in memory once they were read
 *
 * For sets that are read again and again: a test set by many models, a training set by many runs.
 * Made-up samples are drawn and files are read once.
 *
 *     uw_kept_open(&k, data.base, 1000);
 *     uw_job_evaluate(&job, &k.base, 1000, ...);
 *     uw_kept_close(&k);
 *
 * Memory     channels x height x width + 2 words of 4 bytes a sample, from the heap, of which pages
 *            are touched when a sample there is read; the inner set is borrowed
 * Blocking   as the inner set         Context  open and close: one thread; reads: any thread
 */
#ifndef UWASA_KEPT_H
#define UWASA_KEPT_H

#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"

UW_C_BEGIN

struct uw_kept_sample;          /* private */

struct uw_kept {
    struct uw_dataset base;
    struct uw_dataset *inner;
    float *x;                   /* [n][channels][height][width] */
    struct uw_kept_sample *sample;  /* [n] */
    uint32_t n;
};

/* Keep samples 0 .. n - 1 of `inner`, all when it has no more; the others are read each time.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_kept_open(struct uw_kept *k, struct uw_dataset *inner, uint32_t n);

/* Safe on a zeroed struct and twice. */
void uw_kept_close(struct uw_kept *k);

UW_C_END
#endif
