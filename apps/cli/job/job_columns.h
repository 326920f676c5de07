/* SPDX-License-Identifier: Apache-2.0
 *
 * job_columns.h - what the columns of the training data mean, kept with the weights
 *
 * The text of __metadata__ "uwasa.data" in a safetensors file, and of metadata_props in an ONNX
 * file, is JSON:
 *
 *     {"features_n": 4, "features": ["length", ...], "classes": ["setosa", ...],
 *      "label": "species", "targets": ["price"] or "targets_n": 3, "mean": [5.8, ...],
 *      "inverse": [1.2, ...],
 *      "target_mean": [206855], "target_inverse": [8.7e-06],
 *      "columns_n": 5, "columns": [1, 2, 3, 4], "loss": "cross_entropy",
 *      "sound": {"rate_hz": 16000, "window_n": 480, ...}}
 *
 * A sample is (column - mean) * inverse; without both it is as in the table. Of an output of the
 * model the answer is output / target_inverse + target_mean. "columns" are the places of the
 * features among the columns_n of a line; without them it has no other. "sound" has the members of
 * struct uw_sound_config. Entries that are not known are left out.
 *
 * Memory     heap      Blocking  reads one file      Context  one thread
 */
#ifndef UWASA_CLI_JOB_COLUMNS_H
#define UWASA_CLI_JOB_COLUMNS_H

#include "base/args.h"

#include "uwasa/convert.h"
#include "uwasa/data.h"
#include "uwasa/status.h"

/* Bytes of a word for each of UW_LOSSES_MAX outputs. */
#define UW_LOSS_TEXT_BYTES (16u * UW_LOSSES_MAX)

struct uw_job_columns {
    struct uw_data_columns columns;     /* features_n 0: the file has none */
    char words[UW_LOSS_TEXT_BYTES];
    struct uw_choice loss;              /* as --loss would say it, in `words`; UW_LOSS_AUTO: not
                                           known */
    bool of_model;                      /* from the ONNX model */
};

/* The text for a set and the words of --loss, NULL: not known; to be freed. NULL: no table, or no
 * memory. */
char *uw_job_columns_text(const struct uw_data_columns *c, const char *loss);

/* Read the columns from a file of --weights, or where it has none from an ONNX model (NULL: none).
 * Neither of them needs to have any. Close in any case.
 * Returns UW_OK, UW_ERR_CORRUPT (they are there, but malformed), UW_ERR_NOMEM; err filled. */
int uw_job_columns_load(struct uw_job_columns *c, const char *file,
                        const struct uw_convert_model *onnx, struct uw_error *err);

/* Read them from their text; `file` names its origin. Close in any case.
 * Returns UW_OK or UW_ERR_CORRUPT, err filled. */
int uw_job_columns_read(struct uw_job_columns *c, const char *text, const char *file,
                        struct uw_error *err);

/* The words of --loss, for uw_job_columns_text. */
const char *uw_job_columns_loss(const struct uw_job_columns *c);

/* Safe on a zeroed struct and twice. */
void uw_job_columns_close(struct uw_job_columns *c);

#endif
