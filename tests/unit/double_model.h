/* SPDX-License-Identifier: Apache-2.0
 *
 * The same network in plain double loops, written from the equations: the judge of forward
 * passes, and by central differences of every gradient. Reads the bound model's geometry, none of
 * its kernels. */
#ifndef UWASA_TEST_DOUBLE_MODEL_H
#define UWASA_TEST_DOUBLE_MODEL_H

#include "graph.h"

#include <math.h>
#include <stdlib.h>

struct double_model {
    const struct uw_model *m;
    double *params;                 /* [params.size_n] */
    double **value;                 /* [layers_n + 1] of n samples */
    double *target;                 /* [n][target_n] */
};

/* Tensor t of a layer; NULL: it has none. */
static inline const double *double_tensor(const struct double_model *d, const struct uw_layer *l,
                                          uint32_t t)
{
    return t < l->tensors_n ? d->params + d->m->params.segments[l->segment + t].offset_n : NULL;
}

#include "double_image.h"
#include "double_norm.h"
#include "double_tensor.h"
#include "double_sequence.h"

static void double_conv2d(const struct uw_conv2d *g, uint32_t n, const double *x, const double *w,
                          const double *b, double *y)
{
    uint32_t ci_n = g->in_channels / g->groups, co_n = g->out_channels / g->groups;

    for (uint32_t s = 0; s < n; s++)
    for (uint32_t co = 0; co < g->out_channels; co++)
    for (uint32_t oh = 0; oh < g->out_h; oh++)
    for (uint32_t ow = 0; ow < g->out_w; ow++) {
        double sum = b != NULL ? b[co] : 0.0;
        for (uint32_t ci = 0; ci < ci_n; ci++)
        for (uint32_t kh = 0; kh < g->kernel_h; kh++)
        for (uint32_t kw = 0; kw < g->kernel_w; kw++) {
            long ih = (long)(oh * g->stride_h + kh * g->dilation_h) - (long)g->pad_h;
            long iw = (long)(ow * g->stride_w + kw * g->dilation_w) - (long)g->pad_w;
            if (ih < 0 || iw < 0 || ih >= (long)g->in_h || iw >= (long)g->in_w) {
                continue;
            }
            uint32_t c = co / co_n * ci_n + ci;
            sum += w[((co * ci_n + ci) * g->kernel_h + kh) * g->kernel_w + kw] *
                   x[((s * g->in_channels + c) * g->in_h + (uint32_t)ih) * g->in_w + (uint32_t)iw];
        }
        y[((s * g->out_channels + co) * g->out_h + oh) * g->out_w + ow] = sum;
    }
}

static void double_maxpool2d(const struct uw_pool2d *g, uint32_t n, const double *x, double *y)
{
    for (uint32_t s = 0; s < n * g->channels; s++)
    for (uint32_t oh = 0; oh < g->out_h; oh++)
    for (uint32_t ow = 0; ow < g->out_w; ow++) {
        double best = -HUGE_VAL;
        for (uint32_t kh = 0; kh < g->kernel_h; kh++)
        for (uint32_t kw = 0; kw < g->kernel_w; kw++) {
            long ih = (long)(oh * g->stride_h + kh) - (long)g->pad_h;
            long iw = (long)(ow * g->stride_w + kw) - (long)g->pad_w;
            if (ih >= 0 && iw >= 0 && ih < (long)g->in_h && iw < (long)g->in_w) {
                best = fmax(best, x[(s * g->in_h + (uint32_t)ih) * g->in_w + (uint32_t)iw]);
            }
        }
        y[(s * g->out_h + oh) * g->out_w + ow] = best;
    }
}

static void double_dense(const struct uw_dense *g, uint32_t n, const double *x, const double *w,
                         const double *b, double *y)
{
    for (uint32_t s = 0; s < n; s++)
    for (uint32_t o = 0; o < g->out; o++) {
        double sum = b != NULL ? b[o] : 0.0;
        for (uint32_t i = 0; i < g->in; i++) {
            sum += w[o * g->in + i] * x[s * g->in + i];
        }
        y[s * g->out + o] = sum;
    }
}

