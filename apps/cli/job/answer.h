/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.h - what the output of a model means: classes, values or an error, by its first loss
 *
 *     cross_entropy                   softmax: a probability for each class; of a class for each
 *                                     position the classes, as numbers
 *     binary_cross_entropy            sigmoid: a probability for each output; a single output
 *                                     stands for class 1 of two
 *     mse, l1, huber                  the outputs themselves, brought back to the units of the
 *                                     training data; with labels the largest is the class
 *     any, with "target": "input"     the error: the loss between the sample and its output
 *
 *     uw_answers_init(&a, &job);                       after bind
 *     uw_model_forward(&job.model, x, n, &out);
 *     uw_answers_read(&a, out, x, numbers);            for each sample
 *
 * Memory     the caller's; the job is borrowed      Blocking  never      Context  one thread
 */
#ifndef UWASA_CLI_ANSWER_H
#define UWASA_CLI_ANSWER_H

#include "job.h"

#include "uwasa/data.h"

enum uw_answer_kind {
    UW_ANSWER_CLASS, UW_ANSWER_VALUES, UW_ANSWER_ERROR,
    UW_ANSWER_MASK              /* a class for each position */
};

struct uw_answers {
    enum uw_answer_kind kind;
    uint32_t outputs_n;         /* floats of the model's output for a sample */
    uint32_t numbers_n;         /* of an answer: classes, values or positions; of an error 1 */
    uint32_t classes_n;         /* of classes and masks; 2 where each value is the probability that
                                   something is so */
    const char *const *names;   /* [classes_n] of classes; NULL: they are numbers */
    bool probabilities;         /* numbers are between 0 and 1 */
    const float *mean, *inverse;        /* [numbers_n] of values: an output is (answer - mean) *
                                           inverse; NULL: it is the answer */

    /* private */
    const struct uw_loss_def *loss;     /* NULL: cross_entropy */
    const struct uw_kernels *kernels;   /* the processor's */
    uint32_t input_n, target_n; /* floats of a sample, and of the values beside it */
    float weight;
};

/* Find out what the answers of a bound job are. */
void uw_answers_init(struct uw_answers *a, const struct uw_job *j);

/* The names of classes in a table's columns, for a->names; NULL: it has none, or other ones. */
const char *const *uw_answers_names(const struct uw_answers *a, const struct uw_data_columns *c);

/* Take the names of classes and the scale of values from a table's columns, which are borrowed;
 * NULL: there are none. */
void uw_answers_take(struct uw_answers *a, const struct uw_data_columns *c);

/* The answer that number i of an output, or of a target, stands for. */
static inline float uw_answers_value(const struct uw_answers *a, uint32_t i, float x)
{
    return a->mean != NULL ? x / a->inverse[i] + a->mean[i] : x;
}

/* Turn the output for one sample into an answer.
 *   out      [outputs_n] of uw_model_forward
 *   x        [input_n] the sample; only an error needs it
 *   numbers  [numbers_n] written */
void uw_answers_read(const struct uw_answers *a, const float *out, const float *x,
                     float *numbers);

/* The probability of every class at each position of a mask.
 *   p  [outputs_n] written, in the order of out */
void uw_answers_probabilities(const struct uw_answers *a, const float *out, float *p);

/* The answers of another device's model, from what it tells of itself: form is uw_answers_form of
 * its answers. uw_answers_read and uw_answers_loss are not for them. Returns UW_OK, or
 * UW_ERR_UNSUPPORTED (a later version's form). */
uint32_t uw_answers_form(const struct uw_answers *a);
int uw_answers_told(struct uw_answers *a, uint32_t form, uint32_t numbers_n);

/* The class of an answer: the largest number, the first of equals. */
uint32_t uw_answers_class(const struct uw_answers *a, const float *numbers);

/* Write the n largest numbers' places to `top`, the largest first; n is numbers_n at most. */
void uw_answers_top(const struct uw_answers *a, const float *numbers, uint32_t n, uint32_t *top);

/* The label of a sample: `label`, or the class that its target tells; UW_ANSWER_NO_LABEL: it does
 * not count. target NULL: none. */
#define UW_ANSWER_NO_LABEL UINT32_MAX
uint32_t uw_answers_label(const struct uw_answers *a, uint32_t label, const float *target);

/* The values beside sample i that the first loss reads; target as uw_answers_loss has it. */
const float *uw_answers_target(const struct uw_answers *a, const float *target, uint32_t i);

/* Sum of the losses of samples, as uw_model_evaluate computes it.
 *   out      [rows][outputs_n]      x  [rows][input_n]
 *   label    [rows] below outputs_n, or of two classes; read if answers are classes
 *   target   [rows][target_n]; read if the loss has values
 *   room     [rows][outputs_n] overwritten
 * Of masks it is the sum over the positions that count. */
double uw_answers_loss(const struct uw_answers *a, uint32_t rows, const float *out, const float *x,
                       const uint32_t *label, const float *target, float *room);

/* "7", or the class's name. Returns text or the name. */
#define UW_ANSWER_TEXT_BYTES 16u
const char *uw_answers_name(const struct uw_answers *a, uint32_t class,
                            char text[UW_ANSWER_TEXT_BYTES]);

#endif
