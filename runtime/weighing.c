/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross-entropy that weighs samples by their class, sum of w[label] loss / sum of w[label] over the
 * minibatch, from the kernels that compute it of one row. Of one sigmoid output the class is the
 * target, rounded. */
#include "flight.h"
#include "step.h"

#include "uwasa/parts.h"

/* Whether the head is the first one and tells two classes apart by one output. */
static bool is_binary(const struct uw_model *m, const struct uw_head *h)
{
    return h == &m->heads[0] && h->def->kind == UW_LOSS_BINARY_CROSS_ENTROPY &&
           h->def->target == UW_TARGET_VALUES && h->n == 1;
}

static bool weighs(const struct uw_model *m, const struct uw_head *h)
{
    return is_binary(m, h) || (h->def->kind == UW_LOSS_CROSS_ENTROPY &&
                               h->def->target == UW_TARGET_LABEL && h->n == m->classes);
}

static int check(const struct uw_model *m, struct uw_error *err)
{
    if (uw_device_of(m) != NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "class weights are not computed on a GPU");
    }
    if (m->heads[0].def->kind != UW_LOSS_CROSS_ENTROPY && !is_binary(m, &m->heads[0])) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "class weights need the loss cross_entropy, "
                            "or binary_cross_entropy of one output");
    }
    for (uint32_t i = 0; i < m->heads_n; i++) {
        if (m->heads[i].def->label_smoothing != 0.0f) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "class weights do not go together with label smoothing");
        }
    }
    return UW_OK;
}

/* The only value of sample i that the head compares with. */
static const float *value_of(const struct uw_model *m, const struct uw_minibatch *b,
                             const struct uw_head *h, uint32_t i)
{
    return b->target + (size_t)i * m->target_n + h->def->first;
}

static double weight_of(const struct uw_model *m, const struct uw_minibatch *b,
                        const struct uw_head *h, uint32_t i)
{
    uint32_t class = !is_binary(m, h) ? b->label[i]
                     : *value_of(m, b, h, i) >= 0.5f ? 1 : 0;
    return (double)m->class_weights[class];
}

static double sum_of_weights(const struct uw_model *m, const struct uw_minibatch *b,
                             const struct uw_head *h)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < b->n; i++) {
        sum += weight_of(m, b, h, i);
    }
    return sum;
}

/* *loss is such that its sum over the minibatch, divided by b->n, is the weighted mean. */
static int forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *p, double *loss, uint32_t *correct_n)
{
    const float *z = uw_value_of(m, h->value, s->x);
    bool binary = is_binary(m, h);
    double sum = 0.0;
    int rc = UW_OK;
    *correct_n = 0;
    for (uint32_t i = 0; i < s->pass->batch_n && rc == UW_OK; i++, z += h->n, p += h->n) {
        double one = 0.0;
        uint32_t correct = 0, at = s->pass->first + i;
        rc = binary ? m->config.kernels->loss->forward(&m->exec, UW_ELEMENTWISE_BCE, 1.0f, 1, z,
                                                       value_of(m, s->b, h, at), &one)
                    : m->config.kernels->softmax_xent_fw(&m->exec, 1, h->n, 0.0f, z,
                                                         s->b->label + at, p, &one, &correct);
        sum += weight_of(m, s->b, h, at) * one;
        *correct_n += correct;
    }
    *loss = sum * s->b->n / sum_of_weights(m, s->b, h);
    return rc;
}

static int backward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double scale, float *dy)
{
    const float *z = uw_value_of(m, h->value, s->x);
    bool binary = is_binary(m, h);
    double share = scale / sum_of_weights(m, s->b, h);
    int rc = UW_OK;
    for (uint32_t i = 0; i < s->pass->batch_n && rc == UW_OK; i++, z += h->n, dy += h->n) {
        uint32_t at = s->pass->first + i;
        float factor = (float)(share * weight_of(m, s->b, h, at));
        rc = binary ? m->config.kernels->loss->bw_input(&m->exec, UW_ELEMENTWISE_BCE, 1.0f, 1, z,
                                                        value_of(m, s->b, h, at), factor, dy)
                    : m->config.kernels->softmax_xent_bw_input(&m->exec, 1, h->n, 0.0f, dy,
                                                               s->b->label + at, factor, dy);
    }
    return rc;
}

const struct uw_weighing uw_weighing = {
    .check = check, .weighs = weighs, .forward = forward, .backward = backward};