/* y += scale * B (A x) */
static void double_lora(const struct double_model *d, const struct uw_layer *l, uint32_t n,
                        const double *x, double *y)
{
    const struct uw_dense *g = &l->geometry.dense;
    const struct uw_adapt *adapt = &d->m->config.adapt;
    const double *a = double_tensor(d, l, l->tensors_n - 2);
    const double *b = double_tensor(d, l, l->tensors_n - 1);
    uint32_t rank = adapt->lora_rank;
    double alpha = adapt->lora_alpha != 0.0f ? (double)adapt->lora_alpha : rank;

    for (uint32_t s = 0; s < n; s++)
    for (uint32_t r = 0; r < rank; r++) {
        double t = 0.0;
        for (uint32_t i = 0; i < g->in; i++) {
            t += a[r * g->in + i] * x[s * g->in + i];
        }
        for (uint32_t o = 0; o < g->out; o++) {
            y[s * g->out + o] += alpha / rank * b[o * rank + r] * t;
        }
    }
}

static void double_layer(struct double_model *d, const struct uw_layer *l, uint32_t n)
{
    const double *x = d->value[l->input[0]];
    double *y = d->value[l->index + 1];
    const double *w = NULL, *b = NULL;
    n = l->shared ? 1 : n;
    size_t all = (size_t)n * l->out_n;

    if (l->tensors_n > 0) {
        w = d->params + d->m->params.segments[l->segment].offset_n;
        b = l->tensors_n > 1 ? d->params + d->m->params.segments[l->segment + 1].offset_n : NULL;
    }
    switch (l->def->kind) {
    case UW_LAYER_CONV2D:
        double_conv2d(&l->geometry.conv2d, n, x, w, b, y);
        break;
    case UW_LAYER_DENSE:
        b = l->def->dense.no_bias ? NULL : b;
        double_dense(&l->geometry.dense, n * (l->in_n / l->geometry.dense.in), x, w, b, y);
        if (d->m->config.adapt.lora_rank != 0) {
            double_lora(d, l, n * (l->in_n / l->geometry.dense.in), x, y);
        }
        break;
    case UW_LAYER_MAXPOOL2D:
        double_maxpool2d(&l->geometry.pool2d, n, x, y);
        break;
    case UW_LAYER_RELU:
        for (size_t i = 0; i < all; i++) {
            y[i] = x[i] > 0.0 ? x[i] : 0.0;
        }
        break;
    case UW_LAYER_FLATTEN:
        memcpy(y, x, all * sizeof(double));
        break;
    case UW_LAYER_ADD:
        if (l->ops == &uw_layer_arithmetic) {
            double_arithmetic(d, l, n, y);
            break;
        }
        memset(y, 0, all * sizeof(double));
        for (uint32_t k = 0; k < l->inputs_n; k++) {
            for (size_t i = 0; i < all; i++) {
                y[i] += d->value[l->input[k]][i];
            }
        }
        break;
    default:
        if (!double_layer_image(d, l, n, y) && !double_layer_norm(d, l, n, y) &&
            !double_layer_sequence(d, l, n, y) && !double_layer_tensor(d, l, n, y)) {
            fail_msg("double_model.h does not know layer '%s'", l->def->name);
        }
    }
}

/* Loss of one sample's row z against row t (targets) or a label. */
static double double_loss(const struct uw_loss_def *def, uint32_t n, const double *z,
                          const double *t, uint32_t label)
{
    double top = -HUGE_VAL, total = 0.0, sum = 0.0;
    double delta = def->delta != 0.0f ? (double)def->delta : 1.0;

    if (def->kind == UW_LOSS_CROSS_ENTROPY) {
        double smoothing = (double)def->label_smoothing;
        for (uint32_t c = 0; c < n; c++) {
            top = fmax(top, z[c]);
        }
        for (uint32_t c = 0; c < n; c++) {
            total += exp(z[c] - top);
        }
        for (uint32_t c = 0; c < n; c++) {
            double q = smoothing / n + (c == label ? 1.0 - smoothing : 0.0);
            sum += q * (log(total) + top - z[c]);
        }
        return sum;
    }
    for (uint32_t c = 0; c < n; c++) {
        double target = t != NULL ? t[c] : c == label ? 1.0 : 0.0;
        double e = z[c] - target, size = fabs(e);
        sum += def->kind == UW_LOSS_MSE  ? e * e
               : def->kind == UW_LOSS_L1 ? size
               : def->kind == UW_LOSS_HUBER
                   ? (size <= delta ? 0.5 * e * e : delta * (size - 0.5 * delta))
                   : fmax(z[c], 0.0) - z[c] * target + log1p(exp(-fabs(z[c])));
    }
    return sum / n;
}

