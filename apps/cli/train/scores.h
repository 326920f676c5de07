/* SPDX-License-Identifier: Apache-2.0
 *
 * scores.h - the figures of a test: of classes, of values, of an autoencoder's errors
 *
 *     uw_scores_open(&s, &answers, &err);
 *     uw_scores_add(&s, out, &minibatch, &err);           for each minibatch of outputs
 *     uw_scores_print(&s); uw_scores_json(&s, event);
 *     uw_scores_close(&s);
 *
 * Of a class c: precision is the share of answers c that are right, recall the share of samples of
 * class c that are found, F1 = 2 precision recall / (precision + recall). The means over classes
 * count every class with samples the same. R2 = 1 - sum d^2 / sum (t - mean t)^2, the mean over
 * outputs. The area under the ROC curve is the probability that a sample of label 1 has a larger
 * error than one of label 0; of two classes, a larger number of class 1.
 *
 * Memory     heap: 8 bytes an error, or a sample of two classes; 8 bytes a class pair up to
 *            UW_SCORES_PAIRS_MAX classes
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_CLI_SCORES_H
#define UWASA_CLI_SCORES_H

#include "job/answer.h"

#define UW_SCORES_PAIRS_MAX 1000u   /* classes, for a matrix of confusion */
#define UW_SCORES_SHOWN_MAX 20u     /* classes that are printed */

struct uw_scores_class {
    uint64_t samples_n, answers_n, right_n;
};

/* Of one output of values; its sums are by Welford's method. */
struct uw_scores_value {
    double mean, spread, squared, absolute;
};

struct uw_scores {
    const struct uw_answers *answers;
    uint64_t samples_n;
    uint64_t judged_n, right_n;         /* samples, or positions of masks */
    double loss_sum;
    struct uw_scores_class *class;      /* [classes_n] of classes */
    uint64_t *pairs;                    /* [label][answer]; NULL: too many classes */
    struct uw_scores_value *value;      /* [numbers_n] of values */
    float *error;                       /* [errors_n] of an autoencoder; of two classes the number
                                           of class 1 */
    uint32_t *label;                    /* [errors_n] beside them */
    size_t errors_n, errors_cap;
    uint32_t labels_max;
    float threshold;                    /* set by the caller: of anomalies; 0: none */
    float *numbers, *room;
    size_t room_n;
};

/* Returns UW_OK or UW_ERR_NOMEM, err filled. Close in every case. */
int uw_scores_open(struct uw_scores *s, const struct uw_answers *answers, struct uw_error *err);

/* Count the outputs for a minibatch; b->label may be NULL if the answers are not classes, b->target
 * if they are not values. Returns UW_OK, UW_ERR_INVALID (a label above the classes) or
 * UW_ERR_NOMEM, err filled. */
int uw_scores_add(struct uw_scores *s, const float *out, const struct uw_minibatch *b,
                  struct uw_error *err);

/* Count all samples of a set, in order; with --loss none they are only computed.
 *   stop  asked before each minibatch; true: give up. NULL: none
 * Returns UW_OK, UW_ERR_AGAIN (stopped), or as uw_scores_add and the set. */
int uw_scores_run(struct uw_scores *s, struct uw_job *job, struct uw_dataset *data,
                  bool (*stop)(void *), void *arg, struct uw_error *err);

/* The area under the ROC curve; NAN: there are not two classes, or labels are not 0 and 1. */
double uw_scores_auc(const struct uw_scores *s);

/* Of a class, or the means over the classes with samples. NAN: there is none; a mean counts it
 * as 0. */
struct uw_scores_figures {
    double precision, recall, f1, iou;
};
struct uw_scores_figures uw_scores_of_class(const struct uw_scores_class *c);
struct uw_scores_figures uw_scores_means(const struct uw_scores *s);

/* Over all values; R2 of one, and their mean. */
struct uw_scores_values {
    double mae, rmse, r2;
};
struct uw_scores_values uw_scores_values(const struct uw_scores *s);
double uw_scores_r2(const struct uw_scores_value *v);

/* What the threshold says of an autoencoder's samples, as of two classes: normal and anomaly. */
void uw_scores_judge(const struct uw_scores *s, struct uw_scores_class of[2]);

/* Share of right answers; mean loss. */
double uw_scores_accuracy(const struct uw_scores *s);
double uw_scores_loss(const struct uw_scores *s);

/* Print all figures but accuracy and loss, to standard output. */
void uw_scores_print(const struct uw_scores *s);

/* Add them to an event. */
void uw_scores_json(const struct uw_scores *s, cJSON *ev);

/* Safe on a zeroed struct and twice. */
void uw_scores_close(struct uw_scores *s);

#endif
