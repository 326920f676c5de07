/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of the operators on tensors. A value that all samples share has a minibatch axis of 1. */
#include "export.h"

/* ---- functions ---- */

static const char *with_float(struct uw_export *e, const char *op, const char *x, float value)
{
    return uw_export_op(e, op, x, uw_export_const_float(e, value));
}

/* A node with one or two float attributes. */
static const char *with_attributes(struct uw_export *e, const char *op, const char *first, float a,
                                   const char *second, float b)
{
    struct uw_export_node *n = uw_export_node(e, op, e->x, NULL, NULL);
    uw_export_float(n, first, a);
    if (second != NULL) {
        uw_export_float(n, second, b);
    }
    return n->output[0];
}

const char *uw_export_function(struct uw_export *e)
{
    static const char *const plain[] = {
        [UW_FUNCTION_ABS] = "Abs",   [UW_FUNCTION_EXP] = "Exp",
        [UW_FUNCTION_LOG] = "Log",   [UW_FUNCTION_SQRT] = "Sqrt",
        [UW_FUNCTION_ERF] = "Erf",   [UW_FUNCTION_RECIPROCAL] = "Reciprocal",
        [UW_FUNCTION_SIN] = "Sin",   [UW_FUNCTION_SOFTSIGN] = "Softsign",
        [UW_FUNCTION_COS] = "Cos",   [UW_FUNCTION_SIGN] = "Sign"};
    float a, b;
    const char *x = e->x, *y;
    uw_function_numbers(&e->def->function, &a, &b);
    switch (e->def->function.function) {
    case UW_FUNCTION_SCALE:
        y = a != 1.0f ? with_float(e, "Mul", x, a) : x;
        return b != 0.0f || y == x ? with_float(e, "Add", y, b) : y;
    case UW_FUNCTION_SQUARE:
        return uw_export_op(e, "Mul", x, x);
    case UW_FUNCTION_POWER:
        return with_float(e, "Pow", x, a);
    case UW_FUNCTION_CLIP:
        return uw_export_node(e, "Clip", x, uw_export_const_float(e, a),
                              uw_export_const_float(e, b))->output[0];
    case UW_FUNCTION_ELU:
        return with_attributes(e, "Elu", "alpha", a, NULL, 0.0f);
    case UW_FUNCTION_SELU:
        return with_attributes(e, "Selu", "alpha", a, "gamma", b);
    case UW_FUNCTION_CELU:
        return with_attributes(e, "Celu", "alpha", a, NULL, 0.0f);
    case UW_FUNCTION_SOFTPLUS:
        y = uw_export_op(e, "Softplus", a != 1.0f ? with_float(e, "Mul", x, a) : x, NULL);
        return a != 1.0f ? with_float(e, "Mul", y, 1.0f / a) : y;
    case UW_FUNCTION_MISH:
        y = uw_export_op(e, "Tanh", uw_export_op(e, "Softplus", x, NULL), NULL);
        return uw_export_op(e, "Mul", x, y);
    case UW_FUNCTION_HARDSIGMOID:
        return with_attributes(e, "HardSigmoid", "alpha", a, "beta", b);
    case UW_FUNCTION_HARDSWISH:
        y = with_attributes(e, "HardSigmoid", "alpha", 1.0f / 6.0f, "beta", 0.5f);
        return uw_export_op(e, "Mul", x, y);
    case UW_FUNCTION_THRESHOLD:
        if (b == 0.0f) {
            return with_attributes(e, "ThresholdedRelu", "alpha", a, NULL, 0.0f);
        }
        y = with_float(e, "Greater", x, a);
        return uw_export_node(e, "Where", y, x, uw_export_const_float(e, b))->output[0];
    case UW_FUNCTION_STEP: {
        struct uw_export_node *n =
            uw_export_node(e, "Cast", with_float(e, "Greater", x, a), NULL, NULL);
        uw_export_int(n, "to", 1);
        return n->output[0];
    }
    case UW_FUNCTION_QUICK_GELU:
        y = uw_export_op(e, "Sigmoid", with_float(e, "Mul", x, a), NULL);
        return uw_export_op(e, "Mul", x, y);
    default:
        return uw_export_op(e, plain[e->def->function.function], x, NULL);
    }
}