/* Mean cross-entropy over the positions of n samples whose class is not below 0. */
static double double_positions_loss(const struct double_model *d, const struct uw_head *head,
                                    uint32_t n)
{
    const struct uw_layer *l = &d->m->layers[head->value - 1];
    bool last = head->def->classes_last;
    uint32_t classes = last && l->out.rank > 1 ? l->out.w : l->out.c, at_n = head->n / classes;
    double sum = 0.0, row[16];
    uint32_t counted = 0;
    for (uint32_t i = 0; i < n * at_n; i++) {
        const double *z = d->value[head->value] + i / at_n * head->n;
        double t = d->target[i / at_n * d->m->target_n + head->def->first + i % at_n];
        for (uint32_t c = 0; c < classes; c++) {
            row[c] = last ? z[i % at_n * classes + c] : z[c * at_n + i % at_n];
        }
        sum += t >= 0.0 ? double_loss(head->def, classes, row, NULL, (uint32_t)t) : 0.0;
        counted += t >= 0.0 ? 1 : 0;
    }
    return sum / counted;
}

/* Mean loss of n samples. */
static double double_model_loss(struct double_model *d, const uint32_t *label, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < d->m->layers_n; i++) {
        double_layer(d, &d->m->layers[i], n);
    }
    for (uint32_t h = 0; h < d->m->heads_n; h++) {
        const struct uw_head *head = &d->m->heads[h];
        double weight = head->def->weight != 0.0f ? (double)head->def->weight : 1.0;
        bool values = head->def->target == UW_TARGET_VALUES;
        if (values && head->def->kind == UW_LOSS_CROSS_ENTROPY) {
            sum += weight * n * double_positions_loss(d, head, n);
            continue;
        }
        for (uint32_t s = 0; s < n; s++) {
            const double *t = head->def->target == UW_TARGET_INPUT ? d->value[0] + s * head->n
                              : values ? d->target + s * d->m->target_n + head->def->first : NULL;
            sum += weight * double_loss(head->def, head->n, d->value[head->value] + s * head->n,
                                        t, label[s]);
        }
    }
    return sum / n;
}

/* x [n][sample]; target [n][target_n], may be NULL when the model wants none. */
static void double_model_init(struct double_model *d, const struct uw_model *m, uint32_t n,
                              const float *x, const float *target)
{
    d->m = m;
    d->params = calloc(m->params.size_n + 1u, sizeof(double));
    d->value = calloc(m->layers_n + 1u, sizeof(double *));
    d->target = calloc((size_t)n * m->target_n + 1u, sizeof(double));
    for (size_t i = 0; i < (size_t)n * m->target_n; i++) {
        d->target[i] = (double)target[i];
    }
    for (uint32_t i = 0; i < m->params.size_n; i++) {
        d->params[i] = (double)m->params.x[i];
    }
    for (uint32_t v = 0; v <= m->layers_n; v++) {
        size_t size = (size_t)n * (v == 0 ? m->input_n : m->layers[v - 1].out_n);
        d->value[v] = calloc(size, sizeof(double));
        for (size_t i = 0; v == 0 && i < size; i++) {
            d->value[v][i] = (double)x[i];
        }
    }
}

static void double_model_deinit(struct double_model *d)
{
    for (uint32_t v = 0; v <= d->m->layers_n; v++) {
        free(d->value[v]);
    }
    free(d->value);
    free(d->target);
    free(d->params);
}

#endif
