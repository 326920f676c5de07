/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge in double for shapes and sequences; included by double_model.h. */
#ifndef UWASA_TEST_DOUBLE_SEQUENCE_H
#define UWASA_TEST_DOUBLE_SEQUENCE_H

/* Sizes of a sample's axes. */
static inline void double_dims(const struct uw_shape *s, uint32_t dim[3])
{
    dim[0] = s->c;
    dim[1] = s->rank == 2 ? s->w : s->h;
    dim[2] = s->rank == 3 ? s->w : 1;
}

/* Every element of output k of a concat is found by its coordinates. */
static inline void double_concat(const struct double_model *d, const struct uw_layer *l,
                                 uint32_t n, double *y)
{
    uint32_t axis = l->def->concat.axis, out[3], first = 0;

    double_dims(&l->out, out);
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        const struct uw_shape *s = l->input[k] == 0 ? NULL : &d->m->layers[l->input[k] - 1].out;
        uint32_t in[3];
        double_dims(s != NULL ? s : &l->in, in);    /* only input 1 may be the model's */
        const double *x = d->value[l->input[k]];
        for (uint32_t b = 0; b < n; b++, x = (l->shared_inputs & 1u << k) != 0
                                                 ? d->value[l->input[k]] : x)
        for (uint32_t i = 0; i < in[0]; i++)
        for (uint32_t j = 0; j < in[1]; j++)
        for (uint32_t m = 0; m < in[2]; m++) {
            uint32_t at[3] = {i, j, m};
            at[axis] += first;
            y[((b * out[0] + at[0]) * out[1] + at[1]) * out[2] + at[2]] = *x++;
        }
        first += in[axis];
    }
}

static inline void double_slice(const struct uw_layer *l, uint32_t n, const double *x, double *y)
{
    const struct uw_slice_def *s = &l->def->slice;
    uint32_t in[3], at[3];

    double_dims(&l->in, in);
    uint32_t start = s->start < 0 ? in[s->axis] - (uint32_t)-s->start : (uint32_t)s->start;
    uint32_t end = s->length != 0 ? start + s->length : in[s->axis];
    for (uint32_t b = 0; b < n; b++)
    for (at[0] = 0; at[0] < in[0]; at[0]++)
    for (at[1] = 0; at[1] < in[1]; at[1]++)
    for (at[2] = 0; at[2] < in[2]; at[2]++, x++) {
        if (at[s->axis] >= start && at[s->axis] < end) {
            *y++ = *x;
        }
    }
}

static inline double double_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Row r of W v + b, sized [..][cols]. */
static inline double double_row(const double *w, const double *b, uint32_t r, uint32_t cols,
                                const double *v)
{
    double sum = b != NULL ? b[r] : 0.0;
    for (uint32_t i = 0; i < cols; i++) {
        sum += w[r * cols + i] * v[i];
    }
    return sum;
}

/* One sequence, straight from PyTorch's page of each layer. */
static inline void double_recurrent(const struct double_model *d, const struct uw_layer *l,
                                    const double *x, double *y)
{
    const struct uw_recurrent_def *def = &l->def->recurrent;
    const double *wi = double_tensor(d, l, 0), *wh = double_tensor(d, l, 1);
    const double *bi = double_tensor(d, l, 2), *bh = double_tensor(d, l, 3);
    uint32_t steps = l->in.c, in = l->in.w, hidden = def->hidden;
    double h[32] = {0}, c[32] = {0}, next[32];

    uint32_t gates = l->def->kind == UW_LAYER_RNN ? 1 : l->def->kind == UW_LAYER_GRU ? 3 : 4;

    assert_true(hidden <= 32);
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t t = def->reverse ? steps - 1 - i : i;
        const double *v = x + t * in;
        for (uint32_t j = 0; j < hidden; j++) {
            double gi[4] = {0}, gh[4] = {0};
            for (uint32_t g = 0; g < gates; g++) {
                gi[g] = double_row(wi, bi, g * hidden + j, in, v);
                gh[g] = double_row(wh, bh, g * hidden + j, hidden, h);
            }
            if (l->def->kind == UW_LAYER_RNN) {
                double a = gi[0] + gh[0];
                next[j] = def->relu ? fmax(a, 0.0) : tanh(a);
            } else if (l->def->kind == UW_LAYER_GRU) {
                double r = double_sigmoid(gi[0] + gh[0]), z = double_sigmoid(gi[1] + gh[1]);
                next[j] = (1.0 - z) * tanh(gi[2] + r * gh[2]) + z * h[j];
            } else {
                c[j] = double_sigmoid(gi[1] + gh[1]) * c[j] +
                       double_sigmoid(gi[0] + gh[0]) * tanh(gi[2] + gh[2]);
                next[j] = double_sigmoid(gi[3] + gh[3]) * tanh(c[j]);
            }
        }
        memcpy(h, next, hidden * sizeof *h);
        memcpy(def->last ? y : y + t * hidden, h, hidden * sizeof *h);
    }
}

