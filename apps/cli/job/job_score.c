/* SPDX-License-Identifier: Apache-2.0 */
#include "job_score.h"

#include "job_data.h"

#include <math.h>
#include <stdio.h>

/* The loss and the right answers of one output and two classes, from the logits. */
static int evaluate_binary(struct uw_model *m, uint32_t n, double *loss, uint32_t *correct_n)
{
    uint32_t most = m->config.micro_n != 0 ? m->config.micro_n : n;
    for (uint32_t first = 0; first < n; first += most) {
        uint32_t part = n - first < most ? n - first : most;
        const float *logits;
        int rc = uw_model_forward(m, m->input + (size_t)first * m->input_n, part, &logits);
        for (uint32_t i = 0; rc == UW_OK && i < part; i++) {
            double z = logits[i], t = m->target[first + i];
            *loss += (z > 0.0 ? z : 0.0) - z * t + log1p(exp(-fabs(z)));
            *correct_n += (z > 0.0) == (t > 0.5);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return UW_OK;
}

/* How many answers n samples ask for: one each, or one for each position that counts. */
static uint64_t count_answers(const struct uw_job *j, uint32_t n)
{
    const struct uw_model *m = &j->model;
    const struct uw_loss_def *l = j->file.def.losses;
    uint64_t counted = 0;
    if (l == NULL || l->kind != UW_LOSS_CROSS_ENTROPY || l->target != UW_TARGET_VALUES) {
        return n;
    }
    for (uint32_t i = 0; i < n; i++) {
        const float *t = m->target + (size_t)i * m->target_n + l->first;
        for (uint32_t k = 0; k < uw_model_positions(m); k++) {
            counted += t[k] >= 0.0f;
        }
    }
    return counted;
}

int uw_job_evaluate(struct uw_job *j, struct uw_dataset *data, uint64_t limit,
                    bool (*stop)(void *), void *arg, struct uw_score *score)
{
    struct uw_model *m = &j->model;
    struct uw_loader loader;
    double loss = 0.0;
    uint64_t correct = 0, answers = 0;
    *score = (struct uw_score){.labels = uw_job_has_labels(j)};
    int rc = uw_loader_init(&loader, &(struct uw_loader_config){.dataset = data,
                                                                .batch_n = j->config.batch_n,
                                                                .no_shuffle = true});
    while (rc >= 0 && loader.epoch == 0 && (limit == 0 || score->samples_n < limit)) {
        uint32_t correct_n = 0;
        if (stop != NULL && stop(arg)) {
            return UW_ERR_AGAIN;
        }
        rc = uw_loader_next(&loader, m->input, m->label, uw_job_target(m));
        if (rc > 0) {
            uint64_t left = limit == 0 ? UINT64_MAX : limit - score->samples_n;
            uint32_t n = left < (uint32_t)rc ? (uint32_t)left : (uint32_t)rc;
            uint64_t asked = count_answers(j, n);
            double sum = 0.0;
            score->samples_n += n;
            rc = uw_job_is_binary(j)
                     ? evaluate_binary(m, n, &sum, &correct_n)
                     : uw_model_evaluate(m, &(struct uw_minibatch){.n = n}, &sum, &correct_n);
            correct += correct_n;
            answers += asked;
            loss += sum * (double)asked / n;    /* where positions count, their mean */
        }
    }
    if (rc < 0) {
        return rc;
    }
    score->accuracy = answers != 0 ? (double)correct / (double)answers : 0.0;
    score->loss = answers != 0 ? loss / (double)answers : (double)NAN;  /* no place counts */
    return UW_OK;
}

const char *uw_score_text(const struct uw_score *s, char text[UW_SCORE_TEXT_BYTES])
{
    int n = s->labels ? snprintf(text, UW_SCORE_TEXT_BYTES, "test accuracy %.2f %%  ",
                                 100.0 * s->accuracy)
                      : snprintf(text, UW_SCORE_TEXT_BYTES, "test ");
    snprintf(text + n, UW_SCORE_TEXT_BYTES - (size_t)n, "loss %.4f", s->loss);
    return text;
}

void uw_score_print(const struct uw_score *s)
{
    if (s->labels) {
        printf("test accuracy  %.2f %%\n", 100.0 * s->accuracy);
    }
    printf("test loss      %.4f\n", s->loss);
}
