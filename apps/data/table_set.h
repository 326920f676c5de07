/* SPDX-License-Identifier: Apache-2.0
 *
 * table_set.h - a table on its way to become a dataset (private)
 */
#ifndef UWASA_DATA_TABLE_SET_H
#define UWASA_DATA_TABLE_SET_H

#include "sets.h"
#include "table_split.h"

struct uw_table_set {
    struct uw_csv *d;
    const struct uw_data_config *config;
    struct uw_error *err;
    struct uw_table_files files;
    struct uw_roles roles;
    struct uw_label_column column[2];
    struct uw_labels labels;
    bool *test;                     /* of the training file; NULL: not split */
    struct uw_rows rows[2];         /* of the training and the test set */
};

/* Choose the scale of the features, in the columns.
 *   mean  [features_n] for gaps: those of the training data where its scale is known
 * Returns UW_OK or UW_ERR_NOMEM, err filled. */
int uw_table_scale(struct uw_table_set *p, float *mean);

/* Choose the scale of the values to compute, and tell it. Returns as uw_table_scale. */
int uw_table_scale_values(struct uw_table_set *p);

/* Put the two sentences that say what was found in front of the notes. */
void uw_table_tell(struct uw_table_set *p);

#endif
