/* SPDX-License-Identifier: Apache-2.0
 *
 * table_text.h - lines and cells of a table of text
 *
 *     lines.delimiter = uw_lines_delimiter(text, bytes);
 *     while (uw_lines_next(&lines)) {
 *         do { cell = uw_lines_cell(&lines); } while (!cell.is_last);
 *     }
 *
 * Memory     cells point into the text      Context  any thread
 */
#ifndef UWASA_DATA_TABLE_TEXT_H
#define UWASA_DATA_TABLE_TEXT_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_DELIMITER_BLANKS ' '     /* spaces and tabs, any number of them */

#define UW_LINE_BREAKS_MAX 100u     /* in a cell between quotes */

struct uw_lines {
    const char *text;
    size_t bytes, at;
    uint32_t line;                  /* from 1 */
    size_t line_at;                 /* byte where it starts */
    char delimiter;
    uint32_t breaks_n;              /* in cells of the line between quotes, so far */
};

struct uw_cell {
    const char *text;               /* without quotes and the blanks around */
    size_t bytes;
    bool is_last;                   /* of its line */
};

/* Read a file of text. *text is the caller's, to be freed; a 0 is behind its bytes.
 * Returns UW_OK, or the codes of uw_data_open, err naming the file. */
int uw_table_load(const char *path, char **text, size_t *bytes, struct uw_error *err);

/* The character that divides most lines into the same number of cells; ',' if none does. */
char uw_lines_delimiter(const char *text, size_t bytes);

/* The delimiter in words, "commas". */
const char *uw_lines_delimiter_text(char delimiter, char text[24]);

/* Go to the next line that is neither empty nor a comment (#). False: there is none. */
bool uw_lines_next(struct uw_lines *l);

/* The next cell of the line. One between " may have breaks of lines. */
struct uw_cell uw_lines_cell(struct uw_lines *l);

/* Cells of the line at which l is; l stays there. */
uint32_t uw_lines_count(const struct uw_lines *l);

/* Whether a cell of the line begins with " and does not end. */
bool uw_lines_open(struct uw_lines l);

/* Whether a cell is a finite decimal number and nothing else.
 *   comma  the decimal point may be a comma */
bool uw_cell_number(const struct uw_cell *c, bool comma, float *value);

/* What a cell that is no number is instead, for sentences: "not a number", "not finite". */
const char *uw_cell_fault(const struct uw_cell *c);

/* Whether a cell says that its value is missing: empty, ?, NA, N/A, nan, null, none, or
 * a spreadsheet's error, as #DIV/0!. */
bool uw_cell_missing(const struct uw_cell *c);

/* Whether a cell is true (1) or false (0), as pandas writes them. */
bool uw_cell_truth(const struct uw_cell *c, float *value);

/* Whether a cell is this word, whatever its case. */
bool uw_cell_is(const struct uw_cell *c, const char *word);

#endif
