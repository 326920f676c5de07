/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_lines.h - a line of a stream: numbers, the label or a value last, or a JSON object
 * {"x": [numbers], "label": n} (private)
 *
 * Context    any thread
 */
#ifndef UWASA_DATA_STREAM_LINES_H
#define UWASA_DATA_STREAM_LINES_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What is behind the numbers of a sample. */
enum uw_stream_behind { UW_STREAM_NOTHING = 0, UW_STREAM_LABEL, UW_STREAM_VALUE };

struct uw_stream_form {
    uint32_t sample_n;          /* numbers of a sample */
    enum uw_stream_behind behind;
    char *const *classes;       /* [classes_n] what labels are called; NULL: they are numbers.
                                   Borrowed */
    uint32_t classes_n;
    bool *gap;                  /* [sample_n] written, of JSON: null, and 0 is in its place; NULL:
                                   it may have none */
};

/* Read a line of numbers or of JSON.
 *   x      [sample_n] written, with a value behind it [sample_n + 1]
 *   label  written, 0 where there is none
 * Where no class is called by a number, whole numbers from 0 are classes too.
 * Returns UW_OK, or UW_ERR_CORRUPT with err->text saying what is wrong. */
int uw_stream_read_line(const char *text, const struct uw_stream_form *form, float *x,
                        uint32_t *label, struct uw_error *err);

/* How many numbers a line has, with its label, which may be a word; 0: it is none. */
uint32_t uw_stream_count(const char *text);

#endif
