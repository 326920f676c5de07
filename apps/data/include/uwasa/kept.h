/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kept.h - a dataset that keeps its first samples in memory once they have been read
 *
 * For sets that are read often: a test set by many models, a training set by many runs. Generated
 * samples are then drawn only once, and files read once.
 *
 *     uw_kept_open(&k, data.base, 1000);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = &k.base, .batch_n = 20});
 *     uw_kept_close(&k);
 *
 * Memory     4 (channels x height x width + 2) bytes per sample, from the heap; a page is touched
 *            only when a sample in it is read; the inner set is borrowed
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

/* Keep samples 0 .. n - 1 of `inner`, or all if it has fewer; others are read each time.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_kept_open(struct uw_kept *k, struct uw_dataset *inner, uint32_t n);

/* Safe on a zeroed struct and twice. */
void uw_kept_close(struct uw_kept *k);

UW_C_END
#endif
