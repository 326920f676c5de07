/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers what others ask about samples, between two steps. */
#include "node_work.h"

#include <stdlib.h>
#include <string.h>

#define SCALE_FEATURES_MAX 4096u    /* whose scale is told */

/* Whether gaps get means: the scale is a standard one. */
static bool fills_gaps(const struct uw_data_columns *c)
{
    return c->features_n <= SCALE_FEATURES_MAX &&
           uw_node_work_has_means(c->mean, c->features_n);
}

/* What samples are. Scaling them is this node's part: the scale is told for gaps, which get the
 * means. NULL: nothing is known. */
static char *text_of(const struct uw_data_columns *c)
{
    if (c == NULL || (c->features == NULL && c->classes == NULL && c->places == NULL &&
                      c->sound == NULL && !fills_gaps(c))) {
        return NULL;
    }
    struct uw_data_columns told = *c;
    told.target_mean = told.target_inverse = NULL;
    if (!fills_gaps(c)) {
        told.mean = told.inverse = NULL;
    }
    return uw_job_columns_text(&told, NULL);
}

int uw_node_work_open_queries(struct uw_node_work *r)
{
    const struct uw_model *m = &r->job.model;
    struct uw_queries *q = &r->queries;
    uw_answers_init(&r->answers, &r->job);
    uw_answers_take(&r->answers, uw_data_columns(&r->data));
    q->sample_n = m->input_n;
    q->numbers_n = r->answers.numbers_n;
    q->form = uw_answers_form(&r->answers);
    q->threshold = m->anomaly_threshold;
    q->text = r->queries_text = text_of(uw_data_columns(&r->data));
    q->text_n = q->text != NULL ? (uint32_t)strlen(q->text) : 0;
    q->sample = malloc((size_t)q->sample_n * sizeof *q->sample);
    q->numbers = malloc((size_t)q->numbers_n * sizeof *q->numbers);
    return q->sample != NULL && q->numbers != NULL
               ? UW_OK
               : uw_error_set(&r->err, UW_ERR_NOMEM, "no memory for questions about samples");
}

void uw_node_work_close_queries(struct uw_node_work *r)
{
    free(r->queries.sample);
    free(r->queries.numbers);
    free(r->queries_text);
    r->queries_text = NULL;
    r->queries = (struct uw_queries){.sample = NULL};
}

int uw_node_work_answer(struct uw_node_work *r)
{
    struct uw_queries *q = &r->queries;
    const float *out;
    if (r->begun != r->step || !uw_queries_next(q)) {
        return UW_OK;
    }
    const struct uw_data_columns *c = uw_data_columns(&r->data);
    for (uint32_t i = 0; c != NULL && c->mean != NULL && i < q->sample_n; i++) {
        q->sample[i] = (q->sample[i] - c->mean[i]) * c->inverse[i];
    }
    int rc = uw_model_forward(&r->job.model, q->sample, 1, &out);
    for (uint32_t i = 0; i < q->numbers_n; i++) {
        q->numbers[i] = 0.0f;       /* of a sample that the model does not take */
    }
    if (rc == UW_OK) {
        uw_answers_read(&r->answers, out, q->sample, q->numbers);
    }
    uw_queries_answer(q);
    uw_node_net_wake(&r->net);
    return rc == UW_OK || rc == UW_ERR_INVALID
               ? UW_OK
               : uw_error_set(&r->err, rc, "a question about a sample: %s", uw_status_text(rc));
}
