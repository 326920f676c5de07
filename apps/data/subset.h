/* SPDX-License-Identifier: Apache-2.0
 *
 * subset.h - a dataset that shows a part of another one
 *
 * First some classes are kept, then every shards_n-th of what is left.
 *
 * Memory     a choice of classes takes 4 bytes for each sample kept; the inner set is borrowed
 */
#ifndef UWASA_DATA_SUBSET_H
#define UWASA_DATA_SUBSET_H

#include "uwasa/dataset.h"
#include "uwasa/status.h"

struct uw_subset {
    struct uw_dataset base;
    struct uw_dataset *inner;
    uint32_t *kept;             /* inner indexes; NULL: all of them */
    uint32_t shard, shards_n;
};

/* Show a part of `inner`.
 *   classes_mask        bit c set: keep class c; 0: keep all. Must be 0 for an endless set.
 *   shard, shards_n     keep samples shard, shard + shards_n, ...; shards_n is 1 or more
 * Returns UW_OK, UW_ERR_INVALID (nothing is left; no sentence), UW_ERR_NOMEM, or what reading
 * gives. */
int uw_subset_open(struct uw_subset *d, struct uw_dataset *inner, uint32_t classes_mask,
                   uint32_t shard, uint32_t shards_n);

/* Safe on a zeroed struct and twice. */
void uw_subset_close(struct uw_subset *d);

#endif