static inline void double_attention(const struct double_model *d, const struct uw_layer *l,
                                    const double *x, double *y)
{
    bool biases = !l->def->attention.no_bias;
    const double *wi = double_tensor(d, l, 0), *bi = biases ? double_tensor(d, l, 1) : NULL;
    const double *wo = double_tensor(d, l, biases ? 2 : 1);
    const double *bo = biases ? double_tensor(d, l, 3) : NULL;
    uint32_t steps = l->in.c, size = l->in.w, heads = l->def->attention.heads;
    uint32_t depth = size / heads;
    double mixed[32], p[32];

    assert_true(size <= 32 && steps <= 32);
    for (uint32_t t = 0; t < steps; t++) {
        for (uint32_t f = 0; f < size; f++) {
            uint32_t first = f / depth * depth;
            uint32_t seen = l->def->attention.causal ? t + 1 : steps;
            double total = 0.0;
            for (uint32_t s = 0; s < seen; s++) {
                double dot = 0.0;
                for (uint32_t i = first; i < first + depth; i++) {
                    dot += double_row(wi, bi, i, size, x + t * size) *
                           double_row(wi, bi, size + i, size, x + s * size);
                }
                p[s] = exp(dot / sqrt((double)depth));
                total += p[s];
            }
            mixed[f] = 0.0;
            for (uint32_t s = 0; s < seen; s++) {
                mixed[f] += p[s] / total * double_row(wi, bi, 2 * size + f, size, x + s * size);
            }
        }
        for (uint32_t f = 0; f < size; f++) {
            y[t * size + f] = double_row(wo, bo, f, size, mixed);
        }
    }
}

/* y = layer l of n samples. Returns false when the layer is not of this file's kinds. */
static inline bool double_layer_sequence(struct double_model *d, const struct uw_layer *l,
                                         uint32_t n, double *y)
{
    const double *x = d->value[l->input[0]];
    uint32_t size = l->def->embedding.size;

    switch (l->def->kind) {
    case UW_LAYER_CONCAT:
        double_concat(d, l, n, y);
        return true;
    case UW_LAYER_RESHAPE:
        memcpy(y, x, (size_t)n * l->out_n * sizeof *y);
        return true;
    case UW_LAYER_TRANSPOSE:
        double_transpose(d, l, n, y);
        return true;
    case UW_LAYER_SLICE:
        double_slice(l, n, x, y);
        return true;
    case UW_LAYER_EMBEDDING:
        for (size_t i = 0; i < (size_t)n * l->out_n; i++) {
            y[i] = double_tensor(d, l, 0)[(size_t)x[i / size] * size + i % size];
        }
        return true;
    case UW_LAYER_RNN:
    case UW_LAYER_GRU:
    case UW_LAYER_LSTM:
    case UW_LAYER_ATTENTION:
        for (uint32_t s = 0; s < n; s++) {
            const double *one = x + (size_t)s * l->in_n;
            double *to = y + (size_t)s * l->out_n;
            if (l->def->kind == UW_LAYER_ATTENTION) {
                double_attention(d, l, one, to);
            } else {
                double_recurrent(d, l, one, to);
            }
        }
        return true;
    default:
        return false;
    }
}

#endif
