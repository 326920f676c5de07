/* SPDX-License-Identifier: Apache-2.0
 *
 * job_heads.h - losses of a class for each position, and of several outputs, each by its word
 *
 * Where an output [classes][h][w] or [tokens][classes] has values beside the sample as many as
 * positions, they are classes. Several outputs take what is beside a sample one after the other: a
 * cross-entropy a class, or one for each position; a squared error a value for each output.
 *
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_CLI_JOB_HEADS_H
#define UWASA_CLI_JOB_HEADS_H

#include "job_data.h"

/* Set the cross-entropy of a class for each position, targets_n of them; 0: not known, the axis of
 * the classes then is the one that such outputs usually have. Counts again. Returns UW_OK,
 * UW_ERR_MISMATCH (the output has no such axis) or an error of uw_job_measure; err filled. */
int uw_job_set_positions(struct uw_job *j, uint32_t targets_n, const char *spec,
                         struct uw_error *err);

/* Whether the data's values are classes, one for each position of the output. */
bool uw_job_values_are_classes(const struct uw_job *j, struct uw_dataset *data);

/* The classes of each value beside a sample that the losses take, 0: it is a value.
 *   classes  [need.target_n] written */
void uw_job_list_classes(const struct uw_job *j, uint32_t *classes);

/* Whether each output needs a word of its own: `loss` has several, or --output has. */
bool uw_job_wants_each(const struct uw_job *j, struct uw_choice loss);

/* Whether a word stands alone, or there are as many as outputs. */
bool uw_job_words_fit(const struct uw_job *j, struct uw_choice loss);

/* Set a loss for each output of an ONNX model by the words of `loss`, "cross_entropy,mse". Returns
 * UW_OK or UW_ERR_INVALID (not as many outputs as words), err filled. */
int uw_job_set_each(struct uw_job *j, struct uw_choice loss, struct uw_error *err);

#endif
