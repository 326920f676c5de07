/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that are a sum over the elements of the output and its target. */
#include "step.h"

#include "uwasa/parts.h"

#include <string.h>

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

static int onehot(uint32_t rows, uint32_t n, const uint32_t *label, const float *z, float *t,
                  uint32_t *correct_n)
{
    write_onehot(rows, n, label, t);
    *correct_n = count_correct(rows, n, label, z);
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

static int forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *room, double *loss, uint32_t *correct_n)
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
    rc = rc < 0 ? rc : m->config.kernels->loss->forward(&m->exec, kind_of(h->def), delta_of(h->def),
                                              (size_t)rows * h->n, z, target_of(m, s, h, room),
                                              loss);
    if (d == NULL) {
        *loss /= h->n;
    }
    return rc;
}

static int backward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    float scale, float *dy)
{
    return m->config.kernels->loss->bw_input(&m->exec, kind_of(h->def), delta_of(h->def),
                                             (size_t)s->pass->batch_n * h->n,
                                             uw_value_of(m, h->value, s->x),
                                             target_of(m, s, h, dy), scale, dy);
}

const struct uw_elementwise uw_elementwise = {.forward = forward, .backward = backward};
