/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/session.h - a model that a program trains and asks, by the code of the uwasa program
 *
 *     struct uw_session *s = uw_session_new();
 *     uw_session_listen(s, &listener);
 *     uw_session_open(s, "mine.onnx", (const char *[]){"seed", "2", NULL});
 *     uw_session_fit(s, "arrays", &train, NULL, (const char *[]){"epochs", "3", NULL});
 *     uw_session_predict(s, x, n, false, out);
 *     uw_session_free(s);
 *
 * Options are those of `uwasa train`, by their names with underscores ("weight_decay"), as pairs of
 * name and value that end with NULL; a flag is "true" or "false". What uw_session_open is given
 * holds for every later call that does not say otherwise. Results are told to the listener as JSON.
 * After an error, and after a training that failed, the model is as it was before the call.
 *
 * Memory     the heap; one arena for the model, while training begins two
 * Blocking   as the work takes; the listener may stop it
 * Context    one thread at a time for a session; sessions are independent of each other
 */
#ifndef UWASA_SESSION_H
#define UWASA_SESSION_H

#include "uwasa/cplusplus.h"
#include "uwasa/data.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_session;

/* Returns a session, or NULL without memory. */
struct uw_session *uw_session_new(void);

/* NULL is allowed. */
void uw_session_free(struct uw_session *s);

/* Say who hears of what happens; none of them may be NULL. Call once, before open.
 *   line   a sentence on what was found or taken for granted
 *   event  a line of `uwasa train --json`, an event "test" of evaluate, or "model" of open, fit and
 *          load: name, input (its shape), input_n, outputs_n and numbers_n (floats of a raw output
 *          and of an answer), answer ("class", "values", "error", "mask"), parameters, torch (by
 *          names of parameters: those in PyTorch, where they are others), data (what is saved with
 *          the weights: features, classes, mean, ...)
 *   stop   true ends training, a test or a prediction; asked 20 times a second, between steps */
void uw_session_listen(struct uw_session *s, void (*line)(void *arg, const char *text),
                       void (*event)(void *arg, const char *json), bool (*stop)(void *arg),
                       void *arg);

/* The sentence of the last error; valid until the next call. */
const char *uw_session_error(const struct uw_session *s);

/* Read a model, and give it the weights of its file, those of option "weights", or initial ones.
 *   model    a built-in name, an ONNX or a JSON file
 *   options  texts that must outlive the session
 * Call once. Returns UW_OK or a code; so do the functions below. */
int uw_session_open(struct uw_session *s, const char *model, const char *const *options);

/* Train as `uwasa train --data` does, from the weights that the model has.
 *   train, held  for data "arrays"; held NULL: no test set
 * Returns 1 if the listener stopped it: the model has the weights so far. */
int uw_session_fit(struct uw_session *s, const char *data, const struct uw_data_arrays *train,
                   const struct uw_data_arrays *held, const char *const *options);

/* Test as `uwasa eval` does, and tell the event "test". Stopped by the listener: UW_ERR_AGAIN. */
int uw_session_evaluate(struct uw_session *s, const char *data, const struct uw_data_arrays *held,
                        const char *const *options);

/* Compute answers: classes' probabilities, values, or errors.
 *   x    [n][input_n]
 *   out  [n][numbers_n] written; raw: [n][outputs_n], what the model's last layer gives
 * Samples are scaled where the data that the weights are for was. Stopped by the listener:
 * UW_ERR_AGAIN. */
int uw_session_predict(struct uw_session *s, const float *x, uint32_t n, bool raw, float *out);

/* Write the weights to a file, or take those of a file ("FILE,loose": what fits). */
int uw_session_save(struct uw_session *s, const char *file);
int uw_session_load(struct uw_session *s, const char *file);

/* The same in memory, as safetensors; loose: what fits. Of get, *bytes is valid until the next
 * call. */
int uw_session_get_weights(struct uw_session *s, const void **bytes, size_t *bytes_n);
int uw_session_set_weights(struct uw_session *s, const void *bytes, size_t bytes_n, bool loose);

UW_C_END
#endif
