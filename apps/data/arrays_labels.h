/* SPDX-License-Identifier: Apache-2.0
 *
 * arrays_labels.h - classes by number, of an array y in memory (private)
 */
#ifndef UWASA_DATA_ARRAYS_LABELS_H
#define UWASA_DATA_ARRAYS_LABELS_H

#include "sets.h"

/* Whether y has labels; one number for each sample of a model with several outputs is one. */
bool uw_arrays_wants_labels(const struct uw_data_arrays *a, const struct uw_data_config *config);

/* Read y of `a` as labels into d, and keep what the classes are called.
 *   first  the training set, by which labels are numbered that do not fit
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_MISMATCH or UW_ERR_NOMEM; err names the place. */
int uw_arrays_labels_read(struct uw_arrays *d, const struct uw_data_arrays *a,
                          const struct uw_data_arrays *first, const struct uw_data_config *config,
                          struct uw_error *err);

#endif
