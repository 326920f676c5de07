/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward half leaves probabilities, or the targets of an elementwise loss, where the gradient
 * of the output will be written: no loss keeps memory of its own in training. */
#include "step.h"

#include <string.h>

static bool is_elementwise(const struct uw_loss_def *d, enum uw_elementwise_loss *kind)
{
    *kind = UW_ELEMENTWISE_BCE;
    switch (d->kind) {
    case UW_LOSS_CROSS_ENTROPY:
        return false;
    case UW_LOSS_BINARY_CROSS_ENTROPY:
        break;
    case UW_LOSS_MSE:
        *kind = UW_ELEMENTWISE_MSE;
        break;
    case UW_LOSS_L1:
        *kind = UW_ELEMENTWISE_L1;
        break;
    case UW_LOSS_HUBER:
        *kind = UW_ELEMENTWISE_HUBER;
        break;
    }
    return true;
}

/* Where head h may write a row of its size for each sample. */
static float *room_of(const struct uw_model *m, const struct uw_head *h)
{
    uint32_t base = uw_graph_base(m->layers, h->value);
    float *dy = base == UW_VALUE_INPUT ? NULL : m->layers[base - 1].dy;
    return dy != NULL ? dy : m->probabilities;
}

static void write_onehot(uint32_t rows, uint32_t n, const uint32_t *label, float *t)
{
    memset(t, 0, (size_t)rows * n * sizeof(float));
    for (uint32_t i = 0; i < rows; i++) {
        t[(size_t)i * n + label[i]] = 1.0f;
    }
}

static uint32_t count_correct(uint32_t rows, uint32_t n, const uint32_t *label, const float *z)
{
    uint32_t correct = 0;
    for (uint32_t i = 0; i < rows; i++, z += n) {
        uint32_t top = 0;
        for (uint32_t k = 1; k < n; k++) {
            top = z[k] > z[top] ? k : top;
        }
        correct += top == label[i] ? 1 : 0;
    }
    return correct;
}

static const float *target_of(const struct uw_model *m, const struct uw_labelled *s,
                              const struct uw_head *h)
{
    switch (h->def->target) {
    case UW_TARGET_INPUT:
        return s->x;
    case UW_TARGET_VALUES:
        return s->b->target + (size_t)s->pass->first * m->target_n;
    case UW_TARGET_LABEL:
        break;
    }
    return room_of(m, h);
}

static float delta_of(const struct uw_loss_def *d)
{
    return d->delta != 0.0f ? d->delta : 1.0f;
}

static double weight_of(const struct uw_loss_def *d)
{
    return d->weight != 0.0f ? (double)d->weight : 1.0;
}

static int head_forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                        double *loss, uint32_t *correct_n)
{
    const struct uw_kernels *k = m->config.kernels;
    const uint32_t *label = s->b->label != NULL ? s->b->label + s->pass->first : NULL;
    const float *z = uw_value_of(m, h->value, s->x);
    uint32_t rows = s->pass->batch_n;
    enum uw_elementwise_loss kind;

    if (!is_elementwise(h->def, &kind)) {
        return k->softmax_xent_fw(&m->exec, rows, h->n, h->def->label_smoothing, z, label,
                                  room_of(m, h), loss, correct_n);
    }
    *correct_n = 0;
    if (h->def->target == UW_TARGET_LABEL) {
        write_onehot(rows, h->n, label, room_of(m, h));
        *correct_n = count_correct(rows, h->n, label, z);
    }
    int rc = k->loss->forward(&m->exec, kind, delta_of(h->def), (size_t)rows * h->n, z,
                              target_of(m, s, h), loss);
    *loss /= h->n;
    return rc;
}

int uw_losses_forward(struct uw_model *m, const struct uw_labelled *s, uint32_t heads_n,
                      double *loss, uint32_t *correct_n)
{
    int rc = UW_OK;
    *loss = 0.0;
    for (uint32_t i = 0; i < heads_n && rc == UW_OK; i++) {
        double one = 0.0;
        uint32_t correct = 0;
        rc = head_forward(m, s, &m->heads[i], &one, &correct);
        *loss += weight_of(m->heads[i].def) * one;
        *correct_n = i == 0 ? correct : *correct_n;
    }
    return rc;
}

int uw_losses_backward(struct uw_model *m, const struct uw_labelled *s, uint32_t n)
{
    const struct uw_kernels *k = m->config.kernels;
    int rc = UW_OK;

    for (uint32_t i = 0; i < m->heads_n && rc == UW_OK; i++) {
        const struct uw_head *h = &m->heads[i];
        uint32_t base = uw_graph_base(m->layers, h->value);
        float *dy = base == UW_VALUE_INPUT ? NULL : m->layers[base - 1].dy;
        uint32_t rows = s->pass->batch_n;
        float scale = (float)(weight_of(h->def) / n);
        enum uw_elementwise_loss kind;
        if (dy == NULL) {
            continue;
        }
        if (is_elementwise(h->def, &kind)) {
            rc = k->loss->bw_input(&m->exec, kind, delta_of(h->def), (size_t)rows * h->n,
                                   uw_value_of(m, h->value, s->x), target_of(m, s, h),
                                   (float)(weight_of(h->def) / n / h->n), dy);
        } else {
            rc = k->softmax_xent_bw_input(&m->exec, rows, h->n, h->def->label_smoothing, dy,
                                          s->b->label + s->pass->first, scale, dy);
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
