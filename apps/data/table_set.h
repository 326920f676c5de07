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

/* Put the two sentences that say what was found in front of the notes. */
void uw_table_tell(struct uw_table_set *p);

#endif
