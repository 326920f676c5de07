/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge in double for normalization, activations and dropout; included by double_model.h. */
#ifndef UWASA_TEST_DOUBLE_NORM_H
#define UWASA_TEST_DOUBLE_NORM_H

/* y[i] = (x[i] - mean) / sqrt(variance + epsilon) for the values i for which group(i) is g. */
static inline void double_normalize(size_t all, size_t groups, const uint32_t *group,
                                    double epsilon, const double *x, double *y)
{
    for (size_t g = 0; g < groups; g++) {
        double n = 0.0, mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < all; i++) {
            n += group[i] == g;
            mean += group[i] == g ? x[i] : 0.0;
        }
        for (size_t i = 0; i < all; i++) {
            double d = x[i] - mean / n;
            variance += group[i] == g ? d * d : 0.0;
        }
        for (size_t i = 0; i < all; i++) {
            if (group[i] == g) {
                y[i] = (x[i] - mean / n) / sqrt(variance / n + epsilon);
            }
        }
    }
}

static inline void double_norm(struct double_model *d, const struct uw_layer *l, uint32_t n,
                               const double *x, double *y)
{
    const struct uw_norm_def *def = &l->def->norm;
    uint32_t plane = l->in.h * l->in.w, channels = l->in.c;
    uint32_t axes = def->axes != 0 ? def->axes : 1;
    uint32_t row = l->in.w * (axes > 1 || l->in.rank == 1 ? l->in.h : 1);
    size_t all = (size_t)n * l->in_n;
    double epsilon = def->epsilon != 0.0f ? (double)def->epsilon : (double)1e-5f;
    const double *gamma = def->no_affine ? NULL : double_tensor(d, l, 0);
    const double *beta = def->no_affine ? NULL : double_tensor(d, l, 1);
    uint32_t *group = calloc(all, sizeof *group);

    row = axes == l->in.rank ? l->in_n : row;
    for (size_t i = 0; i < all; i++) {
        uint32_t c = (uint32_t)(i / plane % channels), s = (uint32_t)(i / l->in_n);
        uint32_t of_groups = (s * channels + c) * def->groups / channels;
        group[i] = l->def->kind == UW_LAYER_BATCHNORM   ? c
                   : l->def->kind == UW_LAYER_GROUPNORM ? of_groups
                                                        : (uint32_t)(i / row);
    }
    if (l->def->kind == UW_LAYER_BATCHNORM && l->def->frozen) {
        const double *mean = double_tensor(d, l, l->tensors_n - 2);
        const double *variance = double_tensor(d, l, l->tensors_n - 1);
        for (size_t i = 0; i < all; i++) {
            y[i] = (x[i] - mean[group[i]]) / sqrt(variance[group[i]] + epsilon);
        }
    } else {
        double_normalize(all, group[all - 1] + 1, group, epsilon, x, y);
    }
    for (size_t i = 0; i < all && gamma != NULL; i++) {
        size_t w = l->def->kind == UW_LAYER_LAYERNORM ? i % row : i / plane % channels;
        y[i] = gamma[w] * y[i] + beta[w];
    }
    free(group);
}

static inline void double_lrn(const struct uw_layer *l, uint32_t n, const double *x, double *y)
{
    const struct uw_lrn_def *d = &l->def->lrn;
    long plane = (long)(l->in.h * l->in.w), channels = (long)l->in.c, size = (long)d->size;
    double alpha = d->alpha != 0.0f ? (double)d->alpha : 1e-4;
    double beta = d->beta != 0.0f ? (double)d->beta : 0.75, k = d->k != 0.0f ? (double)d->k : 1.0;

    for (long i = 0; i < (long)n * channels * plane; i++) {
        long c = i / plane % channels;
        double sum = 0.0;
        for (long w = c - size / 2; w <= c + (size - 1) / 2; w++) {
            double v = w >= 0 && w < channels ? x[i + (w - c) * plane] : 0.0;
            sum += v * v;
        }
        y[i] = x[i] / pow(k + alpha / (double)size * sum, beta);
    }
}

static inline double double_activation(const struct uw_layer_def *def, double x)
{
    double slope = def->activation.slope != 0.0f ? (double)def->activation.slope : (double)0.01f;

    switch (def->kind) {
    case UW_LAYER_RELU6:
        return fmin(fmax(x, 0.0), 6.0);
    case UW_LAYER_LEAKY_RELU:
        return x > 0.0 ? x : slope * x;
    case UW_LAYER_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case UW_LAYER_TANH:
        return tanh(x);
    case UW_LAYER_GELU:
        return def->activation.tanh
                   ? 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)))
                   : 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    default:
        return x / (1.0 + exp(-x));
    }
}

/* The mask of the training step before. */
static inline void double_dropout(const struct double_model *d, const struct uw_layer *l,
                                  uint32_t n, const double *x, double *y)
{
    uint64_t key = uw_rng_mix(uw_rng_mix(d->m->seed, d->m->updates - 1), l->index);
    double rate = (double)l->def->dropout.rate;

    for (size_t i = 0; i < (size_t)n * l->in_n; i++) {
        bool kept = (double)(uw_rng_mix(key, i) >> 40) / 16777216.0 >= rate;
        y[i] = kept ? x[i] / (1.0 - rate) : 0.0;
    }
}

/* y = layer l of n samples. Returns false when the layer is not of this file's kinds. */
static inline bool double_layer_norm(struct double_model *d, const struct uw_layer *l, uint32_t n,
                                     double *y)
{
    const double *x = d->value[l->input[0]];

    switch (l->def->kind) {
    case UW_LAYER_BATCHNORM:
    case UW_LAYER_GROUPNORM:
    case UW_LAYER_LAYERNORM:
        double_norm(d, l, n, x, y);
        return true;
    case UW_LAYER_LRN:
        double_lrn(l, n, x, y);
        return true;
    case UW_LAYER_DROPOUT:
        double_dropout(d, l, n, x, y);
        return true;
    case UW_LAYER_RELU6:
    case UW_LAYER_LEAKY_RELU:
    case UW_LAYER_SIGMOID:
    case UW_LAYER_TANH:
    case UW_LAYER_GELU:
    case UW_LAYER_SILU:
        for (size_t i = 0; i < (size_t)n * l->in_n; i++) {
            y[i] = double_activation(l->def, x[i]);
        }
        return true;
    default:
        return false;
    }
}

#endif
