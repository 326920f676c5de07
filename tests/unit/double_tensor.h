/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge in double for operators on tensors; included by double_model.h. An element is found by
 * its coordinates: the minibatch and four axes, aligned at the last one. */
#ifndef UWASA_TEST_DOUBLE_TENSOR_H
#define UWASA_TEST_DOUBLE_TENSOR_H

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

static inline double double_combine(enum uw_arithmetic_op op, double a, double b)
{
    switch (op) {
    case UW_ARITHMETIC_ADD:
        return a + b;
    case UW_ARITHMETIC_SUB:
        return a - b;
    case UW_ARITHMETIC_MUL:
        return a * b;
    case UW_ARITHMETIC_DIV:
        return a / b;
    case UW_ARITHMETIC_POW:
        return pow(a, b);
    case UW_ARITHMETIC_MIN:
        return fmin(a, b);
    case UW_ARITHMETIC_MAX:
        return fmax(a, b);
    case UW_ARITHMETIC_MASK:
        break;
    }
    return b != 0.0 ? a : 0.0;
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

static inline double double_function(const struct uw_function_def *def, double x)
{
    double a = (double)def->a, b = (double)def->b;
    switch (def->function) {
    case UW_FUNCTION_SCALE:
        return a * x + b;
    case UW_FUNCTION_ABS:
        return fabs(x);
    case UW_FUNCTION_EXP:
        return exp(x);
    case UW_FUNCTION_LOG:
        return log(x);
    case UW_FUNCTION_SQRT:
        return sqrt(x);
    case UW_FUNCTION_RECIPROCAL:
        return 1.0 / x;
    case UW_FUNCTION_SQUARE:
        return x * x;
    case UW_FUNCTION_POWER:
        return pow(x, a);
    case UW_FUNCTION_ERF:
        return erf(x);
    case UW_FUNCTION_CLIP:
        return fmin(fmax(x, a), b);
    case UW_FUNCTION_ELU:
        return x > 0.0 ? x : a * expm1(x);
    case UW_FUNCTION_SELU:
        return b * (x > 0.0 ? x : a * expm1(x));
    case UW_FUNCTION_CELU:
        return fmax(x, 0.0) + fmin(0.0, a * expm1(x / a));
    case UW_FUNCTION_SOFTPLUS:
        return log1p(exp(a * x)) / a;
    case UW_FUNCTION_SOFTSIGN:
        return x / (1.0 + fabs(x));
    case UW_FUNCTION_MISH:
        return x * tanh(log1p(exp(x)));
    case UW_FUNCTION_HARDSIGMOID:
        return fmin(fmax(a * x + b, 0.0), 1.0);
    case UW_FUNCTION_HARDSWISH:
        return x * fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0;
    case UW_FUNCTION_THRESHOLD:
        return x > a ? x : b;
    case UW_FUNCTION_SIN:
        return sin(x);
    case UW_FUNCTION_COS:
        return cos(x);
    case UW_FUNCTION_SIGN:
        return (x > 0.0) - (x < 0.0);
    case UW_FUNCTION_STEP:
        return x > a;
    case UW_FUNCTION_QUICK_GELU:
        break;
    }
    return x / (1.0 + exp(-a * x));
}

/* As double_layer_norm. */
static inline bool double_layer_tensor(const struct double_model *d, const struct uw_layer *l,
                                       uint32_t n, double *y)
{
    const double *x = d->value[l->input[0]];
    switch (l->def->kind) {
    case UW_LAYER_PARAMETER:
        memcpy(y, double_tensor(d, l, 0), l->out_n * sizeof *y);
        return true;
    case UW_LAYER_FUNCTION:
        for (size_t i = 0; i < (size_t)n * l->out_n; i++) {
            y[i] = double_function(&l->def->function, x[i]);
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
