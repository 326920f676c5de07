/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_names.h - names of a stream's columns, in a header or as keys of JSON objects: where
 * features, label and values are by them (private)
 *
 * Memory     4 bytes a column, from the heap      Context  any thread
 */
#ifndef UWASA_DATA_STREAM_NAMES_H
#define UWASA_DATA_STREAM_NAMES_H

#include "stream_lines.h"
#include "table_options.h"

#include "uwasa/data.h"

/* What is known of a stream's samples before the first line. */
struct uw_stream_wanted {
    uint32_t sample_n;              /* 0: not known */
    enum uw_stream_behind behind;
    uint32_t behind_n;
    bool needed;                    /* a label or values */
    bool unlabelled;                /* the sample itself is what the model learns: no column is
                                       guessed to be its label */
};

/* Whether a line has words in place of numbers, or the name of a feature among them.
 *   names  of the columns; features NULL: not known */
bool uw_stream_is_header(const char *text, const struct uw_data_columns *names);

/* Name columns that have no names yet by a header, or by the keys of a JSON object without "x":
 * options label, target and drop say which are what, else the label is in the one called "label" or
 * in the last, values in the last ones. A line that is cut has no names.
 * Returns 1, 0 (their number does not fit, and nothing is said of them; or the line has no names),
 * UW_ERR_MISMATCH or UW_ERR_NOMEM, err filled. */
int uw_stream_names_take(struct uw_data_columns *names, const char *text,
                         const struct uw_stream_wanted *w, const struct uw_table_options *said,
                         struct uw_error *err);

/* Find out of a header where the cells of the lines behind it belong. Close the order in any case.
 *   said    options; columns that drop= names are nothing
 *   behind  set: whether a label, or values, are among them. One without a name is only if it is
 *           needed, and the only column that is left
 * Returns 1, 0 (none of the features is in the header), UW_ERR_MISMATCH (some are missing, or what
 * is needed beside them) or UW_ERR_NOMEM, err filled. */
int uw_stream_order_take(struct uw_stream_order *o, const char *text,
                         const struct uw_data_columns *names, const struct uw_stream_wanted *w,
                         const struct uw_table_options *said, bool *behind,
                         struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_stream_order_close(struct uw_stream_order *o);

#endif
