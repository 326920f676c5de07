/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward half leaves probabilities, or the targets of an elementwise loss, where the gradient
 * of the output will be written: no loss keeps memory of its own in training. */
#include "step.h"

#include "uwasa/parts.h"

/* Where head h may write a row of its size for each sample. */
static float *room_of(const struct uw_model *m, const struct uw_head *h)
{
    uint32_t base = uw_graph_base(m->layers, h->value);
    float *dy = base == UW_VALUE_INPUT ? NULL : m->layers[base - 1].dy;
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

UW_STEP_PART int uw_loss_forward(struct uw_model *m, const struct uw_labelled *s,
                                 const struct uw_head *h,
                                 double *loss, uint32_t *correct_n)
{
    if (is_elementwise(h)) {
        return uw_parts.elementwise->forward(m, s, h, room_of(m, h), loss, correct_n);
    }
    return m->config.kernels->softmax_xent_fw(&m->exec, s->pass->batch_n, h->n,
                                              h->def->label_smoothing,
                                              uw_value_of(m, h->value, s->x),
                                              s->b->label + s->pass->first, room_of(m, h), loss,
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
        uint32_t base = uw_graph_base(m->layers, h->value);
        float *dy = base == UW_VALUE_INPUT ? NULL : m->layers[base - 1].dy;
        double scale = uw_loss_weight(h->def) / n;
        if (dy == NULL) {
            continue;
        }
        if (is_elementwise(h)) {
            rc = uw_parts.elementwise->backward(m, s, h, (float)(scale / h->n), dy);
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
            return uw_error_set(err, UW_ERR_INVALID, "the loss wants labels, there are none");
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
