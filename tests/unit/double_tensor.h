/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge in double for operators on tensors; included by double_model.h. An element is found by
 * its coordinates: the minibatch and four axes, aligned at the last one. */
#ifndef UWASA_TEST_DOUBLE_TENSOR_H
#define UWASA_TEST_DOUBLE_TENSOR_H

#include "double_operators.h"

#include "uwasa/parts.h"

#define DOUBLE_AXES 5

/* Sizes with the minibatch first; missing axes are 1. */
static inline void double_sizes(const struct uw_shape *s, uint32_t n, uint32_t dim[DOUBLE_AXES])
{
    const uint32_t axes[4][4] = {{1, 1, 1, s->c}, {1, 1, s->c, s->w}, {1, s->c, s->h, s->w},
                                 {s->c, s->d, s->h, s->w}};
    dim[0] = n;
    memcpy(dim + 1, axes[s->rank - 1], sizeof axes[0]);
}

static inline size_t double_count(const uint32_t dim[DOUBLE_AXES])
{
    size_t n = 1;
    for (int i = 0; i < DOUBLE_AXES; i++) {
        n *= dim[i];
    }
    return n;
}

static inline void double_place(size_t index, const uint32_t dim[DOUBLE_AXES],
                                uint32_t at[DOUBLE_AXES])
{
    for (int i = DOUBLE_AXES; i-- > 0;) {
        at[i] = (uint32_t)(index % dim[i]);
        index /= dim[i];
    }
}

/* Index of the element; axes of size 1 are repeated. */
static inline size_t double_index(const uint32_t at[DOUBLE_AXES], const uint32_t dim[DOUBLE_AXES])
{
    size_t index = 0;
    for (int i = 0; i < DOUBLE_AXES; i++) {
        index = index * dim[i] + (dim[i] == 1 ? 0 : at[i]);
    }
    return index;
}

/* Shape and number of samples of the layer's input k. */
static inline void double_input(const struct double_model *d, const struct uw_layer *l, uint32_t k,
                                uint32_t n, uint32_t dim[DOUBLE_AXES])
{
    const struct uw_shape in = uw_graph_input(d->m->config.def);
    const struct uw_shape *s = l->input[k] == 0 ? &in : &d->m->layers[l->input[k] - 1].out;
    double_sizes(s, (l->shared_inputs & 1u << k) != 0 ? 1 : n, dim);
}

static inline void double_transpose(const struct double_model *d, const struct uw_layer *l,
                                    uint32_t n, double *y)
{
    uint32_t in[DOUBLE_AXES], out[DOUBLE_AXES], to[DOUBLE_AXES], first = 5 - l->in.rank;
    double_input(d, l, 0, n, in);
    double_sizes(&l->out, n, out);
    for (size_t i = 0; i < double_count(out); i++) {
        uint32_t from[DOUBLE_AXES] = {0};
        double_place(i, out, to);
        from[0] = to[0];
        for (uint32_t a = 0; a < l->in.rank; a++) {
            from[first + l->def->transpose.order[a]] = to[first + a];
        }
        y[i] = d->value[l->input[0]][double_index(from, in)];
    }
}

static inline void double_arithmetic(const struct double_model *d, const struct uw_layer *l,
                                     uint32_t n, double *y)
{
    uint32_t out[DOUBLE_AXES], a[DOUBLE_AXES], b[DOUBLE_AXES], at[DOUBLE_AXES];
    enum uw_arithmetic_op op = l->def->kind == UW_LAYER_ADD ? UW_ARITHMETIC_ADD
                                                            : l->def->arithmetic.op;
    double_sizes(&l->out, n, out);
    double_input(d, l, 0, n, a);
    double_input(d, l, 1, n, b);
    for (size_t i = 0; i < double_count(out); i++) {
        double_place(i, out, at);
        y[i] = double_combine(op, d->value[l->input[0]][double_index(at, a)],
                              d->value[l->input[1]][double_index(at, b)]);
    }
}

static inline void double_matmul(const struct double_model *d, const struct uw_layer *l,
                                 uint32_t n, double *y)
{
    const struct uw_matmul_def *def = &l->def->matmul;
    uint32_t out[DOUBLE_AXES], a[DOUBLE_AXES], b[DOUBLE_AXES], at[DOUBLE_AXES];
    double_sizes(&l->out, n, out);
    double_input(d, l, 0, n, a);
    double_input(d, l, 1, n, b);
    for (size_t i = 0; i < double_count(out); i++) {
        double_place(i, out, at);
        y[i] = 0.0;
        for (uint32_t k = 0; k < (def->trans_a ? a[3] : a[4]); k++) {
            uint32_t left[DOUBLE_AXES], right[DOUBLE_AXES];
            memcpy(left, at, sizeof at);
            memcpy(right, at, sizeof at);
            left[3] = def->trans_a ? k : at[3];
            left[4] = def->trans_a ? at[3] : k;
            right[3] = def->trans_b ? at[4] : k;
            right[4] = def->trans_b ? k : at[4];
            y[i] += (def->scale != 0.0f ? (double)def->scale : 1.0) *
                    d->value[l->input[0]][double_index(left, a)] *
                    d->value[l->input[1]][double_index(right, b)];
        }
    }
}

