/* SPDX-License-Identifier: Apache-2.0
 *
 * job_data.h - the data that a job trains or tests on, and the loss that both ask for
 *
 *     uw_job_plan(&job, &config, &err);            config.waits: the loss waits for the data
 *     uw_job_open_data(&job, &data_config, &train, &test, &err);
 *     uw_job_bind(&job, &err);
 *
 * A model file says what its loss is, or --loss does. Otherwise the model's outputs and the data
 * decide: as many outputs as classes are logits of a cross-entropy; one output and two classes a
 * binary cross-entropy; values, a squared error, but as many values of 0 and 1 as outputs a binary
 * cross-entropy, and as many classes as positions of the output a cross-entropy at each; a table
 * without labels and as many outputs as inputs, an autoencoder. What was decided is told on
 * standard error, and so is what was found in a table.
 *
 * Blocking   reads the data's files      Context  one thread
 */
#ifndef UWASA_CLI_JOB_DATA_H
#define UWASA_CLI_JOB_DATA_H

#include "job.h"
#include "job_columns.h"

#include "uwasa/data.h"

enum uw_loss_word {
    UW_LOSS_AUTO = 0,           /* the model file's, or by outputs and data */
    UW_LOSS_WORD_CROSS_ENTROPY, UW_LOSS_WORD_BINARY, UW_LOSS_WORD_MSE, UW_LOSS_WORD_L1,
    UW_LOSS_WORD_HUBER, UW_LOSS_WORD_AUTOENCODER,
    UW_LOSS_WORD_NONE           /* tests only: outputs are computed, and compared with nothing */
};

/* The words in this order, but for "none", for an option of kind UW_OPT_CHOICE, and its help. */
#define UW_LOSS_WORDS "auto|cross_entropy|binary|mse|l1|huber|autoencoder"
#define UW_LOSS_HELP                                                                              \
    "cross_entropy: labels, or a class for each pixel or token; binary: two classes, one output; " \
    "mse, l1, huber: values; autoencoder: the sample itself, mse; auto: the model file's, or by "  \
    "outputs and data; of several outputs a word for each, WORD,WORD (auto)"
#define UW_LOSS_DEFAULT {"auto", UW_LOSS_AUTO}

struct uw_job_data_config {
    const char *spec;           /* as given to --data */
    struct uw_choice loss;      /* enum uw_loss_word */
    struct uw_data_config data; /* of the training set; the job fills in the model's shape */
    const char *weights;        /* loaded weights: columns, classes and loss are read as they were
                                   in their training, if the file tells; of FILE,loose a
                                   set for training takes no loss. NULL: none */
    const char *columns;        /* what such a file tells, instead; NULL: it is read */
};

/* Open training set and test set, choose the loss, check that model and data fit, and count bytes
 * again where the loss has changed. Prints what was found on standard error.
 *   train, test  closed before; one of them may be NULL. Close them in any case.
 * Returns what uw_data_open and uw_job_fit return, err filled. */
int uw_job_open_data(struct uw_job *j, const struct uw_job_data_config *c, struct uw_data *train,
                     struct uw_data *test, struct uw_error *err);

/* Choose the loss for a set that is open, check and count, without a word; for further jobs.
 * Returns UW_OK, UW_ERR_MISMATCH (err names both and what would fit), or an error of
 * uw_job_measure. */
int uw_job_fit(struct uw_job *j, const struct uw_data *set, const char *spec,
               struct uw_choice loss, struct uw_error *err);

/* Choose the loss without data: --loss, the model file's, that of the weights' training, or as
 * uw_job_settle_loss. Counts again where it has changed. Returns UW_OK, UW_ERR_MISMATCH or an error
 * of uw_job_measure; err filled. */
int uw_job_take_loss(struct uw_job *j, struct uw_choice loss, const struct uw_job_columns *earlier,
                     struct uw_error *err);

/* Whether the loss is a cross-entropy of one output and two classes. */
bool uw_job_is_binary(const struct uw_job *j);

/* Whether the outputs are a row of logits, and no image or sequence. */
bool uw_job_has_logits(const struct uw_job *j);

/* Positions that have a class each in the first loss, or 1. */
uint32_t uw_job_positions(const struct uw_job *j);

/* Whether the model is a classifier: its loss compares with no values and not with the sample. */
bool uw_job_has_labels(const struct uw_job *j);

/* Where uw_loader_next writes targets; NULL: the loss wants none. */
static inline float *uw_job_target(const struct uw_model *m)
{
    return m->target_n != 0 ? m->target : NULL;
}

#endif
