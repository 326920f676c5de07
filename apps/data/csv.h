/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.h - numbers in a text file, one sample a line, label last
 *
 * The rules are in uwasa/data.h.
 *
 * Memory     the values are kept on the heap as floats
 */
#ifndef UWASA_DATA_CSV_H
#define UWASA_DATA_CSV_H

#include "uwasa/dataset.h"
#include "uwasa/status.h"

#include <stddef.h>

enum uw_csv_rows {
    UW_CSV_ALL = 0,
    UW_CSV_TEST,                /* every sixth row */
    UW_CSV_TRAIN                /* the other rows */
};

struct uw_csv {
    struct uw_dataset base;     /* opened with as many channels as features, of height and width 1;
                                   who shares them out differently keeps their product */
    float *values;              /* [rows_n][features_n] */
    uint32_t features_n;
    uint32_t *labels;           /* [rows_n] */
    uint32_t rows_n;
    enum uw_csv_rows rows;
};

/* Read a file. Below six rows, `rows` counts as UW_CSV_ALL.
 * On failure nothing stays allocated; err names file:line:column. Returns the codes of
 * uw_data_open. */
int uw_csv_open(struct uw_csv *d, const char *path, enum uw_csv_rows rows, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_csv_close(struct uw_csv *d);

#endif
