/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - rows of numbers, one a line, from a file or from standard input while it arrives
 *
 * Numbers are separated by commas, semicolons, tabs or blanks; the first line with a number decides
 * which. Between semicolons a comma is a decimal point. Numbers may be in quotation marks. A first
 * line in which nothing is a number is a header: it is skipped. So are empty lines.
 *
 * Memory     the longest line, from the heap      Blocking  next: until a line has arrived
 * Context    one thread
 */
#ifndef UWASA_CLI_ROWS_H
#define UWASA_CLI_ROWS_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct uw_rows {
    FILE *file;             /* NULL when closed */
    const char *name;       /* for messages */
    bool arrives;           /* a pipe or a terminal: a line is to be answered at once */
    char *line;
    size_t line_cap;
    uint64_t line_n;        /* of the last line, from 1 */
    char separator;         /* ' ' stands for blanks and tabs; 0: not known yet */
    bool commas;            /* a number had a decimal comma */
    bool header;            /* the first line is one, and was skipped */
};

/* Open a file; "-" is standard input. Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_DENIED or UW_ERR_IO,
 * err filled. */
int uw_rows_open(struct uw_rows *r, const char *path, struct uw_error *err);

/* Read the next row of n numbers into x. Returns 1, 0 (no more), UW_ERR_CORRUPT (not a number),
 * UW_ERR_MISMATCH (another number of them) or UW_ERR_IO; err names file, line and column. */
int uw_rows_next(struct uw_rows *r, float *x, uint32_t n, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_rows_close(struct uw_rows *r);

#endif
