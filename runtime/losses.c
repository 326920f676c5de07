/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward part stores probabilities, or the targets of an elementwise loss, where the gradient
 * of the output will be written: in training a loss needs no memory of its own. */
#include "step.h"

#include "uwasa/parts.h"


UW_STEP_PART float *uw_loss_gradient(const struct uw_model *m, const struct uw_head *h)
{
    uint32_t base = uw_graph_base(m->layers, h->value);
    return base == UW_VALUE_INPUT ? NULL : m->layers[base - 1].dy;
}

/* Where the forward part of head h stores its probabilities or targets, h->n floats per sample. */
static float *buffer_of(const struct uw_model *m, const struct uw_head *h)
{
    float *dy = uw_loss_gradient(m, h);
    return dy != NULL ? dy : m->probabilities;
}

UW_STEP_PART double uw_loss_weight(const struct uw_loss_def *d)
{
    return d->weight != 0.0f ? (double)d->weight : 1.0;
}

static bool is_elementwise(const struct uw_head *h)
{
    return h->def->kind != UW_LOSS_CROSS_ENTROPY || h->def->target != UW_TARGET_LABEL;
}

/* Whether samples count by the weights of their classes. */
static bool is_weighted(const struct uw_model *m, const struct uw_labelled *s,
                        const struct uw_head *h)
{
    return m->class_weights != NULL && s->pass->training && uw_parts.weighing->weighs(m, h);
}

UW_STEP_PART int uw_loss_forward(struct uw_model *m, const struct uw_labelled *s,
                                 const struct uw_head *h,
                                 double *loss, uint32_t *correct_n)
{
    if (is_weighted(m, s, h)) {
        return uw_parts.weighing->forward(m, s, h, buffer_of(m, h), loss, correct_n);
    }
    if (is_elementwise(h)) {
        return uw_parts.elementwise->forward(m, s, h, buffer_of(m, h), loss, correct_n);
    }
    return m->config.kernels->softmax_xent_fw(&m->exec, s->pass->batch_n, h->n,
                                              h->def->label_smoothing,
                                              uw_value_of(m, h->value, s->x),
                                              s->b->label + s->pass->first, buffer_of(m, h), loss,
                                              correct_n);
}

int uw_losses_forward(struct uw_model *m, const struct uw_labelled *s, uint32_t heads_n,
                      double *loss, uint32_t *correct_n)
{
    int rc = UW_OK;
    *loss = 0.0;
    for (uint32_t i = 0; i < heads_n && rc == UW_OK; i++) {
        double one = 0.0;
        uint32_t correct = 0;
        rc = uw_loss_forward(m, s, &m->heads[i], &one, &correct);
        *loss += uw_loss_weight(m->heads[i].def) * one;
        *correct_n = i == 0 ? correct : *correct_n;
    }
    return rc;
}

int uw_losses_backward(struct uw_model *m, const struct uw_labelled *s, uint32_t n)
{
    int rc = UW_OK;

    for (uint32_t i = 0; i < m->heads_n && rc == UW_OK; i++) {
        const struct uw_head *h = &m->heads[i];
        float *dy = uw_loss_gradient(m, h);
        double scale = uw_loss_weight(h->def) / n;
        if (dy == NULL) {
            continue;
        }
        if (is_weighted(m, s, h)) {
            rc = uw_parts.weighing->backward(m, s, h, uw_loss_weight(h->def), dy);
        } else if (is_elementwise(h)) {
            rc = uw_parts.elementwise->backward(m, s, h, scale, dy);
        } else {
            rc = m->config.kernels->softmax_xent_bw_input(&m->exec, s->pass->batch_n, h->n,
                                                          h->def->label_smoothing, dy,
                                                          s->b->label + s->pass->first,
                                                          (float)scale, dy);
        }
    }
    return rc;
}

int uw_losses_check(const struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err)
{
    for (uint32_t h = 0; h < m->heads_n; h++) {
        const struct uw_loss_def *d = m->heads[h].def;
        if (d->target == UW_TARGET_VALUES && b->target == NULL) {
            return uw_error_set(err, UW_ERR_INVALID, "the loss wants target values, there are "
                                "none");
        }
        if (d->target != UW_TARGET_LABEL) {
            int rc = uw_parts.elementwise->check_values(m, b, &m->heads[h], err);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        if (b->label == NULL) {
            return uw_error_set(err, UW_ERR_INVALID, "the loss needs labels");
        }
        for (uint32_t i = 0; i < b->n; i++) {
            if (b->label[i] >= m->heads[h].n) {
                return uw_error_set(err, UW_ERR_INVALID, "label %u: the model has %u classes",
                                    (unsigned)b->label[i], (unsigned)m->heads[h].n);
            }
        }
    }
    return UW_OK;
}
