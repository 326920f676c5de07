/* SPDX-License-Identifier: Apache-2.0
 *
 * table_sparse.h - text as LIBSVM has it: a label and then INDEX:VALUE of each feature that is not
 * 0 (private)
 *
 *     +1 3:0.5 7:1 12:-2
 */
#ifndef UWASA_DATA_TABLE_SPARSE_H
#define UWASA_DATA_TABLE_SPARSE_H

#include "table.h"

/* Whether the first lines are such ones. */
bool uw_table_is_sparse(const char *text);

/* Make a table of such text: a row has all features, and the label behind them.
 *   text  NUL-terminated
 *   o     least_n and indices_from; where that is not known, indices count from 1, or from 0 where
 *         one is 0. t->indices_from says it
 * Returns UW_OK, UW_ERR_CORRUPT (another line, err names file:line:byte), UW_ERR_TOOBIG or
 * UW_ERR_NOMEM. Close in any case. */
int uw_table_read_sparse(struct uw_table *t, const char *text, const struct uw_table_options *o,
                         struct uw_error *err);

#endif
