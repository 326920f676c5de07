/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - a table of text as numbers, and what is known of each column (private)
 *
 * Header lines, delimiter and decimal commas are found by looking at the lines. Words stay in the
 * text: a column of words is read again when it is the label.
 *
 * Memory     the file's text and four bytes a cell, from the heap
 */
#ifndef UWASA_DATA_TABLE_H
#define UWASA_DATA_TABLE_H

#include "array.h"
#include "table_options.h"
#include "table_text.h"

/* Where a cell is, and how it begins. */
struct uw_place {
    uint32_t line;                  /* 0: there is none */
    uint32_t byte;                  /* in the line, from 1 */
    char text[25];
};

struct uw_column {
    char *name;                     /* NULL: the file has no names */
    uint32_t numbers_n, missing_n, words_n;
    uint32_t truths_n;              /* words that are true or false; their cells are 1 and 0 */
    bool whole;                     /* all numbers are whole ... */
    bool counts;                    /* ... and each is the one before plus 1 */
    bool changes;                   /* they are not all the same */
    float least, most;
    struct uw_place word, missing;  /* the first ones */
};

struct uw_table {
    const char *path;               /* borrowed */
    char origin[360];               /* arrays, in words; "": a table of text */
    char *text;                     /* NULL: not of text */
    struct uw_lines body;           /* at the first sample */
    bool comma;                     /* the decimal point may be a comma, */
    bool commas;                    /* and is one in some number */
    struct uw_place point;          /* the first number with a point */
    uint32_t header_n;              /* lines in front */
    uint32_t misfit_n;              /* names of a header that are more than columns; 0: none */
    char indices_from;              /* '0' or '1': it was text of INDEX:VALUE; 0: it was not */
    uint32_t void_n;                /* elements of bytes, 255, that became -1 */
    bool counted;                   /* a line of them is 0, 1, 2, ... */
    uint32_t columns_n, rows_n;
    struct uw_column *columns;
    float *cells;                   /* [rows_n][columns_n]; NaN: no number */
    uint32_t *line;                 /* [rows_n] */
};

/* Read a file. Returns the codes of uw_data_open, err naming file:line:byte. Close in any case. */
int uw_table_open(struct uw_table *t, const char *path, const struct uw_table_options *o,
                  struct uw_error *err);

/* Make a table of arrays: a row has an element of x, and behind it one of y.
 *   x, y           [N]...; y NULL: none. Both are empty afterwards.
 *   channels_last  samples of x, and of y, are [H][W][C], and become [C][H][W]
 *   has_void       255 in y becomes -1
 * Returns UW_OK, UW_ERR_MISMATCH, UW_ERR_TOOBIG, UW_ERR_NOMEM. Close in any case. */
int uw_table_from_arrays(struct uw_table *t, const char *path, struct uw_array *x,
                         struct uw_array *y, const bool channels_last[2], bool has_void,
                         struct uw_error *err);

/* The text of each row's cell in a column. Only for a table of text.
 *   cells  [rows_n] written */
void uw_table_words(const struct uw_table *t, uint32_t column, struct uw_cell *cells);

/* A column by its name, as it is written or else whatever its case, or its number from 1, or first
 * or last. UINT32_MAX: there is none. *twin: a second one of the name, or UINT32_MAX. */
uint32_t uw_table_find(const struct uw_table *t, const char *name, size_t bytes, uint32_t *twin);

/* 'column 5 "class"'. Returns text. */
const char *uw_column_text(const struct uw_table *t, uint32_t column, char text[64]);

/* Whether in every row one of n columns from `from` on is 1 and the others are 0. */
bool uw_table_is_one_hot(const struct uw_table *t, uint32_t from, uint32_t n);

/* Remove rows for which keep is false. */
void uw_table_keep(struct uw_table *t, const bool *keep);

/* Count a number in the statistics of a column; before: the one in the row above. */
void uw_column_add(struct uw_column *c, float value, float before);

void uw_table_close(struct uw_table *t);

#endif
