/* SPDX-License-Identifier: Apache-2.0
 *
 * job_score.h - a test of a job's weights: accuracy and mean loss
 *
 * Blocking   as the dataset      Context  one thread
 */
#ifndef UWASA_CLI_JOB_SCORE_H
#define UWASA_CLI_JOB_SCORE_H

#include "job.h"

#include "uwasa/dataset.h"

struct uw_score {
    double accuracy, loss;      /* accuracy 0 if the loss does not use labels */
    uint64_t samples_n;
    bool labels;                /* the loss uses labels */
};

/* Accuracy and mean loss over one epoch of `data`, in order. Uses the model's minibatch.
 *
 *   limit  most samples; 0: all
 *   score  samples_n is updated during the evaluation
 *   stop   called between minibatches, may be NULL; returns true to give up
 *
 * Returns UW_OK, UW_ERR_AGAIN (stopped), or the dataset's error. */
int uw_job_evaluate(struct uw_job *j, struct uw_dataset *data, uint64_t limit,
                    bool (*stop)(void *), void *arg, struct uw_score *score);

/* "test accuracy 97.25 %  loss 0.0953"; without labels the loss alone. */
#define UW_SCORE_TEXT_BYTES 64u
const char *uw_score_text(const struct uw_score *s, char text[UW_SCORE_TEXT_BYTES]);

/* Print it as lines of a result, to standard output. */
void uw_score_print(const struct uw_score *s);

#endif
