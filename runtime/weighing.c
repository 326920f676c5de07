/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross-entropy that weighs samples by their class, sum of w[label] loss / sum of w[label] over the
 * minibatch, from the kernels that compute it of one row. */
#include "flight.h"
#include "step.h"

#include "uwasa/parts.h"

static int check(const struct uw_model *m, struct uw_error *err)
{
    if (uw_device_of(m) != NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "class weights are not computed on a GPU");
    }
    if (m->heads[0].def->kind != UW_LOSS_CROSS_ENTROPY) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "class weights need the loss cross_entropy");
    }
    for (uint32_t i = 0; i < m->heads_n; i++) {
        if (m->heads[i].def->label_smoothing != 0.0f) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "class weights do not go together with label smoothing");
        }
    }
    return UW_OK;
}

static double sum_of_weights(const struct uw_model *m, const struct uw_minibatch *b)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < b->n; i++) {
        sum += (double)m->class_weights[b->label[i]];
    }
    return sum;
}

/* *loss is such that its sum over the minibatch, divided by b->n, is the weighted mean. */
static int forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *p, double *loss, uint32_t *correct_n)
{
    const float *z = uw_value_of(m, h->value, s->x);
    const uint32_t *label = s->b->label + s->pass->first;
    double sum = 0.0;
    int rc = UW_OK;
    *correct_n = 0;
    for (uint32_t i = 0; i < s->pass->batch_n && rc == UW_OK; i++, z += h->n, p += h->n) {
        double one = 0.0;
        uint32_t correct = 0;
        rc = m->config.kernels->softmax_xent_fw(&m->exec, 1, h->n, 0.0f, z, label + i, p, &one,
                                                &correct);
        sum += (double)m->class_weights[label[i]] * one;
        *correct_n += correct;
    }
    *loss = sum * s->b->n / sum_of_weights(m, s->b);
    return rc;
}

static int backward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double scale, float *dy)
{
    const uint32_t *label = s->b->label + s->pass->first;
    double share = scale / sum_of_weights(m, s->b);
    int rc = UW_OK;
    for (uint32_t i = 0; i < s->pass->batch_n && rc == UW_OK; i++, dy += h->n) {
        float factor = (float)(share * (double)m->class_weights[label[i]]);
        rc = m->config.kernels->softmax_xent_bw_input(&m->exec, 1, h->n, 0.0f, dy, label + i,
                                                      factor, dy);
    }
    return rc;
}

const struct uw_weighing uw_weighing = {.check = check, .forward = forward, .backward = backward};
