/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward part stores probabilities, or the targets of an elementwise loss, where the gradient
 * of the output will be written: in training a loss needs no memory of its own. */
#include "step.h"

#include "uwasa/parts.h"

#include <string.h>

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
    return h->def->kind != UW_LOSS_CROSS_ENTROPY;
}

/* Whether samples count by the weights of their classes. */
static bool is_weighted(const struct uw_model *m, const struct uw_labelled *s,
                        const struct uw_head *h)
{
    return m->class_weights != NULL && s->pass->training && h->n == m->classes;
}

UW_STEP_PART int uw_loss_forward(struct uw_model *m, const struct uw_labelled *s,
                                 const struct uw_head *h,
                                 double *loss, uint32_t *correct_n)
{
    if (is_elementwise(h)) {
        return uw_parts.elementwise->forward(m, s, h, buffer_of(m, h), loss, correct_n);
    }
    if (is_weighted(m, s, h)) {
        return uw_parts.weighing->forward(m, s, h, buffer_of(m, h), loss, correct_n);
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
        if (is_elementwise(h)) {
            rc = uw_parts.elementwise->backward(m, s, h, (float)(scale / h->n), dy);
        } else if (is_weighted(m, s, h)) {
            rc = uw_parts.weighing->backward(m, s, h, uw_loss_weight(h->def), dy);
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

/* ---- losses that sum over elements of output and target ---- */

static enum uw_elementwise_loss kind_of(const struct uw_loss_def *d)
{
    switch (d->kind) {
    case UW_LOSS_MSE:
        return UW_ELEMENTWISE_MSE;
    case UW_LOSS_L1:
        return UW_ELEMENTWISE_L1;
    case UW_LOSS_HUBER:
        return UW_ELEMENTWISE_HUBER;
    default:
        return UW_ELEMENTWISE_BCE;
    }
}

/* Write labels as one-hot targets t; *correct_n: rows whose largest output is the label. */
static int onehot(uint32_t rows, uint32_t n, const uint32_t *label, const float *z, float *t,
                  uint32_t *correct_n)
{
    memset(t, 0, (size_t)rows * n * sizeof(float));
    for (uint32_t i = 0; i < rows; i++, z += n) {
        uint32_t top = 0;
        for (uint32_t k = 1; k < n; k++) {
            top = z[k] > z[top] ? k : top;
        }
        *correct_n += top == label[i] ? 1 : 0;
        t[(size_t)i * n + label[i]] = 1.0f;
    }
    return UW_OK;
}

static const float *target_of(const struct uw_model *m, const struct uw_labelled *s,
                              const struct uw_head *h, const float *room)
{
    switch (h->def->target) {
    case UW_TARGET_INPUT:
        return s->x;
    case UW_TARGET_VALUES:
        return s->b->target + (size_t)s->pass->first * m->target_n;
    case UW_TARGET_LABEL:
        break;
    }
    return room;
}

static float delta_of(const struct uw_loss_def *d)
{
    return d->delta != 0.0f ? d->delta : 1.0f;
}

static int elementwise_forward(struct uw_model *m, const struct uw_labelled *s,
                               const struct uw_head *h, float *room, double *loss,
                               uint32_t *correct_n)
{
    const float *z = uw_value_of(m, h->value, s->x);
    uint32_t rows = s->pass->batch_n;
    const struct uw_device_kernels *d = uw_device(m->config.kernels);
    int rc = UW_OK;

    if (d == NULL) {
        *correct_n = 0;
    }
    if (h->def->target == UW_TARGET_LABEL) {
        const uint32_t *label = s->b->label + s->pass->first;
        rc = d != NULL ? d->onehot(&m->exec, rows, h->n, label, z, room, correct_n)
                       : onehot(rows, h->n, label, z, room, correct_n);
    }
    rc = rc < 0 ? rc
                : m->config.kernels->loss->forward(&m->exec, kind_of(h->def), delta_of(h->def),
                                                   (size_t)rows * h->n, z,
                                                   target_of(m, s, h, room), loss);
    if (d == NULL) {
        *loss /= h->n;
    }
    return rc;
}

static int elementwise_backward(struct uw_model *m, const struct uw_labelled *s,
                                const struct uw_head *h, float scale, float *dy)
{
    return m->config.kernels->loss->bw_input(&m->exec, kind_of(h->def), delta_of(h->def),
                                             (size_t)s->pass->batch_n * h->n,
                                             uw_value_of(m, h->value, s->x),
                                             target_of(m, s, h, dy), scale, dy);
}

const struct uw_elementwise uw_elementwise = {.forward = elementwise_forward,
                                             .backward = elementwise_backward};
