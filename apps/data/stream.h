/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h - samples that arrive while a model trains (private; uwasa/data.h has the rules)
 *
 * A read takes in what has arrived since the last one, at most every 2 ms, so there is no thread of
 * its own. A
 * training set and a test set with one name share one stream: sample 2, 8, 14, ... is for the test.
 *
 * Memory     uw_stream_config.keep_n samples, and a sixth of that for the test, from the heap
 * Blocking   open: until the first sample has arrived; reads never
 * Context    open and close: one thread; reads: any thread
 */
#ifndef UWASA_DATA_STREAM_H
#define UWASA_DATA_STREAM_H

#include "notes.h"

#include "uwasa/data.h"
#include "uwasa/dataset.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_stream;

struct uw_stream_set {
    struct uw_dataset base;     /* endless to train on; the test set grows */
    struct uw_stream *stream;   /* NULL when closed */
    bool test;
    uint64_t drawn;             /* index of the last sample read from a stream with values ... */
    float *values;              /* ... and its values, [base.targets_n] */
};

/* Open a set of the stream with this name, as "stream:-,keep=50".
 *   config  the model's sample: lines of so many numbers have no label; its outputs, of which there
 *           is a class each; earlier training; and who hears of lines that are refused before the
 *           first one that is not
 * Returns the codes of uw_data_open, and UW_ERR_AGAIN: the program was asked to end. */
int uw_stream_open(struct uw_stream_set *d, const char *name, const struct uw_data_config *config,
                   struct uw_error *err);

/* What samples mean; NULL: nothing but numbers is known. Valid until close. */
const struct uw_data_columns *uw_stream_columns(const struct uw_stream_set *d);

const struct uw_notes *uw_stream_notes(const struct uw_stream_set *d);

/* The next sentence about what has arrived. Returns whether there is one. */
bool uw_stream_news(const struct uw_stream_set *d, char *text, size_t text_bytes);

bool uw_stream_is_labelled(const struct uw_stream_set *d);

void uw_stream_close(struct uw_stream_set *d);

#endif
