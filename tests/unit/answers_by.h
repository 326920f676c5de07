/* SPDX-License-Identifier: Apache-2.0
 *
 * What outputs mean, without a model behind them. */
#ifndef UWASA_TESTS_ANSWERS_BY_H
#define UWASA_TESTS_ANSWERS_BY_H

#include "job/answer.h"

#include "uwasa/backends.h"

/* Answers to outputs_n outputs by a loss; loss NULL: cross-entropy. */
static inline struct uw_answers answers_by(const struct uw_loss_def *loss, uint32_t outputs_n)
{
    struct uw_job job = {.config = {.kernels = &uw_kernels_ref},
                         .file = {.def = {.losses = loss, .losses_n = loss != NULL}},
                         .model = {.classes = outputs_n, .input_n = outputs_n}};
    job.model.target_n = loss != NULL && loss->target == UW_TARGET_VALUES ? outputs_n : 0;
    struct uw_answers a;
    uw_answers_init(&a, &job);
    return a;
}

#endif
