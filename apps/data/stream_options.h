/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_options.h - what a user says of a stream, ADDRESS[,OPTION...], and what its samples mean
 * by that and by earlier training (private)
 *
 * Context    any thread
 */
#ifndef UWASA_DATA_STREAM_OPTIONS_H
#define UWASA_DATA_STREAM_OPTIONS_H

#include "notes.h"
#include "stream_mqtt.h"
#include "table_options.h"

#include "uwasa/data.h"

#define UW_STREAM_NAME_BYTES 1024u

struct uw_stream_options {
    char address[UW_STREAM_NAME_BYTES];     /* without options */
    uint32_t keep_n, epoch_n;               /* as they were, where nothing is said */
    struct uw_mqtt_files files;
    struct uw_table_options table;          /* label, target, drop, classes and scales, as of
                                               tables */
};

/* Read a name of fewer than UW_STREAM_NAME_BYTES.
 * Returns UW_OK or UW_ERR_INVALID, err naming the options that there are. */
int uw_stream_options_read(struct uw_stream_options *o, const char *name, struct uw_error *err);

/* Say what samples mean: names, classes and scales of earlier training, or those that are said.
 *   columns   written; features_n 0: nothing is known. Free them in any case
 *   sample_n  features of the model; 0: not known, and then there is no scale
 *   values_n  values to compute that a line has behind its sample; 0: it has a label, or nothing
 * Returns UW_OK, UW_ERR_INVALID (a scale that needs all samples beforehand, or one of values where
 * there are none) or UW_ERR_NOMEM; err filled. */
int uw_stream_columns_take(struct uw_data_columns *columns, const struct uw_stream_options *o,
                           const struct uw_data_config *config, uint32_t sample_n,
                           uint32_t values_n, struct uw_notes *notes, struct uw_error *err);

#endif