/* ---- values of two inputs ---- */

const char *uw_export_parameter(struct uw_export *e)
{
    const struct uw_segment *s = uw_export_segment(e, "");
    int64_t dim[UW_AXES_MAX + 1] = {1};
    if (s == NULL) {
        return NULL;
    }
    for (uint32_t a = 0; a < s->rank; a++) {
        dim[a + 1] = s->dim[a];
    }
    return uw_export_op(e, "Reshape", uw_export_param(e, ""),
                        uw_export_const_ints(e, s->rank + 1, dim));
}

/* The layer that a layer's input k is; UINT32_MAX: the model's input. */
static uint32_t layer_of(const struct uw_export *e, uint32_t layer, uint32_t k)
{
    const struct uw_model_def *d = e->m->config.def;
    const struct uw_layer_def *l = &d->layers[layer];
    if (l->inputs[0] == NULL) {
        return layer - 1; /* of layer 0: UINT32_MAX */
    }
    return uw_export_find_layer(d, l->inputs[k], layer);
}

/* Whether all samples share the layer's output. */
static bool is_shared(const struct uw_export *e, uint32_t layer)
{
    if (layer == UINT32_MAX) {
        return false;
    }
    const struct uw_layer_def *l = &e->m->config.def->layers[layer];
    bool shared = l->kind == UW_LAYER_PARAMETER || is_shared(e, layer_of(e, layer, 0));
    for (uint32_t k = 1; k < UW_LAYER_INPUTS_MAX && l->inputs[0] != NULL && l->inputs[k] != NULL &&
                         shared; k++) {
        shared = is_shared(e, layer_of(e, layer, k));
    }
    return shared;
}

/* Input k with as many axes as `rank`, new ones behind the minibatch. */
static const char *operand(struct uw_export *e, uint32_t k, uint32_t rank)
{
    const char *x = uw_export_value(e, e->def->inputs[k]);
    uint32_t dim[UW_AXES_MAX], own = uw_model_shape(e->m, layer_of(e, e->layer, k), dim);
    int64_t more[UW_AXES_MAX];
    for (uint32_t a = 0; a < rank; a++) {
        more[a] = a + own < rank ? 1 : dim[a + own - rank];
    }
    return own < rank ? uw_export_reshape(e, x, rank, more) : x;
}

const char *uw_export_arithmetic(struct uw_export *e)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where"};
    enum uw_arithmetic_op op = e->def->kind == UW_LAYER_ADD ? UW_ARITHMETIC_ADD
                                                            : e->def->arithmetic.op;
    const char *a = operand(e, 0, e->out.rank), *b = operand(e, 1, e->out.rank);
    if (op != UW_ARITHMETIC_MASK) {
        return uw_export_op(e, ops[op], a, b);
    }
    struct uw_export_node *holds = uw_export_node(e, "Cast", b, NULL, NULL);
    uw_export_int(holds, "to", 9);
    return uw_export_node(e, "Where", holds->output[0], a, uw_export_const_float(e, 0.0f))
        ->output[0];
}

/* Input k for each sample of the minibatch, to be joined with others. */
const char *uw_export_repeated(struct uw_export *e, uint32_t k)
{
    const char *x = uw_export_value(e, e->def->inputs[k]);
    uint32_t other = 0;
    if (!is_shared(e, layer_of(e, e->layer, k)) || is_shared(e, e->layer)) {
        return x;
    }
    while (is_shared(e, layer_of(e, e->layer, other))) {
        other++;
    }
    const char *sizes = uw_export_op(e, "Shape", uw_export_value(e, e->def->inputs[other]), NULL);
    const char *batch = uw_export_slice(e, sizes, 0, 0, 1);
    int64_t ones[UW_AXES_MAX] = {1, 1, 1, 1};
    struct uw_export_node *shape =
        uw_export_node(e, "Concat", batch, uw_export_const_ints(e, e->out.rank, ones), NULL);
    uw_export_int(shape, "axis", 0);
    return uw_export_op(e, "Expand", x, shape->output[0]);
}

