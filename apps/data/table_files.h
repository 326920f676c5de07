/* SPDX-License-Identifier: Apache-2.0
 *
 * table_files.h - the files of a table: of text, or arrays of NumPy (private)
 */
#ifndef UWASA_DATA_TABLE_FILES_H
#define UWASA_DATA_TABLE_FILES_H

#include "table.h"
#include "uwasa/data.h"

enum uw_table_kind { UW_TABLE_CSV = 0, UW_TABLE_NPY, UW_TABLE_NPZ };

struct uw_table_files {
    struct uw_table_options o;
    struct uw_table table[2];       /* training and test file; without one the second is empty */
    struct uw_table names[2];       /* files of labels */
    uint32_t shape[3];              /* [C][H][W] of an array's sample; 0: a row */
};

/* Read "FILE,...,OPTION=VALUE,..." and the files. config tells the model's sizes.
 * Returns the codes of uw_data_open. Close in any case. */
int uw_table_files_open(struct uw_table_files *f, enum uw_table_kind kind, const char *text,
                        const struct uw_data_config *config, struct uw_error *err);
void uw_table_files_close(struct uw_table_files *f);

#endif
