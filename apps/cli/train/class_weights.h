/* SPDX-License-Identifier: Apache-2.0
 *
 * class_weights.h - how much samples of each class count in training, from --class-weights; of
 * masks, places of each class
 *
 * "balanced" gives class c the weight n / (k n_c): n samples, n_c of them of class c, k classes
 * with samples. So all classes count the same, and the mean weight of a sample is 1.
 *
 * Memory     [classes] floats of the heap, the caller frees them      Blocking  reads the samples
 * Context    one thread
 */
#ifndef UWASA_CLI_CLASS_WEIGHTS_H
#define UWASA_CLI_CLASS_WEIGHTS_H

#include "job/job.h"

#include "uwasa/dataset.h"

/* Read the weights of a planned job's classes, or count them in the first epoch of `data`.
 *   text     "balanced", or numbers above 0 with commas between them, one a class
 *   weights  set to [classes]
 * Returns the number of classes, UW_ERR_INVALID (text; a model without class labels),
 * UW_ERR_NOMEM, or what reading gives; err filled. */
int uw_class_weights_read(const struct uw_job *j, struct uw_dataset *data, const char *text,
                          float **weights, struct uw_error *err);

#endif