const char *uw_export_products(struct uw_export *e)
{
    const struct uw_matmul_def *d = &e->def->matmul;
    uint32_t rank = e->out.rank;
    const char *x[2];
    for (uint32_t k = 0; k < 2; k++) {
        int64_t order[UW_AXES_MAX + 1];
        for (uint32_t a = 0; a <= rank; a++) {
            order[a] = a + 1 < rank ? a : a + 1 == rank ? rank : rank - 1;
        }
        x[k] = operand(e, k, rank);
        if (k == 0 ? d->trans_a : d->trans_b) {
            x[k] = uw_export_transpose(e, x[k], rank + 1, order);
        }
    }
    const char *y = uw_export_op(e, "MatMul", x[0], x[1]);
    return d->scale != 0.0f ? with_float(e, "Mul", y, d->scale) : y;
}

/* ---- along axes ---- */

const char *uw_export_reduce(struct uw_export *e)
{
    static const char *const ops[] = {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin",
                                      "ReduceL2"};
    const struct uw_reduce_def *d = &e->def->reduce;
    int64_t axes[UW_AXES_MAX], dim[UW_AXES_MAX];
    uint32_t axes_n = d->axes != 0 ? d->axes : 1;
    for (uint32_t i = 0; i < axes_n; i++) {
        axes[i] = (int64_t)d->axis + i + 1;
    }
    bool sum = d->op == UW_REDUCE_SUM; /* takes its axes as an input */
    struct uw_export_node *n = uw_export_node(
        e, ops[d->op], e->x, sum ? uw_export_const_ints(e, axes_n, axes) : NULL, NULL);
    if (!sum) {
        uw_export_ints(n, "axes", axes_n, axes);
    }
    uw_export_int(n, "keepdims", 1);
    for (uint32_t a = 0; a < e->out.rank; a++) {
        dim[a] = e->out.dim[a];
    }
    return d->keep ? n->output[0] : uw_export_reshape(e, n->output[0], e->out.rank, dim);
}

const char *uw_export_softmax(struct uw_export *e)
{
    struct uw_export_node *n =
        uw_export_node(e, e->def->softmax.log ? "LogSoftmax" : "Softmax", e->x, NULL, NULL);
    uw_export_int(n, "axis", -1);
    return n->output[0];
}

/* A Gather for each tap, times its weights. */
const char *uw_export_take(struct uw_export *e)
{
    const struct uw_take_def *d = &e->def->take;
    uint32_t taps = d->taps != 0 ? d->taps : 1;
    int64_t dim[UW_AXES_MAX] = {1, 1, 1, 1};
    const char *sum = NULL;
    dim[0] = d->n;
    for (uint32_t t = 0; t < taps; t++) {
        int64_t *index = uw_pool_take(e->pool, d->n, sizeof *index);
        float *weight = uw_pool_take(e->pool, d->n, sizeof *weight);
        bool weighted = false;
        if (index == NULL || weight == NULL) {
            e->failed = true;
            return e->x;
        }
        for (uint32_t i = 0; i < d->n; i++) {
            int32_t at = d->index[(size_t)i * taps + t];
            index[i] = at >= 0 ? at : 0;
            weight[i] = at < 0 ? 0.0f : d->weight != NULL ? d->weight[(size_t)i * taps + t] : 1.0f;
            weighted = weighted || weight[i] != 1.0f;
        }
        struct uw_export_node *n =
            uw_export_node(e, "Gather", e->x, uw_export_const_ints(e, d->n, index), NULL);
        uw_export_int(n, "axis", (int64_t)d->axis + 1);
        const char *y = n->output[0];
        if (weighted) {
            y = uw_export_op(e, "Mul", y,
                             uw_export_const_floats(e, weight, e->in.rank - d->axis, dim));
        }
        sum = sum == NULL ? y : uw_export_op(e, "Add", sum, y);
    }
    return sum;
}
