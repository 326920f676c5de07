/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_lines.h - a line of a stream: numbers, the label last, or a JSON object {"x": [numbers],
 * "label": n} (private)
 *
 * Context    any thread
 */
#ifndef UWASA_DATA_STREAM_LINES_H
#define UWASA_DATA_STREAM_LINES_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Read a line of numbers or of JSON.
 *   x         [sample_n] written
 *   labelled  the line has a label
 * Returns UW_OK, or UW_ERR_CORRUPT with err->text saying what is wrong. */
int uw_stream_read_line(const char *text, bool labelled, uint32_t sample_n, float *x,
                        uint32_t *label, struct uw_error *err);

/* How many numbers a line has, with its label; 0: it is none. */
uint32_t uw_stream_count(const char *text);

#endif
