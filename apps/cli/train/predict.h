/* SPDX-License-Identifier: Apache-2.0
 *
 * predict.h - a run of `uwasa predict`: what its parts share
 *
 * cmd_predict.c has the options, the samples and the model; predict_node.c asks a node;
 * predict_say.c writes an answer, predict_array.c all of them as an array.
 *
 * Memory     heap      Blocking  say: until a slow reader has read more      Context  one thread
 */
#ifndef UWASA_CLI_PREDICT_H
#define UWASA_CLI_PREDICT_H

#include "predict_array.h"
#include "predict_node.h"
#include "base/events.h"
#include "base/progress.h"
#include "job/answer.h"
#include "job/job_data.h"

#include "uwasa/data.h"
#include "uwasa/table_rows.h"

struct uw_predict_options {
    const char *model, *data, *weights, *json, *save;
    struct uw_job_onnx onnx;
    struct uw_predict_node_config node;     /* address NULL: the model is here */
    struct uw_choice backend, loss;
    uint32_t batch, threads, top;
    uint64_t samples, seed;
    double threshold;           /* below 0: that of the weights */
    bool probabilities, exact, tf32;
};

/* Samples from rows or from a dataset, and the answers to them. */
struct uw_predict {
    const struct uw_predict_options *o;
    struct uw_job job;              /* zeros with a node */
    struct uw_predict_node *node;   /* NULL: the model is here */
    uint32_t sample_n;
    float *asked;                   /* [sample_n] with a node */
    struct uw_answers answers;
    struct uw_job_columns columns;  /* of the training data, from the weights */
    struct uw_table_rows rows;
    struct uw_data data;
    struct uw_events events;
    struct uw_progress progress;
    uint64_t samples;           /* answered */
    uint32_t batch_n;
    float threshold;            /* of anomalies; 0: none */
    float *numbers;             /* [answers.numbers_n] */
    float *each;                /* [answers.outputs_n] of masks, the probability of each class at
                                   each place; NULL: not asked for */
    struct uw_predict_array array;
    uint32_t *top;              /* [answers.numbers_n] */
    bool told;                  /* how the rows were read */
};

/* Whether answers are classes. */
bool uw_predict_has_classes(const struct uw_predict *p);

/* Write what p->numbers say of the next sample. label NULL: it has none. */
void uw_predict_say(struct uw_predict *p, const uint32_t *label);

#endif