/* Every element of x belongs to the element of y that has its coordinates, the reduced ones 0. */
static inline void double_reduce(const struct double_model *d, const struct uw_layer *l,
                                 uint32_t n, double *y)
{
    const struct uw_reduce_def *def = &l->def->reduce;
    uint32_t in[DOUBLE_AXES], kept[DOUBLE_AXES], at[DOUBLE_AXES];
    uint32_t axes = def->axes != 0 ? def->axes : 1;
    const double *x = d->value[l->input[0]];
    double_input(d, l, 0, n, in);
    memcpy(kept, in, sizeof in);
    double all = 1.0;
    for (uint32_t i = def->axis; i < def->axis + axes; i++) {
        uint32_t place = 5 - l->in.rank + i;
        all *= in[place];
        kept[place] = 1;
    }
    for (size_t i = 0; i < double_count(kept); i++) {
        y[i] = def->op == UW_REDUCE_MAX ? -HUGE_VAL : def->op == UW_REDUCE_MIN ? HUGE_VAL : 0.0;
    }
    for (size_t i = 0; i < double_count(in); i++) {
        double_place(i, in, at);
        double *to = &y[double_index(at, kept)];
        *to = def->op == UW_REDUCE_MAX    ? fmax(*to, x[i])
              : def->op == UW_REDUCE_MIN  ? fmin(*to, x[i])
              : def->op == UW_REDUCE_NORM ? *to + x[i] * x[i]
              : def->op == UW_REDUCE_MEAN ? *to + x[i] / all
                                          : *to + x[i];
    }
    for (size_t i = 0; i < double_count(kept) && def->op == UW_REDUCE_NORM; i++) {
        y[i] = sqrt(y[i]);
    }
}

static inline void double_softmax(const struct uw_layer *l, uint32_t n, const double *x, double *y)
{
    uint32_t width = l->in.rank == 1 ? l->in.c : l->in.w;
    for (size_t r = 0; r < (size_t)n * l->in_n / width; r++, x += width, y += width) {
        double sum = 0.0;
        for (uint32_t i = 0; i < width; i++) {
            sum += exp(x[i]);
        }
        for (uint32_t i = 0; i < width; i++) {
            y[i] = l->def->softmax.log ? x[i] - log(sum) : exp(x[i]) / sum;
        }
    }
}

static inline void double_take(const struct double_model *d, const struct uw_layer *l, uint32_t n,
                               double *y)
{
    const struct uw_take_def *def = &l->def->take;
    uint32_t in[DOUBLE_AXES], out[DOUBLE_AXES], at[DOUBLE_AXES];
    uint32_t place = 5 - l->in.rank + def->axis, taps = def->taps != 0 ? def->taps : 1;
    double_input(d, l, 0, n, in);
    double_sizes(&l->out, n, out);
    for (size_t i = 0; i < double_count(out); i++) {
        double_place(i, out, at);
        uint32_t k = at[place];
        y[i] = 0.0;
        for (uint32_t t = 0; t < taps; t++) {
            int32_t index = def->index[k * taps + t];
            at[place] = index >= 0 ? (uint32_t)index : 0;
            double w = def->weight != NULL ? (double)def->weight[k * taps + t] : 1.0;
            y[i] += index >= 0 ? w * d->value[l->input[0]][double_index(at, in)] : 0.0;
        }
    }
}

/* As double_layer_norm. */
static inline bool double_layer_tensor(const struct double_model *d, const struct uw_layer *l,
                                       uint32_t n, double *y)
{
    const double *x = d->value[l->input[0]];
    const struct uw_function_def *f = &l->def->function;
    switch (l->def->kind) {
    case UW_LAYER_PARAMETER:
        memcpy(y, double_tensor(d, l, 0), l->out_n * sizeof *y);
        return true;
    case UW_LAYER_FUNCTION:
        for (size_t i = 0; i < (size_t)n * l->out_n; i++) {
            y[i] = double_function(f->function, (double)f->a, (double)f->b, x[i]);
        }
        return true;
    case UW_LAYER_ARITHMETIC:
        double_arithmetic(d, l, n, y);
        return true;
    case UW_LAYER_MATMUL:
        double_matmul(d, l, n, y);
        return true;
    case UW_LAYER_REDUCE:
        double_reduce(d, l, n, y);
        return true;
    case UW_LAYER_SOFTMAX:
        double_softmax(l, n, x, y);
        return true;
    case UW_LAYER_TAKE:
        double_take(d, l, n, y);
        return true;
    default:
        return false;
    }
}

#endif
