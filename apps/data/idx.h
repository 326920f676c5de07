/* SPDX-License-Identifier: Apache-2.0
 *
 * idx.h - images and labels in two IDX files
 *
 * IDX is two zero bytes, a type, a rank, the dimensions as big-endian 32-bit numbers, then the
 * values. A file must be exactly as long as its header says.
 */
#ifndef UWASA_DATA_IDX_H
#define UWASA_DATA_IDX_H

#include "file.h"
#include "uwasa/dataset.h"

#include <stdbool.h>

struct uw_idx {
    struct uw_dataset base;
    struct uw_file images, labels;
    uint64_t images_at;         /* byte of the first value */
    bool is_float;
};

/* Open a pair and check headers, sizes and every label.
 *   classes  labels must be below it; 0: one more than the largest label, at least 2
 *   hint     see uw_file_open
 * On failure nothing stays open. Returns the codes of uw_data_open. */
int uw_idx_open(struct uw_idx *d, const char *images, const char *labels, uint32_t classes,
                const char *hint, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_idx_close(struct uw_idx *d);

#endif
