/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_lines.h - a line of a stream: numbers, the label or values last, or a JSON object
 * {"x": [numbers], "label": n}; or both in the order of names (private)
 *
 * Context    any thread
 */
#ifndef UWASA_DATA_STREAM_LINES_H
#define UWASA_DATA_STREAM_LINES_H

#include "uwasa/data.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What is behind the numbers of a sample. */
enum uw_stream_behind { UW_STREAM_NOTHING = 0, UW_STREAM_LABEL, UW_STREAM_VALUE };

/* Where the cells of a line belong, as a header says. */
struct uw_stream_order {
    uint32_t cells_n;           /* 0: no header says it, numbers are in the order of the sample */
    uint32_t *place;            /* [cells_n] feature k; sample_n + j: what is behind, number j;
                                   larger ones: nowhere */
    char delimiter;
    bool misfit;                /* the header does not fit, nor do the lines that follow it */
};

struct uw_stream_form {
    uint32_t sample_n;          /* numbers of a sample */
    enum uw_stream_behind behind;
    uint32_t behind_n;          /* labels or values of a line; 0 stands for 1 */
    char *const *classes;       /* [classes_n] what labels are called; NULL: they are numbers.
                                   Borrowed */
    uint32_t classes_n;
    bool *gap;                  /* [sample_n] written, of JSON: null, and 0 is in its place; NULL:
                                   it may have none */
    const struct uw_data_columns *names;        /* by which JSON may have its numbers, as
                                   {"temp": 20.5, "state": "ok"}; NULL: not known. Borrowed */
    const struct uw_stream_order *order;        /* of cells; NULL: numbers in order. Borrowed */
};

/* Read a line of numbers or of JSON.
 *   x      [sample_n] written, with values behind it [sample_n + behind_n]
 *   label  written, 0 where there is none
 * Where no class is called by a number, whole numbers from 0 are classes too.
 * Returns UW_OK, or UW_ERR_CORRUPT with err->text saying what is wrong. */
int uw_stream_read_line(const char *text, const struct uw_stream_form *form, float *x,
                        uint32_t *label, struct uw_error *err);

/* How many numbers a line has, with its label, which may be a word; 0: it is none.
 *   form  for the names of numbers in JSON and how many are behind them */
uint32_t uw_stream_count(const char *text, const struct uw_stream_form *form);

/* Whether a line is JSON that has its numbers by their names. */
bool uw_stream_is_named(const char *text, const struct uw_stream_form *form);

#endif
