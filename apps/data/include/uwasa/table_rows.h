/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/table_rows.h - samples from the lines of a table, one by one, also while they arrive
 *
 * Delimiter, quotes, decimal commas and comments are as in "csv:FILE" (uwasa/data.h). A first line
 * without a number is a header: by the names in it the features of the training data are found, in
 * any order and among other columns. Without names a line has the features only, or every column of
 * the training data, the label too. Features are scaled as the training data. A line may also be
 * JSON, {"x": [numbers]} or {"temp": 20.5, "load": 3}, as of a stream.
 *
 * Memory     the longest line and 4 bytes a column, from the heap
 * Blocking   next: until a line has arrived      Context  one thread
 */
#ifndef UWASA_TABLE_ROWS_H
#define UWASA_TABLE_ROWS_H

#include "uwasa/cplusplus.h"
#include "uwasa/data.h"

#include <stdio.h>

UW_C_BEGIN

struct uw_table_rows {
    FILE *file;                     /* NULL when closed */
    const char *name;               /* for messages */
    bool arrives;                   /* a pipe or a terminal: a line is to be answered at once */
    char note[240];                 /* how the lines are read; "": as numbers between commas */
    uint32_t gaps_n;                /* cells without a number, null in JSON, that got the mean of
                                       the training data; only with columns of a standard scale */
    bool unscaled;                  /* set it for who scales rows: they are as they are written, and
                                       gaps are the mean itself */

    /* private */
    const struct uw_data_columns *columns;
    uint32_t n;                     /* floats of a sample */
    char *line;
    size_t line_cap;
    uint32_t line_n;                /* of the last line, from 1 ... */
    uint32_t breaks_n;              /* ... and how many more it goes on between quotes */
    char delimiter;                 /* 0: no line was read yet */
    bool json;                      /* the last line is JSON */
    uint32_t cells_n;               /* of a line; 0: not known yet */
    uint32_t *feature;              /* [cells_n] UINT32_MAX: the column is none */
    bool *gap;                      /* [n] of a line of JSON; NULL: none was read yet */
};

/* Read a stream, which close ends unless it is stdin.
 *   name  for messages. Borrowed
 * Returns UW_OK, or UW_ERR_IO (a folder), err filled. Close in any case. */
int uw_table_rows_open(struct uw_table_rows *r, FILE *file, const char *name,
                       struct uw_error *err);

/* Before the first row: say what a sample is.
 *   n        its floats
 *   columns  of the training data, of n features; features_n 0 or NULL: not known. Borrowed */
void uw_table_rows_expect(struct uw_table_rows *r, uint32_t n,
                          const struct uw_data_columns *columns);

/* Read the next sample into x [n]. Returns 1, 0 (no more), UW_ERR_CORRUPT (a cell is no number),
 * UW_ERR_MISMATCH (the columns are others), UW_ERR_NOMEM or UW_ERR_IO; err names file, line and
 * byte. */
int uw_table_rows_next(struct uw_table_rows *r, float *x, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_table_rows_close(struct uw_table_rows *r);

UW_C_END
#endif
