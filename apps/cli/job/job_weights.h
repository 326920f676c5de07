/* SPDX-License-Identifier: Apache-2.0
 *
 * job_weights.h - weights from files, what is told of them, and the files that weights go to
 *
 * Blocking   reads and writes files      Context  one thread
 */
#ifndef UWASA_CLI_JOB_WEIGHTS_H
#define UWASA_CLI_JOB_WEIGHTS_H

#include "job.h"

#include "uwasa/storage_file.h"

/* Help of --weights. */
#define UW_WEIGHTS_HELP                                                                           \
    "safetensors, F32, F16, BF16 or F64; FILE,loose takes what fits and leaves the rest as it is"

/* Read weights from a safetensors file into the bound model; "FILE,loose": only what fits, and the
 * rest stays as it is. Errors as uw_job_take_weights, err filled. */
int uw_job_load_weights(struct uw_job *j, const char *file, struct uw_error *err);

/* The same of an object of any storage, with the errors of uw_checkpoint_load_weights and
 * uw_job_names_find. The job keeps `object`, which names it in notes.
 *   how  what asks for `loose` here, for the sentence of an error */
int uw_job_take_weights(struct uw_job *j, struct uw_storage *storage, const char *object,
                        bool loose, const char *how, struct uw_error *err);

/* The file of weights without ",loose". Returns weights, or file. */
#define UW_JOB_PATH_BYTES 4096u
const char *uw_job_weights_file(const char *weights, char file[UW_JOB_PATH_BYTES]);

/* The i-th sentence on what was assumed, left out or converted when model and weights were read;
 * NULL: there are no more. Written to text. */
#define UW_JOB_NOTE_BYTES 640u
const char *uw_job_note(const struct uw_job *j, uint32_t i, char text[UW_JOB_NOTE_BYTES]);

/* Print these sentences on standard error. */
void uw_job_print_notes(const struct uw_job *j);

/* A hash of the model's layers, their options and wiring, for a checkpoint; 0: not known. */
uint64_t uw_job_layers(const struct uw_job *j);

/* Check that this job may resume from the loaded checkpoint: the layers must be the same, and both
 * or neither must train in exact mode, with the same order of sums.
 *   option  what asks for exact mode, "--exact"
 * Returns UW_OK or UW_ERR_MISMATCH, err filled. */
int uw_job_check_state(const struct uw_job *j, bool exact, const char *option,
                       const struct uw_checkpoint *state, const char *file, struct uw_error *err);

/* Check that a checkpoint may be written to `file` (NULL: nothing to write): there is no such file,
 * or it contains weights. Data or models must not be overwritten. Returns UW_OK or UW_ERR_INVALID,
 * err filled. */
int uw_job_guard_save(const char *what, const char *file, struct uw_error *err);

/* Why the storage did not save an object, by its return code. */
const char *uw_job_why_unsaved(int rc);

/* Check before training, not after hours, that a file can be written; NULL: nothing to write.
 * `what` names it in messages, "--save". Returns UW_OK or a code of the storage, err filled. */
int uw_job_try_save(struct uw_storage *s, const char *what, const char *file,
                    struct uw_error *err);

/* The same, and hold the file until `files` is closed: of two programs that go on from one
 * checkpoint, the second is refused. Waits a second for one that is about to end. */
int uw_job_hold_save(struct uw_storage_file *files, const char *what, const char *file,
                     struct uw_error *err);

#endif
