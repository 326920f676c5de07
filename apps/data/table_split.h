/* SPDX-License-Identifier: Apache-2.0
 *
 * table_split.h - which lines of a table are for testing, its scale, and what looks wrong (private)
 */
#ifndef UWASA_DATA_TABLE_SPLIT_H
#define UWASA_DATA_TABLE_SPLIT_H

#include "table_labels.h"

/* The lines of one set: of a file, or of a part of it. */
struct uw_rows {
    const struct uw_table *table;
    const uint32_t *label;          /* [rows_n]; NULL: no labels */
    const bool *test;               /* [rows_n]; NULL: all lines are of both sets */
    bool of_test;                   /* the set that is meant */
};

bool uw_rows_has(const struct uw_rows *rows, uint32_t row);

/* Choose lines for testing by a hash of their place, so that their order does not matter, and in
 * each class the same share.
 *   label  [rows_n], below classes_n; NULL: none
 *   test   [rows_n] written
 * Returns how many are for testing, or UW_ERR_NOMEM. */
int uw_table_split(uint32_t rows_n, const uint32_t *label, uint32_t classes_n, double share,
                   bool *test);

/* Mean and 1 / deviation of columns over the lines of a set, without values that are missing. A
 * column that never changes gets 1.
 *   columns        [n]
 *   mean, inverse  [n] written */
void uw_table_moments(const struct uw_rows *rows, const uint32_t *columns, uint32_t n,
                      float *mean, float *inverse);

/* Note what looks wrong in the training set, beside its test set.
 *   advice  on features that are not scaled */
void uw_table_doubt(const struct uw_rows *train, const struct uw_rows *test,
                    const struct uw_roles *r, const struct uw_labels *labels,
                    enum uw_data_advice advice, struct uw_notes *notes);

#endif
