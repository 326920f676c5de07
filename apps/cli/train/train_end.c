/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "job/answer.h"

#include "uwasa/anomaly.h"
#include "uwasa/board.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the best weights ---- */

/* Let the model have the weights of the best test. */
static int keep_best(struct uw_train *t)
{
    struct uw_best *b = &t->best;
    const char *word = t->validation.data != NULL ? "validation" : "test";
    if (!b->keep || b->swapped || !b->judged) {
        return UW_OK;
    }
    uw_progress_print(&t->progress, "best: the weights of step %llu (%s loss %.4f) are kept, those "
                                    "of step %llu %s",
                      (unsigned long long)b->step, word, b->loss, (unsigned long long)t->step,
                      b->step == t->step     ? "are the same"
                      : t->o->save != NULL   ? "are beside them in the file, for --resume"
                                             : "are dropped");
    if (b->step == t->step) {
        return UW_OK;
    }
    int rc = uw_best_swap(b, &t->job.model);
    t->test.done = t->validation.done = false;
    t->changed = true;
    return rc < 0 ? uw_error_set(&t->err, rc, "the best weights: %s", uw_status_text(rc)) : rc;
}

/* ---- anomalies ---- */

/* The errors of an epoch of samples. Returns how many, or a code; UW_ERR_AGAIN: stopped. */
static int collect_errors(struct uw_train *t, struct uw_dataset *data, float *error)
{
    struct uw_model *m = &t->job.model;
    struct uw_answers answers;
    struct uw_loader loader;
    int n = 0;
    uw_answers_init(&answers, &t->job);
    int rc = uw_loader_init(&loader, &(struct uw_loader_config){.dataset = data,
                                                                .batch_n = m->config.micro_n,
                                                                .no_shuffle = true});
    while (rc >= 0 && loader.epoch == 0) {
        const float *out;
        if (uw_stop_asked(&t->stop)) {
            return UW_ERR_AGAIN;
        }
        if (uw_progress_due(&t->progress, uw_board_now_us())) {
            uw_progress_show(&t->progress, "errors of %d/%u samples", n,
                             (unsigned)data->samples_n);
        }
        rc = uw_loader_next(&loader, m->input, m->label, NULL);
        uint32_t batch_n = rc > 0 ? (uint32_t)rc : 0;
        rc = rc < 0 ? rc : uw_model_forward(m, m->input, batch_n, &out);
        for (uint32_t i = 0; i < batch_n && rc >= 0; i++) {
            uw_answers_read(&answers, out + (size_t)i * answers.outputs_n,
                            m->input + (size_t)i * m->input_n, &error[n++]);
        }
    }
    return rc < 0 ? rc : n;
}

/* Set the threshold of anomalies from samples that were not trained on, if there are some. */
static int set_threshold(struct uw_train *t)
{
    struct uw_dataset *data = t->validation.data != NULL ? t->validation.data
                                                         : t->loader.config.dataset;
    if (t->o->anomaly_percentile < 0.0) {
        return UW_OK;
    }
    float *error = malloc((size_t)data->samples_n * sizeof *error);
    int rc = error != NULL ? collect_errors(t, data, error) : UW_ERR_NOMEM;
    if (rc == UW_ERR_AGAIN) {
        t->interrupted = true;
    } else if (rc < 0) {
        uw_error_set(&t->err, rc, "the threshold of anomalies: %s", uw_status_text(rc));
    } else {
        t->job.model.anomaly_threshold =
            uw_anomaly_percentile(error, (uint32_t)rc, t->o->anomaly_percentile);
        t->changed = true;
        uw_progress_print(&t->progress, "anomalies: errors above %.6g, the percentile %g of %d %s "
                                        "samples", (double)t->job.model.anomaly_threshold,
                          t->o->anomaly_percentile, rc,
                          t->validation.data != NULL ? "validation" : "training");
    }
    free(error);
    return rc < 0 && rc != UW_ERR_AGAIN ? rc : UW_OK;
}

int uw_train_end(struct uw_train *t)
{
    int rc = t->best.on && t->best.judged ? UW_OK : uw_train_test_epoch(t);
    rc = rc < 0 || t->interrupted ? rc : keep_best(t);
    rc = rc < 0 || t->interrupted ? rc : set_threshold(t);
    rc = rc < 0 || !t->changed ? rc : uw_train_save(t);
    return rc < 0 || t->interrupted ? rc : uw_train_evaluate(t, &t->test);
}
